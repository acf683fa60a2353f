//! A request's head as HTTP/2 brings it, written as the HTTP/1.1 head that it means (RFC 9113 8.3, RFC 9110 7.1).
//!
//! There is one judge of heads. What comes over HTTP/2 is put into the form that an origin would get it in, and judged
//! in that form: nothing can mean one thing here and another there. Only what HTTP/1 has no bytes for is refused here.

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, COOKIE, HOST, HeaderName, TRANSFER_ENCODING, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Uri};

use crate::limits::MAX_HEAD_BYTES;
use crate::message::{BadField, Fields};
use crate::refusal::Refusal;

/// Fields that belong to an HTTP/1 connection (RFC 9113 8.2.2). TE is not among them: it may say `trailers`.
pub static CONNECTION_FIELDS: [HeaderName; 5] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    TRANSFER_ENCODING,
    UPGRADE,
];

/// What a head has besides its host, its path and its fields, at most: a long method needs more, and gets it.
const OTHER_BYTES: usize = 96;

/// The HTTP/1.1 head of a request, in absolute form, to be judged by [`crate::judge::judge`]. `content` says whether
/// anything follows the head.
///
/// Errors: the [`Refusal`] that fits; the stream ends with the answer, and the connection goes on.
pub fn head(request: &Parts, content: bool) -> Result<Bytes, Refusal> {
    let (method, uri, headers) = (&request.method, &request.uri, &request.headers);
    refuse_connection_fields(headers)?;
    let host = host_of(request)?;
    // The parts of the target come apart, and must not be able to run into each other.
    let path = uri.path_and_query().map(|path| path.as_str()).unwrap_or_default();
    let target: [&[u8]; 3] = match (method, path) {
        (&Method::CONNECT, _) => [b"", host, b""],
        (&Method::OPTIONS, "*") if uri.authority().is_none() => [b"", b"", b"*"],
        // The server as a whole, in the form that names it (RFC 9112 3.2.4).
        (&Method::OPTIONS, "*") => [scheme(uri)?, host, b""],
        (_, path) if path.starts_with('/') => [scheme(uri)?, host, path.as_bytes()],
        _ => return Err(Refusal::Target),
    };
    if host.iter().any(|byte| matches!(byte, b'/' | b'?' | b'#') || !byte.is_ascii_graphic()) {
        return Err(Refusal::Authority);
    }
    let [scheme, host_part, path] = target;
    // Room for all of it: of a long head each step on the way to its length would stay behind in the heap.
    let fields: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    let mut head = Vec::with_capacity(OTHER_BYTES + 2 * host.len() + path.len() + fields);
    for part in [method.as_str().as_bytes(), b" ", scheme, host_part, path, b" HTTP/1.1\r\n"] {
        head.extend_from_slice(part);
    }
    if !headers.contains_key(HOST) {
        line(&mut head, b"host", host)?;
    }
    for (name, value) in headers.iter().filter(|(name, _)| *name != COOKIE) {
        line(&mut head, name.as_str().as_bytes(), value.as_bytes())?;
    }
    // A Cookie may come in crumbs, which HTTP/1 does not know (RFC 9113 8.2.3).
    if headers.contains_key(COOKIE) {
        let crumbs: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(|value| value.as_bytes()).collect();
        line(&mut head, b"cookie", &crumbs.join(b"; ".as_slice()))?;
    }
    match headers.get(CONTENT_LENGTH) {
        // Content that is announced and cannot come any more (RFC 9113 8.1.1).
        Some(length) if !content && length != "0" => return Err(Refusal::ContentLength),
        // The stream of a CONNECT is open for its tunnel, which is no content (RFC 9113 8.5).
        None if content && method != Method::CONNECT => head.extend_from_slice(b"transfer-encoding: chunked\r\n"),
        _ => {}
    }
    head.extend_from_slice(b"\r\n");
    Ok(head.into())
}

/// The fields of a request whose head was judged, as [`head`] wrote them, but for Host where the target stands for it: what `h2` has read is
/// not read again.
///
/// Errors: [`BadField`].
pub fn fields(request: Parts, content: bool) -> Result<Fields, BadField> {
    let Parts { method, mut headers, .. } = request;
    if headers.get_all(COOKIE).iter().nth(1).is_some() {
        let crumbs: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(|value| value.as_bytes()).collect();
        let cookie = HeaderValue::from_bytes(&crumbs.join(b"; ".as_slice()))?;
        headers.try_insert(COOKIE, cookie).map_err(|_| BadField)?;
    }
    if content && method != Method::CONNECT && !headers.contains_key(CONTENT_LENGTH) {
        headers.try_insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked")).map_err(|_| BadField)?;
    }
    Ok(Fields::of_http2(headers))
}

/// What the target begins with in absolute form.
fn scheme(uri: &Uri) -> Result<&'static [u8], Refusal> {
    match uri.scheme_str() {
        Some("https") => Ok(b"https://"),
        Some("http") | None => Ok(b"http://"),
        Some(_) => Err(Refusal::Target),
    }
}

/// The authority of the target, or else Host, which may stand in for it (RFC 9113 8.3.1).
fn host_of(request: &Parts) -> Result<&[u8], Refusal> {
    match (request.uri.authority(), request.headers.get(HOST)) {
        (Some(authority), _) => Ok(authority.as_str().as_bytes()),
        (None, Some(host)) => Ok(host.as_bytes()),
        (None, None) => Err(Refusal::HostMissing),
    }
}

fn refuse_connection_fields(headers: &HeaderMap) -> Result<(), Refusal> {
    let te = headers.get_all(http::header::TE).iter().any(|value| !value.as_bytes().eq_ignore_ascii_case(b"trailers"));
    // A request has few fields, and as a rule none of these. To compare them costs less than five look-ups.
    if te || headers.keys().any(|name| CONNECTION_FIELDS.contains(name)) {
        return Err(Refusal::ConnectionField);
    }
    Ok(())
}

fn line(head: &mut Vec<u8>, name: &[u8], value: &[u8]) -> Result<(), Refusal> {
    // HTTP/1 would lose the spaces around a value (RFC 9113 8.2.1), and a line would end at a CR or LF in it.
    let ends_line = value.iter().fold(false, |ends, byte| ends | matches!(byte, b'\r' | b'\n' | 0));
    if value.trim_ascii().len() != value.len() || ends_line {
        return Err(Refusal::ControlByte);
    }
    for part in [name, b": ", value, b"\r\n"] {
        head.extend_from_slice(part);
    }
    if head.len() > MAX_HEAD_BYTES { Err(Refusal::HeadTooLarge) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;
    use crate::body::Framing;
    use crate::judge::{Judged, Target, judge};
    use crate::lines::header_map;

    fn parts(method: &str, uri: &str, fields: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn judged(method: &str, uri: &str, fields: &[(&str, &str)], content: bool) -> Result<(Judged, Bytes), Refusal> {
        let head = head(&parts(method, uri, fields), content)?;
        Ok((judge(&head)?, head))
    }

    #[test]
    fn heads_as_http1_has_them() {
        for (method, uri, fields, content, expected) in [
            ("GET", "http://A.b:80/x?y", vec![], false, "GET http://A.b:80/x?y HTTP/1.1\r\nhost: A.b:80\r\n\r\n"),
            ("GET", "/x", vec![("host", "a")], false, "GET http://a/x HTTP/1.1\r\nhost: a\r\n\r\n"),
            ("OPTIONS", "*", vec![("host", "a")], false, "OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n"),
            (
                "GET",
                "https://a/",
                vec![("cookie", "a=1"), ("x", "y"), ("cookie", "b=2")],
                false,
                "GET https://a/ HTTP/1.1\r\nhost: a\r\nx: y\r\ncookie: a=1; b=2\r\n\r\n",
            ),
            (
                "POST",
                "http://a/",
                vec![("te", "trailers")],
                true,
                "POST http://a/ HTTP/1.1\r\nhost: a\r\nte: trailers\r\ntransfer-encoding: chunked\r\n\r\n",
            ),
        ] {
            let (_, head) = judged(method, uri, &fields, content).unwrap();
            assert_eq!(String::from_utf8_lossy(&head), expected);
            // What is not read again is what the judge saw.
            let lines = head.slice(judged(method, uri, &fields, content).unwrap().0.fields);
            let read = super::fields(parts(method, uri, &fields), content).unwrap();
            let mut seen = header_map(&lines, |_| true).unwrap();
            if !read.contains_key(HOST) {
                seen.remove(HOST);
            }
            assert_eq!(read.as_map(), &seen, "{expected}");
        }
    }

    #[test]
    fn judged_like_any_other() {
        let (get, _) = judged("GET", "https://A:443/\"x", &[("host", "a")], false).unwrap();
        assert_eq!(get.target, Target::Absolute { tls: true, path: "/%22x".into() });
        assert_eq!(get.authority.unwrap().host(), "a");
        let (post, _) = judged("POST", "http://a/", &[("content-length", "3")], true).unwrap();
        assert_eq!(post.framing, Framing::Length(3));
        let (post, _) = judged("POST", "http://a/", &[], true).unwrap();
        assert_eq!(post.framing, Framing::Chunked);
        for open in [false, true] {
            let (connect, _) = judged("CONNECT", "a:443", &[], open).unwrap();
            assert_eq!((connect.target, connect.framing), (Target::Tunnel, Framing::Length(0)));
        }
        assert_eq!(judged("CONNECT", "a:443", &[("content-length", "1")], true).unwrap_err(), Refusal::BodyNotAllowed);
    }

    #[test]
    fn refused() {
        use Refusal::*;
        for (method, uri, fields, refusal) in [
            ("GET", "http://a/", vec![("host", "b")], HostMismatch),
            ("GET", "http://a/", vec![("host", "a"), ("host", "a")], HostTwice),
            ("GET", "/", vec![], HostMissing),
            ("GET", "/", vec![("host", "a/b?")], Authority),
            ("GET", "/", vec![("host", "a b")], Authority),
            ("GET", "http://u@a/", vec![], Userinfo),
            ("GET", "ftp://a/", vec![], Target),
            ("GET", "*", vec![("host", "a")], Target),
            ("GET", "http://a/b\\c", vec![], Backslash),
            ("GET", "http://a/", vec![("connection", "close")], ConnectionField),
            ("GET", "http://a/", vec![("transfer-encoding", "chunked")], ConnectionField),
            ("GET", "http://a/", vec![("te", "gzip")], ConnectionField),
            ("GET", "http://a/", vec![("transfer_encoding", "chunked")], FieldName),
            ("GET", "http://a/", vec![("x", " y")], ControlByte),
            ("GET", "http://a/", vec![("content-length", "1")], ContentLength),
            ("GET", "http://a/", vec![("content-length", "0"), ("content-length", "0")], ContentLength),
            ("TRACE", "http://a/", vec![], Method),
        ] {
            assert_eq!(judged(method, uri, &fields, false).unwrap_err(), refusal, "{method} {uri} {fields:?}");
        }
        let long = "x".repeat(MAX_HEAD_BYTES);
        assert_eq!(judged("GET", "http://a/", &[("x", &long)], false).unwrap_err(), HeadTooLarge);
        let mut bad = parts("GET", "http://a/", &[]);
        bad.headers.insert("x", http::HeaderValue::from_bytes(b"a\tb").unwrap());
        assert!(head(&bad, false).is_ok());
    }
}
