//! A caching forward and reverse proxy over a Tinaja store.
//!
//! A connection goes through these rooms:
//!
//! - `front`: reads each request head raw, judges it, answers plain hits, opens tunnels, and hands on the rest
//! - `tls`: certificates, and the handshake with clients
//! - `diverted`: connections that the kernel sent here
//! - `rules`: who may ask for what, and which destinations clients of a forward proxy may reach
//! - [`intercept`]: looking into tunnels, by a CA of the operator's
//! - [`cache_rules`]: what an operator says of storing
//! - `routes`: which origin a reverse proxy asks; [`mirrors`]: sources of packages below paths of ours
//! - `exchange`: what happens between a judged request and its answer: reuse, fetching, storing, validation, ranges
//! - `stored`: names, heads and variants in the store
//! - `origin`: from a name to checked addresses, and connections to them; `client`: answers on the wire
//! - `access`: the access log; `metrics`: figures for Prometheus, and health
//! - [`admin`]: forgetting a URL, and what the cache holds, also while it runs
//!
//! [`serve`] is all that a program needs; [`Server`] is for those who stop it by other means than a signal.
//!
//! A cache must judge before anything is repaired. So `front` takes the raw stream, reads each head under a deadline, refuses
//! what is ambiguous, and only then hands the request on:
//!
//! ```text
//! client -> clients, crowd, held (a place and memory, or 429 or 503) -> front/head (raw head, 10 s) -> http::judge
//!             CONNECT -> rules -> front/intercept: leave it alone -> origin/dial -> front/relay
//!                                                  look into it: TLS ends here, and each request begins at the top again
//!             sent here by the kernel -> front/diverted: by TLS like a CONNECT to the address that the client chose
//!             HTTP/2  -> front/h2 (a task for each stream that has to wait) -> http::http2 -> http::judge, then as all else
//!             else    -> front/lean -> stored/find -> store: a plain hit goes out as it is stored
//!                        exchange -> reuse: what was found will do -> serve -> client
//!                                    flights: one asks, the others wait for the head
//!                                    ask -> origin -> fetch: keep -> store <- fill (a task of its own)
//!                                                     |               `-> serve reads along -> client
//!                                                     `- pass: what is not stored -> client
//! ```
//!
//! Tokio moves the bytes, `rustls` and `h2` speak TLS and HTTP/2.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

mod accepting;
mod access;
pub mod admin;
mod bans;
mod boxed;
pub mod cache_rules;
mod client;
mod clients;
mod coder;
mod config;
mod crowd;
mod current;
mod diverted;
mod errors;
mod exchange;
mod failure;
mod fits;
mod forgetting;
mod front;
mod group;
mod guests;
mod held;
mod ids;
pub mod intercept;
pub mod key_rules;
mod latest;
mod lifecycle;
mod limits;
mod metrics;
pub mod mirrors;
mod monitoring;
mod neighbours;
#[cfg(feature = "simulated")]
mod network;
mod nodes;
mod origin;
mod page;
mod proxy_protocol;
mod quotas;
mod remembered;
mod routes;
mod rules;
mod shared;
mod sparing;
mod storage;
mod stored;
mod stream;
mod tls;

pub use config::{Config, Forwarding, Listener, Mode};
pub use diverted::Diversion;
pub use errors::{ServeError, TakeOverError};
pub use ids::RequestIds;
pub use latest::known_clock;
#[cfg(feature = "simulated")]
pub use lifecycle::Simulated;
pub use lifecycle::{Predecessor, Reload, ReloadError, Server, Service, can_listen, check, serve};
pub use limits::Limits;
pub use metrics::{count_panics, panics};
pub use neighbours::{Neighbours, Visitor, Way};
#[cfg(feature = "simulated")]
pub use network::{Connecting, Link, Network};
pub use nodes::{Call, Nodes, OtherNode, Others};
pub use origin::{BadOrigin, Balance, Check, OriginTls, OriginUrl, Trust, Upstream};
pub use routes::{BadRoutes, Route, Routes};
pub use rules::{Action, BadCidr, BadPorts, Cidr, Ports, Rule, Rules};
pub use storage::{Opener, Storage, Switch};
pub use tinaja_http::forwarded::ChainField;
pub use tinaja_logs::Format as LogFormat;
pub use tls::{BadCertificate, CertificateFiles};
