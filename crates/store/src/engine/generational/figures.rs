//! What this engine counts beside what all engines do.

use crate::terms::{Figure, FigureKind};

/// Segments cleaned.
pub static CLEANED_SEGMENTS: Figure = Figure {
    name: "generational_cleaned_segments",
    help: "Segments cleaned: their objects were evicted, or written again.",
    kind: FigureKind::Counter,
};

/// Objects that left.
pub static EVICTED_OBJECTS: Figure = Figure {
    name: "generational_evicted_objects",
    help: "Objects evicted with their segments.",
    kind: FigureKind::Counter,
};

/// What was written beside what clients stored.
pub static REWRITTEN_BYTES: Figure = Figure {
    name: "generational_rewritten_bytes",
    help: "Bytes of popular records that were written again so that they outlive their segment.",
    kind: FigureKind::Counter,
};

/// What snapshots cost.
pub static SNAPSHOT_BYTES: Figure = Figure {
    name: "generational_snapshot_bytes",
    help: "Bytes of snapshots of the index written.",
    kind: FigureKind::Counter,
};
