//! A judge of raw HTTP/1 response heads: is it beyond doubt where the answer ends?
//!
//! Parsers settle some contradictions of frames, each in its own way. An answer that one of them would cut elsewhere is
//! not worth storing, and what follows it on its connection is nobody's answer. What is merely written oddly, such as
//! lines that end with LF alone, is read for what it is: it goes on in one canonical form.

use http::StatusCode;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use memchr::{memchr, memchr_iter};

use crate::limits::{MAX_ANSWER_FIELDS, MAX_ANSWER_HEAD_BYTES};
use crate::lines::{Line, whole_lines};
use crate::words::{is_text, is_token};

/// Why a response head is not to be trusted (RFC 9112 4, 5, 6.1 and 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAnswer {
    /// It does not begin with a version of HTTP/1, a status, and text behind that.
    #[error("its answer is no valid HTTP")]
    StatusLine,
    /// Larger than [`MAX_ANSWER_HEAD_BYTES`].
    #[error("the head of its answer is larger than {MAX_ANSWER_HEAD_BYTES} bytes")]
    TooLarge,
    /// More than [`MAX_ANSWER_FIELDS`] header lines.
    #[error("its answer has more than {MAX_ANSWER_FIELDS} header lines")]
    TooManyFields,
    /// Content-Length and Transfer-Encoding, or one of them twice.
    #[error("its answer says in two ways where it ends")]
    TwoLengths,
    /// A transfer coding other than chunked, or any in HTTP/1.0.
    #[error("its answer comes in a transfer coding that nobody asked for")]
    Coding,
    /// A Content-Length that is no number.
    #[error("the length of its answer is no number")]
    Length,
    /// A line folded, a name followed by a space, a line without a colon, or a control byte.
    #[error("its answer has a malformed header line")]
    Line,
}

/// Where an answer's content ends (RFC 9112 6.3), if it is one that has content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerEnd {
    /// After so many bytes.
    Length(u64),
    /// With the last chunk.
    Chunked,
    /// With the connection.
    Close,
}

/// A response head that is beyond doubt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgedAnswer {
    /// Its status.
    pub status: StatusCode,
    /// Whether the version is HTTP/1.1 rather than HTTP/1.0.
    pub http11: bool,
    /// The bytes of the header lines within the head.
    pub fields: std::ops::Range<usize>,
    /// Where its content ends.
    pub end: AnswerEnd,
}

/// Finds the end of the first head in `bytes`, behind its empty line. `seen` is how many of them an earlier call has
/// looked at already. `None` where more bytes are needed.
///
/// Errors: what no further byte could mend.
pub fn answer_head_end(bytes: &[u8], seen: usize) -> Result<Option<usize>, BadAnswer> {
    const BEGINS: &[u8] = b"HTTP/1.";
    let begun = bytes.len().min(BEGINS.len());
    if bytes.get(..begun) != BEGINS.get(..begun) {
        return Err(BadAnswer::StatusLine);
    }
    let seen = seen.min(bytes.len());
    for at in memchr_iter(b'\n', bytes.get(seen..).unwrap_or_default()).map(|at| seen + at) {
        let before = bytes.get(..at).unwrap_or_default();
        let before = before.strip_suffix(b"\r").unwrap_or(before);
        if before.ends_with(b"\n") {
            return if at < MAX_ANSWER_HEAD_BYTES { Ok(Some(at + 1)) } else { Err(BadAnswer::TooLarge) };
        }
    }
    if bytes.len() > MAX_ANSWER_HEAD_BYTES { Err(BadAnswer::TooLarge) } else { Ok(None) }
}

/// Judges a head from its status line to its empty line.
pub fn judge_answer(head: &[u8]) -> Result<JudgedAnswer, BadAnswer> {
    let first = memchr(b'\n', head).ok_or(BadAnswer::StatusLine)? + 1;
    let (status_line, rest) = head.split_at_checked(first).ok_or(BadAnswer::StatusLine)?;
    let (status, http11) = read_status_line(without_its_end(status_line))?;
    let (mut count, mut frame) = (0, Frame::default());
    // What is wrong with a frame is told where all lines are well-formed.
    let mut framed = Ok(());
    for line in whole_lines(rest) {
        count += 1;
        if let Some(line) = read_line(line)? {
            framed = framed.and_then(|()| frame.read(&line, http11));
        }
    }
    // One more is the empty line.
    if count > MAX_ANSWER_FIELDS + 1 {
        return Err(BadAnswer::TooManyFields);
    }
    framed?;
    let end = frame.end()?;
    let empty_line = if head.ends_with(b"\r\n") { 2 } else { 1 };
    Ok(JudgedAnswer { status, http11, fields: first..head.len() - empty_line, end })
}

/// `HTTP/1.x SP status`, and perhaps a space and a reason (RFC 9112 4). A bare CR in that ends the line for some readers, who take
/// what follows for fields that nobody here has judged.
fn read_status_line(line: &[u8]) -> Result<(StatusCode, bool), BadAnswer> {
    let rest = line.strip_prefix(b"HTTP/1.").ok_or(BadAnswer::StatusLine)?;
    let (version, status) = match rest {
        [version @ (b'0' | b'1'), b' ', status @ ..] => (*version, status),
        _ => return Err(BadAnswer::StatusLine),
    };
    let (code, reason) = status.split_at_checked(3).ok_or(BadAnswer::StatusLine)?;
    let code = StatusCode::from_bytes(code).map_err(|_| BadAnswer::StatusLine)?;
    let known_class = (100..600).contains(&code.as_u16());
    let ended = reason.is_empty() || reason.starts_with(b" ");
    if known_class && ended && is_text(reason) { Ok((code, version == b'1')) } else { Err(BadAnswer::StatusLine) }
}

/// What of a head says where its content ends.
#[derive(Default)]
struct Frame {
    length: Option<u64>,
    lengths: usize,
    codings: usize,
}

impl Frame {
    fn read(&mut self, line: &Line<'_>, http11: bool) -> Result<(), BadAnswer> {
        let value = line.value;
        if line.is(&CONTENT_LENGTH) {
            self.lengths += 1;
            let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit) && value.len() <= 18;
            let number = std::str::from_utf8(value).ok().filter(|_| digits).and_then(|value| value.parse().ok());
            self.length = Some(number.ok_or(BadAnswer::Length)?);
        } else if line.is(&TRANSFER_ENCODING) {
            self.codings += 1;
            if !http11 || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(BadAnswer::Coding);
            }
        }
        Ok(())
    }

    fn end(self) -> Result<AnswerEnd, BadAnswer> {
        match (self.length, self.codings) {
            _ if self.lengths + self.codings > 1 => Err(BadAnswer::TwoLengths),
            (Some(length), _) => Ok(AnswerEnd::Length(length)),
            (None, 0) => Ok(AnswerEnd::Close),
            (None, _) => Ok(AnswerEnd::Chunked),
        }
    }
}

/// One line; nothing of an empty one.
fn read_line(whole: &[u8]) -> Result<Option<Line<'_>>, BadAnswer> {
    let line = without_its_end(whole);
    if line.is_empty() {
        return Ok(None);
    }
    let split = memchr(b':', line).and_then(|colon| line.split_at_checked(colon));
    let (name, value) = split.filter(|(name, _)| is_token(name) && is_text(line)).ok_or(BadAnswer::Line)?;
    Ok(Some(Line { name, value: value.get(1..).unwrap_or_default().trim_ascii(), whole }))
}

/// A line without its LF and one CR before that.
fn without_its_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        for (lines, expected) in [
            ("HTTP/1.1 200 OK: fine\r\nA: b\r\nContent-Length: 5\r\n", Ok(AnswerEnd::Length(5))),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n", Ok(AnswerEnd::Chunked)),
            ("HTTP/1.0 200 OK\r\n", Ok(AnswerEnd::Close)),
            ("HTTP/1.1 200 OK\r\nX:\r\n", Ok(AnswerEnd::Close)),
            ("HTTP/1.1 200 OK\nX: y\nContent-Length: 005\n", Ok(AnswerEnd::Length(5))),
            ("HTTP/1.1 200 OK\r\nX: a\rb\r\n", Err(BadAnswer::Line)),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\ntransfer-encoding: chunked\r\n", Err(BadAnswer::TwoLengths)),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n", Err(BadAnswer::TwoLengths)),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n", Err(BadAnswer::Length)),
            ("HTTP/1.1 200 OK\r\nContent-Length: +5\r\n", Err(BadAnswer::Length)),
            ("HTTP/1.1 200 OK\r\nContent-Length:\r\n", Err(BadAnswer::Length)),
            ("HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999999\r\n", Err(BadAnswer::Length)),
            ("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n", Err(BadAnswer::Coding)),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n", Err(BadAnswer::Coding)),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n", Err(BadAnswer::Coding)),
            ("HTTP/1.1 200 OK\r\nContent-Length : 5\r\n", Err(BadAnswer::Line)),
            ("HTTP/1.1 200 OK\r\nA: b\r\n c\r\n", Err(BadAnswer::Line)),
            ("HTTP/1.1 200 OK\r\nnothing\r\n", Err(BadAnswer::Line)),
        ] {
            assert_eq!(judge_answer(format!("{lines}\r\n").as_bytes()).map(|judged| judged.end), expected, "{lines}");
        }
    }

    #[test]
    fn lines_are_counted() {
        let head = |lines| format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(lines));
        assert!(judge_answer(head(MAX_ANSWER_FIELDS).as_bytes()).is_ok());
        assert_eq!(judge_answer(head(MAX_ANSWER_FIELDS + 1).as_bytes()).unwrap_err(), BadAnswer::TooManyFields);
    }

    #[test]
    fn status_lines() {
        for (line, expected) in [
            ("HTTP/1.1 200 OK", Ok((200, true))),
            ("HTTP/1.0 404", Ok((404, false))),
            ("HTTP/1.1 200 ", Ok((200, true))),
            ("HTTP/1.1 599 \u{e9}", Ok((599, true))),
            ("HTTP/1.1 200 a\tb", Ok((200, true))),
            ("HTTP/1.1 200 OK\rX: y", Err(BadAnswer::StatusLine)),
            ("HTTP/1.1 200 OK\r\r", Err(BadAnswer::StatusLine)),
            ("HTTP/1.1 200\r\r", Err(BadAnswer::StatusLine)),
            ("HTTP/1.1 200 O\0K", Err(BadAnswer::StatusLine)),
            ("HTTP/1.1 200 OK\x7f", Err(BadAnswer::StatusLine)),
            ("HTTP/1.1 20 OK", Err(BadAnswer::StatusLine)),
            ("HTTP/1.1 2000", Err(BadAnswer::StatusLine)),
            ("HTTP/1.1 600 x", Err(BadAnswer::StatusLine)),
            ("HTTP/1.1  200", Err(BadAnswer::StatusLine)),
            ("HTTP/1.2 200 OK", Err(BadAnswer::StatusLine)),
            ("HTTP/2 200 OK", Err(BadAnswer::StatusLine)),
            ("ICY 200 OK", Err(BadAnswer::StatusLine)),
        ] {
            for end in ["\r\n\r\n", "\n\n"] {
                let judged = judge_answer(format!("{line}{end}").as_bytes());
                assert_eq!(judged.map(|judged| (judged.status.as_u16(), judged.http11)), expected, "{line}");
            }
        }
    }

    #[test]
    fn ends_of_heads() {
        for (bytes, expected) in [
            ("", Ok(None)),
            ("HTT", Ok(None)),
            ("HTTP/1.1 200 OK\r\nA: b\r\n", Ok(None)),
            ("HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody\r\n\r\n", Ok(Some(25))),
            ("HTTP/1.1 200 OK\nA: b\n\nbody", Ok(Some(22))),
            ("HTTP/1.1 200 OK\nA: b\r\n\nbody", Ok(Some(23))),
            ("hello", Err(BadAnswer::StatusLine)),
            ("\r\nHTTP/1.1 200 OK", Err(BadAnswer::StatusLine)),
        ] {
            assert_eq!(answer_head_end(bytes.as_bytes(), 0), expected, "{bytes}");
            let mut found = Ok(None);
            for length in 0..=bytes.len() {
                if found == Ok(None) {
                    found = answer_head_end(&bytes.as_bytes()[..length], length.saturating_sub(1));
                }
            }
            assert_eq!(found, expected, "byte by byte: {bytes}");
        }
        let endless = [b"HTTP/1.1 200 OK\r\nA: ", &vec![b'a'; MAX_ANSWER_HEAD_BYTES][..]].concat();
        assert_eq!(answer_head_end(&endless, 0), Err(BadAnswer::TooLarge));
        assert_eq!(answer_head_end(&[&endless[..], b"\r\n\r\n"].concat(), 0), Err(BadAnswer::TooLarge));
    }
}
