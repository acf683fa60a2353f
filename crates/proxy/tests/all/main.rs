//! What the proxy does over real sockets, with origins and clients of the tests' own. One program, so that it links once.
//!
//! What looks at the whole process stands beside it, in programs of their own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, missing_docs)]

#[path = "../frames/mod.rs"]
mod frames;
mod parsers;
mod script;
mod streams;
#[path = "../support/mod.rs"]
mod support;

mod attacks;
mod bans;
mod beginnings;
mod beginnings_named;
mod beginnings_over;
mod broken_hits;
mod cache_rules;
mod caching;
mod cancelling;
mod client_limits;
mod clock_put_back;
mod collapsing;
mod destinations;
mod dripping;
mod encodings;
mod encodings_counted;
mod encodings_kept;
mod encodings_mixed;
mod failures;
mod forwarding;
mod framing;
mod front;
mod groups;
mod grpc;

mod helpers;
mod hops;
mod http2;
mod http2_cases;
mod idle;
mod intercept;
mod key_rules;
mod key_rules_held;
mod large_ranges;
mod lean;
mod lean_http2;
mod leaving;
mod letter;
mod listeners;
mod mirrors_learned;
mod mirrors_relearned;
mod offline;
mod origins_http2;
mod overwritten;
mod parts;
mod passing;
mod proxy_protocol;
mod purging;
mod purging_by_form;
mod quiet_tunnels;
mod rest_unknown;
mod semantics;
mod serving;
mod several_origins;
mod slow_http2;
mod stuck_store;
mod thin_links;
mod trusted_proxies;
mod upgrades;
