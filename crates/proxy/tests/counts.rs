//! What requests cost, counted: allocations, by the proxy's own threads.
//!
//! A miss made 116 of them, and took a task, a timer that woke the thread, and five waits. A short answer that comes whole is stored on the
//! way to its client now, and waits twice: for the origin, and for the next request. Times are measured elsewhere (`cargo bench -p
//! tinaja`); counts do not depend on what else the machine does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, missing_docs)]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use support::{Origin, Proxy};

/// Allocations of each thread, by its number.
static OF_THREADS: [AtomicU64; 4096] = [const { AtomicU64::new(0) }; 4096];

fn count() {
    let thread = rustix::thread::gettid().as_raw_nonzero().get() as usize;
    OF_THREADS[thread % OF_THREADS.len()].fetch_add(1, Relaxed);
}

struct Counting;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(at, layout, bytes) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Allocations so far of the threads that answer requests.
fn of_proxy() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let proxy = tasks.filter(|task| std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name == "proxy\n"));
    let number = |task: std::path::PathBuf| task.file_name().unwrap().to_str().unwrap().parse::<usize>().unwrap();
    proxy.map(|task| OF_THREADS[number(task) % OF_THREADS.len()].load(Relaxed)).sum()
}

const BATCH: u64 = 50;

/// Allocations of one request: of several batches the cheapest, for now and then a timer or a flush comes between.
fn each(mut ask: impl FnMut()) -> u64 {
    let batches = (0..10).map(|_| {
        let before = of_proxy();
        (0..BATCH).for_each(|_| ask());
        of_proxy() - before
    });
    batches.min().unwrap() / BATCH
}

#[test]
fn allocations_are_few() {
    // In one piece, as servers send what is short.
    let head =
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n\r\n";
    let answer = [head.as_bytes(), &[b'x'; 1000]].concat();
    let origin = Origin::start(move |_, stream| stream.write_all(&answer).is_ok());
    let proxy = Proxy::forward();
    let mut client = proxy.client();
    let mut number = 0;
    let mut ask = |path: &str, outcome: &str| {
        client.send(format!("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", origin.url(path), origin.address));
        let answer = client.read("GET").unwrap();
        assert_eq!((answer.status, answer.body.len()), (200, 1000));
        assert!(answer.header("cache-status").unwrap().contains(outcome), "{answer:?}");
    };
    // Whatever is made once is made by the first ones.
    ask("/hit", "fwd");
    (0..200).for_each(|_| ask("/hit", "hit"));
    let hit = each(|| ask("/hit", "hit"));
    let mut miss = || {
        number += 1;
        ask(&format!("/{number}"), "fwd=uri-miss; fwd-status=200; stored");
    };
    (0..200).for_each(|_| miss());
    let miss = each(miss);
    println!("allocations: {hit} of a memory hit, {miss} of a miss that is stored");
    assert_eq!(hit, 25, "of a memory hit");
    assert!(miss <= 80, "{miss} of a miss");
}
