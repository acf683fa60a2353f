//! What several fuzz targets need: a naive reader of chunked bodies, and maps of fields from bytes.

use http::{HeaderMap, HeaderName, HeaderValue};
use tinaja_http::body::{BodyWalk, Framing};
use tinaja_http::limits::{MAX_LINE_BYTES, MAX_TRAILER_BYTES};

/// What is known of a chunked body after some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunked {
    /// It ended after that many bytes.
    Ended(usize),
    /// All of it is right so far, and there is more to come.
    Open,
    /// It is malformed.
    Bad,
}

/// Compares the walk that the proxy uses, fed in pieces, with the naive reader below, which sees all at once. The first
/// byte says how long the pieces are. With `faulty` the reader has a fault that a fuzzer has to find: it takes a space
/// behind a chunk's size, as some servers do.
pub fn compare_chunked(data: &[u8], faulty: bool) {
    let Some((piece, body)) = data.split_first() else { return };
    let expected = read_chunked(body, faulty);
    let mut walk = BodyWalk::new(Framing::Chunked);
    let mut taken = 0;
    let mut found = Chunked::Open;
    for piece in body.chunks(usize::from(*piece).max(1)) {
        match walk.take(piece) {
            Ok(now) => taken += now,
            Err(_) => {
                found = Chunked::Bad;
                break;
            }
        }
        if walk.done() {
            found = Chunked::Ended(taken);
            break;
        }
    }
    assert_eq!(found, expected, "{}", body.escape_ascii());
}

/// Reads a chunked body as RFC 9112 7.1 has it, with the limits and refusals of `tinaja_http::body`.
fn read_chunked(body: &[u8], faulty: bool) -> Chunked {
    let mut rest = body;
    loop {
        let line = match take_line(&mut rest) {
            Ok(line) => line,
            Err(end) => return end,
        };
        let size = line.split(|byte| *byte == b';').next().unwrap();
        let size = if faulty { size.trim_ascii_end() } else { size };
        if size.is_empty() || size.len() > 15 || !size.iter().all(u8::is_ascii_hexdigit) {
            return Chunked::Bad;
        }
        let size = size.iter().fold(0u64, |sum, digit| sum * 16 + u64::from((*digit as char).to_digit(16).unwrap()));
        if size == 0 {
            break;
        }
        let Some(behind) = usize::try_from(size).ok().and_then(|size| rest.get(size..)) else { return Chunked::Open };
        match behind {
            [b'\r', b'\n', ..] => rest = &behind[2..],
            [] | [b'\r'] => return Chunked::Open,
            _ => return Chunked::Bad,
        }
    }
    let mut trailer_bytes = 0;
    loop {
        let line = match take_line(&mut rest) {
            Ok(line) => line,
            Err(end) => return end,
        };
        if line.is_empty() {
            return Chunked::Ended(body.len() - rest.len());
        }
        trailer_bytes += line.len();
        let name = line.split(|byte| *byte == b':').next().unwrap();
        let name = std::str::from_utf8(name).unwrap_or_default().to_ascii_lowercase();
        let token =
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b));
        let plain = name.replace('_', "-");
        let forbidden = ["content-length", "transfer-encoding", "host", "authorization"].contains(&plain.as_str());
        if !line.contains(&b':') || !token || forbidden || trailer_bytes > MAX_TRAILER_BYTES {
            return Chunked::Bad;
        }
    }
}

/// Takes one line without its CR LF; what is there of an unfinished one must be right too.
fn take_line<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], Chunked> {
    let end = rest.iter().position(|byte| *byte == b'\n');
    let line = &rest[..end.unwrap_or(rest.len())];
    let text = line.strip_suffix(b"\r");
    let control = |byte: &u8| (*byte < b' ' && *byte != b'\t') || *byte == 0x7f;
    if line.len() > MAX_LINE_BYTES || text.unwrap_or(line).iter().any(control) {
        return Err(Chunked::Bad);
    }
    match (end, text) {
        (Some(end), Some(text)) => {
            *rest = &rest[end + 1..];
            Ok(text)
        }
        (Some(_), None) => Err(Chunked::Bad),
        (None, _) => Err(Chunked::Open),
    }
}

/// Fields from lines: the first byte of a line picks one of `names`, the others are its value. Lines that cannot stand
/// in a map are left out.
pub fn fields(data: &[u8], names: &[HeaderName]) -> HeaderMap {
    let lines = data.split(|byte| *byte == b'\n').filter_map(|line| {
        let (first, value) = line.split_first()?;
        let name = names[usize::from(*first) % names.len()].clone();
        Some((name, HeaderValue::from_bytes(value).ok()?))
    });
    let mut map = HeaderMap::new();
    for (name, value) in lines.take(200) {
        map.append(name, value);
    }
    map
}
