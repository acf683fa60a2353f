//! What HashCache-Log is opened with.

use std::time::Duration;

use super::index::Index;
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
    ) -> Option<HashCacheLogOptions> {
        let snapshots = Index::snapshot_layout(slots, reserved);
        let fits = reserved.checked_add(snapshots.area_bytes().checked_mul(2)?)? == layout.base;
        let snapshots = Some(snapshots);
        fits.then_some(HashCacheLogOptions {
            name: "hashcache-log",
            layout,
            slots,
            mean_object_bytes,
            snapshots,
            stamp,
            flush_every: None,
            read_only: false,
        })
    }
}
