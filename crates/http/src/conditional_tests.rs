use http::HeaderName;

use super::*;

const MODIFIED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const EARLIER: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
const LATER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";
const MINUTE_LATER: &str = "Sun, 06 Nov 1994 08:50:37 GMT";

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)
}

fn headers(fields: &[(&str, &str)]) -> HeaderMap {
    fields.iter().map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap())).collect()
}

fn answer(request: &[(&str, &str)], stored: &[(&str, &str)]) -> Answer {
    let stored = headers(stored);
    let stored = Stored { status: StatusCode::OK, headers: &stored, received: now() };
    evaluate(&Method::GET, &headers(request), stored, now())
}

const WHOLE: Answer = Answer::Serve { ranges: false };
const RANGES: Answer = Answer::Serve { ranges: true };

#[test]
fn if_none_match() {
    use Answer::NotModified;
    for (asked, stored, expected) in [
        ("\"a\"", "\"a\"", NotModified),
        ("W/\"a\"", "\"a\"", NotModified),
        ("\"a\"", "W/\"a\"", NotModified),
        ("W/\"a\"", "W/\"a\"", NotModified),
        ("\"b\"", "\"a\"", WHOLE),
        ("\"A\"", "\"a\"", WHOLE),
        ("\"b\", \"a\"", "\"a\"", NotModified),
        ("\"b\",\"c\" ,\tW/\"a\"", "\"a\"", NotModified),
        (",, \"a\",", "\"a\"", NotModified),
        ("\"x, \\\"a\\\"\"", "\"a\"", WHOLE),
        ("\"a,b\"", "\"a,b\"", NotModified),
        ("\"\"", "\"\"", NotModified),
        ("*", "\"a\"", NotModified),
        (" * ", "\"a\"", NotModified),
        ("a", "\"a\"", WHOLE),
        ("w/\"a\"", "\"a\"", WHOLE),
        ("\"a", "\"a\"", WHOLE),
        ("\"b\" \"a\"", "\"a\"", WHOLE),
        ("\"a\"", "a", WHOLE),
        ("\"é\"", "\"é\"", NotModified),
    ] {
        assert_eq!(answer(&[("if-none-match", asked)], &[("etag", stored)]), expected, "{asked} {stored}");
    }
    assert_eq!(answer(&[("if-none-match", "*")], &[]), NotModified, "any response will do");
    assert_eq!(answer(&[("if-none-match", "\"a\"")], &[]), WHOLE);
    let lines = [("if-none-match", "\"b\""), ("if-none-match", "\"a\"")];
    assert_eq!(answer(&lines, &[("etag", "\"a\"")]), NotModified);
    assert_eq!(answer(&[("if-none-match", "\"a\"")], &[("etag", "\"a\""), ("etag", "\"b\"")]), WHOLE);
}

#[test]
fn if_modified_since() {
    use Answer::NotModified;
    let modified = ("last-modified", MODIFIED);
    for (asked, stored, expected) in [
        (MODIFIED, vec![modified], NotModified),
        (LATER, vec![modified], NotModified),
        (EARLIER, vec![modified], WHOLE),
        ("Sunday, 06-Nov-94 08:49:37 GMT", vec![modified], NotModified),
        ("yesterday", vec![modified], WHOLE),
        (LATER, vec![("date", MODIFIED)], NotModified),
        (EARLIER, vec![("date", MODIFIED)], WHOLE),
        (LATER, vec![("date", EARLIER), ("last-modified", MINUTE_LATER)], WHOLE),
        // Received in 2023, and it says no more.
        (LATER, vec![], WHOLE),
        ("Fri, 01 Dec 2023 00:00:00 GMT", vec![], NotModified),
    ] {
        assert_eq!(answer(&[("if-modified-since", asked)], &stored), expected, "{asked} {stored:?}");
    }
    let twice = [("if-modified-since", LATER), ("if-modified-since", LATER)];
    assert_eq!(answer(&twice, &[modified]), WHOLE);
    let both = [("if-none-match", "\"b\""), ("if-modified-since", LATER)];
    assert_eq!(answer(&both, &[("etag", "\"a\""), modified]), WHOLE, "If-None-Match goes first, and alone");
    let both = [("if-none-match", "\"a\""), ("if-modified-since", EARLIER)];
    assert_eq!(answer(&both, &[("etag", "\"a\""), modified]), NotModified);
}

#[test]
fn ranges() {
    let date = ("date", MINUTE_LATER);
    let stored = [("etag", "\"a\""), ("last-modified", MODIFIED), date];
    for (asked, stored, expected) in [
        (None, stored.to_vec(), RANGES),
        (Some("\"a\""), stored.to_vec(), RANGES),
        (Some("W/\"a\""), stored.to_vec(), WHOLE),
        (Some("\"a\""), vec![("etag", "W/\"a\"")], WHOLE),
        (Some("W/\"a\""), vec![("etag", "W/\"a\"")], WHOLE),
        (Some("\"b\""), stored.to_vec(), WHOLE),
        (Some("\"a\", \"b\""), stored.to_vec(), WHOLE),
        (Some("*"), stored.to_vec(), WHOLE),
        (Some(MODIFIED), stored.to_vec(), RANGES),
        (Some(LATER), stored.to_vec(), WHOLE),
        (Some(MODIFIED), vec![("last-modified", MODIFIED), ("date", LATER)], WHOLE),
        (Some(MODIFIED), vec![("last-modified", MODIFIED)], WHOLE),
        (Some("x"), stored.to_vec(), WHOLE),
    ] {
        let mut request = vec![("range", "bytes=0-1")];
        request.extend(asked.map(|value| ("if-range", value)));
        assert_eq!(answer(&request, &stored), expected, "{asked:?} {stored:?}");
    }
    assert_eq!(answer(&[("if-range", "\"a\"")], &stored), WHOLE, "no Range");
    let none = [("range", "bytes=0-1"), ("if-none-match", "\"a\"")];
    assert_eq!(answer(&none, &stored), Answer::NotModified, "conditions go before ranges");
    let twice = [("range", "bytes=0-1"), ("if-range", "\"a\""), ("if-range", "\"a\"")];
    assert_eq!(answer(&twice, &stored), WHOLE);
}

#[test]
fn methods_and_statuses() {
    let (fields, modified) = (headers(&[("etag", "\"a\"")]), Answer::NotModified);
    let request = headers(&[("if-none-match", "\"a\""), ("range", "bytes=0-1")]);
    for (method, status, expected) in [
        ("GET", 200, modified),
        ("HEAD", 200, modified),
        ("GET", 204, modified),
        ("GET", 404, WHOLE),
        ("GET", 301, WHOLE),
        ("POST", 200, Answer::AskOrigin),
    ] {
        let stored = Stored { status: StatusCode::from_u16(status).unwrap(), headers: &fields, received: now() };
        assert_eq!(evaluate(&method.parse().unwrap(), &request, stored, now()), expected, "{method} {status}");
    }
    let ranged = headers(&[("range", "bytes=0-1")]);
    for (method, status, expected) in [("GET", 200, RANGES), ("HEAD", 200, WHOLE), ("GET", 203, WHOLE)] {
        let stored = Stored { status: StatusCode::from_u16(status).unwrap(), headers: &fields, received: now() };
        assert_eq!(evaluate(&method.parse().unwrap(), &ranged, stored, now()), expected, "{method} {status}");
    }
}

#[test]
fn what_only_origins_evaluate() {
    for request in [
        vec![("if-match", "\"a\"")],
        vec![("if-match", "*")],
        vec![("if-unmodified-since", LATER)],
        vec![("if-match", "\"a\""), ("if-none-match", "\"a\"")],
    ] {
        assert_eq!(answer(&request, &[("etag", "\"a\"")]), Answer::AskOrigin, "{request:?}");
    }
}
