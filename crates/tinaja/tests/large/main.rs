//! Bodies of 2 GB. In a program of their own: they keep disk, memory and processors busy for a minute, in which nothing else
//! on the machine comes to its disk in the time that other tests give it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, missing_docs)]

#[path = "../support/mod.rs"]
mod support;

mod bodies;
mod full_disk;
