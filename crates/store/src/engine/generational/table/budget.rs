//! How the memory of an index on disk is divided.

/// Bits of the filter by bits in all, in proportion between these. A larger filter would save reads of misses and cost reads of hits.
const FILTER: [(f64, f64); 7] =
    [(1.0, 0.0), (3.0, 0.8), (8.0, 2.0), (12.0, 2.5), (20.0, 3.5), (32.0, 7.0), (64.0, 7.0)];
/// The part that may change, by bits in all, within bounds.
const CHANGES_A_BIT: f64 = 1.0 / 800.0;
const CHANGES: (f64, f64) = (0.004, 0.02);

/// What is planned for each object on the disk, from bits of memory for it: found by simulation, `docs/lab/policies-memory.md`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Division {
    /// Bits of the filter.
    pub filter_bits: f64,
    /// How many objects may have changed until the table is made anew, as a part.
    pub changes: f64,
}

impl Division {
    /// Of so many bits. A budget too small for the changes is exceeded by them.
    pub fn of(bits: f64) -> Self {
        let between = |[(from, low), (to, high)]: [(f64, f64); 2]| {
            (bits > from).then(|| low + (high - low) * ((bits - from) / (to - from)).min(1.0))
        };
        let filter_bits = FILTER.array_windows().copied().filter_map(between).next_back().unwrap_or(0.0);
        Division { filter_bits, changes: (bits * CHANGES_A_BIT).clamp(CHANGES.0, CHANGES.1) }
    }
}
