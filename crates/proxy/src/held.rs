//! What clients make the proxy hold: one budget for all, and who is let go when it is spent.
//!
//! A client that takes nothing keeps the piece that it was to be sent in memory, one that sends half a head keeps the half, and each
//! connection takes room by itself. The limits in `limits` say how long one may do so, and how many there may be. Neither says what
//! all of them hold together: with 128 MiB, 1,900 stalled readers were enough for the kernel to end the process.
//!
//! # Decisions
//!
//! - Only what waits is counted, from the moment that it waits. An answer that the client's connection takes at once, as nearly all do,
//!   costs no more than one look at whether it did.
//! - When the budget is spent, a connection that is idle goes first, since it loses nothing. Then the one goes whose bytes have waited
//!   longest: a slow client takes its piece within a second, one that is stalled is the oldest before long.
//! - What has gone counts no more from then on, though its task may need a moment to end.
//! - Above half of the budget, pieces are small, so that eight times as many slow clients fit.
//! - A connection counts as idle a second after its last answer, or at once while much of the budget is spent. Those that are busy would
//!   be entered and taken out with each request.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::Poll;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// What a connection takes by itself: a socket, and its task, which is 2.5 KB while it waits for a request.
pub(crate) const CONNECTION_BYTES: usize = 8 * 1024;
/// What a request takes besides that is no plain hit.
pub(crate) const REQUEST_BYTES: usize = 24 * 1024;
/// What a TLS session takes besides: a read buffer of 16 KiB, and some 20 KB.
pub(crate) const TLS_BYTES: usize = 36 * 1024;
/// What HTTP/2 takes besides: its tables, and windows that are empty.
pub(crate) const HTTP2_BYTES: usize = 24 * 1024;
/// What a stream takes: its task, and what of its answer `h2` has taken already.
pub(crate) const STREAM_BYTES: usize = 48 * 1024;
/// What a tunnel takes besides: what is in flight each way.
pub(crate) const TUNNEL_BYTES: usize = 32 * 1024;
/// Heads up to this are part of [`CONNECTION_BYTES`].
pub(crate) const SMALL_HEAD_BYTES: usize = 4 * 1024;

/// How many bytes of a body are read at a time: one read of this size costs a disk little more than one of a few KiB, and a client
/// gets it in a few packets.
pub(crate) const READ_PIECE_BYTES: usize = 128 * 1024;
/// The same while much of the budget is spent.
const SMALL_PIECE_BYTES: usize = 16 * 1024;

/// It was to wait, and was let go: there is no room for what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LetGo;

/// The budget.
#[derive(Debug)]
pub(crate) struct Held {
    most: usize,
    /// The same as `Inside::bytes`, to look at without the lock.
    bytes: AtomicUsize,
    let_go: AtomicU64,
    refused: AtomicU64,
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    bytes: usize,
    next: u64,
    /// Those who wait, in the order in which they began to: connections without a request, and others.
    idle: BTreeMap<u64, Waiter>,
    amid: BTreeMap<u64, Waiter>,
}

/// What is free again when this one goes, and what tells it.
#[derive(Debug)]
struct Waiter {
    bytes: usize,
    _goes: oneshot::Sender<()>,
}

impl Held {
    /// A budget of `most` bytes, and nothing is held.
    pub fn new(most: u64) -> Arc<Held> {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        Arc::new(Held {
            most,
            bytes: AtomicUsize::new(0),
            let_go: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            inside: Mutex::default(),
        })
    }

    /// The budget, in bytes.
    pub fn most(&self) -> usize {
        self.most
    }

    /// How much of it is spent.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// How many were let go.
    pub fn let_go(&self) -> u64 {
        self.let_go.load(Relaxed)
    }

    /// How many were refused, because what was held then could not be let go.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Whether much of the budget is spent.
    pub fn is_tight(&self) -> bool {
        self.bytes() > self.most / 2
    }

    /// How large a piece of an answer may be now.
    pub fn piece_bytes(&self) -> usize {
        if self.is_tight() { SMALL_PIECE_BYTES } else { READ_PIECE_BYTES }
    }

    /// A connection that is not counted: another node's.
    pub fn nothing(self: &Arc<Self>) -> Kept {
        Kept { held: self.clone(), bytes: 0, head: 0 }
    }

    /// Holds so many bytes until what is returned is dropped; others are let go for them. `None` if that is not enough.
    pub fn keep(self: &Arc<Self>, bytes: usize) -> Option<Kept> {
        let mut inside = self.inside.lock();
        if !self.make_room(&mut inside, bytes) {
            self.refused.fetch_add(1, Relaxed);
            return None;
        }
        self.add(&mut inside, bytes);
        Some(Kept { held: self.clone(), bytes, head: 0 })
    }

    /// Waits for `future`, and meanwhile holds so many bytes. What is ready at once holds nothing.
    ///
    /// Errors: there is no room for them, or another needed it more.
    pub async fn hold<T>(&self, bytes: usize, future: impl Future<Output = T>) -> Result<T, LetGo> {
        let mut future = pin!(future);
        if let Some(ready) = at_once(future.as_mut()).await {
            return Ok(ready);
        }
        let (number, goes) = self.wait(bytes)?;
        let _waiting = Waiting { held: self, number, idle: None };
        unless(future, goes).await
    }

    fn add(&self, inside: &mut Inside, bytes: usize) {
        inside.bytes += bytes;
        self.bytes.store(inside.bytes, Relaxed);
    }

    fn subtract(&self, inside: &mut Inside, bytes: usize) {
        inside.bytes = inside.bytes.saturating_sub(bytes);
        self.bytes.store(inside.bytes, Relaxed);
    }

    /// Lets others go until so many bytes fit. Whether they do.
    fn make_room(&self, inside: &mut Inside, bytes: usize) -> bool {
        while inside.bytes.saturating_add(bytes) > self.most {
            let Some((_, goes)) = inside.idle.pop_first().or_else(|| inside.amid.pop_first()) else { return false };
            self.subtract(inside, goes.bytes);
            self.let_go.fetch_add(1, Relaxed);
        }
        true
    }

    /// Somebody waits amid a message.
    fn wait(&self, bytes: usize) -> Result<(u64, oneshot::Receiver<()>), LetGo> {
        let mut inside = self.inside.lock();
        if !self.make_room(&mut inside, bytes) {
            self.let_go.fetch_add(1, Relaxed);
            return Err(LetGo);
        }
        self.add(&mut inside, bytes);
        Ok(inside.enter(bytes, false))
    }
}

impl Inside {
    fn enter(&mut self, bytes: usize, is_idle: bool) -> (u64, oneshot::Receiver<()>) {
        let (_goes, hears) = oneshot::channel();
        self.next += 1;
        let list = if is_idle { &mut self.idle } else { &mut self.amid };
        list.insert(self.next, Waiter { bytes, _goes });
        (self.next, hears)
    }
}

/// Bytes that are held, until this is dropped: a connection's own, and those of a large head.
#[derive(Debug)]
pub(crate) struct Kept {
    held: Arc<Held>,
    bytes: usize,
    /// Of which for the largest head so far.
    head: usize,
}

impl Kept {
    /// Holds so many more. Whether there is room.
    #[must_use]
    pub fn more(&mut self, bytes: usize) -> bool {
        let more = self.held.keep(bytes).map(|mut more| std::mem::take(&mut more.bytes));
        self.bytes += more.unwrap_or_default();
        more.is_some()
    }

    /// Holds what a head takes, of which so many bytes have come: what is more than any before.
    #[must_use]
    pub fn head(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(SMALL_HEAD_BYTES.max(self.head));
        if more == 0 {
            return true;
        }
        self.head = bytes;
        self.more(more)
    }

    /// Waits for `future` on a connection without a request, which may be let go for others meanwhile.
    ///
    /// Errors: it was let go, and must end now.
    pub async fn idle<T>(&mut self, future: impl Future<Output = T>) -> Result<T, LetGo> {
        if self.bytes == 0 {
            return Ok(future.await);
        }
        let held = self.held.clone();
        let mut kept = Some(&mut self.bytes);
        let mut waiting = None;
        let mut future = pin!(future);
        poll_fn(|cx| {
            if let Poll::Ready(ready) = future.as_mut().poll(cx) {
                return Poll::Ready(Ok(ready));
            }
            // What is ready at once is not waited for.
            if let Some(kept) = kept.take() {
                let (number, goes) = held.inside.lock().enter(*kept, true);
                waiting = Some((Waiting { held: &held, number, idle: Some(kept) }, goes));
            }
            match &mut waiting {
                Some((_, goes)) => Pin::new(goes).poll(cx).map(|_| Err(LetGo)),
                None => Poll::Pending,
            }
        })
        .await
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.held.subtract(&mut self.held.inside.lock(), self.bytes);
    }
}

/// One that waits, until this is dropped.
struct Waiting<'a> {
    held: &'a Held,
    number: u64,
    /// For an idle connection, what its [`Kept`] counts: nothing once it has been let go.
    idle: Option<&'a mut usize>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut inside = self.held.inside.lock();
        match &mut self.idle {
            None => {
                if let Some(waiter) = inside.amid.remove(&self.number) {
                    self.held.subtract(&mut inside, waiter.bytes);
                }
            }
            Some(kept) => {
                if inside.idle.remove(&self.number).is_none() {
                    **kept = 0;
                }
            }
        }
    }
}

/// What a future has already.
async fn at_once<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    poll_fn(|cx| {
        Poll::Ready(match future.as_mut().poll(cx) {
            Poll::Ready(ready) => Some(ready),
            Poll::Pending => None,
        })
    })
    .await
}

/// Waits for a future, unless its waiter is dropped before.
async fn unless<F: Future>(future: Pin<&mut F>, goes: oneshot::Receiver<()>) -> Result<F::Output, LetGo> {
    tokio::select! {
        biased;
        ready = future => Ok(ready),
        _ = goes => Err(LetGo),
    }
}

#[cfg(test)]
#[path = "held_tests.rs"]
mod tests;
