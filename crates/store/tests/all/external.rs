//! The external indexing interface over every engine: the program reads the disk, and is told the truth about what it read.

use std::path::Path;

use tinaja_store::external::{ExternalError, Step};
use tinaja_store::{Cache, CacheOptions, Commit, EngineRef, Key, Store, block_on, engines};

use crate::support::reading::{find, follow, version};
use crate::support::{asked, get, has_table, key, prefetches, put};

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

fn open(dir: &Path, engine: EngineRef) -> Cache {
    let options = CacheOptions::new(dir).engine(engine).settings(asked()).disk_bytes(16 << 20);
    Cache::open(options.memory_bytes(0).mean_object_bytes(4096).flush_every(None)).unwrap()
}

fn reopened(cache: Cache, dir: &Path, engine: EngineRef) -> Cache {
    block_on(cache.close()).unwrap();
    drop(cache);
    open(dir, engine)
}

/// Sizes of which some fit a bin and some do not.
fn size(n: u64) -> usize {
    [100, 3000, 4000, 9000, 40_000][n as usize % 5]
}

fn every_object_is_read_by_the_program(engine: EngineRef) {
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
    assert!(read == 0 || engine == engines::HASHCACHE_LOGLRU, "the store itself read {read} times");
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

fn what_is_not_written_yet_needs_no_read(engine: EngineRef) {
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

fn damage_is_a_miss(engine: EngineRef) {
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

fn a_ticket_tells_of_what_came_since(engine: EngineRef) {
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

fn what_was_overwritten_is_a_miss(engine: EngineRef) {
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

fn large_objects_are_read_part_by_part(engine: EngineRef) {
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
    let step = block_on(index.part(&object, 300_000)).unwrap();
    (100..400).for_each(|n| drop(put(&cache, n, 1, 100_000)));
    block_on(cache.flush()).unwrap();
    assert!(follow(step, |_| ()).0.is_none());
    assert!(matches!(block_on(index.part(&object, 300_000)).unwrap(), Step::Missing | Step::Read(_)));
}

fn many_are_in_flight(engine: EngineRef) {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), engine);
    (0..OBJECTS).for_each(|n| assert!(matches!(put(&cache, n, 1, size(n)), Commit::Stored { .. })));
    let cache = reopened(cache, dir.path(), engine);
    let stored: Vec<_> = (0..OBJECTS).filter(|n| get(&cache, *n).is_some()).collect();
    let index = cache.external();
    let steps: Vec<_> = stored.iter().map(|&n| (n, block_on(index.locate(&key(n))).unwrap())).collect();
    // A read each, but for what the store's own memory has: Dámelo's pool has up to 110 of them, by which page left last.
    let reads = steps.iter().filter(|(_, step)| matches!(step, Step::Read(_))).count();
    assert_eq!(index.handed_out(), reads);
    assert!(reads > stored.len() / 2 && stored.len() > 200, "{reads} reads for {} objects", stored.len());
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
