//! Ranges of a stored object of two gigabytes: read where they are, and nothing else.

use std::io::Write;
use std::sync::Arc;

use crate::support::{Origin, Proxy};
use tinaja_store::{Cache, CacheOptions, Store, block_on};

const LENGTH: u64 = 2_000_000_000;
const PIECE: usize = 1_000_000;

/// The byte at a place of the object.
fn byte_at(place: u64) -> u8 {
    (place / 251 % 256) as u8 ^ (place % 251) as u8
}

fn bytes_at(start: u64, length: u64) -> Vec<u8> {
    (start..start + length).map(byte_at).collect()
}

fn origin() -> Origin {
    Origin::start(|_, stream| {
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\nCache-Control: max-age=600\r\nETag: \"1\"\r\n\
             Last-Modified: Sat, 21 Nov 2026 00:00:00 GMT\r\nContent-Type: text/plain\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        (0..LENGTH / PIECE as u64).all(|piece| stream.write_all(&bytes_at(piece * PIECE as u64, PIECE as u64)).is_ok())
    })
}

#[test]
fn ranges_are_read_by_seek() {
    let dir = tempfile::tempdir().unwrap();
    let options = CacheOptions::new(dir.path().join("cache")).disk_bytes(8 << 30).memory_bytes(1 << 20);
    let store: Arc<dyn Store> = Arc::new(Cache::open(options).unwrap());
    let proxy = Proxy::over(store.clone(), |_| {});
    let (origin, mut length) = (origin(), 0);
    let url = origin.url("/image");
    let mut client = proxy.client();
    client.send(format!("GET {url} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", origin.address));
    while length < LENGTH {
        // The head is in the way of the first piece only; what follows is checked by the ranges below.
        client.read_bytes(PIECE);
        length += PIECE as u64;
    }
    crate::support::eventually("it is stored", || store.stats().stored == 1);
    block_on(store.flush()).unwrap();

    for (range, start, wanted, most_reads) in [
        ("1999999900-", LENGTH - 100, 100, 3),
        ("-1000", LENGTH - 1000, 1000, 3),
        ("1999000000-1999000999", 1_999_000_000, 1000, 3),
        ("0-99", 0, 100, 3),
        ("1000000000-1000131071", 1_000_000_000, 131_072, 3),
        // All of the last MiB lies in five extents of 256 KiB, which lie together.
        ("-1048576", LENGTH - 1_048_576, 1_048_576, 3),
    ] {
        let before = store.stats();
        let part = proxy.get_with(&url, &format!("Range: bytes={range}\r\n"));
        let after = store.stats();
        let (reads, bytes) = (after.reads - before.reads, after.read_bytes - before.read_bytes);
        println!("{range}: {reads} reads of {bytes} bytes in all");
        assert!(part.status == 206 && part.is_hit() && part.whole, "{}", part.head);
        assert!(part.body == bytes_at(start, wanted), "{range}: wrong bytes");
        assert_eq!(part.field("content-range"), format!("bytes {start}-{}/{LENGTH}", start + wanted - 1));
        assert!(reads <= most_reads, "{range}: {reads} reads");
    }
    let before = store.stats().reads;
    let head = proxy.request("HEAD", &url, "");
    assert!(head.is_hit() && head.field("content-length") == LENGTH.to_string(), "{}", head.head);
    // Its length is known from the table; a head takes no byte of the body.
    assert!(store.stats().reads - before <= 3, "{} reads", store.stats().reads - before);
    several_ranges(&proxy, &url, &store);
    conditions(&proxy, &url);
    assert_eq!(origin.count(), 1);
}

fn several_ranges(proxy: &Proxy, url: &str, store: &Arc<dyn Store>) {
    let before = store.stats().reads;
    let parts = proxy.get_with(url, "Range: bytes=10-19,1000000000-1000000009,-10\r\n");
    println!("three ranges: {} reads", store.stats().reads - before);
    assert!(parts.status == 206 && parts.whole && parts.is_hit(), "{}", parts.head);
    assert!(store.stats().reads - before <= 5, "{} reads", store.stats().reads - before);
    let boundary = parts.field("content-type").strip_prefix("multipart/byteranges; boundary=").unwrap().to_owned();
    let mut expected = Vec::new();
    for start in [10, 1_000_000_000, LENGTH - 10] {
        let range = format!("Content-Range: bytes {start}-{}/{LENGTH}", start + 9);
        expected.extend(format!("\r\n--{boundary}\r\nContent-Type: text/plain\r\n{range}\r\n\r\n").into_bytes());
        expected.extend(bytes_at(start, 10));
    }
    expected.extend(format!("\r\n--{boundary}--\r\n").into_bytes());
    assert!(parts.body == expected, "{}", String::from_utf8_lossy(&parts.body));
}

fn conditions(proxy: &Proxy, url: &str) {
    for range in ["2000000000-", "-0"] {
        let none = proxy.get_with(url, &format!("Range: bytes={range}\r\n"));
        assert_eq!((none.status, none.body.len(), none.is_hit()), (416, 0, true), "{range}: {}", none.head);
        assert_eq!(none.field("content-range"), "bytes */2000000000");
    }
    for (if_range, status) in [
        ("\"1\"", 206),
        ("\"2\"", 200),
        ("W/\"1\"", 200),
        ("Sat, 21 Nov 2026 00:00:00 GMT", 206),
        ("Sat, 21 Nov 2026 00:00:01 GMT", 200),
    ] {
        let mut client = proxy.client();
        let host = url.split('/').nth(2).unwrap();
        client.send(format!("GET {url} HTTP/1.1\r\nHost: {host}\r\nRange: bytes=0-9\r\nIf-Range: {if_range}\r\n\r\n"));
        assert_eq!(client.read_bytes(12), format!("HTTP/1.1 {status}").as_bytes(), "{if_range}");
    }
}
