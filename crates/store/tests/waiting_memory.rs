//! What waits for a disk that gives nothing holds no more than the limits say, and what was read from it no more than was asked
//! for.
//!
//! In the laboratory's `hashcache-peers` HashCache-Set was ended by the kernel in a group of 128 MiB once 128 requests waited for
//! a disk of 70 reads a second. Most of that were buffers of idle connections, but sets took their part: whoever read an
//! object kept the 64 KiB of its set until the last byte was sent, and writes to sets of which nothing was known read them
//! besides the turns that lookups have, as many at once as there were writes.
//!
//! A program of its own: it has an allocator that counts for the whole process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use parking_lot::Mutex;
use support::*;
use tinaja_store::Clock;
use tinaja_store::device::{Counters, Device, Geometry, Medium, Memory, Op, Request};
use tinaja_store::limits::{MAX_READS, MAX_SETS_LEARNED, MAX_SPARE_BYTES};
use tinaja_store::{Cache, Commit, Hint, Key, Settings, Store, block_on, engines};

/// Bytes on the heap. Buffers of 64 KiB and more have pages of their own and are not among them: those the disk counts.
static ON_HEAP: AtomicUsize = AtomicUsize::new(0);
/// Both tests look at one heap.
static ALONE: Mutex<()> = Mutex::new(());

struct Counting;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ON_HEAP.fetch_add(layout.size(), SeqCst);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        ON_HEAP.fetch_sub(layout.size(), SeqCst);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const DISK: usize = 64 << 20;
const OBJECTS: u64 = 500;
const OBJECT_BYTES: usize = 3000;
/// A lookup that waits: its future, its place in the queue, its key. A write: its body too.
const WAITING_BYTES: usize = 4 << 10;

/// A disk that can be told to keep reads to itself.
struct Holding {
    below: Memory,
    holds: AtomicBool,
    held: Mutex<Vec<Op>>,
}

impl Holding {
    fn new(medium: &Medium) -> Arc<Self> {
        Arc::new(Holding { below: Memory::over(medium), holds: AtomicBool::new(false), held: Mutex::default() })
    }

    /// How many reads it holds, and the bytes of their buffers.
    fn holds(&self) -> (usize, usize) {
        let held = self.held.lock();
        (held.len(), held.iter().filter_map(|op| op.request.extent()).map(|(_, bytes)| bytes as usize).sum())
    }

    fn go_on(&self) {
        self.holds.store(false, SeqCst);
        let held = mem::take(&mut *self.held.lock());
        held.into_iter().for_each(|op| self.below.submit(op));
    }
}

impl Device for Holding {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn clock(&self) -> &Clock {
        self.below.clock()
    }
    fn submit(&self, op: Op) {
        match matches!(op.request, Request::Read { .. }) && self.holds.load(SeqCst) {
            true => self.held.lock().push(op),
            false => self.below.submit(op),
        }
    }
    fn counters(&self) -> Counters {
        self.below.counters()
    }
    fn stop(&self) {
        self.below.stop();
    }
}

/// HashCache-Set with bins of so many bytes and eight ways, on a disk that has objects and of which nothing is known.
fn reopened(bin_bytes: u64) -> (Cache, Arc<Holding>) {
    let medium = Medium::zeroed(DISK);
    let bins = Settings::new().with(&engines::BIN_SIZE, bin_bytes).with(&engines::WAYS, 8);
    let plan = plan_with(engines::HASHCACHE_SET, &bins, DISK as u64);
    let store = open_planned(&*plan, sound(&medium)).unwrap();
    (0..OBJECTS).for_each(|n| assert!(matches!(put(&store, n, 1, OBJECT_BYTES), Commit::Stored { .. })));
    block_on(store.close()).unwrap();
    drop(store);
    let disk = Holding::new(&medium);
    (open_planned(&*plan, disk.clone()).unwrap(), disk)
}

#[test]
fn what_waits_for_a_disk_that_gives_nothing_is_bounded() {
    let _alone = ALONE.lock();
    let (store, disk) = reopened(8 << 10);
    disk.holds.store(true, SeqCst);
    let before = ON_HEAP.load(SeqCst);
    let mut lookups: Vec<_> = (0..300).map(|n| store.find(&key(n))).collect();
    assert!(lookups.iter_mut().all(|lookup| poll(lookup).is_pending()));
    assert_eq!(disk.holds(), (MAX_READS, MAX_READS * (64 << 10)), "one set each, by turns");

    let new = |n: u64| Key::from_name(format!("new {n}").as_bytes());
    let mut writes: Vec<_> = (0..200)
        .map(|n| {
            let mut writer = store.put(&new(n), "head".into(), Hint::default());
            block_on(writer.write(vec![7; OBJECT_BYTES].into()));
            Box::pin(writer.commit())
        })
        .collect();
    assert!(writes.iter_mut().all(|write| poll(write).is_pending()));
    let reads = MAX_READS + MAX_SETS_LEARNED;
    assert_eq!(disk.holds(), (reads, reads * (64 << 10)), "as many sets more as are read at once for writes");
    let heap = ON_HEAP.load(SeqCst).saturating_sub(before);
    println!("{reads} reads with {} bytes, {heap} bytes beside for 300 lookups and 200 writes", reads * (64 << 10));
    assert!(heap <= 300 * WAITING_BYTES + 200 * (WAITING_BYTES + OBJECT_BYTES), "{heap} bytes");

    disk.go_on();
    let found = lookups.into_iter().filter_map(block_on).count();
    let stored = writes.into_iter().map(block_on).filter(|commit| matches!(commit, Commit::Stored { .. }));
    assert_eq!((found >= 290, stored.count()), (true, 200), "{found} of 300 found: a full set has lost some");
}

#[test]
fn who_reads_an_object_slowly_does_not_hold_its_set() {
    let _alone = ALONE.lock();
    // Sets of 32 KiB, which lie on the heap.
    let (store, _disk) = reopened(4 << 10);
    let before = ON_HEAP.load(SeqCst);
    let hits: Vec<_> = (0..OBJECTS).filter_map(|n| block_on(store.find(&key(n)))).collect();
    let heap = ON_HEAP.load(SeqCst).saturating_sub(before);
    println!("{} objects of {OBJECT_BYTES} bytes held: {heap} bytes", hits.len());
    assert!(hits.len() >= 450);
    assert!(heap <= MAX_SPARE_BYTES + hits.len() * (OBJECT_BYTES + 1000), "{heap} bytes for {} objects", hits.len());
}
