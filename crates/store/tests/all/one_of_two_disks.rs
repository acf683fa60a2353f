//! A disk that fails is retired alone, whatever the engine: what belongs to the other is found, stored, flushed and removed
//! as if nothing had happened, and what belongs to it is a miss or an error, never a wrong byte.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use tinaja_store::device::wrap::Fault;
use tinaja_store::device::{Device, Request};
use tinaja_store::engine::Engine;
use tinaja_store::engine::registry::Opening;
use tinaja_store::engine::spread::Spread;
use tinaja_store::limits::MAX_WRITE_FAILURES;
use tinaja_store::{Cache, Commit, EngineRef, Secret, Store, StoreError, WhyNot, block_on, engines};

use crate::support::{DISK_BYTES, blank, disk, get, is_read, is_sync, is_write, key, plan_as, put, sound};

for_every_engine!(
    a_disk_that_fails_altogether_is_retired_alone,
    a_disk_that_takes_no_write_is_read_on,
    a_disk_that_never_syncs_is_retired_alone,
);

/// A cache over a sound disk and one that fails at requests of a kind, once it is told to.
struct Pair {
    store: Cache,
    spread: Arc<dyn Engine>,
    broken: Arc<AtomicBool>,
}

impl Pair {
    fn of(engine: EngineRef, fails: fn(&Request) -> bool) -> Pair {
        let broken = Arc::new(AtomicBool::new(false));
        let now = broken.clone();
        let bad = disk(&blank(), move |_, request| (now.load(SeqCst) && fails(request)).then_some(Fault::Error));
        let plan = plan_as(engine, DISK_BYTES as u64);
        let opened = |device: Arc<dyn Device>| plan.open(Opening::of(device)).unwrap();
        let spread: Arc<dyn Engine> = Arc::new(Spread::over(vec![opened(sound(&blank())), opened(bad)]).unwrap());
        let store = Cache::over(spread.clone(), Secret::from_bytes([7; 32]), 0).unwrap();
        Pair { store, spread, broken }
    }

    /// The disk of an object: 0 is sound, 1 is not.
    fn disk(&self, n: u64) -> usize {
        self.spread.disk_of(&Secret::from_bytes([7; 32]).digest(&key(n)))
    }

    fn on(&self, disk: usize, numbers: impl Iterator<Item = u64>) -> Vec<u64> {
        numbers.filter(|n| self.disk(*n) == disk).collect()
    }

    fn put(&self, n: u64) -> Commit {
        put(&self.store, n, 1, 3000)
    }

    /// Store and flush some objects, and tell which are found.
    fn filled(&self) -> Vec<u64> {
        (0..300).for_each(|n| assert!(matches!(self.put(n), Commit::Stored { .. }), "object {n}"));
        block_on(self.store.flush()).unwrap();
        let found: Vec<_> = (0..300).filter(|&n| get(&self.store, n) == Some(1)).collect();
        assert!(found.len() > 250, "{} of 300", found.len());
        found
    }

    /// What belongs to the sound disk goes on; of the other, writes are refused. Returns how many.
    fn goes_on(&self, numbers: std::ops::Range<u64>) -> usize {
        let mut refused = 0;
        for n in numbers {
            let stored = matches!(self.put(n), Commit::Stored { .. });
            match self.disk(n) {
                0 => assert!(stored && get(&self.store, n) == Some(1), "object {n} of the sound disk"),
                _ => refused += usize::from(!stored),
            }
        }
        refused
    }

    fn assert_retired(&self) {
        let refused = self.goes_on(1000..3000);
        let belong = self.on(1, 1000..3000).len();
        assert!(refused > belong / 2, "{refused} of {belong} refused");
        assert_eq!(self.goes_on(3000..3100), self.on(1, 3000..3100).len(), "nothing more is written to it");
        assert_eq!(self.store.stats().disks_retired, 1);
        // Each loss is told once, and then the rest can be flushed.
        let told = (0..4).take_while(|_| matches!(block_on(self.store.flush()), Err(StoreError::Device(_)))).count();
        assert!(told < 4, "flushes go on failing");
        for n in self.on(0, 3000..3100) {
            block_on(self.store.remove(&key(n))).unwrap();
            assert_eq!(get(&self.store, n), None);
        }
        for n in self.on(1, 0..20) {
            assert!(block_on(self.store.remove(&key(n))).is_err(), "a removal that cannot last says so");
            assert_eq!(get(&self.store, n), None, "and holds");
        }
    }
}

fn a_disk_that_fails_altogether_is_retired_alone(engine: EngineRef) {
    let pair = Pair::of(engine, |_| true);
    let found = pair.filled();
    pair.broken.store(true, SeqCst);
    let left: Vec<_> = found.iter().copied().filter(|&n| get(&pair.store, n) == Some(1)).collect();
    assert!(found.iter().filter(|n| pair.disk(**n) == 0).all(|n| left.contains(n)), "the sound disk's are all there");
    pair.assert_retired();
}

fn a_disk_that_takes_no_write_is_read_on(engine: EngineRef) {
    let pair = Pair::of(engine, |request| is_write(request) || is_sync(request));
    let found = pair.filled();
    pair.broken.store(true, SeqCst);
    pair.assert_retired();
    assert!(pair.on(1, 0..20).iter().all(|&n| get(&pair.store, n).is_none()), "what was removed stays so");
    let read = pair.on(1, 20..300).into_iter().filter(|&n| get(&pair.store, n) == Some(1)).count();
    let before = found.iter().filter(|&&n| n >= 20 && pair.disk(n) == 1).count();
    assert!(read > before / 3, "{read} of the {before} that it held are read on");
}

fn a_disk_that_never_syncs_is_retired_alone(engine: EngineRef) {
    let pair = Pair::of(engine, is_sync);
    pair.filled();
    pair.broken.store(true, SeqCst);
    let mut failed = 0;
    for round in 0..u64::from(MAX_WRITE_FAILURES) {
        for n in 1000 + round * 10..1010 + round * 10 {
            let stored = matches!(pair.put(n), Commit::Stored { .. });
            assert!(stored || pair.disk(n) == 1, "object {n} of the sound disk, after {failed} failures");
        }
        failed += u32::from(block_on(pair.store.flush()).is_err());
    }
    assert!(failed > MAX_WRITE_FAILURES / 2, "each loss is told: {failed}");
    let other = pair.on(1, 5000..5100);
    assert!(other.iter().all(|&n| pair.put(n) == Commit::NotStored(WhyNot::Device)), "it is left alone");
    assert_eq!((pair.store.stats().disks_retired, pair.goes_on(6000..6200)), (1, pair.on(1, 6000..6200).len()));
    assert_eq!(block_on(pair.store.flush()), Ok(()));
}

/// A disk whose reads fail is no reason to write nothing: sectors that cannot be read are written anew, and mended by that.
#[test]
fn a_disk_that_cannot_be_read_costs_its_own_objects_only() {
    for engine in engines::on_devices().iter() {
        let pair = Pair::of(engine, is_read);
        let found = pair.filled();
        pair.broken.store(true, SeqCst);
        for n in found {
            let version = get(&pair.store, n);
            assert!(version == Some(1) || pair.disk(n) == 1, "{engine}: object {n} of the sound disk");
        }
        pair.goes_on(1000..1200);
        assert_eq!(pair.store.stats().disks_retired, 0, "{engine}");
        pair.broken.store(false, SeqCst);
        for n in 2000..2100 {
            assert!(matches!(pair.put(n), Commit::Stored { .. }), "{engine}: object {n}, when it can be read again");
        }
        block_on(pair.store.flush()).unwrap();
    }
}
