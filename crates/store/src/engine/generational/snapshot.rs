//! Snapshots of the index and of what is known of the segments: what opening goes by.

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::sync_channel;

use parking_lot::Mutex;

use super::clean;
use super::engine::Inner;
use super::ledger::Ledger;
use crate::layout::{SnapshotHeader, Snapshots};
use crate::terms::Place;

/// The log grows by so many times a snapshot's size between two snapshots: they are at most 2 % of what is written.
const SNAPSHOT_SHARE: u64 = 50;

/// What the two areas hold.
pub struct Covered {
    /// The next snapshot's number.
    next: u64,
    /// For each area the number below which its snapshot covers every record; 0 if it holds no whole snapshot.
    up_to: [u64; 2],
    /// Bytes stored and written again when the newest was taken.
    at: u64,
}

impl Covered {
    /// The next snapshot has this number, and the area that it does not go to covers every record below `up_to`.
    pub fn going_on(next: u64, up_to: u64) -> Mutex<Self> {
        let up_to = if next.is_multiple_of(2) { [0, up_to] } else { [up_to, 0] };
        Mutex::new(Covered { next, up_to, at: 0 })
    }

    /// Whether there is a whole snapshot.
    pub fn is_any(&self) -> bool {
        self.up_to.iter().any(|up_to| *up_to > 0)
    }

    /// Records with a lower number are covered by both.
    pub fn by_both(&self) -> u64 {
        self.up_to.iter().copied().min().unwrap_or(0)
    }
}

/// What a snapshot's header says of the log: the number up to which records are covered, and whether the cache was closed with
/// it.
pub fn header(number: u64, up_to: u64, is_clean: bool, epoch: u64) -> SnapshotHeader {
    SnapshotHeader { number, up_to: Place(up_to << 1 | u64::from(is_clean)), epoch }
}

/// The two parts of it again.
pub fn read_header(header: &SnapshotHeader) -> (u64, bool) {
    (header.up_to.0 >> 1, header.up_to.0 & 1 == 1)
}

/// Whether so much was written since the last one that it is time for another, or an epoch waits for one.
pub fn is_due(engine: &Inner) -> bool {
    let grown = engine.written().saturating_sub(engine.covered().at);
    grown >= engine.options.saved.area_bytes() * SNAPSHOT_SHARE
        || engine.epochs.is_due(engine.indexed.log.device.clock().now())
        || engine.indexed.index.table().is_some_and(|table| table.is_due())
}

/// Take a snapshot now, and wait for the disk; whether it could be written. A failure leaves the other area's, and is logged.
pub fn take(engine: &Inner, is_clean: bool) -> bool {
    if engine.options.read_only || engine.indexed.log.frontier.is_retired() {
        return false;
    }
    let mut covered = engine.covered();
    engine.indexed.log.frontier.begin_own();
    // Before the number and the pages: what was forgotten before it began has a lower number, and is in none of them.
    let epoch = engine.epochs.begun();
    let rounds = if engine.indexed.index.table().is_some() { clean::rounds(engine) } else { 0 };
    let up_to = {
        // Every record with a lower number has its slot, and what it removed is gone from the index.
        let _alone = engine.publishing.write();
        engine.indexed.index.snapshot_begins(rounds);
        engine.indexed.log.frontier.next_number().0
    };
    let number = covered.next;
    if let Some(area) = covered.up_to.get_mut(number as usize % 2) {
        *area = 0;
    }
    let (shards, each) = (engine.options.shards(), engine.options.saved.page_content_bytes as usize);
    let mut ledger = None;
    let page = |page: u64| match page.checked_sub(shards) {
        None => engine.indexed.index.page(&*engine.indexed.log.device, page, |hits, place| engine.worth(hits, place)),
        Some(behind) => {
            let ledger = ledger.get_or_insert_with(|| ledger_of(engine).encode());
            ledger.chunks(each).nth(behind as usize).unwrap_or_default().to_vec()
        }
    };
    let log = &engine.indexed.log;
    let snapshots = Snapshots { device: &*log.device, layout: engine.options.saved, stamp: log.stamp };
    let written = snapshots.write(header(number, up_to, is_clean, epoch), page, || settle(engine));
    engine.epochs.was_saved(epoch, written.is_ok(), log.device.clock().now());
    covered.next = number + 1;
    covered.at = engine.written();
    let bytes = engine.options.saved.area_bytes();
    engine.policy.pay(bytes);
    // The disk is judged by this too: one that takes no snapshot gives no room, and nobody is to wait for it for long.
    log.frontier.wrote_much_beside(written.is_ok());
    engine.snapshot_bytes.fetch_add(bytes, Relaxed);
    engine.indexed.index.snapshot_ended(written.is_ok().then_some(number));
    if engine.indexed.index.table().is_some() {
        engine.indexed.segments.answered();
        log.frontier.room_was_made();
    }
    match written {
        Ok(()) => {
            if let Some(area) = covered.up_to.get_mut(number as usize % 2) {
                *area = up_to;
            }
            true
        }
        Err(error) => {
            // The other area has the only one now: the next goes where this one was to go.
            covered.next = number + 2;
            tracing::warn!("no snapshot of the index could be written, and without one no segment is cleaned: {error}");
            log.frontier.room_was_made();
            false
        }
    }
}

/// What is known of the segments. Nothing of what was given up is said to be there.
fn ledger_of(engine: &Inner) -> Ledger {
    let frontier = &engine.indexed.log.frontier;
    let (next_number, newest) = frontier.next_number();
    let segment = |number: usize| {
        let home = engine.indexed.segments.home(number).filter(|home| !frontier.is_poisoned(*home));
        let known = engine.tally.known(number);
        match home.filter(|home| known.home == home.0 + 1) {
            Some(_) => (known, engine.indexed.segments.is_current(number)),
            None => Default::default(),
        }
    };
    let segments = (0..engine.tally.len()).map(segment).collect();
    let superseded = engine.indexed.index.table().map(|table| table.superseded()).unwrap_or_default();
    Ledger { next_number, newest, now: engine.policy.now(), segments, learned: engine.policy.save(), superseded }
}

/// Wait until every record appended so far is on the disk, and all that was written with it.
pub fn settle(engine: &Inner) -> io::Result<()> {
    let (tell, told) = sync_channel(1);
    let hurries = engine.indexed.index.table().is_some_and(|table| table.is_pressed());
    engine.indexed.log.frontier.settle(hurries, Box::new(move |result| drop(tell.send(result))));
    engine.indexed.log.device.clock().receive(&told).map_err(io::Error::other)?.map_err(io::Error::other)
}
