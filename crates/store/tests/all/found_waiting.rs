//! Found by review: readers and lookups that were shut out by others who slept, or by a writer that went on at the wrong
//! moment. Each test tells how.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tinaja_store::device::wrap::{Fault, Faulty};
use tinaja_store::limits::reads;
use tinaja_store::*;

use crate::support::*;

/// A lookup found a write that could not be stored, whole from its first byte. Before the reader had joined, the writer
/// went on, saw nobody, and dropped what the reader was to begin with: a hit that broke off at its first byte.
#[test]
fn a_reader_that_finds_a_relay_has_its_first_byte() {
    /// Hits enough to meet the moment again and again, however long they take.
    const HITS: u64 = 300;
    let store = open(sound(&blank())).unwrap();
    let (mut begun, mut found) = (0_u64, 0_u64);
    let (turn, enough) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            // Too large to be stored: all that the readers get goes through the window of bytes.
            let hint = Hint { expected_bytes: Some(100 << 20), ..Hint::default() };
            while !enough.load(SeqCst) {
                let mut writer = store.put(&key(1), Bytes::new(), hint);
                turn.fetch_add(1, SeqCst);
                for _ in 0..8 {
                    block_on(writer.write(Bytes::from_static(b"rain")));
                }
            }
        });
        while found < HITS {
            begun = turn.load(SeqCst).max(begun);
            let Lookup::Here(mut hit) = store.lookup(&key(1), Instant::now()) else { continue };
            found += 1;
            let first = block_on(hit.body.next(1));
            let dropped = matches!(first, Err(ReadError::Gone | ReadError::Behind));
            enough.store(dropped || found == HITS, SeqCst);
            assert!(!dropped, "write {begun}, hit {found}: its first byte was dropped");
        }
    });
}

/// A store of 500 objects whose disk holds every read back from now on, and what lets the disk go on.
fn held_back() -> (Cache, Arc<Faulty>, Arc<AtomicBool>) {
    let stalls = Arc::new(AtomicBool::new(false));
    let now = stalls.clone();
    let disk = disk(&blank(), move |_, request| (is_read(request) && now.load(SeqCst)).then_some(Fault::Stalled));
    let store = open(disk.clone()).unwrap();
    (0..500).for_each(|n| drop(put(&store, n, 1, 2000)));
    block_on(store.flush()).unwrap();
    stalls.store(true, SeqCst);
    (store, disk, stalls)
}

/// Hundreds of clients came at once, and the disk read for each of them: a turn ended with the disk's answer, and the answers,
/// up to 256 KiB each, lay in memory until the clients' tasks ran. In a control group of 64 MiB the kernel ended the server.
#[test]
fn answers_that_nobody_has_come_for_yet_are_bounded() {
    let (hand, asked, holds) = (ManualClock::new(), Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
    let (count, hold) = (asked.clone(), holds.clone());
    let disk = disk_by(hand.clock(), &blank(), move |_, request| {
        let held = is_read(request) && hold.load(SeqCst);
        count.fetch_add(usize::from(held), SeqCst);
        held.then_some(Fault::Stalled)
    });
    let store = open(disk.clone()).unwrap();
    (0..500).for_each(|n| drop(put(&store, n, 1, 2000)));
    block_on(store.flush()).unwrap();
    holds.store(true, SeqCst);
    let turns = reads();
    let mut lookups: Vec<_> = (0..500).map(|n| store.find(&key(n))).collect();
    assert!(lookups.iter_mut().all(|lookup| poll(lookup).is_pending()));
    // The disk answers, and nobody comes.
    disk.release();
    assert!(lookups[turns..].iter_mut().all(|lookup| poll(lookup).is_pending()));
    // Some look at two places, since two objects may have the same bits in the index.
    let begun = asked.load(SeqCst);
    assert!((turns..turns + turns / 8).contains(&begun), "{begun} reads in {turns} turns");
    // Whoever comes for an answer lets another pass.
    assert!(lookups[..10].iter_mut().all(|lookup| matches!(poll(lookup), Poll::Ready(Some(_)))));
    assert!(lookups[turns..].iter_mut().all(|lookup| poll(lookup).is_pending()));
    let more = asked.load(SeqCst) - begun;
    assert!((10..15).contains(&more), "{more} reads more in ten turns");
    holds.store(false, SeqCst);
    disk.release();
    // Those who never come hold nobody up.
    let others = std::cell::RefCell::new(lookups.split_off(turns));
    wait_until("the others to be found", || {
        hand.advance(Duration::from_millis(50));
        others.borrow_mut().retain_mut(|lookup| match poll(lookup) {
            Poll::Ready(hit) => hit.is_none(),
            Poll::Pending => true,
        });
        others.borrow().is_empty()
    });
}

/// A store whose every turn to read is taken, by reads that the disk holds back, and what lets the disk go on.
fn all_turns_taken() -> (Cache, Arc<Faulty>, Arc<AtomicBool>) {
    let (store, disk, stalls) = held_back();
    for n in 0..limits::MAX_READS as u64 {
        assert!(poll(&mut store.find(&key(n))).is_pending());
    }
    (store, disk, stalls)
}

/// Two hundred lookups stood in the queue for a turn to read, and nobody polled them any more. The turns came free, each
/// was kept for one of them, and whoever stood behind waited for ever.
#[test]
fn waiters_that_sleep_in_the_queue_are_passed_by() {
    let (store, disk, stalls) = all_turns_taken();
    let mut asleep: Vec<_> = (200..400).map(|n| store.find(&key(n))).collect();
    assert!(asleep.iter_mut().all(|lookup| poll(lookup).is_pending()));
    let never_polled: Vec<_> = (200..400).map(|n| store.find(&key(n))).collect();
    let Lookup::Wait(mut behind) = store.lookup(&key(450), Instant::now() + Duration::from_secs(5)) else { panic!() };
    assert!(poll(&mut behind).is_pending());
    stalls.store(false, SeqCst);
    disk.release();
    assert!(block_on(behind).is_some(), "every turn is free, and it was given none");
    // Those that slept have lost nothing but their place.
    assert!(asleep.into_iter().chain(never_polled).all(|lookup| block_on(lookup).is_some()));
}

/// A listing took a turn to read and kept it while it was not polled: a few listings given up half-way, and no lookup
/// had a turn.
#[test]
fn listings_that_sleep_hold_no_turns() {
    let (store, disk, stalls) = held_back();
    let mut asleep: Vec<_> = (0..limits::MAX_READS).map(|_| store.scan(Cursor::default(), 100)).collect();
    assert!(asleep.iter_mut().all(|listing| poll(listing).is_pending()));
    stalls.store(false, SeqCst);
    disk.release();
    let Lookup::Wait(lookup) = store.lookup(&key(1), Instant::now() + Duration::from_secs(5)) else { panic!() };
    assert!(block_on(lookup).is_some(), "a lookup waits for listings that sleep");
    assert!(asleep.into_iter().all(|listing| !block_on(listing).unwrap().entries.is_empty()));
}
