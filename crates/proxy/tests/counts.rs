//! What requests cost, counted: allocations, writes and waits, by the proxy's own threads. Instructions and other calls of the system:
//! `cargo test -p tinaja --test all costs::`.
//!
//! A miss made 116 allocations, and took a task, a timer that woke the thread, and five waits. A short answer that comes whole is stored on the
//! way to its client now, and waits twice: for the origin, and for the next request. Times are measured elsewhere (`cargo bench -p
//! tinaja`); counts do not depend on what else the machine does.
//!
//! Over HTTP/2 a hit went through the exchange in a task of its own, and each answer was a write of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, missing_docs)]

mod frames;
mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use frames::{DATA, END_HEADERS, END_STREAM, Frame, Frames, HEADERS, WINDOW_UPDATE, block, frame};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use support::{Origin, Proxy};
use tinaja_proxy::{CertificateFiles, Mode, Routes};
use tinaja_testkit::nginx::make_certificates;

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

/// One after the other: what is counted is the process's.
static ALONE: Mutex<()> = Mutex::new(());

/// The threads that answer requests.
fn threads() -> impl Iterator<Item = PathBuf> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    tasks.filter(|task| std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name == "proxy\n"))
}

/// Allocations of theirs so far.
fn of_proxy() -> u64 {
    let number = |task: PathBuf| task.file_name().unwrap().to_str().unwrap().parse::<usize>().unwrap();
    threads().map(|task| OF_THREADS[number(task) % OF_THREADS.len()].load(Relaxed)).sum()
}

/// How often they have asked the system to write so far.
fn writes_of_proxy() -> u64 {
    let written = |task: PathBuf| {
        let io = std::fs::read_to_string(task.join("io")).unwrap();
        io.lines().find_map(|line| line.strip_prefix("syscw: ")?.parse::<u64>().ok()).unwrap()
    };
    threads().map(written).sum()
}

/// How often they have waited so far, and were woken: for a request, an answer, a disk or a timer.
fn waits_of_proxy() -> u64 {
    let waited = |task: PathBuf| {
        // It may have ended just now.
        let status = std::fs::read_to_string(task.join("status")).unwrap_or_default();
        let waits = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse().ok());
        waits.unwrap_or(0_u64)
    };
    threads().map(waited).sum()
}

/// An origin of one object that stays fresh, in one piece, as servers send what is short.
fn origin() -> Origin {
    let head =
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n\r\n";
    let answer = [head.as_bytes(), &[b'x'; 1000]].concat();
    Origin::start(move |_, stream| stream.write_all(&answer).is_ok())
}

const BATCH: u64 = 50;

/// Allocations that a hit over HTTP/2 may take at most, without TLS. It took 23 more while it went through the exchange.
const HTTP2_HIT: u64 = 34;

/// Allocations of one request, and waits of a batch: of several batches the fewest, for now and then a timer or a flush comes between.
fn each(mut ask: impl FnMut()) -> (u64, u64) {
    let (mut allocations, mut waits) = (u64::MAX, u64::MAX);
    for _ in 0..10 {
        let before = (of_proxy(), waits_of_proxy());
        (0..BATCH).for_each(|_| ask());
        allocations = allocations.min(of_proxy() - before.0);
        waits = waits.min(waits_of_proxy().checked_sub(before.1).unwrap_or(u64::MAX));
    }
    (allocations / BATCH, waits)
}

#[test]
fn allocations_are_few() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let origin = origin();
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
    let (hit, hits_waited) = each(|| ask("/hit", "hit"));
    let mut miss = || {
        number += 1;
        ask(&format!("/{number}"), "fwd=uri-miss; fwd-status=200; stored");
    };
    (0..200).for_each(|_| miss());
    let (miss, misses_waited) = each(miss);
    println!("allocations: {hit} of a memory hit, {miss} of a miss that is stored");
    println!("waits: {hits_waited} of {BATCH} memory hits, {misses_waited} of {BATCH} misses that are stored");
    assert_eq!(hit, 22, "of a memory hit");
    assert!(miss <= 66, "{miss} of a miss");
    // A hit is waited for, and by a miss its origin too. A quarter is for timers, where the machine is slow.
    assert!(hits_waited <= BATCH * 5 / 4, "{hits_waited} waits of {BATCH} memory hits");
    assert!(misses_waited <= BATCH * 5 / 2, "{misses_waited} waits of {BATCH} misses");
}

/// A window that no test spends, for all streams together.
const WINDOW: u32 = 1 << 30;

fn fields(address: &str) -> Vec<(&str, &[u8])> {
    vec![
        (":method", b"GET"),
        (":scheme", b"http"),
        (":path", b"/hit"),
        (":authority", address.as_bytes()),
        ("user-agent", b"counts"),
        ("accept", b"*/*"),
    ]
}

/// Looks at what comes of one frame: whether an answer is whole with it.
fn is_last(came: &Frame, body: &mut usize) -> bool {
    if came.kind == DATA {
        assert!(came.payload.iter().all(|byte| *byte == b'x'));
        *body += came.payload.len();
    }
    came.kind == DATA && came.flags & END_STREAM != 0
}

#[test]
fn allocations_over_http2_are_few() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let origin = origin();
    let proxy = Proxy::reverse(&origin);
    let address = proxy.address.to_string();
    let mut frames = Frames::connect(proxy.address, &[]);
    frames.send(WINDOW_UPDATE, 0, 0, &WINDOW.to_be_bytes());
    let mut stream = 1;
    let mut ask = || {
        assert!(frames.get(stream, &fields(&address)));
        stream += 2;
        let mut body = 0;
        while !is_last(&frames.read().unwrap(), &mut body) {}
        assert_eq!(body, 1000);
    };
    ask();
    proxy.has_stored(1);
    (0..200).for_each(|_| ask());
    let (hit, _) = each(ask);
    println!("allocations: {hit} of a memory hit over HTTP/2");
    assert_eq!(origin.count(), 1);
    assert!(hit <= HTTP2_HIT, "{hit} of a memory hit over HTTP/2");
}

/// Requests that come at once are answered at once: with one write, however many they are, as long as the session takes it.
#[test]
fn many_answers_are_one_write() {
    const AT_ONCE: u32 = 16;
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let origin = origin();
    let dir = tempfile::tempdir().unwrap();
    let tls = make_certificates(dir.path());
    let routes = Routes::to(format!("http://{}", origin.address).parse().unwrap());
    let proxy = Proxy::with(|config| {
        config.listeners[0].mode = Mode::Reverse(routes);
        config.listeners[0].certificates = vec![CertificateFiles { certificate: tls.certificate, key: tls.key }];
    });
    let mut roots = RootCertStore::empty();
    CertificateDer::pem_file_iter(&tls.authority).unwrap().for_each(|file| roots.add(file.unwrap()).unwrap());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let name = ServerName::try_from("localhost").unwrap();
    let tcp = TcpStream::connect(proxy.address).unwrap();
    tcp.set_nodelay(true).unwrap();
    let mut client = StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), tcp);
    let preface = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frame(4, 0, 0, &[])[..]].concat();
    client.write_all(&preface).unwrap();
    client.write_all(&frame(WINDOW_UPDATE, 0, 0, &WINDOW.to_be_bytes())).unwrap();
    let mut stream = 1;
    let authority = format!("localhost:{}", proxy.address.port());
    let mut ask = |at_once: u32| {
        let mut requests = Vec::new();
        for _ in 0..at_once {
            let fields = fields(&authority);
            let fields: Vec<_> = fields
                .into_iter()
                .map(|(name, value)| if name == ":scheme" { (name, &b"https"[..]) } else { (name, value) })
                .collect();
            requests.extend(frame(HEADERS, END_STREAM | END_HEADERS, stream, &block(&fields)));
            stream += 2;
        }
        client.write_all(&requests).unwrap();
        let (mut whole, mut body) = (0, 0);
        while whole < at_once {
            let mut head = [0; 9];
            client.read_exact(&mut head).unwrap();
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let mut payload = vec![0; length];
            client.read_exact(&mut payload).unwrap();
            let came = Frame { kind: head[3], flags: head[4], stream: 0, payload };
            whole += u32::from(is_last(&came, &mut body));
        }
        assert_eq!(body, 1000 * at_once as usize);
    };
    ask(1);
    proxy.has_stored(1);
    (0..20).for_each(|_| ask(AT_ONCE));
    // The fewest of several batches: now and then a thread is woken, or requests come in two parts.
    let writes = (0..50).map(|_| {
        let before = writes_of_proxy();
        ask(AT_ONCE);
        writes_of_proxy() - before
    });
    assert_eq!(writes.min(), Some(1), "writes for {AT_ONCE} answers");
    assert_eq!(origin.count(), 1);
}

/// A long body in memory goes out as its connection takes it, half a megabyte at a time. It was one call for each 128 KiB, which takes the system a fifth more
/// time.
#[test]
fn a_long_hit_is_few_writes() {
    const LONG: usize = 1 << 20;
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let head = format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {LONG}\r\n\r\n");
    let answer = [head.as_bytes(), &[b'x'; LONG]].concat();
    let origin = Origin::start(move |_, stream| stream.write_all(&answer).is_ok());
    let proxy = Proxy::reverse(&origin);
    let mut client = proxy.client();
    let mut ask = || {
        client.send(format!("GET /long HTTP/1.1\r\nHost: {}\r\n\r\n", proxy.address));
        assert_eq!(client.read("GET").unwrap().body.len(), LONG);
    };
    ask();
    proxy.has_stored(1);
    (0..20).for_each(|_| ask());
    // The fewest of several: a connection does not always take all at once.
    let writes = (0..50).map(|_| {
        let before = writes_of_proxy();
        ask();
        writes_of_proxy() - before
    });
    let writes = writes.min();
    println!("writes: {writes:?} for a memory hit of {LONG} bytes");
    assert!(writes.is_some_and(|writes| writes <= 4), "{writes:?}");
    assert_eq!(origin.count(), 1);
}
