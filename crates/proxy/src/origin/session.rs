//! HTTP/2 connections to origins, each shared by many requests (RFC 9113 9.1).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ::h2::client::{Builder, SendRequest};
use bytes::Bytes;
use foldhash::HashMap;
use parking_lot::Mutex;
use tinaja_clock::Clock;
use tinaja_http::limits::MAX_ANSWER_HEAD_BYTES;

use super::backend::Counts;
use super::h2::STREAM_BYTES;
use super::reads_on::ReadsOn;
use super::wire::{PoolKey, SWEEP, Wire};
use crate::failure::Failure;

/// Requests at once over one connection, at most; for more another connection is made.
const MOST_STREAMS: usize = 64;
/// All of their answers may come at once, so that a slow reader of one holds up none of the others. What is in memory
/// of one connection at the most: 16 MiB.
const CONNECTION_BYTES: u32 = STREAM_BYTES * MOST_STREAMS as u32;

/// One connection.
pub(super) struct Session {
    requests: SendRequest<Bytes>,
    streams: AtomicUsize,
    /// No further request goes there.
    retired: Arc<AtomicBool>,
    /// When its last request ended.
    idle_since: Mutex<Instant>,
    counts: Arc<Counts>,
    clock: Clock,
}

/// A request's part of a connection.
pub(super) struct Seat(Arc<Session>);

impl Session {
    /// Begins to speak HTTP/2. A task of its own moves frames until the connection ends.
    ///
    /// Errors: [`Failure::Origin`].
    pub async fn begin(wire: Wire, clock: &Clock) -> Result<Arc<Session>, Failure> {
        let counts = wire.counts().clone();
        let retired = Arc::new(AtomicBool::new(false));
        let handshake = Builder::new()
            .enable_push(false)
            .initial_window_size(STREAM_BYTES)
            .initial_connection_window_size(CONNECTION_BYTES)
            .max_header_list_size(MAX_ANSWER_HEAD_BYTES as u32)
            .max_send_buffer_size(STREAM_BYTES as usize)
            .handshake(ReadsOn::over(wire, &retired));
        let begun = handshake.await.map_err(|error| Failure::Origin(format!("HTTP/2 did not begin: {error}")));
        let (requests, connection) = begun?;
        let over = retired.clone();
        clock.start(async move {
            if let Err(error) = connection.await {
                tracing::debug!("an HTTP/2 connection to an origin ended: {error}");
            }
            over.store(true, Ordering::Release);
        });
        let idle_since = Mutex::new(clock.now());
        counts.idle.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(Session {
            requests,
            streams: AtomicUsize::new(0),
            retired,
            idle_since,
            counts,
            clock: clock.clone(),
        }))
    }

    /// A place for one more request, if there is one.
    pub fn seat(self: &Arc<Self>) -> Option<Seat> {
        let most = self.requests.current_max_send_streams().clamp(1, MOST_STREAMS);
        let taken = self.streams.fetch_update(Ordering::AcqRel, Ordering::Acquire, |streams| {
            (streams < most && !self.retired.load(Ordering::Acquire)).then_some(streams + 1)
        });
        if taken == Ok(0) {
            self.counts.idle.fetch_sub(1, Ordering::Relaxed);
        }
        taken.ok().map(|_| Seat(self.clone()))
    }

    fn is_over(&self, now: Instant, keep_for: Duration) -> bool {
        let idle = self.streams.load(Ordering::Acquire) == 0;
        self.retired.load(Ordering::Acquire) || (idle && now >= *self.idle_since.lock() + keep_for)
    }
}

impl Seat {
    pub fn requests(&self) -> SendRequest<Bytes> {
        self.0.requests.clone()
    }

    /// No further request goes to this connection.
    pub fn retire(&self) {
        self.0.retired.store(true, Ordering::Release);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        *self.0.idle_since.lock() = self.0.clock.now();
        if self.0.streams.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.counts.idle.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.counts.idle.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Connections to one place, and how long each is kept without a request.
type Kept = Vec<(Arc<Session>, Duration)>;

/// Connections that take further requests.
pub(super) struct Sessions {
    clock: Clock,
    open: Mutex<HashMap<PoolKey, Kept>>,
    sweeping: AtomicBool,
}

impl Sessions {
    pub fn new(clock: Clock) -> Sessions {
        Sessions { clock, open: Mutex::default(), sweeping: AtomicBool::new(false) }
    }

    /// A place on a connection that there is.
    pub fn seat(&self, place: &PoolKey) -> Option<Seat> {
        self.open.lock().get(place)?.iter().find_map(|(session, _)| session.seat())
    }

    /// Shares a connection with requests to come; without any it is closed after so long.
    pub fn put(self: &Arc<Self>, place: PoolKey, session: Arc<Session>, keep_for: Duration) {
        self.open.lock().entry(place).or_default().push((session, keep_for));
        if !self.sweeping.swap(true, Ordering::AcqRel) {
            self.clock.start(self.clone().sweep());
        }
    }

    /// Lets go of what is over, until nothing is left. Requests that are on their way go on.
    async fn sweep(self: Arc<Self>) {
        loop {
            self.clock.timer(SWEEP).await;
            let mut open = self.open.lock();
            let now = self.clock.now();
            open.retain(|_, sessions| {
                sessions.retain(|(session, keep_for)| !session.is_over(now, *keep_for));
                !sessions.is_empty()
            });
            if open.is_empty() {
                self.sweeping.store(false, Ordering::Release);
                return;
            }
        }
    }
}
