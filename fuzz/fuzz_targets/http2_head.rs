//! Heads that came over HTTP/2, written as HTTP/1.1: one request, with the fields that were in it and no other, or none.
#![no_main]

use http::header::{CONTENT_LENGTH, COOKIE, HOST};
use http::{HeaderName, HeaderValue, Request, Uri};
use tinaja_http::body::Framing;
use tinaja_http::head::{HeadEnd, head_end};
use tinaja_http::http2;
use tinaja_http::judge::judge;
use tinaja_http::lines::lines;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    // Method, scheme, authority and path as they might have come, then fields, each a line.
    let mut parts = data.splitn(5, |byte| *byte == b'\n');
    let mut next = || parts.next().unwrap_or_default();
    let (method, scheme, authority, path, fields) = (next(), next(), next(), next(), next());
    let (content, scheme) = scheme.split_first().unwrap_or((&0, b""));
    let uri = match (scheme, authority) {
        (b"", b"") => Uri::try_from(path),
        (b"", authority) => Uri::try_from(authority),
        _ => Uri::try_from([scheme, b"://", authority, path].concat()),
    };
    let Ok(uri) = uri else { return };
    let Ok(request) = Request::builder().method(method).uri(uri).body(()) else { return };
    let (mut request, ()) = request.into_parts();
    for line in fields.split(|byte| *byte == b'\n') {
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (name, value) = (&line[..colon], line.get(colon + 1..).unwrap_or_default());
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
            request.headers.append(name, value);
        }
    }
    let content = content % 2 == 1;
    let Ok(head) = http2::head(&request, content) else { return };
    // It ends where it ends, and nowhere before.
    assert_eq!(head_end(&head, 0), Ok(HeadEnd::At { start: 0, end: head.len() }));
    let Ok(judged) = judge(&head) else { return };
    assert_eq!(judged.method, request.method.as_str());
    let written = &head[judged.fields.clone()];
    let count = |name: &HeaderName| lines(written).filter(|line| line.is(name)).count();
    assert!(count(&HOST) <= 1 && count(&COOKIE) <= 1);
    for name in request.headers.keys().filter(|name| **name != HOST && **name != COOKIE) {
        let came: Vec<&[u8]> = request.headers.get_all(name).iter().map(HeaderValue::as_bytes).collect();
        let found: Vec<&[u8]> = lines(written).filter(|line| line.is(name)).map(|line| line.value).collect();
        assert_eq!(found, came, "{name}");
    }
    let known = |name: &[u8]| {
        let added = name == b"host" || (content && name == b"transfer-encoding");
        added || HeaderName::from_bytes(name).is_ok_and(|name| request.headers.contains_key(name))
    };
    assert!(lines(written).all(|line| known(line.name)), "a field that did not come");
    let framed = matches!(judged.framing, Framing::Chunked) || request.headers.contains_key(CONTENT_LENGTH);
    assert!(content == framed || judged.framing == Framing::Length(0));
});
