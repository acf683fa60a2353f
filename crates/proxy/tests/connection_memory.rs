//! What a connection holds while nobody asks for anything on it.
//!
//! Each connection once had a read buffer of 64 KiB, Pingora's, for as long as it was open. In the laboratory's `hashcache-peers` 200
//! clients had 1,200 connections open, nearly all of them idle, and these buffers were 78 of the 108 MB that the proxy took: more
//! than all of its cache. A machine that has just these 128 MB had nothing left for what waits for a slow disk. Whoever reads
//! from a connection has room of its own, on the stack, so the buffer held nothing that was of use.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, missing_docs)]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use support::{Origin, Proxy};

/// Bytes that are allocated and were not freed.
static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const CONNECTIONS: usize = 200;
/// 12,400 bytes were counted: half of it the connection's task, and room for small writes. The buffer was 65,536 more.
const MOST_BYTES_EACH: usize = 16 * 1024;

/// One request and the whole of its answer.
fn ask(stream: &mut TcpStream, request: &str) -> Vec<u8> {
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = vec![0; 4096];
    let mut read = 0;
    while !answer[..read].ends_with(b"\r\n\r\nhello") {
        let more = stream.read(&mut answer[read..]).unwrap();
        assert!(more > 0, "{}", String::from_utf8_lossy(&answer[..read]));
        read += more;
    }
    answer.truncate(read);
    answer
}

#[test]
fn a_connection_that_waits_for_its_next_request_holds_little() {
    let origin = Origin::fixed("Cache-Control: max-age=600\r\n", "hello");
    let proxy = Proxy::forward();
    let request = format!("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", origin.url("/"), origin.address);
    // Whatever is made once is made by the first ones.
    let mut first: Vec<_> = (0..8).map(|_| TcpStream::connect(proxy.address).unwrap()).collect();
    first.iter_mut().for_each(|stream| drop(ask(stream, &request)));
    let before = ALLOCATED.load(Relaxed);
    let mut idle: Vec<_> = (0..CONNECTIONS).map(|_| TcpStream::connect(proxy.address).unwrap()).collect();
    idle.iter_mut().for_each(|stream| drop(ask(stream, &request)));
    let each = ALLOCATED.load(Relaxed).saturating_sub(before) / CONNECTIONS;
    println!("{each} bytes for each of {CONNECTIONS} connections");
    assert!(each <= MOST_BYTES_EACH, "{each} bytes each");
    // They are open still, and may ask again.
    idle.iter_mut().chain(&mut first).for_each(|stream| drop(ask(stream, &request)));
}
