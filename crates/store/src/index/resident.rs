//! The part of an index on disk that is in memory: what was asked for not long ago, and what is new (a variant of CLOCK, by set).
//!
//! ```text
//! a slot: hash, 8 to 16 bits | hits, 2 bits, 3 = three or more | position, all ones = empty
//! ```
//!
//! It is a copy: whatever it holds may be dropped, and is found on the disk then, with one read more.

use std::ops::Range;

use super::hash::hash;
use super::packed::Field;
use super::sets::Sets;

/// Slots of a set.
const WAYS: usize = 8;
const HITS_BITS: usize = 2;
/// The most hits that a slot counts.
pub const MOST_HITS: u8 = (1 << HITS_BITS) - 1;

/// How a slot is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotBits {
    /// Of the object's digest, 16 at the most. With 8, one lookup in 32 of what is not here finds another object's entry in a full set,
    /// and reads for nothing.
    pub hash: u8,
    /// Of its position. The highest position stands for an empty slot; what is beyond is cut off.
    pub position: u8,
}

impl SlotBits {
    /// Bits of a slot.
    pub fn all(&self) -> usize {
        usize::from(self.hash) + HITS_BITS + usize::from(self.position)
    }
}

/// Where an object lies and how often it was asked for, since it is known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where: as the engine counts.
    pub position: u64,
    /// How often, up to [`MOST_HITS`]. When a full set has to drop one, it drops the one with
    /// the fewest hits and takes that many from all.
    pub hits: u8,
}

/// See the module. Memory: its slots, and 24 bytes a thousand sets.
pub struct Resident {
    sets: Sets,
    bits: SlotBits,
}

struct Slots<'a> {
    bytes: &'a mut [u8],
    bits: SlotBits,
}

impl Resident {
    /// As many sets as fit in so many bytes, all empty. Allocates all of it now.
    pub fn within(bytes: u64, bits: SlotBits) -> Resident {
        // Eight slots take as many bytes as a slot has bits.
        let set_bytes = bits.all();
        let mut empty = vec![0; set_bytes];
        (0..WAYS).for_each(|way| Slots { bytes: &mut empty, bits }.put(way, 0, None));
        Resident { sets: Sets::new(bytes / set_bytes as u64, &empty), bits }
    }

    /// Objects that have room.
    pub fn slots(&self) -> u64 {
        self.sets.len() * WAYS as u64
    }

    /// Bytes of memory.
    pub fn allocated_bytes(&self) -> u64 {
        self.sets.allocated_bytes()
    }

    fn with<T>(&self, id_low: u64, work: impl FnOnce(&mut Slots<'_>, u16) -> T) -> Option<T> {
        let (bits, hash) = (self.bits, hash(id_low, self.bits.hash));
        self.sets.with(self.sets.set_of(id_low), |bytes| work(&mut Slots { bytes, bits }, hash))
    }

    /// What is known of an object of this hash, if anything is. It may be another one's.
    pub fn find(&self, id_low: u64) -> Option<Entry> {
        self.with(id_low, |slots, hash| slots.of(hash).map(|(_, entry)| entry)).flatten()
    }

    /// The object that lies at this position was asked for; how often since it is known, with this.
    pub fn hit(&self, id_low: u64, position: u64) -> Option<u8> {
        let counted = |slots: &mut Slots<'_>, hash| {
            let (way, entry) = slots.of(hash).filter(|(_, entry)| entry.position == position)?;
            let hits = (entry.hits + 1).min(MOST_HITS);
            slots.put(way, hash, Some(Entry { position, hits }));
            Some(hits)
        };
        self.with(id_low, counted).flatten()
    }

    /// How often the object that lies at this position was asked for, if it is known.
    pub fn hits(&self, id_low: u64, position: u64) -> Option<u8> {
        self.find(id_low).filter(|entry| entry.position == position).map(|entry| entry.hits)
    }

    /// An object lies there. It takes the slot of its hash, or an empty one, or that of what was asked for least. If even that was asked
    /// for, its hits are taken from every slot of the set.
    pub fn enter(&self, id_low: u64, entry: Entry) {
        self.with(id_low, |slots, hash| {
            let same = slots.of(hash).map(|(way, _)| way);
            let way = same.or_else(|| slots.empty()).unwrap_or_else(|| slots.sweep(id_low as usize));
            slots.put(way, hash, Some(entry));
        });
    }

    /// Nothing is known any more of an object of this hash, or of another one with it.
    pub fn forget(&self, id_low: u64) {
        self.with(id_low, |slots, hash| slots.of(hash).map(|(way, _)| slots.put(way, 0, None)));
    }

    /// Nothing is known any more of what lies at these positions. Walks all slots: milliseconds a million.
    pub fn drop_in(&self, positions: &Range<u64>) {
        for set in 0..self.sets.len() {
            self.sets.with(set, |bytes| {
                let mut slots = Slots { bytes, bits: self.bits };
                for way in 0..WAYS {
                    if slots.get(way).1.is_some_and(|entry| positions.contains(&entry.position)) {
                        slots.put(way, 0, None);
                    }
                }
            });
        }
    }

    /// What lies at this position is no longer to be found there, unless it is kept, by how often it was asked for. Whether it was dropped, if
    /// it was known.
    pub fn drop_unless(&self, id_low: u64, position: u64, keeps: impl Fn(u8) -> bool) -> Option<bool> {
        let dropped = |slots: &mut Slots<'_>, hash| {
            let (way, entry) = slots.of(hash).filter(|(_, entry)| entry.position == position)?;
            let leaves = !keeps(entry.hits);
            if leaves {
                slots.put(way, 0, None);
            }
            Some(leaves)
        };
        self.with(id_low, dropped).flatten()
    }
}

impl Slots<'_> {
    /// Bits before the hits, and before the position.
    fn shifts(&self) -> (usize, usize) {
        let hash = usize::from(self.bits.hash);
        (hash, hash + HITS_BITS)
    }

    fn nowhere(&self) -> u64 {
        u64::MAX >> (64 - u32::from(self.bits.position).clamp(1, 64))
    }

    /// All bits of a slot: lookups compare those of eight, and take one apart.
    #[inline]
    fn packed(&self, way: usize) -> u64 {
        let bits = self.bits.all();
        Field { shift: 0, bits }.get(self.bytes, bits, way)
    }

    fn get(&self, way: usize) -> (u16, Option<Entry>) {
        let (packed, (to_hits, to_position)) = (self.packed(way), self.shifts());
        let position = packed >> to_position;
        let entry = Entry { position, hits: (packed >> to_hits) as u8 & MOST_HITS };
        (super::hash::hash(packed, self.bits.hash), (position != self.nowhere()).then_some(entry))
    }

    fn put(&mut self, way: usize, hash: u16, entry: Option<Entry>) {
        let (hits, position) = entry.map_or((0, self.nowhere()), |entry| (entry.hits, entry.position));
        let ((to_hits, to_position), bits) = (self.shifts(), self.bits.all());
        let packed = u64::from(hash) | u64::from(hits) << to_hits | position << to_position;
        Field { shift: 0, bits }.set(self.bytes, bits, way, packed);
    }

    fn of(&self, wanted: u16) -> Option<(usize, Entry)> {
        // Hashes alone, and without a branch for each.
        let hash = Field { shift: 0, bits: self.bits.hash.into() };
        let is_same = |way| hash.get(self.bytes, self.bits.all(), way) == u64::from(wanted);
        let mut same = (0..WAYS).fold(0_u8, |same, way| same | u8::from(is_same(way)) << way);
        while same != 0 {
            let way = same.trailing_zeros() as usize;
            if let Some(entry) = self.get(way).1 {
                return Some((way, entry));
            }
            same &= same - 1;
        }
        None
    }

    fn empty(&self) -> Option<usize> {
        let (to_position, nowhere) = (self.shifts().1, self.nowhere());
        (0..WAYS).find(|way| self.packed(*way) >> to_position == nowhere)
    }

    /// The slot of a full set that was asked for least, looked for from some way on; as many hits are taken from all.
    fn sweep(&mut self, from: usize) -> usize {
        let ways = || (0..WAYS).map(|way| (from % WAYS + way) % WAYS);
        let (field, bits) = (Field { shift: self.shifts().0, bits: HITS_BITS }, self.bits.all());
        let (mut least, mut taken) = (from % WAYS, MOST_HITS + 1);
        for way in ways() {
            let hits = field.get(self.bytes, bits, way) as u8;
            if hits < taken {
                (least, taken) = (way, hits);
            }
            // Mostly one of the first was not asked for at all.
            if hits == 0 {
                break;
            }
        }
        for way in ways().filter(|_| taken > 0) {
            if let (hash, Some(entry)) = self.get(way) {
                self.put(way, hash, Some(Entry { hits: entry.hits - taken, ..entry }));
            }
        }
        least
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    const BITS: SlotBits = SlotBits { hash: 12, position: 32 };

    fn at(position: u64) -> Entry {
        Entry { position, hits: 0 }
    }

    #[test]
    fn what_was_asked_for_stays_longer() {
        let resident = Resident::within(46, BITS);
        assert_eq!((resident.slots(), BITS.all()), (8, 46));
        (0..8).for_each(|n| resident.enter(n, at(n)));
        assert_eq!([0, 3, 3, 3, 3].map(|n| resident.hit(n, n)), [Some(1), Some(1), Some(2), Some(3), Some(3)]);
        assert_eq!((resident.hit(5, 6), resident.hit(9, 9)), (None, None), "another place, and nothing");
        (100..120).for_each(|n| resident.enter(n, at(n)));
        assert_eq!((resident.hits(0, 0), resident.hits(3, 3)), (Some(1), Some(3)));
        assert!((1..8).filter(|n| *n != 3).all(|n| resident.find(n).is_none()));
        // All have been asked for: what leaves has the fewest hits, one, and that is taken from each.
        (100..120).filter(|n| resident.find(*n).is_some()).for_each(|n| assert_eq!(resident.hit(n, n), Some(1)));
        resident.enter(200, at(200));
        let there: Vec<_> = [0, 3].into_iter().chain(100..120).filter_map(|n| resident.hits(n, n)).collect();
        assert_eq!((there.len(), there.iter().sum::<u8>()), (7, 2), "{there:?}");
    }

    #[test]
    fn what_was_dropped_or_moved_is_not_found_where_it_was() {
        let resident = Resident::within(4600, BITS);
        resident.enter(7, at(1));
        resident.enter(7, Entry { position: 2, hits: 2 });
        assert_eq!(resident.find(7), Some(Entry { position: 2, hits: 2 }));
        assert_eq!(resident.drop_unless(7, 1, |_| false), None);
        assert_eq!(resident.drop_unless(7, 2, |hits| hits > 1), Some(false));
        assert_eq!((resident.drop_unless(7, 2, |hits| hits > 2), resident.find(7)), (Some(true), None));
        (0..40).for_each(|n| resident.enter(n << 56 | n, at(n)));
        resident.forget(3 << 56 | 3);
        resident.drop_in(&(10..20));
        let there: Vec<_> = (0..40).filter(|n| resident.find(n << 56 | n).is_some()).collect();
        assert_eq!(there, (0..40).filter(|n| *n != 3 && !(10..20).contains(n)).collect::<Vec<_>>());
    }

    #[test]
    fn without_memory_nothing_is_known() {
        for bytes in [0, 45] {
            let resident = Resident::within(bytes, BITS);
            resident.enter(7, at(1));
            assert_eq!((resident.slots(), resident.find(7), resident.hit(7, 1)), (0, None, None));
            assert_eq!(resident.drop_unless(7, 1, |_| false), None);
        }
    }

    proptest! {
        /// What is found is what was said last of the object, or of another one with its hash and set: here there is none.
        #[test]
        fn it_knows_what_was_said_last_or_nothing(
            steps in proptest::collection::vec((0..3_u8, 0..60_u64, 0..1000_u64), 0..300),
            bits in (12..=16_u8, 10..=40_u8).prop_map(|(hash, position)| SlotBits { hash, position }),
            sets in 0..6_u64,
        ) {
            let resident = Resident::within(sets * bits.all() as u64, bits);
            let id = |object: u64| object << 58 | object;
            let mut said = HashMap::new();
            for (what, object, position) in steps {
                match what {
                    0 => {
                        resident.enter(id(object), at(position));
                        said.insert(object, position);
                        prop_assert_eq!(resident.find(id(object)).is_some(), sets > 0);
                    }
                    1 => {
                        let at = said.get(&object).copied().unwrap_or(position);
                        resident.drop_unless(id(object), at, |_| false);
                        prop_assert!(resident.find(id(object)).is_none());
                    }
                    _ => drop(said.get(&object).map(|at| resident.hit(id(object), *at))),
                }
                let known = (0..60).filter_map(|object| Some((object, resident.find(id(object))?)));
                for (object, entry) in known {
                    prop_assert_eq!(Some(&entry.position), said.get(&object));
                }
            }
        }
    }
}
