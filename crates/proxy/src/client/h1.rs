//! A client that speaks HTTP/1: its answer on the wire (RFC 9112).

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use tinaja_http::message::ResponseHead;
use tokio::io::AsyncWriteExt;

use super::gate::Gate;
use super::pace::Pace;
use super::{BadContent, Left, Patience};

/// Content of a request that nobody wants is read up to so many bytes, so that the connection can be used again; more
/// than that costs more than another connection.
const DRAINED_BYTES: usize = 64 * 1024;
/// And for so long.
const DRAINING: Duration = Duration::from_secs(1);

/// One request's client. The connection is the gate's.
pub(crate) struct H1 {
    gate: Gate,
    http11: bool,
    /// The request was HEAD: its answer has no content, whatever it says of its length.
    head_only: bool,
    patience: Patience,
    pace: Pace,
    /// Another request may follow.
    keep: bool,
    frame: Frame,
    sent_bytes: u64,
}

/// How the answer's content is framed, and how far it has got (RFC 9112 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frame {
    /// There is no answer yet.
    Unsent,
    /// So many bytes are still to come.
    Length(u64),
    Chunked,
    /// To the connection's end.
    UntilClose,
    /// All of it has been sent.
    Whole,
}

impl H1 {
    /// The client of a request whose head was taken from `gate`. `keep` says whether its connection may go on.
    pub fn new(gate: Gate, http11: bool, head_only: bool, keep: bool, patience: Patience) -> H1 {
        H1 { gate, http11, head_only, patience, pace: Pace::default(), keep, frame: Frame::Unsent, sent_bytes: 0 }
    }

    /// The connection, if another request may come on it: the answer was whole, and the request has been read.
    pub async fn finish(mut self) -> Option<Gate> {
        if self.frame != Frame::Whole {
            return None;
        }
        if !self.keep {
            // Under TLS the end of a connection must be said, or it could be anybody's who cut it (RFC 9112 9.8).
            let _ = self.patience.clock.timeout(DRAINING, self.gate.stream().shutdown()).await;
            return None;
        }
        let mut drained = 0;
        let drain = async {
            while let Ok(Some(piece)) = self.gate.read_body().await {
                drained += piece.len();
                if drained > DRAINED_BYTES {
                    return;
                }
            }
        };
        // What is left unread after that is seen below.
        let _ = self.patience.clock.timeout(DRAINING, drain).await;
        self.gate.is_shut().then_some(self.gate)
    }

    /// The connection as it is, whatever has been sent.
    pub fn into_gate(self) -> Gate {
        self.gate
    }

    pub fn has_begun(&self) -> bool {
        self.frame != Frame::Unsent
    }

    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    pub fn close_after(&mut self) {
        self.keep = false;
    }

    pub async fn interim(&mut self, head: &ResponseHead) -> Result<(), Left> {
        if !self.http11 {
            return Ok(());
        }
        let mut wire = status_line(head.status);
        head.headers.write_to(&mut wire);
        wire.extend_from_slice(b"\r\n");
        self.write(wire, Bytes::new(), b"").await
    }

    pub async fn begin(&mut self, head: &ResponseHead, first: Bytes) -> Result<(), Left> {
        self.frame = self.frame_of(head);
        self.keep &= self.frame != Frame::UntilClose;
        let mut wire = status_line(head.status);
        head.headers.write_to(&mut wire);
        debug_assert!(!head.headers.contains_key(TRANSFER_ENCODING) && !head.headers.contains_key(CONNECTION));
        if self.frame == Frame::Chunked {
            wire.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
        }
        let connection: &[u8] =
            if self.keep { b"Connection: keep-alive\r\n\r\n" } else { b"Connection: close\r\n\r\n" };
        wire.extend_from_slice(connection);
        self.send(wire, first).await
    }

    pub async fn piece(&mut self, piece: Bytes) -> Result<(), Left> {
        self.send(Vec::new(), piece).await
    }

    pub async fn end(&mut self) -> Result<(), Left> {
        match self.frame {
            Frame::Whole | Frame::UntilClose => {}
            Frame::Chunked => self.write(b"0\r\n\r\n".to_vec(), Bytes::new(), b"").await?,
            // Shorter than it was said to be: closing tells.
            Frame::Unsent | Frame::Length(_) => return Err(Left),
        }
        self.frame = Frame::Whole;
        Ok(())
    }

    pub async fn read_content(&mut self) -> Result<Option<Bytes>, BadContent> {
        match self.pace.wait(&self.patience, self.gate.read_body()).await {
            Some(Ok(piece)) => {
                self.pace.came(piece.as_ref().map_or(0, Bytes::len));
                Ok(piece)
            }
            Some(Err(error)) if error.kind() == io::ErrorKind::InvalidData => Err(BadContent::Malformed),
            Some(Err(_)) => Err(BadContent::Left),
            None => Err(BadContent::Stalled),
        }
    }

    pub async fn gone(&mut self) {
        self.gate.gone().await
    }

    fn frame_of(&self, head: &ResponseHead) -> Frame {
        let none = self.head_only || matches!(head.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        let length = head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        match length {
            _ if none => Frame::Whole,
            Some(0) => Frame::Whole,
            Some(length) => Frame::Length(length),
            None if self.http11 => Frame::Chunked,
            None => Frame::UntilClose,
        }
    }

    /// Sends `before` as it is, and `piece` in the answer's frame.
    async fn send(&mut self, mut before: Vec<u8>, piece: Bytes) -> Result<(), Left> {
        let count = piece.len() as u64;
        let mut behind: &[u8] = b"";
        match self.frame {
            // Of an answer without content nothing but its head is sent.
            Frame::Unsent | Frame::Whole => return self.write(before, Bytes::new(), behind).await,
            Frame::Length(left) => {
                // More than was announced would be read as the next answer.
                let left = left.checked_sub(count).ok_or(Left)?;
                self.frame = if left == 0 { Frame::Whole } else { Frame::Length(left) };
            }
            Frame::Chunked if count > 0 => {
                before.extend_from_slice(format!("{count:x}\r\n").as_bytes());
                behind = b"\r\n";
            }
            Frame::Chunked | Frame::UntilClose => {}
        }
        self.write(before, piece, behind).await?;
        self.sent_bytes += count;
        Ok(())
    }

    async fn write(&mut self, before: Vec<u8>, piece: Bytes, behind: &'static [u8]) -> Result<(), Left> {
        let written = self.patience.send(self.gate.stream(), (before, piece, behind), true).await;
        self.keep &= written;
        if written { Ok(()) } else { Err(Left) }
    }
}

fn status_line(status: StatusCode) -> Vec<u8> {
    let mut wire = Vec::with_capacity(1024);
    for part in ["HTTP/1.1 ", status.as_str(), " ", status.canonical_reason().unwrap_or_default(), "\r\n"] {
        wire.extend_from_slice(part.as_bytes());
    }
    wire
}
