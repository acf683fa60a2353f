//! What happens inside one set: finding, inserting, the order of use, and who leaves (sections 3.2 to 3.4).

use super::format::{Set, Slot, WAYS};
use crate::index::ranks::touch;
use crate::layout::reach::Reach;

/// What an insertion did to the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// A free slot took it.
    Free,
    /// The set was full, and what was most likely an older version of this object left.
    Updated,
    /// The set was full, and another object left.
    Replaced,
}

/// Put an object into a set and make it the most recently used. `is_live` says whether a slot's place still holds
/// its record. The victim is a free or dead slot; else the oldest with this fingerprint (most likely a version that
/// this one replaces); else the least recently used. Returned with its slot as it was.
pub fn insert(
    set: &mut Set<'_>,
    fingerprint: u16,
    (place, reach): ((u32, u8), Reach),
    is_live: impl Fn(&Slot) -> bool,
    age: impl Fn(&Slot) -> u64,
) -> (Inserted, Slot) {
    let free = || set.slots().find(|(_, slot)| !is_live(slot));
    let same = || set.slots().filter(|(_, slot)| slot.fingerprint == fingerprint).max_by_key(|(_, slot)| age(slot));
    let oldest = || set.slots().max_by_key(|(_, slot)| slot.rank);
    let (inserted, victim) = match free() {
        Some(free) => (Inserted::Free, Some(free)),
        None => match same() {
            Some(same) => (Inserted::Updated, Some(same)),
            None => (Inserted::Replaced, oldest()),
        },
    };
    let way = victim.map_or(0, |(way, _)| way);
    let left = set.get(way);
    set.put(way, Slot { fingerprint, rank: left.rank, place: Some(place), reach });
    touch(set, way);
    (inserted, left)
}

/// Empty the slots that `dead` picks, and tell where each of them led.
pub fn clear(set: &mut Set<'_>, dead: impl Fn(&Slot) -> bool, mut cleared: impl FnMut((u32, u8))) {
    for way in 0..WAYS {
        let slot = set.get(way);
        if let Some(place) = slot.place.filter(|_| dead(&slot)) {
            set.put(way, Slot { place: None, ..slot });
            cleared(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::format::Cut;
    use super::*;
    use proptest::prelude::*;

    const CUT: Cut = Cut { hash_bits: 8, has_reaches: false };

    fn live(slot: &Slot) -> bool {
        slot.place.is_some()
    }

    fn add(set: &mut Set<'_>, fingerprint: u16, position: u32) -> Inserted {
        insert(set, fingerprint, ((position, 1), Reach(0)), live, |slot| {
            u64::MAX - u64::from(slot.place.map_or(0, |place| place.0))
        })
        .0
    }

    #[test]
    fn the_least_recently_used_leaves_a_full_set() {
        let mut bytes = Set::empty(CUT);
        let mut set = Set::over(&mut bytes, CUT);
        for n in 0..8 {
            assert_eq!(add(&mut set, n, u32::from(n)), Inserted::Free);
        }
        let way = set.slots().find(|(_, slot)| slot.fingerprint == 0).map(|(way, _)| way).unwrap();
        touch(&mut set, way);
        assert_eq!(add(&mut set, 100, 100), Inserted::Replaced);
        let left: Vec<_> = set.slots().map(|(_, slot)| slot.fingerprint).collect();
        assert!(left.contains(&0) && !left.contains(&1) && left.contains(&100));
    }

    #[test]
    fn in_a_full_set_the_oldest_of_the_same_fingerprint_leaves_first() {
        let mut bytes = Set::empty(CUT);
        let mut set = Set::over(&mut bytes, CUT);
        for n in 0..6 {
            add(&mut set, n, u32::from(n));
        }
        add(&mut set, 5, 50);
        assert_eq!(add(&mut set, 6, 60), Inserted::Free);
        assert_eq!(add(&mut set, 5, 70), Inserted::Updated);
        let mut fives: Vec<_> =
            set.slots().filter(|(_, slot)| slot.fingerprint == 5).map(|(_, slot)| slot.place).collect();
        fives.sort();
        assert_eq!(fives, [Some((50, 1)), Some((70, 1))], "position 5 was the oldest of them");
    }

    proptest! {
        /// Ranks stay an order of all eight slots whatever happens.
        #[test]
        fn ranks_stay_an_order(steps in proptest::collection::vec((0..3_u8, 0..256_u16, 0..1000_u32), 0..100)) {
            let mut bytes = Set::empty(CUT);
            let mut set = Set::over(&mut bytes, CUT);
            for (what, fingerprint, position) in steps {
                match what {
                    0 => touch(&mut set, fingerprint as usize % WAYS),
                    1 => clear(&mut set, |slot| slot.fingerprint % 4 == fingerprint % 4, |_| ()),
                    _ => { add(&mut set, fingerprint, position); }
                }
                let mut ranks: Vec<_> = set.slots().map(|(_, slot)| slot.rank).collect();
                ranks.sort_unstable();
                prop_assert_eq!(ranks, (0..8).collect::<Vec<u8>>());
            }
        }
    }
}
