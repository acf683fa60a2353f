//! What HashCache-Log is opened with.

use std::time::Duration;

use super::format::Cut;
use super::index::Index;
use crate::engine::hashcache::loglru::{LruCut, OffsetLayout, WAYS};
use crate::index::limits::MAX_SLOTS;
use crate::layout::{LogLayout, SnapshotLayout, Stamp};

/// What HashCache-Log is opened with.
#[derive(Clone, Copy, Debug)]
pub struct HashCacheLogOptions {
    /// The name users give the engine.
    pub name: &'static str,
    /// How the log is cut.
    pub layout: LogLayout,
    /// Index entries; rounded up to whole sets of eight.
    pub slots: u64,
    /// The likely size of an object: the first read of a record is half as long again, by 4 KiB at most.
    pub mean_object_bytes: u64,
    /// Where snapshots of the index lie; without any, opening reads one block of every region.
    pub snapshots: Option<SnapshotLayout>,
    /// Whether related records are read together (section 3.5): then slots have 8 bits more.
    pub reads_ahead: bool,
    /// Bits of hash in a slot, 8 to 16.
    pub hash_bits: u8,
    /// Where positions lie that memory has no room for, and for how many slots of each set it has; LogLRU's only. On a
    /// device of their own they lie behind as many reserved bytes as the log's has.
    pub offsets: Option<(OffsetLayout, usize)>,
    /// Seeds the checksums.
    pub stamp: Stamp,
    /// How often the log is synced without being asked.
    pub flush_every: Option<Duration>,
    /// Nothing is written; appends are refused.
    pub read_only: bool,
}

impl HashCacheLogOptions {
    /// Options for a log that was planned before, behind `reserved` bytes. `None` if its numbers do not fit each other.
    pub fn of(
        layout: LogLayout,
        slots: u64,
        reserved: u64,
        mean_object_bytes: u64,
        stamp: Stamp,
        (hash_bits, reads_ahead): (u8, bool),
    ) -> Option<HashCacheLogOptions> {
        let snapshots = Index::snapshot_layout(slots, Cut { hash_bits, has_reaches: reads_ahead }, reserved);
        let fits = reserved.checked_add(snapshots.area_bytes().checked_mul(2)?)? == layout.base;
        let snapshots = Some(snapshots);
        fits.then_some(HashCacheLogOptions {
            name: "hashcache-log",
            layout,
            slots,
            mean_object_bytes,
            snapshots,
            reads_ahead,
            hash_bits,
            offsets: None,
            stamp,
            flush_every: None,
            read_only: false,
        })
    }

    /// Options for HashCache-LogLRU on a disk of `bytes`, of which the first `reserved` are taken, for objects of such a mean
    /// size. `None` if the disk is too small.
    pub fn plan_lru(
        cut: LruCut,
        bytes: u64,
        reserved: u64,
        mean_object_bytes: u64,
        stamp: Stamp,
    ) -> Option<HashCacheLogOptions> {
        let slots = (bytes / mean_object_bytes.max(1)).clamp(1, MAX_SLOTS);
        let base = cut.log_base(slots, reserved)?;
        let layout = LogLayout::new(base, bytes.checked_sub(base)?, 4096)?;
        Self::of_lru(cut, layout, slots, reserved, mean_object_bytes, stamp)
    }

    /// The same for a log that was planned before. `None` if its numbers do not fit each other.
    pub fn of_lru(
        cut: LruCut,
        layout: LogLayout,
        slots: u64,
        reserved: u64,
        mean_object_bytes: u64,
        stamp: Stamp,
    ) -> Option<HashCacheLogOptions> {
        let LruCut { kept, hash_bits, reads_ahead, .. } = cut;
        (cut.log_base(slots, reserved)? == layout.base).then_some(HashCacheLogOptions {
            name: "hashcache-loglru",
            layout,
            slots,
            mean_object_bytes,
            snapshots: None,
            reads_ahead,
            hash_bits,
            offsets: Some((cut.file(slots, reserved), kept.clamp(1, WAYS))),
            stamp,
            flush_every: None,
            read_only: false,
        })
    }

    /// How a slot is cut of which everything is in memory.
    pub(super) fn cut(&self) -> Cut {
        Cut { hash_bits: self.hash_bits, has_reaches: self.reads_ahead }
    }

    /// Bytes of the device that has the positions alone, what is reserved on it included; `None` without one, and where
    /// memory has room for all of them.
    pub fn positions_bytes(&self) -> Option<u64> {
        self.offsets.filter(|(file, kept)| file.is_apart && *kept < WAYS).map(|(file, _)| file.base + file.bytes())
    }
}
