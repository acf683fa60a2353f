//! A connection that is read to its end, though nothing more can be written to it.
//!
//! An origin that has sent all of an answer may close at once. What is written then, a window update as a rule, fails before all that the system has
//! received is read, and `h2` gives a connection up whose writes fail: an answer that had come whole broke off. What cannot be written is
//! dropped here instead. Reading goes on, and tells how the connection ended.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::wire::Wire;

/// Such a connection.
pub(super) struct ReadsOn {
    wire: Wire,
    /// Something has been read. Before that nothing can have come that would be worth reading.
    has_read: bool,
    /// The other end takes nothing any more.
    is_deaf: bool,
    /// No further request goes there.
    retired: Arc<AtomicBool>,
}

impl ReadsOn {
    /// Sets `retired` once nothing can be written any more.
    pub fn over(wire: Wire, retired: &Arc<AtomicBool>) -> ReadsOn {
        ReadsOn { wire, has_read: false, is_deaf: false, retired: retired.clone() }
    }

    /// How many bytes count as written: all of them where the write failed.
    fn written(&mut self, bytes: usize, written: io::Result<usize>) -> io::Result<usize> {
        let error = match written {
            Err(error) if self.has_read => error,
            written => return written,
        };
        tracing::debug!("an origin takes nothing any more, and is read to its end: {error}");
        self.is_deaf = true;
        self.retired.store(true, Ordering::Release);
        Ok(bytes)
    }
}

impl AsyncRead for ReadsOn {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.wire).poll_read(cx, buf);
        self.has_read |= buf.filled().len() > before;
        read
    }
}

impl AsyncWrite for ReadsOn {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.is_deaf {
            return Poll::Ready(Ok(bytes.len()));
        }
        let written = ready!(Pin::new(&mut self.wire).poll_write(cx, bytes));
        Poll::Ready(self.written(bytes.len(), written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_deaf {
            let flushed = ready!(Pin::new(&mut self.wire).poll_flush(cx));
            self.written(0, flushed.map(|()| 0))?;
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
        Poll::Ready(self.written(bytes, written))
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
    use std::time::Duration;

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
        /// So many bytes come before a write has failed.
        before: usize,
        read: usize,
        has_failed: bool,
        reader: Option<Waker>,
    }

    impl AsyncRead for Closes {
        fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            if self.read > self.before && !self.has_failed {
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

    /// An origin that answers one request with so much of [`BODY_BYTES`] and then takes nothing any more: what has come of the answer, and whether its
    /// connection takes further requests.
    async fn answered(sends: usize) -> (Result<usize, ::h2::Error>, bool) {
        let (near, far) = tokio::io::duplex(1 << 20);
        let closed = Arc::new(AtomicBool::new(false));
        let closes = closed.clone();
        let origin = tokio::spawn(async move {
            let mut connection = server::handshake(far).await.unwrap();
            let (_, mut respond) = connection.accept().await.unwrap().unwrap();
            let head = Response::builder().header("content-length", BODY_BYTES).body(()).unwrap();
            let mut sending = respond.send_response(head, false).unwrap();
            sending.send_data(Bytes::from(vec![b'x'; sends]), sends == BODY_BYTES).unwrap();
            closes.store(true, SeqCst);
            // Until all is written. Where that is all of the answer it stays, so that nothing ends but what fails.
            let goes_on = connection.accept();
            if sends == BODY_BYTES {
                goes_on.await;
            } else {
                let _ = tokio::time::timeout(Duration::from_millis(50), goes_on).await;
            }
        });
        let stream = Closes { stream: near, closed, before: BEFORE_BYTES, read: 0, has_failed: false, reader: None };
        let session = Session::begin(Wire::new(Box::new(stream), &Arc::default()), &Clock::default()).await.unwrap();
        let mut requests = session.seat().unwrap().requests().ready().await.unwrap();
        let (answer, _) = requests.send_request(Request::get("http://a/").body(()).unwrap(), true).unwrap();
        let mut content = answer.await.unwrap().into_body();
        let mut came = 0;
        let came = loop {
            match content.data().await {
                None => break Ok(came),
                Some(Err(error)) => break Err(error),
                Some(Ok(piece)) => {
                    came += piece.len();
                    content.flow_control().release_capacity(piece.len()).unwrap();
                }
            }
        };
        origin.abort();
        (came, session.seat().is_some())
    }

    /// An origin sends all of an answer and closes at once. A window update found nobody, and the answer broke off, though the rest of it was on its way: the
    /// simulation found that.
    #[tokio::test]
    async fn an_answer_is_read_to_its_end_though_its_origin_has_closed() {
        let (came, takes_more) = answered(BODY_BYTES).await;
        assert_eq!(came.unwrap(), BODY_BYTES);
        assert!(!takes_more, "what is sent there goes nowhere");
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_not_whole_fails() {
        let (came, takes_more) = answered(BODY_BYTES - 1).await;
        assert!(came.is_err() && !takes_more, "{came:?}");
    }

    /// Where nothing has been read there is nothing to wait for: the next origin may be asked instead, whatever the request is.
    #[tokio::test]
    async fn a_connection_that_never_took_anything_does_not_begin() {
        let (near, _far) = tokio::io::duplex(1 << 20);
        let closed = Arc::new(AtomicBool::new(true));
        let stream = Closes { stream: near, closed, before: 0, read: 0, has_failed: false, reader: None };
        let begun = Session::begin(Wire::new(Box::new(stream), &Arc::default()), &Clock::default()).await;
        assert!(begun.is_err(), "it counts as connected");
    }
}
