//! The bytes of one HTTP/2 connection on their way to and from `h2`, which sees frames but does not show them.
//!
//! What was read before the connection was known to be HTTP/2 comes first. Frames are counted as they pass by. Under TLS what is sent
//! waits, encrypted, for [`Watch::poll_send`], or until the session takes no more: as much as it would hold of a slow client's anyway.

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

/// So much waits at most to be sent in one call: what a session takes ([`Stream::hold_back`]), less what encryption adds to small frames. All
/// but the last record of each call are whole so.
const HELD_BACK_BYTES: usize = 60 * 1024;

/// What the connection's task wants to know of what passed.
#[derive(Clone, Debug)]
pub(super) struct Watch(Arc<Mutex<Passing>>);

/// What the connection's task and `h2` both use. One task polls both, so nobody waits for the lock.
#[derive(Debug)]
struct Passing {
    stream: Stream,
    meter: Meter,
    /// What is sent waits for [`Watch::poll_send`]: so many bytes do.
    unsent: Option<usize>,
    /// The client's connection takes nothing more for now: of what `h2` has, and of what is held back.
    blocked: bool,
    unflushed: bool,
    /// What the system held of what was sent when that began.
    full: usize,
    /// Nothing more was read, because requests wait to be looked at.
    reads_later: bool,
}

impl Passing {
    /// Sends some of these bytes, or holds them back.
    fn poll_write(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let Passing { stream, meter, unsent, .. } = self;
        let bytes = slices.iter().map(|slice| slice.len()).sum::<usize>();
        if let Some(unsent) = unsent.as_mut().filter(|unsent| **unsent > 0 && **unsent + bytes > HELD_BACK_BYTES) {
            ready!(Pin::new(&mut *stream).poll_flush(cx))?;
            *unsent = 0;
        }
        let held = if unsent.is_some() { stream.hold_back(slices)? } else { 0 };
        let written = match unsent {
            Some(unsent) if held > 0 => {
                *unsent += held;
                held
            }
            _ => ready!(Pin::new(stream).poll_write_vectored(cx, slices))?,
        };
        meter.wrote(written);
        Poll::Ready(Ok(written))
    }

    /// Notes how much the system holds, where it has just taken no more.
    fn note(&mut self) {
        self.full = match (self.blocked || self.unflushed, self.full) {
            (false, _) => 0,
            (true, 0) => {
                self.stream.tell_early();
                self.stream.send_buffer_bytes()
            }
            (true, full) => full,
        };
    }
}

impl Watch {
    /// Why the client has to go, if it has.
    pub fn flood(&self) -> Option<Flood> {
        self.0.lock().meter.flood
    }

    /// Keeps from `h2` that the client has heard that the connection ends. It would name the last stream that it takes
    /// then, and clients answer a PING before they send requests that they have begun: these would be lost.
    pub fn hide_pongs(&self) {
        self.0.lock().meter.hides_pongs = true;
    }

    /// Since when a header block is on its way that is not whole yet.
    pub fn head_since(&self) -> Option<Instant> {
        self.0.lock().meter.head_since
    }

    /// From now on, what is sent waits for [`Watch::poll_send`].
    pub fn hold_back(&self) {
        self.0.lock().unsent.get_or_insert(0);
    }

    /// Sends what waits.
    pub fn poll_send(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let passing = &mut *self.0.lock();
        let sent = Pin::new(&mut passing.stream).poll_flush(cx);
        passing.unflushed = sent.is_pending();
        passing.note();
        ready!(sent)?;
        passing.unsent = passing.unsent.map(|_| 0);
        Poll::Ready(Ok(()))
    }

    /// Where the client's connection takes no more, the system holds no more than `most` bytes of what is sent from now on.
    pub fn bound_send_buffer(&self, most: usize) {
        let passing = self.0.lock();
        if passing.blocked || passing.unflushed {
            passing.stream.bound_send_buffer(most);
        }
    }

    /// See [`Stream::abandon`].
    pub fn abandon(&self) {
        self.0.lock().stream.abandon();
    }

    /// Whether something waits for the client's connection, and how many bytes are held here and by the system then.
    pub fn waits(&self) -> (bool, usize) {
        let passing = self.0.lock();
        match passing.blocked || passing.unflushed {
            true => (true, passing.unsent.unwrap_or_default() + passing.full),
            false => (false, 0),
        }
    }

    /// Notes that all requests that came so far were looked at, or, where `refuses`, that `h2` refuses what comes. Returns whether reading was held back: then ask `h2`
    /// again, for nothing else wakes the task.
    pub fn reads_on(&self, refuses: bool) -> bool {
        let passing = &mut *self.0.lock();
        if refuses {
            passing.meter.reads_on()
        } else {
            passing.meter.all_seen()
        }
        std::mem::take(&mut passing.reads_later)
    }

    /// See [`Meter::unseen_heads`].
    pub fn unseen_heads(&self, streams: usize) -> usize {
        self.0.lock().meter.unseen_heads(streams)
    }

    /// See [`Meter::stream_ended`].
    pub fn stream_ended(&self, streams: usize) {
        self.0.lock().meter.stream_ended(streams);
    }

    /// Whether a request with content has come since this was last asked.
    pub fn brings_content(&self) -> bool {
        std::mem::take(&mut self.0.lock().meter.brings_content)
    }
}

/// One connection.
pub(super) struct Wire {
    passing: Arc<Mutex<Passing>>,
    /// Read before, and not given out.
    ahead: BytesMut,
    clock: Clock,
    /// The last frames are sent; what the client still sends is dropped until then.
    lingering: Option<Pin<Box<Timer>>>,
}

impl Wire {
    /// `ahead` is what was read of `stream`, from the connection preface on. No frames are too many of one that is `trusted`.
    pub fn new(stream: Stream, ahead: BytesMut, trusted: bool, clock: &Clock) -> (Wire, Watch) {
        let mut meter = Meter::new(clock.now());
        meter.trusted = trusted;
        let (unsent, blocked, unflushed, full, reads_later) = (None, false, false, 0, false);
        let passing = Passing { stream, meter, unsent, blocked, unflushed, full, reads_later };
        let passing = Arc::new(Mutex::new(passing));
        (Wire { passing: passing.clone(), ahead, clock: clock.clone(), lingering: None }, Watch(passing))
    }
}

impl AsyncRead for Wire {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let Passing { stream, meter, reads_later, .. } = &mut *this.passing.lock();
        if meter.flood.is_some() {
            // Nothing further is looked at. The connection's task asks for the verdict whenever it has polled.
            return Poll::Pending;
        }
        if meter.has_unseen_requests() {
            // `h2` reads all there is before it gives out the first request. The connection's task goes on once it has looked at these.
            *reads_later = true;
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        if this.ahead.is_empty() {
            ready!(Pin::new(stream).poll_read(cx, buffer))?;
        } else {
            let count = this.ahead.len().min(buffer.remaining());
            buffer.put_slice(this.ahead.get(..count).unwrap_or_default());
            this.ahead.advance(count);
            if this.ahead.is_empty() {
                this.ahead = BytesMut::new();
            }
        }
        let now = this.clock.now();
        let came = buffer.filled_mut().get_mut(before..).unwrap_or_default();
        meter.read(came, now);
        meter.hide(came);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let passing = &mut *self.passing.lock();
        let written = passing.poll_write(cx, slices);
        passing.blocked = written.is_pending();
        passing.note();
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.passing.lock().stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Passing { stream, unsent, .. } = &mut *self.passing.lock();
        if unsent.is_some() { Poll::Ready(Ok(())) } else { Pin::new(stream).poll_flush(cx) }
    }

    /// Says that nothing more will come, and then takes what the client still sends, for a moment.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let Passing { stream, blocked, .. } = &mut *this.passing.lock();
        if this.lingering.is_none() {
            let shut = Pin::new(&mut *stream).poll_shutdown(cx);
            *blocked = shut.is_pending();
            ready!(shut)?;
        }
        let until = this.lingering.get_or_insert_with(|| Box::pin(this.clock.timer(LINGER)));
        let mut space = [std::mem::MaybeUninit::uninit(); 4096];
        while until.as_mut().poll(cx).is_pending() {
            let mut buffer = ReadBuf::uninit(&mut space);
            let read = ready!(Pin::new(&mut *stream).poll_read(cx, &mut buffer));
            if read.is_err() || buffer.filled().is_empty() {
                break;
            }
        }
        Poll::Ready(Ok(()))
    }
}
