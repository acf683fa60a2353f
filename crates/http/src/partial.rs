//! Objects of which only pieces are stored (RFC 9111 3.3 and 3.4).

use std::ops::RangeInclusive;
use std::time::SystemTime;

use http::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG, LAST_MODIFIED};
use http::{HeaderMap, HeaderValue};

use crate::conditional::{strong_date, strong_etag};
use crate::edits::Edits;
use crate::limits::MAX_PIECES;
use crate::range::ContentRange;
use crate::validate::update;

/// Which bytes of an object are there. Holds at most [`MAX_PIECES`] ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pieces {
    /// In order, neither overlapping nor touching.
    ranges: Vec<RangeInclusive<u64>>,
}

/// There are [`MAX_PIECES`] pieces, and one more touches none of them: it is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the object has {MAX_PIECES} separate pieces in the cache already; another one is not kept")]
pub struct TooManyPieces;

impl Pieces {
    /// Adds bytes, joining them with what they overlap or touch.
    pub fn add(&mut self, bytes: RangeInclusive<u64>) -> Result<(), TooManyPieces> {
        if bytes.is_empty() {
            return Ok(());
        }
        let before = |piece: &RangeInclusive<u64>| piece.end().saturating_add(1) < *bytes.start();
        let from = self.ranges.iter().take_while(|piece| before(piece)).count();
        let touching = |piece: &&RangeInclusive<u64>| *piece.start() <= bytes.end().saturating_add(1);
        let to = from + self.ranges.iter().skip(from).take_while(touching).count();
        if from == to && self.ranges.len() == MAX_PIECES {
            return Err(TooManyPieces);
        }
        let joined = self.ranges.get(from..to).unwrap_or_default();
        let start = joined.first().map_or(*bytes.start(), |first| *first.start().min(bytes.start()));
        let end = joined.last().map_or(*bytes.end(), |last| *last.end().max(bytes.end()));
        self.ranges.splice(from..to, [start..=end]);
        Ok(())
    }

    /// Whether all of these bytes are there.
    pub fn cover(&self, bytes: &RangeInclusive<u64>) -> bool {
        bytes.is_empty() || self.ranges.iter().any(|piece| piece.start() <= bytes.start() && bytes.end() <= piece.end())
    }

    /// Whether all of an object of `length` bytes is there.
    pub fn are_whole(&self, length: u64) -> bool {
        length.checked_sub(1).is_none_or(|last| self.cover(&(0..=last)))
    }

    /// The bytes of a range that are not there, in order.
    pub fn missing(&self, bytes: &RangeInclusive<u64>) -> Vec<RangeInclusive<u64>> {
        let mut missing = Vec::new();
        let mut next = *bytes.start();
        for piece in self.ranges.iter().filter(|piece| piece.end() >= bytes.start() && piece.start() <= bytes.end()) {
            if let Some(last) = piece.start().checked_sub(1).filter(|last| next <= *last) {
                missing.push(next..=last);
            }
            match piece.end().checked_add(1) {
                Some(behind) => next = behind,
                None => return missing,
            }
        }
        if next <= *bytes.end() {
            missing.push(next..=*bytes.end());
        }
        missing
    }
}

/// What tells the bytes of an object from those of any other version of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version<'a> {
    /// A strong entity tag.
    Tag(&'a HeaderValue),
    /// A Last-Modified that is a strong validator, where there is no entity tag.
    Date(&'a HeaderValue),
}

impl<'a> Version<'a> {
    /// The version that a response is of; `None` where nothing tells. Beside an entity tag a date does not count, for If-Range could not
    /// ask by it (RFC 9110 13.1.5). `now` decides the century of two-digit years only.
    pub fn of(response: &'a HeaderMap, now: SystemTime) -> Option<Version<'a>> {
        match response.get(ETAG) {
            Some(tag) => strong_etag(response).map(|_| Version::Tag(tag)),
            None => strong_date(response, now).and(response.get(LAST_MODIFIED)).map(Version::Date),
        }
    }

    /// What asks in If-Range whether there is still this one.
    pub fn validator(&self) -> &'a HeaderValue {
        match self {
            Version::Tag(value) | Version::Date(value) => value,
        }
    }
}

/// Which bytes of which object a 206 brings, if it may be combined with stored pieces of an object with these fields
/// and this length (RFC 9111 3.4): one range, the same [`Version`], no other length, and a Content-Length that
/// does not contradict the range.
pub fn fits(
    stored: &HeaderMap,
    stored_length: Option<u64>,
    response: &HeaderMap,
    now: SystemTime,
) -> Option<RangeInclusive<u64>> {
    let same = Version::of(stored, now)? == Version::of(response, now)?;
    let mut lines = response.get_all(CONTENT_RANGE).iter();
    let (line, None) = (lines.next()?, lines.next()) else { return None };
    let ContentRange::Part { bytes, whole } = ContentRange::parse(line)? else { return None };
    let same_length = match (stored_length, whole) {
        (Some(stored), Some(new)) => stored == new,
        (Some(stored), None) => *bytes.end() < stored,
        (None, _) => true,
    };
    let count = bytes.end() - bytes.start() + 1;
    let announced = response.get(CONTENT_LENGTH).is_none_or(|length| length.as_bytes() == count.to_string().as_bytes());
    (same && same_length && announced).then_some(bytes)
}

/// The Last-Modified that a 206 to an If-Range with that date leaves out: an origin sends it only if that is what it still has (RFC 9110
/// 13.1.5), and need not say again what was asked by (RFC 9110 15.3.7). `None` where nothing is left out, where the answer was asked for by an
/// entity tag, which it would have to say, or where it does not say that the whole is as long as before.
pub fn left_out<'a>(
    stored: &'a HeaderMap,
    stored_length: Option<u64>,
    response: &HeaderMap,
    now: SystemTime,
) -> Option<&'a HeaderValue> {
    let Version::Date(asked_by) = Version::of(stored, now)? else { return None };
    if response.contains_key(ETAG) || response.contains_key(LAST_MODIFIED) {
        return None;
    }
    let ContentRange::Part { whole: Some(whole), .. } = ContentRange::parse(response.get(CONTENT_RANGE)?)? else {
        return None;
    };
    (stored_length == Some(whole)).then_some(asked_by)
}

/// The changes in the stored fields once a part has been combined with what was there: those of an update (RFC 9111
/// 3.4 and 3.2), and the length of the whole instead of a part's.
pub fn combined(response: &HeaderMap, received: SystemTime, length: u64) -> Edits {
    let mut edits = update(response, received);
    edits.remove(CONTENT_RANGE);
    edits.set(CONTENT_LENGTH, length);
    edits
}

#[cfg(test)]
mod tests {
    use http::HeaderName;
    use proptest::prelude::*;

    use super::*;

    fn headers(fields: &[(&str, &str)]) -> HeaderMap {
        fields.iter().map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn parts_of_one_object() {
        let tag = ("etag", "\"a\"");
        let part = |range| ("content-range", range);
        for (stored, length, response, expected) in [
            (vec![tag], Some(10), vec![tag, part("bytes 2-4/10")], Some(2..=4)),
            (vec![tag], None, vec![tag, part("bytes 2-4/10")], Some(2..=4)),
            (vec![tag], Some(10), vec![tag, part("bytes 2-4/*")], Some(2..=4)),
            (vec![tag], Some(10), vec![tag, part("bytes 2-4/10"), ("content-length", "3")], Some(2..=4)),
            (vec![tag], Some(10), vec![tag, part("bytes 2-4/10"), ("content-length", "4")], None),
            (vec![tag], Some(11), vec![tag, part("bytes 2-4/10")], None),
            (vec![tag], Some(4), vec![tag, part("bytes 2-4/*")], None),
            (vec![tag], Some(10), vec![("etag", "\"b\""), part("bytes 2-4/10")], None),
            (vec![("etag", "W/\"a\"")], Some(10), vec![("etag", "W/\"a\""), part("bytes 2-4/10")], None),
            (vec![], Some(10), vec![part("bytes 2-4/10")], None),
            (vec![tag], Some(10), vec![tag], None),
            (vec![tag], Some(10), vec![tag, part("bytes */10")], None),
            (vec![tag], Some(10), vec![tag, part("bytes 2-4/10"), part("bytes 5-6/10")], None),
            (vec![tag], Some(10), vec![tag, part("bytes 0-9223372036854775807/*")], None),
        ] {
            let now = SystemTime::UNIX_EPOCH;
            assert_eq!(fits(&headers(&stored), length, &headers(&response), now), expected, "{response:?}");
        }
        let mut head = headers(&[tag, part("bytes 0-1/10"), ("content-length", "2"), ("a", "1")]);
        let new = headers(&[tag, part("bytes 2-9/10"), ("content-length", "8"), ("a", "2"), ("date", "x")]);
        combined(&new, SystemTime::UNIX_EPOCH, 10).apply(&mut head);
        assert_eq!(head, headers(&[tag, ("content-length", "10"), ("a", "2"), ("date", "x")]));
    }

    #[test]
    fn what_an_answer_to_if_range_leaves_out() {
        let (modified, date) =
            (("last-modified", "Wed, 25 Nov 2026 00:00:00 GMT"), ("date", "Thu, 26 Nov 2026 00:00:00 GMT"));
        let (tag, part) = (("etag", "\"a\""), ("content-range", "bytes 2-4/10"));
        let soon = ("date", "Wed, 25 Nov 2026 00:00:59 GMT");
        for (stored, length, response, expected) in [
            (vec![modified, date], Some(10), vec![part, date], true),
            (vec![modified, date], Some(10), vec![part], true),
            (vec![modified, date], Some(11), vec![part, date], false),
            (vec![modified, date], None, vec![part, date], false),
            (vec![modified, date], Some(10), vec![("content-range", "bytes 2-4/*"), date], false),
            (vec![modified, date], Some(10), vec![("content-range", "bytes */10"), date], false),
            (vec![modified, date], Some(10), vec![date], false),
            (vec![modified, date], Some(10), vec![part, date, modified], false),
            (vec![modified, date], Some(10), vec![part, date, ("last-modified", "x")], false),
            (vec![modified, date], Some(10), vec![part, date, tag], false),
            (vec![tag, modified, date], Some(10), vec![part, date], false),
            (vec![modified, soon], Some(10), vec![part, date], false),
            (vec![date], Some(10), vec![part, date], false),
        ] {
            let stored = headers(&stored);
            let found = left_out(&stored, length, &headers(&response), SystemTime::UNIX_EPOCH);
            assert_eq!(found, stored.get(LAST_MODIFIED).filter(|_| expected), "{stored:?} {length:?} {response:?}");
        }
    }

    #[test]
    fn versions() {
        let (modified, soon) =
            (("last-modified", "Thu, 26 Nov 2026 00:00:00 GMT"), ("date", "Thu, 26 Nov 2026 00:00:59 GMT"));
        let (later, other) =
            (("date", "Thu, 26 Nov 2026 00:01:00 GMT"), ("last-modified", "Wed, 25 Nov 2026 00:00:00 GMT"));
        let of = |fields: &[(&str, &str)]| {
            let fields = headers(fields);
            Version::of(&fields, SystemTime::UNIX_EPOCH).map(|version| version.validator().clone())
        };
        for (fields, told) in [
            (vec![("etag", "\"a\"")], Some("\"a\"")),
            (vec![("etag", "\"a\""), modified, later], Some("\"a\"")),
            (vec![modified, later], Some(modified.1)),
            (vec![modified, soon], None),
            (vec![modified], None),
            (vec![("etag", "W/\"a\""), modified, later], None),
            (vec![("etag", "a"), modified, later], None),
            (vec![("etag", "\"a\""), ("etag", "\"b\"")], None),
            (vec![later], None),
        ] {
            assert_eq!(of(&fields).as_ref().map(|value| value.to_str().unwrap()), told, "{fields:?}");
        }
        let same = |one: &[(&str, &str)], other: &[(&str, &str)]| {
            let (one, other) = (headers(one), headers(other));
            Version::of(&one, SystemTime::UNIX_EPOCH) == Version::of(&other, SystemTime::UNIX_EPOCH)
        };
        assert!(same(&[modified, later], &[modified, ("date", "Fri, 27 Nov 2026 00:00:00 GMT")]));
        assert!(!same(&[modified, later], &[other, later]) && !same(&[modified, later], &[("etag", modified.1)]));
    }

    #[test]
    fn bounded() {
        let mut pieces = Pieces::default();
        for n in 0..MAX_PIECES as u64 {
            pieces.add(n * 2..=n * 2).unwrap();
        }
        assert_eq!(pieces.add(1000..=1000), Err(TooManyPieces));
        assert_eq!(pieces.add(1..=1), Ok(()));
        assert_eq!(pieces.add(1000..=1000), Ok(()));
        assert!(!pieces.are_whole(4) && pieces.are_whole(3) && pieces.are_whole(0));
        pieces.add(0..=u64::MAX).unwrap();
        assert_eq!(pieces.missing(&(0..=u64::MAX)), []);
    }

    proptest! {
        #[test]
        fn as_a_set_of_bytes(added in proptest::collection::vec((0u64..40, 0u64..12), 0..12), asked in (0u64..40, 0u64..12)) {
            let mut pieces = Pieces::default();
            let mut bytes = std::collections::BTreeSet::new();
            for (start, count) in added {
                pieces.add(start..=start + count).unwrap();
                bytes.extend(start..=start + count);
            }
            let asked = asked.0..=asked.0 + asked.1;
            let absent: Vec<u64> = asked.clone().filter(|byte| !bytes.contains(byte)).collect();
            prop_assert_eq!(pieces.cover(&asked), absent.is_empty());
            let missing = pieces.missing(&asked);
            prop_assert!(missing.windows(2).all(|pair| *pair[0].end() + 1 < *pair[1].start()));
            prop_assert_eq!(missing.into_iter().flatten().collect::<Vec<_>>(), absent);
            prop_assert!(pieces.ranges.windows(2).all(|pair| *pair[0].end() + 1 < *pair[1].start()));
        }
    }
}
