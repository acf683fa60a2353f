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
}
