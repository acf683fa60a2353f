//! A store over two disks, one of which fails: it takes its own objects with it and nothing else.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::sleep;
use std::time::Duration;

use support::{DISK_BYTES, blank, disk, get, key, plan, put, sound};
use tinaja_store::device::Device;
use tinaja_store::device::wrap::Fault;
use tinaja_store::engine::Engine;
use tinaja_store::engine::hashcache::{HashCacheLog, HashCacheLogOptions};
use tinaja_store::engine::spread::Spread;
use tinaja_store::{Cache, Commit, Secret, Store, StoreError, block_on};

fn engine(device: Arc<dyn Device>) -> Arc<dyn Engine> {
    Arc::new(HashCacheLog::open(device, &plan(DISK_BYTES as u64)).unwrap())
}

#[test]
fn one_failing_disk_is_retired_alone() {
    let broken = Arc::new(AtomicBool::new(false));
    let now = broken.clone();
    let bad = disk(&blank(), move |_, _| now.load(SeqCst).then_some(Fault::Error));
    let spread = Spread::over(vec![engine(sound(&blank())), engine(bad)]).unwrap();
    let store = Cache::over(Arc::new(spread), Secret::from_bytes([7; 32]), 0).unwrap();
    (0..600).for_each(|n| assert!(matches!(put(&store, n, 1, 3000), Commit::Stored { .. })));
    block_on(store.flush()).unwrap();
    let all = (0..600).filter(|&n| get(&store, n) == Some(1)).count();
    assert!(all > 580, "{all}");

    broken.store(true, SeqCst);
    let mut refused = 0;
    for n in 1000..4000 {
        refused += u64::from(matches!(put(&store, n, 1, 3000), Commit::NotStored(_)));
    }
    assert!((1000..2000).contains(&refused), "half of them belong to the dead disk: {refused} of 3000 refused");
    let left = (0..600).chain(1000..4000).filter(|&n| get(&store, n).is_some()).count();
    assert!(left > 1500, "the other disk's objects are all there: {left}");
    assert!(matches!(block_on(store.flush()), Err(StoreError::Device(_))), "the loss is told");
    (5000..5100).for_each(|n| drop(put(&store, n, 1, 3000)));
    assert_eq!(block_on(store.flush()), Ok(()), "and then what can be stored can be flushed");
    let kept = (5000..5100).filter(|&n| get(&store, n) == Some(1)).count();
    assert!((25..75).contains(&kept), "{kept}");
    let (gone, failed): (Vec<_>, Vec<_>) = (0..40).map(|n| block_on(store.remove(&key(n)))).partition(Result::is_ok);
    assert!(!gone.is_empty() && !failed.is_empty(), "removals on the good disk last, on the dead one they say so");
    (0..40).for_each(|n| assert_eq!(get(&store, n), None));
}

/// What the clock flushes survives a power cut; and a flush that failed by the clock is told to who asks next.
#[test]
fn the_clock_flushes_and_hides_no_failure() {
    let broken = Arc::new(AtomicBool::new(false));
    let (now, medium) = (broken.clone(), blank());
    let bad = disk(&medium, move |_, request| {
        (now.load(SeqCst) && matches!(request, tinaja_store::device::Request::Sync)).then_some(Fault::Error)
    });
    let options = HashCacheLogOptions { flush_every: Some(Duration::from_millis(100)), ..plan(DISK_BYTES as u64) };
    let engine = HashCacheLog::open(bad.clone(), &options).unwrap();
    let store = Cache::over(Arc::new(engine), Secret::from_bytes([7; 32]), 0).unwrap();
    let _ = put(&store, 1, 1, 3000);
    let before = bad.calls();
    sleep(Duration::from_millis(500));
    assert!(bad.calls() > before, "a write and a sync, by themselves");
    let idle = bad.calls();
    sleep(Duration::from_millis(300));
    assert_eq!(bad.calls(), idle, "nothing new, nothing to sync");
    assert_eq!(get(&store, 1), Some(1));

    broken.store(true, SeqCst);
    let _ = put(&store, 2, 1, 3000);
    sleep(Duration::from_millis(500));
    broken.store(false, SeqCst);
    assert!(matches!(block_on(store.flush()), Err(StoreError::Device(_))), "nobody was told so far");
    assert_eq!(block_on(store.flush()), Ok(()));
    assert_eq!(get(&store, 2), None, "after a failed flush its region is not trusted");
}
