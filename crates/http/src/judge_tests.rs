use proptest::prelude::*;

use super::*;
use crate::head::{HeadEnd, head_end};
use crate::limits::MAX_FIELDS;

fn get(fields: &str) -> Result<Judged, Refusal> {
    judge(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes())
}

fn line(line: &str) -> Result<Judged, Refusal> {
    judge(format!("{line}\r\nHost: a\r\n\r\n").as_bytes())
}

fn post(fields: &str) -> Result<Framing, Refusal> {
    judge(format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes()).map(|judged| judged.framing)
}

#[test]
fn good_heads() {
    let judged = line("GET http://A:80/x?y HTTP/1.1").unwrap();
    assert_eq!(judged.target, Target::Absolute { tls: false, path: "/x?y".into() });
    assert_eq!(judged.authority.unwrap().to_string(), "a:80");
    assert_eq!(line("GET http://a?y HTTP/1.1").unwrap().target, Target::Absolute { tls: false, path: "/?y".into() });
    assert_eq!(line("GET HTTPS://a:443 HTTP/1.1").unwrap().target, Target::Absolute { tls: true, path: "/".into() });
    assert_eq!(line("GET /\u{e9}\"<> HTTP/1.1").unwrap().target, Target::Origin("/%C3%A9%22%3C%3E".into()));
    assert_eq!(line("OPTIONS http://a HTTP/1.1").unwrap().target, Target::Absolute { tls: false, path: "*".into() });
    assert_eq!(line("OPTIONS http://a/ HTTP/1.1").unwrap().target, Target::Absolute { tls: false, path: "/".into() });
    assert_eq!(line("OPTIONS * HTTP/1.1").unwrap().target, Target::Asterisk);

    let connect = judge(b"CONNECT a:443 HTTP/1.0\r\n\r\n").unwrap();
    assert_eq!((connect.target, connect.authority.unwrap().to_string().as_str()), (Target::Tunnel, "a:443"));
    assert!(judge(b"CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n").is_ok());

    let old = judge(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    assert!(!old.http11 && old.authority.is_none() && old.fields.is_empty());
    let head = b"GET / HTTP/1.1\r\nHost: a\r\nX: \xe9\t1\r\n\r\n";
    assert_eq!(&head[judge(head).unwrap().fields], b"Host: a\r\nX: \xe9\t1\r\n");
}

#[test]
fn framings() {
    use Refusal::{BothLengths, ContentLength, FieldName, TransferCoding, TransferEncoding};
    for (fields, expected) in [
        ("", Ok(Framing::Length(0))),
        ("Content-Length: 0\r\n", Ok(Framing::Length(0))),
        ("content-length:5\r\n", Ok(Framing::Length(5))),
        ("Content-Length: 5 \r\n", Ok(Framing::Length(5))),
        ("Content-Length: 0005\r\n", Err(ContentLength)),
        ("Transfer-Encoding: chunked\r\n", Ok(Framing::Chunked)),
        ("Transfer-Encoding:\tchunked\r\n", Ok(Framing::Chunked)),
        ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", Err(BothLengths)),
        ("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", Err(BothLengths)),
        ("Transfer-Encoding: identity\r\nContent-Length: 1\r\n", Err(BothLengths)),
        ("Content-Length: 5\r\nContent-Length: 5\r\n", Err(ContentLength)),
        ("Content-Length: 5\r\ncontent-length: 6\r\n", Err(ContentLength)),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", Err(TransferEncoding)),
        ("Transfer_Encoding: chunked\r\n", Err(FieldName)),
        ("Content_Length: 5\r\n", Err(FieldName)),
        ("Transfer-Encoding: gzip, chunked\r\n", Err(TransferCoding)),
        ("Transfer-Encoding: identity\r\n", Err(TransferCoding)),
    ] {
        assert_eq!(post(fields), expected, "{fields}");
    }
    for value in
        ["+5", "-0", "0x5", "5,5", "5, 5", "5,6", "", " ", "18446744073709551616", "9223372036854775808", "5 5", "½"]
    {
        assert_eq!(post(&format!("Content-Length: {value}\r\n")), Err(ContentLength), "{value}");
    }
    for value in [
        "Chunked",
        "CHUNKED",
        "xchunked",
        "chunkedx",
        "chunked,",
        ",chunked",
        "chunked, chunked",
        "chunked, identity",
        "\"chunked\"",
        "chunked;q=1",
        "chu nked",
        "",
        "x",
        "cow, chunked",
        "chunked\u{a0}",
        "'chunked'",
    ] {
        assert_eq!(post(&format!("Transfer-Encoding: {value}\r\n")), Err(TransferEncoding), "{value}");
    }
    let old = judge(b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert_eq!(old, Err(TransferEncoding));
    for (head, expected) in [
        ("POST / HTTP/1.0\r\n\r\n", Err(Refusal::LengthMissing)),
        ("PUT / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", Err(Refusal::LengthMissing)),
        ("PATCH / HTTP/1.0\r\nConnection: close\r\n\r\n", Err(Refusal::LengthMissing)),
        ("POST / HTTP/1.0\r\nContent-Length: 0\r\n\r\n", Ok(Framing::Length(0))),
        ("GET / HTTP/1.0\r\n\r\n", Ok(Framing::Length(0))),
        ("POST / HTTP/1.1\r\nHost: a\r\n\r\n", Ok(Framing::Length(0))),
    ] {
        assert_eq!(judge(head.as_bytes()).map(|judged| judged.framing), expected, "{head}");
    }
}

#[test]
fn request_lines() {
    for (text, refusal) in [
        ("GET  / HTTP/1.1", Refusal::RequestLine),
        (" GET / HTTP/1.1", Refusal::RequestLine),
        ("GET / HTTP/1.1 ", Refusal::RequestLine),
        ("GET\t/ HTTP/1.1", Refusal::RequestLine),
        ("GET /", Refusal::RequestLine),
        ("GET / http/1.1", Refusal::RequestLine),
        ("GET / HTTP/1.1x", Refusal::RequestLine),
        ("GET / HTTP/11.1", Refusal::RequestLine),
        ("G(T / HTTP/1.1", Refusal::RequestLine),
        ("GET / HTTP/2.0", Refusal::Version),
        ("GET / HTTP/0.9", Refusal::Version),
        ("GET / HTTP/1.2", Refusal::Version),
        ("TRACE / HTTP/1.1", Refusal::Method),
        ("GET a HTTP/1.1", Refusal::Target),
        ("GET * HTTP/1.1", Refusal::Target),
        ("GET ftp://a/ HTTP/1.1", Refusal::Target),
        ("GET http:/a/ HTTP/1.1", Refusal::Target),
        ("GET ?x HTTP/1.1", Refusal::Target),
        ("GET /#a HTTP/1.1", Refusal::Fragment),
        ("GET http://a#b/ HTTP/1.1", Refusal::Fragment),
        ("GET /a\\b HTTP/1.1", Refusal::Backslash),
        ("GET http://a\\@b/ HTTP/1.1", Refusal::Backslash),
        ("GET http://u:p@a/ HTTP/1.1", Refusal::Userinfo),
        ("GET http:/// HTTP/1.1", Refusal::Authority),
        ("GET http://a:x/ HTTP/1.1", Refusal::Authority),
        ("GET http://a\u{c0}\u{af}/ HTTP/1.1", Refusal::Authority),
        ("GET http://b/ HTTP/1.1", Refusal::HostMismatch),
        ("GET http://a:81/ HTTP/1.1", Refusal::HostMismatch),
        ("GET https://a:80/ HTTP/1.1", Refusal::HostMismatch),
        ("CONNECT a HTTP/1.1", Refusal::ConnectTarget),
        ("CONNECT a:443/x HTTP/1.1", Refusal::Authority),
        ("CONNECT http://a:443 HTTP/1.1", Refusal::Authority),
        ("CONNECT b:443 HTTP/1.1", Refusal::HostMismatch),
    ] {
        assert_eq!(line(text), Err(refusal), "{text}");
    }
    assert_eq!(line(&format!("GET /{} HTTP/1.1", "a".repeat(MAX_TARGET_BYTES))), Err(Refusal::TargetTooLong));
    let longest = "A".repeat(MAX_METHOD_BYTES);
    assert_eq!(line(&format!("{longest} / HTTP/1.1")).unwrap().method, longest);
    assert_eq!(line(&format!("{longest}A / HTTP/1.1")), Err(Refusal::Method));
}

#[test]
fn header_lines() {
    for (fields, refusal) in [
        ("Host: a\r\n", Refusal::HostTwice),
        ("X : a\r\n", Refusal::FieldName),
        ("X\t: a\r\n", Refusal::FieldName),
        (": a\r\n", Refusal::FieldName),
        ("X\r\n", Refusal::FieldName),
        ("X\u{e9}: a\r\n", Refusal::FieldName),
        ("X(: a\r\n", Refusal::FieldName),
        (" X: a\r\n", Refusal::ObsFold),
        ("X: a\r\n b\r\n", Refusal::ObsFold),
        ("X: a\r\n\tb: c\r\n", Refusal::ObsFold),
        ("X: a\nY: b\r\n", Refusal::BareCrOrLf),
        ("X: a\rY: b\r\n", Refusal::BareCrOrLf),
        ("X: a\0\r\n", Refusal::ControlByte),
        ("X: \u{1b}[0m\r\n", Refusal::ControlByte),
        ("X: \u{7f}\r\n", Refusal::ControlByte),
        // The first one of a line says what is wrong with it.
        ("X: a\0\nY: b\r\n", Refusal::ControlByte),
        ("X: a\r\0\r\n", Refusal::BareCrOrLf),
        ("X: a\r\r\n", Refusal::BareCrOrLf),
        ("X: a\r\n\nY: b\r\n", Refusal::BareCrOrLf),
        ("X: a\r\nY: b\0\r\n", Refusal::ControlByte),
    ] {
        assert_eq!(get(fields), Err(refusal), "{fields:?}");
    }
    assert!(get(&"X: a\r\n".repeat(MAX_FIELDS - 1)).is_ok());
    assert_eq!(get(&"X: a\r\n".repeat(MAX_FIELDS)), Err(Refusal::TooManyFields));
    assert_eq!(get(&format!("X: {}\r\n", "a".repeat(MAX_HEAD_BYTES))), Err(Refusal::HeadTooLarge));
    assert_eq!(judge(b"GET / HTTP/1.1\r\n\r\n"), Err(Refusal::HostMissing));
    assert_eq!(judge(b"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n"), Err(Refusal::Userinfo));
    assert_eq!(judge(b"GET / HTTP/1.1\r\nHost:\r\n\r\n"), Err(Refusal::Authority));
    assert_eq!(judge(b"CONNECT a:1 HTTP/1.1\r\nContent-Length: 1\r\n\r\n"), Err(Refusal::BodyNotAllowed));
}

/// Lines are found many bytes at once. Byte by byte it must come to the same: what a line is decides what a request is.
#[test]
fn lines_are_those_that_a_slow_reader_finds() {
    fn slowly(mut rest: &[u8]) -> Vec<Result<&[u8], Refusal>> {
        let mut lines = Vec::new();
        loop {
            let Some(at) = rest.iter().position(|byte| byte.is_ascii_control() && *byte != b'\t') else {
                lines.push(Ok(rest));
                return lines;
            };
            match &rest[at..] {
                [b'\r', b'\n', next @ ..] => {
                    lines.push(Ok(&rest[..at]));
                    rest = next;
                }
                behind => {
                    let bare = matches!(behind[0], b'\r' | b'\n');
                    lines.push(Err(if bare { Refusal::BareCrOrLf } else { Refusal::ControlByte }));
                    return lines;
                }
            }
        }
    }
    const BYTES: [u8; 6] = [b'a', b'\t', b'\r', b'\n', 0, 0x7f];
    for length in 0..7 {
        for number in 0..BYTES.len().pow(length) {
            let text: Vec<u8> = (0..length).map(|place| BYTES[number / BYTES.len().pow(place) % BYTES.len()]).collect();
            // Whoever reads lines ends at the first that is refused.
            let mut lines: Vec<_> = Lines { rest: Some(&text) }.collect();
            let ends = lines.iter().position(Result::is_err).map_or(lines.len(), |at| at + 1);
            lines.truncate(ends);
            assert_eq!(lines, slowly(&text), "{text:?}");
        }
    }
}

#[test]
fn ends_of_heads() {
    use HeadEnd::{At, Incomplete};
    for (bytes, expected) in [
        ("", Ok(Incomplete)),
        ("\r\n", Ok(Incomplete)),
        ("GET / HTTP/1.1\r", Ok(Incomplete)),
        ("GET / HTTP/1.1\r\nA: b\r\n", Ok(Incomplete)),
        ("GET / HTTP/1.1\r\n\r\nrest\n", Ok(At { start: 0, end: 18 })),
        ("\r\n\r\nG /\r\n\r\n", Ok(At { start: 4, end: 11 })),
        ("GET / HTTP/1.1\n", Err(Refusal::BareCrOrLf)),
        ("\n", Err(Refusal::BareCrOrLf)),
        ("\u{16}\u{3}\u{1}", Err(Refusal::RequestLine)),
        (" GET", Err(Refusal::RequestLine)),
    ] {
        assert_eq!(head_end(bytes.as_bytes(), 0), expected, "{bytes:?}");
    }
    assert_eq!(head_end(&[b'a'; MAX_HEAD_BYTES + 1], 0), Err(Refusal::HeadTooLarge));
    assert_eq!(head_end("\r\n".repeat(9).as_bytes(), 0), Err(Refusal::RequestLine));
}

proptest! {
    #[test]
    fn anything_gets_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = head_end(&bytes, 0);
        let _ = judge(&bytes);
    }

    #[test]
    fn nearly_right_heads_get_an_answer(text in "(GET|CONNECT|x) (/|http://a|a:1|\\*)[ -~]{0,8} HTTP/1\\.[01]\r\n(Host|[ -~]{1,5}):[ -~\r\n]{0,20}\r\n\r\n") {
        if let Ok(judged) = judge(text.as_bytes()) {
            prop_assert!(text.as_bytes()[judged.fields.clone()].is_empty() || text.as_bytes()[judged.fields].ends_with(b"\r\n"));
        }
    }
}

#[test]
fn byte_by_byte() {
    let bytes = b"\r\nGET / HTTP/1.1\r\nA: b\r\n\r\nmore";
    let end = bytes.len() - 4;
    for upto in 0..end {
        assert_eq!(head_end(&bytes[..upto], upto.saturating_sub(1)), Ok(HeadEnd::Incomplete), "{upto}");
    }
    assert_eq!(head_end(bytes, end - 1), Ok(HeadEnd::At { start: 2, end }));
}
