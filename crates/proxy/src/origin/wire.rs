//! A connection to an origin as bytes: made, or kept until the next request.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use foldhash::HashMap;
use parking_lot::Mutex;
use tinaja_clock::Clock;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::backend::Counts;

/// How often connections that nobody may use any more are closed.
pub(super) const SWEEP: Duration = Duration::from_secs(1);

/// A connection, with TLS or without.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> Stream for T {}

/// A connection that is counted as long as it is open.
pub(super) struct Wire {
    pub stream: Box<dyn Stream>,
    counts: Arc<Counts>,
}

impl Wire {
    pub fn new(stream: Box<dyn Stream>, counts: &Arc<Counts>) -> Wire {
        counts.open.fetch_add(1, Ordering::Relaxed);
        Wire { stream, counts: counts.clone() }
    }

    pub fn counts(&self) -> &Arc<Counts> {
        &self.counts
    }

    /// Whether nothing has come on it: neither its end nor bytes that nobody asked for.
    fn is_silent(&mut self) -> bool {
        let mut byte = [0];
        let mut room = ReadBuf::new(&mut byte);
        let mut nobody = Context::from_waker(Waker::noop());
        Pin::new(&mut self.stream).poll_read(&mut nobody, &mut room).is_pending()
    }
}

impl AsyncRead for Wire {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
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
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.counts.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Which connections may take each other's place: those of one origin of a route to one address, with the same TLS.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PoolKey {
    /// Stands for the origin. What is kept holds on to what is counted, so no other can have the same.
    origin: usize,
    /// [`super::reach::Reach::mark`].
    mark: u64,
    /// The name that its certificate was checked for.
    secured: Option<String>,
    address: SocketAddr,
}

impl PoolKey {
    pub fn new(counts: &Arc<Counts>, mark: u64, secured: Option<&str>, address: SocketAddr) -> PoolKey {
        PoolKey { origin: Arc::as_ptr(counts).addr(), mark, secured: secured.map(str::to_owned), address }
    }
}

/// Connections that wait for their next request. Memory: a socket and some hundred bytes each; with TLS some 20 KB.
pub(super) struct Pool {
    most: usize,
    clock: Clock,
    idle: Mutex<Idle>,
    sweeping: AtomicBool,
}

#[derive(Default)]
struct Idle {
    kept: HashMap<PoolKey, VecDeque<(Wire, Instant)>>,
    count: usize,
}

impl Pool {
    /// Keeps at most so many connections, whoever they lead to.
    pub fn new(most: usize, clock: Clock) -> Pool {
        Pool { most, clock, idle: Mutex::default(), sweeping: AtomicBool::new(false) }
    }

    /// The connection that was used last, if it is of use still.
    pub fn take(&self, place: &PoolKey) -> Option<Wire> {
        let now = self.clock.now();
        loop {
            let (mut wire, until) = self.idle.lock().take(place)?;
            wire.counts.idle.fetch_sub(1, Ordering::Relaxed);
            if now < until && wire.is_silent() {
                return Some(wire);
            }
        }
    }

    /// Keeps a connection for so long. Beyond `keep` to one place, or too many in all, it is closed.
    pub fn put(self: &Arc<Self>, place: PoolKey, wire: Wire, keep: usize, keep_for: Duration) {
        let mut idle = self.idle.lock();
        if idle.count >= self.most || idle.kept.get(&place).map_or(0, VecDeque::len) >= keep {
            return;
        }
        wire.counts.idle.fetch_add(1, Ordering::Relaxed);
        idle.kept.entry(place).or_default().push_back((wire, self.clock.now() + keep_for));
        idle.count += 1;
        drop(idle);
        if !self.sweeping.swap(true, Ordering::AcqRel) {
            self.clock.start(self.clone().sweep());
        }
    }

    /// Closes what is too old, or was closed at its other end, until nothing is kept.
    async fn sweep(self: Arc<Self>) {
        loop {
            self.clock.timer(SWEEP).await;
            let mut idle = self.idle.lock();
            idle.sweep(self.clock.now());
            if idle.count == 0 {
                // Whoever puts something next has to wait for the lock, and finds that nobody sweeps.
                self.sweeping.store(false, Ordering::Release);
                return;
            }
        }
    }
}

impl Idle {
    fn take(&mut self, place: &PoolKey) -> Option<(Wire, Instant)> {
        let taken = self.kept.get_mut(place)?.pop_back();
        self.count -= usize::from(taken.is_some());
        // A place without connections stays until the next sweep: as a rule one comes back before.
        taken
    }

    fn sweep(&mut self, now: Instant) {
        for kept in self.kept.values_mut() {
            kept.retain_mut(|(wire, until)| {
                let stays = now < *until && wire.is_silent();
                if !stays {
                    wire.counts.idle.fetch_sub(1, Ordering::Relaxed);
                    self.count -= 1;
                }
                stays
            });
        }
        self.kept.retain(|_, kept| !kept.is_empty());
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        for (wire, _) in self.kept.values().flatten() {
            wire.counts.idle.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
