//! HashCache-Log (section 3.4): an index over a circular log, written in large sequential writes.
//!
//! Memory holds a set-associative array of 47-bit slots that say where objects lie. A hit reads the disk once, a miss not at
//! all but for fingerprints that collide, and a write costs next to no seek. LogN is Log that never reads ahead; LogLRU is Log
//! over the index of the room beside this one, which keeps some of each set's positions in a file.
//!
//! Invariants:
//! - The index is a hint. Every record read is checked against its place, lap, digest and both checksums.
//! - Candidates of one fingerprint are tried newest first, and one that cannot be verified ends the search, since
//!   those behind it may be versions that it replaced.
//! - A slot's lap has 4 bits and so repeats after 16 laps; every set is swept once a lap, so no slot lives to see it.
//!
//! # Decisions
//!
//! Section 3.4 of the paper has no Disk Table, though 5.4 mentions one beside a log. We take that table for LogLRU's file of
//! positions, and build Log without any.
//!
//! A record is published in this order: we copy it into the batch and stamp it; we write its slot; the batch goes to the disk
//! in one large write. Until that write ends, lookups get the record from the batch. The region's summary follows after the
//! next sync.
//!
//! What the paper leaves open, and our answer:
//!
//! - **What do 32 bits of position count?** The smallest power of two of bytes that reaches the whole log: 1 below 4 GiB, 256
//!   at 1 TiB. On small disks records lie without gaps, and on large ones a record of 8 KiB wastes 2 % at most.
//! - **An update finds an older version in its set.** Both stay, and the older one leaves first. Without a read, the index
//!   cannot tell an older version from another object with the same 8 bits. So a probe returns several places, newest first.
//! - **A lap of 4 bits repeats after 16 laps.** Each region that begins sweeps its share of the sets, so that every set is
//!   swept once a lap. No dead slot lives long enough to look alive.
//! - **How long is a record?** A slot has no bits for that. The first read takes the mean object and half as much again, but
//!   at most 4 KiB more; a longer record costs a second, contiguous request. With objects of 6,000 bytes a hit takes 1.007
//!   reads (`docs/lab/hashcache-table3.md`).
//! - **What is the order of use after a restart?** That of the newest snapshot, and then that of writing. Ranks are not worth
//!   a write of their own.

mod engine;
mod finding;
mod format;
mod index;
pub(crate) mod limits;
mod options;
mod policy;
mod positions;
mod recover;
mod snapshot;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::{Mutex, RwLock};

use crate::engine::epoch::Epochs;
use crate::layout::{Log, SnapshotHeader, SnapshotLayout};
pub use options::HashCacheLogOptions;
use positions::Positions;

/// The engine. Cheap to clone; the last clone that goes stops the device.
pub struct HashCacheLog(Arc<Inner>);

struct Inner {
    name: &'static str,
    index: Positions,
    log: Arc<Log>,
    damaged_at_open: u64,
    mean_object_bytes: u64,
    first_read_bytes: usize,
    false_reads: AtomicU64,
    regions_swept: AtomicU64,
    /// Read while a record is appended and entered; written to learn a place before which all are entered.
    publishing: RwLock<()>,
    snapshots: Option<SnapshotLayout>,
    /// The newest snapshot on disk; locked while one is taken.
    snapshot: Mutex<SnapshotHeader>,
    epochs: Epochs,
}
