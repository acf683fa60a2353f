//! The steps, each in a process of its own. A step prints one line.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tinaja_store::contract::bytes_of;
use tinaja_store::{Cache, CacheOptions, Commit, Hint, Key, Store, block_on};

const DISK_BYTES: u64 = 4 << 30;
const OBJECT_BYTES: usize = 1024;
const GETS: u64 = 10_000;
const THREADS: u64 = 32;

fn open(dir: &Path, disk_bytes: u64) -> Cache {
    let options = CacheOptions::new(dir).disk_bytes(disk_bytes).memory_bytes(0).mean_object_bytes(1024);
    Cache::open(options).unwrap()
}

fn key(number: u64) -> Key {
    Key::from_name(format!("http://example.net/{number}").as_bytes())
}

/// Bodies differ in their first bytes only: making them is not what is measured.
fn body(number: u64) -> Bytes {
    let mut bytes = bytes_of(1, OBJECT_BYTES).to_vec();
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes.into()
}

fn is_there(cache: &Cache, number: u64) -> bool {
    let Some(mut hit) = block_on(cache.find(&key(number))) else { return false };
    assert!(block_on(hit.body.collect(OBJECT_BYTES)).unwrap() == body(number), "wrong bytes");
    true
}

/// Fill a new cache, note which objects will be asked for, make them last, then stop as told.
pub fn fill(dir: &Path, objects: u64, stop: &str) {
    let cache = open(dir, DISK_BYTES);
    for number in 0..objects {
        let mut writer = cache.put(&key(number), Bytes::new(), Hint::default());
        block_on(writer.write(body(number)));
        assert!(matches!(block_on(writer.commit()), Commit::Stored { .. }));
    }
    block_on(cache.flush()).unwrap();
    // A few in a hundred thousand found no slot; the others must all be hits after the stop.
    let mut random: u64 = 1;
    let mut asked = Vec::new();
    while asked.len() < 8 * GETS as usize {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let number = (random >> 33) % objects;
        if is_there(&cache, number) {
            asked.extend_from_slice(&number.to_le_bytes());
        }
    }
    std::fs::write(dir.join("asked"), asked).unwrap();
    if stop == "close" {
        block_on(cache.close()).unwrap();
    }
    println!("filled");
    wait_for_the_end();
}

/// Open, get, and stop as told.
pub fn reopen(dir: &Path, stop: &str) {
    let asked: Vec<u64> = std::fs::read(dir.join("asked"))
        .unwrap()
        .as_chunks()
        .0
        .iter()
        .map(|bytes| u64::from_le_bytes(*bytes))
        .collect();
    drop_page_cache(dir);
    let begun = Instant::now();
    let cache = open(dir, DISK_BYTES);
    let opened = begun.elapsed();
    let (next, hits) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(number) = asked.get(next.fetch_add(1, Relaxed) as usize) {
                    hits.fetch_add(u64::from(is_there(&cache, *number)), Relaxed);
                }
            });
        }
    });
    let all = begun.elapsed();
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    let hits = hits.into_inner();
    if stop == "close" {
        block_on(cache.close()).unwrap();
    }
    let gets = millis(all - opened);
    println!("{:.0} ms | {gets:.0} ms | {:.0} ms | {hits} of {} |", millis(opened), millis(all), asked.len());
    wait_for_the_end();
}

/// What an empty cache of a million slots adds to the process.
pub fn memory(dir: &Path) {
    let before = resident_bytes();
    let cache = open(dir, 1 << 30);
    let after = resident_bytes();
    let slots = cache.stats().slots;
    // Then with work behind it: buffers of writes and reads are no matter of the number of slots.
    for number in 0..50_000 {
        let mut writer = cache.put(&key(number), Bytes::new(), Hint::default());
        block_on(writer.write(body(number)));
        assert!(matches!(block_on(writer.commit()), Commit::Stored { .. }));
    }
    let there = (0..10_000).filter(|number| is_there(&cache, *number)).count();
    assert!(there > 9_900, "{there} of 10,000 are there");
    let worked = resident_bytes();
    let each = (after - before) as f64 / slots as f64;
    let (opened, busy) = ((after - before) >> 10, (worked - before) >> 10);
    println!(
        "{slots} slots, nothing hot: {opened} KiB more after opening, {each:.2} bytes a slot; {busy} KiB more after 50,000 puts and 10,000 gets"
    );
    wait_for_the_end();
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// The cache reads past the page cache; where a file system has no such way, this makes its pages leave.
fn drop_page_cache(dir: &Path) {
    let file = File::open(dir.join("tinaja.cache")).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
}

/// Until killed: no destructor runs, nothing is closed.
fn wait_for_the_end() {
    let _ = std::io::stdin().read(&mut [0]);
}
