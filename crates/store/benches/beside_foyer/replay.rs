//! One workload for three caches: hashcache-log, segmented and foyer, one after the other.
//!
//! Whoever asks for an object that is not there fetches it and stores it. Objects are asked for with a frequency that falls
//! with their rank (Zipf, 0.8), as web objects are; all of them together are four times the disk.

use std::fmt::Write;
use std::path::Path;
use std::time::Instant;

use tinaja_store::{Settings, engines};

use crate::foyer_side::FoyerHybrid;
use crate::objects::Objects;
use crate::phase::Side;
use crate::tinaja_side::Tinaja;
use crate::{counting, machine};

/// How much is replayed.
struct Load {
    disk_bytes: u64,
    objects: u64,
    warm_up: u64,
    measured: u64,
}

/// What a cache did.
struct Row {
    name: String,
    hits: f64,
    byte_hits: f64,
    index_bits: f64,
    live: u64,
    reads: String,
    writes: String,
    read_bytes_a_hit_byte: f64,
    written_a_byte_stored: f64,
    cpu_us: f64,
    rate: f64,
}

/// Replay the same requests on each. Quick: to see that it runs.
pub async fn replay(dir: &Path, quick: bool) {
    let disk_bytes = if quick { 32 << 20 } else { 256 << 20 };
    let objects = disk_bytes * 4 / Objects::of_many_sizes().size as u64;
    let load = Load { disk_bytes, objects, warm_up: objects * 2, measured: objects * 3 };
    let keep = Settings::new().with(&engines::KEEP, 10);
    let mut rows = Vec::new();
    for (name, engine, settings) in [
        ("hashcache-log", engines::HASHCACHE_LOG, Settings::new()),
        ("segmented", engines::SEGMENTED, Settings::new()),
        ("segmented, keeping 10 %", engines::SEGMENTED, keep),
    ] {
        let dir = dir.join(name);
        let cache = Tinaja::open_as(&dir, engine, settings, Objects::of_many_sizes(), disk_bytes);
        let mut before = cache.stats();
        let mut row = run(&cache, &load, || before = cache.stats()).await;
        let stats = cache.stats();
        row.name = name.into();
        row.reads = per(stats.reads - before.reads, load.measured);
        row.writes = per(stats.writes - before.writes, load.measured);
        (row.index_bits, row.live) = (stats.bits_per_live_object(), stats.live_objects);
        rows.push(row);
        cache.close().await;
        drop(cache);
        std::fs::remove_dir_all(&dir).unwrap();
    }
    counting::start();
    let dir = dir.join("foyer");
    let foyer = FoyerHybrid::open(&dir, Objects::of_many_sizes(), disk_bytes).await;
    let (empty, mut before) = (counting::live_bytes(), machine::io());
    let mut row = run(&foyer, &load, || before = machine::io()).await;
    let (heap, now) = (counting::live_bytes() - empty, machine::io());
    counting::stop();
    row.reads = per(now.calls.0 - before.calls.0, load.measured);
    row.writes = per(now.calls.1 - before.calls.1, load.measured);
    row.live = foyer.found_of(load.objects);
    row.index_bits = heap as f64 * 8.0 / row.live as f64;
    rows.push(row);
    foyer.close().await;
    let page = page(&load, &rows);
    println!("{page}");
    if !quick {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/bench/three-caches.md");
        std::fs::write(&path, page).unwrap();
        println!("written to docs/bench/three-caches.md");
    }
}

fn per(requests: u64, of: u64) -> String {
    format!("{:.3}", requests as f64 / of as f64)
}

/// Warm a cache up, say so, and measure.
async fn run<S: Side>(cache: &S, load: &Load, warm: impl FnOnce()) -> Row {
    let ranks = Zipf::of(load.objects);
    let mut random = 0x2013_u64;
    for _ in 0..load.warm_up {
        ask(cache, ranks.draw(&mut random)).await;
    }
    cache.settle().await;
    warm();
    let (io, cpu, begun) = (machine::io(), machine::cpu_time(), Instant::now());
    let (mut hits, mut hit_bytes, mut missed_bytes) = (0_u64, 0_u64, 0_u64);
    for _ in 0..load.measured {
        let number = ranks.draw(&mut random);
        let bytes = cache.payload_bytes(number);
        let hit = ask(cache, number).await;
        hits += u64::from(hit);
        *(if hit { &mut hit_bytes } else { &mut missed_bytes }) += bytes;
    }
    cache.settle().await;
    let (took, spent, now) = (begun.elapsed(), machine::cpu_time() - cpu, machine::io());
    let requests = load.measured as f64;
    Row {
        name: S::NAME.into(),
        hits: hits as f64 / requests,
        byte_hits: hit_bytes as f64 / (hit_bytes + missed_bytes) as f64,
        index_bits: 0.0,
        live: 0,
        reads: String::new(),
        writes: String::new(),
        read_bytes_a_hit_byte: (now.bytes.0 - io.bytes.0) as f64 / hit_bytes as f64,
        written_a_byte_stored: (now.bytes.1 - io.bytes.1) as f64 / missed_bytes as f64,
        cpu_us: spent.as_secs_f64() * 1e6 / requests,
        rate: requests / took.as_secs_f64(),
    }
}

/// Ask for an object; whether it was there. If not, it is fetched and stored.
async fn ask<S: Side>(cache: &S, number: u64) -> bool {
    let hit = cache.get(number).await;
    if !hit {
        cache.put(number).await;
    }
    hit
}

/// Numbers drawn by rank: the first is asked for most.
struct Zipf(Vec<f64>);

impl Zipf {
    fn of(objects: u64) -> Self {
        let mut sum = 0.0;
        let sums = (1..=objects).map(|rank| {
            sum += (rank as f64).powf(-0.8);
            sum
        });
        Zipf(sums.collect())
    }

    fn draw(&self, random: &mut u64) -> u64 {
        *random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let share = (*random >> 11) as f64 / (1_u64 << 53) as f64;
        self.0.partition_point(|sum| *sum < share * self.0[self.0.len() - 1]) as u64
    }
}

fn page(load: &Load, rows: &[Row]) -> String {
    let mut text = format!(
        "# hashcache-log, segmented and foyer 0.22 under one workload\n\n\
         {date}, by `cargo bench -p tinaja-store -- --replay`, on: {machine}.\n\n\
         {objects} objects of 256 bytes to 64 KiB, four times the {mebibytes} MiB of disk, requested by Zipf's law (0.8): {warm_up}\n\
         requests to warm up, {measured} measured, one at a time. Missing objects are fetched and stored. The page cache is bypassed,\n\
         and no object is kept in memory. foyer as in [beside foyer](beside-foyer.md).\n\n\
         - Requests: Tinaja's are counted by its devices; foyer's are the calls of `pread`, `pwrite` and the like by its process.\n\
         - Read: bytes read from disk per byte of a hit. Written: bytes written per byte that was missed and stored, with padding,\n  \
           summaries and objects that were kept. Both come from `/proc/self/io`.\n\
         - Index: bits of memory per stored object; foyer's is the growth of its heap.\n\
         - CPU: user and system time of the whole process per request. Everything but rate and CPU is exact, and the same in each run\n  \
           except for objects that are evicted a moment earlier or later.\n\
         - Segmented has twice as many slots as the objects fill, as its summaries do, so that sets are rarely full; hashcache-log\n  \
           loses more objects to full sets. A part of the disk is kept free: three of some 125 segments here.\n\n\
         | cache | hits, % | bytes hit, % | index bits | objects | reads per request | writes per request | read | written | CPU µs | /s |\n\
         |---|---|---|---|---|---|---|---|---|---|---|\n",
        date = machine::today(),
        machine = machine::description(),
        objects = load.objects,
        mebibytes = load.disk_bytes >> 20,
        warm_up = load.warm_up,
        measured = load.measured,
    );
    for row in rows {
        let _ = writeln!(
            text,
            "| {} | {:.2} | {:.2} | {:.1} | {} | {} | {} | {:.3} | {:.3} | {:.1} | {:.0} |",
            row.name,
            row.hits * 100.0,
            row.byte_hits * 100.0,
            row.index_bits,
            row.live,
            row.reads,
            row.writes,
            row.read_bytes_a_hit_byte,
            row.written_a_byte_stored,
            row.cpu_us,
            row.rate
        );
    }
    text
}
