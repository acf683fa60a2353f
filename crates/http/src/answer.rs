//! A judge of raw HTTP/1 response heads: is it beyond doubt where the answer ends?
//!
//! Parsers settle some of these contradictions, each in its own way. An answer that one of them would cut elsewhere is
//! not worth storing, and what follows it on its connection is nobody's answer.

use crate::lines::lines;

/// Why a response head is not to be trusted (RFC 9112 6.1 and 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAnswer {
    /// Content-Length and Transfer-Encoding, or one of them twice.
    #[error("its answer says in two ways where it ends")]
    TwoLengths,
    /// A transfer coding other than chunked, or any in HTTP/1.0.
    #[error("its answer comes in a transfer coding that nobody asked for")]
    Coding,
    /// A Content-Length that is no number.
    #[error("the length of its answer is no number")]
    Length,
    /// A line folded, a name followed by a space, or a line without a colon.
    #[error("its answer has a malformed header line")]
    Line,
}

/// Judges a head from its status line to its empty line, which a parser has taken for one already.
pub fn judge_answer(head: &[u8]) -> Result<(), BadAnswer> {
    let (mut lengths, mut codings) = (0, 0);
    let http10 = head.starts_with(b"HTTP/1.0");
    let rest = head.iter().position(|byte| *byte == b'\n').and_then(|at| head.get(at + 1..)).unwrap_or_default();
    let well_formed = |line: &[u8]| {
        let line = line.trim_ascii_end();
        let colon = line.iter().position(|byte| *byte == b':');
        line.is_empty() || colon.is_some_and(|at| line.get(..at).is_some_and(crate::judge::is_token))
    };
    if !rest.split_inclusive(|byte| *byte == b'\n').all(well_formed) {
        return Err(BadAnswer::Line);
    }
    for line in lines(rest) {
        if line.is(&http::header::CONTENT_LENGTH) {
            lengths += 1;
            if line.value.is_empty() || !line.value.iter().all(u8::is_ascii_digit) || line.value.len() > 18 {
                return Err(BadAnswer::Length);
            }
        } else if line.is(&http::header::TRANSFER_ENCODING) {
            codings += 1;
            if http10 || !line.value.eq_ignore_ascii_case(b"chunked") {
                return Err(BadAnswer::Coding);
            }
        }
    }
    if lengths + codings > 1 { Err(BadAnswer::TwoLengths) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        for (lines, expected) in [
            ("HTTP/1.1 200 OK: fine\r\nA: b\r\nContent-Length: 5\r\n", Ok(())),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n", Ok(())),
            ("HTTP/1.0 200 OK\r\n", Ok(())),
            ("HTTP/1.1 200 OK\r\nX:\r\n", Ok(())),
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
            assert_eq!(judge_answer(format!("{lines}\r\n").as_bytes()), expected, "{lines}");
        }
    }
}
