//! What memory may say of one set of a Disk Table: for each way 8 bits of its object's hash and its rank in the order
//! of use, 11 bits in all (HashCache, section 3.3).
//!
//! ```text
//! bits 0-7 fingerprint, 0 = the way is free | 8-10 rank, 0 = most recently used
//! ```
//!
//! No two ways of a row have the same fingerprint: an object takes the way of the one whose fingerprint it shares. So a
//! newer version always overwrites the older one, without a read, and none is left behind to come to light.

use super::packed::Field;
use super::ranks::{self, Ranked};

/// Ways of a set, at most.
pub const ROW_WAYS: usize = 8;
/// Bits of a slot: 8 + 3.
pub const ROW_SLOT_BITS: usize = 11;
/// Bytes of a row: eight slots fill them exactly.
pub const ROW_BYTES: usize = ROW_WAYS * ROW_SLOT_BITS / 8;

const FINGERPRINT: Field = Field { shift: 0, bits: 8 };
const RANK: Field = Field { shift: 8, bits: 3 };

/// What is known of one set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row([u8; ROW_BYTES]);

impl Ranked for Row {
    fn ways(&self) -> usize {
        ROW_WAYS
    }

    fn rank(&self, way: usize) -> u8 {
        RANK.get(&self.0, ROW_SLOT_BITS, way) as u8
    }

    fn set_rank(&mut self, way: usize, rank: u8) {
        RANK.set(&mut self.0, ROW_SLOT_BITS, way, rank.into());
    }
}

/// What putting an object into a row did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The way was free.
    Free,
    /// What is most likely an older version of it left.
    Updated,
    /// The set was full, and another object left.
    Replaced,
}

impl Row {
    /// Bytes that are no row: nothing is known of the set. In a row the ranks are never all 0.
    pub const UNKNOWN: [u8; ROW_BYTES] = [0; ROW_BYTES];

    /// The fingerprint of an object, from [`crate::Digest::low`]: bits that do not choose the set. Never 0.
    pub fn fingerprint(id_low: u64) -> u8 {
        (id_low as u8).max(1)
    }

    /// The row of a set whose ways hold these fingerprints, 0 for none, with the order in which they were written: the
    /// one written last counts as used last. Of two with one fingerprint the one written first is forgotten.
    pub fn learned(ways: &[(u8, u64)]) -> Row {
        let mut row = Row::empty();
        let mut written: Vec<_> = ways.iter().enumerate().filter(|(_, (fingerprint, _))| *fingerprint != 0).collect();
        written.sort_by_key(|(_, (_, order))| *order);
        for (way, &(fingerprint, _)) in written {
            row.way_of(fingerprint).into_iter().for_each(|older| row.set(older, 0));
            row.set(way, fingerprint);
            ranks::touch(&mut row, way);
        }
        row
    }

    /// A set of free ways.
    pub fn empty() -> Row {
        let mut row = Row(Row::UNKNOWN);
        (0..ROW_WAYS).for_each(|way| row.set_rank(way, way as u8));
        row
    }

    /// Read a row as it lies in memory; `None` if nothing is known of the set.
    pub fn from_bytes(bytes: &[u8]) -> Option<Row> {
        bytes.first_chunk().filter(|bytes| **bytes != Row::UNKNOWN).map(|bytes| Row(*bytes))
    }

    /// The row as it lies in memory.
    pub fn bytes(&self) -> &[u8; ROW_BYTES] {
        &self.0
    }

    /// The fingerprint in a way, 0 if it is free.
    pub fn get(&self, way: usize) -> u8 {
        FINGERPRINT.get(&self.0, ROW_SLOT_BITS, way) as u8
    }

    /// Change the fingerprint in a way.
    pub fn set(&mut self, way: usize, fingerprint: u8) {
        FINGERPRINT.set(&mut self.0, ROW_SLOT_BITS, way, fingerprint.into());
    }

    /// The way that holds this fingerprint.
    pub fn way_of(&self, fingerprint: u8) -> Option<usize> {
        (0..ROW_WAYS).find(|way| fingerprint != 0 && self.get(*way) == fingerprint)
    }

    /// Ways in use.
    pub fn used(&self) -> usize {
        (0..ROW_WAYS).filter(|way| self.get(*way) != 0).count()
    }

    /// Give an object one of the first `ways` ways and make it the most recently used: that of its fingerprint, or a free
    /// one, or that of the least recently used.
    pub fn put(&mut self, fingerprint: u8, ways: usize) -> (usize, Put) {
        let free = || (0..ways).find(|way| self.get(*way) == 0);
        let (way, put) = match (self.way_of(fingerprint), free()) {
            (Some(way), _) => (way, Put::Updated),
            (None, Some(way)) => (way, Put::Free),
            (None, None) => ((0..ways).max_by_key(|way| self.rank(*way)).unwrap_or(0), Put::Replaced),
        };
        self.set(way, fingerprint);
        ranks::touch(self, way);
        (way, put)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_least_recently_used_leaves_a_full_set() {
        let mut row = Row::empty();
        (1..=8).for_each(|n| assert_eq!(row.put(n, 8).1, Put::Free));
        let way = row.way_of(1).unwrap();
        ranks::touch(&mut row, way);
        assert_eq!(row.put(100, 8), (1, Put::Replaced));
        assert_eq!((row.way_of(1), row.way_of(2), row.way_of(100)), (Some(0), None, Some(1)));
        assert_eq!(row.put(100, 8), (1, Put::Updated));
        assert_eq!(Row::empty().put(5, 1), (0, Put::Free));
    }

    #[test]
    fn a_row_is_learned_in_the_order_of_writing() {
        let row = Row::learned(&[(7, 30), (0, 99), (8, 10), (7, 20), (9, 40)]);
        assert_eq!([0, 1, 2, 3, 4].map(|way| row.get(way)), [7, 0, 8, 0, 9]);
        assert_eq!([4, 0, 2].map(|way| row.rank(way)), [0, 1, 3], "way 3 held the older of two, between them");
        assert_eq!(Row::from_bytes(row.bytes()), Some(row));
        assert_eq!(Row::from_bytes(&Row::UNKNOWN), None);
    }

    proptest! {
        /// Ranks stay an order and fingerprints apart, whatever happens.
        #[test]
        fn rows_stay_rows(steps in proptest::collection::vec((0..3_u8, any::<u8>()), 0..100)) {
            let mut row = Row::empty();
            for (what, n) in steps {
                match what {
                    0 => ranks::touch(&mut row, n as usize % ROW_WAYS),
                    1 => row.set(n as usize % ROW_WAYS, 0),
                    _ => { row.put(n.max(1), ROW_WAYS); }
                }
                let mut ranks: Vec<_> = (0..ROW_WAYS).map(|way| row.rank(way)).collect();
                ranks.sort_unstable();
                prop_assert_eq!(ranks, (0..8).collect::<Vec<u8>>());
                let mut used: Vec<_> = (0..ROW_WAYS).map(|way| row.get(way)).filter(|&f| f != 0).collect();
                used.sort_unstable();
                let all = used.len();
                used.dedup();
                prop_assert_eq!((used.len(), row.used()), (all, all));
            }
        }
    }
}
