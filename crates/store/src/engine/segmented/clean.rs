//! Cleaning a segment, which is evicting what it holds (section 3.2.7).

use std::cell::RefCell;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tinaja_clock::Clock;

use super::engine::Inner;
use super::keep;
use crate::device::worker;
use crate::engine::Place;
use crate::layout::Segments;
use crate::layout::scan::Scan;

/// How often it is looked whether the engine is still there.
const TICK: Duration = Duration::from_millis(250);
/// How long to wait where every segment is open and something is free still.
const PAUSE: Duration = Duration::from_millis(10);

/// Start the thread that cleans whenever few segments are free. It ends when the engine is closed or dropped. Errors: the
/// system has no more threads.
pub fn start(engine: &Arc<Inner>) -> std::io::Result<()> {
    let (weak, segments) = (Arc::downgrade(engine), engine.indexed.segments.clone());
    worker::spawn("tinaja-cleaner", &engine.indexed.log.device, move |clock| work(clock, &weak, &segments))
}

fn work(clock: &Clock, engine: &Weak<Inner>, segments: &Segments) {
    loop {
        let is_due = segments.wait_for_work(TICK);
        let Some(engine) = engine.upgrade().filter(|engine| !engine.indexed.log.frontier.is_closed()) else { return };
        if is_due && !clean(&engine) {
            drop(engine);
            clock.sleep(PAUSE);
        }
    }
}

/// Clean until enough is free; false if there was nothing to clean.
fn clean(engine: &Inner) -> bool {
    let mut any = false;
    while !engine.indexed.segments.is_enough() && !engine.indexed.log.frontier.is_closed() {
        let Some(region) = engine.indexed.segments.next_to_clean() else { break };
        clean_one(engine, region);
        any = true;
    }
    any
}

fn clean_one(engine: &Inner, region: Place) {
    // Whatever was appended to it has its slot from here on: nobody is between the two.
    drop(engine.publishing.write());
    let (device, layout, stamp) = (&*engine.indexed.log.device, engine.indexed.log.layout, engine.indexed.log.stamp);
    let scan = Scan { device, layout, stamp, damaged: RefCell::default() };
    match scan.summary(region) {
        Some(entries) => {
            keep::keep(engine, region, &entries);
            let evicted = entries.iter().filter(|entry| engine.indexed.index.evict(entry.id_low, entry.place)).count();
            engine.evicted.fetch_add(evicted as u64, Relaxed);
        }
        // It was given up, or cannot be read. Nothing may lead to it all the same.
        None => engine.indexed.index.sweep(layout.region_number(region)),
    }
    engine.indexed.segments.freed(region);
    engine.cleaned.fetch_add(1, Relaxed);
    engine.indexed.log.frontier.room_was_made();
}
