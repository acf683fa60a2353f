//! From a fill to the client that caused it, inside one task.
//!
//! Pingora writes a fetched piece into the storage and reads it back for the client, both in the task of that one
//! request. A store that can no longer keep an object (too large, or its disk failed) holds only a small window of
//! it and makes the writer wait for the slowest reader. Here that reader is the task that waits: neither would go on.
//! So a writer that has to wait reads for its own client ahead, up to a limit, and slows down on the way there.

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use pingora_cache::CacheKey;
use pingora_cache::storage::{HandleHit, Storage};
use pingora_cache::trace::SpanHandle;
use pingora_error::{BError, Error, ErrorType};
use tinaja_store::{Body, Clock, FillId};

use crate::fault::fault;
use crate::hit::READ_PIECE_BYTES;

/// Read ahead without slowing down: enough to keep a fast client busy.
pub(crate) const RELAY_FREE_BYTES: usize = 1024 * 1024;

/// The most a fill reads ahead for its client, in bytes, give or take one piece. A client that leaves this much
/// lying, or takes nothing for a minute, is given up, and the fill goes on for those who follow it.
pub const RELAY_MOST_BYTES: usize = 16 * 1024 * 1024;

/// A client slower than this for one piece is given up once the store makes its fill wait.
const STALLED: Duration = Duration::from_secs(60);

/// The relays of the fills under way, until their clients pick them up and the fills end.
pub(crate) struct Relays {
    clock: Clock,
    under_way: Mutex<HashMap<FillId, Arc<Relay>>>,
}

impl Relays {
    pub(crate) fn by(clock: Clock) -> Self {
        Relays { clock, under_way: Mutex::default() }
    }

    pub(crate) fn open(&self, fill: FillId) -> Arc<Relay> {
        let relay = Arc::new(Relay { clock: self.clock.clone(), shared: Mutex::default() });
        self.under_way.lock().insert(fill, relay.clone());
        relay
    }

    pub(crate) fn get(&self, fill: FillId) -> Option<Arc<Relay>> {
        self.under_way.lock().get(&fill).cloned()
    }

    pub(crate) fn close(&self, fill: FillId) {
        self.under_way.lock().remove(&fill);
    }
}

/// What the writer and the reader of one request share.
pub(crate) struct Relay {
    clock: Clock,
    shared: Mutex<Shared>,
}

#[derive(Default)]
struct Shared {
    /// There while somebody reads.
    body: Option<Body>,
    ahead: VecDeque<Bytes>,
    ahead_bytes: usize,
    reader: Option<Waker>,
    read_at: Option<Instant>,
    given_up: bool,
}

/// What became of reading ahead.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Pull {
    /// A piece was taken.
    Piece,
    /// There is none; the caller is woken when there may be.
    Nothing,
    /// The limit is reached.
    Full,
}

impl Relay {
    /// Start reading; gives the body back if somebody does already.
    pub(crate) fn reader(self: Arc<Self>, body: Body) -> Result<RelayReader, Body> {
        let mut shared = self.shared.lock();
        if shared.body.is_some() || shared.given_up {
            return Err(body);
        }
        shared.body = Some(body);
        shared.read_at = Some(self.clock.now());
        drop(shared);
        Ok(RelayReader(self))
    }

    /// For the writer: take one piece out of the store's window.
    pub(crate) fn pull(&self, cx: &mut Context<'_>, limit_bytes: usize) -> Pull {
        let mut shared = self.shared.lock();
        if shared.ahead_bytes >= limit_bytes {
            return Pull::Full;
        }
        let Some(body) = shared.body.as_mut() else {
            return Pull::Nothing;
        };
        // Ends and errors are the reader's to see: the body repeats them.
        let Poll::Ready(Ok(Some(piece))) = body.poll_next(cx, READ_PIECE_BYTES) else {
            return Pull::Nothing;
        };
        shared.ahead_bytes += piece.len();
        shared.ahead.push_back(piece);
        Pull::Piece
    }

    /// For the writer, before it goes back to Pingora: the reader has to ask again, its turn was taken.
    pub(crate) fn wake_reader(&self) {
        let reader = self.shared.lock().reader.take();
        reader.into_iter().for_each(Waker::wake);
    }

    /// The clock of the store.
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// How long to wait before reading further ahead. Each MiB ahead doubles it, from 1 ms to 8 s: between two
    /// pauses Pingora sends to the client, so this finds the client's own speed. 8 s are well below the 30 s that a
    /// store waits for a reader.
    pub(crate) fn pause(&self) -> Duration {
        let mebibytes = self.shared.lock().ahead_bytes / (1024 * 1024);
        Duration::from_millis(1 << mebibytes.saturating_sub(1).min(13))
    }

    /// The limit for one more piece; `None` if this client is given up. `writing_since` is when the present write
    /// began: until it ends the client has no turn, so time since then is not the client's fault.
    pub(crate) fn one_more(&self, writing_since: Instant) -> Option<usize> {
        let mut shared = self.shared.lock();
        let idle = shared.read_at.map(|at| writing_since.saturating_duration_since(at));
        // A reader that left its waker waits for us, not we for it.
        let stalled = shared.reader.is_none() && idle.is_some_and(|idle| idle >= STALLED);
        if shared.ahead_bytes < RELAY_MOST_BYTES && !stalled && !shared.given_up {
            return Some(shared.ahead_bytes + 1);
        }
        *shared = Shared { given_up: true, reader: shared.reader.take(), ..Shared::default() };
        None
    }

    fn poll_read(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BError>> {
        let mut shared = self.shared.lock();
        if let Some(piece) = shared.ahead.pop_front() {
            shared.ahead_bytes -= piece.len();
            shared.read_at = Some(self.clock.now());
            return Poll::Ready(Ok(Some(piece)));
        }
        let Some(body) = shared.body.as_mut() else {
            let explain = "the object cannot be stored, and the client was too slow to pass it on";
            return Poll::Ready(Error::e_explain(ErrorType::InternalError, explain));
        };
        let read = body.poll_next(cx, READ_PIECE_BYTES).map_err(|error| fault("reading along a fill", error));
        shared.read_at = Some(self.clock.now());
        shared.reader = read.is_pending().then(|| cx.waker().clone());
        read
    }

    fn leave(&self) {
        let mut shared = self.shared.lock();
        *shared = Shared { given_up: shared.given_up, ..Shared::default() };
    }
}

/// The reading end, for the client whose request fills the cache. It does not seek: what was read ahead is gone
/// from the store's window, and Pingora cuts ranges out by itself.
pub(crate) struct RelayReader(Arc<Relay>);

impl Drop for RelayReader {
    fn drop(&mut self) {
        self.0.leave();
    }
}

#[async_trait]
impl HandleHit for RelayReader {
    async fn read_body(&mut self) -> Result<Option<Bytes>, BError> {
        poll_fn(|cx| self.0.poll_read(cx)).await
    }

    async fn finish(
        self: Box<Self>,
        _: &'static (dyn Storage + Sync),
        _: &CacheKey,
        _: &SpanHandle,
    ) -> Result<(), BError> {
        Ok(())
    }

    fn should_count_access(&self) -> bool {
        false
    }

    fn as_any(&self) -> &(dyn Any + Send + Sync) {
        self
    }

    fn as_any_mut(&mut self) -> &mut (dyn Any + Send + Sync) {
        self
    }
}
