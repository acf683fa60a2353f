//! The bytes of one HTTP/2 connection on their way to and from `h2`, which sees frames but does not show them.
//!
//! What was read before the connection was known to be HTTP/2 comes first. Frames are counted as they pass by.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::{Buf, BytesMut};
use parking_lot::Mutex;
use tinaja_clock::{Clock, Timer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::limits::Flood;
use super::meter::Meter;
use crate::stream::Stream;

/// How long a client that was told to go may still send, so that it can read why: closing a connection with bytes unread
/// would take the last frames back.
const LINGER: Duration = Duration::from_secs(1);

/// What the connection's task wants to know of what passed.
#[derive(Clone, Debug)]
pub(super) struct Watch(Arc<Mutex<Meter>>);

impl Watch {
    /// Why the client has to go, if it has.
    pub fn flood(&self) -> Option<Flood> {
        self.0.lock().flood
    }

    /// Keeps from `h2` that the client has heard that the connection ends. It would name the last stream that it takes
    /// then, and clients answer a PING before they send requests that they have begun: these would be lost.
    pub fn hide_pongs(&self) {
        self.0.lock().hides_pongs = true;
    }

    /// Since when a header block is on its way that is not whole yet.
    pub fn head_since(&self) -> Option<Instant> {
        self.0.lock().head_since
    }
}

/// One connection.
pub(super) struct Wire {
    stream: Stream,
    /// Read before, and not given out.
    ahead: BytesMut,
    meter: Arc<Mutex<Meter>>,
    clock: Clock,
    /// The last frames are sent; what the client still sends is dropped until then.
    lingering: Option<Pin<Box<Timer>>>,
}

impl Wire {
    /// `ahead` is what was read of `stream`, from the connection preface on. No frames are too many of one that is `trusted`.
    pub fn new(stream: Stream, ahead: BytesMut, trusted: bool, clock: &Clock) -> (Wire, Watch) {
        let mut meter = Meter::new(clock.now());
        meter.trusted = trusted;
        let meter = Arc::new(Mutex::new(meter));
        (Wire { stream, ahead, meter: meter.clone(), clock: clock.clone(), lingering: None }, Watch(meter))
    }
}

impl AsyncRead for Wire {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.meter.lock().flood.is_some() {
            // Nothing further is looked at. The connection's task asks for the verdict whenever it has polled.
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        if this.ahead.is_empty() {
            ready!(Pin::new(&mut this.stream).poll_read(cx, buffer))?;
        } else {
            let count = this.ahead.len().min(buffer.remaining());
            buffer.put_slice(this.ahead.get(..count).unwrap_or_default());
            this.ahead.advance(count);
            if this.ahead.is_empty() {
                this.ahead = BytesMut::new();
            }
        }
        let now = this.clock.now();
        let mut meter = this.meter.lock();
        let came = buffer.filled_mut().get_mut(before..).unwrap_or_default();
        meter.read(came, now);
        meter.hide(came);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        self.meter.lock().wrote(written);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, slices))?;
        self.meter.lock().wrote(written);
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// Says that nothing more will come, and then takes what the client still sends, for a moment.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.lingering.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
        }
        let until = this.lingering.get_or_insert_with(|| Box::pin(this.clock.timer(LINGER)));
        let mut space = [std::mem::MaybeUninit::uninit(); 4096];
        while until.as_mut().poll(cx).is_pending() {
            let mut buffer = ReadBuf::uninit(&mut space);
            let read = ready!(Pin::new(&mut this.stream).poll_read(cx, &mut buffer));
            if read.is_err() || buffer.filled().is_empty() {
                break;
            }
        }
        Poll::Ready(Ok(()))
    }
}
