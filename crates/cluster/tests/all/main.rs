//! Nodes of a cluster as programs have them: real sockets on loopback, TLS, gossip, and caches on disk.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod alone;
mod calls;
mod hostile;
mod support;
mod together;
