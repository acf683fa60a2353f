//! Where a raw request head ends.

use memchr::memchr_iter;

use crate::limits::{MAX_HEAD_BYTES, MAX_SKIPPED_BYTES};
use crate::refusal::Refusal;
use crate::words::is_token_byte;

/// Where a head ends in what has been read so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadEnd {
    /// More bytes are needed.
    Incomplete,
    /// The head is `start..end`; what stands before are empty lines, which are skipped (RFC 9112 2.2).
    At {
        /// The first byte of the request line.
        start: usize,
        /// Behind the empty line.
        end: usize,
    },
}

/// Finds the end of the first head in `bytes`. `seen` is how many of them an earlier call has looked at already, so
/// that a head that comes byte by byte is not searched again with each.
///
/// Errors: what no further byte could mend, so that nobody waits for an end that cannot come: too many bytes, a bare
/// LF, a first byte that begins no method (such as that of TLS).
pub fn head_end(bytes: &[u8], seen: usize) -> Result<HeadEnd, Refusal> {
    let mut start = 0;
    while bytes.get(start..).is_some_and(|rest| rest.starts_with(b"\r\n")) && start < MAX_SKIPPED_BYTES {
        start += 2;
    }
    let first = bytes.get(start).copied();
    let maybe_skipped = first == Some(b'\r') && bytes.len() == start + 1 && start < MAX_SKIPPED_BYTES;
    if first.is_some_and(|first| !is_token_byte(first)) && !maybe_skipped {
        return Err(if first == Some(b'\n') { Refusal::BareCrOrLf } else { Refusal::RequestLine });
    }
    let from = seen.clamp(start, bytes.len());
    for at in memchr_iter(b'\n', bytes.get(from..).unwrap_or_default()).map(|at| from + at) {
        let line_end = bytes.get(..=at).unwrap_or_default();
        if !line_end.ends_with(b"\r\n") {
            return Err(Refusal::BareCrOrLf);
        }
        if line_end.ends_with(b"\r\n\r\n") && at + 1 - start > MAX_HEAD_BYTES {
            return Err(Refusal::HeadTooLarge);
        }
        if line_end.ends_with(b"\r\n\r\n") {
            return Ok(HeadEnd::At { start, end: at + 1 });
        }
    }
    if bytes.len() - start > MAX_HEAD_BYTES { Err(Refusal::HeadTooLarge) } else { Ok(HeadEnd::Incomplete) }
}
