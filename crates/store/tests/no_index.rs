//! A policy without an index takes no memory that grows with the disk, whatever it calls it: all that the process has
//! allocated is counted, so this test is a program of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::time::Duration;

use tinaja_store::{Cache, CacheOptions, EngineRef, Key, Store, block_on, engines};

struct Counting;

static BYTES: AtomicI64 = AtomicI64::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size() as i64, SeqCst);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size() as i64, SeqCst);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// What is allocated once nothing changes any more: threads begin with something, and those of the cache before end late.
fn settled() -> i64 {
    for _ in 0..100 {
        let bytes = BYTES.load(SeqCst);
        std::thread::sleep(Duration::from_millis(300));
        if BYTES.load(SeqCst) == bytes {
            return bytes;
        }
    }
    panic!("the memory that is allocated goes on changing");
}

/// What an open, empty cache of so many MiB holds, and what its engine says that the index takes.
fn held(engine: EngineRef, mebibytes: u64) -> (i64, u64) {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let options = CacheOptions::new(dir.path()).engine(engine).disk_bytes(mebibytes << 20).memory_bytes(0);
    let before = settled();
    let cache = Cache::open(options).unwrap();
    assert!(block_on(cache.find(&Key::from_name(b"nothing"))).is_none());
    (settled() - before, cache.stats().index_bytes)
}

/// What two caches may differ by for other reasons, in bytes.
const SLACK: i64 = 16 << 10;

#[test]
fn without_an_index_a_larger_disk_takes_no_more_memory() {
    for engine in [engines::HASHCACHE_BASIC, engines::HASHCACHE_SET] {
        let [small, large] = [256, 4096].map(|mebibytes| held(engine, mebibytes));
        println!("{engine}: {} bytes with 256 MiB of disk, {} with 4 GiB", small.0, large.0);
        assert_eq!((small.1, large.1), (0, 0));
        assert!(large.0 < small.0 + SLACK, "{engine}");
    }
    let [small, large] = [256, 4096].map(|mebibytes| held(engines::HASHCACHE_SETMEM, mebibytes));
    println!("hashcache-setmem: {} bytes with 256 MiB of disk, {} with 4 GiB", small.0, large.0);
    let grown = (large.1 - small.1) as i64;
    assert!(grown > 400 << 10 && large.0 - small.0 + SLACK >= grown, "and an index is seen by this");
}
