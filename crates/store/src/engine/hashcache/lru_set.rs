//! A set of which only the positions used last are in memory (section 3.4): for each of eight slots 15 bits, and behind
//! them so many positions, in the order of use. A slot's rank says which position is its own, so no bits do.
//!
//! ```text
//! slot:      bits 0-7 fingerprint, 0 = free | 8-10 rank, 0 = most recently used | 11-14 lap
//! positions: k times 32 bits, that of rank 0 first; positions of rank k and beyond are on disk
//! ```
//!
//! No two slots have the same fingerprint: an object takes the slot of the one whose fingerprint it shares. So which of
//! two is the newer need never be asked, for which their positions would have to be known.

use crate::index::row::Put;
use crate::index::{Field, Ranked, ranks};

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
    pub position: u32,
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

    /// An empty set.
    pub fn empty(kept: usize) -> Vec<u8> {
        let mut bytes = vec![0; SLOTS_BYTES + kept * POSITION_BYTES];
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

    /// A slot's position; `None` if it is on disk.
    pub fn position(&self, way: usize) -> Option<u32> {
        let rank = usize::from(self.rank(way));
        (rank < self.kept).then(|| POSITION.get(self.bytes, 32, rank) as u32)
    }

    /// Free a slot.
    pub fn clear(&mut self, way: usize) {
        FINGERPRINT.set(self.bytes, SLOT_BITS, way, 0);
    }

    /// Make a slot the most recently used, with its position in memory.
    pub fn promote(&mut self, way: usize, position: u32) -> Option<Demoted> {
        let rank = usize::from(self.rank(way));
        let last = |other: &usize| usize::from(self.rank(*other)) == self.kept - 1;
        let leaves = (0..WAYS).find(last).filter(|other| rank >= self.kept && self.fingerprint(*other) != 0);
        let demoted = leaves.and_then(|way| Some(Demoted { way, position: self.position(way)? }));
        for at in (1..=rank.min(self.kept - 1)).rev() {
            let newer = POSITION.get(self.bytes, 32, at - 1);
            POSITION.set(self.bytes, 32, at, newer);
        }
        POSITION.set(self.bytes, 32, 0, position.into());
        ranks::touch(self, way);
        demoted
    }

    /// Enter a record and make it the most recently used: in the slot of its fingerprint, a free one, one of which `is_dead`
    /// says that its record is gone, or the one used least recently.
    pub fn insert(
        &mut self,
        fingerprint: u8,
        lap: u8,
        position: u32,
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
        (put, self.promote(way, position))
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
        assert_eq!([1, 4, 8].map(|kept| LruSet::empty(kept).len() * 8), [15 * 8 + 32, 15 * 8 + 4 * 32, 47 * 8]);
    }

    proptest! {
        /// What was demoted and what is in memory together are the positions of all slots, whatever happens.
        #[test]
        fn no_position_is_lost(kept in 1..=8_usize, steps in proptest::collection::vec((0..4_u8, 1..20_u8, any::<u32>()), 0..200)) {
            let mut bytes = LruSet::empty(kept);
            let mut set = LruSet::over(&mut bytes, kept);
            let mut on_disk = [0_u32; WAYS];
            // Fingerprint, lap and position, the one used last first.
            let mut model: Vec<(u8, u8, u32)> = Vec::new();
            for (what, fingerprint, position) in steps {
                let at = model.iter().position(|(other, ..)| *other == fingerprint);
                match (what, set.way_of(fingerprint)) {
                    (0, Some(way)) => {
                        set.clear(way);
                        model.remove(at.unwrap());
                    }
                    (1, Some(way)) => {
                        let position = set.position(way).unwrap_or(on_disk[way]);
                        let demoted = set.promote(way, position);
                        demoted.into_iter().for_each(|demoted| on_disk[demoted.way] = demoted.position);
                        let used = model.remove(at.unwrap());
                        model.insert(0, used);
                    }
                    (0 | 1, None) => {}
                    _ => {
                        let (put, demoted) = set.insert(fingerprint, position as u8 % 16, position, |_, _| false);
                        demoted.into_iter().for_each(|demoted| on_disk[demoted.way] = demoted.position);
                        model.retain(|(other, ..)| *other != fingerprint);
                        if put == Put::Replaced {
                            model.pop();
                        }
                        model.insert(0, (fingerprint, position as u8 % 16, position));
                    }
                }
                let found: Vec<_> = model
                    .iter()
                    .map(|(fingerprint, ..)| {
                        let way = set.way_of(*fingerprint).unwrap();
                        (*fingerprint, set.lap(way), set.position(way).unwrap_or(on_disk[way]))
                    })
                    .collect();
                prop_assert_eq!(&found, &model);
                prop_assert_eq!(set.used().count(), model.len());
            }
        }
    }
}
