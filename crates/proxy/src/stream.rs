//! A client's connection, under TLS or not.

use std::io::{self, IoSlice, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use rustix::net::sockopt::{set_socket_linger, set_socket_send_buffer_size, socket_send_buffer_size};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, BufReader, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// A client that takes so much in as long as it may take nothing is seen to move: at 60 s, 550 bytes a second.
const TOLD_BYTES: u32 = 32 * 1024;
/// What a TLS session holds of what is sent.
const SESSION_BYTES: u32 = 64 * 1024;

/// A connection. Memory: a socket; under TLS a read buffer of 16 KiB, and what the session takes, some 20 KB.
///
/// Without TLS it has no buffer: nearly all connections are idle, and what reads from one has room of its own meanwhile.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<BufReader<TcpStream>>>),
    /// TLS in a tunnel that is intercepted.
    Inside(Box<TlsStream<BufReader<Ahead>>>),
    /// No socket at all.
    #[cfg(feature = "simulated")]
    Simulated(Box<dyn crate::network::Link>),
}

impl Stream {
    /// Bytes that the system may hold of what is sent: as much as it does hold where it takes no more.
    pub fn send_buffer_bytes(&self) -> usize {
        self.tcp().and_then(|tcp| socket_send_buffer_size(tcp).ok()).unwrap_or_default()
    }

    /// See [`bound_send_buffer`].
    pub fn bound_send_buffer(&self, most: usize) {
        self.tcp().inspect(|tcp| bound_send_buffer(tcp, most));
    }

    /// From now on the system says that it takes more as soon as a part of the network's own speed has gone out: [`TOLD_BYTES`], where else it
    /// waits until a third of its buffer is free, which over a thin link may be minutes. Who waits sees so that something moves.
    pub fn tell_early(&self) {
        // Failing is harmless: then only who takes a third of the buffer in time is seen to move.
        self.tcp().inspect(|tcp| drop(SockRef::from(tcp).set_tcp_notsent_lowat(2 * TOLD_BYTES)));
    }

    /// For how many times as long as a client may take nothing nothing may be seen to move: a TLS session takes bytes of which it does not
    /// say how many have gone.
    pub fn blind_stalls(&self) -> u32 {
        if matches!(self, Stream::Tls(_) | Stream::Inside(_)) { 1 + SESSION_BYTES / TOLD_BYTES } else { 1 }
    }

    /// What the client has not taken is dropped when this is closed, which resets the connection: else the system keeps it for minutes, for a
    /// client that takes nothing.
    pub fn abandon(&self) {
        let _ = self.tcp().map(|tcp| set_socket_linger(tcp, Some(Duration::ZERO)));
    }

    /// The socket below; of a simulated connection there is none.
    fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Stream::Plain(stream) => Some(stream),
            Stream::Tls(stream) => Some(stream.get_ref().0.get_ref()),
            Stream::Inside(stream) => stream.get_ref().0.get_ref().stream.tcp(),
            #[cfg(feature = "simulated")]
            Stream::Simulated(_) => None,
        }
    }

    /// Encrypts bytes that are sent with the next flush, or the next write, as far as the session has room for them. How many; 0 where
    /// it has none, or there is no TLS.
    ///
    /// Memory: 64 KiB of ciphertext at most.
    pub fn hold_back(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Plain(_) => Ok(0),
            Stream::Tls(stream) => stream.get_mut().1.writer().write_vectored(parts),
            Stream::Inside(stream) => stream.get_mut().1.writer().write_vectored(parts),
            #[cfg(feature = "simulated")]
            Stream::Simulated(_) => Ok(0),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::Inside(stream) => Pin::new(stream).poll_read(cx, buffer),
            #[cfg(feature = "simulated")]
            Stream::Simulated(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Inside(stream) => Pin::new(stream).poll_write(cx, bytes),
            #[cfg(feature = "simulated")]
            Stream::Simulated(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
            Stream::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
            Stream::Inside(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
            #[cfg(feature = "simulated")]
            Stream::Simulated(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Stream::Plain(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
            Stream::Inside(stream) => stream.is_write_vectored(),
            #[cfg(feature = "simulated")]
            Stream::Simulated(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Inside(stream) => Pin::new(stream).poll_flush(cx),
            #[cfg(feature = "simulated")]
            Stream::Simulated(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Inside(stream) => Pin::new(stream).poll_shutdown(cx),
            #[cfg(feature = "simulated")]
            Stream::Simulated(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// Keeps the system from holding more than `most` bytes of what is sent on a connection. One that begins below is left alone: the system
/// lets it grow with what its network takes, and what it holds of a client that takes no more is counted.
pub(crate) fn bound_send_buffer(stream: &TcpStream, most: usize) {
    if socket_send_buffer_size(stream).is_ok_and(|bytes| bytes > most) {
        // The system doubles what it is told, for what it needs besides. Failing is harmless.
        let _ = set_socket_send_buffer_size(stream, most / 2);
    }
}

/// A connection of which something was read already, which comes first again.
#[derive(Debug)]
pub(crate) struct Ahead {
    pub ahead: BytesMut,
    pub stream: Stream,
}

impl AsyncRead for Ahead {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.ahead.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buffer);
        }
        let count = self.ahead.len().min(buffer.remaining());
        buffer.put_slice(self.ahead.get(..count).unwrap_or_default());
        self.ahead.advance(count);
        if self.ahead.is_empty() {
            // Its room is not needed as long as the connection is there.
            self.ahead = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Ahead {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
