//! A client's conditions, evaluated against a stored response (RFC 9110 13, RFC 9111 4.3.2).

use std::time::{Duration, SystemTime};

use http::header::{
    DATE, ETAG, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, LAST_MODIFIED, RANGE,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use crate::dates;

/// How much older than Date a Last-Modified must be for it to tell apart all changes: clocks may differ, and a file
/// may change twice in a second (RFC 9110 8.8.2.2).
const STRONG_DATE_SECONDS: Duration = Duration::from_secs(60);

/// An entity tag (RFC 9110 8.8.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntityTag<'a> {
    /// Whether it only promises that the content means the same.
    pub weak: bool,
    /// What stands between the quotes.
    pub opaque: &'a [u8],
}

impl<'a> EntityTag<'a> {
    /// Reads one whole field value; `None` if it is no entity tag.
    pub fn parse(value: &'a [u8]) -> Option<EntityTag<'a>> {
        let (tag, rest) = take_tag(value.trim_ascii())?;
        rest.is_empty().then_some(tag)
    }

    /// Both are strong, and the same (RFC 9110 8.8.3.2).
    pub fn matches_strongly(&self, other: &EntityTag<'_>) -> bool {
        !self.weak && !other.weak && self.opaque == other.opaque
    }

    /// The same but for strength (RFC 9110 8.8.3.2).
    pub fn matches_weakly(&self, other: &EntityTag<'_>) -> bool {
        self.opaque == other.opaque
    }
}

/// `W/"x"` or `"x"` at the start of `bytes`, and what follows. `W` is a capital (RFC 9110 8.8.3).
fn take_tag(bytes: &[u8]) -> Option<(EntityTag<'_>, &[u8])> {
    let (weak, quoted) = match bytes.strip_prefix(b"W/") {
        Some(quoted) => (true, quoted),
        None => (false, bytes),
    };
    let inner = quoted.strip_prefix(b"\"")?;
    let end = inner.iter().position(|byte| *byte == b'"')?;
    let (opaque, rest) = inner.split_at_checked(end)?;
    let valid = opaque.iter().all(|byte| *byte > b' ' && *byte != 0x7f);
    valid.then_some((EntityTag { weak, opaque }, rest.get(1..).unwrap_or_default()))
}

/// The entity tags of a list field, over all its lines. A line counts up to the first thing in it that is no tag.
pub(crate) fn tags<'a>(values: impl Iterator<Item = &'a HeaderValue>) -> impl Iterator<Item = EntityTag<'a>> {
    values.flat_map(|value| {
        let mut rest = value.as_bytes();
        std::iter::from_fn(move || {
            let start = rest.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b','))?;
            let (tag, behind) = take_tag(rest.get(start..)?)?;
            let behind = behind.trim_ascii_start();
            // Nothing but a comma may stand between two tags.
            rest = if behind.is_empty() || behind.starts_with(b",") { behind } else { &[] };
            Some(tag)
        })
    })
}

/// The entity tag of a response that comes once and is one.
pub(crate) fn etag(response: &HeaderMap) -> Option<EntityTag<'_>> {
    let mut lines = response.get_all(ETAG).iter();
    let tag = EntityTag::parse(lines.next()?.as_bytes())?;
    lines.next().is_none().then_some(tag)
}

/// The response's entity tag, if it is a strong one.
pub fn strong_etag(response: &HeaderMap) -> Option<EntityTag<'_>> {
    etag(response).filter(|tag| !tag.weak)
}

/// What to do with a request for which there is a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Serve the stored response; parts of it if the request has a Range and `ranges` is true.
    Serve {
        /// Whether Range applies: a GET of a stored 200, and If-Range, if there is one, holds.
        ranges: bool,
    },
    /// 304 with the stored response's fields.
    NotModified,
    /// The conditions are the origin's to evaluate (If-Match, If-Unmodified-Since): pass the request on as it is.
    /// A cache never answers 412, which only they bring about here (RFC 9111 4.3.2).
    AskOrigin,
}

/// A stored response, as conditions see it.
#[derive(Clone, Copy, Debug)]
pub struct Stored<'a> {
    /// Its status.
    pub status: StatusCode,
    /// Its fields.
    pub headers: &'a HeaderMap,
    /// When it was stored, or last validated.
    pub received: SystemTime,
}

/// Evaluates the conditions of a request in the order of RFC 9110 13.2.2, as far as they are a cache's (RFC 9111
/// 4.3.2). `now` decides the century of two-digit years only.
pub fn evaluate(method: &Method, request: &HeaderMap, stored: Stored<'_>, now: SystemTime) -> Answer {
    let whole = Answer::Serve { ranges: false };
    if method != Method::GET && method != Method::HEAD {
        return Answer::AskOrigin;
    }
    // What would not have been 2xx has no conditions (RFC 9110 13.2.1).
    if !stored.status.is_success() {
        return whole;
    }
    if request.contains_key(IF_MATCH) || request.contains_key(IF_UNMODIFIED_SINCE) {
        return Answer::AskOrigin;
    }
    let not_modified = if request.contains_key(IF_NONE_MATCH) {
        any_matches(request, stored.headers)
    } else {
        not_modified_since(request, &stored, now)
    };
    if not_modified {
        return Answer::NotModified;
    }
    let ranges = method == Method::GET
        && stored.status == StatusCode::OK
        && request.contains_key(RANGE)
        && if_range_holds(request, stored.headers, now);
    Answer::Serve { ranges }
}

/// If-None-Match (RFC 9110 13.1.2): `*`, or a tag that matches weakly.
fn any_matches(request: &HeaderMap, stored: &HeaderMap) -> bool {
    let lines = || request.get_all(IF_NONE_MATCH).iter();
    let any = lines().any(|line| line.as_bytes().trim_ascii() == b"*");
    any || etag(stored).is_some_and(|stored| tags(lines()).any(|tag| tag.matches_weakly(&stored)))
}

/// If-Modified-Since (RFC 9110 13.1.3), against Last-Modified, or else Date, or else the time of storing
/// (RFC 9111 4.3.2). One that is no date, or comes twice, is ignored.
fn not_modified_since(request: &HeaderMap, stored: &Stored<'_>, now: SystemTime) -> bool {
    let Some(since) = dates::single(request, &IF_MODIFIED_SINCE, now) else { return false };
    let date = |name| dates::single(stored.headers, &name, now);
    date(LAST_MODIFIED).or_else(|| date(DATE)).unwrap_or(stored.received) <= since
}

/// If-Range (RFC 9110 13.1.5): true without one; a tag must match strongly, a date exactly, and be a strong one.
fn if_range_holds(request: &HeaderMap, stored: &HeaderMap, now: SystemTime) -> bool {
    let mut lines = request.get_all(IF_RANGE).iter();
    let Some(line) = lines.next() else { return true };
    if lines.next().is_some() {
        return false;
    }
    if let Some(asked) = EntityTag::parse(line.as_bytes()) {
        return etag(stored).is_some_and(|stored| stored.matches_strongly(&asked));
    }
    let asked = dates::single(request, &IF_RANGE, now);
    asked.is_some() && asked == strong_date(stored, now)
}

/// Last-Modified, where it is a strong validator (RFC 9110 8.8.2.2). `now` decides the century of two-digit years only.
pub fn strong_date(stored: &HeaderMap, now: SystemTime) -> Option<SystemTime> {
    let modified = dates::single(stored, &LAST_MODIFIED, now)?;
    let since = dates::earliest(stored, &DATE, now)?.duration_since(modified).ok()?;
    (since >= STRONG_DATE_SECONDS).then_some(modified)
}

#[cfg(test)]
#[path = "conditional_tests.rs"]
mod tests;
