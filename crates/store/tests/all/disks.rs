//! Disks that are retired: one of two that fails takes its own objects with it and nothing else; one that never syncs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::sleep;
use std::time::Duration;

use tinaja_store::device::Device;
use tinaja_store::device::wrap::Fault;
use tinaja_store::engine::Engine;
use tinaja_store::engine::hashcache::{HashCacheLog, HashCacheLogOptions};
use tinaja_store::engine::spread::Spread;
use tinaja_store::limits::MAX_WRITE_FAILURES;
use tinaja_store::{Cache, Commit, ManualClock, Secret, Store, StoreError, WhyNot, block_on};

use crate::support::{
    DISK_BYTES, blank, disk, disk_by, get, is_sync, is_write, key, log_at, open, plan, put, sound, wait_until,
};

fn engine(device: Arc<dyn Device>) -> Arc<dyn Engine> {
    Arc::new(HashCacheLog::open(device, &plan(DISK_BYTES as u64)).unwrap())
}

#[test]
fn one_failing_disk_is_retired_alone() {
    let broken = Arc::new(AtomicBool::new(false));
    let now = broken.clone();
    let bad = disk(&blank(), move |_, _| now.load(SeqCst).then_some(Fault::Error));
    let spread = Spread::over(vec![engine(sound(&blank())), engine(bad)]).unwrap();
    let store = Cache::over(Arc::new(spread), Secret::from_bytes([7; 32]), 0).unwrap();
    (0..600).for_each(|n| assert!(matches!(put(&store, n, 1, 3000), Commit::Stored { .. })));
    block_on(store.flush()).unwrap();
    let all = (0..600).filter(|&n| get(&store, n) == Some(1)).count();
    assert!(all > 580, "{all}");

    broken.store(true, SeqCst);
    let mut refused = 0;
    for n in 1000..4000 {
        refused += u64::from(matches!(put(&store, n, 1, 3000), Commit::NotStored(_)));
    }
    assert!((1000..2000).contains(&refused), "half of them belong to the dead disk: {refused} of 3000 refused");
    let left = (0..600).chain(1000..4000).filter(|&n| get(&store, n).is_some()).count();
    assert!(left > 1500, "the other disk's objects are all there: {left}");
    assert!(matches!(block_on(store.flush()), Err(StoreError::Device(_))), "the loss is told");
    (5000..5100).for_each(|n| drop(put(&store, n, 1, 3000)));
    assert_eq!(block_on(store.flush()), Ok(()), "and then what can be stored can be flushed");
    let kept = (5000..5100).filter(|&n| get(&store, n) == Some(1)).count();
    assert!((25..75).contains(&kept), "{kept}");
    let (gone, failed): (Vec<_>, Vec<_>) = (0..40).map(|n| block_on(store.remove(&key(n)))).partition(Result::is_ok);
    assert!(!gone.is_empty() && !failed.is_empty(), "removals on the good disk last, on the dead one they say so");
    (0..40).for_each(|n| assert_eq!(get(&store, n), None));
}

/// What the clock flushes survives a power cut; and a flush that failed by the clock is told to who asks next.
///
/// This slept half a second for the clock's thread to have been at work, which on a busy machine it may not have been; and
/// took what the thread that takes snapshots asked for, late, for the clock's. Now it waits for what it tells of.
#[test]
fn the_clock_flushes_and_hides_no_failure() {
    let broken = Arc::new(AtomicBool::new(false));
    let (now, medium) = (broken.clone(), blank());
    let (wrote, syncs) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (writes, count) = (wrote.clone(), syncs.clone());
    let bad = disk(&medium, move |_, request| {
        let is_of_log = request.extent().is_some_and(|(at, _)| at >= log_at());
        writes.fetch_or(is_write(request) && is_of_log, SeqCst);
        count.fetch_add(u64::from(is_sync(request)), SeqCst);
        (now.load(SeqCst) && is_sync(request)).then_some(Fault::Error)
    });
    let options = HashCacheLogOptions { flush_every: Some(Duration::from_millis(100)), ..plan(DISK_BYTES as u64) };
    let engine = HashCacheLog::open(bad.clone(), &options).unwrap();
    let store = Cache::over(Arc::new(engine), Secret::from_bytes([7; 32]), 0).unwrap();
    wait_until("it is opened with a sync, and a snapshot is taken with two", || syncs.load(SeqCst) == 3);
    let _ = put(&store, 1, 1, 3000);
    wait_until("a write and a sync, by themselves", || wrote.load(SeqCst) && syncs.load(SeqCst) == 4);
    let idle = bad.calls();
    sleep(Duration::from_millis(300));
    assert_eq!(bad.calls(), idle, "nothing new, nothing to sync");
    assert_eq!(get(&store, 1), Some(1));

    broken.store(true, SeqCst);
    let _ = put(&store, 2, 1, 3000);
    wait_until("a sync by the clock fails", || store.stats().sync_errors > 0);
    broken.store(false, SeqCst);
    assert!(matches!(block_on(store.flush()), Err(StoreError::Device(_))), "nobody was told so far");
    assert_eq!(block_on(store.flush()), Ok(()));
    assert_eq!(get(&store, 2), None, "after a failed flush its region is not trusted");
}

/// Every write succeeded and every sync failed. A good write made the disk's failures forgotten, so it was never retired:
/// each flush lost what had been stored since the last, and the store went on storing.
///
/// Its clock stands still, so that the clock's own flush does not come between, as it did on a busy machine.
#[test]
fn a_disk_that_never_syncs_is_retired() {
    let broken = Arc::new(AtomicBool::new(false));
    let now = broken.clone();
    let (hand, medium) = (ManualClock::new(), blank());
    let fault = move |_, request: &_| (is_sync(request) && now.load(SeqCst)).then_some(Fault::Error);
    let bad = disk_by(hand.clock(), &medium, fault);
    let store = open(bad.clone()).unwrap();
    (0..300).for_each(|n| assert!(matches!(put(&store, n, 1, 3000), Commit::Stored { .. })));
    block_on(store.flush()).unwrap();
    broken.store(true, SeqCst);
    let mut failed = 0;
    for n in 1000..1000 + 2 * u64::from(MAX_WRITE_FAILURES) {
        match put(&store, n, 1, 3000) {
            Commit::Stored { .. } => failed += u32::from(block_on(store.flush()).is_err()),
            refused => assert_eq!(refused, Commit::NotStored(WhyNot::Device)),
        }
    }
    // All were flushes, but for those that the log asked for to have a region's summary last.
    assert!((MAX_WRITE_FAILURES / 2..=MAX_WRITE_FAILURES).contains(&failed), "{failed} flushes failed");
    let stats = store.stats();
    assert_eq!((stats.disks_retired, stats.write_errors), (1, 0));
    assert!(stats.sync_errors >= u64::from(MAX_WRITE_FAILURES), "{} syncs failed", stats.sync_errors);
    // It is left alone, once what was under way has ended.
    wait_until("it is left alone", || {
        let calls = bad.calls();
        (0..50).for_each(|n| drop(put(&store, n, 2, 3000)));
        bad.calls() == calls
    });
    assert!((0..200).all(|n| get(&store, n) == Some(1)), "and read on, but for the region that was open");
}

/// A sync that succeeds makes those that failed before it forgotten: eight in a row retire a disk, not eight in its life.
///
/// Seven flushes failed here between two good ones. But a region that is given up has a summary, for which the log syncs of its own
/// accord, and so does the clock: on a busy machine that was the eighth failure. Every other flush fails now.
#[test]
fn a_disk_that_syncs_now_and_then_is_kept() {
    let fails = Arc::new(AtomicBool::new(false));
    let now = fails.clone();
    let hand = ManualClock::new();
    let fault = move |_, request: &_| (is_sync(request) && now.load(SeqCst)).then_some(Fault::Error);
    let store = open(disk_by(hand.clock(), &blank(), fault)).unwrap();
    for round in 0..3 * u64::from(MAX_WRITE_FAILURES) {
        fails.store(round % 2 != 0, SeqCst);
        assert!(matches!(put(&store, round, 1, 3000), Commit::Stored { .. }), "round {round}");
        let flushed = block_on(store.flush());
        match fails.load(SeqCst) {
            true => assert!(flushed.is_err(), "round {round}"),
            // The first may tell of a sync of the log's own that failed after the round before.
            false => assert_eq!(block_on(store.flush()), Ok(()), "round {round}"),
        }
    }
    assert_eq!(store.stats().disks_retired, 0);
    assert!(store.stats().sync_errors > u64::from(MAX_WRITE_FAILURES));
}
