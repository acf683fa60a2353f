//! How the memory of an index on disk is divided.

use crate::index::Filter;

/// The table is made anew when so much was stored that it is this part of it: few of the bytes written are the table's.
const TABLE_SHARE: f64 = 0.05;
/// Of the memory, changes take so much at the most: an object can change without having been asked for, copies spare reads.
const CHANGES_SHARE: f64 = 0.25;
/// The part of the objects that may change, at the least and at the most.
const CHANGES: (f64, f64) = (0.004, 0.1);
/// Bits of memory for a change: cells of nine bytes, of which a quarter is free.
pub const CHANGE_BITS: f64 = 96.0;

/// What is planned for each object on the disk, from bits of memory for it: found by simulation, `docs/lab/policies-memory.md`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Division {
    /// Bits of the filter.
    pub filter_bits: f64,
    /// How many objects may have changed until the table is made anew, as a part.
    pub changes: f64,
}

impl Division {
    /// Of so many bits, where the table takes such a part of what all objects do. A budget too small for the changes is
    /// exceeded by them.
    pub fn of(bits: f64, table: f64) -> Self {
        let changes = (table / TABLE_SHARE).min(bits * CHANGES_SHARE / CHANGE_BITS);
        Division { filter_bits: Filter::bits_of(bits), changes: changes.clamp(CHANGES.0, CHANGES.1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_have_what_writing_asks_for_or_a_part_of_the_memory() {
        let changes = |bits, table| Division::of(bits, table).changes;
        // 7.2 bytes of table for an object of 8 KiB, which need 1.76 % of changes.
        let of_small = 7.2 / 8192.0;
        assert_eq!([0.0, 1.0].map(|bits| changes(bits, of_small)), [0.004, 0.004]);
        assert!((changes(4.0, of_small) * CHANGE_BITS - 1.0).abs() < 1e-9, "a quarter of the memory");
        assert!((changes(32.0, of_small) - of_small / TABLE_SHARE).abs() < 1e-9);
        assert_eq!((changes(32.0, 1e-9), changes(100.0, 1.0)), (0.004, 0.1));
        let filter = |bits| Division::of(bits, of_small).filter_bits;
        assert_eq!([0.0, 1.0, 2.0, 12.0, 99.0].map(filter), [0.0, 0.0, 0.4, 2.5, 7.0]);
    }
}
