//! Cleaning a segment, which is evicting what it holds (section 3.2.7).

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::RwLock;

use super::engine::Inner;
use super::keep;
use crate::engine::Place;
use crate::engine::segments::cleaner::Cleans;
use crate::layout::scan::Scan;
use crate::layout::{Log, Segments};

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

    fn clean_next(&self) -> bool {
        let Some(region) = self.indexed.segments.next_to_clean() else { return false };
        clean_one(self, region);
        true
    }
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
