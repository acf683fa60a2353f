//! What a hit in memory and a put cost, with hot objects on the heap and in memory that the kernel may take back.
//!
//! `cargo run --release -p tinaja-store --example hot_costs [DIRECTORY]`; takes 256 MiB of disk there for some seconds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "an example that measures")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tinaja_store::{Cache, CacheOptions, Commit, Hint, Key, Lookup, Store, block_on};

const OBJECTS: usize = 2000;
const ROUNDS: usize = 200;

fn main() {
    let dir = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from).join("tinaja-hot-costs");
    for size in [300, 8000, 64_000] {
        for memory_yields in [false, true, false, true] {
            let options =
                CacheOptions::new(&dir).disk_bytes(256 << 20).memory_bytes(512 << 20).memory_yields(memory_yields);
            measure(&Cache::open(options).unwrap(), size, memory_yields);
            std::fs::remove_dir_all(&dir).unwrap();
        }
    }
}

fn measure(store: &Cache, size: usize, memory_yields: bool) {
    let keys: Vec<_> = (0..OBJECTS).map(|n| Key::from_name(&n.to_le_bytes())).collect();
    let body = Bytes::from(vec![7; size]);
    let hint = Hint { expected_bytes: Some(size as u64), ..Hint::default() };
    let began = Instant::now();
    for key in &keys {
        let mut writer = store.put(key, Bytes::from_static(b"head"), hint);
        block_on(writer.write(body.clone()));
        assert!(matches!(block_on(writer.commit()), Commit::Stored { .. }));
    }
    let put = began.elapsed().as_nanos() / OBJECTS as u128;
    let (began, mut hits) = (Instant::now(), 0);
    let deadline = began + Duration::from_secs(600);
    for key in (0..ROUNDS).flat_map(|_| &keys) {
        hits += usize::from(matches!(store.lookup(key, deadline), Lookup::Here(_)));
    }
    let hit = began.elapsed().as_nanos() / (OBJECTS * ROUNDS) as u128;
    let kind = if memory_yields { "may be taken" } else { "on the heap" };
    println!("{size} bytes, {kind}: {hit} ns a hit in memory ({hits}), {put} ns a put");
}
