//! Snapshots of the index while it is in use, so that opening need not walk the whole log.

use std::io;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tinaja_clock::Clock;

use super::Inner;
use super::limits::SNAPSHOT_SHARE;
use crate::device::worker;
use crate::layout::{SnapshotHeader, Snapshots};

/// How often it is looked whether a snapshot is due.
const TICK: Duration = Duration::from_millis(250);

/// Start the thread that takes snapshots as the log grows: one whenever the log has grown by [`SNAPSHOT_SHARE`] times
/// a snapshot's size, and for the sake of an epoch. It ends when the engine is closed or dropped. Errors: the system has no more threads.
pub fn start(engine: &Arc<Inner>) -> std::io::Result<()> {
    let weak = Arc::downgrade(engine);
    worker::spawn("tinaja-snapshot", &engine.log.device, move |clock| work(clock, &weak))
}

fn work(clock: &Clock, engine: &Weak<Inner>) {
    while let Some(engine) = engine.upgrade() {
        if engine.log.frontier.is_closed() {
            return;
        }
        if is_due(&engine) {
            take(&engine);
        }
        drop(engine);
        clock.sleep(TICK);
    }
}

fn is_due(engine: &Inner) -> bool {
    let Some(layout) = engine.snapshots else { return false };
    let clock = engine.log.device.clock();
    let grown = engine.log.frontier.next().0.saturating_sub(clock.lock(&engine.snapshot).up_to.0);
    grown >= layout.area_bytes() * SNAPSHOT_SHARE || engine.epochs.is_due(clock.now())
}

/// Take a snapshot now, and wait for the disk. A failure leaves the older snapshot, and is logged.
pub fn take(engine: &Inner) {
    let Some(layout) = engine.snapshots.filter(|_| !engine.log.frontier.is_retired()) else { return };
    let mut newest = engine.log.device.clock().lock(&engine.snapshot);
    engine.log.frontier.begin_own();
    // Before the place and the pages: what was forgotten before it began lies before that place, and is in none of them.
    let epoch = engine.epochs.begun();
    let up_to = {
        // Everything before this place has its slot, and what it removed is gone from the index.
        let _alone = engine.publishing.write();
        engine.log.frontier.next()
    };
    let header = SnapshotHeader { number: newest.number + 1, up_to, epoch };
    let snapshots = Snapshots { device: &*engine.log.device, layout, stamp: engine.log.stamp };
    let written = snapshots.write(header, |page| engine.index.page(page), || settle(engine));
    engine.epochs.was_saved(epoch, written.is_ok(), engine.log.device.clock().now());
    match written {
        Ok(()) => *newest = header,
        Err(error) => {
            // The next attempt goes to the same area, for the other one is whole; but not at once.
            newest.up_to = up_to;
            tracing::warn!("no snapshot of the index could be written; opening will take longer: {error}");
        }
    }
}

/// Wait until every record appended so far is on the disk, and all that was written with it.
fn settle(engine: &Inner) -> io::Result<()> {
    let (tell, told) = sync_channel(1);
    engine.log.frontier.settle(true, Box::new(move |result| drop(tell.send(result))));
    engine.log.device.clock().receive(&told).map_err(io::Error::other)?.map_err(io::Error::other)
}
