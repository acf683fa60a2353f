//! What the log-structured cache is opened with.

use std::time::Duration;

use crate::engine::segments::{Index, SLOT_BITS};
use crate::index::Sets;
use crate::index::limits::MAX_SLOTS;
use crate::layout::{LogLayout, SnapshotLayout, Stamp};

/// What the log-structured cache is opened with.
#[derive(Clone, Copy, Debug)]
pub struct SegmentedOptions {
    /// How the log is cut: its regions are the segments.
    pub layout: LogLayout,
    /// Index entries: as many as all segments have room for; rounded up to whole sets of eight.
    pub slots: u64,
    /// Where the index is saved when the cache is closed.
    pub saved: SnapshotLayout,
    /// The likely size of an object: the first read of a record is half as long again, by 4 KiB at most.
    pub mean_object_bytes: u64,
    /// Of the bytes stored, how many in a hundred may be written once more so that the most valuable objects of a segment
    /// outlive it. 0: none, as in the paper.
    pub keep_percent: u8,
    /// Seeds the checksums.
    pub stamp: Stamp,
    /// How often the log is synced without being asked.
    pub flush_every: Option<Duration>,
    /// Nothing is written; appends are refused.
    pub read_only: bool,
}

impl SegmentedOptions {
    /// How a disk of `bytes`, of which the first `reserved` are taken, becomes segments for objects of such a mean size. A
    /// segment is a 64th of the disk, 256 KiB to 8 MiB: twice the flash's cleaning unit of 4 MiB (section 3.2) where the disk
    /// has 512 MiB or more. `None` if the disk is too small.
    pub fn plan(bytes: u64, reserved: u64, mean_object_bytes: u64, stamp: Stamp) -> Option<Self> {
        let most_segments = 128 + bytes / (8 << 20);
        let slots = (bytes / entry_bytes(mean_object_bytes)).max(most_segments * LEAST_ENTRIES).min(MAX_SLOTS);
        let base = reserved.checked_add(saved(slots, reserved).area_bytes().checked_mul(2)?)?;
        let layout = LogLayout::new(base, bytes.checked_sub(base)?, 4096)?;
        Self::of(layout, slots, reserved, mean_object_bytes, stamp)
    }

    /// The same for a disk that was planned before. `None` if its numbers do not fit each other.
    pub fn of(layout: LogLayout, slots: u64, reserved: u64, mean_object_bytes: u64, stamp: Stamp) -> Option<Self> {
        let saved = saved(slots, reserved);
        let fits = reserved.checked_add(saved.area_bytes().checked_mul(2)?)? == layout.base
            && slots / LEAST_ENTRIES >= layout.regions;
        fits.then_some(SegmentedOptions {
            layout,
            slots,
            saved,
            mean_object_bytes,
            keep_percent: 0,
            stamp,
            flush_every: None,
            read_only: false,
        })
    }

    /// Slots of a segment's summary: it is closed when they are used up, or its bytes. As many as it would hold objects of
    /// half the mean size: of 4 KiB by default, as the paper has it (3.2).
    pub fn entries(&self) -> usize {
        (self.layout.region_bytes / entry_bytes(self.mean_object_bytes)).max(LEAST_ENTRIES) as usize
    }
}

/// The least that a segment has slots for, however large objects are.
const LEAST_ENTRIES: u64 = 16;

fn entry_bytes(mean_object_bytes: u64) -> u64 {
    (mean_object_bytes / 2).max(64)
}

/// Where the index is saved: its shards, and behind them where the segments begin, 8 bytes each.
fn saved(slots: u64, base: u64) -> SnapshotLayout {
    let (shards, page_content_bytes) = Sets::shards_for(Index::sets_for(slots), SLOT_BITS);
    let homes = (slots / LEAST_ENTRIES * 8).div_ceil(page_content_bytes);
    SnapshotLayout { base, page_content_bytes, pages: shards + homes }
}
