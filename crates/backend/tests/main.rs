//! A backend over engines: its contract, what it asks of the engine and of files, and what is left after every fault.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod contract;
mod descriptors;
mod engine;
mod faults;
mod files;
mod power;
mod support;
mod waiting;
