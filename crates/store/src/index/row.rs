//! What memory may say of one set of a Disk Table: for each way 8 bits of its object's hash, or up to 16, and its rank in the
//! order of use, 11 bits in all or more (HashCache, section 3.3).
//!
//! ```text
//! h bits of fingerprint, 0 = the way is free | 3 bits rank, 0 = most recently used
//! ```
//!
//! No two ways of a row have the same fingerprint: an object takes the way of the one whose fingerprint it shares. So a
//! newer version always overwrites the older one, without a read, and none is left behind to come to light.

use super::hash::{MOST_HASH_BITS, hash};
use super::packed::Field;
use super::ranks::{self, Ranked};

/// Ways of a set, at most.
pub const ROW_WAYS: usize = 8;
const RANK_BITS: usize = 3;
const MOST_BYTES: usize = *MOST_HASH_BITS.end() as usize + RANK_BITS;

/// Bytes of a row with so many bits of hash: eight slots fill them exactly.
pub fn row_bytes(hash_bits: u8) -> usize {
    ROW_WAYS * (usize::from(hash_bits) + RANK_BITS) / 8
}

/// What is known of one set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    bytes: [u8; MOST_BYTES],
    hash_bits: u8,
}

impl Ranked for Row {
    fn ways(&self) -> usize {
        ROW_WAYS
    }

    #[inline]
    fn rank(&self, way: usize) -> u8 {
        self.rank_field().get(&self.bytes, self.slot_bits(), way) as u8
    }

    #[inline]
    fn set_rank(&mut self, way: usize, rank: u8) {
        let (field, slot_bits) = (self.rank_field(), self.slot_bits());
        field.set(&mut self.bytes, slot_bits, way, rank.into());
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
    pub fn unknown(hash_bits: u8) -> Vec<u8> {
        vec![0; row_bytes(hash_bits)]
    }

    /// The fingerprint of an object, from [`crate::Digest::low`]: bits that do not choose the set. Never 0.
    pub fn fingerprint(id_low: u64, hash_bits: u8) -> u16 {
        hash(id_low, hash_bits).max(1)
    }

    #[inline]
    fn slot_bits(&self) -> usize {
        usize::from(self.hash_bits) + RANK_BITS
    }

    #[inline]
    fn fingerprint_field(&self) -> Field {
        Field { shift: 0, bits: self.hash_bits.into() }
    }

    #[inline]
    fn rank_field(&self) -> Field {
        Field { shift: self.hash_bits.into(), bits: RANK_BITS }
    }

    /// The row of a set whose ways hold these fingerprints, 0 for none, with the order in which they were written: the
    /// one written last counts as used last. Of two with one fingerprint the one written first is forgotten.
    pub fn learned(ways: &[(u16, u64)], hash_bits: u8) -> Row {
        let mut row = Row::empty(hash_bits);
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
    pub fn empty(hash_bits: u8) -> Row {
        let mut row = Row { bytes: [0; MOST_BYTES], hash_bits };
        (0..ROW_WAYS).for_each(|way| row.set_rank(way, way as u8));
        row
    }

    /// Read a row as it lies in memory, at the front of these bytes; `None` if nothing is known of the set.
    #[inline]
    pub fn from_bytes(bytes: &[u8], hash_bits: u8) -> Option<Row> {
        let bytes = bytes.get(..row_bytes(hash_bits)).filter(|bytes| bytes.iter().any(|&byte| byte != 0))?;
        let mut row = Row { bytes: [0; MOST_BYTES], hash_bits };
        row.bytes.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        Some(row)
    }

    /// The row as it lies in memory.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..row_bytes(self.hash_bits)).unwrap_or_default()
    }

    /// The fingerprint in a way, 0 if it is free.
    #[inline]
    pub fn get(&self, way: usize) -> u16 {
        self.fingerprint_field().get(&self.bytes, self.slot_bits(), way) as u16
    }

    /// Change the fingerprint in a way.
    pub fn set(&mut self, way: usize, fingerprint: u16) {
        let (field, slot_bits) = (self.fingerprint_field(), self.slot_bits());
        field.set(&mut self.bytes, slot_bits, way, fingerprint.into());
    }

    /// The way that holds this fingerprint.
    #[inline]
    pub fn way_of(&self, fingerprint: u16) -> Option<usize> {
        (0..ROW_WAYS).find(|way| fingerprint != 0 && self.get(*way) == fingerprint)
    }

    /// Ways in use.
    pub fn used(&self) -> usize {
        (0..ROW_WAYS).filter(|way| self.get(*way) != 0).count()
    }

    /// Give an object one of the first `ways` ways and make it the most recently used: that of its fingerprint, or a free
    /// one, or that of the least recently used.
    pub fn put(&mut self, fingerprint: u16, ways: usize) -> (usize, Put) {
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
        let mut row = Row::empty(8);
        (1..=8).for_each(|n| assert_eq!(row.put(n, 8).1, Put::Free));
        let way = row.way_of(1).unwrap();
        ranks::touch(&mut row, way);
        assert_eq!(row.put(100, 8), (1, Put::Replaced));
        assert_eq!((row.way_of(1), row.way_of(2), row.way_of(100)), (Some(0), None, Some(1)));
        assert_eq!(row.put(100, 8), (1, Put::Updated));
        assert_eq!(Row::empty(8).put(5, 1), (0, Put::Free));
    }

    #[test]
    fn a_row_is_learned_in_the_order_of_writing() {
        let row = Row::learned(&[(7, 30), (0, 99), (8, 10), (7, 20), (9, 40)], 8);
        assert_eq!([0, 1, 2, 3, 4].map(|way| row.get(way)), [7, 0, 8, 0, 9]);
        assert_eq!([4, 0, 2].map(|way| row.rank(way)), [0, 1, 3], "way 3 held the older of two, between them");
        assert_eq!(Row::from_bytes(row.bytes(), 8), Some(row));
        assert_eq!(Row::from_bytes(&Row::unknown(8), 8), None);
    }

    proptest! {
        /// Ranks stay an order and fingerprints apart, whatever happens.
        #[test]
        fn rows_stay_rows(hash_bits in 8..=16_u8, steps in proptest::collection::vec((0..3_u8, any::<u16>()), 0..100)) {
            let mut row = Row::empty(hash_bits);
            for (what, n) in steps {
                match what {
                    0 => ranks::touch(&mut row, n as usize % ROW_WAYS),
                    1 => row.set(n as usize % ROW_WAYS, 0),
                    _ => { row.put(Row::fingerprint(n.into(), hash_bits), ROW_WAYS); }
                }
                let mut ranks: Vec<_> = (0..ROW_WAYS).map(|way| row.rank(way)).collect();
                ranks.sort_unstable();
                prop_assert_eq!(ranks, (0..8).collect::<Vec<u8>>());
                let mut used: Vec<_> = (0..ROW_WAYS).map(|way| row.get(way)).filter(|&f| f != 0).collect();
                used.sort_unstable();
                let all = used.len();
                used.dedup();
                prop_assert_eq!((used.len(), row.used()), (all, all));
                prop_assert_eq!(Row::from_bytes(row.bytes(), hash_bits), Some(row));
            }
        }
    }
}
