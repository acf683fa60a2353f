//! What these engines count beside what all engines do.

use crate::terms::{Figure, FigureKind};

/// Objects that left to make room.
pub static EVICTED_FILES: Figure = Figure {
    name: "evicted_files",
    help: "Files of objects evicted since they were asked for least recently.",
    kind: FigureKind::Counter,
};

/// Objects in the mapped file that made room.
pub static REPLACED_SEGMENTS: Figure = Figure {
    name: "replaced_segments",
    help: "Objects in the mapped file that made room for others of their size.",
    kind: FigureKind::Counter,
};

/// Files removed.
pub static REMOVED_FILES: Figure = Figure {
    name: "removed_files",
    help: "Files removed: of evicted, replaced and removed objects.",
    kind: FigureKind::Counter,
};

/// Files that somebody else removed or changed.
pub static LOST_FILES: Figure = Figure {
    name: "lost_files",
    help: "Files that were gone, cut or out of reach when they were read, and the mapped file if it was when it was opened: somebody else changed the directory. What lay there are misses.",
    kind: FigureKind::Counter,
};

/// Files that are not the cache's.
pub static FOREIGN_FILES: Figure = Figure {
    name: "foreign_files",
    help: "Files that were in the directory when it was opened and are none of the cache's. They are left alone, but for a mapped file of another cache's, which is written over.",
    kind: FigureKind::Counter,
};
