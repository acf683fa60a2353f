//! The thread that takes snapshots, has the policy learn, and cleans.

use std::cell::RefCell;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tinaja_clock::Clock;

use super::engine::Inner;
use super::{keep, snapshot, void};
use crate::device::worker;
use crate::engine::Place;
use crate::layout::scan::Scan;
use crate::layout::{Segments, SummaryEntry};
use crate::replace::generations::Segment;

/// How often it is looked whether the engine is still there.
const TICK: Duration = Duration::from_millis(250);
/// How long to wait where every segment is open and something is free still, or the disk takes nothing.
const PAUSE: Duration = Duration::from_millis(10);

/// Start the thread. It ends when the engine is closed or dropped. Errors: the system has no more threads.
pub fn start(engine: &Arc<Inner>) -> std::io::Result<()> {
    let (weak, segments) = (Arc::downgrade(engine), engine.indexed.segments.clone());
    worker::spawn("tinaja-cleaner", &engine.indexed.log.device, move |clock| work(clock, &weak, &segments))
}

fn work(clock: &Clock, engine: &Weak<Inner>, segments: &Segments) {
    loop {
        let is_due = segments.wait_for_work(TICK);
        let Some(engine) = engine.upgrade().filter(|engine| !engine.indexed.log.frontier.is_closed()) else { return };
        if engine.policy.is_time_to_learn() {
            learn(&engine);
        }
        if snapshot::is_due(&engine) {
            snapshot::take(&engine, false);
        }
        if is_due && !clean(&engine) {
            drop(engine);
            clock.sleep(PAUSE);
        }
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

fn segment(engine: &Inner, number: usize) -> Segment {
    engine.tally.known(number).segment(engine.indexed.index.live_in(number))
}

/// Clean until enough is free; false if there was nothing to clean.
fn clean(engine: &Inner) -> bool {
    let mut any = false;
    while !engine.indexed.segments.is_enough() && !engine.indexed.log.frontier.is_closed() {
        let cleaned = next(engine).is_some_and(|region| clean_one(engine, region));
        if !cleaned {
            break;
        }
        any = true;
    }
    any
}

/// The oldest segment of the log of which that is worth least.
fn next(engine: &Inner) -> Option<Place> {
    let oldest = engine.indexed.segments.oldest_of_each();
    let of = |place: Place| segment(engine, engine.indexed.log.layout.region_number(place));
    let worst = engine.policy.victim(oldest.iter().map(|(_, place)| of(*place)))?;
    oldest.iter().map(|(_, place)| *place).find(|place| of(*place).log == worst)
}

/// Write again what is worth it, and drop the rest; false if the disk does not take what has to be written first.
fn clean_one(engine: &Inner, region: Place) -> bool {
    // Whatever was appended to it has its slot from here on: nobody is between the two.
    drop(engine.publishing.write());
    let indexed = &engine.indexed;
    let (device, layout, stamp) = (&*indexed.log.device, indexed.log.layout, indexed.log.stamp);
    let scan = Scan { device, layout, stamp, damaged: RefCell::default() };
    let number = layout.region_number(region);
    let entries = scan.summary(region).or_else(|| summary_of_young(engine, &scan, region));
    match &entries {
        Some(entries) => {
            keep::keep(engine, region, &segment(engine, number), entries);
            let evicted = entries.iter().filter(|entry| indexed.index.evict(entry.id_low, entry.place)).count();
            engine.evicted.fetch_add(evicted as u64, Relaxed);
        }
        // It was given up, or cannot be read. Nothing may lead to it all the same.
        None => indexed.index.sweep(number),
    }
    let is_covered = || engine.tally.known(number).last_number < engine.covered.lock().by_both();
    let is_said =
        || entries.as_ref().is_some_and(|entries| void::say_again(engine, engine.tally.known(number).log, entries));
    // Snapshots need no free segment, so there is a way on whatever is full.
    let by_snapshots = || (0..2).all(|_| is_covered() || snapshot::take(engine, false)) && is_covered();
    if !is_covered() && !is_said() && !by_snapshots() {
        return false;
    }
    indexed.segments.freed(region);
    engine.cleaned.fetch_add(1, Relaxed);
    indexed.log.frontier.room_was_made();
    true
}

/// A summary waits until what it speaks of lasts: that of a segment which leaves young may not be on the disk yet.
fn summary_of_young(engine: &Inner, scan: &Scan<'_>, region: Place) -> Option<Vec<SummaryEntry>> {
    if engine.indexed.log.frontier.is_poisoned(region) {
        return None;
    }
    // The first sync is for the records, the second for the summary.
    (0..2).all(|_| snapshot::settle(engine).is_ok()).then(|| scan.summary(region))?
}
