//! Proxies beside each other: real programs on a real file system on a disk that the kernel limits, asked over sockets.
//!
//! Everything else in the laboratory runs engines over modelled disks. Here whole proxies run, ours and others, each in its
//! turn and alone:
//!
//! - [`Bench`] makes what a proxy runs on, a limited disk and a limited group of processes, and takes it away again
//!   whatever happens;
//! - [`Server`] starts one of the proxies there;
//! - [`Origin`] gives the objects that it does not have;
//! - [`Clients`] ask for them, driven by [`fill`], [`flat_out`] and [`timed`], and judge each answer;
//! - [`Crowd`] is several proxies as one cache, in [`Places`]: machines of their own, as far as one machine can have such;
//! - [`DiskCount`], [`ProcessCount`] and, of both with the answers, [`Phase`] are what the kernel says that it cost.
//!
//! [`field`] is the whole field side by side, as reverse proxies with settings in files, also without root.
//!
//! The disk is a loop device with a file system on it, by default ext4, and the group of processes a control group. To make them takes root, so these
//! experiments are left out of `tinaja lab all`.

mod address;
mod bench;
mod body;
mod cleaner;
mod client;
mod counters;
mod crowd;
pub mod field;
mod limits;
mod load;
mod origin;
mod phase;
mod places;
mod servers;
mod service;

pub use address::free_address;
pub use bench::{Bench, BenchOptions, FileSystem, allow_open_files, needs_root};
pub use client::{Answer, Clients};
pub use counters::{DiskCount, ProcessCount, Reclaimed, busy_s, major_faults, of_process, of_threads};
pub use crowd::{Crowd, FASTER, Kind, REBUILT_MINUTES, Room, Sharing, Told};
pub use load::{Tally, fill, flat_out, listed, percentile, timed};
pub use origin::Origin;
pub use phase::Phase;
pub use places::Places;
use servers::find;
pub use servers::{Peer, Server, Share, SquidStore};
