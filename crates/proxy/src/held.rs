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
//! - When the budget is spent, a connection that is idle goes first, since it loses nothing. Then a tunnel goes in which nothing has moved
//!   for longest: nobody knows what it is for. Then the one goes whose bytes have waited
//!   longest: a slow client takes its piece within a second, one that is stalled is the oldest before long.
//! - Who waits for the disk is never let go for others: it would be the disk's fault, not the client's. So they may have half of the budget
//!   together, and whoever comes when that is spent is refused.
//! - What has gone counts no more from then on, though its task may need a moment to end.
//! - Above half of the budget, pieces are small, so that eight times as many slow clients fit.
//! - A connection counts as idle a second after its last answer, or at once while much of the budget is spent. Those that are busy would
//!   be entered and taken out with each request.
//! - A new connection is idle after a second without a request, and until then one of those who wait amid a message: its request is on its
//!   way, and it would be the first to go for others.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// What a connection takes by itself: a socket, and its task, which is 2.5 KB while it waits for a request.
pub(crate) const CONNECTION_BYTES: usize = 8 * 1024;
/// What a request takes besides that is no plain hit, or waits for the disk.
pub(crate) const REQUEST_BYTES: usize = 24 * 1024;
/// What a TLS session takes besides: a read buffer of 16 KiB, and some 20 KB.
pub(crate) const TLS_BYTES: usize = 36 * 1024;
/// What HTTP/2 takes besides: its tables, and windows that are empty.
pub(crate) const HTTP2_BYTES: usize = 24 * 1024;
/// What a stream takes: its task, and what of its answer `h2` has taken already.
pub(crate) const STREAM_BYTES: usize = 48 * 1024;
/// What a tunnel takes besides: what is in flight each way.
pub(crate) const TUNNEL_BYTES: usize = 32 * 1024;
/// Heads up to this are part of [`CONNECTION_BYTES`], and of [`STREAM_BYTES`].
pub(crate) const SMALL_HEAD_BYTES: usize = 4 * 1024;

/// How many bytes of a body are read at a time: one read of this size costs a disk little more than one of a few KiB, and a client
/// gets it in a few packets.
pub(crate) const READ_PIECE_BYTES: usize = 128 * 1024;
/// The most of a body in memory that is written at once over HTTP/1 without TLS. Each call costs: an answer of 1 MiB takes 0.84 of the processor time that it takes
/// by [`READ_PIECE_BYTES`]. More at once would keep others waiting: copying this takes the system a tenth of a millisecond.
const LENT_PIECE_BYTES: usize = 512 * 1024;
/// What is read, and what is lent, while much of the budget is spent.
const SMALL_PIECE_BYTES: usize = 16 * 1024;

/// What is worth the trouble of making the heap smaller.
const FALLEN_BYTES: usize = 8 * 1024 * 1024;

/// As little as the system may hold of what is sent on one connection: 64 KiB go at once over a link of 5 Mbit/s and a tenth of a second.
pub(crate) const LEAST_SEND_BUFFER_BYTES: usize = 64 * 1024;
/// The system holds no more by itself (the default of `net.ipv4.tcp_wmem`).
pub(crate) const MOST_SEND_BUFFER_BYTES: usize = 4 * 1024 * 1024;

/// It was to wait, and was let go: there is no room for what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LetGo;

/// The budget.
#[derive(Debug)]
pub(crate) struct Held {
    most: usize,
    /// The same as `Inside::bytes`, to look at without the lock.
    bytes: AtomicUsize,
    /// The most since it was last asked whether that has gone.
    peak: AtomicUsize,
    let_go: AtomicU64,
    tunnels_let_go: AtomicU64,
    refused: AtomicU64,
    /// What those hold who wait for the disk.
    for_disk: AtomicUsize,
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    bytes: usize,
    next: u64,
    /// Those who wait, in the order in which they began to: connections without a request, tunnels in which nothing moves, and others,
    /// new connections among them.
    idle: BTreeMap<u64, Waiter>,
    quiet: BTreeMap<u64, Waiter>,
    amid: BTreeMap<u64, Waiter>,
}

/// Who goes before others. Each list goes before the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Idle,
    Quiet,
    Amid,
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
            peak: AtomicUsize::new(0),
            let_go: AtomicU64::new(0),
            tunnels_let_go: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            for_disk: AtomicUsize::new(0),
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

    /// Whether at least half of much has been given back since this last said so: then the heap can be made smaller.
    pub fn has_fallen(&self) -> bool {
        let (bytes, peak) = (self.bytes(), self.peak.load(Relaxed));
        let has_fallen = peak >= bytes.saturating_add(FALLEN_BYTES) && peak / 2 >= bytes;
        if has_fallen {
            self.peak.store(bytes, Relaxed);
        }
        has_fallen
    }

    /// How many were let go.
    pub fn let_go(&self) -> u64 {
        self.let_go.load(Relaxed)
    }

    /// How many of them were tunnels.
    pub fn tunnels_let_go(&self) -> u64 {
        self.tunnels_let_go.load(Relaxed)
    }

    /// Tunnels in which nothing moves.
    #[cfg(test)]
    pub fn quiet_tunnels(&self) -> usize {
        self.inside.lock().quiet.len()
    }

    /// How many were refused, because what was held then could not be let go.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// How much the system may hold of what is sent on one connection, at its beginning: a part of the budget that leaves room for many.
    pub fn send_buffer_bytes(&self) -> usize {
        (self.most / 64).clamp(LEAST_SEND_BUFFER_BYTES, MOST_SEND_BUFFER_BYTES)
    }

    /// Whether much of the budget is spent.
    pub fn is_tight(&self) -> bool {
        self.bytes() > self.most / 2
    }

    /// How large a piece of an answer may be now.
    pub fn piece_bytes(&self) -> usize {
        if self.is_tight() { SMALL_PIECE_BYTES } else { READ_PIECE_BYTES }
    }

    /// The same for a body in memory on a connection without TLS.
    pub fn lent_piece_bytes(&self) -> usize {
        if self.is_tight() { SMALL_PIECE_BYTES } else { LENT_PIECE_BYTES }
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

    /// What waits for a client beside its requests: nothing yet.
    pub fn pending(self: &Arc<Self>) -> Pending {
        Pending { held: self.clone(), bytes: 0, waiter: None }
    }

    /// Waits for `future`, and meanwhile holds so many bytes, as they are once it has to be waited for. What is ready at once holds nothing.
    ///
    /// Errors: there is no room for them, or another needed it more.
    pub async fn hold<T>(&self, bytes: impl FnOnce() -> usize, future: impl Future<Output = T>) -> Result<T, LetGo> {
        let mut future = pin!(future);
        if let Some(ready) = at_once(future.as_mut()).await {
            return Ok(ready);
        }
        let (number, goes) = self.wait(bytes())?;
        let _waiting = Waiting { held: self, number, kept: None };
        unless(future, goes).await
    }

    /// Waits for `future`, which waits for the disk, and meanwhile keeps so many bytes, for which others are let go. What is ready at
    /// once keeps nothing. `None` where it would have to be waited for and there is no room: those who do so together may have half of
    /// the budget, so that a disk that is slow leaves some to those who need none.
    pub async fn keep_while<T>(
        self: &Arc<Self>,
        bytes: usize,
        mut future: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        if let Some(ready) = at_once(future.as_mut()).await {
            return Some(ready);
        }
        let Some(_for_disk) = ForDisk::take(&self.for_disk, bytes, self.most / 2) else {
            self.refused.fetch_add(1, Relaxed);
            return None;
        };
        let _kept = self.keep(bytes)?;
        Some(future.await)
    }

    fn add(&self, inside: &mut Inside, bytes: usize) {
        inside.bytes += bytes;
        self.bytes.store(inside.bytes, Relaxed);
        self.peak.fetch_max(inside.bytes, Relaxed);
    }

    fn subtract(&self, inside: &mut Inside, bytes: usize) {
        inside.bytes = inside.bytes.saturating_sub(bytes);
        self.bytes.store(inside.bytes, Relaxed);
    }

    /// Lets others go until so many bytes fit. Whether they do.
    fn make_room(&self, inside: &mut Inside, bytes: usize) -> bool {
        while inside.bytes.saturating_add(bytes) > self.most {
            let first = [Order::Idle, Order::Quiet, Order::Amid]
                .into_iter()
                .find_map(|order| inside.list(order).pop_first().map(|(_, goes)| (order, goes)));
            let Some((order, goes)) = first else { return false };
            self.subtract(inside, goes.bytes);
            self.let_go.fetch_add(1, Relaxed);
            self.tunnels_let_go.fetch_add(u64::from(order == Order::Quiet), Relaxed);
        }
        true
    }

    /// Somebody waits no more amid a message.
    fn left(&self, inside: &mut Inside, number: u64) {
        if let Some(waiter) = inside.amid.remove(&number) {
            self.subtract(inside, waiter.bytes);
        }
    }

    /// Somebody waits amid a message.
    fn wait(&self, bytes: usize) -> Result<(u64, oneshot::Receiver<()>), LetGo> {
        let mut inside = self.inside.lock();
        if !self.make_room(&mut inside, bytes) {
            self.let_go.fetch_add(1, Relaxed);
            return Err(LetGo);
        }
        self.add(&mut inside, bytes);
        Ok(inside.enter(bytes, Order::Amid))
    }

    /// Somebody who waits amid a message has so many bytes now, and waits as long as before.
    ///
    /// Errors: there is no room for them, or others need it more: nobody goes for one who has waited longer.
    fn wait_with(&self, number: u64, bytes: usize) -> Result<(), LetGo> {
        let mut inside = self.inside.lock();
        let before = inside.amid.get(&number).map(|waiter| waiter.bytes).ok_or(LetGo)?;
        if bytes > before && !self.make_room(&mut inside, bytes - before) {
            self.let_go.fetch_add(1, Relaxed);
            return Err(LetGo);
        }
        // It may have been the first to go.
        inside.amid.get_mut(&number).ok_or(LetGo)?.bytes = bytes;
        self.subtract(&mut inside, before);
        self.add(&mut inside, bytes);
        Ok(())
    }
}

impl Inside {
    fn list(&mut self, order: Order) -> &mut BTreeMap<u64, Waiter> {
        match order {
            Order::Idle => &mut self.idle,
            Order::Quiet => &mut self.quiet,
            Order::Amid => &mut self.amid,
        }
    }

    fn enter(&mut self, bytes: usize, order: Order) -> (u64, oneshot::Receiver<()>) {
        let (_goes, hears) = oneshot::channel();
        self.next += 1;
        let number = self.next;
        self.list(order).insert(number, Waiter { bytes, _goes });
        (number, hears)
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

    /// Holds so many fewer again, of those that [`Kept::more`] added.
    pub fn less(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.held.subtract(&mut self.held.inside.lock(), bytes);
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
        self.wait(Order::Idle, future).await
    }

    /// The same on a tunnel in which nothing moves. It goes when no connection is idle any more: whoever has it would miss it.
    pub async fn quiet<T>(&mut self, future: impl Future<Output = T>) -> Result<T, LetGo> {
        self.wait(Order::Quiet, future).await
    }

    /// The same on a connection that is new: it goes when those have gone that have waited longer amid a message.
    pub async fn amid<T>(&mut self, future: impl Future<Output = T>) -> Result<T, LetGo> {
        self.wait(Order::Amid, future).await
    }

    async fn wait<T>(&mut self, order: Order, future: impl Future<Output = T>) -> Result<T, LetGo> {
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
                let (number, goes) = held.inside.lock().enter(*kept, order);
                waiting = Some((Waiting { held: &held, number, kept: Some((order, kept)) }, goes));
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

/// What waits for a client beside its requests, until this is dropped: more of it or less from one moment to the next.
#[derive(Debug)]
pub(crate) struct Pending {
    held: Arc<Held>,
    bytes: usize,
    waiter: Option<(u64, oneshot::Receiver<()>)>,
}

impl Pending {
    /// So many bytes wait now. Where the client has `moved` on they wait anew, behind all others.
    ///
    /// Errors: there is no room for them, or another needed it more.
    pub fn poll(&mut self, bytes: usize, moved: bool, cx: &mut Context<'_>) -> Result<(), LetGo> {
        if let Some((_, goes)) = &mut self.waiter
            && Pin::new(goes).poll(cx).is_ready()
        {
            (self.waiter, self.bytes) = (None, 0);
            return Err(LetGo);
        }
        if bytes == self.bytes && !moved {
            return Ok(());
        }
        if bytes > 0
            && !moved
            && let Some((number, _)) = &self.waiter
        {
            self.held.wait_with(*number, bytes)?;
            self.bytes = bytes;
            return Ok(());
        }
        self.leave();
        if bytes > 0 {
            let entered = self.held.wait(bytes)?;
            self.enter(bytes, entered, cx)?;
        }
        Ok(())
    }

    /// Errors: another has needed the room already.
    fn enter(
        &mut self,
        bytes: usize,
        (number, mut goes): (u64, oneshot::Receiver<()>),
        cx: &mut Context<'_>,
    ) -> Result<(), LetGo> {
        // So that this task is woken.
        if Pin::new(&mut goes).poll(cx).is_ready() {
            return Err(LetGo);
        }
        (self.waiter, self.bytes) = (Some((number, goes)), bytes);
        Ok(())
    }

    fn leave(&mut self) {
        if let Some((number, _)) = self.waiter.take() {
            self.held.left(&mut self.held.inside.lock(), number);
        }
        self.bytes = 0;
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Bytes of one who waits for the disk, until this is dropped.
struct ForDisk<'a>(&'a AtomicUsize, usize);

impl ForDisk<'_> {
    /// So many bytes, unless all would then be more than `most`.
    fn take(all: &AtomicUsize, bytes: usize, most: usize) -> Option<ForDisk<'_>> {
        let more = |before: usize| Some(before + bytes).filter(|all| *all <= most);
        all.fetch_update(Relaxed, Relaxed, more).ok().map(|_| ForDisk(all, bytes))
    }
}

impl Drop for ForDisk<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Relaxed);
    }
}

/// One that waits, until this is dropped.
struct Waiting<'a> {
    held: &'a Held,
    number: u64,
    /// Where its [`Kept`] counts it, its list and what that counts: nothing once it has been let go.
    kept: Option<(Order, &'a mut usize)>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut inside = self.held.inside.lock();
        match &mut self.kept {
            None => self.held.left(&mut inside, self.number),
            Some((order, kept)) => {
                if inside.list(*order).remove(&self.number).is_none() {
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
