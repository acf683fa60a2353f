//! What is counted of handing over from process to process.

use std::time::Duration;

use prometheus::{Gauge, IntCounter, IntCounterVec, Opts, Registry};

use super::register;

/// The counters. Each process begins anew: what it took over is its own, what it handed over ended with it.
#[derive(Debug)]
pub(crate) struct HandOver {
    /// Requests that passed by since the cache was another process's.
    pub passed: IntCounter,
    seconds: Gauge,
    /// This process took over from another one.
    pub taken: IntCounter,
    /// Another one was to take over from this one, and ended before anything had changed.
    pub refused: IntCounter,
    /// The same, after this one had left the cache, which it took back.
    pub taken_back: IntCounter,
}

impl HandOver {
    pub fn new(registry: &Registry) -> prometheus::Result<HandOver> {
        let passed = "Requests that passed by the cache since it was still another process's.";
        let passed = register(registry, IntCounter::new("tinaja_hand_over_passed_requests_total", passed)?)?;
        let seconds = "How long this process served before it had the cache of the one before it.";
        let seconds = register(registry, Gauge::new("tinaja_hand_over_without_cache_seconds", seconds)?)?;
        let all = Opts::new("tinaja_hand_overs_total", "Times that one process was to take over from another.");
        let all = register(registry, IntCounterVec::new(all, &["result"])?)?;
        let of = |result| all.get_metric_with_label_values(&[result]);
        Ok(HandOver { passed, seconds, taken: of("taken")?, refused: of("refused")?, taken_back: of("taken_back")? })
    }

    /// This process has taken over, and was without the cache for so long.
    pub fn took(&self, without: Duration) {
        self.taken.inc();
        self.seconds.set(without.as_secs_f64());
    }
}
