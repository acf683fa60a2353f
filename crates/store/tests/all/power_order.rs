//! What must be on the disk before what: nothing vouches for a record that is not there yet, and this costs few syncs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tinaja_store::device::wrap::{Fault, Faulty};
use tinaja_store::device::{Memory, Request};
use tinaja_store::limits::SNAPSHOT_SHARE;
use tinaja_store::{Cache, Commit, Store, block_on};

use crate::support::*;

const OBJECTS: u64 = 24;

fn stored(store: &Cache, n: u64, version: u64, size: usize) {
    assert!(matches!(put(store, n, version, size), Commit::Stored { .. }));
}

/// How far the log has grown.
fn grown(store: &Cache) -> u64 {
    let stats = store.stats();
    stats.lap * stats.capacity_bytes + stats.frontier_bytes
}

/// A snapshot of the index was made to last while records it speaks of were on their way to the disk still. The power
/// went; the snapshot led to versions that were not there, and those before them, which a flush had acknowledged, were
/// taken to be replaced.
#[test]
fn a_snapshot_waits_for_the_records_it_speaks_of() {
    let medium = blank();
    let (stalls, snapshots) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (now, count) = (stalls.clone(), snapshots.clone());
    let plan_of_faults = move |_, request: &Request| match request.extent() {
        Some((at, _)) if is_write(request) && at < log_at() => {
            count.fetch_add(1, SeqCst);
            None
        }
        Some(_) if is_write(request) && now.load(SeqCst) => Some(Fault::Stalled),
        _ => None,
    };
    let disk = Arc::new(Faulty::volatile(Arc::new(Memory::over(&medium)), plan_of_faults));
    let store = open(disk.clone()).unwrap();
    let parts = plan(DISK_BYTES as u64).snapshots.unwrap().pages + 1;
    let wait_for = |parts: u64, patience: Duration| {
        let until = Instant::now() + patience;
        while snapshots.load(SeqCst) < parts && Instant::now() < until {
            sleep(Duration::from_millis(20));
        }
    };
    // The first is taken when the store is opened. The next is due so much later; a little less is made to last.
    wait_for(parts, Duration::from_secs(10));
    assert_eq!(snapshots.load(SeqCst), parts);
    let due = grown(&store) + plan(DISK_BYTES as u64).snapshots.unwrap().area_bytes() * SNAPSHOT_SHARE;
    (0..OBJECTS).for_each(|n| stored(&store, n, 1, 1000));
    (1000..).take_while(|_| grown(&store) < due - 90_000).for_each(|n| stored(&store, n, 1, 30_000));
    block_on(store.flush()).unwrap();
    assert_eq!(snapshots.load(SeqCst), parts, "not due yet");
    stalls.store(true, SeqCst);
    (0..OBJECTS).for_each(|n| stored(&store, n, 2, 1000));
    (5000..5003).for_each(|n| stored(&store, n, 1, 30_000));
    wait_for(2 * parts, Duration::from_millis(1500));
    // Its sync has ended, if it is there.
    sleep(Duration::from_millis(100));
    disk.cut(|_| None);
    let left = medium.copy();
    disk.release();
    drop(store);
    let store = open(sound(&left)).unwrap();
    let lost: Vec<_> = (0..OBJECTS).filter(|&n| get(&store, n).is_none()).collect();
    assert!(lost.is_empty(), "{lost:?} were acknowledged and are lost");
}

/// Summaries wait for a sync of what they vouch for. If nobody asks for one, one is made for several regions; if somebody
/// does, none is made beside.
///
/// It slept until the snapshot and the last write should have been over. On a busy machine they were not, a snapshot's
/// syncs were counted with the others, and what was on its way was missing in the copy. Now it waits for both.
#[test]
fn few_syncs_are_made_for_summaries() {
    for flushes in [false, true] {
        let (syncs, medium) = (Arc::new(AtomicU64::new(0)), blank());
        let count = syncs.clone();
        let disk = disk(&medium, move |_, request| {
            count.fetch_add(u64::from(is_sync(request)), SeqCst);
            None
        });
        let store = open(disk).unwrap();
        let layout = plan(DISK_BYTES as u64).layout;
        wait_until("it is opened with a sync, and a snapshot is taken with two", || syncs.load(SeqCst) == 3);
        let (before, from, mut asked) = (syncs.load(SeqCst), grown(&store), 0);
        for n in 0..80 {
            stored(&store, n, 1, 30_000);
            if flushes && n % 4 == 3 {
                block_on(store.flush()).unwrap();
                asked += 1;
            }
        }
        let (made, regions) = (syncs.load(SeqCst) - before, (grown(&store) - from) / layout.region_bytes);
        println!("{regions} regions of {}, {asked} flushes, {made} syncs", layout.regions);
        assert!(regions > 8);
        if flushes {
            assert_eq!(made, asked);
        } else {
            assert!((1..=regions / 2).contains(&made), "{made} syncs for {regions} regions");
        }
        // What the clock writes out last may be on its way still.
        wait_until("all of it is written", || (0..78).all(|n| is_on_disk(&store, n)));
        // Killed: every region but the open one and those that wait has its summary, the others are walked.
        let left = medium.copy();
        let again = open(sound(&left)).unwrap();
        assert!((0..78).all(|n| get(&again, n) == Some(1)));
    }
}
