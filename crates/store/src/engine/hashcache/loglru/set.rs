//! A set of which only the positions used last are in memory (section 3.4): for each of eight slots 15 bits, more with more than 8
//! bits of hash, and behind them so many positions, in the order of use. A slot's rank says which position is its own, so no bits do.
//!
//! ```text
//! slot:      h bits fingerprint, 0 = free | 3 rank, 0 = most recently used | 4 lap
//! positions: k times 32 bits, that of rank 0 first; positions of rank k and beyond are on disk
//! reaches:   k times 8 bits in the same order, where related records are read together (3.5)
//! ```
//!
//! No two slots have the same fingerprint: an object takes the slot of the one whose fingerprint it shares. So which of
//! two is the newer need never be asked, for which their positions would have to be known.

use crate::index::row::Put;
use crate::index::{Field, Ranked, ranks};
use crate::layout::reach::Reach;

/// Slots of a set.
pub const WAYS: usize = 8;
const RANK_BITS: usize = 3;
const LAP_BITS: usize = 4;
/// Bytes of a position.
pub const POSITION_BYTES: usize = 4;

/// Where a record lies, and how far it reaches with those related to it: nothing in a set without room for that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct At {
    /// Offset in the log, in units.
    pub position: u32,
    /// See [`Reach`].
    pub reach: Reach,
}

/// A set, packed.
pub struct LruSet<'a> {
    bytes: &'a mut [u8],
    kept: usize,
    hash_bits: usize,
}

/// Bits of a slot without its position: 15 with 8 bits of hash. Eight slots have as many bytes.
fn slot_bits(hash_bits: usize) -> usize {
    hash_bits + RANK_BITS + LAP_BITS
}

/// A position that memory has no room for any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demoted {
    /// Whose.
    pub way: usize,
    /// Which.
    pub at: At,
}

/// What a slot in use says of its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// Its lap, modulo 16.
    pub lap: u8,
    /// Its position; `None` if that is on disk.
    pub position: Option<u32>,
}

/// What an insertion did to a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inserted {
    /// Which slot it took.
    pub put: Put,
    /// That slot as it was, if it was in use.
    pub left: Option<Used>,
    /// What memory has no room for any more.
    pub demoted: Option<Demoted>,
}

impl Ranked for LruSet<'_> {
    fn ways(&self) -> usize {
        WAYS
    }

    fn rank(&self, way: usize) -> u8 {
        self.rank_field().get(self.bytes, self.slot_bits(), way) as u8
    }

    fn set_rank(&mut self, way: usize, rank: u8) {
        let (field, slot_bits) = (self.rank_field(), self.slot_bits());
        field.set(self.bytes, slot_bits, way, rank.into());
    }
}

impl<'a> LruSet<'a> {
    /// The set in these bytes, with room for `kept` positions, 1 to 8, and so many bits of hash in a slot.
    pub fn over(bytes: &'a mut [u8], (kept, hash_bits): (usize, u8)) -> Self {
        LruSet { bytes, kept, hash_bits: hash_bits.into() }
    }

    fn slot_bits(&self) -> usize {
        slot_bits(self.hash_bits)
    }

    fn fingerprint_field(&self) -> Field {
        Field { shift: 0, bits: self.hash_bits }
    }

    fn rank_field(&self) -> Field {
        Field { shift: self.hash_bits, bits: RANK_BITS }
    }

    fn lap_field(&self) -> Field {
        Field { shift: self.hash_bits + RANK_BITS, bits: LAP_BITS }
    }

    fn position_field(&self) -> Field {
        Field { shift: self.slot_bits() * 8, bits: 32 }
    }

    /// An empty set, with room for reaches or without.
    pub fn empty((kept, hash_bits): (usize, u8), has_reaches: bool) -> Vec<u8> {
        let positions = kept * (POSITION_BYTES + usize::from(has_reaches));
        let mut bytes = vec![0; slot_bits(hash_bits.into()) + positions];
        let mut set = LruSet::over(&mut bytes, (kept, hash_bits));
        (0..WAYS).for_each(|way| set.set_rank(way, way as u8));
        bytes
    }

    /// The fingerprint in a slot, 0 if it is free.
    pub fn fingerprint(&self, way: usize) -> u16 {
        self.fingerprint_field().get(self.bytes, self.slot_bits(), way) as u16
    }

    /// The lap of a slot's record, modulo 16.
    pub fn lap(&self, way: usize) -> u8 {
        self.lap_field().get(self.bytes, self.slot_bits(), way) as u8
    }

    /// The slot of a fingerprint.
    pub fn way_of(&self, fingerprint: u16) -> Option<usize> {
        (0..WAYS).find(|way| fingerprint != 0 && self.fingerprint(*way) == fingerprint)
    }

    /// Where a slot's record lies; `None` if that is on disk.
    pub fn at(&self, way: usize) -> Option<At> {
        let rank = usize::from(self.rank(way));
        (rank < self.kept).then(|| self.at_rank(rank))
    }

    /// A slot's position; `None` if it is on disk.
    pub fn position(&self, way: usize) -> Option<u32> {
        self.at(way).map(|at| at.position)
    }

    /// What a slot says; `None` if it is free.
    pub fn used_as(&self, way: usize) -> Option<Used> {
        (self.fingerprint(way) != 0).then(|| Used { lap: self.lap(way), position: self.position(way) })
    }

    fn at_rank(&self, rank: usize) -> At {
        let position = self.position_field().get(self.bytes, 32, rank) as u32;
        At { position, reach: Reach(self.bytes.get(self.reaches() + rank).copied().unwrap_or(0)) }
    }

    fn put_at_rank(&mut self, rank: usize, at: At) {
        let field = self.position_field();
        field.set(self.bytes, 32, rank, at.position.into());
        let reach = self.reaches() + rank;
        if let Some(to) = self.bytes.get_mut(reach) {
            *to = at.reach.0;
        }
    }

    /// Become a copy of a set that keeps every position, as far as there is room for them.
    pub fn take_from(&mut self, all: &LruSet<'_>) {
        let slots_bytes = self.slot_bits();
        self.bytes.iter_mut().zip(&*all.bytes).take(slots_bytes).for_each(|(to, from)| *to = *from);
        (0..self.kept).for_each(|rank| self.put_at_rank(rank, all.at_rank(rank)));
    }

    /// Where the reaches begin: past the end, if there are none.
    fn reaches(&self) -> usize {
        self.slot_bits() + self.kept * POSITION_BYTES
    }

    fn put_fingerprint(&mut self, way: usize, fingerprint: u16) {
        let (field, slot_bits) = (self.fingerprint_field(), self.slot_bits());
        field.set(self.bytes, slot_bits, way, fingerprint.into());
    }

    /// Free a slot.
    pub fn clear(&mut self, way: usize) {
        self.put_fingerprint(way, 0);
    }

    /// Make a slot the most recently used, with its position in memory.
    pub fn promote(&mut self, way: usize, at: At) -> Option<Demoted> {
        let rank = usize::from(self.rank(way));
        let last = |other: &usize| usize::from(self.rank(*other)) == self.kept - 1;
        let leaves = (0..WAYS).find(last).filter(|other| rank >= self.kept && self.fingerprint(*other) != 0);
        let demoted = leaves.and_then(|way| Some(Demoted { way, at: self.at(way)? }));
        for rank in (1..=rank.min(self.kept - 1)).rev() {
            self.put_at_rank(rank, self.at_rank(rank - 1));
        }
        self.put_at_rank(0, at);
        ranks::touch(self, way);
        demoted
    }

    /// Enter a record and make it the most recently used: in the slot of its fingerprint, a free one, one of which `is_dead`
    /// says that its record is gone, or the one used least recently.
    pub fn insert(
        &mut self,
        fingerprint: u16,
        lap: u8,
        at: At,
        is_dead: impl Fn(&LruSet<'_>, usize) -> bool,
    ) -> Inserted {
        let used_last = |ways: &mut dyn Iterator<Item = usize>| ways.min_by_key(|way| self.rank(*way));
        let free = || used_last(&mut (0..WAYS).filter(|way| self.fingerprint(*way) == 0 || is_dead(self, *way)));
        let (way, put) = match self.way_of(fingerprint) {
            Some(way) => (way, Put::Updated),
            None => match free() {
                Some(way) => (way, Put::Free),
                None => ((0..WAYS).max_by_key(|way| self.rank(*way)).unwrap_or(0), Put::Replaced),
            },
        };
        let left = self.used_as(way);
        self.put_fingerprint(way, fingerprint);
        let (field, slot_bits) = (self.lap_field(), self.slot_bits());
        field.set(self.bytes, slot_bits, way, lap.into());
        Inserted { put, left, demoted: self.promote(way, at) }
    }

    /// Slots in use.
    pub fn used(&self) -> impl Iterator<Item = usize> + '_ {
        (0..WAYS).filter(|way| self.fingerprint(*way) != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_set_takes_fifteen_bits_a_slot_and_its_positions() {
        assert_eq!(
            [1, 4, 8].map(|kept| LruSet::empty((kept, 8), false).len() * 8),
            [15 * 8 + 32, 15 * 8 + 4 * 32, 47 * 8]
        );
        assert_eq!([1, 4, 8].map(|kept| LruSet::empty((kept, 8), true).len() * 8), [20 * 8, 35 * 8, 55 * 8]);
        assert_eq!([8, 11, 16].map(|bits| LruSet::empty((4, bits), false).len() * 8), [31 * 8, 34 * 8, 39 * 8]);
    }

    proptest! {
        /// What was demoted and what is in memory together are the positions of all slots, whatever happens.
        #[test]
        fn no_position_is_lost(kept in 1..=8_usize, bits in 8..=16_u8, has_reaches: bool, steps in proptest::collection::vec((0..4_u8, 1..20_u16, any::<u32>()), 0..200)) {
            let mut bytes = LruSet::empty((kept, bits), has_reaches);
            let at_of = |position: u32| At { position, reach: Reach(if has_reaches { (position >> 7) as u8 } else { 0 }) };
            let mut set = LruSet::over(&mut bytes, (kept, bits));
            let mut on_disk = [At::default(); WAYS];
            // Fingerprint, lap and position, the one used last first.
            let mut model: Vec<(u16, u8, At)> = Vec::new();
            for (what, fingerprint, position) in steps {
                // Told apart by their highest bits.
                let fingerprint = fingerprint << (bits - 5);
                let at = model.iter().position(|(other, ..)| *other == fingerprint);
                match (what, set.way_of(fingerprint)) {
                    (0, Some(way)) => {
                        set.clear(way);
                        model.remove(at.unwrap());
                    }
                    (1, Some(way)) => {
                        let at_now = set.at(way).unwrap_or(on_disk[way]);
                        let demoted = set.promote(way, at_now);
                        demoted.into_iter().for_each(|demoted| on_disk[demoted.way] = demoted.at);
                        let used = model.remove(at.unwrap());
                        model.insert(0, used);
                    }
                    (0 | 1, None) => {}
                    _ => {
                        let Inserted { put, demoted, .. } = set.insert(fingerprint, position as u8 % 16, at_of(position), |_, _| false);
                        demoted.into_iter().for_each(|demoted| on_disk[demoted.way] = demoted.at);
                        model.retain(|(other, ..)| *other != fingerprint);
                        if put == Put::Replaced {
                            model.pop();
                        }
                        model.insert(0, (fingerprint, position as u8 % 16, at_of(position)));
                    }
                }
                let found: Vec<_> = model
                    .iter()
                    .map(|(fingerprint, ..)| {
                        let way = set.way_of(*fingerprint).unwrap();
                        (*fingerprint, set.lap(way), set.at(way).unwrap_or(on_disk[way]))
                    })
                    .collect();
                prop_assert_eq!(&found, &model);
                prop_assert_eq!(set.used().count(), model.len());
            }
        }
    }
}
