//! Hits that are overwritten on the disk while they are sent to slow clients go on from the origin.
//!
//! A log overwrites its oldest objects, also those that are being sent. A client that took a megabyte at 150 KB/s from a small and
//! busy cache lost its connection in the middle of half of such hits, while a request for a range of the same object went on from
//! the origin. Only where nothing tells that the origin still has the same bytes may an answer break off.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{Client, Origin, Proxy, eventually};
use tinaja_store::engines::{self, EngineRef};
use tinaja_store::{Cache, CacheOptions, Store, block_on};

/// More than the system holds for a connection.
const LENGTH: usize = 12_000_000;
const DISK: u64 = 64 << 20;

fn byte_at(place: usize) -> u8 {
    (place / 251 % 256) as u8 ^ (place % 251) as u8
}

/// The large object with what this says of it, as a whole or a part, and others of 4 MB that push it out.
fn origin(validator: &'static str, parts: Arc<AtomicUsize>) -> Origin {
    Origin::start(move |request, stream| {
        let fresh = "Cache-Control: max-age=600\r\n";
        if !request.path.starts_with("/large") {
            let head = format!("HTTP/1.1 200 OK\r\n{fresh}Content-Length: 4000000\r\n\r\n");
            return stream.write_all(head.as_bytes()).is_ok() && stream.write_all(&vec![7; 4_000_000]).is_ok();
        }
        let from =
            request.field("range").and_then(|range| range.strip_prefix("bytes=")?.split('-').next()?.parse().ok());
        let head = match from {
            None => format!("HTTP/1.1 200 OK\r\n{fresh}{validator}Content-Length: {LENGTH}\r\n\r\n"),
            Some(from) => {
                parts.fetch_add(1, Ordering::SeqCst);
                format!(
                    "HTTP/1.1 206 Partial Content\r\n{fresh}{validator}Content-Length: {}\r\nContent-Range: bytes {from}-{}/{LENGTH}\r\n\r\n",
                    LENGTH - from,
                    LENGTH - 1,
                )
            }
        };
        let body: Vec<u8> = (from.unwrap_or(0)..LENGTH).map(byte_at).collect();
        stream.write_all(head.as_bytes()).is_ok() && stream.write_all(&body).is_ok()
    })
}

/// What a client gets of a hit that is overwritten once its first bytes have come, and how many parts the origin was asked for.
fn overwritten(engine: EngineRef, validator: &'static str) -> (Vec<u8>, usize) {
    let dir = tempfile::tempdir().unwrap();
    let options = CacheOptions::new(dir.path().join("cache")).disk_bytes(DISK).memory_bytes(0).engine(engine);
    let store: Arc<dyn Store> = Arc::new(Cache::open(options).unwrap());
    let proxy = Proxy::over(store.clone(), |_| {});
    let parts = Arc::new(AtomicUsize::new(0));
    let origin = origin(validator, parts.clone());
    let url = origin.url("/large");
    assert_eq!(proxy.get(&url).body.len(), LENGTH);
    eventually("it is stored", || store.stats().stored == 1);
    block_on(store.flush()).unwrap();

    let mut slow = proxy.client();
    slow.send(format!("GET {url} HTTP/1.1\r\nHost: {}\r\n\r\n", origin.address));
    let head = head_of(&mut slow);
    assert!(head.contains("; hit"), "{head}");
    for number in 0..40 {
        assert_eq!(proxy.get(&origin.url(&format!("/other/{number}"))).body.len(), 4_000_000);
    }
    eventually("what came later is stored", || store.stats().stored >= 40);
    let mut body = Vec::new();
    // A connection that breaks off ends here too.
    let _ = slow.stream().take(LENGTH as u64).read_to_end(&mut body);
    assert!(body.iter().enumerate().all(|(place, byte)| *byte == byte_at(place)), "wrong bytes");
    (body, parts.load(Ordering::SeqCst))
}

/// A response's head, byte by byte, so that no more than it is read.
fn head_of(client: &mut Client) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        client.stream().read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

#[test]
fn a_slow_client_gets_the_rest_from_the_origin() {
    for engine in [engines::HASHCACHE_LOG, engines::SEGMENTED, engines::GENERATIONAL] {
        let (body, parts) = overwritten(engine, "ETag: \"1\"\r\n");
        assert_eq!(body.len(), LENGTH, "{}", engine.name);
        // Others may keep what was asked for, and have it still.
        assert!(parts == 1 || engine != engines::HASHCACHE_LOG && parts == 0, "{}: {parts}", engine.name);
    }
}

/// The origin may have another object by now, so a client that is sent its bytes would have halves of two.
#[test]
fn without_a_validator_the_client_sees_that_it_is_not_whole() {
    let (body, parts) = overwritten(engines::HASHCACHE_LOG, "");
    assert!(body.len() < LENGTH);
    assert_eq!(parts, 0);
}
