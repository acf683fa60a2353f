//! What Dámelo counts beside what all engines do.

use crate::terms::{Figure, FigureKind};

const fn counter(name: &'static str, help: &'static str) -> Figure {
    Figure { name, help, kind: FigureKind::Counter }
}

/// Pages read.
pub static PAGES_READ: Figure = counter("read_pages", "Pages read from the disk.");
/// Pages written.
pub static PAGES_WRITTEN: Figure = counter("written_pages", "Pages written to the disk.");
/// Pages evicted from the disk.
pub static EVICTED_PAGES: Figure = counter("evicted_pages", "Pages evicted from the disk, with their objects.");
/// Pages compacted.
pub static COMPACTED_PAGES: Figure = counter("compacted_pages", "Pages of which deleted objects were taken out.");
/// What that copied.
pub static COMPACTED_BYTES: Figure = counter("compacted_bytes", "Bytes copied to close the gaps of deleted objects.");
/// Readers that waited for it.
pub static COMPACTION_WAITS: Figure =
    counter("delayed_reads", "Reads that waited while deleted objects were taken out of their page.");
/// Checkpoints of groups.
pub static CHECKPOINTS: Figure = counter("checkpoints", "Checkpoints of groups written.");
/// Copies for readers that would hold too many frames.
pub static COPIED_READS: Figure =
    counter("copied_reads", "Reads that got a copy, since readers held as many frames as they may.");
