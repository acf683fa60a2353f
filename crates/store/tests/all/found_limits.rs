//! Found by review: limits that did not hold, readers that held others up, and answers that were too early or wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tinaja_store::device::Medium;
use tinaja_store::device::wrap::Fault;
use tinaja_store::engine::Place;
use tinaja_store::layout::{SnapshotHeader, Snapshots, region};
use tinaja_store::*;

use crate::support::*;

/// Reads under way are not bounded when lookups end at their deadline.
#[test]
fn reads_under_way_are_bounded() {
    let bytes = blank();
    let stall = Arc::new(AtomicBool::new(false));
    let s = stall.clone();
    let count = Arc::new(AtomicUsize::new(0));
    let c = count.clone();
    let d = disk(&bytes, move |_, r| {
        (is_read(r) && s.load(SeqCst)).then(|| {
            c.fetch_add(1, SeqCst);
            Fault::Stalled
        })
    });
    let store = open(d.clone()).unwrap();
    for n in 0..500 {
        let _ = put(&store, n, 1, 2000);
    }
    block_on(store.flush()).unwrap();
    stall.store(true, SeqCst);
    for round in 0..4 {
        let all: Vec<_> = (0..120)
            .filter_map(|n| match store.lookup(&key(round * 120 + n), Instant::now() + Duration::from_millis(50)) {
                Lookup::Wait(w) => Some(w),
                _ => None,
            })
            .collect();
        let mut all = all;
        for w in &mut all {
            let _ = poll(w);
        }
        for w in all {
            assert!(block_on(w).is_none());
        }
    }
    let held = count.load(SeqCst);
    stall.store(false, SeqCst);
    d.release();
    assert!(held <= limits::MAX_READS, "{held} reads under way");
}

/// Readers of large bodies that asked once and went to sleep keep everybody else waiting.
#[test]
fn sleeping_readers_hold_no_turns() {
    let bytes = Medium::zeroed(64 << 20);
    let stall = Arc::new(AtomicBool::new(false));
    let s = stall.clone();
    let d = disk(&bytes, move |_, r| (is_read(r) && s.load(SeqCst)).then_some(Fault::Stalled));
    let store = open(d.clone()).unwrap();
    let _ = put(&store, 1, 1, 1_000_000);
    let _ = put(&store, 2, 1, 2000);
    for n in 3..500 {
        let _ = put(&store, n, 1, 20_000);
    }
    block_on(store.flush()).unwrap();
    let mut readers: Vec<_> = (0..130).map(|_| block_on(store.find(&key(1))).unwrap()).collect();
    for hit in &mut readers {
        hit.body.seek(600_000..u64::MAX).unwrap();
    }
    stall.store(true, SeqCst);
    for hit in &mut readers {
        assert!(hit.body.poll_next(&mut Context::from_waker(Waker::noop()), 4096).is_pending());
    }
    stall.store(false, SeqCst);
    d.release(); // the disk has answered all of them
    let Lookup::Wait(w) = store.lookup(&key(2), Instant::now() + Duration::from_secs(3)) else { panic!() };
    assert!(block_on(w).is_some(), "a lookup waits for readers that sleep");
}

/// Flushes and removals on a stalled disk take a batch of memory each.
#[test]
fn batches_under_way_are_bounded() {
    let bytes = blank();
    let stall = Arc::new(AtomicBool::new(false));
    let s = stall.clone();
    let count = Arc::new(AtomicUsize::new(0));
    let c = count.clone();
    let d = disk(&bytes, move |_, r| {
        (is_write(r) && s.load(SeqCst)).then(|| {
            c.fetch_add(1, SeqCst);
            Fault::Stalled
        })
    });
    let store = open(d.clone()).unwrap();
    stall.store(true, SeqCst);
    let mut all: Vec<_> = (0..100).map(|n| store.remove(&key(n))).collect();
    for r in &mut all {
        let _ = poll(r);
    }
    let held = count.load(SeqCst);
    stall.store(false, SeqCst);
    d.release();
    assert!(held <= limits::MAX_BATCHES_IN_FLIGHT + 2, "{held} batches under way");
}

/// Numbers no honest store writes, with right checksums (the secret is on the disk).
#[test]
fn hostile_footer() {
    let bytes = blank();
    let p = plan(DISK_BYTES as u64);
    let l = p.layout;
    let top = u64::MAX / l.log_bytes() * l.log_bytes();
    let r = Place(top - l.region_bytes); // last region of the last whole lap
    for r in [r, Place(top)] {
        let n = l.region_number(r) as u64;
        let s = region::encode(&l, p.stamp, r, 0, &[]);
        let at = (l.base + (n + 1) * l.region_bytes) as usize - s.len();
        bytes.with(|b| b[at..at + s.len()].copy_from_slice(&s));
    }
    let store = open(sound(&bytes)).unwrap();
    let _ = put(&store, 1, 1, 100);
    block_on(store.flush()).unwrap();
}
#[test]
fn hostile_snapshot() {
    let bytes = blank();
    let p = plan(DISK_BYTES as u64);
    let device = sound(&bytes);
    Snapshots { device: &*device, layout: p.snapshots.unwrap(), stamp: p.stamp }
        .write(SnapshotHeader { number: u64::MAX, up_to: Place(u64::MAX - 5), epoch: 0 }, |_| Vec::new(), || Ok(()))
        .unwrap();
    let store = open(sound(&bytes)).unwrap();
    let _ = put(&store, 1, 1, 100);
    block_on(store.flush()).unwrap();
}

/// Served from memory after the log has gone round: the head can be updated, or the object is not served.
#[test]
fn head_of_a_hot_object_whose_record_was_overwritten() {
    let bytes = blank();
    let store = open_hot(sound(&bytes), 4 << 20).unwrap();
    let _ = put(&store, 1, 1, 100);
    for n in 10..5000 {
        let _ = put(&store, n, 1, 3000);
        assert!(n % 10 != 0 || matches!(store.lookup(&key(1), Instant::now()), Lookup::Here(_)));
    }
    let updated = block_on(store.update_head(&key(1), Box::new(|_| Some(Bytes::from_static(b"9")))));
    let served = match store.lookup(&key(1), Instant::now()) {
        Lookup::Here(hit) => Some(hit.head),
        _ => None,
    };
    println!("{updated:?} {served:?}");
    assert!(updated == Ok(Updated::Done) || served.is_none(), "{updated:?}, and still served: {served:?}");
}
#[test]
fn removed_says_gone_for_a_hot_object() {
    let bytes = blank();
    let store = open_hot(sound(&bytes), 4 << 20).unwrap();
    let _ = put(&store, 1, 1, 100);
    for n in 10..5000 {
        let _ = put(&store, n, 1, 3000);
        assert!(n % 10 != 0 || matches!(store.lookup(&key(1), Instant::now()), Lookup::Here(_)));
    }
    assert_eq!(block_on(store.remove(&key(1))), Ok(Removed::Gone));
}

/// A close that was given up must not make the next one, or the drop, say that all is done.
#[test]
fn second_close_waits_too() {
    let bytes = blank();
    let stall = Arc::new(AtomicBool::new(false));
    let s = stall.clone();
    let d = disk(&bytes, move |_, r| (is_write(r) && s.load(SeqCst)).then_some(Fault::Stalled));
    let store = open(d.clone()).unwrap();
    stall.store(true, SeqCst);
    let _ = put(&store, 1, 1, 2000);
    let mut first = store.close();
    assert!(poll(&mut first).is_pending());
    drop(first);
    let mut second = store.close();
    let said = poll(&mut second);
    let held = d.held();
    stall.store(false, SeqCst);
    d.release();
    assert!(said.is_pending(), "closed, it says, while {held} writes are under way: {said:?}");
}

/// A follower that reads a later range of a write that cannot be stored holds up everybody.
#[test]
fn a_range_reader_of_a_relay() {
    let bytes = blank();
    let store = open(sound(&bytes)).unwrap();
    let hint = Hint { expected_bytes: Some(100 << 20), ..Hint::default() };
    let mut writer = store.put(&key(1), Bytes::new(), hint);
    let Lookup::Here(mut hit) = store.lookup(&key(1), Instant::now()) else { panic!() };
    hit.body.seek((3 << 20)..(4 << 20)).unwrap();
    assert!(hit.body.poll_next(&mut Context::from_waker(Waker::noop()), 4096).is_pending());
    let began = Instant::now();
    block_on(async {
        for n in 0..4 {
            writer.write(Bytes::from(vec![n; 1 << 20])).await;
        }
    });
    assert!(began.elapsed() < Duration::from_secs(5), "held up for {:?}", began.elapsed());
}
