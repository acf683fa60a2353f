//! What the engines with a Disk Table tell beside what all engines do.

use crate::terms::{Figure, FigureKind};

/// Bytes of a bin.
pub static BIN_BYTES: Figure =
    Figure { name: "bin_bytes", help: "Bytes of a bin of the Disk Table.", kind: FigureKind::Cut };

/// Bins of a set.
pub static SET_BINS: Figure =
    Figure { name: "set_bins", help: "Bins of a set of the Disk Table.", kind: FigureKind::Cut };
