//! A caching forward and reverse proxy on Pingora.
//!
//! A connection goes through these rooms:
//!
//! - `front`: reads each request head raw, judges it, and either answers, opens a tunnel, or hands it to Pingora
//! - `rules`: who may ask for what, and which destinations clients of a forward proxy may reach
//! - `routes`: which origin a reverse proxy asks
//! - `origin`: from a name to checked addresses, and how to talk to them
//! - `phases`: what happens at each step of a request that Pingora carries out: key, storing, headers, failures
//! - `access`: the access log
//! - [`admin`]: forgetting a URL, and what the cache holds, also while it runs
//!
//! [`serve`] is all that a program needs; [`Server`] is for those who stop it by other means than a signal.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

mod access;
pub mod admin;
mod config;
mod failure;
mod front;
mod origin;
mod page;
mod phases;
mod routes;
mod rules;
mod serve;
mod shared;

pub use config::{Config, Limits, Listener, Mode};
pub use origin::{BadOrigin, OriginUrl};
pub use routes::{BadRoutes, Route, Routes};
pub use rules::{Action, BadCidr, BadPorts, Cidr, Ports, Rule, Rules};
pub use serve::{ServeError, Server, check, serve};
pub use tinaja_logs::Format as LogFormat;

/// The cache's storage: a store that lives as long as the program.
pub type Storage = &'static tinaja_pingora::TinajaStorage;
