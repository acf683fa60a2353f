//! What a hit, a miss and a write cost, counted: 200,000 objects of 4 to 8 KiB in 4 GiB, hot objects off.
//!
//! `cargo run --release -p tinaja-store --example costs [DIRECTORY]`; takes 4 GiB of disk there for a minute.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "an example that measures")]

use std::path::PathBuf;

use bytes::Bytes;
use tinaja_store::{Cache, CacheOptions, Commit, Hint, Key, Stats, Store, block_on};

const OBJECTS: u64 = 200_000;
const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nCache-Control: max-age=3600\r\n\r\n";

fn key(n: u64) -> Key {
    Key::from_name(format!("http://example.net/objects/{n}").as_bytes())
}

fn size(n: u64) -> usize {
    4096 + (n.wrapping_mul(2_654_435_761) >> 7) as usize % 4097
}

fn main() {
    let dir = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from).join("tinaja-costs");
    let options = CacheOptions::new(&dir).disk_bytes(4 << 30).memory_bytes(0);
    let store = Cache::open(options).unwrap();
    measure(&store);
    drop(store);
    std::fs::remove_dir_all(dir).unwrap();
}

fn measure(store: &Cache) {
    let everything = Bytes::from(vec![0x5A; 8192]);
    let mut payload = 0;
    for n in 0..OBJECTS {
        let mut writer = store.put(&key(n), Bytes::from_static(HEAD), Hint::default());
        block_on(writer.write(everything.slice(..size(n).min(8192))));
        assert!(matches!(block_on(writer.commit()), Commit::Stored { .. }));
        payload += (key(n).name().len() + HEAD.len() + size(n).min(8192)) as u64;
    }
    block_on(store.flush()).unwrap();
    let written = store.stats();
    let served: u64 = (0..OBJECTS)
        .filter_map(|n| block_on(store.find(&key(n))))
        .map(|mut hit| (hit.head.len() + block_on(hit.body.collect(1 << 20)).unwrap().len()) as u64)
        .sum();
    let hit = store.stats();
    let false_hits = (OBJECTS..2 * OBJECTS).filter(|&n| block_on(store.find(&key(n))).is_some()).count();
    assert_eq!(false_hits, 0);
    report(&written, &hit, &store.stats(), payload, served);
}

fn report(written: &Stats, hit: &Stats, missed: &Stats, payload: u64, served: u64) {
    let ratio = |of: u64, to: u64| of as f64 / to as f64;
    let hits = hit.hits_disk + hit.hits_memory - written.hits_disk - written.hits_memory;
    println!("{} objects in {} slots, {:.3} bits a slot", hit.live_objects, hit.slots, hit.bits_per_slot());
    println!("bytes written / (key + head + body)   {:.4}", ratio(written.write_bytes, payload));
    println!("reads a hit                           {:.4}", ratio(hit.reads - written.reads, hits));
    println!("bytes read a byte served              {:.3}", ratio(hit.read_bytes - written.read_bytes, served));
    // Eight slots of a set and eight bits: each live slot matches once in 256 by chance.
    let predicted = ratio(hit.live_objects, hit.slots / 8) / 256.0;
    println!("reads a miss                          {:.5}", ratio(missed.reads - hit.reads, OBJECTS));
    println!("  predicted from 8-bit fingerprints   {predicted:.5}");
}
