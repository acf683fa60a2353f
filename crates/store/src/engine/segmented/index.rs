//! The index in memory: what hash lies where in the log (section 3.2.1), and how often it was asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::format::{MOST_HITS, Set, Slot, WAYS, fingerprint};
use crate::engine::Place;
use crate::index::Sets;
use crate::layout::{LogLayout, Segments};

/// Sets of eight slots. Memory: 46 bytes a set, and 24 bytes a thousand sets.
pub struct Index {
    sets: Sets,
    segments: Arc<Segments>,
    layout: LogLayout,
    /// Slots that lead somewhere: a segment becomes free only when none leads to it, so all of these lead to a record.
    live: AtomicU64,
    lost: AtomicU64,
}

impl Index {
    /// Sets with room for so many entries, rounded up to whole sets. Allocates all of it now.
    pub fn room(slots: u64) -> Sets {
        Sets::new(Self::sets_for(slots), &Set::empty())
    }

    /// How many sets that is.
    pub fn sets_for(slots: u64) -> u64 {
        slots.div_ceil(WAYS as u64).max(1)
    }

    /// An index over such sets. Of those that hold something [`Index::drop_homeless`] is to say first what counts.
    pub fn over(sets: Sets, segments: Arc<Segments>, layout: LogLayout) -> Self {
        Index { sets, segments, layout, live: AtomicU64::new(0), lost: AtomicU64::new(0) }
    }

    /// The sets themselves.
    pub fn slots(&self) -> &Sets {
        &self.sets
    }

    /// Objects dropped because their set was full, since the index was made.
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    fn position(&self, place: Place) -> Option<u32> {
        Some((place.0 % self.layout.log_bytes() / self.layout.unit) as u32)
    }

    /// Where a slot's record was written, unless its segment is free.
    fn place(&self, slot: &Slot) -> Option<Place> {
        let at = u64::from(slot.position?) * self.layout.unit;
        let number = (at / self.layout.region_bytes) as usize;
        let home = self.segments.home(number)?;
        Some(Place(home.0 + at % self.layout.region_bytes))
    }

    fn with<T>(&self, id_low: u64, work: impl FnOnce(&mut Set<'_>) -> T) -> Option<T> {
        self.sets.with(self.sets.set_of(id_low), |bytes| work(&mut Set(bytes)))
    }

    /// Where the object of this hash may lie.
    pub fn find(&self, id_low: u64) -> Option<Place> {
        let wanted = fingerprint(id_low);
        let place = |set: &mut Set<'_>| {
            set.slots().filter(|(_, slot)| slot.fingerprint == wanted).find_map(|(_, slot)| self.place(&slot))
        };
        self.with(id_low, place).flatten()
    }

    /// Enter a record by the low half of its digest. It takes the slot of its fingerprint, most likely an older version's;
    /// else a free one; else that of the oldest record in the set, which would be cleaned first.
    pub fn insert_low(&self, id_low: u64, place: Place) {
        let wanted = fingerprint(id_low);
        let lost = self.with(id_low, |set| {
            let same = || set.slots().find(|(_, slot)| slot.position.is_some() && slot.fingerprint == wanted);
            let free = || set.slots().find(|(_, slot)| self.place(slot).is_none());
            let (victim, lost) = match same().or_else(free) {
                Some((way, slot)) => {
                    self.live.fetch_add(u64::from(slot.position.is_none()), Relaxed);
                    (way, false)
                }
                None => (set.slots().min_by_key(|(_, slot)| self.place(slot)).map_or(0, |(way, _)| way), true),
            };
            set.put(victim, Slot { fingerprint: wanted, hits: 0, position: self.position(place) });
            lost
        });
        self.lost.fetch_add(u64::from(lost == Some(true)), Relaxed);
    }

    /// Change the slot of a fingerprint, if `which` says yes to it; whether it did.
    fn change(&self, id_low: u64, which: impl Fn(&Slot) -> bool, into: impl Fn(Slot) -> Slot) -> bool {
        let wanted = fingerprint(id_low);
        let changed = self.with(id_low, |set| {
            let ours = |slot: &Slot| slot.position.is_some() && slot.fingerprint == wanted && which(slot);
            let found = set.slots().find(|(_, slot)| ours(slot));
            if let Some((way, slot)) = found {
                let into = into(slot);
                self.live.fetch_sub(u64::from(into.position.is_none()), Relaxed);
                set.put(way, into);
            }
            found.is_some()
        });
        changed == Some(true)
    }

    /// Drop whatever has this fingerprint.
    pub fn remove_low(&self, id_low: u64) {
        self.change(id_low, |_| true, |slot| Slot { position: None, ..slot });
    }

    /// Drop what has this fingerprint, if it is not newer than `place`.
    pub fn remove_to(&self, id_low: u64, place: Place) {
        let old = |slot: &Slot| self.place(slot).is_none_or(|at| at <= place);
        self.change(id_low, old, |slot| Slot { position: None, ..slot });
    }

    /// Drop the slot that leads to exactly this place; whether there was one.
    pub fn evict(&self, id_low: u64, place: Place) -> bool {
        let position = self.position(place);
        self.change(id_low, |slot| slot.position == position, |slot| Slot { position: None, ..slot })
    }

    /// A record was written once more: its slot leads there, and its hits are counted anew.
    pub fn follow(&self, id_low: u64, from: Place, to: Place) {
        let (old, new) = (self.position(from), self.position(to));
        self.change(id_low, |slot| slot.position == old, |slot| Slot { position: new, hits: 0, ..slot });
    }

    /// The record at a place was asked for.
    pub fn touch(&self, id_low: u64, place: Place) {
        let position = self.position(place);
        let counts = |slot: &Slot| slot.position == position && slot.hits < MOST_HITS;
        self.change(id_low, counts, |slot| Slot { hits: slot.hits + 1, ..slot });
    }

    /// How often the record at a place was asked for; `None` if the index does not lead to it.
    pub fn hits(&self, id_low: u64, place: Place) -> Option<u8> {
        let (wanted, position) = (fingerprint(id_low), self.position(place));
        let ours = |slot: &Slot| slot.fingerprint == wanted && slot.position == position;
        self.with(id_low, |set| set.slots().find(|(_, slot)| ours(slot)).map(|(_, slot)| slot.hits)).flatten()
    }

    /// Drop every slot that leads into one segment: where its summary cannot be read. Walks the whole index: milliseconds a
    /// million.
    pub fn sweep(&self, number: usize) {
        let units = self.layout.region_bytes / self.layout.unit;
        let leads_there = |slot: &Slot| slot.position.is_some_and(|at| u64::from(at) / units == number as u64);
        let (dropped, _) = self.drop_all(leads_there);
        self.live.fetch_sub(dropped, Relaxed);
    }

    /// Drop every saved slot that leads into a segment that is free, and count those that are left.
    pub fn drop_homeless(&self) {
        let (_, left) = self.drop_all(|slot| self.place(slot).is_none());
        self.live.store(left, Relaxed);
    }

    /// Drop slots; how many that were, and how many are left.
    fn drop_all(&self, which: impl Fn(&Slot) -> bool) -> (u64, u64) {
        let (mut dropped, mut left) = (0, 0);
        for set in 0..self.sets.len() {
            self.sets.with(set, |bytes| {
                let mut set = Set(bytes);
                for way in 0..WAYS {
                    let slot = set.get(way);
                    if slot.position.is_some() && which(&slot) {
                        set.put(way, Slot { position: None, ..slot });
                        dropped += 1;
                    } else {
                        left += u64::from(slot.position.is_some());
                    }
                }
            });
        }
        (dropped, left)
    }

    /// The places that one set leads to.
    pub fn places(&self, set: u64) -> Vec<Place> {
        let all = |bytes: &mut [u8]| Set(bytes).slots().filter_map(|(_, slot)| self.place(&slot)).collect();
        self.sets.with(set, all).unwrap_or_default()
    }

    /// Slots that lead to a record, as they were counted.
    pub fn live(&self) -> u64 {
        self.live.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(slots: u64) -> Index {
        let layout = LogLayout::new(4096, 64 << 20, 4096).unwrap();
        let closed = (1..60).map(|n| Place(layout.log_bytes() + n * layout.region_bytes));
        let segments = Segments::new(layout, 64, closed, Place(layout.log_bytes() * 2));
        Index::over(Index::room(slots), Arc::new(segments), layout)
    }

    fn place(region: u64, offset: u64) -> Place {
        let layout = LogLayout::new(4096, 64 << 20, 4096).unwrap();
        Place(layout.log_bytes() + region * layout.region_bytes + offset)
    }

    #[test]
    fn a_newer_version_takes_the_slot_of_the_older() {
        let index = index(8);
        index.insert_low(7, place(1, 100));
        index.touch(7, place(1, 100));
        assert_eq!((index.find(7), index.hits(7, place(1, 100))), (Some(place(1, 100)), Some(1)));
        index.insert_low(7, place(2, 0));
        assert_eq!((index.find(7), index.live(), index.lost()), (Some(place(2, 0)), 1, 0));
        assert!(!index.evict(7, place(1, 100)) && index.evict(7, place(2, 0)));
        assert_eq!(index.find(7), None);
    }

    #[test]
    fn a_full_set_loses_its_oldest() {
        let index = index(8);
        (1..=9).for_each(|n| index.insert_low(n, place(n, n)));
        assert_eq!((index.find(1), index.live(), index.lost()), (None, 8, 1));
        assert!((2..=9).all(|n| index.find(n) == Some(place(n, n))));
        index.remove_to(5, place(4, 0));
        assert!(index.find(5).is_some(), "it is newer than that");
        index.remove_to(5, place(5, 5));
        assert_eq!(index.find(5), None);
    }

    #[test]
    fn hits_are_counted_to_three_and_anew_once_it_was_kept() {
        let index = index(80);
        index.insert_low(7, place(1, 0));
        (0..9).for_each(|_| index.touch(7, place(1, 0)));
        index.touch(7, place(2, 0));
        assert_eq!((index.hits(7, place(1, 0)), index.hits(7, place(2, 0))), (Some(3), None));
        index.follow(7, place(1, 0), place(3, 0));
        assert_eq!((index.find(7), index.hits(7, place(3, 0))), (Some(place(3, 0)), Some(0)));
        index.follow(7, place(1, 0), place(4, 0));
        assert_eq!(index.find(7), Some(place(3, 0)), "it had moved on");
    }

    #[test]
    fn a_sweep_drops_what_lies_in_one_segment() {
        let index = index(8000);
        (0..500).for_each(|n| index.insert_low(n << 55 | n, place(1 + n % 50, n * 8)));
        index.sweep(place(7, 0).0 as usize / (1 << 20) % 64);
        let left = (0..500).filter(|n| index.find(n << 55 | n).is_some()).count();
        assert_eq!((left, index.live(), index.lost()), (490, 490, 0));
    }

    impl Index {
        /// What [`Index::live`] says, of every slot.
        fn live_by_walk(&self) -> u64 {
            (0..self.sets.len()).map(|set| self.places(set).len() as u64).sum()
        }
    }

    /// Records come and go, segments are cleaned and begun, and now and then the index is saved and opened without one of them.
    #[test]
    fn what_is_counted_is_what_a_walk_finds() {
        let layout = LogLayout::new(4096, 4 << 20, 4096).unwrap();
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut current = Place(layout.log_bytes());
        let mut index =
            Index::over(Index::room(300), Arc::new(Segments::new(layout, 64, [].into_iter(), current)), layout);
        let (mut held, mut offset, mut sum) = (Vec::new(), 0, 0);
        for _ in 0..30_000 {
            let id_low = random(500).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let (id_of, at) = held.get(random(100) as usize).copied().unwrap_or((id_low, current));
            match random(12) {
                0 => index.remove_low(id_low),
                1 => index.remove_to(id_of, at),
                2 => drop(index.evict(id_of, at)),
                3 => index.touch(id_of, at),
                4 => index.follow(id_of, at, Place(current.0 + offset)),
                _ => {
                    index.insert_low(id_low, Place(current.0 + offset));
                    held.insert(0, (id_low, Place(current.0 + offset)));
                }
            }
            sum += index.live();
            assert_eq!(index.live(), index.live_by_walk());
            offset += 2000 + random(4000);
            if offset + 8000 > layout.region_bytes {
                while !index.segments.is_enough() {
                    let region = index.segments.next_to_clean().unwrap();
                    index.sweep(layout.region_number(region));
                    index.segments.freed(region);
                    assert_eq!(index.live(), index.live_by_walk());
                }
                current = index.segments.next_after(current).unwrap();
                index.segments.begin(current);
                (held, offset) = (held.into_iter().take(200).collect(), 0);
            }
            if random(1000) == 0 {
                let saved = Index::room(300);
                saved.load_shard(0, &index.sets.copy_shard(0));
                let homes = index.segments.homes().into_iter().filter(|home| home.0 / layout.region_bytes % 5 > 0);
                let segments = Arc::new(Segments::new(layout, 64, homes, current));
                index = Index::over(saved, segments, layout);
                index.drop_homeless();
                assert_eq!(index.live(), index.live_by_walk());
            }
        }
        assert!(sum > 30_000 * 50 && layout.lap(current) > 10, "{sum}");
    }

    /// Whoever asks for figures waits for nobody that looks something up: here it would wait for itself.
    #[test]
    fn figures_lock_no_set() {
        let index = index(80);
        index.insert_low(7, place(1, 0));
        let figures = || (index.live(), index.lost(), index.slots().len(), index.slots().allocated_bytes());
        let (live, lost, sets, _) = index.sets.with(0, |_| figures()).unwrap();
        assert_eq!((live, lost, sets), (1, 0, 10));
    }
}
