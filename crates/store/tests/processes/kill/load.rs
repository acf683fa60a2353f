//! The process that is killed: it looks for every object, then writes, removes and flushes from several threads.

use std::path::Path;
use std::sync::Once;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tinaja_store::contract::bytes_of;
use tinaja_store::{Cache, CacheOptions, Commit, EngineRef, Hint, Key, Settings, Store, block_on, engines};

use super::journal::{Journal, What};
use crate::support::random::Random;

pub const DISK_BYTES: u64 = 64 << 20;
/// Regions of a cache of that size; each opening begins a fresh one.
pub const REGION_BYTES: u64 = 1 << 20;
pub const KEYS: u32 = 1000;
const THREADS: u32 = 4;

/// What the process is told.
pub struct Orders {
    pub engine: EngineRef,
    /// The how manieth process this is, from 1 on. Versions are numbered from its multiple of 2^32 on.
    pub number: u64,
    pub seed: u64,
    /// Close in good order after this time, if it is not killed before.
    pub close_after: Option<Duration>,
    /// Two processes of three have the index on the disk, with little memory for it or none.
    pub index_on_disk: bool,
}

fn key(number: u32) -> Key {
    Key::from_name(format!("http://example.net/{number}").as_bytes())
}

/// Bytes of a version's body: mostly some kilobytes, one in a hundred goes to disk in several parts.
pub fn size(key: u32, version: u64) -> usize {
    let random = Random((u64::from(key) << 40 | version).wrapping_mul(0x9E37_79B9_7F4A_7C15)).below(1 << 31);
    if random.is_multiple_of(100) { 300_000 + random as usize % 500_000 } else { random as usize % 8000 }
}

fn body(key: u32, version: u64) -> Bytes {
    bytes_of(u64::from(key) << 40 | version, size(key, version))
}

/// Run until killed. Prints `ready` when every object was looked for, and `flushed` when a flush was acknowledged.
pub fn run(dir: &Path, orders: &Orders) {
    let journal = Journal::append_to(&dir.join(format!("journal-{}", orders.number)));
    let options = CacheOptions::new(dir.join("cache"))
        .disk_bytes(DISK_BYTES)
        .memory_bytes(if orders.number.is_multiple_of(2) { 4 << 20 } else { 0 })
        .mean_object_bytes(4096)
        .engine(orders.engine);
    let memory = [None, Some(0), Some(4 << 10)][orders.number as usize % 3].filter(|_| orders.index_on_disk);
    let settings = memory.map(|bytes| Settings::new().with(&engines::INDEX_MEMORY, bytes));
    let options = options.when(settings, CacheOptions::settings);
    let cache = Cache::open(options).unwrap();
    for number in 0..KEYS {
        journal.note(What::Found, number, found(&cache, number).unwrap_or(0));
    }
    journal.note(What::LookedForAll, 0, 0);
    println!("ready {}", cache.stats().lap);
    let end = orders.close_after.map(|after| Instant::now() + after);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (cache, journal) = (&cache, &journal);
            scope.spawn(move || work(cache, journal, orders, thread, end));
        }
    });
    block_on(cache.close()).unwrap();
}

/// The version that a lookup finds, every byte compared.
fn found(cache: &Cache, number: u32) -> Option<u64> {
    let mut hit = block_on(cache.find(&key(number)))?;
    let version = std::str::from_utf8(&hit.head).unwrap().parse().unwrap();
    // A body that cannot be read to its end says so; it is never a wrong one.
    let bytes = block_on(hit.body.collect(usize::MAX)).ok()?;
    assert!(bytes == body(number, version), "wrong bytes for version {version} of object {number}");
    Some(version)
}

fn work(cache: &Cache, journal: &Journal, orders: &Orders, thread: u32, end: Option<Instant>) {
    let mut random = Random((orders.seed ^ (orders.number * 64 + u64::from(thread))).wrapping_mul(0x9E37_79B9));
    let mut version = orders.number << 32;
    // What this thread's objects must be found as: each has one owner.
    let mut newest = std::collections::HashMap::new();
    while end.is_none_or(|end| Instant::now() < end) {
        let number = random.below(u64::from(KEYS / THREADS)) as u32 * THREADS + thread;
        version += 1;
        match random.below(1000) {
            0..4 => {
                journal.note(What::FlushBegins, 0, u64::from(thread));
                block_on(cache.flush()).unwrap();
                journal.note(What::Flushed, 0, u64::from(thread));
                static SAID: Once = Once::new();
                SAID.call_once(|| println!("flushed"));
            }
            4..10 => {
                journal.note(What::RemoveBegins, number, version);
                block_on(cache.remove(&key(number))).unwrap();
                journal.note(What::Removed, number, version);
                newest.insert(number, 0);
            }
            10..200 => {
                if let (Some(found), Some(newest)) = (found(cache, number), newest.get(&number)) {
                    assert_eq!(found, *newest, "object {number} is not what was committed last");
                }
            }
            choice => {
                journal.note(What::PutBegins, number, version);
                if put(cache, number, version, choice < 220) {
                    journal.note(What::Committed, number, version);
                    newest.insert(number, version);
                } else {
                    journal.note(What::NotStored, number, version);
                }
            }
        }
    }
}

/// Write a version, or drop it half written. Whether it was stored.
fn put(cache: &Cache, number: u32, version: u64, abort: bool) -> bool {
    let mut bytes = body(number, version);
    let hint = Hint { expected_bytes: Some(bytes.len() as u64), ..Hint::default() };
    let mut writer = cache.put(&key(number), Bytes::from(version.to_string()), hint);
    if abort {
        block_on(writer.write(bytes.split_to(bytes.len() / 2)));
        return false;
    }
    block_on(writer.write(bytes));
    matches!(block_on(writer.commit()), Commit::Stored { .. })
}
