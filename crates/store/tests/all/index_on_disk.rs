//! `generational` with its index on the disk: what lookups read, what memory takes, and that a cache is used on with more or less of it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tinaja_store::device::wrap::{Fault, Faulty};
use tinaja_store::device::{Device, Medium, Memory, Request};
use tinaja_store::{Cache, Commit, Settings, Store, block_on, engines};

use crate::support::random::Random;
use crate::support::{get, key, open_planned, plan_with, put, settle, sound};

const DISK: u64 = 48 << 20;
/// So many objects of the mean size have room for them and more.
const OBJECTS: u64 = 6000;

fn open(medium: &Medium, memory: Option<u64>) -> (Cache, std::sync::Arc<Memory>) {
    let disk = sound(medium);
    // As its superblock would have it, whatever the memory.
    let made = Settings::new().with(&engines::INDEX_ENTRIES, DISK / 4096 / 4 * 5);
    let settings = memory.into_iter().fold(made, |all, bytes| all.with(&engines::INDEX_MEMORY, bytes));
    (open_planned(&*plan_with(engines::GENERATIONAL, &settings, DISK), disk.clone()).unwrap(), disk)
}

fn fill(store: &Cache) {
    for n in 0..OBJECTS {
        assert!(matches!(put(store, n, 1, 3000), Commit::Stored { .. }));
    }
    block_on(store.flush()).unwrap();
}

/// Reads for each of some lookups, by the device's count. Of two objects of one spot one is lost, a few of thousands.
fn reads(store: &Cache, disk: &Memory, objects: impl Iterator<Item = u64>, version: Option<u64>) -> f64 {
    settle(disk);
    let (before, mut lookups, mut lost) = (disk.counters().reads, 0, 0);
    for n in objects {
        let found = get(store, n);
        assert!(found.is_none() || found == version, "object {n}: {found:?}");
        lost += u32::from(found != version);
        lookups += 1;
    }
    assert!(lost <= lookups / 250, "{lost} of {lookups} are gone");
    (disk.counters().reads - before) as f64 / f64::from(lookups)
}

/// Without memory a lookup reads its page of the table, and a hit its record; with a filter few misses read, and with copies hits read
/// once. An index in memory reads once for a hit, and never for a miss.
#[test]
fn reads_a_lookup_follow_the_memory() {
    let mut before = [f64::MAX; 3];
    for bits in [0, 3, 12, 48] {
        let medium = Medium::zeroed(DISK as usize);
        let memory = DISK / 4096 * bits / 8;
        let (store, disk) = open(&medium, Some(memory));
        fill(&store);
        // What changed last is in memory still. Not in the order of storing: nothing is asked for that was read along.
        let old = || (0..OBJECTS / 2).map(|n| n * 1009 % (OBJECTS / 2));
        let hits = reads(&store, &disk, old(), Some(1));
        let again = reads(&store, &disk, (0..4).flat_map(|_| old().take(200)).skip(200), Some(1));
        let misses = reads(&store, &disk, OBJECTS..OBJECTS + 3000, None);
        let stats = store.stats();
        println!(
            "{bits} bits: {hits:.3} reads a hit, {again:.3} of what was asked for before, {misses:.3} a miss; {} bytes of memory for \
             {memory}; {} bytes of snapshots, {} false reads",
            stats.index_bytes,
            stats.of_engine.named("snapshot_bytes"),
            stats.false_reads
        );
        let looked = stats.of_engine.named("index_reads");
        assert!(
            looked < (hits * OBJECTS as f64 / 2.0 + misses * 3000.0 + again * 600.0) as u64,
            "{looked} reads of the index"
        );
        if bits == 0 {
            assert!(looked > OBJECTS / 2 + 2000, "{looked} reads of the index");
            assert!(hits > 1.9 && misses > 0.9, "the table is on the disk: {hits}, {misses}");
        }
        if bits == 48 {
            assert!(hits < 1.1 && misses < 0.1, "{hits}, {misses}");
        }
        assert!(again <= before[1] && misses <= before[2] && hits >= 0.99);
        // What is asked for once has no copy yet, unless most have: the table and the record are read, and now and then another object's.
        assert!(
            if bits < 12 { hits < 2.02 } else { hits <= before[0] },
            "{hits} reads a hit, {before:?} with less memory"
        );
        before = [hits, again, misses];
        block_on(store.close()).unwrap();
    }
    let (store, disk) = open(&Medium::zeroed(DISK as usize), None);
    fill(&store);
    assert!((0.99..=1.0).contains(&reads(&store, &disk, 0..OBJECTS / 2, Some(1))));
    assert!(reads(&store, &disk, OBJECTS..OBJECTS + 3000, None) < 0.01);
}

/// Once the table was read for one object, those that were stored with it are found with one read each: their entries come with the record,
/// in the same request. Also after a stop, and after a crash in what was there before.
#[test]
fn what_was_stored_together_is_read_along() {
    let mut medium = Medium::zeroed(DISK as usize);
    let memory = Some(DISK / 4096 * 3 / 8);
    let in_order = |store: &Cache, disk: &Memory, from: u64| {
        let reads = reads(store, disk, from..from + OBJECTS / 8, Some(1));
        println!("{reads:.3} reads a hit from {from} on");
        reads
    };
    let (store, disk) = open(&medium, memory);
    fill(&store);
    let before = disk.counters().read_bytes;
    // 32 KiB hold some ten records.
    assert!(in_order(&store, &disk, 0) < 1.2);
    let bytes = (disk.counters().read_bytes - before) as f64 / (OBJECTS / 8) as f64;
    println!("{bytes:.0} bytes read for each");
    block_on(store.close()).unwrap();
    let (store, disk) = open(&medium, memory);
    assert!(in_order(&store, &disk, OBJECTS / 8) < 1.2, "after a stop");
    medium = medium.copy();
    drop(store);
    let (store, disk) = open(&medium, memory);
    assert!(in_order(&store, &disk, OBJECTS / 4) < 1.2, "after a crash");
}

/// A bad sector lies behind good records. Whoever was led to one by the table was told that it is damaged, and it was forgotten.
#[test]
fn what_cannot_be_read_along_takes_no_record_with_it() {
    let disk = sound(&Medium::zeroed(DISK as usize));
    // Reads of a record alone, of a page, and of a run of pages are shorter or longer.
    let is_along =
        |request: &Request| matches!(request, Request::Read { into, .. } if (36 << 10..64 << 10).contains(&into.len()));
    let failed = std::sync::Arc::new(AtomicU64::new(0));
    let counted = failed.clone();
    let faults = move |_, request: &Request| {
        is_along(request).then(|| {
            counted.fetch_add(1, Relaxed);
            Fault::Error
        })
    };
    let settings = Settings::new().with(&engines::INDEX_ENTRIES, DISK / 4096 / 4 * 5).with(&engines::INDEX_MEMORY, 0);
    let plan = plan_with(engines::GENERATIONAL, &settings, DISK);
    let store = open_planned(&*plan, std::sync::Arc::new(Faulty::new(disk, faults))).unwrap();
    fill(&store);
    let there = || (0..OBJECTS / 2).filter(|n| get(&store, *n) == Some(1)).count() as u64;
    let found = there();
    assert!(found > OBJECTS / 2 - 12, "{found} of {}", OBJECTS / 2);
    assert!(failed.load(Relaxed) > OBJECTS / 4, "{failed:?} reads failed");
    assert_eq!(there(), found);
}

/// The memory that the index takes is what it was given, but for what it cannot do without: and the allocator counts it so.
#[test]
fn memory_is_what_was_given() {
    for bits in [1, 8, 32] {
        let memory = DISK / 4096 * bits / 8;
        let (store, _disk) = open(&Medium::zeroed(DISK as usize), Some(memory));
        fill(&store);
        let takes = store.stats().index_bytes;
        println!("{bits} bits an object: {takes} bytes for {memory}");
        assert!(takes < memory + (8 << 10), "{takes} for {memory}");
    }
}

/// Nothing on the disk depends on the memory. What was put and removed is found, or not, with any of it after the next start, and after a
/// kill. Objects of one spot push each other out, a few of thousands; nothing older is ever found.
#[test]
fn a_cache_is_used_on_with_more_memory_or_less() {
    let mut medium = Medium::zeroed(DISK as usize);
    let mut model = HashMap::new();
    let mut random = Random(7);
    let mut below = |most: u64| random.below(most);
    for (round, memory) in [Some(0), None, Some(2000), Some(0), Some(200_000), None, Some(0)].into_iter().enumerate() {
        let (store, _disk) = open(&medium, memory);
        assert_eq!(store.stats().damaged_at_open, 0);
        let mut lost = 0;
        let mut check = |n: u64, model: &HashMap<u64, u64>| {
            let found = get(&store, n);
            assert!(found.is_none() || found == model.get(&n).copied(), "object {n} in round {round}: {found:?}");
            lost += u64::from(found.is_none() && model.contains_key(&n));
        };
        (0..OBJECTS / 3).for_each(|n| check(n, &model));
        for step in 0..1500 {
            let n = below(OBJECTS / 3);
            if below(4) == 0 {
                block_on(store.remove(&key(n))).unwrap();
                model.remove(&n);
                assert_eq!(get(&store, n), None, "object {n} in round {round}");
            } else {
                let version = round as u64 * 10_000 + step + 1;
                assert!(matches!(put(&store, n, version, 2000), Commit::Stored { .. }));
                model.insert(n, version);
            }
            check(below(OBJECTS / 3), &model);
        }
        assert!(lost < 20, "{lost} are gone in round {round}");
        block_on(store.flush()).unwrap();
        if round % 2 == 0 {
            medium = medium.copy();
        } else {
            block_on(store.close()).unwrap();
        }
    }
    assert!(model.len() > 1000);
}
