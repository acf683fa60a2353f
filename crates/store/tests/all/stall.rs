//! One of two disks stalls: the other's objects are served and stored as ever, what waits is bounded and ends by its
//! deadline, nobody's download waits with the disk, and when it goes on all is as before.
//!
//! The stall lasts as long as it takes to see this, some six seconds. Half a minute:
//!
//! ```text
//! TINAJA_STALL_SECONDS=30 cargo test -p tinaja-store --test all stall:: -- --nocapture
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::sleep;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tinaja_store::device::wrap::{Fault, Faulty};
use tinaja_store::device::{Device, Request};
use tinaja_store::engine::Engine;
use tinaja_store::engine::registry::Opening;
use tinaja_store::engine::spread::Spread;
use tinaja_store::limits::{
    MAX_BATCHES_IN_FLIGHT, MAX_BINS_IN_FLIGHT, MAX_READS, MAX_SUMMARIES_WAITING, WRITE_PATIENCE,
};
use tinaja_store::{Cache, Commit, EngineRef, Hint, Lookup, Secret, State, Store, WhyNot, block_on, engines};

use crate::support::*;

const OBJECTS: u64 = 600;

/// A store over a sound disk and one that can be told to stall.
struct Disks {
    store: Cache,
    slow: Arc<Faulty>,
    stalls: Arc<AtomicBool>,
    /// Requests that have stalled.
    waiting: Arc<AtomicUsize>,
    /// Which objects lie on which.
    sound: Vec<u64>,
    stalled: Vec<u64>,
}

for_every_engine!(a_disk_that_stalls_harms_nobody_else);

/// How many of so many objects a store must have: a new object may push out any other where a set has one way, or where
/// two have one fingerprint.
fn least(engine: EngineRef, objects: usize) -> usize {
    match engine.name {
        "hashcache-basic" => objects * 3 / 4,
        "hashcache-log" | "hashcache-logn" => objects,
        _ => objects * 19 / 20,
    }
}

fn disks(engine: EngineRef) -> Disks {
    let (stalls, waiting) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (now, count) = (stalls.clone(), waiting.clone());
    let stall = move |_, _: &Request| {
        now.load(SeqCst).then(|| {
            count.fetch_add(1, SeqCst);
            Fault::Stalled
        })
    };
    let plan = plan_as(engine, DISK_BYTES as u64);
    let (sound_bytes, slow_bytes) = (blank(), blank());
    let open = |first: Arc<dyn Device>, second: Arc<dyn Device>| {
        let opened = |device| plan.open(Opening::of(device)).unwrap();
        let spread = Arc::new(Spread::over(vec![opened(first), opened(second)]).unwrap());
        (Cache::over(spread.clone(), Secret::from_bytes([7; 32]), 0).unwrap(), spread)
    };
    let (store, _) = open(sound(&sound_bytes), sound(&slow_bytes));
    (0..OBJECTS).for_each(|n| assert!(matches!(put(&store, n, 1, 3000), Commit::Stored { .. })));
    block_on(store.flush()).unwrap();
    let found: Vec<_> = (0..OBJECTS).filter(|n| get(&store, *n) == Some(1)).collect();
    assert!(found.len() >= least(engine, OBJECTS as usize), "{engine}: {} are there", found.len());
    // Opened again, so that no engine has them in memory.
    block_on(store.close()).unwrap();
    let slow = disk(&slow_bytes, stall);
    let (store, spread) = open(sound(&sound_bytes), slow.clone());
    // The first snapshots are over.
    sleep(Duration::from_millis(500));
    let secret = Secret::from_bytes([7; 32]);
    let on = |disk: usize| -> Vec<u64> {
        found.iter().copied().filter(|n| (&*spread as &dyn Engine).disk_of(&secret.digest(&key(*n))) == disk).collect()
    };
    let (sound, stalled) = (on(0), on(1));
    Disks { store, slow, stalls, waiting, sound, stalled }
}

fn lookups(disks: &Disks, objects: &[u64], patience: Duration) -> usize {
    let until = Instant::now() + patience;
    let lookups = objects.iter().map(|&n| disks.store.lookup(&key(n), until));
    let mut pending: Vec<_> = lookups.map(|it| if let Lookup::Wait(it) = it { it } else { panic!() }).collect();
    let ready = pending.iter_mut().map(poll).collect::<Vec<_>>();
    let found = |(ready, lookup)| match ready {
        std::task::Poll::Ready(found) => found,
        std::task::Poll::Pending => block_on(lookup),
    };
    ready.into_iter().zip(pending).filter_map(found).count()
}

/// Before a set is written to it may have to be read. On a disk that stalls the first who waits for that is told after
/// [`WRITE_PATIENCE`], and those after it at once; when the disk goes on, so do they.
#[test]
fn a_disk_table_that_stalls_holds_up_no_download() {
    for engine in [engines::HASHCACHE_BASIC, engines::HASHCACHE_SET, engines::HASHCACHE_SETMEMLRU] {
        let stalls = Arc::new(AtomicBool::new(false));
        let now = stalls.clone();
        let slow = disk(&blank(), move |_, _| now.load(SeqCst).then_some(Fault::Stalled));
        let store = open_as(engine, slow.clone()).unwrap();
        (0..100).for_each(|n| assert!(matches!(put(&store, n, 1, 3000), Commit::Stored { .. })));
        block_on(store.flush()).unwrap();
        stalls.store(true, SeqCst);
        let began = Instant::now();
        let (mut stored, mut told) = (0, 0);
        for n in 1000..1700 {
            match put(&store, n, 1, 3000) {
                Commit::Stored { .. } => stored += 1,
                Commit::NotStored(WhyNot::Slow) => told += 1,
                other => panic!("{engine}: {other:?}"),
            }
        }
        let took = began.elapsed();
        println!("{engine}: {stored} of 700 stored, {told} too slow, after {took:?}");
        assert!(told > 50 && took >= WRITE_PATIENCE && took < WRITE_PATIENCE * 2);
        stalls.store(false, SeqCst);
        slow.release();
        block_on(store.flush()).unwrap();
        (2000..2050).for_each(|n| assert!(matches!(put(&store, n, 1, 3000), Commit::Stored { .. }), "{engine}"));
        let there = (2000..2050).filter(|&n| get(&store, n) == Some(1)).count();
        assert!(there > 40, "{engine}: {there} of 50");
        assert_eq!(store.stats().disks_retired, 0);
    }
}

fn a_disk_that_stalls_harms_nobody_else(engine: EngineRef) {
    let seconds = std::env::var("TINAJA_STALL_SECONDS").ok().map_or(0, |text| text.parse().expect("seconds"));
    let disks = disks(engine);
    let Disks { store, sound, stalled, .. } = &disks;
    assert!(sound.len() > 200 && stalled.len() > 200);
    let began = Instant::now();
    disks.stalls.store(true, SeqCst);

    // More lookups than there are turns to read: each is a miss at its deadline.
    assert_eq!(lookups(&disks, &stalled[..200], Duration::from_millis(300)), 0);
    assert_eq!(store.stats().timeouts, 200);
    assert_eq!(lookups(&disks, &sound[..200], Duration::from_secs(5)), 200, "the other disk is sound");
    assert!(block_on(store.remove(&key(sound[0]))).is_ok(), "a removal waits for its own disk only");

    // Downloads go on, wherever their objects belong; what follows them has every byte.
    let (mut kept, mut slow) = (0, 0);
    for n in 2000..2040 {
        let mut writer = store.put(&key(n), Bytes::from_static(b"2"), Hint::default());
        let mut follower = writer.follow();
        assert_eq!(follower.state, State::Filling);
        let reading = std::thread::spawn(move || block_on(follower.body.collect(usize::MAX)));
        let body = tinaja_store::contract::bytes_of(n * 1000 + 2, 300_000);
        block_on(writer.write(body.clone()));
        match block_on(writer.commit()) {
            Commit::Stored { .. } => kept += 1,
            Commit::NotStored(WhyNot::Slow) => slow += 1,
            other => panic!("{other:?}"),
        }
        assert!(reading.join().unwrap().unwrap() == body);
    }
    println!("{engine}: {kept} of 40 stored, {slow} too slow, after {:?}", began.elapsed());
    assert!(kept >= 10 && slow >= 5);
    let waiting = disks.waiting.load(SeqCst);
    println!("{waiting} requests wait");
    let bins = if has_table(engine) { MAX_BINS_IN_FLIGHT } else { 0 };
    assert!(waiting <= MAX_READS + MAX_BATCHES_IN_FLIGHT + MAX_SUMMARIES_WAITING + bins + 1, "{waiting} requests wait");

    sleep(Duration::from_secs(seconds).saturating_sub(began.elapsed()));
    disks.stalls.store(false, SeqCst);
    disks.slow.release();
    block_on(store.flush()).unwrap();
    let left = lookups(&disks, stalled, Duration::from_secs(5));
    assert!(left >= least(engine, stalled.len()), "{engine}: {left} of {} are left", stalled.len());
    (3000..3100).for_each(|n| assert!(matches!(put(store, n, 1, 3000), Commit::Stored { .. })));
    assert!((3000..3100).filter(|&n| get(store, n) == Some(1)).count() >= least(engine, 100));
    let stats = store.stats();
    assert_eq!((stats.read_errors, stats.write_errors, stats.sync_errors, stats.disks_retired), (0, 0, 0, 0));
}
