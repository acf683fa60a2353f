//! A body of 2 GB of which the disk takes only the first half: every client gets every byte, nothing is stored, and the
//! proxy stays small.
//!
//! Once the disk is full the fetch goes on for those who keep up with it. Whoever is behind reads what was stored, and
//! takes the rest up at the origin by a Range. Before, a client more than 16 MiB behind its own fetch was cut off there.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::small_disk::SmallDisk;
use crate::support::tinaja::Tinaja;
use tinaja_testkit::body::Pattern;
use tinaja_testkit::origin::Origin;
use tinaja_testkit::wait::wait_for;

const BODY: u64 = 2_000_000_000;
const DISK: u64 = 1 << 30;
const GROWTH: u64 = 64 << 20;

/// Serves the body and ranges of it, halts in the middle of the whole until told to go on, and notes where ranges began.
struct Ranges {
    origin: Origin,
    sent: Arc<AtomicU64>,
    go_on: Arc<AtomicBool>,
    begun: Arc<Mutex<Vec<u64>>>,
}

impl Ranges {
    fn start() -> Ranges {
        let (sent, go_on, begun) = (Arc::default(), Arc::default(), Arc::default());
        let (count, may, note): (Arc<AtomicU64>, Arc<AtomicBool>, Arc<Mutex<Vec<u64>>>) =
            (Arc::clone(&sent), Arc::clone(&go_on), Arc::clone(&begun));
        let origin = Origin::closing(move |request, stream| {
            let range = request.head.to_ascii_lowercase();
            let range = range.split("range: bytes=").nth(1).and_then(|range| range.split('-').next()?.parse().ok());
            let start: u64 = range.unwrap_or(0);
            let head = "Cache-Control: max-age=86400\r\nETag: \"same\"\r\nConnection: close\r\n";
            match range {
                None => write!(stream, "HTTP/1.1 200 OK\r\n{head}Content-Length: {BODY}\r\n\r\n")?,
                Some(start) => {
                    note.lock().unwrap().push(start);
                    write!(stream, "HTTP/1.1 206 Partial Content\r\n{head}Content-Length: {}\r\n", BODY - start)?;
                    write!(stream, "Content-Range: bytes {start}-{}/{BODY}\r\n\r\n", BODY - 1)?;
                }
            }
            let (mut pattern, mut piece, mut at) = (Pattern::of(&request.path).from(start), vec![0; 250_000], start);
            while at < BODY {
                while range.is_none() && at >= BODY / 2 && !may.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(5));
                }
                let now = (BODY - at).min(piece.len() as u64) as usize;
                pattern.fill(&mut piece[..now]);
                stream.write_all(&piece[..now])?;
                at += now as u64;
                if range.is_none() {
                    count.store(at, Ordering::SeqCst);
                }
            }
            Ok(())
        });
        Ranges { origin, sent, go_on, begun }
    }
}

fn ask(proxy: &Tinaja, origin: &Origin, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(proxy.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let (url, host) = (origin.url(path), origin.address);
    write!(stream, "GET {url} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    stream
}

/// Reads all of it, checking every byte; for `slow` of it a megabyte a second.
fn read_all(stream: TcpStream, path: &str, slow: Duration) {
    let (mut reader, mut line) = (BufReader::with_capacity(1 << 20, stream), String::new());
    while line != "\r\n" {
        line.clear();
        assert!(reader.read_line(&mut line).unwrap() > 0, "closed amid the head");
    }
    let (mut pattern, mut piece, began) = (Pattern::of(path), vec![0; 1_000_000], Instant::now());
    for megabyte in 0..BODY / 1_000_000 {
        let read = reader.read_exact(&mut piece);
        assert!(read.is_ok(), "cut off in megabyte {megabyte}: {read:?}");
        assert!(pattern.matches(&piece), "wrong bytes in megabyte {megabyte}");
        if began.elapsed() < slow {
            std::thread::sleep(Duration::from_secs(1));
        }
    }
    assert_eq!(reader.read(&mut piece).unwrap(), 0, "more than announced");
}

#[test]
fn every_client_gets_every_byte() {
    let Some(disk) = SmallDisk::mount(DISK) else { return };
    let setup = disk.put_cache("10GiB", &["--memory", "8MiB", "--allow-destination", "127.0.0.0/8"]);
    let (ranges, path) = (Ranges::start(), format!("/{BODY}/large"));
    let origin = &ranges.origin;
    let proxy = setup.start();
    let warm = Origin::of_patterns();
    assert_eq!(proxy.get(&warm.url("/1000/warm")).unwrap().status, 200);
    let before = proxy.process.peak_memory_bytes();

    let stalled = ask(&proxy, origin, &path);
    std::thread::scope(|scope| {
        let slow = ask(&proxy, origin, &path);
        scope.spawn(|| read_all(slow, &path, Duration::from_secs(20)));
        let fast = ask(&proxy, origin, &path);
        scope.spawn(|| read_all(fast, &path, Duration::ZERO));
        let half = || (ranges.sent.load(Ordering::SeqCst) >= BODY / 2).then_some(());
        wait_for("half of it", Duration::from_secs(120), half);
        let late = ask(&proxy, origin, &path);
        scope.spawn(|| read_all(late, &path, Duration::ZERO));
        std::thread::sleep(Duration::from_millis(500));
        ranges.go_on.store(true, Ordering::SeqCst);
    });
    drop(stalled);
    let grown = proxy.process.peak_memory_bytes() - before;
    let begun = ranges.begun.lock().unwrap().clone();
    println!("the proxy grew by {} KiB; rests asked for from byte {begun:?}", grown >> 10);
    assert!(grown < GROWTH, "the proxy grew by {grown} bytes");
    // Nobody was sent what it had already, and the whole was fetched once.
    assert!(begun.iter().all(|start| *start > 0 && *start <= DISK + (64 << 20)), "{begun:?}");
    assert_eq!(origin.paths().len(), 1 + begun.len());
    assert!(!proxy.get(&warm.url("/1000/warm")).unwrap().body.is_empty(), "the service goes on");
    let mut again = String::new();
    let mut reader = BufReader::new(ask(&proxy, origin, &path));
    while !again.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut again).unwrap() > 0, "closed amid the head");
    }
    assert!(again.contains("fwd=uri-miss"), "half an object was stored: {again}");
}
