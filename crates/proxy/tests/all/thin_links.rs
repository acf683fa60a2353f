//! A client that wants a head or a part moves a head or a part from the origin, and no more.

use std::io::Write;
use std::net::TcpStream;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::{Origin, Proxy, Request, eventually, reply};
use tinaja_store::{Cache, CacheOptions, Store};

const FRESH: &str = "Cache-Control: max-age=60\r\nETag: \"1\"\r\n";

/// Answers requests for `length` bytes of `x` as a file server does; bytes of body are counted as they are sent.
fn serve_file(request: &Request, stream: &mut TcpStream, length: u64, fields: &str, sent: &AtomicU64) -> bool {
    let asked = request.field("range").map(|range| {
        let (first, last) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
        let end = last.parse::<u64>().map_or(length, |last| (last + 1).min(length));
        match first.parse::<u64>() {
            Ok(first) => first..end,
            Err(_) => length - last.parse::<u64>().unwrap()..length,
        }
    });
    let (status, range) = asked.clone().map_or((200, 0..length), |range| (206, range));
    let Range { start, end } = range;
    let mut head = format!("HTTP/1.1 {status} Status\r\nContent-Length: {}\r\n{fields}", end - start);
    if asked.is_some() {
        head += &format!("Content-Range: bytes {start}-{}/{length}\r\n", end - 1);
    }
    let mut written = stream.write_all(format!("{head}\r\n").as_bytes());
    let mut left = if request.method == "HEAD" { 0 } else { end - start };
    while left > 0 && written.is_ok() {
        let piece = left.min(100_000);
        written = stream.write_all(&vec![b'x'; piece as usize]);
        sent.fetch_add(piece, Ordering::SeqCst);
        left -= piece;
    }
    written.is_ok()
}

/// An origin of one file, and how many bytes of body it has sent.
fn file(length: u64, fields: &'static str) -> (Origin, Arc<AtomicU64>) {
    let sent = Arc::new(AtomicU64::new(0));
    let count = sent.clone();
    (Origin::start(move |request, stream| serve_file(request, stream, length, fields, &count)), sent)
}

#[test]
fn a_head_and_a_range_of_two_gigabytes_move_what_was_asked() {
    let (origin, sent) = file(2_000_000_000, FRESH);
    let proxy = Proxy::forward();
    let url = origin.url("/image");
    let head = proxy.request("HEAD", &url, "");
    assert_eq!((head.status, head.field("content-length").as_str()), (200, "2000000000"));
    assert_eq!(sent.load(Ordering::SeqCst), 0);
    // The last is part of the one before, which is stored by then.
    for (range, length, moved) in [("0-99", 100, 100), ("1999999000-", 1000, 1000), ("-10", 10, 0)] {
        let before = sent.load(Ordering::SeqCst);
        let part = proxy.get_with(&url, &format!("Range: bytes={range}\r\n"));
        assert_eq!((part.status, part.body.len()), (206, length), "{}", part.head);
        assert_eq!(part.field("cache-status").ends_with("stored"), moved > 0, "{}", part.head);
        std::thread::sleep(std::time::Duration::from_millis(200));
        assert_eq!(sent.load(Ordering::SeqCst) - before, moved, "{range}");
    }
    assert_eq!(origin.count(), 3);
}

#[test]
fn small_objects_are_fetched_whole_behind_a_part() {
    let (origin, sent) = file(100_000, FRESH);
    let proxy = Proxy::forward();
    let url = origin.url("/archive");
    let part = proxy.get_with(&url, "Range: bytes=500-599\r\nIf-Range: \"1\"\r\n");
    assert_eq!((part.status, part.body.len()), (206, 100), "{}", part.head);
    eventually("the whole is stored", || proxy.store.stats().stored == 1);
    assert_eq!((origin.count(), sent.load(Ordering::SeqCst)), (2, 100_100));
    assert_eq!(origin.requests()[1].field("range"), None);
    assert_eq!(origin.requests()[1].field("if-range"), None);
    for (range, length) in [("99990-", 10), ("0-9", 10), ("-1", 1)] {
        let part = proxy.get_with(&url, &format!("Range: bytes={range}\r\n"));
        assert!(part.is_hit() && part.status == 206 && part.body.len() == length, "{}", part.head);
    }
    assert!(proxy.get(&url).is_hit());
    assert_eq!(origin.count(), 2);
}

#[test]
fn what_is_not_worth_it_is_not_fetched() {
    // Where a part is stored, its head is there for the HEAD.
    for (length, fields, below, range, requests) in [
        (100_000, FRESH, 99_999, "Range: bytes=0-9\r\n", 1),
        (100_000, FRESH, 0, "Range: bytes=0-9\r\n", 1),
        (100_000, "Cache-Control: no-store\r\n", 1 << 20, "Range: bytes=0-9\r\n", 2),
        (100_000, "Cache-Control: private\r\n", 1 << 20, "Range: bytes=0-9\r\n", 2),
        (100_000, FRESH, 1 << 20, "Range: bytes=0-9\r\nCache-Control: no-store\r\n", 2),
    ] {
        let (origin, sent) = file(length, fields);
        let proxy = Proxy::with(|config| config.limits.fill_range_below = below);
        assert_eq!(proxy.get_with(&origin.url("/"), range).status, 206);
        assert_eq!(proxy.request("HEAD", &origin.url("/"), "").status, 200);
        std::thread::sleep(std::time::Duration::from_millis(200));
        assert_eq!((origin.count(), sent.load(Ordering::SeqCst)), (requests, 10), "{fields} {below}");
    }
}

#[test]
fn a_range_of_everything_fills_the_cache() {
    let (origin, sent) = file(3_000_000, FRESH);
    let proxy = Proxy::forward();
    let url = origin.url("/video");
    for hit in [false, true] {
        let all = proxy.get_with(&url, "Range: bytes=0-\r\n");
        assert_eq!((all.status, all.body.len(), all.is_hit()), (206, 3_000_000, hit), "{}", all.head);
        assert_eq!(all.field("content-range"), "bytes 0-2999999/3000000");
    }
    assert_eq!((origin.count(), sent.load(Ordering::SeqCst)), (1, 3_000_000));
}

#[test]
fn what_the_store_does_not_take_passes() {
    let dir = tempfile::tempdir().unwrap();
    let options = CacheOptions::new(dir.path().join("cache")).disk_bytes(16 << 20);
    let store: Arc<dyn Store> = Arc::new(Cache::open(options).unwrap());
    let most = store.max_object_bytes();
    assert!((1 << 20..16 << 20).contains(&most), "{most}");
    let proxy = Proxy::over(store, |_| {});
    for (length, stored) in [(most, true), (most + 1, false)] {
        let (origin, _) = file(length, FRESH);
        let response = proxy.get(&origin.url("/"));
        assert!(response.whole && response.body.len() as u64 == length, "{}", response.head);
        assert_eq!(response.field("cache-status").contains("stored"), stored, "{}", response.head);
        assert_eq!(proxy.get(&origin.url("/")).is_hit(), stored);
    }
}

#[test]
fn ranges_of_what_is_being_fetched() {
    // Ten pieces, the last of which the origin holds back until it has been asked for a part.
    let asked = Arc::new(AtomicU64::new(0));
    let seen = asked.clone();
    let origin = Origin::start(move |request, stream| {
        if request.field("range").is_some() {
            let answered = reply(stream, request, 206, "Content-Range: bytes 999990-999999/1000000\r\n", &[b'y'; 10]);
            seen.store(1, Ordering::SeqCst);
            return answered;
        }
        stream.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n{FRESH}\r\n").as_bytes()).unwrap();
        stream.write_all(&[b'x'; 900_000]).unwrap();
        while seen.load(Ordering::SeqCst) == 0 {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        stream.write_all(&[b'x'; 100_000]).is_ok()
    });
    let proxy = Proxy::forward();
    let url = origin.url("/");
    let mut first = proxy.client();
    first.send(format!("GET {url} HTTP/1.1\r\nHost: {}\r\n\r\n", origin.address));
    eventually("it is being fetched", || {
        proxy.get_with(&url, "Range: bytes=800000-800009\r\nCache-Control: only-if-cached\r\n").status == 206
    });
    assert_eq!(origin.count(), 1, "what has arrived comes from the cache");
    let late = proxy.get_with(&url, "Range: bytes=-10\r\n");
    assert_eq!((late.status, late.text().as_str()), (206, "yyyyyyyyyy"), "what has not, from the origin");
    assert!(first.read("GET").unwrap().whole);
    assert_eq!(origin.count(), 2);
    assert_eq!(proxy.get_with(&url, "Range: bytes=-10\r\n").text(), "xxxxxxxxxx");
}

/// The length of the whole is what the origin says it is. One that says so and sends without end, or just has another
/// object now, must not fill the link with what nobody asked for.
#[test]
fn an_object_that_is_not_as_small_as_it_was_said_to_be() {
    let ended = Arc::new(AtomicU64::new(0));
    let (end, limit) = (ended.clone(), 2_000_000_000);
    let origin = Origin::start(move |request, stream| {
        if request.field("range").is_some() {
            return reply(stream, request, 206, &format!("Content-Range: bytes 0-9/1000\r\n{FRESH}"), &[b'x'; 10]);
        }
        let sent = AtomicU64::new(0);
        let whole = serve_file(request, stream, limit, FRESH, &sent);
        end.store(sent.load(Ordering::SeqCst), Ordering::SeqCst);
        whole
    });
    let proxy = Proxy::forward();
    assert_eq!(proxy.get_with(&origin.url("/"), "Range: bytes=0-9\r\n").status, 206);
    eventually("the errand is over", || ended.load(Ordering::SeqCst) > 0);
    assert!(ended.load(Ordering::SeqCst) < limit, "all of it was fetched");
    assert_eq!(proxy.store.stats().stored, 0);
}
