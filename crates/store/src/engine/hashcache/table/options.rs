//! What an engine with a Disk Table is opened with.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::rows::Rows;
use crate::index::limits::MAX_SLOTS;
use crate::index::row::ROW_WAYS;
use crate::layout::{LogLayout, SnapshotLayout, Stamp, TableLayout};

/// What memory says of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TablePolicy {
    /// One way, no index (HashCache, section 3.1).
    Basic,
    /// Sets, no index (3.2).
    Set,
    /// Sets, each with its row in memory (3.3).
    SetMem,
    /// Sets, of which so many in a hundred have their row in memory (3.3).
    SetMemLru {
        /// From 1 to 100.
        percent: u8,
    },
}

impl TablePolicy {
    /// The name users give the engine.
    pub fn name(self) -> &'static str {
        match self {
            TablePolicy::Basic => "hashcache-basic",
            TablePolicy::Set => "hashcache-set",
            TablePolicy::SetMem => "hashcache-setmem",
            TablePolicy::SetMemLru { .. } => "hashcache-setmemlru",
        }
    }

    /// Whether memory keeps bits of each object's hash.
    pub fn has_index(self) -> bool {
        matches!(self, TablePolicy::SetMem | TablePolicy::SetMemLru { .. })
    }

    /// Bins of a set where nothing else is said.
    pub fn ways(self) -> usize {
        if self == TablePolicy::Basic { 1 } else { ROW_WAYS }
    }
}

/// How the bins of a new Disk Table are cut, as far as that was said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bins {
    /// Bytes of a bin: a power of two from 4 to 64 KiB. By default the mean object size, rounded up to one.
    pub bytes: Option<u64>,
    /// Bins of a set: 2, 4 or 8; 1 for Basic, and for it alone. By default 8. A row has room for 8 whatever a set has.
    pub ways: Option<usize>,
}

/// The smallest and the largest bin.
const BIN_BYTES: RangeInclusive<u64> = 4096..=64 << 10;

impl Bins {
    /// What is wrong with bins like these in a cache of so many bytes, and what to do about it; `None` if nothing is.
    pub fn wrong(&self, policy: TablePolicy, disk_bytes: u64) -> Option<String> {
        let ways = self.ways.unwrap_or(policy.ways());
        let set_bytes = self.bytes.unwrap_or(0).saturating_mul(ways as u64);
        if set_bytes > disk_bytes {
            return Some(format!(
                "a set of {ways} bins has {set_bytes} bytes, and the cache {disk_bytes}: choose smaller bins, fewer of \
                 them in a set, or a larger cache"
            ));
        }
        if let Some(bytes) = self.bytes.filter(|bytes| !bytes.is_power_of_two() || !BIN_BYTES.contains(bytes)) {
            return Some(format!(
                "a bin cannot have {bytes} bytes: choose 4096, 8192, 16384, 32768 or 65536, or leave it out"
            ));
        }
        match (policy, self.ways) {
            (TablePolicy::Basic, Some(ways)) if ways != 1 => Some(format!(
                "hashcache-basic has one bin in a set, not {ways}: leave the number out, or choose hashcache-set"
            )),
            (TablePolicy::Basic, _) | (_, None) => None,
            (_, Some(2 | 4 | 8)) => None,
            (_, Some(ways)) => {
                Some(format!("a set cannot have {ways} bins: choose 2, 4 or 8, or leave the number out"))
            }
        }
    }
}

/// What an engine with a Disk Table is opened with.
#[derive(Clone, Copy, Debug)]
pub struct TableOptions {
    /// What memory says of the table.
    pub policy: TablePolicy,
    /// How the table is cut.
    pub table: TableLayout,
    /// How the log is cut.
    pub log: LogLayout,
    /// Where the table's state lies: whether it was closed cleanly and, for SetMem, the rows.
    pub snapshots: SnapshotLayout,
    /// The mean object size that the disk was cut for.
    pub mean_object_bytes: u64,
    /// Bits of hash in a row, 8 to 16.
    pub hash_bits: u8,
    /// Seeds the checksums.
    pub stamp: Stamp,
    /// Whether what lies in the log of related objects is read together (section 3.5). Default false.
    pub reads_ahead: bool,
    /// How often what was written is synced without being asked.
    pub flush_every: Option<Duration>,
    /// Nothing is written; appends are refused.
    pub read_only: bool,
}

impl TableOptions {
    /// How a disk of `bytes`, of which the first `reserved` are taken, is shared between table and log for objects of
    /// such a mean size. A bin is the mean rounded up to a power of two, from 4 to 64 KiB, if `bins` say nothing else; for
    /// each there is half a mean of log, since most objects fit their bin and the few that do not are long. `None` if the
    /// disk is too small, or the bins are [`Bins::wrong`].
    pub fn plan(
        policy: TablePolicy,
        bins: Bins,
        bytes: u64,
        reserved: u64,
        mean_object_bytes: u64,
        (stamp, hash_bits): (Stamp, u8),
    ) -> Option<TableOptions> {
        let mean = mean_object_bytes.clamp(1, 64 << 10);
        if bins.wrong(policy, bytes).is_some() {
            return None;
        }
        let ways = bins.ways.unwrap_or(policy.ways());
        let block_bytes = bins.bytes.unwrap_or(mean.next_power_of_two().max(4096));
        let each = block_bytes + (block_bytes / 2).max(mean_object_bytes / 2) + 4;
        let sets = (bytes.saturating_sub(reserved) / each).min(MAX_SLOTS) / ways as u64;
        let (snapshots, table) = Self::table((policy, hash_bits), sets, ways, block_bytes, reserved)?;
        let base = table.base + table.bytes();
        let log = LogLayout::new(base, bytes.checked_sub(base)?, 4096)?;
        Some(TableOptions {
            policy,
            table,
            log,
            snapshots,
            mean_object_bytes,
            hash_bits,
            stamp,
            reads_ahead: false,
            flush_every: None,
            read_only: false,
        })
    }

    /// Options for a disk that was cut before, into so many bins of so many bytes, so many to a set (0: by default), and this
    /// log. `None` if the numbers do not fit each other.
    pub fn of(
        policy: TablePolicy,
        log: LogLayout,
        (bins, block_bytes, ways): (u64, u64, u32),
        reserved: u64,
        mean_object_bytes: u64,
        (stamp, hash_bits): (Stamp, u8),
    ) -> Option<TableOptions> {
        let ways = if ways == 0 { policy.ways() } else { ways as usize };
        let asked = Bins { bytes: Some(block_bytes), ways: Some(ways) };
        let sane = asked.wrong(policy, u64::MAX).is_none() && bins.is_multiple_of(ways as u64);
        let sets = bins / ways.max(1) as u64;
        let (snapshots, table) =
            Self::table((policy, hash_bits), sets, ways, block_bytes, reserved).filter(|_| sane)?;
        let fits = table.base.checked_add(table.bins().checked_mul(block_bytes)?)? == log.base;
        fits.then_some(TableOptions {
            policy,
            table,
            log,
            snapshots,
            mean_object_bytes,
            hash_bits,
            stamp,
            reads_ahead: false,
            flush_every: None,
            read_only: false,
        })
    }

    /// Bins of a set as a superblock has them: 0 for the default.
    pub fn ways_on_disk(&self) -> u32 {
        if self.table.ways == self.policy.ways() { 0 } else { self.table.ways as u32 }
    }

    fn table(
        (policy, hash_bits): (TablePolicy, u8),
        sets: u64,
        ways: usize,
        block_bytes: u64,
        reserved: u64,
    ) -> Option<(SnapshotLayout, TableLayout)> {
        let (pages, page_content_bytes) =
            if policy == TablePolicy::SetMem { Rows::pages(sets, hash_bits) } else { (0, 0) };
        let snapshots = SnapshotLayout { base: reserved, page_content_bytes, pages };
        let base = reserved.checked_add(snapshots.area_bytes().checked_mul(2)?)?;
        let table = TableLayout { base, sets, ways, block_bytes };
        (sets > 0).then_some((snapshots, table))
    }
}
