//! How many slots of the index may lead to a record: those whose position memory has by where they lead, all others by their lap.
//!
//! Of a position that is on disk memory has the lap only, and so it is by its lap that it is taken to be overwritten.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::LruIndex;
use crate::engine::Place;
use crate::engine::hashcache::laps::{LAPS, full_lap, written_at};
use crate::engine::hashcache::live::SlotsByRegion;
use crate::engine::hashcache::loglru::set::{LruSet, Used};
use crate::layout::LogLayout;

/// The counts. Memory: 8 bytes a region of the log, and 128.
pub(super) struct Counts {
    in_memory: SlotsByRegion,
    on_disk: [AtomicU64; LAPS as usize],
}

impl Counts {
    /// No slot is in use.
    pub(super) fn none(layout: LogLayout) -> Self {
        Counts { in_memory: SlotsByRegion::none(layout), on_disk: Default::default() }
    }

    /// A slot is about to lead to this place, with its position in memory.
    pub(super) fn add(&self, place: Place) {
        self.in_memory.add(place);
    }

    /// A slot of such a lap is in use, and its position is on disk, or on its way. Called with its shard locked.
    pub(super) fn add_on_disk(&self, lap: u8) {
        if let Some(count) = self.on_disk.get(usize::from(lap)) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// A slot does not lead where it led. Called with its shard locked.
    pub(super) fn take(&self, slot: Used) {
        match (slot.position, self.on_disk.get(usize::from(slot.lap))) {
            (Some(position), _) => self.in_memory.take((position, slot.lap)),
            (None, Some(count)) => drop(count.fetch_sub(1, Relaxed)),
            (None, None) => {}
        }
    }

    /// Slots that lead into regions of which `is_there` says that they are still what they were, and those of laps of which
    /// `is_kept` says that their positions may still be on disk.
    pub(super) fn sum(&self, is_there: impl Fn(Place) -> bool, is_kept: impl Fn(u8) -> bool) -> u64 {
        let on_disk = (0..).zip(&self.on_disk).filter(|(lap, _)| is_kept(*lap));
        self.in_memory.sum(is_there) + on_disk.map(|(_, count)| count.load(Relaxed)).sum::<u64>()
    }
}

impl LruIndex {
    /// Count the slots of a set of which none was counted.
    pub(super) fn count(&self, set: &LruSet<'_>) {
        for Used { lap, position } in set.used().filter_map(|way| set.used_as(way)) {
            match position.map(|position| written_at(&self.layout, &self.frontier, position, lap)) {
                Some(place) => place.into_iter().for_each(|place| self.live.add(place)),
                None => self.live.add_on_disk(lap),
            }
        }
    }

    /// Free a slot. Called with its shard locked.
    pub(super) fn free(&self, set: &mut LruSet<'_>, way: usize) {
        set.used_as(way).into_iter().for_each(|left| self.live.take(left));
        set.clear(way);
    }

    /// Slots that may lead to a record, as they were counted: a few steps for each region, and no set is locked.
    pub fn live(&self) -> u64 {
        let is_kept = |lap| full_lap(&self.layout, &self.frontier, lap).is_some() && !self.offsets.is_lost();
        self.live.sum(|region| self.frontier.is_reachable(region), is_kept)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::sync_channel;

    use super::*;
    use crate::engine::Kind;
    use crate::engine::hashcache::live::testing::{Random, SmallLog, agree, disk, layout};
    use crate::engine::hashcache::loglru::{OffsetLayout, Said};
    use crate::index::Sets;
    use crate::layout::SummaryEntry;
    use crate::layout::reach::Reach;

    impl LruIndex {
        /// What [`LruIndex::live`] says, of every slot.
        fn live_by_walk(&self) -> u64 {
            (0..self.sets.len()).map(|set| self.places(set).len() as u64).sum()
        }

        /// Read a position, and have the slot used.
        fn use_slot(self: &Arc<Self>, id_low: u64) {
            let (tell, told) = sync_channel(1);
            self.locate(
                id_low,
                Box::new(move |located| {
                    let _ = tell.send(located);
                }),
            );
            if let Some((place, reach, moment)) = told.recv().unwrap() {
                self.promote(id_low, (place, reach), moment);
            }
        }

        /// Something that happens to an index; the record that was entered.
        fn step(self: &Arc<Self>, log: &SmallLog, random: &mut Random, enters: bool) -> Option<SummaryEntry> {
            let (id_low, reach) = (random.id_low(300), Reach::default());
            let near = Place(log.frontier.next().0.saturating_sub(random.below(1 << 20)));
            match (random.below(10), self.say(id_low)) {
                (0, _) => self.remove_low(id_low),
                (1, _) => self.remove_to(id_low, near),
                (2 | 3, Said::At(place)) => self.touch(id_low, place),
                (2..=4, _) => self.use_slot(id_low),
                _ => {
                    let place = log.append(random.below(30_000));
                    if enters {
                        self.insert_low(id_low, place, reach);
                    }
                    self.offsets.write_if_due();
                    log.sweep(|region| self.sweep(region));
                    return enters.then_some(SummaryEntry { id_low, place, kind: Kind::Whole, reach, number: 0 });
                }
            }
            None
        }
    }

    fn file(sets: u64) -> OffsetLayout {
        OffsetLayout { base: 0, sets, has_reaches: false, is_apart: true }
    }

    fn index(log: &SmallLog, fails_one_in: u64, kept: usize, sets: u64) -> Arc<LruIndex> {
        let index = LruIndex::new(Some(disk(fails_one_in)), file(sets), (kept, 8), log.frontier.clone(), layout());
        index.start().unwrap();
        index
    }

    #[test]
    fn what_is_counted_is_what_a_walk_finds() {
        for (seed, kept, fails_one_in, sets) in
            [(1, 4, 0, 20), (2, 1, 0, 20), (3, 7, 0, 3), (4, 8, 0, 20), (5, 3, 3, 20)]
        {
            let (log, mut random) = (SmallLog::on(disk(20)), Random(seed));
            let (mut index, mut held, mut sum) = (index(&log, fails_one_in, kept, sets), Vec::new(), 0);
            for step in 0..12_000 {
                // For more laps than four bits tell apart nothing is entered.
                held.extend(index.step(&log, &mut random, !(2000..6000).contains(&step)));
                sum += agree(|| index.live(), || index.live_by_walk());
                if random.below(1000) == 0 && fails_one_in == 0 {
                    let floor = Place(log.frontier.next().0 - layout().log_bytes());
                    held.retain(|entry| entry.place >= floor);
                    index = self::index(&log, 0, kept, sets);
                    index.fill(held.clone(), |entry| entry.id_low % 7 == 0).unwrap();
                    agree(|| index.live(), || index.live_by_walk());
                }
            }
            assert!(layout().lap(log.frontier.next()) > 40 && sum > 12_000 * 4, "{sum}");
            assert_eq!(index.offsets.stats().write_errors > 0, fails_one_in > 0);
        }
    }

    /// What only the file had is forgotten with it, and so is what would have to go there.
    #[test]
    fn a_file_that_is_given_up_takes_its_slots_along() {
        let (log, mut random) = (SmallLog::on(disk(0)), Random(6));
        let index = index(&log, 1, 2, 20);
        let mut most = 0;
        for _ in 0..8000 {
            index.step(&log, &mut random, true);
            most = most.max(agree(|| index.live(), || index.live_by_walk()));
        }
        assert!(index.offsets.is_lost() && (20..=40).contains(&index.live()) && most > 60, "{most}");
        assert_eq!(index.live.sum(|_| false, |_| true), 0, "all are swept");
    }

    #[test]
    fn threads_count_as_one_would() {
        let log = SmallLog::on(disk(0));
        let index = index(&log, 0, 4, 8);
        std::thread::scope(|scope| {
            for seed in 0..4 {
                let (log, index) = (&log, &index);
                scope.spawn(move || {
                    let mut random = Random(seed);
                    for _ in 0..4000 {
                        index.step(log, &mut random, true);
                    }
                });
            }
        });
        assert!(agree(|| index.live(), || index.live_by_walk()) > 20);
    }

    /// Whoever asks for figures waits for nobody that looks something up: here it would wait for itself.
    #[test]
    fn figures_lock_no_set() {
        let log = SmallLog::on(disk(0));
        let index = index(&log, 0, 4, 20);
        index.insert_low(7, log.append(100), Reach::default());
        assert_eq!(Sets::shards_for(20, 15 + 4 * 4).0, 1);
        let figures = || (index.live(), index.sets(), index.lost(), index.allocated_bytes(), index.offsets.stats());
        let (live, sets, ..) = index.sets.with(0, |_| figures()).unwrap();
        assert_eq!((live, sets), (1, 20));
    }
}
