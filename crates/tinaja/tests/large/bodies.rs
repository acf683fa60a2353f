//! A body far larger than memory passes through, stored or not, and the proxy stays small.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::support::tinaja::{Setup, Tinaja};
use tinaja_testkit::body::{Pattern, body};
use tinaja_testkit::client::{Response, get_streaming};
use tinaja_testkit::halting::Halting;
use tinaja_testkit::origin::Origin;
use tinaja_testkit::wait::wait_for;

const BODY: u64 = 2_000_000_000;
const GROWTH: u64 = 64 << 20;

/// Held by each test that makes a large cache, whose disk is reserved at once: one after the other, they get by with 8 GiB.
static ROOM: Mutex<()> = Mutex::new(());

/// GET the large body through the proxy, checking every byte as it comes.
fn get_large(proxy: &Tinaja, origin: &Origin) -> Response {
    let path = format!("/{BODY}/large");
    let (mut pattern, mut len) = (Pattern::of(&path), 0);
    let response = get_streaming(proxy.address(), &origin.url(&path), "", &mut |piece| {
        assert!(pattern.matches(piece), "wrong bytes after {len}");
        len += piece.len() as u64;
    });
    assert_eq!(len, BODY);
    response.unwrap()
}

/// Twice through a cache of `disk`; the second time is a hit or not.
fn twice(disk: &str, hit: bool) {
    let _room = ROOM.lock().unwrap_or_else(PoisonError::into_inner);
    let origin = Origin::of_patterns();
    // The last of two equal flags would be refused, so nothing of the usual setup here.
    let setup = Setup::bare().flags(&["--disk", disk, "--memory", "8MiB", "--allow-destination", "127.0.0.0/8"]);
    let proxy = setup.start();
    let warm = proxy.get(&origin.url("/1000/warm")).unwrap();
    assert_eq!(warm.status, 200);
    let before = proxy.process.peak_memory_bytes();

    assert!(!get_large(&proxy, &origin).is_hit());
    let second = get_large(&proxy, &origin);
    let grown = proxy.process.peak_memory_bytes() - before;
    println!("the proxy grew by {} KiB", grown >> 10);
    assert!(grown < GROWTH, "the proxy grew by {grown} bytes");
    assert_eq!(second.is_hit(), hit, "{:?}\n{:?}", second.head, setup.access_log());
}

#[test]
fn a_body_that_fits_is_stored() {
    // The store takes objects of up to a quarter of itself.
    twice("8GiB", true);
}

#[test]
fn a_body_larger_than_the_cache_passes() {
    twice("256MiB", false);
}

/// A client that takes a megabyte a second for ten seconds, checks it, and leaves.
fn slow_client(proxy: &Tinaja, origin: &Origin, path: &str) {
    let mut reader = BufReader::new(request(proxy, origin, path));
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        assert!(reader.read_line(&mut line).unwrap() > 0, "closed amid the head");
    }
    let (mut pattern, mut piece) = (Pattern::of(path), vec![0; 1_000_000]);
    for _ in 0..10 {
        reader.read_exact(&mut piece).unwrap();
        assert!(pattern.matches(&piece));
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn request(proxy: &Tinaja, origin: &Origin, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(proxy.address()).unwrap();
    let (url, host) = (origin.url(path), origin.address);
    write!(stream, "GET {url} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    stream
}

#[test]
fn readers_of_every_kind_at_once() {
    let _room = ROOM.lock().unwrap_or_else(PoisonError::into_inner);
    let halting = Halting::start(BODY);
    let origin = &halting.origin;
    let flags = ["--disk", "8GiB", "--memory", "8MiB", "--allow-destination", "127.0.0.0/8"];
    let setup = Setup::bare().flags(&flags);
    let proxy = setup.start();
    let path = format!("/{BODY}/large");
    let warm = Origin::of_patterns();
    assert_eq!(proxy.get(&warm.url("/1000/warm")).unwrap().status, 200);
    let before = proxy.process.peak_memory_bytes();

    // The first asks and never reads; what it asked for is fetched all the same.
    let stalled = request(&proxy, origin, &path);
    let half = || (halting.sent() >= BODY / 2).then_some(());
    std::thread::scope(|scope| {
        scope.spawn(|| slow_client(&proxy, origin, &path));
        wait_for("half of it", Duration::from_secs(120), half);
        // One that comes half-way, reads all from the beginning, and then at the origin's pace.
        let late = scope.spawn(|| get_large(&proxy, origin));
        std::thread::sleep(Duration::from_millis(500));
        halting.go_on();
        assert_eq!(late.join().unwrap().status, 200);
    });
    assert!(get_large(&proxy, origin).is_hit(), "a fast one, from the cache");
    drop(stalled);
    assert_eq!(origin.paths().len(), 1);
    let grown = proxy.process.peak_memory_bytes() - before;
    println!("the proxy grew by {} KiB", grown >> 10);
    assert!(grown < GROWTH, "the proxy grew by {grown} bytes");
}

#[test]
fn a_pattern_is_the_same_in_pieces_of_any_size() {
    let whole = body("key", 1000);
    for piece in [1, 3, 7, 8, 9, 64, 999] {
        let mut pattern = Pattern::of("key");
        assert!(whole.chunks(piece).all(|chunk| pattern.matches(chunk)), "{piece}");
    }
    assert!(!Pattern::of("other").matches(&whole));
    assert!(!Pattern::of("key").matches(&whole[1..]));
}
