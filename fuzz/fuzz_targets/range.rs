//! Ranges: never outside the object, never overlapping, never too many; for small objects exactly the bytes that a
//! naive reader finds.
#![no_main]

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use http::header::RANGE;
use http::{HeaderMap, HeaderValue, Method};
use tinaja_http::limits::MAX_RANGES;
use tinaja_http::multipart::Multipart;
use tinaja_http::partial::Pieces;
use tinaja_http::range::{ContentRange, Wanted, part_edits, wanted};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((length, text)) = data.split_first() else { return };
    let Ok(value) = HeaderValue::from_bytes(text) else { return };
    if let Some(ContentRange::Part { bytes, whole }) = ContentRange::parse(&value) {
        assert!(bytes.start() <= bytes.end() && whole.is_none_or(|whole| *bytes.end() < whole));
    }
    let mut request = HeaderMap::new();
    request.insert(RANGE, value);
    for length in [u64::from(*length) % 64, u64::MAX >> (length % 64)] {
        let found = wanted(&Method::GET, &request, length);
        if let Wanted::Parts(parts) = &found {
            check(parts, length);
        }
        if length < 64 {
            compare(&found, text, length);
        }
    }
});

fn check(parts: &[RangeInclusive<u64>], length: u64) {
    assert!((1..=MAX_RANGES).contains(&parts.len()));
    assert!(parts.iter().all(|part| part.start() <= part.end() && *part.end() < length), "{parts:?} of {length}");
    let mut sorted: Vec<_> = parts.iter().map(|part| (*part.start(), *part.end())).collect();
    sorted.sort();
    assert!(sorted.windows(2).all(|pair| pair[0].1 < pair[1].0), "{parts:?} overlap");
    let mut pieces = Pieces::default();
    for part in parts {
        pieces.add(part.clone()).unwrap();
        assert!(pieces.cover(part) && pieces.missing(part).is_empty());
        let mut head = HeaderMap::new();
        part_edits(part, length).apply(&mut head);
        assert!(ContentRange::parse(&head["content-range"]).is_some() || length > i64::MAX as u64);
    }
    let mut head = HeaderMap::new();
    Multipart::new(&head, length, 7).edits(parts).apply(&mut head);
    assert_eq!(head.len(), 2);
}

/// The bytes that a Range names, one by one; nothing if it is malformed.
fn compare(found: &Wanted, text: &[u8], length: u64) {
    let Some(set) = named(text, length) else { return assert_eq!(*found, Wanted::Whole) };
    match found {
        // Floods and overlaps are ignored, and an empty object has no parts.
        Wanted::Whole => assert!(length == 0 || text.iter().filter(|byte| **byte == b'-').count() > 2),
        Wanted::None => assert!(set.is_empty()),
        Wanted::Parts(parts) => assert_eq!(parts.iter().cloned().flatten().collect::<BTreeSet<_>>(), set),
    }
}

fn named(text: &[u8], length: u64) -> Option<BTreeSet<u64>> {
    let text = std::str::from_utf8(text).ok()?;
    let set = text.get(6..).filter(|_| text[..6].eq_ignore_ascii_case("bytes="))?;
    let members = set.split(',').map(|member| member.trim_matches([' ', '\t'])).filter(|member| !member.is_empty());
    let number = |digits: &str| -> Option<u128> {
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| digits.parse().unwrap_or(u128::MAX))
    };
    let mut bytes = BTreeSet::new();
    let mut any = false;
    for member in members {
        any = true;
        let dash = member.find('-')?;
        let (first, last) = (&member[..dash], &member[dash + 1..]);
        if !first.is_empty() && !last.is_empty() && format!("{first:0>4096}") > format!("{last:0>4096}") {
            return None;
        }
        let last = if last.is_empty() && !first.is_empty() { u128::MAX } else { number(last)? };
        let first = if first.is_empty() { None } else { Some(number(first)?) };
        bytes.extend((0..length).filter(|byte| {
            let byte = u128::from(*byte);
            first.map_or(byte.saturating_add(last) >= u128::from(length), |first| first <= byte && byte <= last)
        }));
    }
    any.then_some(bytes)
}
