//! Replays of what a browser asked of its cache (sections 4.1 and 4.2 of the paper on the log-structured cache), on any
//! backend, over a modelled disk in virtual time or over a real one.

mod driver;
mod kind;
mod stand;

pub use driver::{Replayed, replay};
pub use kind::Kind;
pub use stand::{Disk, DiskKind, Stand};
