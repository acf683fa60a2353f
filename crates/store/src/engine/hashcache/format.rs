//! The 47 bits of a slot (section 3.4), and a set of eight of them.
//!
//! ```text
//! bits 0-7 fingerprint | 8-10 rank, 0 = most recently used | 11-42 position / unit, all ones = empty | 43-46 lap
//! ```

use crate::index::{Field, Ranked};

/// Slots of a set.
pub const WAYS: usize = 8;
/// Bits of a slot: 8 + 3 + 32 + 4.
pub const SLOT_BITS: usize = 47;
/// Bytes of a set: eight slots fill them exactly.
pub const SET_BYTES: usize = WAYS * SLOT_BITS / 8;
/// Laps that a slot can tell apart.
pub const LAPS: u64 = 16;

/// A whole slot is read and written as one number.
const SLOT: Field = Field { shift: 0, bits: SLOT_BITS };
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
}

/// A set of packed slots.
pub struct Set<'a>(pub &'a mut [u8]);

impl Set<'_> {
    /// An empty set: its ranks are already an order.
    pub fn empty() -> [u8; SET_BYTES] {
        let mut bytes = [0; SET_BYTES];
        let mut set = Set(&mut bytes);
        for way in 0..WAYS {
            set.put(way, Slot { fingerprint: 0, rank: way as u8, place: None });
        }
        bytes
    }

    /// The slot in way 0 to 7.
    pub fn get(&self, way: usize) -> Slot {
        let bits = SLOT.get(self.0, SLOT_BITS, way);
        let position = bits >> 11 & EMPTY;
        let place = (position != EMPTY).then_some((position as u32, (bits >> 43) as u8));
        Slot { fingerprint: bits as u8, rank: (bits >> 8 & 7) as u8, place }
    }

    /// Replace a slot.
    pub fn put(&mut self, way: usize, slot: Slot) {
        let (position, lap) = slot.place.map_or((EMPTY, 0), |(position, lap)| (u64::from(position), u64::from(lap)));
        let bits = u64::from(slot.fingerprint) | u64::from(slot.rank & 7) << 8 | position << 11 | lap << 43;
        SLOT.set(self.0, SLOT_BITS, way, bits);
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
        RANK.get(self.0, SLOT_BITS, way) as u8
    }

    fn set_rank(&mut self, way: usize, rank: u8) {
        RANK.set(self.0, SLOT_BITS, way, rank.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_forty_seven_bytes_and_keeps_every_field() {
        assert_eq!(SET_BYTES, 47);
        let mut bytes = Set::empty();
        let mut set = Set(&mut bytes);
        assert!(set.slots().all(|(way, slot)| slot.place.is_none() && slot.rank as usize == way));
        let slot =
            |n: u32| Slot { fingerprint: n as u8, rank: 7 - n as u8, place: Some((u32::MAX - 1 - n, 15 - n as u8)) };
        (0..8).for_each(|n| set.put(n as usize, slot(n)));
        (0..8).for_each(|n| assert_eq!(set.get(n as usize), slot(n)));
    }
}
