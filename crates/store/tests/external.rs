//! The external indexing interface over every engine: the program reads the disk, and is told the truth about what it read.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::path::Path;

use bytes::Bytes;
use support::{get, has_table, key, prefetches, put};
use tinaja_store::contract::bytes_of;
use tinaja_store::external::{ExternalError, Index, Object, Step};
use tinaja_store::limits::MAX_TICKETS;
use tinaja_store::{Cache, CacheOptions, Commit, EngineName, Hint, Key, Store, Tuning, block_on};

for_every_engine!(
    every_object_is_read_by_the_program,
    what_is_not_written_yet_needs_no_read,
    damage_is_a_miss,
    a_ticket_tells_of_what_came_since,
    what_was_overwritten_is_a_miss,
    large_objects_are_read_part_by_part,
    many_are_in_flight,
);

/// Objects of one engine's cache: enough for sets and a log, few enough that all stay.
const OBJECTS: u64 = 300;

fn open(dir: &Path, engine: EngineName) -> Cache {
    let tuning = Tuning { prefetch: Some(prefetches()), ..Tuning::default() };
    let options = CacheOptions { engine: Some(engine), tuning, disk_bytes: Some(16 << 20), ..CacheOptions::new(dir) };
    Cache::open(CacheOptions { memory_bytes: 0, mean_object_bytes: 4096, flush_every: None, ..options }).unwrap()
}

fn reopened(cache: Cache, dir: &Path, engine: EngineName) -> Cache {
    block_on(cache.close()).unwrap();
    drop(cache);
    open(dir, engine)
}

/// Sizes of which some fit a bin and some do not.
fn size(n: u64) -> usize {
    [100, 3000, 4000, 9000, 40_000][n as usize % 5]
}

/// Carry out every read that is asked for. The object or part, and how many reads it took.
fn follow(mut step: Step, damage: impl Fn(&mut [u8])) -> (Option<Step>, usize) {
    let mut reads = 0;
    loop {
        match step {
            Step::Missing => return (None, reads),
            Step::Object(_) | Step::Part(_) => return (Some(step), reads),
            Step::Read(read) => {
                reads += 1;
                assert!(reads < 20, "it goes round in circles");
                assert_eq!(read.offset() % read.align().max(1), 0);
                let mut bytes = read.read().unwrap();
                damage(&mut bytes);
                step = block_on(read.verify(&bytes)).unwrap();
            }
        }
    }
}

fn find(index: &Index, key: &Key) -> (Option<Object>, usize) {
    let (step, reads) = follow(block_on(index.locate(key)).unwrap(), |_| ());
    match step {
        Some(Step::Object(object)) => (Some(object), reads),
        None => (None, reads),
        other => panic!("{other:?}"),
    }
}

/// The version of an object found, with its bytes compared.
fn version(index: &Index, n: u64, object: &Object) -> u64 {
    let version: u64 = std::str::from_utf8(object.head()).unwrap().parse().unwrap();
    let mut all = Vec::new();
    while (all.len() as u64) < object.length() {
        let step = block_on(index.part(object, all.len() as u64)).unwrap();
        let (Some(Step::Part(part)), _) = follow(step, |_| ()) else { panic!("part of {n} is missing") };
        assert_eq!(part.at(), all.len() as u64);
        part.bytes().iter().for_each(|piece| all.extend_from_slice(piece));
    }
    assert!(all == bytes_of(n * 1000 + version, all.len()), "wrong bytes for object {n}");
    version
}

fn every_object_is_read_by_the_program(engine: EngineName) {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), engine);
    (0..OBJECTS).for_each(|n| assert!(matches!(put(&cache, n, 1, size(n)), Commit::Stored { .. })));
    let cache = reopened(cache, dir.path(), engine);
    let index = cache.external();
    let before = cache.stats().reads;
    let (mut found, mut reads) = (0, 0);
    for n in 0..OBJECTS {
        let (object, one) = find(&index, &key(n));
        reads += one;
        if let Some(object) = object {
            assert_eq!((version(&index, n, &object), object.length()), (1, size(n) as u64));
            assert!(one > 0 || prefetches(), "it was read from nowhere");
            found += 1;
        }
    }
    // LogLRU keeps its offset file in step meanwhile, by a read and a write of whole blocks.
    let read = cache.stats().reads - before;
    assert!(read == 0 || engine == EngineName::HashCacheLogLru, "the store itself read {read} times");
    assert_eq!(found, (0..OBJECTS).filter(|n| get(&cache, *n) == Some(1)).count(), "those that the store finds");
    assert!(found > 200 && reads < 4 * OBJECTS as usize, "{found} found with {reads} reads");
    // A miss, and another name with the same digest.
    for n in 0..50 {
        assert!(find(&index, &key(10_000 + n)).0.is_none());
        let namesake = Key::from_digest(*key(n).digest()).with_name(b"another");
        assert!(find(&index, &namesake).0.is_none());
    }
    assert_eq!(index.handed_out(), 0);
    let stats = cache.stats();
    assert!(stats.hits_disk >= found as u64 && stats.misses >= 50, "lookups are counted: {stats:?}");
}

fn what_is_not_written_yet_needs_no_read(engine: EngineName) {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), engine);
    let index = cache.external();
    let mut from_memory = 0;
    for n in 0..50 {
        let _ = put(&cache, n, 1, 3000);
        let (object, reads) = find(&index, &key(n));
        assert_eq!(version(&index, n, &object.unwrap()), 1, "found at once, on disk or not");
        from_memory += usize::from(reads == 0);
    }
    // A table's bins go to the disk one by one, and may be there already.
    assert!(has_table(engine) || from_memory > 25, "{from_memory}");
}

fn damage_is_a_miss(engine: EngineName) {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), engine);
    (0..20).for_each(|n| assert!(matches!(put(&cache, n, 1, 3000), Commit::Stored { .. })));
    let cache = reopened(cache, dir.path(), engine);
    let index = cache.external();
    for n in 0..20 {
        let step = block_on(index.locate(&key(n))).unwrap();
        // Whatever was damaged of it, what is found is right.
        let (step, _) = follow(step, |bytes| bytes.iter_mut().step_by(97).for_each(|byte| *byte ^= 1));
        assert!(step.is_none(), "object {n} was found in what is nowhere on the disk: {step:?}");
    }
    assert_eq!(index.handed_out(), 0);
}

fn a_ticket_tells_of_what_came_since(engine: EngineName) {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), engine);
    (0..60).for_each(|n| assert!(matches!(put(&cache, n, 1, 3000), Commit::Stored { .. })));
    let cache = reopened(cache, dir.path(), engine);
    let index = cache.external();
    let steps: Vec<_> = (0..60).map(|n| block_on(index.locate(&key(n))).unwrap()).collect();
    for n in 0..60 {
        match n % 3 {
            0 => drop(put(&cache, n, 2, 3000)),
            1 => drop(block_on(cache.remove(&key(n))).unwrap()),
            _ => {}
        }
    }
    block_on(cache.flush()).unwrap();
    let mut untouched = 0;
    for (n, step) in (0..60).zip(steps) {
        let found = match follow(step, |_| ()).0 {
            Some(Step::Object(object)) => Some(version(&index, n, &object)),
            _ => None,
        };
        match n % 3 {
            0 => assert_ne!(found, Some(1), "object {n}: the version before the last"),
            1 => assert_eq!(found, None, "object {n} was removed"),
            _ => untouched += usize::from(found == Some(1)),
        }
    }
    assert!(untouched > 10, "{untouched}: what nobody touched is found, but what others in its set pushed out");
}

fn what_was_overwritten_is_a_miss(engine: EngineName) {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), engine);
    (0..40).for_each(|n| assert!(matches!(put(&cache, n, 1, 3000), Commit::Stored { .. })));
    let cache = reopened(cache, dir.path(), engine);
    let index = cache.external();
    let steps: Vec<_> = (0..40).map(|n| block_on(index.locate(&key(n))).unwrap()).collect();
    (100..12_000).for_each(|n| drop(put(&cache, n, 1, 3000)));
    block_on(cache.flush()).unwrap();
    let mut lost = 0;
    for (n, step) in (0..40).zip(steps) {
        match follow(step, |_| ()).0 {
            Some(Step::Object(object)) => assert_eq!(version(&index, n, &object), 1),
            _ => lost += 1,
        }
    }
    assert!(lost >= 35, "the disk was written over twice: {lost} of 40 lost");
}

fn large_objects_are_read_part_by_part(engine: EngineName) {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), engine);
    for n in 0..3 {
        assert!(matches!(put(&cache, n, 1, 900_000 + n as usize), Commit::Stored { .. }));
    }
    let cache = reopened(cache, dir.path(), engine);
    let index = cache.external();
    for n in 0..3 {
        let object = find(&index, &key(n)).0.unwrap();
        assert_eq!((object.length(), object.body().is_none()), (900_000 + n, true));
        assert_eq!(version(&index, n, &object), 1);
        let end = index.part(&object, object.length());
        let beyond = ExternalError::BeyondEnd { at: object.length(), length: object.length() };
        assert_eq!(block_on(end).unwrap_err(), beyond);
        // From the middle: the part that holds the byte.
        let (Some(Step::Part(part)), reads) = follow(block_on(index.part(&object, 500_000)).unwrap(), |_| ()) else {
            panic!("not there")
        };
        assert!(part.at() <= 500_000 && part.at() + part.length() > 500_000 && reads == 1);
        let step = block_on(index.part(&object, 500_000)).unwrap();
        assert!(follow(step, |bytes| bytes.iter_mut().step_by(97).for_each(|byte| *byte ^= 1)).0.is_none());
    }
    // A part whose place was overwritten meanwhile.
    let object = find(&index, &key(0)).0.unwrap();
    let step = block_on(index.part(&object, 0)).unwrap();
    (100..400).for_each(|n| drop(put(&cache, n, 1, 100_000)));
    block_on(cache.flush()).unwrap();
    assert!(follow(step, |_| ()).0.is_none());
    assert!(matches!(block_on(index.part(&object, 0)).unwrap(), Step::Missing | Step::Read(_)));
}

fn many_are_in_flight(engine: EngineName) {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), engine);
    (0..OBJECTS).for_each(|n| assert!(matches!(put(&cache, n, 1, size(n)), Commit::Stored { .. })));
    let cache = reopened(cache, dir.path(), engine);
    let stored: Vec<_> = (0..OBJECTS).filter(|n| get(&cache, *n).is_some()).collect();
    let index = cache.external();
    let steps: Vec<_> = stored.iter().map(|&n| (n, block_on(index.locate(&key(n))).unwrap())).collect();
    assert!(index.handed_out() > 200, "{}", index.handed_out());
    // Verified in another order than they were asked for, by other threads.
    let mut parts: Vec<Vec<_>> = (0..4).map(|_| Vec::new()).collect();
    for (number, step) in steps.into_iter().rev().enumerate() {
        parts[number % 4].push(step);
    }
    std::thread::scope(|scope| {
        for part in parts {
            scope.spawn(|| {
                for (n, step) in part {
                    let (Some(Step::Object(object)), _) = follow(step, |_| ()) else { panic!("{n} is gone") };
                    assert_eq!(version(&index, n, &object), 1);
                }
            });
        }
    });
    assert_eq!(index.handed_out(), 0);
}

#[test]
fn each_of_several_disks_has_its_own_descriptor() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let options = || {
        let options = CacheOptions { disk_bytes: Some(16 << 20), ..CacheOptions::new(dirs[0].path()) };
        CacheOptions { memory_bytes: 0, more_dirs: vec![dirs[1].path().into()], ..options }
    };
    let cache = Cache::open(options()).unwrap();
    (0..60)
        .for_each(|n| assert!(matches!(put(&cache, n, 1, if n < 58 { 3000 } else { 900_000 }), Commit::Stored { .. })));
    block_on(cache.close()).unwrap();
    drop(cache);
    let cache = Cache::open(options()).unwrap();
    let index = cache.external();
    let mut files = [0; 2];
    for n in 0..60 {
        let Step::Read(read) = block_on(index.locate(&key(n))).unwrap() else { panic!("{n} is not on disk") };
        let held = read.file().metadata().unwrap();
        let is_of = |dir: &tempfile::TempDir| {
            let there = std::fs::metadata(dir.path().join("tinaja.cache")).unwrap();
            std::os::unix::fs::MetadataExt::ino(&there) == std::os::unix::fs::MetadataExt::ino(&held)
        };
        files[dirs.iter().position(is_of).expect("of neither disk")] += 1;
        drop(read);
        assert_eq!(version(&index, n, &find(&index, &key(n)).0.unwrap()), 1);
    }
    assert!(files.iter().all(|count| *count > 10), "{files:?}");
}

#[test]
fn tickets_are_bounded_and_misuse_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), EngineName::HashCacheLog);
    let _ = put(&cache, 1, 1, 3000);
    let cache = reopened(cache, dir.path(), EngineName::HashCacheLog);
    let index = cache.external();
    let mut steps: Vec<_> = (0..MAX_TICKETS).map(|_| block_on(index.locate(&key(1))).unwrap()).collect();
    assert_eq!(block_on(index.locate(&key(1))).unwrap_err(), ExternalError::TooMany(MAX_TICKETS));
    drop(steps.pop());
    let Step::Read(read) = block_on(index.locate(&key(1))).unwrap() else { panic!("not on disk") };
    let wanted = read.bytes();
    let short = block_on(read.verify(&[0; 10])).unwrap_err();
    assert_eq!(short, ExternalError::Length { given: 10, wanted });
    assert!(find(&index, &key(1)).0.is_some(), "a mistake of the caller's costs nobody an object");
    let Some(Step::Read(read)) = steps.pop() else { panic!("not on disk") };
    let bytes = read.read().unwrap();
    block_on(cache.close()).unwrap();
    assert_eq!(block_on(read.verify(&bytes)).unwrap_err(), ExternalError::Closed);
    assert_eq!(block_on(index.locate(&key(1))).unwrap_err(), ExternalError::Closed);
}

#[test]
fn hot_objects_need_no_read_and_unfinished_writes_are_not_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    let options = CacheOptions { disk_bytes: Some(16 << 20), ..CacheOptions::new(dir.path()) };
    let cache = Cache::open(options).unwrap();
    let index = cache.external();
    let _ = put(&cache, 1, 1, 3000);
    assert_eq!(get(&cache, 1), Some(1));
    let mut writer = cache.put(&key(1), Bytes::from_static(b"2"), Hint::default());
    block_on(writer.write(bytes_of(1002, 3000)));
    let (object, reads) = find(&index, &key(1));
    assert_eq!((version(&index, 1, &object.unwrap()), reads), (1, 0));
    assert!(matches!(block_on(writer.commit()), Commit::Stored { .. }));
    assert_eq!(version(&index, 1, &find(&index, &key(1)).0.unwrap()), 2);
}

/// Where related objects are read in one request, whoever wants one that is being read waits for it. A request that was
/// handed out to a program was taken for one under way: while its ticket was held, and for ever once it was dropped, lookups
/// of all that it would have read ran into their deadlines.
#[test]
fn nobody_waits_for_a_read_that_was_handed_out() {
    let dir = tempfile::tempdir().unwrap();
    let options = || {
        let tuning = Tuning { prefetch: Some(true), ..Tuning::default() };
        let options = CacheOptions { tuning, disk_bytes: Some(16 << 20), ..CacheOptions::new(dir.path()) };
        CacheOptions { memory_bytes: 0, mean_object_bytes: 4096, ..options }
    };
    let cache = Cache::open(options()).unwrap();
    for n in 0..8 {
        let hint = Hint { group: Some(1), ..Hint::default() };
        let mut writer = cache.put(&key(n), Bytes::from_static(b"1"), hint);
        block_on(writer.write(bytes_of(n * 1000 + 1, 3000)));
        assert!(matches!(block_on(writer.commit()), Commit::Stored { .. }));
    }
    block_on(cache.close()).unwrap();
    drop(cache);
    let cache = Cache::open(options()).unwrap();
    let index = cache.external();
    let Step::Read(read) = block_on(index.locate(&key(0))).unwrap() else { panic!("not on disk") };
    assert!(read.bytes() > 8 * 3000, "one request for all of them: {} bytes", read.bytes());
    let began = std::time::Instant::now();
    assert!((1..4).all(|n| get(&cache, n) == Some(1)), "while the ticket is held");
    drop(read);
    assert!((4..8).all(|n| get(&cache, n) == Some(1)), "when it was dropped");
    assert!(began.elapsed() < tinaja_store::FIND_DEADLINE, "they waited");
    let (object, reads) = find(&index, &key(0));
    assert_eq!(version(&index, 0, &object.unwrap()), 1);
    assert!(reads <= 1, "{reads}");
}
