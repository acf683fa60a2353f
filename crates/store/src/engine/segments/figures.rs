//! What these engines count beside what all engines do.

use crate::terms::{Figure, FigureKind};

/// Segments cleaned.
pub static CLEANED_SEGMENTS: Figure = Figure {
    name: "cleaned_segments",
    help: "Segments cleaned: their objects were evicted, or kept.",
    kind: FigureKind::Counter,
};

/// Segments that were open when their turn came.
pub static PASSED_OVER_SEGMENTS: Figure = Figure {
    name: "passed_over_segments",
    help: "Times the oldest segment was not cleaned since somebody had it open.",
    kind: FigureKind::Counter,
};

/// Objects that left.
pub static EVICTED_OBJECTS: Figure =
    Figure { name: "evicted_objects", help: "Objects evicted with their segments.", kind: FigureKind::Counter };

/// Objects for which the disk was a little too small.
pub static RETURNED_OBJECTS: Figure = Figure {
    name: "returned_objects",
    help: "Objects stored again that had been evicted less than half a lap before: hits, if the disk were half as large again.",
    kind: FigureKind::Counter,
};

/// What keeping objects cost.
pub static KEPT_BYTES: Figure = Figure {
    name: "kept_bytes",
    help: "Bytes of records that were written once more so that they outlive their segment.",
    kind: FigureKind::Counter,
};

/// What snapshots cost.
pub static SNAPSHOT_BYTES: Figure =
    Figure { name: "snapshot_bytes", help: "Bytes of snapshots of the index written.", kind: FigureKind::Counter };

/// How large the index on the disk is.
pub static INDEX_DISK_BYTES: Figure = Figure {
    name: "index_disk_bytes",
    help: "Bytes of the index on the disk that lookups go by, of the larger one on several disks; 0 if all of it is in memory.",
    kind: FigureKind::Cut,
};

/// What an index on the disk costs.
pub static INDEX_READS: Figure = Figure {
    name: "index_reads",
    help: "Reads of the index on the disk for lookups of which memory could not tell where the object is, or whether it is there.",
    kind: FigureKind::Counter,
};
