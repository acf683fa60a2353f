//! Found by review: acknowledged objects that were lost, and removed or older ones that came back. Each test tells how.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};

use tinaja_store::device::wrap::Fault;
use tinaja_store::device::{Device, Medium, Request};
use tinaja_store::engine::hashcache::HashCacheLog;
use tinaja_store::layout::Stamp;
use tinaja_store::*;

use crate::support::parking::Parking;
use crate::support::*;

/// Two removals wait for two writes of one region; the first fails. Both tombstones are lost: both must be told.
#[test]
fn two_removals_one_failed_write() {
    let bytes = blank();
    let late: Arc<Parking> = Arc::new(Parking::new(sound(&bytes)));
    let store = open(late.clone()).unwrap();
    (0..4).for_each(|n| drop(put(&store, n, 1, 2000)));
    block_on(store.flush()).unwrap();
    late.hold_writes(true);
    let (mut a, mut b) = (store.remove(&key(0)), store.remove(&key(1)));
    assert!(poll(&mut a).is_pending() && poll(&mut b).is_pending());
    late.hold_writes(false);
    let mut writes = late.writes().into_iter();
    writes.next().unwrap().fail(std::io::Error::other("a bad sector"));
    writes.for_each(|op| late.submit(op));
    let (a, b) = (block_on(a), block_on(b));
    let left = bytes.copy(); // killed
    let store = open(sound(&left)).unwrap();
    for (n, said) in [(0, a), (1, b)] {
        assert!(
            said.is_err() || get(&store, n).is_none(),
            "the removal of {n} said {said:?}, and after a restart it is back"
        );
    }
}

/// The first write of a region fails, the next region's is flushed; killed.
#[test]
fn hole_before_the_open_region() {
    let bytes = blank();
    let fail = Arc::new(AtomicBool::new(true));
    let f = fail.clone();
    let d = disk(&bytes, move |_, r| (is_write(r) && f.load(SeqCst)).then_some(Fault::Error));
    let store = open(d).unwrap();
    let _ = put(&store, 1, 1, 2000);
    assert!(block_on(store.flush()).is_err());
    fail.store(false, SeqCst);
    let _ = put(&store, 2, 1, 2000);
    block_on(store.flush()).unwrap();
    assert_eq!(get(&store, 2), Some(1));
    let left = bytes.copy();
    std::mem::forget(store);
    let store = open(sound(&left)).unwrap();
    assert_eq!(get(&store, 2), Some(1), "flushed and lost");
}

/// Snapshots fail for more than a lap; then a kill.
#[test]
fn snapshot_older_than_the_window() {
    let bytes = blank();
    let fail = Arc::new(AtomicBool::new(false));
    let f = fail.clone();
    let base = log_at();
    let d = disk(&bytes, move |_, r| {
        (is_write(r) && f.load(SeqCst) && r.extent().unwrap().0 < base).then_some(Fault::Error)
    });
    let store = open(d.clone()).unwrap();
    for n in 0..1000 {
        let _ = put(&store, n, 1, 3000);
    }
    block_on(store.close()).unwrap(); // a snapshot
    drop(store);
    fail.store(true, SeqCst);
    let d = disk(&bytes, {
        let f = fail.clone();
        move |_, r| (is_write(r) && f.load(SeqCst) && r.extent().unwrap().0 < base).then_some(Fault::Error)
    });
    let store = open(d.clone()).unwrap();
    for n in 0..6200 {
        let _ = put(&store, n % 1500, 2 + n / 1500, 3000);
    }
    block_on(store.flush()).unwrap();
    let found = (0..1500).filter(|&n| get(&store, n).is_some()).count();
    let s = store.stats();
    let left = bytes.copy();
    std::mem::forget(store);
    let store = open(sound(&left)).unwrap();
    let now = (0..1500).filter(|&n| get(&store, n).is_some()).count();
    let t = store.stats();
    println!(
        "before {found} after {now}; lap {} at {} then lap {} at {}",
        s.lap, s.frontier_bytes, t.lap, t.frontier_bytes
    );
    assert!(now + 50 > found);
}

/// A reader of the old version touches it after the new one is stored; the new one leaves first.
#[test]
fn old_version_touched_late() {
    let bytes = blank();
    let stall = Arc::new(AtomicBool::new(false));
    let s = stall.clone();
    let d = disk(&bytes, move |_, r| (is_read(r) && s.load(SeqCst)).then_some(Fault::Stalled));
    let store = open(d.clone()).unwrap();
    for n in 0..60 {
        let _ = put(&store, n, 1, 100);
    }
    block_on(store.flush()).unwrap();
    stall.store(true, SeqCst);
    let mut finds: Vec<_> = (0..60).map(|n| store.find(&key(n))).collect();
    for f in &mut finds {
        assert!(poll(f).is_pending());
    }
    for n in 0..60 {
        let _ = put(&store, n, 2, 100);
    }
    stall.store(false, SeqCst);
    d.release();
    for f in finds {
        block_on(f);
    }
    // Others fill the sets, without a lookup of these.
    for n in 1000..3500 {
        let _ = put(&store, n, 1, 100);
    }
    let old: Vec<_> = (0..60).filter(|&n| get(&store, n) == Some(1)).collect();
    assert!(old.is_empty(), "old versions served: {old:?}");
}

/// Two threads append right after a region was given up.
#[test]
fn slots_of_lost_records_reused_by_another_thread() {
    let bytes = Medium::zeroed(256 << 20);
    let mode = Arc::new(AtomicUsize::new(0));
    let m = mode.clone();
    let d = disk(&bytes, move |_, r| (is_write(r) && m.load(SeqCst) == 1).then_some(Fault::Error));
    let options =
        HashCacheLog::plan(256 << 20, BASE, 4096, 64, Stamp { seed: Secret::from_bytes([7; 32]).seed() }, false)
            .unwrap();
    let engine = HashCacheLog::open(d.clone(), &options).unwrap();
    let store = Arc::new(Cache::over(Arc::new(engine), Secret::from_bytes([7; 32]), 0).unwrap());
    const K: u64 = 20_000;
    for n in 0..K {
        let _ = put(&store, n, 1, 10);
    }
    block_on(store.flush()).unwrap();
    for n in 0..K / 4 {
        let _ = put(&store, n, 2, 10);
    }
    mode.store(1, SeqCst);
    assert!(block_on(store.flush()).is_err());
    mode.store(0, SeqCst);
    println!("slots {}", store.stats().slots);
    let threads: Vec<_> = (0..3)
        .map(|t| {
            let store = store.clone();
            std::thread::spawn(move || {
                for n in 0..60_000u64 {
                    let _ = put(&store, 1_000_000 + t * 1_000_000 + n, 1, 10);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    let old: Vec<_> = (0..K / 4).filter(|&n| get(&store, n) == Some(1)).collect();
    assert!(old.is_empty(), "{} old versions came to light: {:?}", old.len(), &old[..old.len().min(5)]);
}

/// The open region cannot be read at two openings in a row.
#[test]
fn unreadable_open_region_twice() {
    let bytes = blank();
    let l = plan(DISK_BYTES as u64).layout;
    let store = open(sound(&bytes)).unwrap();
    for n in 0..300 {
        let _ = put(&store, n, 1, 3000);
    }
    block_on(store.flush()).unwrap();
    let at = l.base + store.stats().frontier_bytes / l.region_bytes * l.region_bytes;
    let left = bytes.copy();
    std::mem::forget(store);
    let bad = move |_: u64, r: &Request| {
        ((is_read(r) && r.extent().unwrap().0 == at) || (is_write(r) && r.extent().unwrap().0 < l.base))
            .then_some(Fault::Error)
    };
    let store = open(disk(&left, bad)).unwrap();
    let _ = put(&store, 1000, 1, 2000);
    block_on(store.flush()).unwrap();
    let again = left.copy();
    std::mem::forget(store);
    let store = open(disk(&again, bad)).unwrap();
    assert_eq!(get(&store, 1000), Some(1), "flushed and lost");
}

/// What a killed process left is found by the next, which flushes; then the power goes.
#[test]
fn flush_after_a_kill_syncs_what_is_found() {
    let bytes = blank();
    let syncs = Arc::new(AtomicU64::new(0));
    let s = syncs.clone();
    let store = open(sound(&bytes)).unwrap();
    let _ = put(&store, 1, 1, 2000);
    wait_until("it is written out by the clock", || is_on_disk(&store, 1));
    let left = bytes.copy();
    std::mem::forget(store);
    let store = open(disk(&left, move |_, r| {
        if matches!(r, Request::Sync) {
            s.fetch_add(1, SeqCst);
        }
        None
    }))
    .unwrap();
    assert_eq!(get(&store, 1), Some(1));
    block_on(store.flush()).unwrap();
    assert!(syncs.load(SeqCst) > 0, "flush said Ok and the disk was never synced");
}

/// A flush whose sync fails, while a later flush's sync succeeds: the kernel tells of a lost page once.
#[test]
fn one_sync_at_a_time() {
    let bytes = blank();
    let mode = Arc::new(AtomicUsize::new(0));
    let count = Arc::new(AtomicUsize::new(0));
    let (m, c) = (mode.clone(), count.clone());
    let d = disk(&bytes, move |_, r| match (m.load(SeqCst), r) {
        (1, Request::Sync) => {
            c.fetch_add(1, SeqCst);
            Some(Fault::Stalled)
        }
        _ => None,
    });
    let store = open(d.clone()).unwrap();
    let _ = put(&store, 1, 1, 2000);
    mode.store(1, SeqCst);
    let mut a = store.flush();
    assert!(poll(&mut a).is_pending());
    let _ = put(&store, 2, 1, 2000);
    let mut b = store.flush();
    let _ = poll(&mut b);
    let held = count.load(SeqCst);
    mode.store(0, SeqCst);
    d.release();
    assert!(held <= 1, "{held} syncs at once");
}
/// Regions written after the sync was asked for and before it failed are trusted by the next sync.
#[test]
fn failed_sync_poisons_all_that_was_written() {
    let bytes = blank();
    let late: Arc<Parking> = Arc::new(Parking::new(sound(&bytes)));
    let store = open(late.clone()).unwrap();
    let _ = put(&store, 1, 1, 2000);
    late.hold_next_sync();
    let mut a = store.flush();
    assert!(poll(&mut a).is_pending());
    for n in 100..400 {
        let _ = put(&store, n, 1, 3000);
    }
    wait_until("all of it is written", || (100..400).all(|n| is_on_disk(&store, n))); // and none of it synced
    late.fail_held(); // the kernel drops every dirty page, and says so once
    assert!(block_on(a).is_err());
    let b = block_on(store.flush());
    let trusted = (100..400).filter(|&n| get(&store, n).is_some()).count();
    assert!(
        b.is_err() || trusted == 0,
        "flush said {b:?} with {trusted} objects whose pages the failed sync may have dropped"
    );
}
/// More regions in a row without a summary than are looked for.
#[test]
fn many_regions_without_summary() {
    let bytes = blank();
    let fail = Arc::new(AtomicBool::new(false));
    let f = fail.clone();
    let base = log_at();
    let d = disk(&bytes, move |_, r| {
        (is_write(r) && f.load(SeqCst) && r.extent().unwrap().0 >= base).then_some(Fault::Error)
    });
    let store = open(d).unwrap();
    for n in 0..20 {
        let _ = put(&store, n, 1, 2000);
        block_on(store.flush()).unwrap();
        if n < 19 {
            fail.store(true, SeqCst);
            let _ = put(&store, 1000 + n, 1, 2000);
            assert!(block_on(store.flush()).is_err());
            fail.store(false, SeqCst);
        }
    }
    let left = bytes.copy();
    std::mem::forget(store);
    let store = open(sound(&left)).unwrap();
    assert_eq!(get(&store, 19), Some(1), "flushed and lost");
}
