//! The 47 bits of a slot (section 3.4), or 55 where related records are read together (3.5), and a set of eight of them. With
//! more than 8 bits of hash there are so many more.
//!
//! ```text
//! h bits fingerprint | 3 rank, 0 = most recently used | 32 position / unit, all ones = empty | 4 lap
//! and 8 reach: blocks that the record and those related to it reach over
//! ```

use crate::index::{Field, Ranked};
use crate::layout::reach::Reach;

/// Slots of a set.
pub const WAYS: usize = 8;

const EMPTY: u64 = u32::MAX as u64;
const RANK_BITS: usize = 3;
const POSITION_BITS: usize = 32;
const LAP_BITS: usize = 4;
const REACH_BITS: usize = 8;

/// How a slot is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Bits of hash, 8 to 16.
    pub hash_bits: u8,
    /// Whether a slot has room for a reach.
    pub has_reaches: bool,
}

impl Cut {
    /// Bits of a slot: 47 with 8 bits of hash and without a reach. A set of eight slots has as many bytes.
    pub fn slot_bits(self) -> usize {
        self.reach_at() + if self.has_reaches { REACH_BITS } else { 0 }
    }

    fn rank_at(self) -> usize {
        self.hash_bits.into()
    }

    fn position_at(self) -> usize {
        self.rank_at() + RANK_BITS
    }

    fn lap_at(self) -> usize {
        self.position_at() + POSITION_BITS
    }

    fn reach_at(self) -> usize {
        self.lap_at() + LAP_BITS
    }
}

/// One slot, unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Bits of the digest, none of which chose the set.
    pub fingerprint: u16,
    /// Its place in the order of use: 0 is the most recent of the set.
    pub rank: u8,
    /// Offset in the log in units, and lap modulo [`LAPS`](crate::engine::hashcache::laps::LAPS); `None` if the slot is empty.
    pub place: Option<(u32, u8)>,
    /// How far it and what is related to it reach; nothing in a slot without room for it.
    pub reach: Reach,
}

/// A set of packed slots.
pub struct Set<'a> {
    bytes: &'a mut [u8],
    cut: Cut,
}

impl<'a> Set<'a> {
    /// The set in these bytes, which are as many as a slot has bits.
    pub fn over(bytes: &'a mut [u8], cut: Cut) -> Self {
        Set { bytes, cut }
    }

    /// An empty set of such slots: its ranks are already an order.
    pub fn empty(cut: Cut) -> Vec<u8> {
        let mut bytes = vec![0; cut.slot_bits()];
        let mut set = Set::over(&mut bytes, cut);
        for way in 0..WAYS {
            set.put(way, Slot { fingerprint: 0, rank: way as u8, place: None, reach: Reach::default() });
        }
        bytes
    }

    /// A whole slot is read and written as one number.
    fn slot(&self) -> Field {
        Field { shift: 0, bits: self.cut.slot_bits() }
    }

    fn rank_field(&self) -> Field {
        Field { shift: self.cut.rank_at(), bits: RANK_BITS }
    }

    /// The slot in way 0 to 7.
    pub fn get(&self, way: usize) -> Slot {
        let cut = self.cut;
        let bits = self.slot().get(self.bytes, cut.slot_bits(), way);
        let position = bits >> cut.position_at() & EMPTY;
        let place = (position != EMPTY).then_some((position as u32, (bits >> cut.lap_at() & 15) as u8));
        let reach = if cut.has_reaches { Reach((bits >> cut.reach_at()) as u8) } else { Reach::default() };
        let fingerprint = (bits & ((1 << cut.hash_bits) - 1)) as u16;
        Slot { fingerprint, rank: (bits >> cut.rank_at() & 7) as u8, place, reach }
    }

    /// Replace a slot.
    pub fn put(&mut self, way: usize, slot: Slot) {
        let cut = self.cut;
        let (position, lap) = slot.place.map_or((EMPTY, 0), |(position, lap)| (u64::from(position), u64::from(lap)));
        let hash = u64::from(slot.fingerprint) & ((1 << cut.hash_bits) - 1);
        let bits = hash | u64::from(slot.rank & 7) << cut.rank_at();
        let bits = bits | position << cut.position_at() | lap << cut.lap_at();
        let reach = if cut.has_reaches { u64::from(slot.reach.0) << cut.reach_at() } else { 0 };
        self.slot().set(self.bytes, cut.slot_bits(), way, bits | reach);
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
        self.rank_field().get(self.bytes, self.cut.slot_bits(), way) as u8
    }

    fn set_rank(&mut self, way: usize, rank: u8) {
        let field = self.rank_field();
        field.set(self.bytes, self.cut.slot_bits(), way, rank.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_keeps_every_field_in_as_many_bytes_as_a_slot_has_bits() {
        let cuts = (8..=16).flat_map(|hash_bits| [false, true].map(|has_reaches| Cut { hash_bits, has_reaches }));
        for cut in cuts {
            let mut bytes = Set::empty(cut);
            assert_eq!(bytes.len(), 39 + usize::from(cut.hash_bits) + if cut.has_reaches { 8 } else { 0 });
            let mut set = Set::over(&mut bytes, cut);
            assert!(set.slots().all(|(way, slot)| slot.place.is_none() && slot.rank as usize == way));
            let slot = |n: u32| Slot {
                fingerprint: (1 << (cut.hash_bits - 1)) + n as u16,
                rank: 7 - n as u8,
                place: Some((u32::MAX - 1 - n, 15 - n as u8)),
                reach: if cut.has_reaches { Reach(255 - n as u8) } else { Reach(0) },
            };
            (0..8).for_each(|n| set.put(n as usize, slot(n)));
            (0..8).for_each(|n| assert_eq!(set.get(n as usize), slot(n)));
        }
    }

    /// As it was when eight bits were all there could be: snapshots of such caches are read on.
    #[test]
    fn with_eight_bits_of_hash_a_slot_lies_as_ever() {
        let mut bytes = Set::empty(Cut { hash_bits: 8, has_reaches: true });
        let mut set = Set::over(&mut bytes, Cut { hash_bits: 8, has_reaches: true });
        set.put(0, Slot { fingerprint: 0xAB, rank: 5, place: Some((0x1234_5678, 9)), reach: Reach(0x77) });
        let bits = 0xAB | 5 << 8 | 0x1234_5678_u64 << 11 | 9 << 43 | 0x77 << 47;
        assert_eq!(bytes[..6], bits.to_le_bytes()[..6]);
        assert_eq!(bytes[6] & 0x7F, bits.to_le_bytes()[6]);
    }

    #[test]
    fn without_room_for_a_reach_none_spills_into_the_next_slot() {
        let cut = Cut { hash_bits: 8, has_reaches: false };
        let mut bytes = Set::empty(cut);
        let mut set = Set::over(&mut bytes, cut);
        let before = set.get(4);
        set.put(3, Slot { fingerprint: 1, rank: 3, place: Some((5, 1)), reach: Reach(255) });
        assert_eq!((set.get(3).reach, set.get(4)), (Reach(0), before));
    }
}
