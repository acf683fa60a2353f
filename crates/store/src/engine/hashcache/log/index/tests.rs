//! What is counted, against a walk of every slot.

use std::task::{Context, Waker};

use super::*;
use crate::device::{Medium, Memory};
use crate::engine::hashcache::HashCacheLog;
use crate::engine::hashcache::live::testing::{Random, SmallLog, agree, disk, layout};
use crate::engine::hashcache::log::positions::Positions;
use crate::engine::{Engine, Kind, Placement, Record};
use crate::layout::Stamp;
use crate::terms::Digest;

const CUT: Cut = Cut { hash_bits: 8, has_reaches: false };

impl Index {
    /// What [`Index::live`] says, of every slot.
    fn live_by_walk(&self) -> u64 {
        (0..self.sets.len()).map(|set| self.places(set).len() as u64).sum()
    }

    /// As if it were opened again from a snapshot.
    fn again(&self, floor: Place, covered: Place) -> Index {
        let sets = Sets::new(self.sets.len(), &Set::empty(CUT));
        sets.load_shard(0, &self.page(0));
        let index = Index::over(sets, CUT, self.frontier.clone(), self.layout);
        index.keep_between(floor, covered);
        index
    }

    /// Something that happens to an index.
    fn step(&self, log: &SmallLog, random: &mut Random, enters: bool) {
        let id_low = random.id_low(300);
        let near = Place(log.frontier.next().0.saturating_sub(random.below(1 << 20)));
        match random.below(10) {
            0 => self.remove_low(id_low),
            1 => self.remove_to(id_low, near),
            2 => self.candidates(id_low).iter().for_each(|place| self.touch(id_low, place)),
            _ => {
                let place = log.append(random.below(30_000));
                if enters {
                    self.insert_low(id_low, place, Reach::default());
                }
                log.sweep(|region| self.sweep(region));
            }
        }
    }
}

#[test]
fn what_is_counted_is_what_a_walk_finds() {
    for (seed, fails_one_in, slots) in [(1, 0, 160), (2, 5, 160), (3, 20, 64), (4, 20, 8)] {
        let (log, mut random) = (SmallLog::on(disk(fails_one_in)), Random(seed));
        let mut index = Index::over(Index::room(slots, CUT), CUT, log.frontier.clone(), layout());
        let mut sum = 0;
        for step in 0..12_000 {
            // For more laps than four bits tell apart nothing is entered.
            index.step(&log, &mut random, !(2000..6000).contains(&step));
            sum += agree(|| index.live(), || index.live_by_walk());
            if random.below(1000) == 0 {
                let next = log.frontier.next();
                index = index
                    .again(Place(next.0.saturating_sub(random.below(3 << 20))), Place(next.0 - random.below(1 << 16)));
            }
        }
        assert!(layout().lap(log.frontier.next()) > 40 && sum > 12_000 * 4, "{sum}");
        assert_eq!(log.frontier.write_errors() > 0, fails_one_in > 0);
    }
}

#[test]
fn threads_count_as_one_would() {
    let log = SmallLog::on(disk(0));
    let index = Index::over(Index::room(64, CUT), CUT, log.frontier.clone(), layout());
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (log, index) = (&log, &index);
            scope.spawn(move || {
                let mut random = Random(seed);
                (0..4000).for_each(|_| index.step(log, &mut random, true));
            });
        }
    });
    assert!(agree(|| index.live(), || index.live_by_walk()) > 20);
}

/// Whoever asks for the figures of an engine waits for nobody that looks something up: here it would wait for itself.
#[test]
fn figures_lock_no_set() {
    let options = HashCacheLog::plan(16 << 20, 0, 4096, 8192, Stamp { seed: 1 }, false).unwrap();
    let device = Arc::new(Memory::over(&Medium::zeroed(16 << 20)));
    let engine = HashCacheLog::open(device, &options).unwrap();
    let Positions::All(index) = &engine.0.index else { panic!("its positions are in memory") };
    let (id, mut cx) = (Digest([7; 16]), Context::from_waker(Waker::noop()));
    let record = Record { kind: Kind::Whole, ..Record::tombstone(id) };
    assert!(engine.poll_append(&mut cx, &Placement::of(id), &record).is_ready());
    assert_eq!(Sets::shards_for(index.sets(), CUT.slot_bits()).0, 1);
    let stats = index.sets.with(0, |_| engine.stats()).unwrap();
    assert_eq!((stats.live_objects, stats.slots), (1, index.sets() * 8));
}
