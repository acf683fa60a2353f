//! One operation of the store, so many times: what `scripts/store-cost` counts the instructions of.
//!
//! ```text
//! instructions make   ENGINE DIR BYTES          a cache of 64 MiB, filled one and a quarter times with such objects
//! instructions hot    ENGINE DIR BYTES COUNT    gets of objects that are in memory
//! instructions disk   ENGINE DIR BYTES COUNT    gets that read the disk
//! instructions absent ENGINE DIR BYTES COUNT    lookups of what is not there
//! instructions put    ENGINE DIR BYTES COUNT    puts of new objects, most of which evict something; a flush after each 16
//! ```
//!
//! ENGINE may be `generational@BITS`: its index lies on the disk, with so many bits of memory for each object of 8 KiB.
//!
//! All but `make` open what `make` left. So all runs place objects alike, and what a run of N and one of 2 N differ by is
//! N operations: opening and closing fall out.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a measurement")]

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tinaja_store::device::IoEngine;
use tinaja_store::{Cache, CacheOptions, Commit, Hint, Key, Lookup, Settings, Store, block_on, engines};

const DISK_BYTES: u64 = 64 << 20;
const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nCache-Control: max-age=3600\r\n\r\n";
/// Objects that are asked for in turns, from disk and from memory.
const ASKED: [usize; 2] = [1000, 500];
const HOT_BYTES: u64 = 32 << 20;
/// Puts between two flushes.
const FLUSH_EVERY: u64 = 16;
/// Where the file is that says which objects are there.
const FOUND: &str = "found";

/// Nothing that goes by the clock: no syncs that nobody asked for.
fn open(engine: &str, dir: &Path, memory_bytes: u64) -> Cache {
    let (engine, bits) = engine.split_once('@').map_or((engine, None), |(engine, bits)| (engine, Some(bits)));
    let objects = DISK_BYTES >> 13;
    let on_disk = |bits: &str| {
        let bits: u64 = bits.parse().unwrap();
        let settings = Settings::new().with(&engines::INDEX_MEMORY, objects * bits / 8);
        settings.with(&engines::INDEX_ENTRIES, objects / 4 * 5)
    };
    let options = CacheOptions::new(dir.join("cache"))
        .engine(engine.parse().unwrap())
        .settings(bits.map(on_disk).unwrap_or_default())
        .disk_bytes(DISK_BYTES)
        .memory_bytes(memory_bytes)
        .flush_every(None)
        .io(IoEngine::Threads)
        .io_threads(1);
    Cache::open(options).unwrap()
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, engine, dir, bytes, ..] = &arguments[..] else { panic!("see the top of this program") };
    let (dir, bytes) = (Path::new(dir), bytes.parse().unwrap());
    let count = || arguments[4].parse().unwrap();
    match what.as_str() {
        "make" => make(engine, dir, bytes),
        "hot" => hot(&open(engine, dir, HOT_BYTES), &found(dir)[..ASKED[1]], count()),
        "disk" => disk(&open(engine, dir, 0), &found(dir)[..ASKED[0]], count()),
        "absent" => absent(&open(engine, dir, 0), count()),
        "put" => puts(&open(engine, dir, 0), bytes, count()),
        _ => panic!("{what} is none of make, hot, disk, absent and put"),
    }
}

fn key(number: u64) -> Key {
    Key::from_name(format!("http://example.net/objects/{number}").as_bytes())
}

fn puts(cache: &Cache, bytes: usize, count: u64) {
    let body = Bytes::from(vec![0x5A; bytes]);
    for number in 0..count {
        put(cache, (1 << 40) + number, &body);
        // Else what a put costs depends on how many before it are still on their way to the disk.
        if number % FLUSH_EVERY == FLUSH_EVERY - 1 {
            block_on(cache.flush()).unwrap();
        }
    }
}

fn put(cache: &Cache, number: u64, body: &Bytes) {
    let hint = Hint { expected_bytes: Some(body.len() as u64), ..Hint::default() };
    let mut writer = cache.put(&key(number), Bytes::from_static(HEAD), hint);
    block_on(writer.write(body.clone()));
    assert!(matches!(block_on(writer.commit()), Commit::Stored { .. }));
}

fn make(engine: &str, dir: &Path, bytes: usize) {
    std::fs::create_dir_all(dir).unwrap();
    let cache = open(engine, dir, 0);
    let body = Bytes::from(vec![0x5A; bytes]);
    let objects = DISK_BYTES * 5 / 4 / bytes as u64;
    (0..objects).for_each(|number| put(&cache, number, &body));
    block_on(cache.flush()).unwrap();
    // The newest: nothing that happens when the cache is opened evicts them.
    let there: Vec<_> = (0..objects).rev().filter(|number| block_on(cache.find(&key(*number))).is_some()).collect();
    let there = &there[..ASKED[0]];
    std::fs::write(dir.join(FOUND), there.iter().map(|number| format!("{number}\n")).collect::<String>()).unwrap();
    block_on(cache.close()).unwrap();
}

fn found(dir: &Path) -> Vec<Key> {
    let lines = std::fs::read_to_string(dir.join(FOUND)).unwrap();
    lines.lines().map(|number| key(number.parse().unwrap())).collect()
}

fn hot(cache: &Cache, keys: &[Key], count: u64) {
    // What is read twice is in memory; and a third time for whatever was still on its way there.
    disk(cache, keys, 3 * keys.len() as u64);
    let deadline = Instant::now() + Duration::from_secs(3600);
    let (before, mut bytes) = (cache.stats().hits_memory, 0);
    for key in keys.iter().cycle().take(count as usize) {
        let Lookup::Here(mut hit) = cache.lookup(key, deadline) else { panic!("it is not in memory") };
        bytes += block_on(hit.body.next(1 << 20)).unwrap().unwrap().len();
    }
    assert_eq!(cache.stats().hits_memory - before, count, "{bytes} bytes");
}

fn disk(cache: &Cache, keys: &[Key], count: u64) {
    let (before, mut bytes) = (cache.stats(), 0);
    for key in keys.iter().cycle().take(count as usize) {
        let mut hit = block_on(cache.find(key)).expect("it is there");
        bytes += block_on(hit.body.next(1 << 20)).unwrap().unwrap().len();
    }
    let after = cache.stats();
    assert_eq!(after.hits_disk + after.hits_memory - before.hits_disk - before.hits_memory, count, "{bytes} bytes");
    let from_memory = after.hits_memory - before.hits_memory;
    assert!(after.hot_budget_bytes > 0 || from_memory == 0, "{from_memory} of {count} did not come from the disk");
}

fn absent(cache: &Cache, count: u64) {
    let there = (0..count).filter(|number| block_on(cache.find(&key((1 << 50) + number))).is_some()).count();
    assert_eq!(there, 0);
}
