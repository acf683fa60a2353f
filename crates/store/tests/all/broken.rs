//! An engine that finds one of its invariants broken: it stops, nothing hangs, nothing wrong is served, its disk is left as
//! after a kill, and other disks go on. The invariant broken here is that a device's `submit` does not panic: engines call
//! it wherever they work, on the callers' threads, on the device's and on their own.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Once};
use std::time::Duration;

use tinaja_store::device::Device;
use tinaja_store::device::wrap::{Fault, Faulty};
use tinaja_store::engine::registry::Opening;
use tinaja_store::engine::spread::Spread;
use tinaja_store::{Cache, Commit, EngineRef, Secret, Store, StoreError, WhyNot, block_on};

use crate::support::{blank, disk, get, has_table, key, open_as, plan_as, put, sound};

for_every_engine!(
    wherever_it_panics_the_engine_stops_and_its_disk_opens_again,
    requests_under_way_are_answered_when_the_engine_stops,
    the_other_disk_goes_on,
);

const ON_PURPOSE: &str = "a request that panics, on purpose";

/// Panics on purpose say nothing; those of other tests are told as ever.
fn hush() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if panic.payload_as_str() != Some(ON_PURPOSE) {
                before(panic);
            }
        }));
    });
}

/// What was acknowledged before it happened.
#[derive(Default)]
struct Acknowledged {
    stored: Vec<bool>,
    removed: bool,
    flushed: bool,
}

fn use_it(store: &Cache) -> Acknowledged {
    let mut all = Acknowledged::default();
    for object in 0..20 {
        let _ = put(store, object, 1, 3000);
        let size = if object == 7 { 300_000 } else { 3000 };
        all.stored.push(matches!(put(store, object, 2, size), Commit::Stored { .. }));
        if object % 5 == 4 {
            // An engine that keeps all of them in memory asks its disk for something now.
            let _ = block_on(store.flush());
        }
    }
    all.removed = block_on(store.remove(&key(3))).is_ok();
    all.flushed = block_on(store.flush()).is_ok();
    (0..20).for_each(|object| assert!(get(store, object) != Some(3)));
    all
}

fn is_stopped(store: &Cache) -> bool {
    store.stats().engines_stopped == 1
}

/// It finds nothing, takes nothing, says so, and asks nothing more of its disk.
fn answers_as_stopped(store: &Cache, failing: &Faulty, n: u64) {
    let calls = failing.calls();
    assert_eq!(put(store, 50, 1, 3000), Commit::NotStored(WhyNot::Device), "request {n}");
    assert_eq!(put(store, 51, 1, 300_000), Commit::NotStored(WhyNot::Device), "request {n}");
    assert!((0..52).all(|object| get(store, object).is_none()), "request {n}");
    assert!(block_on(store.remove(&key(1))).is_err(), "request {n}: it would be back after a restart");
    let Err(StoreError::Device(why)) = block_on(store.flush()) else { panic!("request {n}: it flushed") };
    assert!(why.contains("invariants") && why.contains("restart") && why.contains(ON_PURPOSE), "{why}");
    assert!(block_on(store.close()).is_err(), "request {n}");
    assert_eq!(failing.calls(), calls, "request {n}: its disk is left alone");
}

/// The Nth request panics, for every N: in opening, writing, reading, removing, flushing and closing.
fn wherever_it_panics_the_engine_stops_and_its_disk_opens_again(engine: EngineRef) {
    hush();
    let (mut requests, mut n, mut in_use, mut in_opening) = (0, 0, 0, 0);
    while n <= requests {
        let bytes = blank();
        let failing = disk(&bytes, move |call, _| {
            assert!(call != n, "{ON_PURPOSE}");
            None
        });
        let mut known = Acknowledged::default();
        match open_as(engine, failing.clone()) {
            Ok(store) => {
                known = use_it(&store);
                if is_stopped(&store) {
                    in_use += 1;
                    answers_as_stopped(&store, &failing, n);
                } else {
                    let _ = block_on(store.close());
                }
            }
            Err(why) => {
                in_opening += 1;
                assert!(why.contains("invariants"), "{why}");
            }
        }
        requests = requests.max(failing.calls());
        let store = open_as(engine, sound(&bytes)).unwrap();
        for object in 0..20 {
            let found = get(&store, object);
            let is_newer = known.stored.get(object as usize) == Some(&true);
            // What was flushed lasts, and so does a removal; the rest is as after a kill.
            assert!(!(known.flushed && is_newer && found == Some(1)), "request {n}: object {object} is old");
            assert!(!(known.removed && object == 3 && found.is_some()), "request {n}: what was removed is back");
        }
        let again = put(&store, 5, 9, 3000);
        assert!(matches!(again, Commit::Stored { .. }) && get(&store, 5) == Some(9), "request {n}");
        n += 1;
    }
    println!("{requests} requests: stopped {in_use} times in use, {in_opening} times in opening");
    assert!(in_use > 20, "{in_use} of {requests}");
}

/// Writers that wait for room, readers that wait for the disk, a flush: none waits for ever, or this would not end.
fn requests_under_way_are_answered_when_the_engine_stops(engine: EngineRef) {
    hush();
    let (stalls, panics, bytes) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)), blank());
    let (now, then) = (stalls.clone(), panics.clone());
    let failing = disk(&bytes, move |_, _| {
        assert!(!then.load(SeqCst), "{ON_PURPOSE}");
        now.load(SeqCst).then_some(Fault::Stalled)
    });
    let store = open_as(engine, failing.clone()).unwrap();
    (0..40).for_each(|n| drop(put(&store, n, 1, 3000)));
    block_on(store.flush()).unwrap();
    stalls.store(true, SeqCst);
    std::thread::scope(|scope| {
        for n in 0..40 {
            let store = &store;
            scope.spawn(move || get(store, n));
            // Far more than the engine's buffers take.
            scope.spawn(move || put(store, 100 + n, 1, 200_000));
        }
        scope.spawn(|| block_on(store.flush()));
        // Some wait by now; whoever comes later finds it stopped.
        std::thread::sleep(Duration::from_millis(50));
        panics.store(true, SeqCst);
        while !is_stopped(&store) {
            // A probe of the index asks no disk: something new does.
            let _ = put(&store, 999, 1, 10);
            let _ = get(&store, 0);
            failing.release();
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    assert!(block_on(store.close()).is_err());
}

/// Of two disks the one whose engine stopped is lost, and the other serves and takes what is its own.
fn the_other_disk_goes_on(engine: EngineRef) {
    hush();
    let (panics, media) = (Arc::new(AtomicBool::new(false)), [blank(), blank()]);
    let now = panics.clone();
    let failing = disk(&media[0], move |_, _| {
        assert!(!now.load(SeqCst), "{ON_PURPOSE}");
        None
    });
    let plan = plan_as(engine, failing.geometry().bytes);
    let engines = vec![plan.open(Opening::of(failing)).unwrap(), plan.open(Opening::of(sound(&media[1]))).unwrap()];
    let spread = Arc::new(Spread::over(engines).unwrap());
    let store = Cache::over(spread, Secret::from_bytes([7; 32]), 0).unwrap();
    (0..200).for_each(|n| drop(put(&store, n, 1, 3000)));
    block_on(store.flush()).unwrap();
    let before: Vec<_> = (0..200).filter(|&n| get(&store, n).is_some()).collect();
    panics.store(true, SeqCst);
    while !is_stopped(&store) {
        (200..240).for_each(|n| drop(put(&store, n, 1, 30_000)));
        let _ = block_on(store.flush());
    }
    let after = before.iter().filter(|&&n| get(&store, n) == Some(1)).count();
    assert!((60..140).contains(&after), "of {} objects on two disks {after} are found", before.len());
    let stored = (300..400).filter(|&n| matches!(put(&store, n, 1, 3000), Commit::Stored { .. })).count();
    assert!((30..70).contains(&stored), "{stored} of 100 are on the other disk");
    assert!(has_table(engine) || (300..400).filter(|&n| get(&store, n) == Some(1)).count() == stored);
}
