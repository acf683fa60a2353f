//! HashCache-LogLRU with the positions that memory has no room for on a disk of their own (section 5.4): the log's disk is
//! asked for nothing but records; and whatever becomes of the other disk, a lookup finds the object that it asked for or
//! nothing, and what memory knows is found and stored as before.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use tinaja_store::device::wrap::{Counted, Fault};
use tinaja_store::device::{Counters, Device, Medium, Memory, Request};
use tinaja_store::engine::hashcache::settings::POSITIONS_APART;
use tinaja_store::engine::registry::{Cut, Opening};
use tinaja_store::limits::{MAX_WRITE_FAILURES, WRITE_PATIENCE};
use tinaja_store::{Cache, Commit, Settings, Store, block_on, engines};

use crate::support::{
    disk, get, is_read, is_write, open_beside, open_planned, plan_with, put, section_of, settle, sound, wait_until,
};

const DISK: u64 = 16 << 20;
const OBJECTS: u64 = 4000;

fn planned(settings: &Settings) -> Box<dyn Cut> {
    plan_with(engines::HASHCACHE_LOGLRU, settings, DISK)
}

fn apart(positions_in_memory: u64) -> Box<dyn Cut> {
    let in_memory = Settings::new().with(&engines::POSITIONS_IN_MEMORY, positions_in_memory);
    planned(&in_memory.with(&POSITIONS_APART, 1))
}

/// An empty disk for the positions of such a cache.
fn medium_for(plan: &dyn Cut) -> Medium {
    Medium::zeroed(plan.beside_bytes().unwrap() as usize)
}

fn stored(store: &Cache, numbers: impl Iterator<Item = u64>) {
    numbers.for_each(|n| assert!(matches!(put(store, n, 1, 2000), Commit::Stored { .. }), "object {n}"));
}

fn found(store: &Cache, numbers: std::ops::Range<u64>) -> u64 {
    let right = |version: Option<u64>| version.inspect(|version| assert_eq!(*version, 1)).is_some();
    numbers.map(|n| u64::from(right(get(store, n)))).sum()
}

/// A disk that fails at requests of a kind, once it is told to.
fn breaking(medium: &Medium, fault: Fault, fails: fn(&Request) -> bool) -> (Arc<dyn Device>, Arc<AtomicBool>) {
    let broken = Arc::new(AtomicBool::new(false));
    let now = broken.clone();
    (disk(medium, move |_, request| (now.load(SeqCst) && fails(request)).then_some(fault)), broken)
}

#[test]
fn the_log_has_its_disk_to_itself() {
    let (beside, away) = (planned(&Settings::new()), apart(4));
    assert_eq!(beside.beside_bytes(), None);
    // 32 bytes a set, behind a block that says what the file is; the log has that room.
    let sets = section_of(&*away).slots.div_ceil(8);
    assert_eq!(away.beside_bytes(), Some(4096 + (sets * 32).next_multiple_of(4096)));
    assert_eq!((section_of(&*away).log.base, section_of(&*beside).log.base), (4096, away.beside_bytes().unwrap()));

    let counted = |medium: &Medium| Arc::new(Counted::new(Arc::new(Memory::over(medium))));
    let one = counted(&Medium::zeroed(DISK as usize));
    let (log, positions) = (counted(&Medium::zeroed(DISK as usize)), counted(&medium_for(&*away)));
    let together = open_planned(&*beside, one.clone()).unwrap();
    let two = open_beside(&*away, log.clone(), positions.clone()).unwrap();
    for (store, disk) in [(&together, &one), (&two, &positions)] {
        stored(store, 0..OBJECTS);
        block_on(store.flush()).unwrap();
        settle(&**disk);
    }
    let written = positions.detail().writes.requests as f64 / OBJECTS as f64;
    let before = [&one, &log, &positions].map(|disk| disk.detail());
    let hits = [(&together, &one), (&two, &positions)].map(|(store, disk)| {
        let hits = found(store, 0..OBJECTS);
        settle(&**disk);
        hits
    });
    let spent = [&one, &log, &positions].into_iter().zip(before).map(|(disk, before)| {
        let now = disk.detail();
        (now.reads.requests - before.reads.requests, now.writes.requests - before.writes.requests)
    });
    let [(reads, writes), (of_log, log_writes), (of_positions, positions_written)] = spent.collect::<Vec<_>>()[..]
    else {
        panic!()
    };
    println!("{written:.4} writes of positions a put");
    println!("{} hits on one disk: {reads} reads and {writes} writes", hits[0]);
    println!("{} on two: {of_log} reads of the log; {of_positions} and {positions_written} of positions", hits[1]);
    assert!(written < 0.1, "one by one each put in a full set would be one");
    assert_eq!(log_writes, 0, "who only looks writes nothing to the log's disk");
    assert!(writes > 0 && positions_written > 0 && of_positions > hits[1] / 4);
    // A read of the log a hit, and one for each lookup of another object with the same fingerprint.
    assert!((hits[1]..=OBJECTS).contains(&of_log), "{of_log}");
    let stats = two.stats();
    let both = [&log, &positions].map(|disk| disk.counters());
    assert_eq!((stats.reads, stats.writes), (both[0].reads + both[1].reads, both[0].writes + both[1].writes));
}

#[test]
fn a_disk_of_positions_that_fails_takes_what_it_alone_knew() {
    for fails in [is_read as fn(&Request) -> bool, is_write, |_| true] {
        let plan = apart(4);
        let (log, medium) = (Medium::zeroed(DISK as usize), medium_for(&*plan));
        let (positions, broken) = breaking(&medium, Fault::Error, fails);
        let store = open_beside(&*plan, sound(&log), positions.clone()).unwrap();
        stored(&store, 0..OBJECTS);
        block_on(store.flush()).unwrap();
        settle(&*positions);
        let all = found(&store, 0..OBJECTS);
        assert!(all > OBJECTS * 3 / 4, "{all}");
        settle(&*positions);

        broken.store(true, SeqCst);
        // Half of the objects have their positions in memory. Whoever asks for others, or brings new ones, finds out.
        let left = found(&store, 0..OBJECTS);
        stored(&store, OBJECTS..OBJECTS + 500);
        wait_until("the file of positions is given up", || store.stats().disks_retired == 1);
        let stats = store.stats();
        assert!(stats.read_errors + stats.write_errors >= u64::from(MAX_WRITE_FAILURES), "{stats:?}");
        assert!(left <= all && left >= all / 3, "{left} of {all}");
        // From now on it is left alone, and nothing else has changed.
        settle(&*positions);
        let before = positions.counters();
        stored(&store, 2 * OBJECTS..2 * OBJECTS + 500);
        let news = found(&store, 2 * OBJECTS..2 * OBJECTS + 500);
        assert!(news > 400, "{news} of 500 new ones, of which few share a set");
        assert!(found(&store, 0..OBJECTS) > 0);
        settle(&*positions);
        assert_eq!(positions.counters(), before, "a disk that was given up is not asked for anything");
        assert!(store.stats().live_objects > 0);
        block_on(store.close()).unwrap();
        drop(store);

        // The log has lost nothing.
        let store = open_beside(&*plan, sound(&log), sound(&medium_for(&*plan))).unwrap();
        let again = found(&store, 0..OBJECTS);
        // A thousand newer ones are in their sets by now.
        assert!(again > all * 3 / 4, "{again} of {all}");
    }
}

/// Of positions that cannot go out memory holds so many and no more; then what they are of is forgotten. Whoever waited for
/// such a disk was to go on after some seconds, but the one thread that could have said so was waiting for it too.
#[test]
fn a_disk_of_positions_that_stalls_holds_up_no_store() {
    let plan = apart(1);
    let (positions, stalls) = breaking(&medium_for(&*plan), Fault::Stalled, |_| true);
    let store = open_beside(&*plan, sound(&Medium::zeroed(DISK as usize)), positions.clone()).unwrap();
    stalls.store(true, SeqCst);
    let mut longest = Duration::ZERO;
    for n in 0..OBJECTS {
        let before = Instant::now();
        assert!(matches!(put(&store, n, 1, 2000), Commit::Stored { .. }), "object {n}");
        longest = longest.max(before.elapsed());
    }
    println!("one of them was stored after {longest:?}");
    assert!(longest >= WRITE_PATIENCE && longest < WRITE_PATIENCE * 5, "{longest:?}");
    // Those whose positions are in memory are found: one of each of 512 sets, and some that were to go out.
    let there = found(&store, 0..OBJECTS);
    assert!((450..650).contains(&there), "{there}");
    positions.stop();
}

#[test]
fn whatever_the_file_holds_no_other_object_is_found() {
    let plan = apart(2);
    let medium = medium_for(&*plan);
    let positions = sound(&medium);
    let store = open_beside(&*plan, sound(&Medium::zeroed(DISK as usize)), positions.clone()).unwrap();
    stored(&store, 0..OBJECTS);
    block_on(store.flush()).unwrap();
    settle(&*positions);
    let all = found(&store, 0..OBJECTS);
    settle(&*positions);
    // Another cache's positions, half of them, noise: every byte found is compared.
    medium.with(|bytes| bytes[4096..].iter_mut().step_by(3).for_each(|byte| *byte ^= 0x15));
    let left = found(&store, 0..OBJECTS);
    assert!(left < all && left > all / 10, "{left} of {all}");
    assert_eq!(store.stats().disks_retired, 0);
    // What was not found is stored anew, and found.
    stored(&store, 0..100);
    assert!(found(&store, 0..100) > 80);
}

#[test]
fn it_is_opened_with_its_positions_somewhere_or_all_in_memory() {
    let plan = apart(4);
    let log = Medium::zeroed(DISK as usize);
    let store = open_beside(&*plan, sound(&log), sound(&medium_for(&*plan))).unwrap();
    stored(&store, 0..300);
    block_on(store.close()).unwrap();
    drop(store);
    let error = plan.open(Opening::of(sound(&log))).err().unwrap();
    assert!(error.contains("there is no device for its positions"), "{error}");
    let failing = disk(&medium_for(&*plan), |_, request| is_write(request).then_some(Fault::Error));
    let error = open_beside(&*plan, sound(&log), failing).err().unwrap();
    assert!(error.contains("positions of its objects could not be written"), "{error}");
    let small = Medium::zeroed(4096);
    let error = open_beside(&*plan, sound(&log), sound(&small)).err().unwrap();
    assert!(error.contains("positions of its objects could not be written"), "{error}");
    // All in memory: none is needed, and one that is there is not asked for anything.
    let all = apart(8);
    let unused = sound(&small);
    for store in [open_planned(&*all, sound(&log)).unwrap(), open_beside(&*all, sound(&log), unused.clone()).unwrap()] {
        assert!(found(&store, 0..300) > 285);
        stored(&store, 300..310);
        assert!(found(&store, 300..310) > 8);
        block_on(store.close()).unwrap();
    }
    assert_eq!(unused.counters(), Counters::default());
}
