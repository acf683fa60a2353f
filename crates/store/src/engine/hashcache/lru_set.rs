//! A set of which only the positions used last are in memory (section 3.4): for each of eight slots 15 bits, and behind
//! them so many positions, in the order of use. A slot's rank says which position is its own, so no bits do.
//!
//! ```text
//! slot:      bits 0-7 fingerprint, 0 = free | 8-10 rank, 0 = most recently used | 11-14 lap
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
/// Bits of a slot without its position: 8 + 3 + 4.
const SLOT_BITS: usize = 15;
const SLOTS_BYTES: usize = WAYS * SLOT_BITS / 8;
/// Bytes of a position.
pub const POSITION_BYTES: usize = 4;

const FINGERPRINT: Field = Field { shift: 0, bits: 8 };
const RANK: Field = Field { shift: 8, bits: 3 };
const LAP: Field = Field { shift: 11, bits: 4 };
const POSITION: Field = Field { shift: SLOTS_BYTES * 8, bits: 32 };

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
}

/// A position that memory has no room for any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demoted {
    /// Whose.
    pub way: usize,
    /// Which.
    pub at: At,
}

impl Ranked for LruSet<'_> {
    fn ways(&self) -> usize {
        WAYS
    }

    fn rank(&self, way: usize) -> u8 {
        RANK.get(self.bytes, SLOT_BITS, way) as u8
    }

    fn set_rank(&mut self, way: usize, rank: u8) {
        RANK.set(self.bytes, SLOT_BITS, way, rank.into());
    }
}

impl<'a> LruSet<'a> {
    /// The set in these bytes, with room for `kept` positions, 1 to 8.
    pub fn over(bytes: &'a mut [u8], kept: usize) -> Self {
        LruSet { bytes, kept }
    }

    /// An empty set, with room for reaches or without.
    pub fn empty(kept: usize, has_reaches: bool) -> Vec<u8> {
        let mut bytes = vec![0; SLOTS_BYTES + kept * (POSITION_BYTES + usize::from(has_reaches))];
        let mut set = LruSet::over(&mut bytes, kept);
        (0..WAYS).for_each(|way| set.set_rank(way, way as u8));
        bytes
    }

    /// The fingerprint in a slot, 0 if it is free.
    pub fn fingerprint(&self, way: usize) -> u8 {
        FINGERPRINT.get(self.bytes, SLOT_BITS, way) as u8
    }

    /// The lap of a slot's record, modulo 16.
    pub fn lap(&self, way: usize) -> u8 {
        LAP.get(self.bytes, SLOT_BITS, way) as u8
    }

    /// The slot of a fingerprint.
    pub fn way_of(&self, fingerprint: u8) -> Option<usize> {
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

    fn at_rank(&self, rank: usize) -> At {
        let position = POSITION.get(self.bytes, 32, rank) as u32;
        At { position, reach: Reach(self.bytes.get(self.reaches() + rank).copied().unwrap_or(0)) }
    }

    fn put_at_rank(&mut self, rank: usize, at: At) {
        POSITION.set(self.bytes, 32, rank, at.position.into());
        let reach = self.reaches() + rank;
        if let Some(to) = self.bytes.get_mut(reach) {
            *to = at.reach.0;
        }
    }

    /// Become a copy of a set that keeps every position, as far as there is room for them.
    pub fn take_from(&mut self, all: &LruSet<'_>) {
        self.bytes.iter_mut().zip(&*all.bytes).take(SLOTS_BYTES).for_each(|(to, from)| *to = *from);
        (0..self.kept).for_each(|rank| self.put_at_rank(rank, all.at_rank(rank)));
    }

    /// Where the reaches begin: past the end, if there are none.
    fn reaches(&self) -> usize {
        SLOTS_BYTES + self.kept * POSITION_BYTES
    }

    /// Free a slot.
    pub fn clear(&mut self, way: usize) {
        FINGERPRINT.set(self.bytes, SLOT_BITS, way, 0);
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
        fingerprint: u8,
        lap: u8,
        at: At,
        is_dead: impl Fn(&LruSet<'_>, usize) -> bool,
    ) -> (Put, Option<Demoted>) {
        let used_last = |ways: &mut dyn Iterator<Item = usize>| ways.min_by_key(|way| self.rank(*way));
        let free = used_last(&mut (0..WAYS).filter(|way| self.fingerprint(*way) == 0 || is_dead(self, *way)));
        let (way, put) = match (self.way_of(fingerprint), free) {
            (Some(way), _) => (way, Put::Updated),
            (None, Some(way)) => (way, Put::Free),
            (None, None) => ((0..WAYS).max_by_key(|way| self.rank(*way)).unwrap_or(0), Put::Replaced),
        };
        FINGERPRINT.set(self.bytes, SLOT_BITS, way, fingerprint.into());
        LAP.set(self.bytes, SLOT_BITS, way, lap.into());
        (put, self.promote(way, at))
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
        assert_eq!([1, 4, 8].map(|kept| LruSet::empty(kept, false).len() * 8), [15 * 8 + 32, 15 * 8 + 4 * 32, 47 * 8]);
        assert_eq!([1, 4, 8].map(|kept| LruSet::empty(kept, true).len() * 8), [20 * 8, 35 * 8, 55 * 8]);
    }

    proptest! {
        /// What was demoted and what is in memory together are the positions of all slots, whatever happens.
        #[test]
        fn no_position_is_lost(kept in 1..=8_usize, has_reaches: bool, steps in proptest::collection::vec((0..4_u8, 1..20_u8, any::<u32>()), 0..200)) {
            let mut bytes = LruSet::empty(kept, has_reaches);
            let at_of = |position: u32| At { position, reach: Reach(if has_reaches { (position >> 7) as u8 } else { 0 }) };
            let mut set = LruSet::over(&mut bytes, kept);
            let mut on_disk = [At::default(); WAYS];
            // Fingerprint, lap and position, the one used last first.
            let mut model: Vec<(u8, u8, At)> = Vec::new();
            for (what, fingerprint, position) in steps {
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
                        let (put, demoted) = set.insert(fingerprint, position as u8 % 16, at_of(position), |_, _| false);
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
