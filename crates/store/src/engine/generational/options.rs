//! How the engine is planned and opened.

use std::time::Duration;

use super::format::Format;
use super::table;
use crate::engine::segments::{Index, WAYS};
use crate::index::limits::MAX_SLOTS;
use crate::layout::{LogLayout, SnapshotLayout, Stamp};
use crate::replace::generations::Value;

/// What the engine is opened with.
#[derive(Clone, Copy, Debug)]
pub struct GenerationalOptions {
    /// How the disk is cut: its regions are the segments.
    pub layout: LogLayout,
    /// Index entries; rounded up to whole sets of eight.
    pub slots: u64,
    /// How the index lies on the disk.
    pub format: Format,
    /// Where snapshots of the index lie.
    pub saved: SnapshotLayout,
    /// The likely size of an object.
    pub mean_object_bytes: u64,
    /// Seeds the checksums.
    pub stamp: Stamp,
    /// What a hit counts.
    pub value: Value,
    /// Bytes of memory for an index on the disk; `None` for one in memory.
    pub index_memory: Option<u64>,
    /// How often the disk is synced without being asked.
    pub flush_every: Option<Duration>,
    /// Nothing is written; appends are refused.
    pub read_only: bool,
}

/// A disk has at least so many slots for each segment, so that what a snapshot says of segments is little beside its slots.
const SLOTS_A_SEGMENT: u64 = 64;
/// A segment holds no more objects than if they had so many bytes each.
const LEAST_OBJECT_BYTES: u64 = 256;

/// Bytes of memory of a set of slots, with what is known of it: whether something was displaced from it, and its share of a lock.
const SET_MEMORY_BYTES: u64 = 47;

/// Index entries for a disk of so many bytes and objects of such a mean size, where the index may take `memory_bytes`; 0 stands for
/// as much as it likes. At the most four times as many as objects of that size have room, since small ones stay longest; at the
/// least as many: with fewer, other engines find more.
pub fn entries_within(memory_bytes: u64, bytes: u64, mean_object_bytes: u64) -> u64 {
    let (least, most) = (bytes / mean_object_bytes.max(1), bytes / (mean_object_bytes / 4).max(64));
    let entries = match memory_bytes {
        0 => most,
        bytes => (bytes / SET_MEMORY_BYTES * WAYS as u64).clamp(least.min(most), most),
    };
    enough(entries, bytes)
}

/// Index entries for an index on the disk, which is written as a whole again and again: a quarter more than objects of the mean size.
pub fn entries_on_disk(bytes: u64, mean_object_bytes: u64) -> u64 {
    enough(bytes / mean_object_bytes.max(1) / 4 * 5, bytes)
}

/// So many entries, or as many as the segments of such a disk ask for.
fn enough(entries: u64, bytes: u64) -> u64 {
    let most_segments = 128 + bytes / (8 << 20);
    entries.max(most_segments * SLOTS_A_SEGMENT).min(MAX_SLOTS)
}

/// Bytes of memory that an index with so many entries takes.
pub fn index_bytes(entries: u64) -> u64 {
    Index::sets_for(entries) * SET_MEMORY_BYTES
}

/// What is told of a disk that is to be cut, or was.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Bytes of the disk.
    pub bytes: u64,
    /// Bytes at its beginning that are taken.
    pub reserved: u64,
    /// The likely size of an object.
    pub mean_object_bytes: u64,
    /// Seeds the checksums.
    pub stamp: Stamp,
    /// How the index lies on the disk.
    pub format: Format,
    /// Index entries, if that was said.
    pub entries: Option<u64>,
    /// What a hit counts.
    pub value: Value,
    /// See [`GenerationalOptions::index_memory`].
    pub index_memory: Option<u64>,
}

impl GenerationalOptions {
    /// How a disk becomes segments, and its index. A segment is a 64th of the disk, 256 KiB to 8 MiB. `None` if the disk is too
    /// small.
    pub fn plan(plan: &Plan) -> Option<Self> {
        let Plan { bytes, reserved, mean_object_bytes, format, .. } = *plan;
        let by_place = || match plan.index_memory {
            None => entries_within(0, bytes, mean_object_bytes),
            Some(_) => entries_on_disk(bytes, mean_object_bytes),
        };
        let slots = plan.entries.unwrap_or_else(by_place);
        let slots = enough(slots, bytes);
        let base = reserved.checked_add(saved(slots, reserved, format).area_bytes().checked_mul(2)?)?;
        let layout = LogLayout::new(base, bytes.checked_sub(base)?, 4096)?;
        Self::of(layout, slots, plan)
    }

    /// The same for a disk that was planned before. `None` if its numbers do not fit each other.
    pub fn of(layout: LogLayout, slots: u64, plan: &Plan) -> Option<Self> {
        let Plan { reserved, mean_object_bytes, stamp, format, value, index_memory, .. } = *plan;
        let saved = saved(slots, reserved, format);
        let fits = reserved.checked_add(saved.area_bytes().checked_mul(2)?)? == layout.base
            && slots / SLOTS_A_SEGMENT >= layout.regions;
        fits.then_some(GenerationalOptions {
            layout: LogLayout { is_numbered: true, ..layout },
            slots,
            format,
            saved,
            mean_object_bytes,
            stamp,
            value,
            index_memory,
            flush_every: None,
            read_only: false,
        })
    }

    /// Records of a segment that an index needs, at the most.
    pub fn entries(&self) -> usize {
        (self.layout.region_bytes / LEAST_OBJECT_BYTES) as usize
    }

    /// The index on the disk, if that is where it is to be.
    pub fn table_plan(&self) -> Option<table::Plan> {
        let GenerationalOptions { layout, slots, format, saved, mean_object_bytes, stamp, .. } = *self;
        let memory_bytes = self.index_memory?;
        Some(table::Plan { saved, slots, format, memory_bytes, mean_object_bytes, layout, stamp })
    }

    /// Pages of a snapshot that hold the index; what is said of the segments is behind them.
    pub fn shards(&self) -> u64 {
        self.format.shape(Index::sets_for(self.slots)).shards()
    }
}

fn saved(slots: u64, base: u64, format: Format) -> SnapshotLayout {
    format.saved(slots, base, slots / SLOTS_A_SEGMENT)
}
