//! What one HTTP/2 connection may make the proxy do, with the reason for each bound.
//!
//! Frames that cost the client nothing and the proxy something are paid for from [`Bucket`]s. A client that overdraws
//! one gets GOAWAY (ENHANCE_YOUR_CALM), and its connection is closed; browsers, curl and other proxies stay far below.

use std::time::Instant;

use h2::server::Builder;

/// A request's fields, in bytes, each with 32 more as RFC 9113 6.5.2 counts: the same as a head over HTTP/1. Above it the
/// answer is 431; beyond four times as much, and beyond 5 CONTINUATION frames, `h2` closes the connection.
const HEADER_LIST_BYTES: u32 = tinaja_http::limits::MAX_HEAD_BYTES as u32;

/// Reading stops at so many bytes of heads that nobody has looked at. What is behind them waits, be it content or PING: as long as a client does not take its
/// answers, its further requests are not looked at. Not at fewer requests than there may be streams: a client may take one of them back.
pub(super) const UNSEEN_HEAD_BYTES: usize = tinaja_http::limits::MAX_HEAD_BYTES;

/// The longest frame that `h2` takes. One that is said to be longer ends the connection, and never is in memory.
pub(super) const MAX_FRAME_BYTES: usize = 16 * 1024;

/// What a field takes in memory besides its text: an entry of a map.
pub(super) const FIELD_BYTES: usize = 72;
/// Fields that a list of [`HEADER_LIST_BYTES`] has at most: each counts as 33 bytes at least.
const MOST_FIELDS: usize = HEADER_LIST_BYTES as usize / 33;

/// What a header block of so many bytes may take in memory at most: one byte can stand for a field that was sent before.
pub(super) fn block_bytes(bytes: usize) -> usize {
    bytes + bytes.min(MOST_FIELDS) * FIELD_BYTES
}

/// Content that a client may send ahead on one stream: enough for 10 Mbit/s at a fifth of a second.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;

/// And on all streams of a connection: it is held in memory until the origins take it.
pub(super) const CONNECTION_WINDOW_BYTES: u32 = 512 * 1024;

/// The same before a connection has brought any content, and as long as much of the budget of clients is spent: what the protocol begins
/// with, and no setting can take back (RFC 9113 6.9.2).
pub(super) const LEAST_WINDOW_BYTES: u32 = 65_535;

/// Of answers that are over for their requests, so much may wait for a client before further requests of its connection are looked
/// at. A page's hits on a slow link are a few hundred KiB.
pub(super) const QUEUE_BYTES: usize = 1024 * 1024;

/// The same while much of the budget of clients is spent.
pub(super) const SHORT_QUEUE_BYTES: usize = 64 * 1024;

/// So many streams are answered where they were accepted, one behind the other, before others have their turn on this thread.
pub(super) const IN_A_ROW: u32 = 16;

/// Of an answer's content, what `h2` takes before the client's connection does: two full frames, so that one is on its
/// way while the next is fetched. More would be held for each stream of a client that reads slowly.
pub(super) const SEND_BUFFER_BYTES: usize = 32 * 1024;

/// Of an answer that is being carried out, what may be in memory for what `h2` has of it: that, and the rest of the part that it ends in.
pub(super) const STREAM_BYTES: usize = SEND_BUFFER_BYTES + 16 * 1024;

/// Streams that the client opened and reset before the proxy looked at them (rapid reset). They cost memory that the
/// limit of streams at once does not count.
const UNSEEN_RESETS: usize = 20;

/// Streams that the client made the proxy reset by breaking the protocol, in a connection's life. Nobody's client does
/// so twice.
const FORCED_RESETS: usize = 100;

/// DATA frames with fewer bytes than this cost more than what they carry.
pub(super) const SMALL_DATA_BYTES: usize = 64;

/// The same of another node of the cluster, whose clients leave whenever they like: as many as there are streams, many times over.
const UNSEEN_RESETS_OF_NODES: usize = 4096;

/// Settings for one connection; `streams` at once. `trusted` for another node of the cluster.
pub(super) fn builder(streams: u32, trusted: bool) -> Builder {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(streams)
        .max_header_list_size(HEADER_LIST_BYTES)
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(if trusted { CONNECTION_WINDOW_BYTES } else { LEAST_WINDOW_BYTES })
        .max_send_buffer_size(SEND_BUFFER_BYTES)
        .max_pending_accept_reset_streams(if trusted { UNSEEN_RESETS_OF_NODES } else { UNSEEN_RESETS })
        .max_local_error_reset_streams((!trusted).then_some(FORCED_RESETS));
    builder
}

/// What a client is told to stop doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flood {
    /// Streams that it resets: each has cost a request.
    Resets,
    /// SETTINGS, each of which is acknowledged.
    Settings,
    /// PING, likewise.
    Pings,
    /// WINDOW_UPDATE far beyond what was sent to it.
    WindowUpdates,
    /// DATA frames with next to nothing in them.
    TinyData,
    /// Frames that mean nothing here: PRIORITY and unknown ones.
    Idle,
    /// A header block whose CONTINUATIONs do not come to an end in time.
    SlowHead,
}

impl Flood {
    /// A short name for logs.
    pub fn name(self) -> &'static str {
        match self {
            Flood::Resets => "http2-resets",
            Flood::Settings => "http2-settings",
            Flood::Pings => "http2-pings",
            Flood::WindowUpdates => "http2-window-updates",
            Flood::TinyData => "http2-tiny-data",
            Flood::Idle => "http2-idle-frames",
            Flood::SlowHead => "http2-slow-head",
        }
    }
}

/// So much at once, and so much more each second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    left: f64,
    most: f64,
    each_second: f64,
    filled: Instant,
}

impl Bucket {
    fn new(most: f64, each_second: f64, now: Instant) -> Bucket {
        Bucket { left: most, most, each_second, filled: now }
    }

    /// Takes one. Whether there was one.
    pub fn take(&mut self, now: Instant) -> bool {
        let since = now.saturating_duration_since(self.filled).as_secs_f64();
        self.filled = now;
        self.left = (self.left + since * self.each_second).min(self.most.max(self.left)) - 1.0;
        self.left >= 0.0
    }

    /// Adds what was earned, beyond what time gives.
    pub fn earn(&mut self, count: f64, most: f64) {
        self.left = (self.left + count).min(most);
    }
}

/// A connection's buckets.
#[derive(Debug)]
pub(super) struct Buckets {
    pub resets: Bucket,
    pub settings: Bucket,
    pub pings: Bucket,
    pub window_updates: Bucket,
    pub tiny_data: Bucket,
    pub idle: Bucket,
}

impl Buckets {
    pub fn new(now: Instant) -> Buckets {
        Buckets {
            // A page that is left takes all its requests back, twice over; then one click a second with 20 requests.
            resets: Bucket::new(200.0, 20.0, now),
            // Clients send one or two in a connection's life.
            settings: Bucket::new(20.0, 1.0, now),
            // Some measure the link with every few answers.
            pings: Bucket::new(100.0, 10.0, now),
            // Two for each frame that was sent to them, which earns them; and one for each stream that opens.
            window_updates: Bucket::new(1000.0, 100.0, now),
            // Telemetry and typing: a few dozen a second.
            tiny_data: Bucket::new(1000.0, 200.0, now),
            // Some browsers send a tree of five PRIORITY frames at first, and one with each request.
            idle: Bucket::new(500.0, 100.0, now),
        }
    }

    /// Sending content earns the client the WINDOW_UPDATEs for it: two for each KiB, at most 100,000 ahead.
    pub fn sent(&mut self, bytes: usize) {
        self.window_updates.earn(bytes as f64 / 512.0, 100_000.0);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn buckets_fill_by_time_and_merit() {
        let start = Instant::now();
        let mut bucket = Bucket::new(3.0, 1.0, start);
        let taken = |bucket: &mut Bucket, now| (0..100).take_while(|_| bucket.take(now)).count();
        assert_eq!(taken(&mut bucket, start), 3);
        // The one that was refused is owed.
        assert_eq!(taken(&mut bucket, start + Duration::from_secs(3)), 2);
        assert_eq!(taken(&mut bucket, start + Duration::from_secs(1000)), 3);
        bucket.earn(50.0, 20.0);
        assert_eq!(taken(&mut bucket, start + Duration::from_secs(1000)), 20);
    }
}
