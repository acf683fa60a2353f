//! Calls as POSIX has them, over a store on disk: what they do, and that no misuse goes unanswered.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod groups;
mod misuse;
mod reading;
mod support;
