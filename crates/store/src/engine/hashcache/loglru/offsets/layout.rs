//! How the file of positions is cut: 32 bytes a set (section 3.4), or 40 with reaches (3.5), none across a block; and blocks in
//! stripes, which are written together.

use crate::engine::hashcache::loglru::limits::MAX_POSITIONS_WAITING;
use crate::engine::hashcache::loglru::set::{At, POSITION_BYTES, WAYS};
use crate::layout::reach::Reach;
use crate::layout::take::take_u32;
use crate::memory::aligned::ALIGN;

/// Of so many slots one may have a position that waits to go out: a fifth of a bit for each slot.
const SLOTS_A_POSITION_WAITING: u64 = 512;
/// In an index so small that this would be next to none.
const LEAST_WAITING: u64 = 32;

/// Bytes of a stripe. Reading it and writing it takes a disk as long as one seek does, or less.
pub const STRIPE_BYTES: u64 = 512 << 10;

/// Where the file lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetLayout {
    /// Where on its device it begins.
    pub base: u64,
    /// Sets of the index.
    pub sets: u64,
    /// Whether a byte of reach goes with each position.
    pub has_reaches: bool,
    /// Whether that is a device of its own, and not the log's (sections 4 and 5.4).
    pub is_apart: bool,
}

impl OffsetLayout {
    /// Its bytes on disk.
    pub fn bytes(&self) -> u64 {
        self.sets.div_ceil(self.sets_in_block()) * ALIGN as u64
    }

    fn entry_bytes(&self) -> usize {
        POSITION_BYTES + usize::from(self.has_reaches)
    }

    fn sets_in_block(&self) -> u64 {
        (ALIGN / (WAYS * self.entry_bytes())) as u64
    }

    /// Where the block with a set's positions is.
    pub(super) fn block_at(&self, set: u64) -> u64 {
        self.base + set / self.sets_in_block() * ALIGN as u64
    }

    /// How many positions memory keeps that are to go out: one for [`SLOTS_A_POSITION_WAITING`] slots, so that those of a
    /// stripe are some 250, and [`MAX_POSITIONS_WAITING`] at most.
    pub fn most_waiting(&self) -> usize {
        let share = self.sets * WAYS as u64 / SLOTS_A_POSITION_WAITING;
        share.clamp(LEAST_WAITING, MAX_POSITIONS_WAITING as u64) as usize
    }

    /// How many stripes there are; the last one may be shorter.
    pub(super) fn stripes(&self) -> u64 {
        self.bytes().div_ceil(STRIPE_BYTES)
    }

    /// The stripe with a set's positions.
    pub(super) fn stripe_of(&self, set: u64) -> u64 {
        (self.block_at(set) - self.base) / STRIPE_BYTES
    }

    /// The sets of a stripe.
    pub(super) fn sets_of(&self, stripe: u64) -> std::ops::Range<u64> {
        let each = STRIPE_BYTES / ALIGN as u64 * self.sets_in_block();
        (stripe * each).min(self.sets)..((stripe + 1) * each).min(self.sets)
    }

    /// A set's bytes among those that begin at `from` on the device.
    fn place(&self, from: u64, set: u64) -> usize {
        let in_block = (set % self.sets_in_block()) as usize * WAYS * self.entry_bytes();
        (self.block_at(set) - from) as usize + in_block
    }

    /// Put a position among the bytes that begin at `from` on the device, and hold its set's block.
    pub(super) fn put(&self, bytes: &mut [u8], from: u64, (set, way): (u64, usize), at: At) {
        let [a, b, c, d] = at.position.to_le_bytes();
        let entry = [a, b, c, d, at.reach.0];
        let room = bytes.get_mut(self.place(from, set) + way * self.entry_bytes()..).unwrap_or_default();
        room.iter_mut().zip(entry).take(self.entry_bytes()).for_each(|(to, from)| *to = from);
    }

    /// All positions of a set in its block.
    pub(super) fn all(&self, block: &[u8], set: u64) -> [At; WAYS] {
        let mut bytes = block.get(self.place(self.block_at(set), set)..).unwrap_or_default();
        let mut next = || {
            let position = take_u32(&mut bytes).unwrap_or(0);
            let reach = if self.has_reaches { Reach::taken(&mut bytes) } else { None };
            At { position, reach: reach.unwrap_or_default() }
        };
        [(); WAYS].map(|()| next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_position_has_a_place_of_its_own() {
        for has_reaches in [false, true] {
            let file = OffsetLayout { base: 8192, sets: 20_000, has_reaches, is_apart: false };
            let mut bytes = vec![0; file.bytes() as usize];
            let at = |set: u64, way: usize| At {
                position: (set * 8) as u32 + way as u32,
                reach: Reach(if has_reaches { (set % 251) as u8 } else { 0 }),
            };
            let slots = || (0..file.sets).flat_map(|set| (0..WAYS).map(move |way| (set, way)));
            slots().for_each(|(set, way)| file.put(&mut bytes, file.base, (set, way), at(set, way)));
            for set in 0..file.sets {
                let block = (file.block_at(set) - file.base) as usize;
                let all = file.all(&bytes[block..block + ALIGN], set);
                (0..WAYS).for_each(|way| assert_eq!(all[way], at(set, way), "way {way} of set {set}"));
            }
            // Every set is in one stripe, and they come one after the other.
            let mut sets = 0..0;
            for stripe in 0..file.stripes() {
                assert_eq!(file.sets_of(stripe).start, sets.end);
                sets = file.sets_of(stripe);
                assert!(!sets.is_empty() && sets.clone().all(|set| file.stripe_of(set) == stripe));
            }
            assert_eq!(sets.end, file.sets);
        }
    }
}
