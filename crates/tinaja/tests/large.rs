//! A body far larger than memory passes through, stored or not, and the proxy stays small.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, missing_docs)]

mod support;

use support::body::{Pattern, body};
use support::client::{Response, get_streaming};
use support::origin::Origin;
use support::tinaja::{Setup, Tinaja};

const BODY: u64 = 2_000_000_000;
const GROWTH: u64 = 200 << 20;

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
    assert_eq!(second.is_hit(), hit, "{:?}\n{:?}", second.headers, setup.access_log());
}

#[test]
fn a_body_that_fits_is_stored() {
    // The store takes objects of up to a quarter of itself.
    twice("10GiB", true);
}

#[test]
fn a_body_larger_than_the_cache_passes() {
    twice("256MiB", false);
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
