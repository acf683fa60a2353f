//! Ranges of bytes: what a request asks for, and how a part is answered (RFC 9110 14).

use std::ops::RangeInclusive;

use http::header::{CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, RANGE};
use http::{HeaderMap, HeaderValue, Method};

use crate::edits::Edits;
use crate::limits::{MAX_RANGE_OVERLAPS, MAX_RANGES};
use crate::words::text;

/// What a request asks for of an object whose length is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// All of it: 200. So is every Range that is malformed, of another unit, or a flood (RFC 9110 14.2).
    Whole,
    /// These bytes, each range within the object: 206. At least one, at most [`MAX_RANGES`], none overlapping.
    Parts(Vec<RangeInclusive<u64>>),
    /// Nothing the object has: 416.
    None,
}

/// Reads the Range of a request for an object of `length` bytes (RFC 9110 14.1.2 and 14.2). Whether it applies at
/// all is [`crate::conditional::evaluate`]'s to say.
pub fn wanted(method: &Method, request: &HeaderMap, length: u64) -> Wanted {
    let mut lines = request.get_all(RANGE).iter();
    let (Some(line), None) = (lines.next(), lines.next()) else { return Wanted::Whole };
    // Range is defined for GET alone.
    if method != Method::GET {
        return Wanted::Whole;
    }
    let Some(asked) = specifiers(text(line)) else { return Wanted::Whole };
    let mut parts: Vec<RangeInclusive<u64>> = Vec::new();
    let mut overlaps = 0;
    for specifier in asked {
        let Some(part) = specifier.within(length) else { continue };
        // All the object's bytes, and none that Content-Range could name.
        if length == 0 {
            return Wanted::Whole;
        }
        let touching = |other: &RangeInclusive<u64>| part.start() <= other.end() && other.start() <= part.end();
        match parts.iter_mut().find(|other| touching(other)) {
            Some(other) => {
                overlaps += 1;
                *other = *part.start().min(other.start())..=*part.end().max(other.end());
            }
            None => parts.push(part),
        }
        if overlaps > MAX_RANGE_OVERLAPS {
            return Wanted::Whole;
        }
    }
    if overlap_remains(&parts) {
        return Wanted::Whole;
    }
    if parts.is_empty() { Wanted::None } else { Wanted::Parts(parts) }
}

/// Two ranges that a third one, grown, now touches: rare, odd, and not worth more than the whole.
fn overlap_remains(parts: &[RangeInclusive<u64>]) -> bool {
    let mut sorted: Vec<_> = parts.iter().map(|part| (*part.start(), *part.end())).collect();
    sorted.sort_unstable();
    sorted.windows(2).any(|pair| matches!(pair, [(_, end), (start, _)] if start <= end))
}

#[derive(Clone, Copy)]
enum Specifier {
    From(u64, Option<u64>),
    Last(u64),
}

impl Specifier {
    fn within(self, length: u64) -> Option<RangeInclusive<u64>> {
        match self {
            Specifier::From(first, last) => {
                let last = last.unwrap_or(u64::MAX).min(length.saturating_sub(1));
                (first < length).then_some(first..=last)
            }
            Specifier::Last(0) => None,
            Specifier::Last(count) => Some(length.saturating_sub(count)..=length.saturating_sub(1)),
        }
    }
}

/// `bytes=0-499, -500`; `None` if any of it is malformed, of another unit, or too much.
fn specifiers(value: &str) -> Option<Vec<Specifier>> {
    let (unit, set) = value.split_once('=')?;
    if !unit.eq_ignore_ascii_case("bytes") {
        return None;
    }
    let mut specifiers = Vec::new();
    for member in set.split(',').map(|member| member.trim_matches([' ', '\t'])).filter(|member| !member.is_empty()) {
        let (first, last) = member.split_once('-')?;
        let specifier = match (first, last) {
            ("", last) => Specifier::Last(number(last)?),
            (first, "") => Specifier::From(number(first)?, None),
            (first, last) => {
                // A range that ends before it begins makes the whole set invalid (RFC 9110 14.1.1).
                let specifier = Specifier::From(number(first)?, Some(number(last)?));
                in_order(first, last).then_some(specifier)?
            }
        };
        if specifiers.len() == MAX_RANGES {
            return None;
        }
        specifiers.push(specifier);
    }
    (!specifiers.is_empty()).then_some(specifiers)
}

/// Digits only; what does not fit lies past the end of everything.
fn number(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().unwrap_or(u64::MAX))
}

/// Whether one number of any length is no larger than another.
fn in_order(first: &str, last: &str) -> bool {
    let (first, last) = (first.trim_start_matches('0'), last.trim_start_matches('0'));
    (first.len(), first) <= (last.len(), last)
}

/// A Content-Range (RFC 9110 14.4) of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContentRange {
    /// What a 206 holds.
    Part {
        /// The first and the last byte, within the whole.
        bytes: RangeInclusive<u64>,
        /// Bytes of the whole, where they are known.
        whole: Option<u64>,
    },
    /// What a 416 says of the whole: its bytes.
    Unsatisfied(u64),
}

impl ContentRange {
    /// Reads the field; `None` where it is malformed, of another unit, contradicts itself, or holds numbers past
    /// 2^63, which no object has.
    pub fn parse(value: &HeaderValue) -> Option<ContentRange> {
        let (unit, rest) = text(value).trim().split_once(' ')?;
        let (part, whole) = rest.split_once('/')?;
        if !unit.eq_ignore_ascii_case("bytes") {
            return None;
        }
        let sane = |text: &str| number(text).filter(|number| *number <= i64::MAX as u64);
        if part == "*" {
            return sane(whole).map(ContentRange::Unsatisfied);
        }
        let whole = if whole == "*" { None } else { Some(sane(whole)?) };
        let (first, last) = part.split_once('-')?;
        let (first, last) = (sane(first)?, sane(last)?);
        let valid = first <= last && whole.is_none_or(|whole| last < whole);
        valid.then_some(ContentRange::Part { bytes: first..=last, whole })
    }
}

/// The fields that turn the head of a whole object into that of one part of it: status 206 (RFC 9110 15.3.7.1).
pub fn part_edits(part: &RangeInclusive<u64>, length: u64) -> Edits {
    let mut edits = Edits::default();
    edits.set(CONTENT_LENGTH, byte_count(part));
    edits.set(CONTENT_RANGE, content_range(part, length));
    edits
}

/// The fields of an answer that no byte fits: status 416 (RFC 9110 15.5.17), without a body.
pub fn unsatisfied_edits(length: u64) -> Edits {
    let mut edits = Edits::default();
    edits.remove(CONTENT_TYPE);
    edits.remove(http::header::CONTENT_ENCODING);
    edits.set(CONTENT_LENGTH, 0);
    edits.set(CONTENT_RANGE, format!("bytes */{length}"));
    edits
}

pub(crate) fn byte_count(part: &RangeInclusive<u64>) -> u64 {
    part.end().saturating_sub(*part.start()).saturating_add(1)
}

pub(crate) fn content_range(part: &RangeInclusive<u64>, length: u64) -> String {
    format!("bytes {}-{}/{length}", part.start(), part.end())
}

#[cfg(test)]
#[path = "range_tests.rs"]
mod tests;
