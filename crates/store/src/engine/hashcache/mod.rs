//! HashCache (Badam, Park, Pai, Peterson, NSDI 2009): sets of slots so small that memory no longer bounds the disk.
//!
//! Two engines in several policies, made of the same parts. `table` has those with a Disk Table: Basic, Set, SetMem and
//! SetMemLRU. **HashCache-Log** (section 3.4) has none: objects lie in a circular log, written in large sequential writes,
//! and memory holds a set-associative array of 47-bit slots that say where. A hit reads the disk once, a miss not at all
//! but for fingerprints that collide, and a write costs next to no seek. LogN is Log that never reads ahead; LogLRU keeps
//! some of each set's positions in a file (`lru_index`).
//!
//! Invariants:
//! - The index is a hint. Every record read is checked against its place, lap, digest and both checksums.
//! - Candidates of one fingerprint are tried newest first, and one that cannot be verified ends the search, since
//!   those behind it may be versions that it replaced.
//! - A slot's lap has 4 bits and so repeats after 16 laps; every set is swept once a lap, so no slot lives to see it.

mod finding;
mod format;
mod index;
mod log;
mod lru_index;
mod lru_locate;
mod lru_set;
pub(crate) mod offset_layout;
mod offset_writes;
mod offsets;
mod options;
mod places;
mod policy;
mod positions;
mod recover;
pub(crate) mod snapshot;
pub(crate) mod table;
mod to_go;

use super::{answer, closing, parts};
pub use log::HashCacheLog;
pub use options::{HashCacheLogOptions, LruCut};
pub use table::{Bins, HashCacheTable, TableOptions, TablePolicy};
