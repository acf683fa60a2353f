//! Readers in many threads take the memory that the limits allow, and no more.
//!
//! Buffers for reads are aligned, and the C library's heap (2.36) puts no aligned block where one of the same size was
//! before it is joined with its neighbours. Each thread has a heap of its own, and each heap grew: 32 readers of a
//! large object, which may hold 64 MiB, took 179 to 245 MiB.
//!
//! A program of its own, with one test: the memory of the whole process is looked at.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::collections::VecDeque;
use std::thread;

use bytes::Bytes;
use tinaja_store::limits::MAX_HELD_BYTES;
use tinaja_store::{Cache, CacheOptions, Commit, Hint, Key, Store, block_on};

const OBJECT: u64 = 128 << 20;
const READERS: u64 = 32;

fn peak_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

#[test]
fn readers_in_many_threads_take_what_they_may() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let options = CacheOptions::new(dir.path()).disk_bytes(1 << 30).memory_bytes(0);
    let store = Cache::open(options).unwrap();
    let piece = Bytes::from(vec![7; 64 << 10]);
    let mut writer = store.put(&Key::from_name(b"large"), Bytes::new(), Hint::default());
    for _ in 0..OBJECT / piece.len() as u64 {
        block_on(writer.write(piece.clone()));
    }
    assert!(matches!(block_on(writer.commit()), Commit::Stored { .. }));
    block_on(store.flush()).unwrap();
    let before = peak_bytes();
    thread::scope(|scope| {
        for n in 0..READERS {
            let store = &store;
            scope.spawn(move || {
                let mut hit = block_on(store.find(&Key::from_name(b"large"))).unwrap();
                hit.body.seek(n * 777_777..u64::MAX).unwrap();
                // As a client does that is a few pieces behind.
                let (mut read, mut behind) = (0, VecDeque::new());
                while read < OBJECT / 2 {
                    let piece = block_on(hit.body.next(128 << 10)).unwrap().unwrap();
                    assert!(piece.iter().all(|byte| *byte == 7));
                    read += piece.len() as u64;
                    behind.push_back(piece);
                    if behind.len() > 3 {
                        behind.pop_front();
                    }
                }
            });
        }
    });
    let grown = peak_bytes() - before;
    println!("{READERS} readers: {} MiB", grown >> 20);
    assert!(grown < 2 * MAX_HELD_BYTES, "{} MiB", grown >> 20);
}
