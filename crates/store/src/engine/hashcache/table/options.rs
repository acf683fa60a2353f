//! What an engine with a Disk Table is opened with.

use std::time::Duration;

use super::rows::Rows;
use crate::index::row::ROW_WAYS;
use crate::layout::{LogLayout, SnapshotLayout, Stamp, TableLayout};
use crate::limits::MAX_SLOTS;

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

    fn ways(self) -> usize {
        if self == TablePolicy::Basic { 1 } else { ROW_WAYS }
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
    /// such a mean size. A bin is the mean rounded up to a power of two, from 4 to 64 KiB; for each there is half a mean
    /// of log, since most objects fit their bin and the few that do not are long. `None` if the disk is too small.
    pub fn plan(
        policy: TablePolicy,
        bytes: u64,
        reserved: u64,
        mean_object_bytes: u64,
        stamp: Stamp,
    ) -> Option<TableOptions> {
        let mean = mean_object_bytes.clamp(1, 64 << 10);
        let block_bytes = mean.next_power_of_two().max(4096);
        let each = block_bytes + (block_bytes / 2).max(mean_object_bytes / 2) + 4;
        let sets = (bytes.saturating_sub(reserved) / each).min(MAX_SLOTS) / policy.ways() as u64;
        let (snapshots, table) = Self::table(policy, sets, block_bytes, reserved)?;
        let base = table.base + table.bytes();
        let log = LogLayout::new(base, bytes.checked_sub(base)?, 4096)?;
        Some(TableOptions {
            policy,
            table,
            log,
            snapshots,
            mean_object_bytes,
            stamp,
            reads_ahead: false,
            flush_every: None,
            read_only: false,
        })
    }

    /// Options for a disk that was cut before, into so many bins of so many bytes and this log. `None` if the numbers do
    /// not fit each other.
    pub fn of(
        policy: TablePolicy,
        log: LogLayout,
        (bins, block_bytes): (u64, u64),
        reserved: u64,
        mean_object_bytes: u64,
        stamp: Stamp,
    ) -> Option<TableOptions> {
        let ways = policy.ways() as u64;
        let sane =
            bins.is_multiple_of(ways) && block_bytes.is_power_of_two() && (4096..=64 << 10).contains(&block_bytes);
        let (snapshots, table) = Self::table(policy, bins / ways, block_bytes, reserved).filter(|_| sane)?;
        let fits = table.base.checked_add(table.bins().checked_mul(block_bytes)?)? == log.base;
        fits.then_some(TableOptions {
            policy,
            table,
            log,
            snapshots,
            mean_object_bytes,
            stamp,
            reads_ahead: false,
            flush_every: None,
            read_only: false,
        })
    }

    fn table(policy: TablePolicy, sets: u64, block_bytes: u64, reserved: u64) -> Option<(SnapshotLayout, TableLayout)> {
        let (pages, page_content_bytes) = if policy == TablePolicy::SetMem { Rows::pages(sets) } else { (0, 0) };
        let snapshots = SnapshotLayout { base: reserved, page_content_bytes, pages };
        let base = reserved.checked_add(snapshots.area_bytes().checked_mul(2)?)?;
        let table = TableLayout { base, sets, ways: policy.ways(), block_bytes };
        (sets > 0).then_some((snapshots, table))
    }
}
