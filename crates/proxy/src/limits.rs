//! What one client or one origin can hold on to, and for how long.

use std::time::Duration;

/// With less than this nobody could be served.
pub(crate) const LEAST_CLIENT_MEMORY: u64 = 1 << 20;

/// Caps and time limits. Each bounds what one client or origin can hold on to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Connections from clients at once; further ones get 503. Default 10,000: at about 13 KB each this is 130 MB,
    /// or 373 MB where all speak HTTP/2 (37 KB each, and 160 KB more for each answer that is read slowly).
    pub connections: usize,
    /// Connections at once from one client: an address, or a network of IPv6 with 64 bits. Further ones get 429. Default 0, which is
    /// any number: behind a load balancer or a translation of addresses many clients have one address. A network with 48 bits may have 16 times
    /// as many, as of all that one client may have.
    pub client_connections: usize,
    /// Requests a second of one client, in the mean; further ones get 429, with a Retry-After. Default 0, which is any number, as for
    /// `client_connections`.
    pub client_rate: u32,
    /// Requests that a client may send at once beyond that, if it has not sent as many as it may of late. Default 100, which is what pages
    /// have at most; 1 at least.
    pub client_burst: u32,
    /// Requests of one client in progress, those over HTTP/2 and tunnels too; further ones get 429. Default 0, which is any number.
    pub client_requests: u32,
    /// Fetches from origins and other nodes in flight for one client; requests that would need a further one get 429, and hits go on.
    /// Default 0, which is any number.
    pub client_fetches: u32,
    /// Bytes of memory that all clients together may have the proxy hold: connections, heads that are not whole, what slow clients have
    /// not taken. When they are held, idle connections are closed, then whoever has taken nothing for the longest is let go, and if that
    /// is not enough further connections get 503. 1 MiB at least. Default: a quarter of the memory that there is for the process.
    pub client_memory: u64,
    /// Requests at once over one HTTP/2 connection; further ones are refused and may be sent again. Default 100, what
    /// RFC 9113 6.5.2 takes for the least that still serves. Beyond the first, each counts as a connection.
    pub streams: u32,
    /// A request's head must be whole this long after its first byte. Default 10 s.
    pub head: Duration,
    /// A connection without a request is closed after this. Default 60 s.
    pub idle: Duration,
    /// A client that neither takes nor sends bytes amid a message is given up after this. Default 60 s. One that takes less than 32 KiB in this
    /// time may count as one that takes nothing, since the system does not tell of less; under TLS it may be given up after three times as long.
    pub client_stall: Duration,
    /// Bytes a second that a client must send of a request's content, in the mean, once it has been waited for as long as
    /// `client_stall`: a byte now and then is not taken for progress. Time in which the origin takes nothing does not count. Default 500;
    /// 0 for any rate.
    pub body_rate: u64,
    /// A name must be resolved within this. Default 10 s.
    pub resolve: Duration,
    /// Each of a name's addresses must accept a connection within this. Default 10 s.
    pub connect: Duration,
    /// An origin that sends nothing is given up after this. Default 60 s.
    pub origin_stall: Duration,
    /// A tunnel in which nothing moves either way is closed after this. Default 5 minutes.
    pub tunnel_idle: Duration,
    /// A request waits this long for another client's fetch of the same object, then goes to the origin by itself.
    /// Default 20 s.
    pub collapse: Duration,
    /// A Range of an object that is not stored passes through. If the object then turns out to have at most this many
    /// bytes, all of it is fetched behind the answer, for the ranges that usually follow. Default 1 MiB; 0 never.
    pub fill_range_below: u64,
    /// When the last client that reads an object leaves while it is being fetched, the rest is fetched all the same if
    /// it has at most this many bytes. Default 64 KiB: so much is on its way already when the origin is told to stop. Of what is
    /// not fetched to its end, what has come is kept, where a strong entity tag allows that the rest is asked for later.
    pub quick_abort_bytes: u64,
    /// Or if at least this part of the object has arrived. Default 90 %: an object that was asked for is asked for
    /// again more often than once in ten, so the last tenth costs less than a second fetch of the whole would.
    pub quick_abort_percent: u8,
    /// After a signal to stop, requests in progress have this long to end. Default 5 s.
    pub stop: Duration,
    /// After another process has taken over, connections have this long to end: each ends with its next answer. Default
    /// 60 s; as long, both processes have their memory.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Limits {
            connections: 10_000,
            client_connections: 0,
            client_rate: 0,
            client_burst: 100,
            client_requests: 0,
            client_fetches: 0,
            client_memory: tinaja_store::memory_bytes() / 4,
            streams: 100,
            head: seconds(10),
            idle: seconds(60),
            client_stall: seconds(60),
            body_rate: 500,
            resolve: seconds(10),
            connect: seconds(10),
            origin_stall: seconds(60),
            tunnel_idle: seconds(300),
            collapse: seconds(20),
            fill_range_below: 1 << 20,
            quick_abort_bytes: 64 << 10,
            quick_abort_percent: 90,
            stop: seconds(5),
            drain: seconds(60),
        }
    }
}
