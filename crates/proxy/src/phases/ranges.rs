//! Ranges of what is stored (RFC 9110 14), and which requests for a part are worth a fetch of the whole.

use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, IF_RANGE, RANGE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use pingora_cache::{CacheMeta, ForcedFreshness, HitHandler};
use pingora_http::{RequestHeader, ResponseHeader};
use pingora_proxy::{RangeType, range_header_filter};
use tinaja_pingora::prefetch;

/// Ranges in one request that are answered one by one; a request for more gets the whole object.
const MOST_RANGES: usize = 200;

/// Whether a request wants less than a whole object. `bytes=0-` does not: it moves the same bytes as no Range at all,
/// and players and download managers send it.
pub(super) fn wants_part(request: &RequestHeader) -> bool {
    match (&request.method, request.headers.get(RANGE)) {
        (&Method::HEAD, _) => true,
        (_, None) => false,
        (_, Some(range)) => !range.as_bytes().eq_ignore_ascii_case(b"bytes=0-"),
    }
}

/// Makes of a whole stored answer the part that the request asks for, and says which it is.
///
/// Pingora's own rule, but for what it gets wrong: ranges of HEAD, weak validators in If-Range, `-0`, and ranges of
/// empty bodies.
pub(super) fn apply(request: &RequestHeader, response: &mut ResponseHeader) -> RangeType {
    let Some(range) = request.headers.get(RANGE) else {
        return RangeType::None;
    };
    let weak = request.headers.get(IF_RANGE).is_some_and(|known| known.as_bytes().starts_with(b"W/"));
    // No part of an empty body can be named in Content-Range.
    let empty = response.headers.get(CONTENT_LENGTH).is_none_or(|length| length.as_bytes() == b"0");
    if request.method != Method::GET || weak || empty {
        return RangeType::None;
    }
    let mut part = response.clone();
    let found = range_header_filter(request, &mut part, Some(MOST_RANGES));
    match (&found, asks_for_no_bytes(range)) {
        (RangeType::None, _) => {}
        (RangeType::Single(_), true) => return not_satisfiable(response),
        // One that cannot be given among others that can: the whole is allowed too.
        (_, true) => return RangeType::None,
        (_, false) => *response = part,
    }
    found
}

/// Where the first byte is that a request wants of a stored answer; none if it wants no byte.
pub(super) fn first_byte(request: &RequestHeader, stored: &ResponseHeader) -> Option<u64> {
    let mut answer = stored.clone();
    match apply(request, &mut answer) {
        RangeType::None => Some(0),
        RangeType::Single(range) => Some(range.start as u64),
        RangeType::Multi(all) => all.ranges.first().map(|range| range.start as u64),
        RangeType::Invalid => None,
    }
}

/// Whether what a request wants of a stored answer can be had now; if not, it has to come from the origin. What is
/// read here is handed out first, so that it costs nothing.
pub(super) async fn is_there(
    request: &RequestHeader,
    stored: &CacheMeta,
    hit: &mut HitHandler,
) -> Option<ForcedFreshness> {
    let start = match &request.method {
        &Method::GET => first_byte(request, stored.response_header()),
        // A head is part of what was found.
        _ => None,
    };
    match start {
        Some(start) if !prefetch(hit, start).await => Some(ForcedFreshness::ForceMiss),
        _ => None,
    }
}

/// The whole object's length, as the answer to a request for a part says.
pub(super) fn length_of_whole(response: &HeaderMap) -> Option<u64> {
    let mut lines = response.get_all(CONTENT_RANGE).iter();
    let (line, None) = (lines.next()?, lines.next()) else {
        return None;
    };
    let (_, length) = line.to_str().ok()?.strip_prefix("bytes ")?.split_once('/')?;
    length.parse().ok()
}

/// The last no bytes (`-0`) are among what is asked for.
fn asks_for_no_bytes(range: &HeaderValue) -> bool {
    let specs = range.to_str().ok().and_then(|range| range.split_once('=')).map_or("", |(_, specs)| specs);
    specs.split(',').any(|spec| {
        let last = spec.trim().strip_prefix('-').unwrap_or_default();
        !last.is_empty() && last.bytes().all(|digit| digit == b'0')
    })
}

fn not_satisfiable(response: &mut ResponseHeader) -> RangeType {
    let length = response.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()).unwrap_or("*");
    let whole = format!("bytes */{length}");
    response.remove_header(&CONTENT_TYPE);
    response.remove_header(&CONTENT_ENCODING);
    // Both values are digits, and every status from 100 to 999 is one.
    let _ = response.insert_header(CONTENT_LENGTH, "0");
    let _ = response.insert_header(CONTENT_RANGE, whole);
    let _ = response.set_status(StatusCode::RANGE_NOT_SATISFIABLE);
    RangeType::Invalid
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: Method, fields: &[(&'static str, &str)]) -> RequestHeader {
        let mut request = RequestHeader::build(method, b"/", None).unwrap();
        for (name, value) in fields {
            request.append_header(*name, *value).unwrap();
        }
        request
    }

    fn stored(length: &str) -> ResponseHeader {
        let mut response = ResponseHeader::build(200, None).unwrap();
        for (name, value) in [("content-length", length), ("etag", "\"1\""), ("content-type", "text/plain")] {
            response.insert_header(name, value).unwrap();
        }
        response
    }

    fn text(response: &ResponseHeader, name: &str) -> String {
        response.headers.get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
    }

    #[test]
    fn parts() {
        for (range, status, content_range, first) in [
            ("bytes=2-4", 206, "bytes 2-4/10", Some(2)),
            ("bytes=-3", 206, "bytes 7-9/10", Some(7)),
            ("bytes=-30", 206, "bytes 0-9/10", Some(0)),
            ("bytes=8-99", 206, "bytes 8-9/10", Some(8)),
            ("bytes=10-", 416, "bytes */10", None),
            ("bytes=-0", 416, "bytes */10", None),
            ("bytes=-00", 416, "bytes */10", None),
            ("bytes=3-4,-0", 200, "", Some(0)),
            ("bytes=3-4,7-", 206, "", Some(3)),
            ("lines=3-4", 200, "", Some(0)),
            ("bytes=x", 200, "", Some(0)),
        ] {
            let (request, mut response) = (asked(Method::GET, &[("range", range)]), stored("10"));
            assert_eq!(first_byte(&request, &response), first, "{range}");
            apply(&request, &mut response);
            assert_eq!((response.status.as_u16(), text(&response, "content-range").as_str()), (status, content_range));
        }
    }

    #[test]
    fn wholes() {
        let range = ("range", "bytes=2-4");
        for (method, fields, length) in [
            (Method::HEAD, &[range][..], "10"),
            (Method::GET, &[range, ("if-range", "W/\"1\"")], "10"),
            (Method::GET, &[range, ("if-range", "\"2\"")], "10"),
            (Method::GET, &[range], "0"),
            (Method::GET, &[("range", "bytes=-5")], "0"),
        ] {
            let mut response = stored(length);
            assert_eq!(apply(&asked(method, fields), &mut response), RangeType::None, "{fields:?}");
            assert_eq!(response.status.as_u16(), 200);
        }
        let mut response = stored("10");
        apply(&asked(Method::GET, &[range, ("if-range", "\"1\"")]), &mut response);
        assert_eq!(response.status.as_u16(), 206);
    }

    #[test]
    fn what_is_a_part() {
        for (method, range, part) in [
            (Method::GET, None, false),
            (Method::HEAD, None, true),
            (Method::HEAD, Some("bytes=0-"), true),
            (Method::GET, Some("Bytes=0-"), false),
            (Method::GET, Some("bytes=0-0"), true),
            (Method::GET, Some("bytes=1-"), true),
            (Method::GET, Some("bytes=-1"), true),
            (Method::GET, Some("bytes=0-,-1"), true),
        ] {
            let fields: Vec<_> = range.iter().map(|range| ("range", *range)).collect();
            assert_eq!(wants_part(&asked(method, &fields)), part, "{range:?}");
        }
    }

    #[test]
    fn lengths() {
        for (value, length) in [
            ("bytes 0-9/100", Some(100)),
            ("bytes */100", Some(100)),
            ("bytes 0-9/*", None),
            ("bytes 0-9", None),
            ("lines 0-9/100", None),
            ("bytes 0-9/-1", None),
            ("bytes 0-9/99999999999999999999999", None),
        ] {
            let headers: HeaderMap = [(CONTENT_RANGE, HeaderValue::from_static(value))].into_iter().collect();
            assert_eq!(length_of_whole(&headers), length, "{value}");
        }
    }
}
