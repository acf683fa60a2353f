//! Writing several buffers as one.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tinaja_clock::{Clock, Timer};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::stream::Stream;

/// A client's connection while something is sent. Errors of its own: [`io::ErrorKind::TimedOut`] once it has taken nothing for as long as it may.
///
/// Memory: a timer while it takes no more.
pub(super) struct Filling<'a> {
    pub stream: &'a mut Stream,
    /// How much the system holds of it where it takes no more.
    pub full: &'a AtomicUsize,
    /// Where it takes no more, the system holds no more than this of what is sent from then on.
    pub most: Option<usize>,
    pub clock: &'a Clock,
    /// How long it may take nothing.
    pub stall: Duration,
    /// Runs while it takes nothing.
    pub stalled: Option<Pin<Box<Timer>>>,
}

impl Filling<'_> {
    fn noting<T>(&mut self, cx: &mut Context<'_>, sent: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if sent.is_ready() {
            self.stalled = None;
            return sent;
        }
        let full = self.stream.send_buffer_bytes();
        self.full.fetch_max(full, Relaxed);
        self.most.filter(|most| full > *most).inspect(|most| self.stream.bound_send_buffer(*most));
        if self.stalled.is_none() {
            self.stream.tell_early();
        }
        let (stream, clock, stall) = (&self.stream, self.clock, self.stall);
        let stalled =
            self.stalled.get_or_insert_with(|| Box::pin(clock.timer(stall.saturating_mul(stream.blind_stalls()))));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncWrite for Filling<'_> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut *self.stream).poll_write(cx, bytes);
        self.noting(cx, sent)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut *self.stream).poll_write_vectored(cx, parts);
        self.noting(cx, sent)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let sent = Pin::new(&mut *self.stream).poll_flush(cx);
        self.noting(cx, sent)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let sent = Pin::new(&mut *self.stream).poll_shutdown(cx);
        self.noting(cx, sent)
    }
}

/// Writes `before`, `piece` and `behind` with as few calls as the stream allows, one where it takes all.
pub(super) async fn write_as_one(
    stream: &mut (impl AsyncWrite + Unpin),
    before: Bytes,
    piece: Bytes,
    behind: &'static [u8],
) -> io::Result<()> {
    let mut all = before.chain(piece).chain(Bytes::from_static(behind));
    while all.has_remaining() {
        let mut slices = [IoSlice::new(&[]); 3];
        let filled = all.chunks_vectored(&mut slices);
        let written = stream.write_vectored(slices.get(..filled).unwrap_or_default()).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        all.advance(written);
    }
    Ok(())
}

/// Writes as much of both as the stream takes in one call, without waiting. What is left of them.
pub(super) async fn write_at_once(
    stream: &mut (impl AsyncWrite + Unpin),
    before: Bytes,
    piece: Bytes,
) -> io::Result<(Bytes, Bytes)> {
    let mut all = before.chain(piece);
    let written = poll_fn(|cx| {
        let mut slices = [IoSlice::new(&[]); 2];
        let filled = all.chunks_vectored(&mut slices);
        match Pin::new(&mut *stream).poll_write_vectored(cx, slices.get(..filled).unwrap_or_default()) {
            Poll::Ready(written) => Poll::Ready(written),
            Poll::Pending => Poll::Ready(Ok(0)),
        }
    });
    let written = written.await?;
    all.advance(written);
    Ok(all.into_inner())
}

#[cfg(test)]
#[path = "write_tests.rs"]
mod tests;
