//! What the proxy counts, for Prometheus, and whether it is well.
//!
//! Labels have fixed values, so nothing that a client sends can make more series: some 370
//! altogether, and 12 for each origin of each route. Nothing is counted twice: the store's figures are read where they are kept.
//!
//! - `requests`, `fetches`, `neighbours`: what clients, origins and other nodes were answered; `clients`, `store`, `process`, `origins`: figures that are kept elsewhere
//! - `encoded`: answers that were compressed; `tunnels`: what became of tunnels that may be intercepted; `diverted`: connections that the kernel sent here
//! - `family`: the form that those take; `server`: who is asked for them

mod clients;
mod diverted;
mod encoded;
mod family;
mod fetches;
mod hand_over;
mod neighbours;
mod origins;
mod panics;
mod process;
mod requests;
mod store;
mod tunnels;

use std::time::Duration;

use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{Encoder, IntCounter, IntCounterVec, IntGauge, Opts, Registry, TextEncoder};
use tinaja_logs::CacheResult;
use tinaja_store::Stats;

pub(crate) use clients::families as of_clients;
pub(crate) use diverted::Diverted;
pub(crate) use encoded::Encoded;
pub(crate) use family::{counter, counters, gauge};
use fetches::{Fetches, Waiting};
use hand_over::HandOver;
use neighbours::Neighbours;
pub(crate) use origins::families as of_origins;
pub use panics::{count_panics, panics};
use requests::Requests;
pub(crate) use requests::Source;
pub(crate) use tunnels::Tunnels;

/// The counters. Memory: some 60 KB.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: Requests,
    pub fetches: Fetches,
    pub neighbours: Neighbours,
    pub tunnels: Tunnels,
    pub diverted: Diverted,
    pub encoded: Encoded,
    pub handshakes_failed: IntCounter,
    /// Connections without the header of the PROXY protocol that they must have.
    pub untold: IntCounter,
    /// Answers that broke off after their head.
    pub broken_answers: IntCounter,
    reloads: [IntCounter; 2],
    waiting: IntGauge,
    pub hand_over: HandOver,
    connections: IntGauge,
}

impl Metrics {
    /// Errors: a name that Prometheus does not take, which is a mistake of ours.
    pub fn new() -> prometheus::Result<Metrics> {
        let registry = Registry::new();
        let (requests, fetches) = (Requests::new(&registry)?, Fetches::new(&registry)?);
        let (neighbours, tunnels) = (Neighbours::new(&registry)?, Tunnels::new(&registry)?);
        let (diverted, encoded) = (Diverted::new(&registry)?, Encoded::new(&registry)?);
        let failed = "TLS handshakes with clients that failed.";
        let failed = register(&registry, IntCounter::new("tinaja_tls_failed_handshakes_total", failed)?)?;
        let reloads = Opts::new("tinaja_reloads_total", "Times that settings were read again, by what came of it.");
        let reloads = register(&registry, IntCounterVec::new(reloads, &["result"])?)?;
        let reload = |result| reloads.get_metric_with_label_values(&[result]);
        let reloads = [reload("refused")?, reload("done")?];
        let hand_over = HandOver::new(&registry)?;
        let waiting = "Requests that wait for another client's fetch of the same object.";
        let waiting = register(&registry, IntGauge::new("tinaja_waiting_requests", waiting)?)?;
        let connections = "Connections from clients that are open.";
        let connections = register(&registry, IntGauge::new("tinaja_connections", connections)?)?;
        let handshakes_failed = failed;
        let untold = "Connections that were closed without the PROXY protocol header that they must begin with.";
        let untold = register(&registry, IntCounter::new("tinaja_proxy_protocol_failures_total", untold)?)?;
        let broken = "Requests whose answers broke off after their head was sent, by no doing of their clients.";
        let broken_answers = register(&registry, IntCounter::new("tinaja_broken_requests_total", broken)?)?;
        Ok(Metrics {
            registry,
            requests,
            fetches,
            neighbours,
            tunnels,
            diverted,
            encoded,
            handshakes_failed,
            untold,
            broken_answers,
            reloads,
            hand_over,
            waiting,
            connections,
        })
    }

    /// Counts a request that has ended. `bytes` of its answer's body were sent, and it took so long.
    pub fn count(&self, result: &CacheResult, source: Source, status: u16, bytes: u64, took: Duration) {
        self.requests.count(result, source, status, bytes, took);
    }

    /// A request waits for another one's answer, until what is returned is dropped.
    pub fn wait(&self) -> Waiting {
        Waiting::new(&self.waiting)
    }

    /// Counts a reload.
    pub fn reloaded(&self, done: bool) {
        let [refused, well] = &self.reloads;
        if done { well.inc() } else { refused.inc() }
    }

    /// All figures in Prometheus's text format, with those of the store, and those `kept` by others.
    ///
    /// Errors: a figure that cannot be written, which is a mistake of ours.
    pub fn text(&self, stats: &Stats, connections: usize, kept: Vec<MetricFamily>) -> prometheus::Result<Vec<u8>> {
        self.connections.set(i64::try_from(connections).unwrap_or(i64::MAX));
        let mut families: Vec<MetricFamily> = self.registry.gather();
        families.extend(store::families(stats));
        families.extend(process::families());
        families.push(panics::family());
        families.extend(kept);
        // Some stand in several places here, and a scrape has each name once and in one order.
        families.sort_by(|one, other| one.name().cmp(other.name()));
        let mut text = Vec::new();
        TextEncoder::new().encode(&families, &mut text)?;
        Ok(text)
    }
}

fn register<C: Collector + Clone + 'static>(registry: &Registry, collector: C) -> prometheus::Result<C> {
    registry.register(Box::new(collector.clone()))?;
    Ok(collector)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tinaja_store::{EngineFigures, Figure, FigureKind, Times};

    use super::*;
    use crate::failure::Failure;

    #[test]
    fn every_figure_has_a_help_and_a_unit() {
        let metrics = Metrics::new().unwrap();
        metrics.count(&CacheResult::Hit, Source::Memory, 200, 5, Duration::ZERO);
        metrics.count(&CacheResult::None, Source::Proxy, 0, 0, Duration::ZERO);
        metrics.count(&CacheResult::Other("x".into()), Source::Origin, 999, 0, Duration::ZERO);
        metrics.reloaded(true);
        let timeout = Failure::OriginTimeout;
        metrics.fetches.count(Err(&timeout), Duration::from_millis(3));
        metrics.fetches.count(Ok(304), Duration::from_secs(100));
        let waits = (metrics.wait(), metrics.wait(), metrics.fetches.wait());
        let mut read_times = Times { total_us: 1_500_000, ..Times::default() };
        (read_times.counts[3], read_times.counts[13]) = (2, 1);
        static SOWN: Figure = Figure { name: "sown", help: "What was sown.", kind: FigureKind::Counter };
        static WIDTH: Figure = Figure { name: "width", help: "How wide it is.", kind: FigureKind::Cut };
        let of_engine = EngineFigures::default().with(&SOWN, 4).with(&WIDTH, 9);
        let stats = Stats { reads: 7, index_bytes: 47, slots: 8, read_times, of_engine, ..Stats::default() };
        let text =
            String::from_utf8(metrics.text(&stats, 3, vec![gauge("tinaja_a_lines", "Lines.", 2.0)]).unwrap()).unwrap();
        for line in [
            "tinaja_requests_total{result=\"hit\",status=\"2xx\"} 1",
            "tinaja_requests_total{result=\"none\",status=\"none\"} 1",
            "tinaja_requests_total{result=\"other\",status=\"none\"} 1",
            "tinaja_sent_bytes_total{source=\"memory\"} 5",
            "tinaja_request_duration_seconds_count{source=\"origin\"} 1",
            "tinaja_fetches_total{status=\"none\"} 1",
            "tinaja_fetches_total{status=\"3xx\"} 1",
            "tinaja_fetch_failures_total{reason=\"timeout\"} 1",
            "tinaja_fetch_duration_seconds_bucket{le=\"0.005\"} 1",
            "tinaja_waiting_fetches 1",
            "tinaja_waiting_requests 2",
            "tinaja_a_lines 2",
            "tinaja_store_index_slot_bits 47",
            "tinaja_store_read_duration_seconds_bucket{le=\"0.00025\"} 0",
            "tinaja_store_read_duration_seconds_bucket{le=\"0.0005\"} 2",
            "tinaja_store_read_duration_seconds_bucket{le=\"+Inf\"} 3",
            "tinaja_store_read_duration_seconds_sum 1.5",
            "tinaja_reloads_total{result=\"done\"} 1",
            "tinaja_connections 3",
            "tinaja_store_reads_total 7",
            "tinaja_engine_sown_total 4",
            "tinaja_engine_width 9",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
        let names = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        for (name, kind) in names {
            assert!(text.contains(&format!("# HELP {name} ")), "{name}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name} {kind}");
            assert!(name.starts_with("tinaja_"), "{name}");
        }
        drop(waits);
        assert_eq!((metrics.waiting.get(), text.lines().count() < 600), (0, true));
    }
}
