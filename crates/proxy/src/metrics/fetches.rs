//! What origins were asked, whichever they are: how often, with what answer, how long their heads took, how much came.

use std::time::Duration;

use prometheus::{Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, Registry};

use super::register;
use super::requests::{CLASSES, SECONDS};
use crate::failure::Failure;

/// Why an origin gave no answer, in the order of [`reason`].
const REASONS: [&str; 6] = ["resolve", "connect", "tls", "timeout", "broken", "other"];

/// The counters.
#[derive(Debug)]
pub(crate) struct Fetches {
    /// By class of the answer's status; the first where none came.
    answered: Vec<IntCounter>,
    failed: Vec<IntCounter>,
    seconds: Histogram,
    waiting: IntGauge,
    /// Bytes of bodies that came.
    pub received: IntCounter,
    beginnings: IntCounter,
    beginning_bytes: IntCounter,
    /// By which git fetched from a server that makes a pack for each client: nothing of that can be kept.
    pub of_git: IntCounter,
    /// Of mirrors, whose bytes were not those that their names or an index said.
    pub wrong: IntCounter,
}

/// Something that waits, counted until this is dropped.
pub(crate) struct Waiting(IntGauge);

impl Waiting {
    pub(super) fn new(gauge: &IntGauge) -> Waiting {
        gauge.inc();
        Waiting(gauge.clone())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Fetches {
    pub fn new(registry: &Registry) -> prometheus::Result<Fetches> {
        let answered =
            "Requests to origins that have ended, by the class of the answer's status; none where none came.";
        let answered = IntCounterVec::new(Opts::new("tinaja_fetches_total", answered), &["status"])?;
        let answered = register(registry, answered)?;
        let failed = "Requests to origins that brought no answer, by why.";
        let failed = IntCounterVec::new(Opts::new("tinaja_fetch_failures_total", failed), &["reason"])?;
        let failed = register(registry, failed)?;
        let seconds = "Time from a request to an origin to its answer's head, names and connections included.";
        let seconds = HistogramOpts::new("tinaja_fetch_duration_seconds", seconds).buckets(SECONDS.to_vec());
        let seconds = register(registry, Histogram::with_opts(seconds)?)?;
        let waiting = "Requests to origins whose answer's head has not come.";
        let waiting = register(registry, IntGauge::new("tinaja_waiting_fetches", waiting)?)?;
        let received = "Bytes of bodies that came from origins.";
        let received = register(registry, IntCounter::new("tinaja_fetched_bytes_total", received)?)?;
        let beginnings = "Fetches that ended early, and of which what had come was kept.";
        let beginnings = register(registry, IntCounter::new("tinaja_kept_fetches_total", beginnings)?)?;
        let kept = "Bytes of them that were kept.";
        let beginning_bytes = register(registry, IntCounter::new("tinaja_kept_fetch_bytes_total", kept)?)?;
        let of_git =
            "POSTs by which git fetched packs that servers make for each client: they pass, and are never kept.";
        let of_git = register(registry, IntCounter::new("tinaja_git_fetches_total", of_git)?)?;
        let wrong = "Files of mirrors that had another digest than their names or an index said: none was stored, or was left in the store.";
        let wrong = register(registry, IntCounter::new("tinaja_mirror_wrong_files_total", wrong)?)?;
        let each = |vec: &IntCounterVec, names: &[&str]| -> prometheus::Result<Vec<IntCounter>> {
            names.iter().map(|name| vec.get_metric_with_label_values(&[name])).collect()
        };
        let (answered, failed) = (each(&answered, &CLASSES)?, each(&failed, &REASONS)?);
        Ok(Fetches { answered, failed, seconds, waiting, received, beginnings, beginning_bytes, of_git, wrong })
    }

    /// One is sent.
    pub fn wait(&self) -> Waiting {
        Waiting::new(&self.waiting)
    }

    /// One ended early, and so many bytes are kept of what it was to bring.
    pub fn keep(&self, bytes: u64) {
        self.beginnings.inc();
        self.beginning_bytes.inc_by(bytes);
    }

    /// One has its answer's head, or none, after so long.
    pub fn count(&self, status: Result<u16, &Failure>, took: Duration) {
        let class = status.map_or(0, |status| usize::from(status / 100));
        if let Some(counter) = self.answered.get(class).or(self.answered.first()) {
            counter.inc();
        }
        self.seconds.observe(took.as_secs_f64());
        if let Err(failure) = status
            && let Some(counter) = self.failed.get(reason(failure))
        {
            counter.inc();
        }
    }
}

fn reason(failure: &Failure) -> usize {
    match failure {
        Failure::Resolve { .. } | Failure::ResolveTimeout { .. } => 0,
        Failure::Connect { .. } | Failure::ConnectTimeout { .. } => 1,
        Failure::Tls { .. } => 2,
        Failure::OriginTimeout => 3,
        Failure::Origin(_) => 4,
        // Rules that forbid the address, a client that left amid its request.
        _ => 5,
    }
}
