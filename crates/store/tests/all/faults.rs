//! Disks that fail: whatever fails, the answer is a miss or a clear error, never a wrong byte, a panic or a hang.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tinaja_store::contract::bytes_of;
use tinaja_store::device::wrap::{Fault, Rule, Rules, Tear};
use tinaja_store::device::{Device, Medium, Request};
use tinaja_store::{Commit, EngineRef, Hint, Lookup, Store, StoreError, WhyNot, block_on, engines};

use crate::support::{blank, disk, get, has_table, is_write, key, open_as, put, sound};

for_every_engine!(
    after_a_failed_flush_nothing_of_its_regions_is_served,
    a_part_that_is_lost_is_told_of_when_its_object_is_stored,
    a_disk_that_takes_no_more_writes_is_read_on,
    every_request_may_fail,
    a_failed_read_at_opening_revives_nothing,
    lookups_end_at_their_deadline,
    damaged_bytes_are_never_served,
    faults_at_random_never_show,
);

/// How many of so many objects there must be at the least: with one way they push out each other.
fn least(engine: EngineRef, objects: usize) -> usize {
    if engine == engines::HASHCACHE_BASIC { objects * 4 / 5 } else { objects - objects / 50 }
}

/// A flush that failed is told, its region is never trusted again, and what its records replaced stays replaced.
fn after_a_failed_flush_nothing_of_its_regions_is_served(engine: EngineRef) {
    for failing in ["sync", "write"] {
        let (broken, bytes) = (Arc::new(AtomicBool::new(false)), blank());
        let now = broken.clone();
        let plan = move |_, request: &Request| {
            let hit = if failing == "sync" { matches!(request, Request::Sync) } else { is_write(request) };
            if hit && now.load(SeqCst) { Some(Fault::Error) } else { None }
        };
        let store = open_as(engine, disk(&bytes, plan)).unwrap();
        (0..100).for_each(|n| assert!(matches!(put(&store, n, 1, 2000), Commit::Stored { .. })));
        block_on(store.flush()).unwrap();
        broken.store(true, SeqCst);
        (0..50).for_each(|n| assert!(matches!(put(&store, n, 2, 2000), Commit::Stored { .. })));
        assert!(matches!(block_on(store.flush()), Err(StoreError::Device(_))), "a failed {failing} is told");
        broken.store(false, SeqCst);
        for n in 0..50 {
            assert_eq!(
                get(&store, n),
                None,
                "after a failed {failing}: neither the lost version nor the one it replaced"
            );
        }
        (200..300).for_each(|n| assert!(matches!(put(&store, n, 1, 2000), Commit::Stored { .. })));
        block_on(store.flush()).expect("the next regions are sound");
        assert!((200..300).filter(|&n| get(&store, n).is_some()).count() >= least(engine, 100));
        (0..50).for_each(|n| assert_eq!(get(&store, n), None, "slots reused, and the old version came to light"));
    }
}

/// A part of a large object is lost while the rest of it is still on its way, and another client's flush is told. Only of the first part it was
/// looked whether it is there still: the object was stored, the next flush said that all is well, and no lookup found it.
fn a_part_that_is_lost_is_told_of_when_its_object_is_stored(engine: EngineRef) {
    let (fails, bytes) = (Arc::new(AtomicBool::new(false)), blank());
    let now = fails.clone();
    let plan = move |_, request: &Request| (is_write(request) && now.swap(false, SeqCst)).then_some(Fault::Error);
    let store = open_as(engine, disk(&bytes, plan)).unwrap();
    let whole = bytes_of(1_000_001, 3_300_000);
    let mut writer = store.put(&key(1000), Bytes::from_static(b"1"), Hint::default());
    block_on(writer.write(whole.slice(..2_500_000)));
    block_on(store.flush()).unwrap();
    fails.store(true, SeqCst);
    block_on(writer.write(whole.slice(2_500_000..3_100_000)));
    // Where nothing has been written of it, all of it goes to its client alone.
    drop(block_on(store.flush()));
    fails.store(false, SeqCst);
    block_on(writer.write(whole.slice(3_100_000..)));
    let is_stored = matches!(block_on(writer.commit()), Commit::Stored { .. });
    if block_on(store.flush()).is_ok() {
        assert_eq!(get(&store, 1000), is_stored.then_some(1));
    }
}

/// A disk that fails every write is no longer written to; what it holds is still served, and writers go on.
fn a_disk_that_takes_no_more_writes_is_read_on(engine: EngineRef) {
    let (broken, bytes) = (Arc::new(AtomicBool::new(false)), blank());
    let now = broken.clone();
    let plan = move |_, request: &Request| {
        if is_write(request) && now.load(SeqCst) { Some(Fault::Error) } else { None }
    };
    let store = open_as(engine, disk(&bytes, plan)).unwrap();
    (0..500).for_each(|n| assert!(matches!(put(&store, n, 1, 2000), Commit::Stored { .. })));
    block_on(store.flush()).unwrap();
    broken.store(true, SeqCst);
    let mut refused = 0;
    for n in 1000..3000 {
        refused += u64::from(matches!(put(&store, n, 1, 5000), Commit::NotStored(_)));
    }
    assert!(refused > 1000, "writes to a dead disk are refused, after a few: {refused}");
    let left = (0..500).filter(|&n| get(&store, n) == Some(1)).count();
    assert!(left > 350, "all but the region that was open: {left} of 500");
    assert!(block_on(store.flush()).is_err());
}

/// The Nth request fails, for every N: in writing, reading, removing, flushing, closing and reopening.
fn every_request_may_fail(engine: EngineRef) {
    let (mut requests, mut reads, mut n) = (0, 0, 0);
    while n <= requests {
        let (bytes, was_read) = (blank(), Arc::new(AtomicBool::new(false)));
        let failed_a_read = was_read.clone();
        let plan = move |call, request: &Request| {
            if call == n {
                failed_a_read.store(matches!(request, Request::Read { .. }), SeqCst);
                return Some(Fault::Error);
            }
            None
        };
        let failing = disk(&bytes, plan);
        if let Ok(store) = open_as(engine, failing.clone()) {
            let mut is_newer = Vec::new();
            for object in 0..20 {
                let _ = put(&store, object, 1, 3000);
                let size = if object == 7 { 300_000 } else { 3000 };
                is_newer.push(matches!(put(&store, object, 2, size), Commit::Stored { .. }));
                if object == 9 {
                    // An engine that keeps all of them in memory asks its disk for something now.
                    let _ = block_on(store.flush());
                }
            }
            let _ = block_on(store.remove(&key(3)));
            let _ = block_on(store.flush());
            for object in 0..20 {
                let found = get(&store, object);
                // In a table an object stays where it is if its newer version cannot be stored. Where objects of another
                // size have a log of their own, what is lost with that takes nothing with it. A large object of which a part was lost is
                // not stored, and the older one is where it was.
                let stays = has_table(engine) || engine == engines::GENERATIONAL || object == 7;
                let may_be_old = stays && !is_newer[object as usize];
                assert!(
                    (found != Some(1) || may_be_old) && (object != 3 || found.is_none()),
                    "request {n}: object {object} {found:?}"
                );
            }
            let _ = block_on(store.close());
        }
        requests = requests.max(failing.calls());
        let store = open_as(engine, sound(&bytes)).unwrap();
        let found = (0..20).filter(|&object| get(&store, object).is_some()).count();
        // A read that fails at the first opening only hides what is there; a write or a sync may lose its region.
        assert!(!was_read.load(SeqCst) || found >= 18, "read {n} failed and {found} of 20 are left");
        reads += u64::from(was_read.load(SeqCst));
        n += 1;
    }
    // What was put is in its pool of pages still: it reads when it is opened alone.
    let least = if engine == engines::DAMELO { 7 } else { 30 };
    assert!(requests > 40 && reads > least && reads < requests, "{reads} reads of {requests} requests");
}

/// A read that fails while the store opens hides objects; it must not bring older versions to light, then or later.
fn a_failed_read_at_opening_revives_nothing(engine: EngineRef) {
    let whole = blank();
    let store = open_as(engine, sound(&whole)).unwrap();
    for n in 0..500 {
        let _ = put(&store, n, 1, 3000);
        let _ = put(&store, n, 2, 3000);
    }
    (0..50).for_each(|n| drop(block_on(store.remove(&key(n)))));
    drop(store);
    for n in 0..60 {
        let bytes = whole.copy();
        let plan = move |call, request: &Request| {
            if call == n && !is_write(request) && !matches!(request, Request::Sync) { Some(Fault::Error) } else { None }
        };
        let store = open_as(engine, disk(&bytes, plan)).unwrap();
        let is_stored = |object| matches!(put(&store, object, 3, 3000), Commit::Stored { .. });
        // A set that cannot be read is not written to either.
        let stored: Vec<_> = (0..20).map(is_stored).collect();
        assert!(stored.iter().filter(|stored| !**stored).count() <= usize::from(has_table(engine)));
        block_on(store.flush()).unwrap();
        // Killed: what was written is there, no summary is.
        let store = open_as(engine, sound(&bytes.copy())).unwrap();
        for object in 0..20 {
            let found = get(&store, object);
            let right = if stored[object as usize] { found == Some(3) } else { found != Some(1) };
            let pushed_out = found.is_none() && engine == engines::HASHCACHE_BASIC;
            assert!(right || pushed_out, "read {n} failed, then object {object} is {found:?}");
        }
        (20..50).for_each(|object| assert_eq!(get(&store, object), None, "read {n} failed, then {object} was back"));
        (50..500).for_each(|object| assert_ne!(get(&store, object), Some(1), "read {n} failed, then {object} was old"));
    }
}

/// A disk that stalls: lookups give up at their deadline, and the rest goes on.
///
/// Only reads stalled. So on a busy machine what had just been put could be on the disk before it was asked for, and could
/// not be read. Now its write stalls too, and it stays in memory.
fn lookups_end_at_their_deadline(engine: EngineRef) {
    let (stalled, bytes) = (Arc::new(AtomicBool::new(false)), blank());
    let now = stalled.clone();
    let stalls = move |_, _: &Request| now.load(SeqCst).then_some(Fault::Stalled);
    let store = open_as(engine, sound(&bytes)).unwrap();
    let _ = put(&store, 1, 1, 2000);
    block_on(store.close()).unwrap();
    // Opened again, so that no engine has it in memory.
    let disk = disk(&bytes, stalls);
    let store = open_as(engine, disk.clone()).unwrap();
    stalled.store(true, SeqCst);
    let began = Instant::now();
    let Lookup::Wait(pending) = store.lookup(&key(1), began + Duration::from_millis(200)) else {
        panic!("it is on disk")
    };
    assert!(block_on(pending).is_none());
    assert!(began.elapsed() >= Duration::from_millis(200) && began.elapsed() < Duration::from_secs(5));
    assert_eq!(store.stats().timeouts, 1);
    if !has_table(engine) {
        let _ = put(&store, 2, 1, 2000);
        assert_eq!(get(&store, 2), Some(1), "what is still in memory needs no disk");
    } else if [engines::HASHCACHE_SET, engines::HASHCACHE_SETMEMLRU].contains(&engine) {
        assert_eq!(put(&store, 2, 1, 2000), Commit::NotStored(WhyNot::Slow), "its set cannot be read");
    }
    stalled.store(false, SeqCst);
    disk.release();
}

/// Any byte of the disk flipped, cut or replaced: never another byte served, and the store opens.
fn damaged_bytes_are_never_served(engine: EngineRef) {
    let bytes = blank();
    let store = open_as(engine, sound(&bytes)).unwrap();
    (0..300).for_each(|n| assert!(matches!(put(&store, n, 1, (n * 67 % 9000) as usize), Commit::Stored { .. })));
    let _ = put(&store, 300, 1, 400_000);
    block_on(store.close()).unwrap();
    let whole = bytes.bytes();
    let used = whole.iter().rposition(|&byte| byte != 0).unwrap();
    let mut lost = 0;
    for round in 0..400_usize {
        let at = round * 7919 * 31 % used;
        let mut damaged = whole.clone();
        match round % 4 {
            0 => damaged[at] ^= 1 << (round % 8),
            1 => damaged[at..used.min(at + 4096)].fill(0),
            2 => damaged[at..used.min(at + 512)].fill(0xFF),
            _ => damaged.copy_within(at..used.min(at + 8192), (at * 7 % used).max(4096).min(used - 8192)),
        }
        let store = open_as(engine, sound(&Medium::from(damaged))).unwrap();
        let found = (0..=300).filter(|&n| get(&store, n).is_some()).count();
        lost += 301 - found;
        assert!(found > 200, "round {round}: one damage took {} objects", 301 - found);
    }
    assert!(lost > 100, "the damage hit something: {lost}");
}

/// All faults at random, at every hundredth request: what is found is the version stored last, or nothing.
fn faults_at_random_never_show(engine: EngineRef) {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos().into();
    let seed: u64 = std::env::var("TINAJA_SEED").ok().map_or_else(now, |seed| seed.parse().expect("a number"));
    println!("TINAJA_SEED={seed}");
    // In a table nothing tells that a write did not reach its bin, if the disk says that it did.
    let honest = [Fault::Error, Fault::Short, Fault::Flipped(17), Fault::Late(Duration::from_millis(2)), Fault::Full];
    let faults = [
        Fault::Error,
        Fault::Short,
        Fault::Torn(Tear::Prefix(3)),
        Fault::Torn(Tear::Alternating),
        Fault::Lost,
        Fault::Held,
        Fault::Misdirected(1 << 20),
        Fault::Flipped(seed),
        Fault::Late(Duration::from_millis(2)),
        Fault::Full,
    ];
    let (mut found, mut asked, mut opened) = (0, 0, 0);
    // An opening that writes may be refused: once in 24 times more than half of one engine's were, of twelve.
    for run in 0..48 {
        if run >= 12 && asked > 5000 {
            break;
        }
        let rule = |fault| Rule { probability: 0.01, ..Rule::always(fault) };
        let rules = if has_table(engine) { honest.map(rule).to_vec() } else { faults.map(rule).to_vec() };
        let rules = Rules::new(seed + run, rules);
        let medium = blank();
        let failing = disk(&medium, move |call, request| rules.pick(call, request));
        let Ok(store) = open_as(engine, failing.clone()) else { continue };
        opened += 1;
        // What may be found: the version stored last, or a later one of which the store said that it was not stored.
        let mut floor = [0_u64; 40];
        for version in 1..20_u64 {
            for n in (0..40_u64).filter(|n| !(n + version).is_multiple_of(3)) {
                if matches!(put(&store, n, version, (n * 97 % 5000) as usize), Commit::Stored { .. }) {
                    floor[n as usize] = version;
                }
            }
            let _ = block_on(store.flush());
            for n in 0..40 {
                let version = get(&store, n);
                assert!(version.is_none_or(|found| found >= floor[n as usize]), "run {run}: {n} is {version:?}");
                found += u64::from(version.is_some());
                asked += 1;
            }
        }
        let _ = block_on(store.close());
        failing.stop();
        drop(store);
        // Reopened without faults: whatever the disk was told and forgot, no byte is wrong.
        let store = open_as(engine, sound(&medium)).unwrap();
        (0..40).for_each(|n| assert!(get(&store, n).is_none_or(|version| version < 20)));
    }
    println!("{opened} opened, {found} of {asked} found");
    assert!(asked > 5000 && found > asked / 10 && found < asked);
}
