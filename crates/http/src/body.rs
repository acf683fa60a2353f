//! Where a request's body ends, byte by byte, so that what follows it is judged as the next request.

use bytes::{Buf, Bytes, BytesMut};

use crate::limits::{MAX_LINE_BYTES, MAX_TRAILER_BYTES};

/// How a request's body is framed (RFC 9112 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// That many bytes; 0 for no body.
    Length(u64),
    /// Chunked transfer coding.
    Chunked,
}

/// Trailer fields that would change the message they end (RFC 9110 6.5.1).
const FORBIDDEN_TRAILERS: [&[u8]; 4] = [b"content-length", b"transfer-encoding", b"host", b"authorization"];

/// A chunked body that is malformed or over a limit: the connection cannot be used further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request's chunked body is malformed")]
pub struct BadBody;

/// Walks over a body and finds its end. Holds at most one line of the body.
#[derive(Clone, Debug)]
pub struct BodyWalk {
    state: WalkState,
    line: Vec<u8>,
    trailer_bytes: usize,
    /// Trailer fields are dropped, whatever they are called: an answer's, which nobody further on sees.
    any_trailers: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WalkState {
    /// Bytes of a body with a length.
    Plain(u64),
    /// In the line with a chunk's size.
    Size,
    /// Bytes of a chunk.
    Data(u64),
    /// The CR and the LF behind a chunk's bytes.
    DataCr,
    DataLf,
    /// In a trailer field, or in the empty line that ends the body.
    Trailer,
    Done,
}

impl BodyWalk {
    /// At the body's start.
    pub fn new(framing: Framing) -> BodyWalk {
        let state = match framing {
            Framing::Length(0) => WalkState::Done,
            Framing::Length(bytes) => WalkState::Plain(bytes),
            Framing::Chunked => WalkState::Size,
        };
        BodyWalk { state, line: Vec::new(), trailer_bytes: 0, any_trailers: false }
    }

    /// At the start of an answer's body, whose trailers end here. A request's must not even name what frames it: others
    /// may have read those.
    pub fn of_answer(framing: Framing) -> BodyWalk {
        BodyWalk { any_trailers: true, ..BodyWalk::new(framing) }
    }

    /// Whether the body has ended.
    pub fn done(&self) -> bool {
        self.state == WalkState::Done
    }

    /// How many bytes of a body of announced length are still to come; `None` where its chunks will say.
    pub fn left(&self) -> Option<u64> {
        match self.state {
            WalkState::Plain(left) => Some(left),
            WalkState::Done => Some(0),
            _ => None,
        }
    }

    /// The next bytes of the body's content, without chunk sizes, extensions and trailers, taken from the front of what
    /// was read. `None` where there are none yet, or the body has ended; what belongs to its frame alone is gone then.
    ///
    /// Errors: [`BadBody`].
    pub fn next_data(&mut self, read: &mut BytesMut) -> Result<Option<Bytes>, BadBody> {
        while let Some(byte) = read.first().copied() {
            match self.state {
                WalkState::Done => break,
                WalkState::Plain(left) | WalkState::Data(left) => {
                    let taken = usize::try_from(left).unwrap_or(usize::MAX).min(read.len());
                    self.skip(taken as u64, left);
                    return Ok(Some(read.split_to(taken).freeze()));
                }
                _ => {
                    self.step(byte)?;
                    read.advance(1);
                }
            }
        }
        Ok(None)
    }

    /// How many of the next bytes belong to the body: all of them unless it ends among them.
    ///
    /// Errors: [`BadBody`]; nothing of `bytes` may be passed on then.
    pub fn take(&mut self, bytes: &[u8]) -> Result<usize, BadBody> {
        let mut rest = bytes;
        while let Some((byte, behind)) = rest.split_first() {
            match self.state {
                WalkState::Done => break,
                WalkState::Plain(left) | WalkState::Data(left) => {
                    let taken = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
                    self.skip(taken as u64, left);
                    rest = rest.get(taken..).unwrap_or_default();
                }
                _ => {
                    self.step(*byte)?;
                    rest = behind;
                }
            }
        }
        Ok(bytes.len() - rest.len())
    }

    fn skip(&mut self, taken: u64, left: u64) {
        let left = left - taken;
        self.state = match (self.state, left) {
            (WalkState::Plain(_), 0) => WalkState::Done,
            (WalkState::Plain(_), left) => WalkState::Plain(left),
            (_, 0) => WalkState::DataCr,
            (_, left) => WalkState::Data(left),
        };
    }

    fn step(&mut self, byte: u8) -> Result<(), BadBody> {
        self.state = match (self.state, byte) {
            (WalkState::DataCr, b'\r') => WalkState::DataLf,
            (WalkState::DataLf, b'\n') => WalkState::Size,
            (WalkState::Size | WalkState::Trailer, b'\n') => self.line_ended()?,
            (state @ (WalkState::Size | WalkState::Trailer), byte) => {
                // At once, not at the line's end: whoever gets these bytes must not find a line's end earlier.
                let control = byte.is_ascii_control() && !matches!(byte, b'\t' | b'\r');
                if control || self.line.ends_with(b"\r") || self.line.len() == MAX_LINE_BYTES {
                    return Err(BadBody);
                }
                self.line.push(byte);
                state
            }
            _ => return Err(BadBody),
        };
        Ok(())
    }

    /// A whole line is there, with its CR and without its LF.
    fn line_ended(&mut self) -> Result<WalkState, BadBody> {
        let line = self.line.strip_suffix(b"\r").ok_or(BadBody)?;
        let next = if self.state == WalkState::Size {
            match chunk_size(line)? {
                0 => WalkState::Trailer,
                size => WalkState::Data(size),
            }
        } else if line.is_empty() {
            WalkState::Done
        } else {
            self.trailer_bytes += line.len();
            check_trailer(line, self.any_trailers)?;
            if self.trailer_bytes > MAX_TRAILER_BYTES {
                return Err(BadBody);
            }
            WalkState::Trailer
        };
        self.line.clear();
        Ok(next)
    }
}

/// A chunk's size in hexadecimal digits, then perhaps `;` and extensions (RFC 9112 7.1).
fn chunk_size(line: &[u8]) -> Result<u64, BadBody> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let (size, rest) = line.split_at_checked(digits).ok_or(BadBody)?;
    // 15 digits are an exabyte, and cannot overflow.
    if size.is_empty() || size.len() > 15 || !(rest.is_empty() || rest.starts_with(b";")) {
        return Err(BadBody);
    }
    let size = std::str::from_utf8(size).map_err(|_| BadBody)?;
    u64::from_str_radix(size, 16).map_err(|_| BadBody)
}

fn check_trailer(line: &[u8], any: bool) -> Result<(), BadBody> {
    let colon = line.iter().position(|byte| *byte == b':').ok_or(BadBody)?;
    let name = line.get(..colon).unwrap_or_default();
    // Some servers read `_` as `-` in a name.
    let plain: Vec<u8> = name.iter().map(|byte| if *byte == b'_' { b'-' } else { byte.to_ascii_lowercase() }).collect();
    if !crate::words::is_token(name) || (!any && FORBIDDEN_TRAILERS.contains(&plain.as_slice())) {
        return Err(BadBody);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn taken(framing: Framing, bytes: &[u8], piece: usize) -> Result<(usize, bool), BadBody> {
        let mut walk = BodyWalk::new(framing);
        let mut taken = 0;
        for piece in bytes.chunks(piece) {
            let now = walk.take(piece)?;
            taken += now;
            if now < piece.len() {
                break;
            }
        }
        Ok((taken, walk.done()))
    }

    #[test]
    fn ends() {
        for (framing, body) in [
            (Framing::Length(0), ""),
            (Framing::Length(5), "hello"),
            (Framing::Chunked, "0\r\n\r\n"),
            (Framing::Chunked, "5\r\nhello\r\n00a;x=\"y\"\r\n0123456789\r\n0\r\n\r\n"),
            (Framing::Chunked, "1\r\na\r\n0\r\nX-Sum: 1\r\nx-b:\r\n\r\n"),
        ] {
            let with_next = format!("{body}GET / HTTP/1.1\r\n");
            for piece in [1, 2, 3, 7, 1000] {
                assert_eq!(taken(framing, with_next.as_bytes(), piece), Ok((body.len(), true)), "{body} by {piece}");
            }
            if !body.is_empty() {
                let cut = body.len() - 1;
                assert_eq!(taken(framing, &body.as_bytes()[..cut], 2), Ok((cut, false)), "{body} cut");
            }
        }
    }

    #[test]
    fn what_is_left() {
        let mut walk = BodyWalk::new(Framing::Length(5));
        for (bytes, left) in [(&b""[..], 5), (b"he", 3), (b"llo", 0), (b"more", 0)] {
            walk.take(bytes).unwrap();
            assert_eq!(walk.left(), Some(left));
        }
        assert_eq!(BodyWalk::new(Framing::Chunked).left(), None);
    }

    #[test]
    fn malformed() {
        let long_extension = format!("1;{}\r\n", "x".repeat(MAX_LINE_BYTES));
        let many_trailers = format!("0\r\n{}\r\n", "a: b\r\n".repeat(MAX_TRAILER_BYTES / 4 + 1));
        for body in [
            "0x5\r\nhello\r\n",
            "+5\r\n",
            "-5\r\n",
            "1_0\r\n",
            " 5\r\n",
            "5 \r\n",
            "\r\n",
            "g\r\n",
            "5\nhello\r\n",
            "5\rhello",
            "5\r\nhello0\r\n",
            "5\r\nhello\n0\r\n",
            "ffffffffffffffff\r\n",
            "10000000000000000\r\n",
            "5;a\0\r\n",
            "5;a\rb\r\n",
            "0\r\nContent-Length: 5\r\n\r\n",
            "0\r\nhost: a\r\n\r\n",
            "0\r\nContent_Length: 5\r\n\r\n",
            "0\r\nTRANSFER_encoding: chunked\r\n\r\n",
            "0\r\nTransfer-Encoding: chunked\r\n\r\n",
            "0\r\nauthorization: x\r\n\r\n",
            "0\r\nno colon\r\n\r\n",
            "0\r\na : b\r\n\r\n",
            "0\r\n fold: b\r\n\r\n",
            &long_extension,
            &many_trailers,
        ] {
            for piece in [1, 1000] {
                assert_eq!(taken(Framing::Chunked, body.as_bytes(), piece), Err(BadBody), "{body:?} by {piece}");
            }
        }
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(body in proptest::collection::vec(prop::sample::select(b"015a\r\n;: x".to_vec()), 0..60),
                                piece in 1usize..9) {
            prop_assert_eq!(taken(Framing::Chunked, &body, piece).ok(), taken(Framing::Chunked, &body, 1).ok());
        }
    }
}
