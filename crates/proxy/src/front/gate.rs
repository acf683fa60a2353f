//! A client's connection, of which Pingora sees one judged request at a time.
//!
//! Pingora parses leniently, and would take bytes behind a request for the next one. Behind the gate it reads the
//! judged head and the bytes of that head's body, and then nothing: what follows waits here for the judge.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use async_trait::async_trait;
use bytes::{Buf, Bytes, BytesMut};
use pingora_core::protocols::raw_connect::ProxyDigest;
use pingora_core::protocols::{
    GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl, Stream, TimingDigest,
    UniqueID, UniqueIDType,
};
use tinaja_http::body::{BodyWalk, Framing};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

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
    /// The judged head, or what is left of it to give out.
    head: Bytes,
    body: BodyWalk,
    /// The client will send nothing more.
    ended: bool,
    /// The body turned out malformed.
    broken: bool,
}

impl Gate {
    /// A gate before `stream`, shut.
    pub fn new(stream: Stream) -> Gate {
        Gate {
            stream,
            waiting: BytesMut::new(),
            head: Bytes::new(),
            body: BodyWalk::new(Framing::Length(0)),
            ended: false,
            broken: false,
        }
    }

    /// What has been read and not given out: at its start the next head.
    pub fn waiting(&self) -> &[u8] {
        &self.waiting
    }

    /// Drops what has been dealt with from the start of what waits.
    pub fn drop_waiting(&mut self, bytes: usize) {
        self.waiting.advance(bytes.min(self.waiting.len()));
    }

    /// Reads more of what the client sends; 0 at its end.
    pub async fn read_more(&mut self) -> io::Result<usize> {
        std::future::poll_fn(|cx| self.poll_fill(cx)).await
    }

    /// Opens the gate for one request: `head`, then a body that is framed so.
    pub fn open(&mut self, head: Bytes, framing: Framing) {
        self.head = head;
        self.body = BodyWalk::new(framing);
    }

    /// Whether the request has been given out whole and was in order, so that another may follow.
    pub fn is_shut(&self) -> bool {
        self.head.is_empty() && self.body.done() && !self.broken
    }

    /// The connection and what has been read of it, for a tunnel.
    pub fn into_parts(self) -> (Stream, BytesMut) {
        (self.stream, self.waiting)
    }

    /// The connection, to write an answer to.
    pub fn stream(&mut self) -> &mut Stream {
        &mut self.stream
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut space = [std::mem::MaybeUninit::uninit(); READ_BYTES];
        let mut buffer = ReadBuf::uninit(&mut space);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
        self.waiting.extend_from_slice(buffer.filled());
        self.ended = buffer.filled().is_empty();
        Poll::Ready(Ok(buffer.filled().len()))
    }

    /// The next piece of the request's body, if one waits.
    fn take_body(&mut self, most: usize) -> io::Result<Option<BytesMut>> {
        let window = self.waiting.len().min(most);
        let taken = self.body.take(self.waiting.get(..window).unwrap_or_default()).map_err(|bad| {
            self.broken = true;
            io::Error::new(io::ErrorKind::InvalidData, bad)
        })?;
        Ok((taken > 0).then(|| self.waiting.split_to(taken)))
    }

    /// The request is given out. The only thing left to report is that the client has gone; a client that has sent
    /// further requests may have stopped sending for good, and still wants its answers.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.ended {
            if self.waiting.len() >= AHEAD_BYTES {
                return Poll::Pending;
            }
            ready!(self.poll_fill(cx))?;
        }
        if self.waiting.is_empty() { Poll::Ready(Ok(())) } else { Poll::Pending }
    }
}

impl AsyncRead for Gate {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let gate = &mut *self;
        if !gate.head.is_empty() {
            let piece = gate.head.split_to(gate.head.len().min(buf.remaining()));
            buf.put_slice(&piece);
            return Poll::Ready(Ok(()));
        }
        loop {
            if gate.body.done() {
                return gate.poll_gone(cx);
            }
            if let Some(piece) = gate.take_body(buf.remaining())? {
                buf.put_slice(&piece);
                return Poll::Ready(Ok(()));
            }
            if ready!(gate.poll_fill(cx))? == 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl AsyncWrite for Gate {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[async_trait]
impl Shutdown for Gate {
    async fn shutdown(&mut self) {
        self.stream.shutdown().await;
    }
}

impl UniqueID for Gate {
    fn id(&self) -> UniqueIDType {
        self.stream.id()
    }
}

impl Ssl for Gate {}

impl Peek for Gate {}

impl GetTimingDigest for Gate {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        self.stream.get_timing_digest()
    }
}

impl GetProxyDigest for Gate {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        self.stream.get_proxy_digest()
    }
}

impl GetSocketDigest for Gate {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        self.stream.get_socket_digest()
    }
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
