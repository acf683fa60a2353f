//! A connection that is read to its end, though nothing more can be written to it.
//!
//! An origin that has sent all of an answer may close at once. What is written then, a window update as a rule, fails before all that the system has
//! received is read, and `h2` gives a connection up whose writes fail: an answer that had come whole broke off. What cannot be written is
//! dropped here instead. Reading goes on, and tells how the connection ended.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::wire::Wire;

/// Such a connection.
pub(super) struct ReadsOn {
    wire: Wire,
    /// The other end takes nothing any more.
    is_deaf: bool,
}

impl ReadsOn {
    pub fn over(wire: Wire) -> ReadsOn {
        ReadsOn { wire, is_deaf: false }
    }

    /// What came of writing so many bytes.
    fn written(&mut self, bytes: usize, written: io::Result<usize>) -> usize {
        written.unwrap_or_else(|error| {
            tracing::debug!("an origin takes nothing any more, and is read to its end: {error}");
            self.is_deaf = true;
            bytes
        })
    }
}

impl AsyncRead for ReadsOn {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_read(cx, buf)
    }
}

impl AsyncWrite for ReadsOn {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.is_deaf {
            return Poll::Ready(Ok(bytes.len()));
        }
        let written = ready!(Pin::new(&mut self.wire).poll_write(cx, bytes));
        Poll::Ready(Ok(self.written(bytes.len(), written)))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_deaf {
            let flushed = ready!(Pin::new(&mut self.wire).poll_flush(cx));
            self.written(0, flushed.map(|()| 0));
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_deaf { Poll::Ready(Ok(())) } else { Pin::new(&mut self.wire).poll_shutdown(cx) }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let bytes = parts.iter().map(|part| part.len()).sum();
        if self.is_deaf {
            return Poll::Ready(Ok(bytes));
        }
        let written = ready!(Pin::new(&mut self.wire).poll_write_vectored(cx, parts));
        Poll::Ready(Ok(self.written(bytes, written)))
    }

    fn is_write_vectored(&self) -> bool {
        self.wire.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::task::Waker;

    use ::h2::server;
    use bytes::Bytes;
    use http::{Request, Response};
    use tinaja_clock::Clock;
    use tokio::io::DuplexStream;

    use super::super::session::Session;
    use super::*;

    const BODY_BYTES: usize = 250 * 1024;
    /// More than half of a window: so that it is opened again.
    const BEFORE_BYTES: usize = 200 * 1024;

    /// A connection whose other end closes: what is written then fails, and what it has sent comes in part before that, and in part later.
    struct Closes {
        stream: DuplexStream,
        closed: Arc<AtomicBool>,
        read: usize,
        has_failed: bool,
        reader: Option<Waker>,
    }

    impl AsyncRead for Closes {
        fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            if self.read > BEFORE_BYTES && !self.has_failed {
                self.reader = Some(cx.waker().clone());
                return Poll::Pending;
            }
            let before = buf.filled().len();
            let read = Pin::new(&mut self.stream).poll_read(cx, buf);
            self.read += buf.filled().len() - before;
            read
        }
    }

    impl AsyncWrite for Closes {
        fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            if !self.closed.load(SeqCst) {
                return Pin::new(&mut self.stream).poll_write(cx, bytes);
            }
            self.has_failed = true;
            self.reader.take().into_iter().for_each(Waker::wake);
            Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
        }

        fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.stream).poll_flush(cx)
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.stream).poll_shutdown(cx)
        }
    }

    /// An origin sends all of an answer and closes at once. A window update found nobody, and the answer broke off, though the rest of it was on its way: the
    /// simulation found that.
    #[tokio::test]
    async fn an_answer_is_read_to_its_end_though_its_origin_has_closed() {
        let (near, far) = tokio::io::duplex(1 << 20);
        let closed = Arc::new(AtomicBool::new(false));
        let closes = closed.clone();
        let origin = tokio::spawn(async move {
            let mut connection = server::handshake(far).await.unwrap();
            let (_, mut respond) = connection.accept().await.unwrap().unwrap();
            let mut sending = respond.send_response(Response::new(()), false).unwrap();
            sending.send_data(Bytes::from(vec![b'x'; BODY_BYTES]), true).unwrap();
            closes.store(true, SeqCst);
            // Until all is written. It stays, so that nothing ends but what fails.
            connection.accept().await.is_none()
        });
        let stream = Closes { stream: near, closed, read: 0, has_failed: false, reader: None };
        let session = Session::begin(Wire::new(Box::new(stream), &Arc::default()), &Clock::default()).await.unwrap();
        let mut requests = session.seat().unwrap().requests().ready().await.unwrap();
        let (answer, _) = requests.send_request(Request::get("http://a/").body(()).unwrap(), true).unwrap();
        let mut content = answer.await.unwrap().into_body();
        let mut came = 0;
        while let Some(piece) = content.data().await {
            let piece = piece.unwrap();
            came += piece.len();
            content.flow_control().release_capacity(piece.len()).unwrap();
        }
        assert_eq!(came, BODY_BYTES);
        origin.abort();
    }
}
