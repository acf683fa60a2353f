use std::time::Duration;

use super::*;

const MODIFIED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

fn headers(fields: &[(&str, &str)]) -> HeaderMap {
    fields.iter().map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap())).collect()
}

fn sorted(headers: &HeaderMap) -> Vec<String> {
    let mut lines: Vec<_> =
        headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
    lines.sort();
    lines
}

#[test]
fn requests() {
    let tag = ("etag", "\"a\"");
    let weak = ("etag", "W/\"a\"");
    let modified = ("last-modified", MODIFIED);
    let since = format!("if-modified-since: {MODIFIED}");
    let (since, none) = (since.as_str(), "if-none-match: \"a\"");
    for (request, stored, expected) in [
        (vec![], vec![tag, modified], Some(vec![since, none])),
        (vec![], vec![tag], Some(vec![none])),
        (vec![], vec![weak], Some(vec!["if-none-match: W/\"a\""])),
        (vec![], vec![modified], Some(vec![since])),
        (vec![], vec![("last-modified", "lately")], Some(vec!["if-modified-since: lately"])),
        (vec![], vec![("etag", "a"), modified], Some(vec![since])),
        (vec![], vec![], None),
        (vec![], vec![("etag", "a")], None),
        (vec![("if-none-match", "\"b\"")], vec![], None),
        (vec![("if-none-match", "\"b\""), ("if-none-match", "\"c\"")], vec![tag], Some(vec![none])),
        (vec![("if-modified-since", "x"), ("accept", "y")], vec![tag], Some(vec!["accept: y", none])),
        (vec![("if-match", "\"b\""), ("if-unmodified-since", "x")], vec![tag], Some(vec![none])),
        (
            vec![("range", "bytes=0-1"), ("if-range", "\"b\"")],
            vec![tag, modified],
            Some(vec!["if-none-match: \"a\"", "if-range: \"b\"", "range: bytes=0-1"]),
        ),
        (vec![("range", "bytes=0-1")], vec![modified], Some(vec![since, "range: bytes=0-1"])),
    ] {
        let mut request = headers(&request);
        let edits = validation(&request, &headers(&stored));
        let found = edits.map(|edits| {
            edits.apply(&mut request);
            sorted(&request)
        });
        assert_eq!(found, expected.map(|lines| lines.into_iter().map(str::to_owned).collect()), "{stored:?}");
    }
}

#[test]
fn which_are_meant() {
    let stored = [
        headers(&[("etag", "\"a\"")]),
        headers(&[("etag", "\"b\""), ("last-modified", MODIFIED)]),
        headers(&[("etag", "\"a\"")]),
        headers(&[("etag", "W/\"b\""), ("last-modified", MODIFIED)]),
        headers(&[]),
    ];
    let stored: Vec<_> = stored.iter().collect();
    for (response, expected) in [
        (vec![("etag", "\"a\"")], vec![0, 2]),
        (vec![("etag", "\"b\"")], vec![1]),
        (vec![("etag", "\"c\"")], vec![]),
        (vec![("etag", "\"c\""), ("last-modified", MODIFIED)], vec![]),
        (vec![("etag", "W/\"a\"")], vec![2]),
        (vec![("etag", "W/\"b\"")], vec![3]),
        (vec![("last-modified", MODIFIED)], vec![3]),
        (vec![("last-modified", "Mon, 07 Nov 1994 08:49:37 GMT")], vec![]),
        (vec![], vec![]),
    ] {
        assert_eq!(selected(&stored, &headers(&response)), expected, "{response:?}");
    }
    let one = headers(&[("etag", "\"a\"")]);
    assert_eq!(selected(&[&one], &headers(&[])), [0], "the only one that was asked for");
    assert_eq!(selected(&[&one], &headers(&[("etag", "\"b\"")])), [0; 0]);
    assert_eq!(selected(&[], &headers(&[])), [0; 0]);
}

#[test]
fn updates() {
    let received = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
    let date = format!("date: {MODIFIED}");
    let date = date.as_str();
    for (stored, response, expected) in [
        (vec![("a", "1"), ("b", "2")], vec![("b", "3"), ("c", "4")], vec!["a: 1", "b: 3", "c: 4", date]),
        (vec![("a", "1"), ("a", "2")], vec![("a", "3")], vec!["a: 3", date]),
        (vec![("a", "1")], vec![("a", "2"), ("a", "3")], vec!["a: 2", "a: 3", date]),
        (vec![("date", "x"), ("age", "9")], vec![("date", "y")], vec!["date: y"]),
        (vec![("age", "9")], vec![("age", "3"), ("date", "y")], vec!["age: 3", "date: y"]),
        (
            vec![("cache-control", "max-age=1")],
            vec![("cache-control", "no-store")],
            vec!["cache-control: no-store", date],
        ),
        // Found by fuzzing: the new Date was dropped, and the old one stayed.
        (vec![("date", "x")], vec![("connection", "date"), ("date", "y")], vec![date]),
        // What says how the bytes are framed and coded.
        (
            vec![("content-length", "5"), ("content-encoding", "gzip"), ("content-type", "a/b")],
            vec![
                ("content-length", "0"),
                ("content-encoding", "br"),
                ("content-range", "bytes 0-1/2"),
                ("transfer-encoding", "chunked"),
                ("content-type", "c/d"),
            ],
            vec!["content-encoding: gzip", "content-length: 5", "content-type: c/d", date],
        ),
        // What belongs to one connection.
        (
            vec![("x", "1"), ("y", "1")],
            vec![("connection", "x, close"), ("x", "2"), ("y", "2"), ("keep-alive", "z"), ("proxy-authenticate", "z")],
            vec![date, "x: 1", "y: 2"],
        ),
    ] {
        let mut head = headers(&stored);
        update(&headers(&response), received).apply(&mut head);
        assert_eq!(sorted(&head), expected, "{response:?}");
    }
}

#[test]
fn heads() {
    let stored = [("etag", "\"a\""), ("last-modified", MODIFIED), ("content-encoding", "gzip")];
    let gzip = ("content-encoding", "gzip");
    for (response, expected) in [
        (vec![gzip], HeadEffect::Nothing),
        (vec![gzip, ("content-length", "5")], HeadEffect::Update),
        (vec![gzip, ("etag", "\"a\""), ("last-modified", MODIFIED), ("content-length", "5")], HeadEffect::Update),
        (vec![gzip, ("etag", "\"b\"")], HeadEffect::Stale),
        (vec![gzip, ("etag", "W/\"a\"")], HeadEffect::Stale),
        (vec![gzip, ("last-modified", "x")], HeadEffect::Stale),
        (vec![gzip, ("content-length", "6")], HeadEffect::Stale),
        (vec![gzip, ("content-length", "5, 5")], HeadEffect::Stale),
        (vec![("etag", "\"a\"")], HeadEffect::Stale),
        (vec![("content-encoding", "br")], HeadEffect::Stale),
    ] {
        assert_eq!(head_effect(&headers(&response), &headers(&stored), 5), expected, "{response:?}");
    }
    assert_eq!(head_effect(&headers(&[("etag", "\"a\"")]), &headers(&[]), 5), HeadEffect::Stale);
}
