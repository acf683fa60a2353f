//! What the cleaner does: it takes snapshots, has the policy learn, and cleans.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::RwLock;

use super::engine::Inner;
use super::index::AnyIndex;
use super::{keep, snapshot, void};
use crate::engine::Place;
use crate::engine::segments::cleaner::{self, Cleans};
use crate::engine::segments::{Displaced, Index, MOST_HITS};
use crate::layout::scan::Scan;
use crate::layout::{Log, Segments, SummaryEntry};
use crate::replace::generations::Segment;

/// Segments that are cleaned before the index is merged, at the most.
const CLEANED_BEFORE: usize = 4;

impl Cleans for Inner {
    fn log(&self) -> &Log {
        &self.indexed.log
    }

    fn segments(&self) -> &Arc<Segments> {
        &self.indexed.segments
    }

    fn publishing(&self) -> &RwLock<()> {
        &self.publishing
    }

    fn look_round(&self) {
        if self.policy.is_time_to_learn() {
            learn(self);
            if let AnyIndex::Memory(index) = &self.indexed.index {
                age(self, index);
            }
        }
        if snapshot::is_due(self) {
            if self.indexed.index.table().is_some_and(|table| !table.is_pressed()) {
                // That takes a while on a slow disk, and frees nothing.
                cleaner::clean_before(self, CLEANED_BEFORE);
            }
            let _alone = self.indexed.log.device.clock().lock(&self.cleaning);
            // The last one is taken by whoever closes it.
            if !self.indexed.log.frontier.is_closed() {
                snapshot::take(self, false);
            }
        }
    }

    fn clean_next(&self) -> bool {
        let _alone = self.indexed.log.device.clock().lock(&self.cleaning);
        let frontier = &self.indexed.log.frontier;
        // A disk that was given up takes nothing any more.
        if frontier.is_closed() || frontier.is_retired() {
            return false;
        }
        // Somebody waits, or there is no room for what is to be written again.
        if self.indexed.index.table().is_some_and(|table| table.is_pressed()) {
            snapshot::take(self, false);
        }
        next(self).is_some_and(|region| clean_one(self, region))
    }
}

/// The policy sees every segment that there is.
fn learn(engine: &Inner) {
    let segments = (0..engine.tally.len()).filter_map(|number| {
        engine.indexed.segments.home(number)?;
        Some(segment(engine, number))
    });
    engine.policy.learn(segments);
}

/// Rounds through the index in a lap, by which what has left grows old: it is forgotten after three, which is half a lap.
const ROUNDS: u128 = 5;

/// What empty slots remember grows older, in as many sets as are due.
fn age(engine: &Inner, index: &Index) {
    let (sets, lap) = (index.sets().len(), engine.indexed.log.layout.log_bytes());
    let due = |time: u64| (u128::from(time) * ROUNDS * u128::from(sets) / u128::from(lap.max(1))) as u64;
    let now = engine.policy.now();
    let from = due(engine.aged_at.swap(now, Relaxed));
    for set in from..due(now).min(from.saturating_add(sets)) {
        index.age(set % sets);
    }
}

/// The rounds by which what empty slots remember is older than when this was last asked.
pub fn rounds(engine: &Inner) -> u64 {
    let round = (engine.indexed.log.layout.log_bytes() / ROUNDS as u64).max(1);
    let (from, now) = (engine.aged_at.load(Relaxed), engine.policy.now());
    let rounds = now.saturating_sub(from) / round;
    engine.aged_at.store(from + rounds * round, Relaxed);
    rounds.min(MOST_HITS.into())
}

fn segment(engine: &Inner, number: usize) -> Segment {
    engine.tally.known(number).segment(engine.indexed.index.live_in(number))
}

/// Bytes stored without another part of an object that is being stored, as a part of a lap: it was given up.
const PATIENCE: u64 = 8;
/// Bytes stored until an object that was large enough to be the oldest at once may leave, as a part of a lap.
const GRACE: u64 = 64;

/// The oldest segment of the log of which that is worth least. Parts of what is being stored, or was just now, leave only if there is
/// nothing else.
fn next(engine: &Inner) -> Option<Place> {
    let layout = &engine.indexed.log.layout;
    let oldest = engine.indexed.segments.oldest_of_each();
    let of = |place: Place| segment(engine, layout.region_number(place));
    let since = engine.storing.since(engine.policy.now(), layout.log_bytes() / PATIENCE, layout.log_bytes() / GRACE);
    let is_being_stored =
        |place: Place| since.get(&of(place).log.0).is_some_and(|since| place >= layout.region_of(*since));
    let places = || oldest.iter().map(|(_, place)| *place);
    let others = || places().filter(|place| !is_being_stored(*place));
    let worst = engine.policy.victim(others().map(of)).or_else(|| engine.policy.victim(places().map(of)))?;
    places().find(|place| of(*place).log == worst)
}

/// Write again what is worth it, and drop the rest; false if the disk does not take what has to be written first.
fn clean_one(engine: &Inner, region: Place) -> bool {
    // Once a segment was written over, the others alone no longer say what counts.
    if !engine.covered().is_any() && !snapshot::take(engine, false) {
        return false;
    }
    let displaced = engine.indexed.index.displaced();
    let failed = engine.indexed.log.frontier.sync_errors();
    if engine.syncs_failed.swap(failed, Relaxed) != failed {
        // What segments that have left say at their ends may be among what that took.
        displaced.into_iter().for_each(Displaced::suspect_all);
    }
    // Whatever was appended to it has its slot from here on: nobody is between the two.
    drop(engine.publishing.write());
    let indexed = &engine.indexed;
    let (device, layout, stamp) = (&*indexed.log.device, indexed.log.layout, indexed.log.stamp);
    let scan = Scan { device, layout, stamp, damaged: RefCell::default() };
    let number = layout.region_number(region);
    let _leaving = Leaving::begin(engine, number);
    let entries = scan.summary(region).or_else(|| summary_of_young(engine, &scan, region));
    let was_rewritten = match &entries {
        Some(entries) => keep::keep(engine, region, &segment(engine, number), entries),
        // It was given up, or cannot be read. Nothing may lead to it all the same.
        None => {
            indexed.index.sweep(number);
            false
        }
    };
    let is_covered = || engine.tally.known(number).last_number < engine.covered().by_both();
    let is_said = || {
        entries.as_ref().is_some_and(|entries| void::say_again(engine, region, engine.tally.known(number).log, entries))
    };
    // Snapshots need no free segment, so there is a way on whatever is full.
    let by_snapshots = || (0..2).all(|_| is_covered() || snapshot::take(engine, false)) && is_covered();
    let is_known_elsewhere = is_covered() || is_said() || by_snapshots();
    // What left with a segment that stays, or that does not say so, is to be taken for displaced.
    if entries.is_none() || !is_known_elsewhere || !void::leave(engine, &scan, region, was_rewritten) {
        displaced.into_iter().for_each(Displaced::suspect_all);
    }
    if !is_known_elsewhere {
        return false;
    }
    indexed.index.freed(number);
    indexed.segments.freed(region);
    engine.cleaned.fetch_add(1, Relaxed);
    indexed.log.frontier.room_was_made();
    true
}

/// While a segment is cleaned no copies are made of what the table says of it.
struct Leaving<'a>(&'a Inner);

impl<'a> Leaving<'a> {
    fn begin(engine: &'a Inner, number: usize) -> Self {
        engine.indexed.index.table().into_iter().for_each(|table| table.leaves(number));
        Leaving(engine)
    }
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.indexed.index.table().into_iter().for_each(|table| table.has_left());
    }
}

/// A summary waits until what it speaks of lasts: that of a segment which leaves young may not be on the disk yet.
fn summary_of_young(engine: &Inner, scan: &Scan<'_>, region: Place) -> Option<Vec<SummaryEntry>> {
    if engine.indexed.log.frontier.is_poisoned(region) {
        return None;
    }
    // The first sync is for the records, the second for the summary.
    (0..2).all(|_| snapshot::settle(engine).is_ok()).then(|| scan.summary(region))?
}
