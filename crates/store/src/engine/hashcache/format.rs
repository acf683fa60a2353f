//! The 47 bits of a slot (section 3.4), or 55 where related records are read together (3.5), and a set of eight of them.
//!
//! ```text
//! bits 0-7 fingerprint | 8-10 rank, 0 = most recently used | 11-42 position / unit, all ones = empty | 43-46 lap
//! and 47-54 reach: blocks that the record and those related to it reach over
//! ```

use crate::index::{Field, Ranked};
use crate::layout::reach::Reach;

/// Slots of a set.
pub const WAYS: usize = 8;
/// Bits of a slot: 8 + 3 + 32 + 4. A set of eight slots has as many bytes.
pub const SLOT_BITS: usize = 47;
/// Bits of a slot with a reach: 8 more.
pub const REACHING_SLOT_BITS: usize = 55;
/// Laps that a slot can tell apart.
pub const LAPS: u64 = 16;

const RANK: Field = Field { shift: 8, bits: 3 };
const EMPTY: u64 = u32::MAX as u64;

/// One slot, unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Eight bits of the digest, none of which chose the set.
    pub fingerprint: u8,
    /// Its place in the order of use: 0 is the most recent of the set.
    pub rank: u8,
    /// Offset in the log in units, and lap modulo [`LAPS`]; `None` if the slot is empty.
    pub place: Option<(u32, u8)>,
    /// How far it and what is related to it reach; nothing in a slot without room for it.
    pub reach: Reach,
}

/// A set of packed slots. They are as many bits wide as the set has bytes.
pub struct Set<'a>(pub &'a mut [u8]);

impl Set<'_> {
    /// An empty set of slots of so many bits: its ranks are already an order.
    pub fn empty(slot_bits: usize) -> Vec<u8> {
        let mut bytes = vec![0; slot_bits];
        let mut set = Set(&mut bytes);
        for way in 0..WAYS {
            set.put(way, Slot { fingerprint: 0, rank: way as u8, place: None, reach: Reach::default() });
        }
        bytes
    }

    /// A whole slot is read and written as one number.
    fn slot(&self) -> Field {
        Field { shift: 0, bits: self.0.len() }
    }

    /// The slot in way 0 to 7.
    pub fn get(&self, way: usize) -> Slot {
        let bits = self.slot().get(self.0, self.0.len(), way);
        let position = bits >> 11 & EMPTY;
        let place = (position != EMPTY).then_some((position as u32, (bits >> 43 & 15) as u8));
        let reach = Reach((bits >> SLOT_BITS) as u8);
        Slot { fingerprint: bits as u8, rank: (bits >> 8 & 7) as u8, place, reach }
    }

    /// Replace a slot.
    pub fn put(&mut self, way: usize, slot: Slot) {
        let (position, lap) = slot.place.map_or((EMPTY, 0), |(position, lap)| (u64::from(position), u64::from(lap)));
        let bits = u64::from(slot.fingerprint) | u64::from(slot.rank & 7) << 8 | position << 11 | lap << 43;
        let bits = bits | u64::from(slot.reach.0) << SLOT_BITS;
        let (field, slot_bits) = (self.slot(), self.0.len());
        field.set(self.0, slot_bits, way, bits);
    }

    /// Every way with its slot.
    pub fn slots(&self) -> impl Iterator<Item = (usize, Slot)> + '_ {
        (0..WAYS).map(|way| (way, self.get(way)))
    }
}

impl Ranked for Set<'_> {
    fn ways(&self) -> usize {
        WAYS
    }

    fn rank(&self, way: usize) -> u8 {
        RANK.get(self.0, self.0.len(), way) as u8
    }

    fn set_rank(&mut self, way: usize, rank: u8) {
        let slot_bits = self.0.len();
        RANK.set(self.0, slot_bits, way, rank.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_keeps_every_field_in_as_many_bytes_as_a_slot_has_bits() {
        for slot_bits in [SLOT_BITS, REACHING_SLOT_BITS] {
            let mut bytes = Set::empty(slot_bits);
            assert_eq!(bytes.len() * 8, slot_bits * WAYS);
            let mut set = Set(&mut bytes);
            assert!(set.slots().all(|(way, slot)| slot.place.is_none() && slot.rank as usize == way));
            let reach = |n: u32| if slot_bits == SLOT_BITS { Reach(0) } else { Reach(255 - n as u8) };
            let slot = |n: u32| Slot {
                fingerprint: n as u8,
                rank: 7 - n as u8,
                place: Some((u32::MAX - 1 - n, 15 - n as u8)),
                reach: reach(n),
            };
            (0..8).for_each(|n| set.put(n as usize, slot(n)));
            (0..8).for_each(|n| assert_eq!(set.get(n as usize), slot(n)));
        }
    }

    #[test]
    fn without_room_for_a_reach_none_spills_into_the_next_slot() {
        let mut bytes = Set::empty(SLOT_BITS);
        let mut set = Set(&mut bytes);
        let before = set.get(4);
        set.put(3, Slot { fingerprint: 1, rank: 3, place: Some((5, 1)), reach: Reach(255) });
        assert_eq!((set.get(3).reach, set.get(4)), (Reach(0), before));
    }
}
