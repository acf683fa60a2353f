//! What sets of eight slots cost: bits of memory a live object, and the share of objects that find no slot.
//!
//! ```text
//! cargo run --release -p tinaja-store --example full_sets [sets]     default 16384 sets; disk space 256 MiB
//! ```
//!
//! So many objects are put that each set gets 7, 8, 10 or 12 on average. With random placement the number in a set is
//! Poisson-distributed, and all beyond eight are lost: that is the prediction beside which the losses are printed.
#![allow(clippy::unwrap_used, reason = "a measurement")]

use bytes::Bytes;
use tinaja_store::{Cache, CacheOptions, Commit, Hint, Key, Lookup, Stats, Store, block_on};

const WAYS: u32 = 8;
const LOADS: [u64; 4] = [7, 8, 10, 12];

fn main() {
    let sets: u64 = std::env::args().nth(1).and_then(|sets| sets.parse().ok()).unwrap_or(16384);
    println!("{sets} sets of {WAYS}, objects of 100 bytes, nothing overwritten");
    println!(
        "| objects a set | bits a slot | bits a live object | predicted | lost to full sets | predicted | found |"
    );
    println!("|---|---|---|---|---|---|---|");
    for load in LOADS {
        let (stats, found) = measure(sets, load);
        let objects = sets * load;
        let held = mean_held(load as f64);
        let lost = 1.0 - held / load as f64;
        println!(
            "| {load} | {:.3} | {:.2} | {:.2} | {:.3} % | {:.3} % | {:.3} % |",
            stats.bits_per_slot(),
            stats.bits_per_live_object(),
            stats.bits_per_slot() * f64::from(WAYS) / held,
            stats.lost_to_full_sets as f64 / objects as f64 * 100.0,
            lost * 100.0,
            found * 100.0,
        );
    }
}

/// A cache with so many objects a set: its counters, and the share of 10,000 objects that lookups find.
fn measure(sets: u64, load: u64) -> (Stats, f64) {
    let dir = tempfile::tempdir().unwrap();
    let slots = sets * u64::from(WAYS);
    let disk_bytes = (slots * 2048).max(64 << 20);
    let mean_object_bytes = disk_bytes / slots;
    let options =
        CacheOptions::new(dir.path()).disk_bytes(disk_bytes).memory_bytes(0).mean_object_bytes(mean_object_bytes);
    let cache = Cache::open(options).unwrap();
    let objects = cache.stats().slots / u64::from(WAYS) * load;
    (0..objects).for_each(|number| put(&cache, number));
    let stats = cache.stats();
    assert_eq!(stats.lap, 1, "the log has wrapped: objects were lost to that too");
    let asked = 10_000.min(objects);
    let found = (0..asked).filter(|number| is_there(&cache, number * (objects / asked))).count();
    (stats, found as f64 / asked as f64)
}

fn put(cache: &Cache, number: u64) {
    let mut writer = cache.put(&key(number), Bytes::new(), Hint::default());
    block_on(writer.write(Bytes::from_static(&[7; 100])));
    assert!(matches!(block_on(writer.commit()), Commit::Stored { .. }));
}

fn is_there(cache: &Cache, number: u64) -> bool {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    match cache.lookup(&key(number), deadline) {
        Lookup::Absent => false,
        Lookup::Here(_) => true,
        Lookup::Wait(pending) => block_on(pending).is_some(),
    }
}

fn key(number: u64) -> Key {
    Key::from_name(&number.to_le_bytes())
}

/// Objects that a set holds on average, when `mean` come to it and eight stay.
fn mean_held(mean: f64) -> f64 {
    let mut probability = (-mean).exp();
    let mut held = 0.0;
    for count in 0..200 {
        held += probability * f64::from(count.min(WAYS));
        probability *= mean / f64::from(count + 1);
    }
    held
}
