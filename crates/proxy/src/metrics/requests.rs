//! Requests of clients that have ended: what the cache did, where the answer came from, how long it took, how much it was.

use std::time::Duration;

use prometheus::{Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry};
use tinaja_logs::CacheResult;

use super::register;

/// What became of requests, in the order of [`place`].
const RESULTS: [&str; 12] = [
    "miss",
    "hit",
    "collapsed",
    "not_modified",
    "revalidated",
    "refetched",
    "stale",
    "client_refresh",
    "denied",
    "tunnel",
    "none",
    "other",
];
/// Classes of the status that clients got; the first where they got none.
pub(super) const CLASSES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];
/// Upper ends of what a request may take, in seconds: from a hit in memory to an origin behind a satellite.
pub(super) const SECONDS: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];

/// Where an answer came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Hot objects, or buffers on their way to the disk.
    Memory,
    Disk,
    /// Another client's fetch that had not ended.
    Fill,
    /// Another node of the cluster.
    Peer,
    /// The origin, for this request.
    Origin,
    /// The proxy itself: a page that says what is wrong, or nothing at all.
    Proxy,
    /// A tunnel's far end.
    Tunnel,
}

impl Source {
    const ALL: [(Source, &str); 7] = [
        (Source::Memory, "memory"),
        (Source::Disk, "disk"),
        (Source::Fill, "fill"),
        (Source::Peer, "peer"),
        (Source::Origin, "origin"),
        (Source::Proxy, "proxy"),
        (Source::Tunnel, "tunnel"),
    ];
}

impl From<tinaja_store::Source> for Source {
    fn from(source: tinaja_store::Source) -> Source {
        match source {
            tinaja_store::Source::Memory => Source::Memory,
            tinaja_store::Source::Disk => Source::Disk,
            tinaja_store::Source::Fill => Source::Fill,
            tinaja_store::Source::Peer => Source::Peer,
        }
    }
}

/// The counters, one for each pair of a result and a class, and three for each source.
#[derive(Debug)]
pub(super) struct Requests {
    /// By result, then by class.
    ended: Vec<Vec<IntCounter>>,
    /// In the order of [`Source::ALL`].
    by_source: Vec<BySource>,
}

#[derive(Debug)]
struct BySource {
    seconds: Histogram,
    sent: IntCounter,
}

impl Requests {
    pub fn new(registry: &Registry) -> prometheus::Result<Requests> {
        let ended = "Requests that have ended, by what the cache did and the class of the status.";
        let ended = IntCounterVec::new(Opts::new("tinaja_requests_total", ended), &["result", "status"])?;
        let ended = register(registry, ended)?;
        let row = |result: &str| -> prometheus::Result<Vec<IntCounter>> {
            CLASSES.iter().map(|class| ended.get_metric_with_label_values(&[result, class])).collect()
        };
        let ended = RESULTS.iter().map(|result| row(result)).collect::<Result<_, _>>()?;
        let seconds = "Time from a request's head to its end, by where the answer came from.";
        let seconds = HistogramOpts::new("tinaja_request_duration_seconds", seconds).buckets(SECONDS.to_vec());
        let seconds = register(registry, HistogramVec::new(seconds, &["source"])?)?;
        let sent = "Bytes of bodies sent to clients, by where they came from.";
        let sent = register(registry, IntCounterVec::new(Opts::new("tinaja_sent_bytes_total", sent), &["source"])?)?;
        let of = |(_, name): (Source, &str)| -> prometheus::Result<BySource> {
            let seconds = seconds.get_metric_with_label_values(&[name])?;
            Ok(BySource { seconds, sent: sent.get_metric_with_label_values(&[name])? })
        };
        Ok(Requests { ended, by_source: Source::ALL.into_iter().map(of).collect::<Result<_, _>>()? })
    }

    /// Counts one that has ended, after so long. `bytes` of its answer's body were sent.
    pub fn count(&self, result: &CacheResult, source: Source, status: u16, bytes: u64, took: Duration) {
        let row = self.ended.get(place(result));
        if let Some(counter) = row.and_then(|row| row.get(usize::from(status / 100)).or(row.first())) {
            counter.inc();
        }
        let number = Source::ALL.iter().position(|(other, _)| *other == source);
        if let Some(of) = number.and_then(|number| self.by_source.get(number)) {
            of.sent.inc_by(bytes);
            of.seconds.observe(took.as_secs_f64());
        }
    }
}

fn place(result: &CacheResult) -> usize {
    match result {
        CacheResult::Miss => 0,
        CacheResult::Hit => 1,
        CacheResult::Collapsed => 2,
        CacheResult::NotModified => 3,
        CacheResult::Revalidated => 4,
        CacheResult::Refetched => 5,
        CacheResult::Stale => 6,
        CacheResult::ClientRefresh => 7,
        CacheResult::Denied => 8,
        CacheResult::Tunnel => 9,
        CacheResult::None => 10,
        CacheResult::Other(_) => 11,
    }
}
