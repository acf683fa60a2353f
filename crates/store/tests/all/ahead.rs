//! Related objects are written together and read together (HashCache, sections 3.5 and 4.3): counted at the device.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tinaja_store::contract::bytes_of;
use tinaja_store::device::{Counters, Device, Geometry, Medium, Memory, Op};
use tinaja_store::engine::registry::Cut;
use tinaja_store::limits::GROUP_QUIET;
use tinaja_store::{
    Cache, Clock, Commit, EngineRef, Hint, ManualClock, Settings, Source, Store, Updated, block_on, engines,
};

use crate::support::{self, get, has_table, key, open_planned, plan_with, sound, wait_until};

const PAGES: u64 = 40;
/// Objects of a page.
const RELATED: u64 = 8;
const DISK_BYTES: u64 = 32 << 20;

/// The engines that prefetch.
fn with() -> impl Iterator<Item = EngineRef> {
    let all: Vec<_> = engines::built_in().iter().filter(|engine| engine.has(&engines::PREFETCH)).collect();
    assert_eq!(all.len(), 6);
    all.into_iter()
}

fn planned(engine: EngineRef, prefetch: bool) -> Box<dyn Cut> {
    let settings = Settings::new().with(&engines::PREFETCH, prefetch.into());
    // All positions in memory, so that none has to be looked up on the disk.
    let settings = settings.with(&engines::POSITIONS_IN_MEMORY, 8);
    plan_with(engine, &settings, DISK_BYTES)
}

/// A clock that stands still: a pause of half a second between two objects of a group, on a machine with much to do, would be
/// taken for its end.
static STILL: LazyLock<ManualClock> = LazyLock::new(ManualClock::new);

fn opened(engine: EngineRef, prefetch: bool, medium: &Medium) -> (Cache, Arc<Memory>) {
    opened_by(&STILL, engine, prefetch, medium)
}

fn opened_by(hand: &ManualClock, engine: EngineRef, prefetch: bool, medium: &Medium) -> (Cache, Arc<Memory>) {
    let disk = Arc::new(Memory::by(hand.clock(), medium));
    (open_planned(&*planned(engine, prefetch), disk.clone()).unwrap(), disk)
}

fn put(store: &Cache, n: u64, version: u64, size: usize, group: u64) {
    let hint = Hint { expected_bytes: Some(size as u64), group: Some(group), ..Hint::default() };
    let mut writer = store.put(&key(n), Bytes::from(version.to_string()), hint);
    block_on(writer.write(bytes_of(n * 1000 + version, size)));
    assert!(matches!(block_on(writer.commit()), Commit::Stored { .. }));
}

fn size(n: u64) -> usize {
    4500 + (n * 331 % 1500) as usize
}

/// Pages of several clients that come at once, object by object, and are asked for page by page after a restart: the
/// requests of all hits, and the objects found.
fn pages(engine: EngineRef, prefetch: bool) -> (f64, tinaja_store::Stats) {
    let medium = Medium::zeroed(DISK_BYTES as usize);
    let (store, _) = opened(engine, prefetch, &medium);
    // A bin holds up to 4 KiB of each: the log is to hold as much where there is one.
    let size = |n: u64| size(n) + if has_table(engine) { 4096 } else { 0 };
    for some in 0..PAGES / 8 {
        for object in 0..RELATED {
            (some * 8..some * 8 + 8).for_each(|page| put(&store, page * RELATED + object, 1, size(page), page));
        }
    }
    drop(store);
    let (store, disk) = opened(engine, prefetch, &medium);
    let before = disk.counters().reads;
    let mut hits = 0.0;
    for page in (0..PAGES).map(|page| page * 7 % PAGES) {
        for object in 0..RELATED {
            hits += f64::from(u8::from(get(&store, page * RELATED + object) == Some(1)));
        }
    }
    let reads = (disk.counters().reads - before) as f64;
    let stats = store.stats();
    let all = (PAGES * RELATED) as f64;
    assert!(hits > all * if engine == engines::HASHCACHE_BASIC { 0.9 } else { 0.97 }, "{engine}: {hits} of {all}");
    println!(
        "{engine}, prefetching {prefetch}: {:.3} reads a hit; {} bytes read ahead, {} used, {} wasted",
        reads / hits,
        stats.ahead_bytes,
        stats.ahead_used_bytes,
        stats.ahead_wasted_bytes
    );
    (reads / hits, stats)
}

/// With the log alone a page is one request. With a Disk Table each object is one, for its bin, and the bodies of the page,
/// of which a bin holds the beginning, are one more: 1 + 1/rel, as Table 4 has it.
#[test]
fn a_page_is_read_in_one_request() {
    let rel = RELATED as f64;
    for engine in with() {
        let (with, stats) = pages(engine, true);
        let (without, nothing) = pages(engine, false);
        let is_log = !has_table(engine);
        let (paper, paper_without) = if is_log { (1.0 / rel, 1.0) } else { (1.0 + 1.0 / rel, 2.0) };
        assert!((paper..paper + 0.15).contains(&with), "{engine}: {with}, not {paper}");
        assert!((paper_without - 0.1..paper_without + 0.1).contains(&without), "{engine}: {without}");
        assert!(stats.ahead_used_bytes > stats.ahead_bytes * 9 / 10 && stats.ahead_bytes > 0);
        assert_eq!(nothing.ahead_bytes, 0);
    }
}

/// Until it is written an object is served from memory, in its newest version, and removed, changed and listed like any.
#[test]
fn what_waits_for_its_group_is_there() {
    for engine in with() {
        let medium = Medium::zeroed(DISK_BYTES as usize);
        let (store, _) = opened(engine, true, &medium);
        (0..6).for_each(|n| put(&store, n, 1, 3000, 77));
        assert!(store.stats().gathered_bytes > 18_000);
        assert_eq!(block_on(store.find(&key(1))).unwrap().source, Source::Memory);
        put(&store, 1, 2, 2000, 78);
        assert!(matches!(block_on(store.remove(&key(2))), Ok(tinaja_store::Removed::Gone)));
        let edit = |head: &Bytes| Some(Bytes::from(vec![head[0] + 2]));
        assert_eq!(block_on(store.update_head(&key(3), Box::new(edit))), Ok(Updated::Done));
        assert!(matches!(support::put(&store, 4, 5, 1000), Commit::Stored { .. }));
        let is_there = |store: &Cache| {
            let head = |n| block_on(store.find(&key(n))).map(|hit| hit.head);
            assert_eq!(head(3), Some("3".into()), "{engine}");
            assert_eq!([0, 1, 2, 4, 5].map(|n| get(store, n)), [Some(1), Some(2), None, Some(5), Some(1)], "{engine}");
        };
        is_there(&store);
        let listed = block_on(store.scan(Default::default(), usize::MAX)).unwrap().entries.len();
        assert_eq!((listed, store.stats().gathered_bytes), (5, 0), "a listing has all of it written");
        is_there(&store);
        put(&store, 5, 6, 1000, 77);
        drop(store);
        let (store, _) = opened(engine, true, &medium);
        assert_eq!([1, 2, 5].map(|n| get(&store, n)), [Some(2), None, Some(6)]);
    }
}

/// A group that is quiet goes to the disk by itself, in the order in which its objects came.
///
/// It is looked for on the disk. Once, requests were counted instead: after 1,948 tests that passed, on a machine with much to
/// do, one was too many, since the engine's thread for snapshots writes three when it gets to run on a new disk.
#[test]
fn a_group_does_not_wait_for_ever() {
    let medium = Medium::zeroed(DISK_BYTES as usize);
    let hand = ManualClock::new();
    let (store, _disk) = opened_by(&hand, engines::HASHCACHE_LOG, true, &medium);
    let body = bytes_of(1001, 3000);
    let is_on_disk = || medium.with(|bytes| bytes.windows(64).any(|window| *window == body[..64]));
    put(&store, 1, 1, 3000, 5);
    hand.advance(GROUP_QUIET - Duration::from_millis(1));
    assert!(store.stats().gathered_bytes > 3000 && !is_on_disk());
    wait_until("it is written", || {
        hand.advance(Duration::from_millis(10));
        store.stats().gathered_bytes == 0 && is_on_disk()
    });
    assert_eq!(get(&store, 1), Some(1));
}

/// What was read along is verified when it is asked for, and must be what the index names then.
#[test]
fn neighbours_are_verified_and_current() {
    for engine in [engines::HASHCACHE_LOG, engines::HASHCACHE_LOGLRU] {
        let medium = Medium::zeroed(DISK_BYTES as usize);
        let (store, _) = opened(engine, true, &medium);
        (0..RELATED).for_each(|n| put(&store, n, 1, 4000, 9));
        drop(store);
        // A bit in the middle of the third body.
        let body = bytes_of(2 * 1000 + 1, 4000);
        let at = medium.with(|bytes| bytes.windows(64).position(|window| window == &body[2000..2064]).unwrap());
        medium.with(|bytes| bytes[at] ^= 4);
        let (store, disk) = opened(engine, true, &medium);
        assert_eq!(get(&store, 0), Some(1));
        let reads = disk.counters().reads;
        // Both were read along, and are not what they were.
        put(&store, 3, 2, 1000, 9);
        assert!(block_on(store.remove(&key(4))).is_ok());
        assert_eq!([3, 4, 5, 6].map(|n| get(&store, n)), [Some(2), None, Some(1), Some(1)]);
        assert_eq!(disk.counters().reads, reads, "{engine}: all from memory");
        assert_eq!(get(&store, 2), None, "{engine}: damaged");
        assert!(store.stats().corrupt > 0 && disk.counters().reads > reads, "the disk itself was asked");
        assert_eq!(get(&store, 7), Some(1));
    }
}

/// A bad sector in what is read along takes nothing with it.
#[test]
fn a_neighbour_that_cannot_be_read_is_no_loss_to_others() {
    use tinaja_store::device::wrap::Fault;
    let medium = Medium::zeroed(DISK_BYTES as usize);
    let (store, _) = opened(engines::HASHCACHE_LOG, true, &medium);
    (0..RELATED).for_each(|n| put(&store, n, 1, 30_000, 9));
    drop(store);
    let body = bytes_of(5 * 1000 + 1, 30_000);
    let bad = medium.with(|bytes| bytes.windows(64).position(|window| window == &body[20_000..20_064]).unwrap()) as u64;
    let covers = move |at: u64, bytes: usize| at <= bad && bad < at + bytes as u64;
    let disk = support::disk(&medium, move |_, request| match request {
        tinaja_store::device::Request::Read { at, into } if covers(*at, into.len()) => Some(Fault::Error),
        _ => None,
    });
    let store = open_planned(&*planned(engines::HASHCACHE_LOG, true), disk).unwrap();
    let found: Vec<_> = (0..RELATED).map(|n| get(&store, n)).collect();
    assert_eq!(found.iter().filter(|found| found.is_some()).count() as u64, RELATED - 1, "{found:?}");
    assert_eq!(found[5], None);
}

/// What waited and could not be written is told by the next flush, once; and whoever stores next is told at once.
#[test]
fn what_waited_and_was_lost_is_told() {
    use tinaja_store::device::wrap::Fault;
    let medium = Medium::zeroed(DISK_BYTES as usize);
    let broken = Arc::new(AtomicBool::new(false));
    let now = broken.clone();
    let plan = move |_, request: &_| (support::is_write(request) && now.load(SeqCst)).then_some(Fault::Error);
    let store = open_planned(&*planned(engines::HASHCACHE_LOG, true), support::disk(&medium, plan)).unwrap();
    put(&store, 1, 1, 3000, 1);
    assert!(block_on(store.flush()).is_ok());
    broken.store(true, SeqCst);
    let refused = |n: u64| matches!(support::put(&store, n, 1, 60_000), Commit::NotStored(_));
    assert!((100..300).filter(|n| refused(*n)).count() > 100, "the disk is given up");
    put(&store, 2, 1, 3000, 1);
    assert!(block_on(store.flush()).is_err());
    assert_eq!(get(&store, 2), None);
    let hint = Hint { group: Some(1), ..Hint::default() };
    assert!(matches!(block_on(store.put(&key(3), Bytes::new(), hint).commit()), Commit::NotStored(_)));
    assert!(block_on(store.flush()).is_ok(), "told once");
}

/// Several clients that ask for one page at once wait for one request.
#[test]
fn who_asks_for_what_is_being_read_waits_for_it() {
    let medium = Medium::zeroed(DISK_BYTES as usize);
    let (store, _) = opened(engines::HASHCACHE_LOG, true, &medium);
    (0..RELATED).for_each(|n| put(&store, n, 1, 4000, 9));
    drop(store);
    let disk = Arc::new(HoldsReads { below: sound(&medium), holds: AtomicBool::new(false), held: Mutex::default() });
    let store = open_planned(&*planned(engines::HASHCACHE_LOG, true), disk.clone()).unwrap();
    let before = disk.counters().reads;
    disk.holds.store(true, SeqCst);
    let mut finds: Vec<_> = (0..RELATED).map(|n| store.find(&key(n))).collect();
    assert!(finds.iter_mut().all(|find| support::poll(find).is_pending()));
    disk.holds.store(false, SeqCst);
    let held = std::mem::take(&mut *disk.held.lock());
    held.into_iter().for_each(|op| disk.below.submit(op));
    let found = finds.into_iter().filter_map(block_on).count() as u64;
    assert_eq!((found, disk.counters().reads - before), (RELATED, 1));
}

/// A disk that keeps reads until it is told otherwise.
struct HoldsReads {
    below: Arc<Memory>,
    holds: AtomicBool,
    held: Mutex<Vec<Op>>,
}

impl Device for HoldsReads {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn clock(&self) -> &Clock {
        self.below.clock()
    }

    fn submit(&self, op: Op) {
        if support::is_read(&op.request) && self.holds.load(SeqCst) {
            self.held.lock().push(op);
        } else {
            self.below.submit(op);
        }
    }

    fn counters(&self) -> Counters {
        self.below.counters()
    }

    fn stop(&self) {
        self.below.stop();
    }
}

/// Who knows that a group is over says so, and it lies together at once; other groups still wait.
#[test]
fn a_group_that_is_over_is_written() {
    let (store, disk) = opened(engines::HASHCACHE_LOG, true, &Medium::zeroed(DISK_BYTES as usize));
    for n in 0..4 {
        put(&store, n, 1, 3000, 7);
        put(&store, 100 + n, 1, 3000, 8);
    }
    let both = store.stats().gathered_bytes;
    block_on(store.end_group(7));
    block_on(store.end_group(9));
    assert_eq!(store.stats().gathered_bytes, both / 2);
    block_on(store.flush()).unwrap();
    let before = disk.counters().reads;
    assert!((0..4).all(|n| get(&store, n) == Some(1)));
    assert_eq!(disk.counters().reads - before, 1);
    assert!((100..104).all(|n| get(&store, n) == Some(1)));
}
