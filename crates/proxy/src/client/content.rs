//! The content of a request over HTTP/2, whose last bytes are given out once it is known that they are the last.
//!
//! A request whose DATA is longer than its Content-Length is malformed, and no intermediary may forward it (RFC 9113 8.1.1). Over
//! HTTP/1 to an origin the bytes that were announced are a whole request, and it cannot be taken back once they are sent. So what
//! completes them waits here for the stream's end.

use ::h2::{Reason, RecvStream};
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_LENGTH;

use super::pace::Pace;
use super::{BadContent, Patience};

/// What one stream brings.
pub(crate) struct Content {
    stream: RecvStream,
    /// Bytes that were announced and have not come; nothing is known where none were.
    left: Option<u64>,
    /// What completed them.
    last: Option<Bytes>,
    ended: bool,
    pace: Pace,
}

impl Content {
    /// The content of a request with these fields, which were judged.
    pub fn new(stream: RecvStream, fields: &HeaderMap) -> Content {
        let left = fields.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        // Nearly all requests end with their head.
        let ended = stream.is_end_stream() && left.is_none_or(|left| left == 0);
        Content { stream, left, last: None, ended, pace: Pace::default() }
    }

    /// The next piece; `None` at the end. Dropped before it is ready, it has taken nothing.
    pub async fn next(&mut self, patience: &Patience) -> Result<Option<Bytes>, BadContent> {
        while !self.ended {
            match self.pace.wait(patience, self.stream.data()).await {
                Some(Some(Ok(piece))) => {
                    self.pace.came(piece.len());
                    // It may send as much again.
                    let _ = self.stream.flow_control().release_capacity(piece.len());
                    if let Some(piece) = self.unless_last(piece)? {
                        return Ok(Some(piece));
                    }
                }
                Some(Some(Err(error))) => return Err(bad(&error)),
                // Trailers end here, as they do over HTTP/1; malformed ones make the whole request so.
                Some(None) => match self.pace.wait(patience, self.stream.trailers()).await {
                    Some(Ok(_)) => self.ended = true,
                    Some(Err(error)) => return Err(bad(&error)),
                    None => return Err(BadContent::Stalled),
                },
                None => return Err(BadContent::Stalled),
            }
        }
        Ok(self.last.take())
    }

    /// The piece, if more must come behind it. `h2` counts as well; what it lets pass is counted here.
    fn unless_last(&mut self, piece: Bytes) -> Result<Option<Bytes>, BadContent> {
        let Some(left) = &mut self.left else { return Ok(Some(piece)) };
        *left = left.checked_sub(piece.len() as u64).ok_or(BadContent::Malformed)?;
        if *left > 0 {
            return Ok(Some(piece));
        }
        if !piece.is_empty() {
            self.last = Some(piece);
        }
        Ok(None)
    }
}

/// Whether the request broke the protocol, or its client went away.
fn bad(error: &::h2::Error) -> BadContent {
    if error.is_library() && error.reason() == Some(Reason::PROTOCOL_ERROR) {
        BadContent::Malformed
    } else {
        BadContent::Left
    }
}
