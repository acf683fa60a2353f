//! What the tests and benchmarks of several crates share: origins that misbehave on request, clients that see every byte, load
//! in which nothing may fail, and real servers that die with the test.
//!
//! What goes wrong here panics: it is a test that fails. Nothing outside loopback is asked for anything.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "for tests")]

pub mod body;
pub mod client;
pub mod halting;
pub mod load;
pub mod network;
pub mod nginx;
pub mod origin;
pub mod port;
pub mod process;
pub mod tls;
pub mod tools;
pub mod wait;
