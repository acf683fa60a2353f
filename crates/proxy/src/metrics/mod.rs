//! What the proxy counts, for Prometheus, and whether it is well.
//!
//! Labels have fixed values, so nothing that a client sends can make more series: at most 99 of requests, and one for
//! each figure of the store.

mod desk;
mod store;

use std::time::Instant;

use prometheus::{
    Encoder, Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, Registry, TextEncoder,
    core::Collector, proto::MetricFamily,
};
use tinaja_logs::CacheResult;
use tinaja_store::Stats;

pub(crate) use desk::Desk;

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
const CLASSES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];
/// Upper ends of what a request may take, in seconds: from a hit in memory to an origin behind a satellite.
const SECONDS: [f64; 14] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];

/// The counters. Memory: some 20 KB.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    /// By result, then by class.
    requests: Vec<Vec<IntCounter>>,
    sent: IntCounter,
    seconds: Histogram,
    pub handshakes_failed: IntCounter,
    reloads: [IntCounter; 2],
    connections: IntGauge,
}

impl Metrics {
    /// Errors: a name that Prometheus does not take, which is a mistake of ours.
    pub fn new() -> prometheus::Result<Metrics> {
        let registry = Registry::new();
        let by_result =
            Opts::new("tinaja_requests_total", "Requests that have ended, by what the cache did and the status.");
        let by_result = register(&registry, IntCounterVec::new(by_result, &["result", "status"])?)?;
        let row = |result: &str| -> prometheus::Result<Vec<IntCounter>> {
            CLASSES.iter().map(|class| by_result.get_metric_with_label_values(&[result, class])).collect()
        };
        let requests = RESULTS.iter().map(|result| row(result)).collect::<Result<_, _>>()?;
        let sent = "Bytes of bodies sent to clients, tunnels included.";
        let sent = register(&registry, IntCounter::new("tinaja_sent_bytes_total", sent)?)?;
        let seconds = HistogramOpts::new("tinaja_request_duration_seconds", "Time from a request's head to its end.");
        let seconds = register(&registry, Histogram::with_opts(seconds.buckets(SECONDS.to_vec()))?)?;
        let failed = "TLS handshakes with clients that failed.";
        let failed = register(&registry, IntCounter::new("tinaja_tls_handshakes_failed_total", failed)?)?;
        let reloads = Opts::new("tinaja_reloads_total", "Times that settings were read again, by what came of it.");
        let reloads = register(&registry, IntCounterVec::new(reloads, &["result"])?)?;
        let reload = |result| reloads.get_metric_with_label_values(&[result]);
        let reloads = [reload("refused")?, reload("done")?];
        let connections = "Connections from clients that are open.";
        let connections = register(&registry, IntGauge::new("tinaja_connections", connections)?)?;
        Ok(Metrics { registry, requests, sent, seconds, handshakes_failed: failed, reloads, connections })
    }

    /// Counts a request that has ended. `bytes` of its answer's body were sent.
    pub fn count(&self, result: &CacheResult, status: u16, bytes: u64, began: Instant) {
        let class = usize::from(status / 100);
        let row = self.requests.get(place(result));
        if let Some(counter) = row.and_then(|row| row.get(class).or(row.first())) {
            counter.inc();
        }
        self.sent.inc_by(bytes);
        self.seconds.observe(began.elapsed().as_secs_f64());
    }

    /// Counts a reload.
    pub fn reloaded(&self, done: bool) {
        let [refused, well] = &self.reloads;
        if done { well.inc() } else { refused.inc() }
    }

    /// All figures in Prometheus's text format, with those of the store.
    ///
    /// Errors: a figure that cannot be written, which is a mistake of ours.
    pub fn text(&self, stats: &Stats, connections: usize) -> prometheus::Result<Vec<u8>> {
        self.connections.set(i64::try_from(connections).unwrap_or(i64::MAX));
        let mut families: Vec<MetricFamily> = self.registry.gather();
        families.extend(store::families(stats)?);
        let mut text = Vec::new();
        TextEncoder::new().encode(&families, &mut text)?;
        Ok(text)
    }
}

fn register<C: Collector + Clone + 'static>(registry: &Registry, collector: C) -> prometheus::Result<C> {
    registry.register(Box::new(collector.clone()))?;
    Ok(collector)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_a_help_and_a_unit() {
        let metrics = Metrics::new().unwrap();
        metrics.count(&CacheResult::Hit, 200, 5, Instant::now());
        metrics.count(&CacheResult::None, 0, 0, Instant::now());
        metrics.count(&CacheResult::Other("x".into()), 999, 0, Instant::now());
        metrics.reloaded(true);
        let text = String::from_utf8(metrics.text(&Stats { reads: 7, ..Stats::default() }, 3).unwrap()).unwrap();
        for line in [
            "tinaja_requests_total{result=\"hit\",status=\"2xx\"} 1",
            "tinaja_requests_total{result=\"none\",status=\"none\"} 1",
            "tinaja_requests_total{result=\"other\",status=\"none\"} 1",
            "tinaja_sent_bytes_total 5",
            "tinaja_request_duration_seconds_count 3",
            "tinaja_reloads_total{result=\"done\"} 1",
            "tinaja_connections 3",
            "tinaja_store_reads_total 7",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
        let names = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        for (name, kind) in names {
            assert!(text.contains(&format!("# HELP {name} ")), "{name}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name} {kind}");
            assert!(name.starts_with("tinaja_"), "{name}");
        }
        assert!(text.lines().count() < 300);
    }
}
