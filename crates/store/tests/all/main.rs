//! What the store does, over disks in memory and files on a real one. One program, so that it links once.
//!
//! No test here starts a process: until that runs it has all open files of this one, and with them the claims to caches that
//! other tests close and open again. Such tests are in `processes` and `raw_device`; what counts the memory or the requests of
//! the whole process has a program of its own too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

// First: its macros are for those behind it.
#[macro_use]
#[path = "../support/mod.rs"]
mod support;

mod ahead;
mod bits;
mod bits_engines;
mod broken;
mod cern;
mod disks;
mod elevator;
mod engine_files;
mod engines;
mod epochs;
mod external;
mod external_limits;
mod faults;
mod first_part;
mod found_limits;
mod found_lost;
mod found_unread;
mod found_waiting;
mod generational;
mod geometry;
mod hash_bits;
mod hot_long;
mod index_on_disk;
mod io_engines;
mod larger;
mod mapped;
mod one_of_two_disks;
mod opening;
#[path = "../own_engines/mod.rs"]
mod own_engines;
mod positions_apart;
mod positions_dir;
mod power;
mod power_order;
mod reference;
mod relay;
mod remake;
mod revival;
mod segmented;
mod snapshots;
mod stall;
mod table3;
mod together;
mod trees;
mod tune;
mod wrappers;
