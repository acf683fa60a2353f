//! Future-looking placement (section 3.4): where each object will lie and what it will replace, from all requests there will be.

use std::collections::{BTreeMap, HashMap};

use tinaja_store::device::mapped::{CLASSES, HEADER_BYTES, Packer, Packing, Segment};

use crate::load::Request;

/// The placement table. Memory: 16 bytes an object that is placed.
pub struct Placements {
    table: HashMap<u64, Segment>,
    /// Objects that are asked for more than once.
    pub worth_it: u64,
    /// Those that the packer placed (step 2).
    pub packed: u64,
    /// Those that will replace another (step 3).
    pub replacing: u64,
}

/// What there is to know of an object.
struct Known {
    object: u64,
    class: usize,
    times: u32,
    first: u32,
    last: u32,
}

impl Placements {
    /// For a file of so many bytes, in pages of 8 KiB. Objects that do not go into a page are left out.
    pub fn of(requests: &[Request], file_bytes: u64) -> Placements {
        let mut known: HashMap<u64, Known> = HashMap::new();
        for (number, request) in (0..).zip(requests) {
            let Some(class) = class_of(request.bytes) else { continue };
            let new = || Known { object: request.object, class, times: 0, first: number, last: number };
            let one = known.entry(request.object).or_insert_with(new);
            (one.times, one.last) = (one.times + 1, number);
        }
        // Step 1, and equally popular ones in the order in which they come.
        let mut known: Vec<Known> = known.into_values().filter(|one| one.times > 1).collect();
        known.sort_unstable_by_key(|one| (u32::MAX - one.times, one.first));
        let worth_it = known.len() as u64;
        let mut packer = Packer::new(Packing::WithinPages, CLASSES - 1, 0, file_bytes);
        let mut table = HashMap::new();
        let mut slots: [Vec<Slot>; CLASSES] = Default::default();
        let (mut rest, mut is_full) = (Vec::new(), false);
        for one in known {
            // Step 2, until one does not fit.
            let place = if is_full { None } else { packer.place(one.class) };
            match (place, slots.get_mut(one.class)) {
                (Some(segment), Some(slots)) => {
                    slots.push(Slot::of(segment, &one));
                    table.insert(one.object, segment);
                }
                _ => {
                    is_full = true;
                    rest.push(one);
                }
            }
        }
        let packed = table.len() as u64;
        // Step 3.
        let mut rooms = slots.map(Rooms::of);
        for one in rest {
            if let Some(segment) = rooms.get_mut(one.class).and_then(|rooms| rooms.place(&one)) {
                table.insert(one.object, segment);
            }
        }
        let replacing = table.len() as u64 - packed;
        Placements { table, worth_it, packed, replacing }
    }

    /// Where an object will lie, if it is to be kept.
    pub fn get(&self, object: u64) -> Option<Segment> {
        self.table.get(&object).copied()
    }
}

/// The class of segment for an object, of whose bytes the header takes the place of some, so that as many objects are of a class as in
/// the paper. `None` for more than a page.
pub fn class_of(bytes: u64) -> Option<usize> {
    Segment::class_for(usize::try_from(bytes).ok()?.saturating_sub(HEADER_BYTES))
}

/// A segment, and when it is in use: from an object's first request to its last.
struct Slot {
    segment: Segment,
    uses: BTreeMap<u32, u32>,
}

impl Slot {
    fn of(segment: Segment, one: &Known) -> Slot {
        Slot { segment, uses: BTreeMap::from([(one.first, one.last)]) }
    }

    fn is_free(&self, first: u32, last: u32) -> bool {
        self.uses.range(..=last).next_back().is_none_or(|(_, end)| *end < first)
    }

    /// Before its first use, after its last one, and the longest time between two.
    fn gaps(&self) -> Gaps {
        let (first, last) = (self.uses.first_key_value(), self.uses.last_key_value());
        let between = self.uses.iter().zip(self.uses.iter().skip(1)).map(|((_, end), (begin, _))| begin - end);
        Gaps {
            before: first.map_or(u32::MAX, |(begin, _)| *begin),
            after: last.map_or(0, |(_, end)| *end),
            between: between.max().unwrap_or_default(),
        }
    }
}

/// What of one slot, or of several the best.
#[derive(Clone, Copy)]
struct Gaps {
    before: u32,
    after: u32,
    between: u32,
}

impl Gaps {
    const NONE: Gaps = Gaps { before: 0, after: u32::MAX, between: 0 };

    fn or(self, other: Gaps) -> Gaps {
        Gaps {
            before: self.before.max(other.before),
            after: self.after.min(other.after),
            between: self.between.max(other.between),
        }
    }

    /// Whether there may be room.
    fn may_have(self, first: u32, last: u32) -> bool {
        last < self.before || first > self.after || self.between > last - first
    }
}

/// The slots of one class, the most popular object's first, and above them a tree of what they have free.
struct Rooms {
    slots: Vec<Slot>,
    /// From the root, 1, on: of two children the best.
    tree: Vec<Gaps>,
}

impl Rooms {
    fn of(slots: Vec<Slot>) -> Rooms {
        let leaves = slots.len().next_power_of_two();
        let mut rooms = Rooms { slots, tree: vec![Gaps::NONE; 2 * leaves] };
        (0..rooms.slots.len()).for_each(|slot| rooms.note(slot));
        rooms
    }

    fn leaves(&self) -> usize {
        self.tree.len() / 2
    }

    /// A slot's use has changed.
    fn note(&mut self, slot: usize) {
        let mut at = self.leaves() + slot;
        let Some(gaps) = self.slots.get(slot).map(Slot::gaps) else { return };
        self.tree.get_mut(at).into_iter().for_each(|leaf| *leaf = gaps);
        while at > 1 {
            at /= 2;
            let both = self.gaps(2 * at).or(self.gaps(2 * at + 1));
            self.tree.get_mut(at).into_iter().for_each(|node| *node = both);
        }
    }

    fn gaps(&self, at: usize) -> Gaps {
        self.tree.get(at).copied().unwrap_or(Gaps::NONE)
    }

    /// In the slot of the most popular object that has this time free.
    fn place(&mut self, one: &Known) -> Option<Segment> {
        let slot = self.find(1, one.first, one.last)?;
        let found = self.slots.get_mut(slot)?;
        found.uses.insert(one.first, one.last);
        let segment = found.segment;
        self.note(slot);
        Some(segment)
    }

    fn find(&self, at: usize, first: u32, last: u32) -> Option<usize> {
        if !self.gaps(at).may_have(first, last) {
            return None;
        }
        match at.checked_sub(self.leaves()) {
            Some(slot) => Some(slot).filter(|slot| self.slots.get(*slot).is_some_and(|slot| slot.is_free(first, last))),
            None => self.find(2 * at, first, last).or_else(|| self.find(2 * at + 1, first, last)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::experiments::maltzahn::load::request;

    /// Two pages: popular objects stay, and those with a time of their own come one after the other.
    #[test]
    fn the_most_popular_stay_and_others_take_turns() {
        // 1 and 2 fill the file; 3 is asked for once; 4 and 5 have times apart, and 2's ends before theirs begin; 6 has none.
        let asked = [1, 2, 2, 6, 2, 1, 4, 4, 3, 5, 1, 5, 6, 1];
        let requests: Vec<_> = asked.iter().map(|object| request(*object, 8000)).collect();
        let placements = Placements::of(&requests, 16_384);
        let at = |object| placements.get(object).map(|segment| segment.offset());
        assert_eq!([1, 2, 3, 4, 5, 6].map(at), [Some(0), Some(8192), None, Some(8192), Some(8192), None]);
        assert_eq!((placements.worth_it, placements.packed, placements.replacing), (5, 2, 2));
    }

    proptest! {
        /// Never do two objects need one segment at the same time, and the tree finds what a look at each slot finds.
        #[test]
        fn nobody_is_in_the_way(asked in prop::collection::vec((0..60_u64, 0..3_u64), 0..400), pages in 1..6_u64) {
            let requests: Vec<_> = asked.iter().map(|(object, _)| request(*object, 500 << (object % 5))).collect();
            let placements = Placements::of(&requests, pages * 8192);
            let mut uses: HashMap<u64, (u64, u32, u32)> = HashMap::new();
            for (number, one) in (0..).zip(&requests) {
                if let Some(segment) = placements.get(one.object) {
                    let used = uses.entry(one.object).or_insert((segment.offset(), number, number));
                    used.2 = number;
                    prop_assert!(segment.offset() + segment.bytes() <= pages * 8192);
                }
            }
            let all: Vec<_> = uses.values().collect();
            for (number, (at, first, last)) in all.iter().enumerate() {
                let clash = all.iter().skip(number + 1).find(|other| other.0 == *at && other.1 <= *last && *first <= other.2);
                prop_assert!(clash.is_none());
            }
            prop_assert_eq!(placements.packed + placements.replacing, uses.len() as u64);
        }

        #[test]
        fn the_first_slot_with_room_is_found(
            uses in prop::collection::vec((0..50_u32, 0..9_u32), 1..20), asked in prop::collection::vec((0..60_u32, 0..20_u32), 0..30),
        ) {
            let known = |(first, long): (u32, u32)| Known { object: 0, class: 4, times: 2, first, last: first + long };
            let segment = |slot: usize| Segment::new(slot as u64 * 8192, 4).unwrap();
            let mut rooms = Rooms::of(uses.iter().enumerate().map(|(slot, use_)| Slot::of(segment(slot), &known(*use_))).collect());
            for one in asked.into_iter().map(known) {
                let expected = rooms.slots.iter().find(|slot| slot.is_free(one.first, one.last)).map(|slot| slot.segment);
                prop_assert_eq!(rooms.place(&one), expected);
            }
        }
    }
}
