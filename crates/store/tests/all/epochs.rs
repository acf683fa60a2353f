//! Epochs of saved indexes: what was forgotten before one began does not come back, where the index that the store was opened by belongs to it.

use std::sync::Arc;

use tinaja_store::device::wrap::{Fault, Faulty};
use tinaja_store::device::{Counters, Device, Geometry, Medium, Memory, Op, Request};
use tinaja_store::engine::registry::Opening;
use tinaja_store::engine::spread::Spread;
use tinaja_store::{Cache, Clock, Commit, Cursor, EngineRef, Judge, Secret, Store, block_on, engines};

use crate::support::{DISK_BYTES, blank, disk, get, is_write, key, open_as, plan_as, put, sound, wait_until};

const OBJECTS: u64 = 24;
const ROUNDS: u64 = 5;
const WITH_EPOCHS: [EngineRef; 3] = [engines::HASHCACHE_LOG, engines::HASHCACHE_LOGN, engines::GENERATIONAL];

/// What had been forgotten when an epoch began: objects, and up to which version.
struct Epoch {
    number: u64,
    gone: Vec<(u64, u64)>,
}

/// Forgets what `goes` names. Whether nothing was left out.
fn forget(store: &Cache, goes: impl Fn(u64) -> bool + Send + Sync + 'static) -> bool {
    let judge: Judge = Arc::new(move |name, _| goes(u64::from_le_bytes(name.try_into().unwrap())));
    let mut from = Some(Cursor::default());
    while let Some(at) = from {
        match block_on(store.sweep(at, 8, judge.clone())) {
            Ok(swept) if swept.is_complete => from = swept.next,
            _ => return false,
        }
    }
    true
}

/// A disk that outlives the stores over it.
struct Lasting(Arc<Faulty>);

impl Device for Lasting {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn clock(&self) -> &Clock {
        self.0.clock()
    }

    fn submit(&self, op: Op) {
        self.0.submit(op);
    }

    fn counters(&self) -> Counters {
        self.0.counters()
    }

    fn stop(&self) {}
}

/// Versions are stored, some objects forgotten, an epoch begun behind that, newer versions stored, and it is closed. Several times.
fn script(engine: EngineRef, disk: &Arc<Faulty>) -> Vec<Epoch> {
    let mut epochs = Vec::new();
    for round in 0..ROUNDS {
        let Ok(store) = open_as(engine, Arc::new(Lasting(disk.clone()))) else { return epochs };
        for n in 0..OBJECTS {
            let size = if n == 5 { 70_000 } else { (n * 977 + round * 331) % 9000 };
            let _ = put(&store, n, 2 * round + 1, size as usize);
        }
        if round % 3 == 1 {
            let _ = block_on(store.flush());
        }
        let of_round = move |n: u64| (n + round).is_multiple_of(3);
        if forget(&store, of_round)
            && let Some(number) = store.begin_epoch(0)
        {
            let gone = (0..OBJECTS).filter(|n| of_round(*n)).map(|n| (n, 2 * round + 1)).collect();
            epochs.push(Epoch { number, gone });
        }
        for n in (0..OBJECTS).filter(|n| (n + round).is_multiple_of(6)) {
            let _ = put(&store, n, 2 * round + 2, 1000);
        }
        let _ = block_on(store.close());
    }
    epochs
}

/// How many forgotten versions did not come back, of epochs that the opening tells; and how many did, of later ones.
fn look(engine: EngineRef, medium: &Medium, epochs: &[Epoch], why: &dyn Fn() -> String) -> (usize, usize) {
    let store = open_as(engine, sound(medium)).unwrap_or_else(|error| panic!("{}: it does not open: {error}", why()));
    let opened = store.saved_epoch();
    let (mut stayed_away, mut came_back) = (0, 0);
    for Epoch { number, gone } in epochs {
        for (n, version) in gone {
            let is_back = get(&store, *n).is_some_and(|found| found <= *version);
            assert!(
                !is_back || *number > opened,
                "{}: object {n} is back, forgotten before {number} of {opened}",
                why()
            );
            stayed_away += usize::from(*number <= opened);
            came_back += usize::from(is_back);
        }
    }
    (stayed_away, came_back)
}

/// The power goes at any request, and whatever of the writes on their way is lost.
fn a_power_cut_brings_back_nothing_of_an_epoch_that_is_told(engine: EngineRef) {
    let (mut call, mut stayed_away, mut came_back) = (0, 0, 0);
    loop {
        let medium = blank();
        let plan = move |now, _: &Request| (now >= call).then_some(Fault::Error);
        let failing = Arc::new(Faulty::volatile(Arc::new(Memory::over(&medium)), plan));
        let epochs = script(engine, &failing);
        let held = failing.held_writes();
        let mut count = |what: &str, which: usize, survives: &dyn Fn(usize, usize) -> bool| {
            let why = || format!("{}, power cut at request {call}, {what} {which} of {}", engine.name, held.len());
            let (away, back) = look(engine, &medium.after(&held, survives), &epochs, &why);
            stayed_away += away;
            came_back += back;
        };
        count("all but none", 0, &|_, _| true);
        count("none", 0, &|_, _| false);
        for one in 0..held.len() {
            count("all but", one, &|n, _| n != one);
            count("none but", one, &|n, _| n == one);
            count("half of", one, &|n, block| n < one || n == one && block % 2 == 0);
        }
        if failing.calls() < call {
            break;
        }
        call += 1;
    }
    println!("{}: {call} cuts, {stayed_away} stayed away, {came_back} came back", engine.name);
    assert!(stayed_away > 500 && came_back > 20, "{stayed_away} {came_back}");
}

#[test]
fn a_power_cut_brings_back_nothing_hashcache_log() {
    a_power_cut_brings_back_nothing_of_an_epoch_that_is_told(engines::HASHCACHE_LOG);
}

#[test]
fn a_power_cut_brings_back_nothing_generational() {
    a_power_cut_brings_back_nothing_of_an_epoch_that_is_told(engines::GENERATIONAL);
}

/// A cache with an epoch in its saved index, and its number.
fn saved(engine: EngineRef) -> (Medium, u64) {
    let medium = blank();
    let store = open_as(engine, sound(&medium)).unwrap();
    (0..OBJECTS).for_each(|n| assert!(matches!(put(&store, n, 1, 3000), Commit::Stored { .. })));
    assert!(forget(&store, |n| n < 10));
    assert_eq!(store.saved_epoch(), 0);
    let epoch = store.begin_epoch(1 << 40).unwrap();
    assert!(
        epoch > 1 << 40 && store.begin_epoch(0) == Some(epoch + 1),
        "behind what was asked for, and behind each other"
    );
    block_on(store.close()).unwrap();
    (medium, epoch + 1)
}

/// Where the headers of snapshots are that tell of an epoch.
fn headers(medium: &Medium, epoch: u64) -> Vec<usize> {
    let bytes = medium.bytes();
    let at = bytes.windows(8).enumerate().filter(|(_, eight)| **eight == epoch.to_le_bytes()).map(|(at, _)| at);
    let at: Vec<_> = at.filter(|at| at % 4096 == 32 && bytes[at - 32..][..4] == *b"TjI0").collect();
    assert!(!at.is_empty(), "no header tells of epoch {epoch}");
    at
}

/// Each bit of an epoch and of its checksum: the snapshot is as good as before, and tells of no epoch.
#[test]
fn a_damaged_epoch_is_none() {
    for engine in WITH_EPOCHS {
        let (medium, epoch) = saved(engine);
        let opened = |medium: &Medium| open_as(engine, sound(medium)).unwrap();
        assert_eq!(opened(&medium.copy()).saved_epoch(), epoch);
        let header = *headers(&medium, epoch).last().unwrap();
        for bit in header * 8..(header + 16) * 8 {
            let flipped = crate::support::bits::flipped(&medium, Some(bit));
            let store = opened(&flipped);
            assert_eq!(store.saved_epoch(), 0, "{} bit {bit}", engine.name);
            assert_eq!((get(&store, 3), get(&store, 20)), (None, Some(1)), "the snapshot itself is sound");
        }
        // A release that knows of none leaves zeroes there.
        medium.with(|bytes| bytes[header..][..16].fill(0));
        assert_eq!(opened(&medium).saved_epoch(), 0);
    }
}

/// Where snapshots are damaged the log says what there is, and what was forgotten may be back: no epoch is told.
#[test]
fn without_a_snapshot_there_is_no_epoch() {
    for engine in WITH_EPOCHS {
        let (medium, epoch) = saved(engine);
        for header in headers(&medium, epoch) {
            medium.with(|bytes| bytes[header - 32 + 9] ^= 1);
        }
        let store = open_as(engine, sound(&medium)).unwrap();
        assert_eq!(store.saved_epoch(), 0, "{}", engine.name);
        // And what is saved from now on is not of the epoch that was lost.
        block_on(store.close()).unwrap();
        assert_eq!(open_as(engine, sound(&medium)).unwrap().saved_epoch(), 0);
    }
}

/// Nobody has to close a cache for it: the first epoch is saved at once, and an opening tells it after a kill.
#[test]
fn an_epoch_is_saved_while_the_cache_is_in_use() {
    for engine in WITH_EPOCHS {
        let medium = blank();
        let store = open_as(engine, sound(&medium)).unwrap();
        (0..OBJECTS).for_each(|n| drop(put(&store, n, 1, 3000)));
        assert!(forget(&store, |n| n < 10));
        let epoch = store.begin_epoch(0).unwrap();
        wait_until("the epoch is saved", || store.saved_epoch() == epoch);
        let killed = open_as(engine, sound(&medium.copy())).unwrap();
        assert_eq!(killed.saved_epoch(), epoch, "{}", engine.name);
        assert_eq!((get(&killed, 3), get(&killed, 20)), (None, Some(1)));
    }
}

/// Over two disks an epoch is that of the older index. One that is away may come back with what is older yet, so nothing is known then.
#[test]
fn of_two_disks_the_older_one_counts() {
    for engine in WITH_EPOCHS {
        let plan = plan_as(engine, DISK_BYTES as u64);
        let media = [blank(), blank()];
        let over = |disks: [Option<Arc<dyn Device>>; 2]| {
            let opened = disks.map(|disk| disk.map(|disk| plan.open(Opening::of(disk)).unwrap()));
            Cache::over(Arc::new(Spread::with_gaps(opened.into()).unwrap()), Secret::from_bytes([7; 32]), 0).unwrap()
        };
        let there = |medium: &Medium| Some(sound(medium) as Arc<dyn Device>);
        let both = || over([there(&media[0]), there(&media[1])]);
        let store = both();
        (0..OBJECTS).for_each(|n| drop(put(&store, n, 1, 3000)));
        let epoch = store.begin_epoch(1 << 40).unwrap();
        block_on(store.close()).unwrap();
        assert_eq!(both().saved_epoch(), epoch);
        let alone = over([there(&media[0]), None]);
        assert_eq!((alone.saved_epoch(), alone.begin_epoch(epoch)), (0, None), "{}", engine.name);
        block_on(alone.close()).unwrap();
        let store = both();
        assert_eq!(store.saved_epoch(), epoch);
        let later = store.begin_epoch(0).unwrap();
        assert_eq!(later, epoch + 1, "none had begun on the disk that was there alone");
        block_on(store.close()).unwrap();
        assert_eq!(both().saved_epoch(), later);
        // A new disk in the place of one has nothing, and says nothing.
        assert_eq!(over([there(&media[0]), there(&blank())]).saved_epoch(), 0);
    }
}

/// A region of which a write failed was not seen by a sweep, which said that it was complete: after a restart all of its objects were back, and
/// an epoch had begun that said otherwise.
#[test]
fn no_epoch_begins_while_something_is_not_found() {
    for engine in WITH_EPOCHS {
        let medium = blank();
        let fails = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let now = fails.clone();
        let plan = move |_, request: &Request| {
            (is_write(request) && now.load(std::sync::atomic::Ordering::SeqCst)).then_some(Fault::Error)
        };
        let store = open_as(engine, disk(&medium, plan)).unwrap();
        (0..20).for_each(|n| drop(put(&store, n, 1, 3000)));
        block_on(store.flush()).unwrap();
        fails.store(true, std::sync::atomic::Ordering::SeqCst);
        let _ = put(&store, 100, 1, 3000);
        assert!(block_on(store.flush()).is_err());
        fails.store(false, std::sync::atomic::Ordering::SeqCst);
        assert!((0..20).any(|n| get(&store, n).is_none()), "{}: a region is given up", engine.name);
        assert!(forget(&store, |_| true));
        assert_eq!(store.begin_epoch(0), None, "{}", engine.name);
        // Once something else lies there one begins.
        let mut n = 1000;
        let epoch = loop {
            let _ = put(&store, n, 1, if n % 2 == 0 { 3000 } else { 9000 });
            if let Some(epoch) = store.begin_epoch(0) {
                break epoch;
            }
            n += 1;
            assert!(n < 5000, "{}: {:?}", engine.name, store.stats());
        };
        block_on(store.close()).unwrap();
        let again = open_as(engine, sound(&medium)).unwrap();
        assert_eq!(again.saved_epoch(), epoch);
        assert!((0..20).all(|n| block_on(again.find(&key(n))).is_none()), "{}", engine.name);
    }
}

/// Engines that save no index know of no epochs.
#[test]
fn others_have_none() {
    for engine in [engines::SEGMENTED, engines::HASHCACHE_SET, engines::DAMELO] {
        let store = open_as(engine, sound(&blank())).unwrap();
        assert_eq!((store.begin_epoch(7), store.saved_epoch()), (None, 0), "{}", engine.name);
    }
}
