//! What takes processes of its own: caches that are killed, opened under another clock or short of memory, and file systems
//! whose power is cut. In a program apart from the other tests, which close caches and open them again at once: a process that
//! is being started has all open files of this one until it runs, and with them the claims to such caches. No test here minds:
//! its caches are those of the processes, or lie on a file system that is only mounted again once nobody has a file of it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

// Parts of these are for other tests.
#[path = "../support/failing_disk.rs"]
mod failing_disk;
#[allow(dead_code)]
#[path = "../own_engines/grouped.rs"]
mod grouped;
#[path = "../support/image.rs"]
mod image;
#[path = "../support/mod.rs"]
mod support;
#[allow(dead_code)]
#[path = "../own_engines/tree.rs"]
mod tree;

mod below;
mod clock;
mod kill;
mod power_real;
mod pressure;
mod rights;
