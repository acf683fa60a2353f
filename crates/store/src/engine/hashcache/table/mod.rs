//! HashCache with a Disk Table (sections 3.1 to 3.3): **Basic**, **Set**, **SetMem** and **SetMemLRU**.
//!
//! An object's digest names its set, and so where on the disk it lies: memory need not say. A bin holds the whole record
//! of a small object. Of a larger one it holds name, head, the beginning of the body and where in a circular log the rest
//! lies, so whoever wants the beginning needs the bin alone; a name and head that do not fit either lie in the log with all
//! of the body, and the bin says where.
//!
//! | policy | ways | memory says of a set | a hit | a write | a miss |
//! |---|---|---|---|---|---|
//! | Basic | 1 | nothing | 1 read of a bin | 1 write | 1 read of a bin |
//! | Set | 8, or 4, or 2 | nothing | 1 read of a set | 1 write, after a lookup of the same set | 1 read of a set |
//! | SetMem | as Set | fingerprints and ranks of every set | 1 read of a bin | 1 write | none but for false positives |
//! | SetMemLRU | as Set | those of the sets used last | 1 read | 1 write, after a lookup | 1 read of a set not in memory |
//!
//! Invariants, and why nothing older comes to light though bins are written over in place:
//! - A set holds one version of an object: a newer one takes the way of the older. So before a set is written to, what
//!   it holds is known, from the index or from a read of it. Only Basic needs not know: there is one way.
//! - A newer version's write evicts the older one: should the power go meanwhile, the bin is torn, and empty.
//! - A removal writes over the bin, and is answered when that lasts. One that cannot be written is kept in memory.
//! - A bin whose write failed, or whose sync did, is empty, and is written over with the next write to its set.
//! - The index of SetMem is believed after a clean stop only. After any other end nothing is known of any set, and each
//!   is read when it is first asked for: the disk says what it holds, so there is nothing to repair.
//! - A disk that says it wrote a bin and did not leaves the older one there, whole: in place nothing tells. The policies
//!   with a log alone notice that.
//!
//! # Decisions
//!
//! What sections 3.1 to 3.5 leave open, and our answer:
//!
//! - **What of a larger object lies in its bin?** Name, head, where the rest lies, and as much of the beginning of the body
//!   as fits, but for 128 bytes. So the beginning takes one read, nothing lies there twice, and a new head that is a little
//!   longer is one write of the bin.
//! - **Where does the beginning go when the head grows beyond that?** Into the log, with the head, until the object is stored
//!   anew. That is rare, needs no read of the rest, and moves no bytes but the bin's own.
//! - **When is the rest read?** When a reader wants more than the beginning: conditions, HEAD and the first bytes cost one
//!   read. If the rest is one piece, we read it before the reader gets a byte. An object that has lost its rest is then a
//!   miss, and not an answer that breaks off.
//! - **What is read together where bins lie apart?** The bodies that did not fit their bins. Each bin is a seek, and what
//!   lies in the log shares one: Table 4's 1 + 1/rel.
//! - **Which way does an object get without an index?** That of its fingerprint, a free one, or the one that was written
//!   longest ago. A miss has just read the set, and we remember what it found for 1,024 sets; else the write needs a read.

mod append;
mod banned;
mod clock;
mod engine;
mod figures;
pub(crate) mod limits;
mod lookup;
mod open;
mod options;
mod records;
mod rows;
mod survivors;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;

use crate::index::Row;
use crate::layout::{DiskTable, Log, SnapshotHeader};
use append::Learning;
use banned::Banned;
pub use options::{Bins, TableOptions, TablePolicy};
pub use records::{BASIC, SET, SETMEM, SETMEMLRU};
use rows::Rows;
use survivors::Survivors;

/// The engine. Memory: its rows, and what [`DiskTable`] and [`Log`] take.
pub struct HashCacheTable(Arc<Inner>);

pub(super) struct Inner {
    options: TableOptions,
    rows: Rows,
    table: Arc<DiskTable>,
    log: Arc<Log>,
    /// What of the last regions of the log a crash left.
    survivors: Survivors,
    /// Sets that are being read because they are to be written to.
    learning: Mutex<HashMap<u64, Learning>>,
    banned: Banned,
    snapshot: Mutex<SnapshotHeader>,
    /// The number of the first bin that this process writes; places count from it.
    first_order: u64,
    damaged_at_open: u64,
    false_reads: AtomicU64,
    lost_to_full_sets: AtomicU64,
}

impl Inner {
    fn ways(&self) -> usize {
        self.options.table.ways
    }

    fn set_of(&self, id_low: u64) -> u64 {
        self.options.table.set_of(id_low)
    }

    fn fingerprint(&self, id_low: u64) -> u16 {
        Row::fingerprint(id_low, self.options.hash_bits)
    }

    fn first_bin(&self, set: u64) -> u64 {
        self.options.table.first_bin(set)
    }
}
