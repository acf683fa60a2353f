//! Which batches go to the disk, and when, where somebody waits for them to last, and where nobody does.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use tinaja_clock::ManualClock;

use crate::layout::frontier::Begin;
use crate::layout::held::Held;
use crate::layout::{Frontier, LogLayout, Segments, Stamp};
use crate::terms::{Digest, Kind, Place, Record};
use crate::wait::block_on;

const LOGS: usize = 5;

/// Five logs, with a batch of one record each. By a clock that stands still nothing goes out by itself.
fn five() -> (Arc<Held>, Arc<Frontier>, ManualClock) {
    let hand = ManualClock::new();
    let clock = hand.clock();
    let disk = Held::of(&clock, 8 << 20);
    let layout = LogLayout { is_numbered: true, ..LogLayout::new(4096, 4 << 20, 4096).unwrap() };
    let segments = Arc::new(Segments::new(clock, layout, 64, [].into_iter(), None));
    let begin = Begin { at: Place(layout.log_bytes()), logs: LOGS, number: 1 };
    let frontier = Frontier::start(disk.clone(), layout, Stamp { seed: 7 }, begin, None, Some(segments)).unwrap();
    (0..LOGS).for_each(|log| append(&frontier, log));
    (disk, frontier, hand)
}

/// Five logs whose batches are written, and a client whose sync of them failed, as it was told.
fn told() -> (Arc<Held>, Arc<Frontier>, ManualClock) {
    let (disk, frontier, hand) = five();
    let asked = sync(&frontier);
    (0..LOGS).for_each(|_| disk.do_next());
    disk.fail_next();
    assert!(asked.try_recv().unwrap().is_err());
    (disk, frontier, hand)
}

fn append(frontier: &Arc<Frontier>, log: usize) {
    let id = Digest([log as u8 + 1; 16]);
    let record = Record { id, kind: Kind::Whole, name: b"a", head: &[], body: b"b", related_bytes: 0 };
    let sum = Stamp { seed: 7 }.payload_sum(&record);
    block_on(poll_fn(|cx| frontier.poll_append_summed(log, cx, &record, sum))).unwrap();
}

fn settle(frontier: &Arc<Frontier>, hurries: bool) -> Receiver<Result<(), String>> {
    let (tell, told) = channel();
    frontier.settle(hurries, Box::new(move |result| tell.send(result).unwrap()));
    told
}

fn sync(frontier: &Arc<Frontier>) -> Receiver<Result<(), String>> {
    let (tell, told) = channel();
    frontier.sync(Box::new(move |result| tell.send(result).unwrap()));
    told
}

/// A snapshot of the index waited for the batches of all logs, which went to the disk at once: a hit that came then waited for up to six
/// writes, and 99 of 100 hits took 2.4 times as long as without.
#[test]
fn where_nobody_waits_one_batch_goes_after_the_other() {
    let (disk, frontier, _hand) = five();
    let told = settle(&frontier, false);
    for _ in 0..LOGS {
        assert_eq!(disk.waits(), "w");
        disk.do_next();
    }
    assert_eq!(disk.waits(), "s");
    assert!(told.try_recv().is_err());
    disk.do_next();
    assert_eq!(told.recv().unwrap(), Ok(()));
}

#[test]
fn where_somebody_waits_all_go_at_once() {
    let (disk, frontier, _hand) = five();
    let gently = settle(&frontier, false);
    disk.do_next();
    let told = settle(&frontier, true);
    assert_eq!(disk.waits(), "wwww");
    (0..4).for_each(|_| disk.do_next());
    assert_eq!(disk.waits(), "s");
    disk.do_next();
    assert_eq!((told.recv().unwrap(), gently.recv().unwrap()), (Ok(()), Ok(())));
}

/// A snapshot of the index was begun, then every sync of the disk failed. A client asked for one, was told, and lost nothing more; then
/// the sync of the snapshot failed too, and the client's next, on a disk that was well again, was told that something had been lost.
#[test]
fn a_sync_that_loses_nothing_fails_nobody_else() {
    let (disk, frontier, _hand) = told();
    let of_a_snapshot = settle(&frontier, true);
    disk.fail_next();
    assert!(of_a_snapshot.try_recv().unwrap().is_err(), "who asked is told");
    assert_eq!(sync(&frontier).try_recv().unwrap(), Ok(()), "nobody else has lost anything");
}

#[test]
fn what_is_lost_by_a_sync_of_the_stores_own_is_told_to_the_next_who_asks() {
    let (disk, frontier, _hand) = five();
    let of_a_snapshot = settle(&frontier, true);
    (0..LOGS).for_each(|_| disk.do_next());
    disk.fail_next();
    assert!(of_a_snapshot.try_recv().unwrap().is_err());
    let asked = sync(&frontier);
    disk.do_next();
    assert!(asked.try_recv().unwrap().is_err());
    assert_eq!(sync(&frontier).try_recv().unwrap(), Ok(()), "once");
}

/// A sync was on its way when something else was written to the same region, and failed: nothing of that region is found again. Only who
/// waited for that sync was told; the next one went well, and whoever asked for that took the other record for stored.
#[test]
fn what_came_while_a_sync_was_on_its_way_is_told_of_as_well() {
    for is_written in [true, false] {
        let (disk, frontier, _hand) = five();
        let first = sync(&frontier);
        (0..LOGS).for_each(|_| disk.do_next());
        append(&frontier, 0);
        let early = is_written.then(|| sync(&frontier));
        assert_eq!(disk.waits(), if is_written { "sw" } else { "s" });
        disk.fail_next();
        assert!(first.try_recv().unwrap().is_err());
        let second = early.unwrap_or_else(|| sync(&frontier));
        assert_eq!(disk.waits(), "w");
        disk.do_next();
        disk.do_next();
        assert!(second.try_recv().unwrap().is_err(), "{is_written}");
        assert_eq!(sync(&frontier).try_recv().unwrap(), Ok(()), "once");
    }
}

/// Two asked for the same records to last, one a moment after the other. The sync that failed told the first; the second's went well, though
/// it was about what was given up.
#[test]
fn whoever_waits_behind_a_sync_that_fails_is_told_as_well() {
    let (disk, frontier, _hand) = five();
    let first = sync(&frontier);
    (0..LOGS).for_each(|_| disk.do_next());
    let second = sync(&frontier);
    assert_eq!(disk.waits(), "s");
    disk.fail_next();
    disk.do_next();
    assert!(first.try_recv().unwrap().is_err());
    assert!(second.try_recv().unwrap().is_err());
    assert_eq!(sync(&frontier).try_recv().unwrap(), Ok(()), "once");
}

/// A write fails while something else is gathered for the same region, and that is let go of for the next region to begin: before
/// anybody had asked whether it lasts.
#[test]
fn what_is_let_go_of_with_its_region_is_told_of() {
    let (disk, frontier, _hand) = five();
    let first = sync(&frontier);
    append(&frontier, 0);
    disk.fail_next();
    (1..LOGS).for_each(|_| disk.do_next());
    assert_eq!(disk.waits(), "s");
    append(&frontier, 0);
    disk.do_next();
    assert!(first.try_recv().unwrap().is_err());
    let second = sync(&frontier);
    disk.do_next();
    disk.do_next();
    assert!(second.try_recv().unwrap().is_err(), "who wrote what was gathered");
    assert_eq!(sync(&frontier).try_recv().unwrap(), Ok(()), "once");
}

/// A snapshot writes its pages while a client's sync fails, which may have been about these: then its own is to fail, though that went
/// well and the client was told.
#[test]
fn a_failure_is_told_within_though_a_client_was_told() {
    let (disk, frontier, _hand) = told();
    let of_a_snapshot = settle(&frontier, true);
    disk.do_next();
    assert!(of_a_snapshot.try_recv().unwrap().is_err());
    let of_the_next = settle(&frontier, true);
    disk.do_next();
    assert_eq!(of_the_next.try_recv().unwrap(), Ok(()), "once");
}

/// Else the snapshot that is taken at the end would not be taken after any failure before, however long ago.
#[test]
fn what_a_client_was_told_before_is_no_matter_of_what_begins() {
    let (disk, frontier, _hand) = told();
    frontier.begin_own();
    let of_a_snapshot = settle(&frontier, true);
    disk.do_next();
    assert_eq!(of_a_snapshot.try_recv().unwrap(), Ok(()));
}
