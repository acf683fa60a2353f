//! Raw request heads: found in pieces as at once, and those that pass the judge are read alike by another parser.
#![no_main]

use tinaja_http::body::Framing;
use tinaja_http::head::{HeadEnd, head_end};
use tinaja_http::judge::{Target, judge};
use tinaja_http::lines::{header_map, lines};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let all = head_end(data, 0);
    let mut seen = 0;
    let mut in_pieces = Ok(HeadEnd::Incomplete);
    for end in (0..=data.len()).step_by(1 + data.len() / 16) {
        in_pieces = head_end(&data[..end], seen);
        seen = end;
        if !matches!(in_pieces, Ok(HeadEnd::Incomplete)) {
            break;
        }
    }
    if let Ok(end @ HeadEnd::At { .. }) = in_pieces {
        assert_eq!(all, Ok(end));
    }
    let Ok(HeadEnd::At { start, end }) = all else { return };
    let head = &data[start..end];
    let Ok(judged) = judge(head) else { return };

    // The judge escapes bytes beyond ASCII in a target; the other parser wants UTF-8, and does not escape.
    let mut plain = head.to_vec();
    let line = plain.iter().position(|byte| *byte == b'\n').unwrap();
    plain[..line].iter_mut().filter(|byte| !byte.is_ascii()).for_each(|byte| *byte = b'x');
    let head = plain.as_slice();
    let mut slots = [httparse::EMPTY_HEADER; 256];
    let mut other = httparse::Request::new(&mut slots);
    assert_eq!(other.parse(head), Ok(httparse::Status::Complete(head.len())), "{}", head.escape_ascii());
    assert_eq!(other.method, Some(judged.method.as_str()));
    assert_eq!(other.version, Some(u8::from(judged.http11)));
    let ours: Vec<_> = lines(&head[judged.fields.clone()]).map(|line| (line.name, line.value)).collect();
    let theirs: Vec<_> = other.headers.iter().map(|field| (field.name.as_bytes(), field.value.trim_ascii())).collect();
    assert_eq!(ours, theirs);
    assert!(header_map(&bytes_of(&head[judged.fields.clone()]), |_| true).is_some());

    let of = |name: &str| theirs.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes())).count();
    assert!(of("host") <= 1 && of("content-length") + of("transfer-encoding") <= 1);
    match judged.framing {
        Framing::Chunked => assert_eq!(of("transfer-encoding"), 1),
        Framing::Length(0) => assert_eq!(of("transfer-encoding"), 0),
        Framing::Length(_) => assert_eq!(of("content-length"), 1),
    }
    assert!(judged.authority.is_some() || !judged.http11);
    if let Target::Origin(path) | Target::Absolute { path, .. } = &judged.target {
        assert!(path.starts_with(['/', '*']) && path.bytes().all(|byte| byte.is_ascii_graphic()), "{path}");
    }
});

fn bytes_of(fields: &[u8]) -> bytes::Bytes {
    bytes::Bytes::copy_from_slice(fields)
}
