//! The thread that takes snapshots, has the policy learn, and cleans.

use std::cell::RefCell;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tinaja_clock::Clock;

use super::engine::Inner;
use super::{keep, snapshot};
use crate::device::worker;
use crate::engine::Place;
use crate::layout::Segments;
use crate::layout::scan::Scan;
use crate::replace::generations::Segment;

/// How often it is looked whether the engine is still there.
const TICK: Duration = Duration::from_millis(250);
/// How long to wait where every segment is open and something is free still, or no snapshot can be written.
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
        let Some(region) = next(engine) else { break };
        clean_one(engine, region);
        any = true;
    }
    any
}

/// The oldest segment of the log of which that is worth least, among those whose entries both snapshots cover. Where there
/// are none, snapshots are taken until there are.
fn next(engine: &Inner) -> Option<Place> {
    for _ in 0..3 {
        let oldest = engine.indexed.segments.oldest_of_each();
        let number = |place: Place| engine.indexed.log.layout.region_number(place);
        let covered = engine.covered.lock().by_both();
        let is_covered = |place: Place| engine.tally.known(number(place)).last_number < covered;
        let may_leave = || oldest.iter().map(|(_, place)| *place).filter(|place| is_covered(*place));
        let worst = engine.policy.victim(may_leave().map(|place| segment(engine, number(place))));
        if let Some(worst) = worst {
            return may_leave().find(|place| segment(engine, number(*place)).log == worst);
        }
        if oldest.is_empty() || !snapshot::take(engine, false) {
            return None;
        }
    }
    None
}

fn clean_one(engine: &Inner, region: Place) {
    // Whatever was appended to it has its slot from here on: nobody is between the two.
    drop(engine.publishing.write());
    let indexed = &engine.indexed;
    let (device, layout, stamp) = (&*indexed.log.device, indexed.log.layout, indexed.log.stamp);
    let scan = Scan { device, layout, stamp, damaged: RefCell::default() };
    let number = layout.region_number(region);
    match scan.summary(region) {
        Some(entries) => {
            keep::keep(engine, region, &segment(engine, number), &entries);
            let evicted = entries.iter().filter(|entry| indexed.index.evict(entry.id_low, entry.place)).count();
            engine.evicted.fetch_add(evicted as u64, Relaxed);
        }
        // It was given up, or cannot be read. Nothing may lead to it all the same.
        None => indexed.index.sweep(number),
    }
    indexed.segments.freed(region);
    engine.cleaned.fetch_add(1, Relaxed);
    indexed.log.frontier.room_was_made();
}
