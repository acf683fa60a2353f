//! A client's connection, which gives out the content of one judged request at a time.
//!
//! What follows a request waits here for the judge, and what frames its body stays here: nobody further on can take
//! bytes behind a request for part of it, or part of a body for a request. Otherwise bytes behind a request would be parsed as
//! the next one without being judged.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use tinaja_http::body::{BodyWalk, Framing};
use tokio::io::{AsyncRead, ReadBuf};

use crate::stream::Stream;

/// Bytes read from the client at once.
const READ_BYTES: usize = 16 * 1024;
/// Bytes behind a request that wait here while it is answered. A client that sends more waits in turn.
const AHEAD_BYTES: usize = 64 * 1024;

/// A connection that gives out one request at a time.
#[derive(Debug)]
pub(crate) struct Gate {
    stream: Stream,
    /// Read from the client, not given out.
    waiting: BytesMut,
    body: BodyWalk,
    /// The client will send nothing more.
    ended: bool,
    /// The body turned out malformed.
    broken: bool,
}

impl Gate {
    /// A gate before `stream`, shut.
    pub fn new(stream: Stream) -> Gate {
        let body = BodyWalk::new(Framing::Length(0));
        Gate { stream, waiting: BytesMut::new(), body, ended: false, broken: false }
    }

    /// What has been read and not given out: at its start the next head.
    pub fn waiting(&self) -> &[u8] {
        &self.waiting
    }

    /// Memory for what waits.
    pub fn waiting_bytes(&self) -> usize {
        self.waiting.capacity()
    }

    /// Drops what has been dealt with from the start of what waits.
    pub fn drop_waiting(&mut self, bytes: usize) {
        self.waiting.advance(bytes.min(self.waiting.len()));
    }

    /// Reads more of what the client sends; 0 at its end.
    pub async fn read_more(&mut self) -> io::Result<usize> {
        std::future::poll_fn(|cx| self.poll_fill(cx)).await
    }

    /// Opens the gate for the body of one request, whose head was taken.
    pub fn open(&mut self, framing: Framing) {
        self.body = BodyWalk::new(framing);
    }

    /// Whether the request has been given out whole and was in order, so that another may follow.
    pub fn is_shut(&self) -> bool {
        self.body.done() && !self.broken
    }

    /// The connection and what has been read of it, for a tunnel.
    pub fn into_parts(self) -> (Stream, BytesMut) {
        (self.stream, self.waiting)
    }

    /// Whether what is sent goes out as it is, not through TLS.
    pub fn is_plain(&self) -> bool {
        !matches!(self.stream, Stream::Tls(_) | Stream::Inside(_))
    }

    /// The connection, to write an answer to.
    pub fn stream(&mut self) -> &mut Stream {
        &mut self.stream
    }

    /// The next piece of the request's content; `None` at its end. Dropped before it is ready, it has taken nothing.
    ///
    /// Errors: [`io::ErrorKind::InvalidData`] for a malformed body, [`io::ErrorKind::UnexpectedEof`] for one that ends
    /// early, and the connection's.
    pub async fn read_body(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            let data = self.body.next_data(&mut self.waiting).map_err(|bad| {
                self.broken = true;
                io::Error::new(io::ErrorKind::InvalidData, bad)
            })?;
            if data.is_some() || self.body.done() {
                return Ok(data);
            }
            if self.read_more().await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Returns when the client has gone. One that has sent further requests may have stopped sending for good, and
    /// still wants its answers. For requests that have been given out; others are not looked at.
    pub async fn gone(&mut self) {
        std::future::poll_fn(|cx| self.poll_gone(cx)).await
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut space = [std::mem::MaybeUninit::uninit(); READ_BYTES];
        let mut buffer = ReadBuf::uninit(&mut space);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
        self.waiting.extend_from_slice(buffer.filled());
        self.ended = buffer.filled().is_empty();
        Poll::Ready(Ok(buffer.filled().len()))
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while !self.ended {
            if self.waiting.len() >= AHEAD_BYTES || !self.body.done() {
                return Poll::Pending;
            }
            if ready!(self.poll_fill(cx)).is_err() {
                return Poll::Ready(());
            }
        }
        if self.waiting.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
