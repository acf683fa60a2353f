//! One origin of a route while the proxy runs: how it is, and what became of the requests that were sent there.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use tinaja_clock::Clock;

use super::checks::Turn;
use super::health::{Entry, Health, Rules};
use super::{Behind, Destination, OriginUrl};
use crate::failure::Failure;

/// One origin. Memory: some 500 bytes.
#[derive(Debug)]
pub(crate) struct Backend {
    /// The name of its route.
    pub route: String,
    pub url: OriginUrl,
    pub destination: Destination,
    health: Mutex<Health>,
    /// What it said last that was no answer.
    last: Mutex<Option<Failure>>,
    /// When it is checked next.
    pub(super) turn: Mutex<Turn>,
    pub counts: Arc<Counts>,
    clock: Clock,
}

/// What is counted of one origin.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Requests sent there, by [`Outcome`].
    pub attempts: [AtomicU64; Outcome::ALL.len()],
    /// Requests that were sent to another origin after this one had failed them.
    pub retries: AtomicU64,
    /// Checks that failed, and that it passed.
    pub checks: [AtomicU64; 2],
    /// Connections that are open, those that wait for a request among them, and those alone.
    pub open: AtomicI64,
    pub idle: AtomicI64,
}

/// What became of a request that was sent to an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The head of an answer came.
    Answered,
    /// There was no connection: no address, refused, no route.
    Unreachable,
    /// Its certificate, or its TLS, was not accepted.
    Tls,
    /// It did not accept a connection, or answer, in time.
    Timeout,
    /// It closed the connection, or what it said was no answer.
    Broken,
    /// The client left, or a rule refused it: nothing that says anything of the origin.
    Abandoned,
}

impl Outcome {
    pub const ALL: [Outcome; 6] = {
        use Outcome::*;
        [Answered, Unreachable, Tls, Timeout, Broken, Abandoned]
    };

    pub fn name(self) -> &'static str {
        match self {
            Outcome::Answered => "answered",
            Outcome::Unreachable => "unreachable",
            Outcome::Tls => "tls",
            Outcome::Timeout => "timeout",
            Outcome::Broken => "broken",
            Outcome::Abandoned => "abandoned",
        }
    }

    fn of(failure: &Failure) -> Outcome {
        match failure {
            Failure::Resolve { .. } | Failure::Connect { .. } => Outcome::Unreachable,
            Failure::Tls { .. } => Outcome::Tls,
            Failure::ResolveTimeout { .. } | Failure::ConnectTimeout { .. } | Failure::OriginTimeout => {
                Outcome::Timeout
            }
            Failure::Origin(_) => Outcome::Broken,
            _ => Outcome::Abandoned,
        }
    }
}

impl Backend {
    pub fn new(behind: &Behind, url: &OriginUrl, clock: &Clock) -> Backend {
        Backend {
            route: behind.route.clone(),
            url: url.clone(),
            destination: url.destination(),
            health: Mutex::default(),
            last: Mutex::default(),
            turn: Mutex::default(),
            counts: Arc::default(),
            clock: clock.clone(),
        }
    }

    pub fn is_up(&self) -> bool {
        self.health.lock().is_up()
    }

    /// What it failed with last, if it has not answered since.
    pub fn last_failure(&self) -> Option<Failure> {
        self.last.lock().clone()
    }

    /// Begins to send a request there, if it may go there now.
    pub(super) fn enter(self: &Arc<Self>, now: Instant, rules: Rules, may_try: bool) -> Option<Attempt> {
        let entry = self.health.lock().enter(now, rules, may_try)?;
        Some(Attempt { backend: self.clone(), rules, trial: entry == Entry::Trial, reported: false })
    }

    /// Notes that it passed a check, or why not.
    pub(super) fn checked(&self, result: Result<(), Failure>, rules: Rules) {
        let [failed, passed] = &self.counts.checks;
        match result {
            Ok(()) => {
                passed.fetch_add(1, Ordering::Relaxed);
                if self.health.lock().passed(rules) {
                    self.is_back();
                }
            }
            Err(failure) => {
                failed.fetch_add(1, Ordering::Relaxed);
                self.note_failure(&failure, |health, now| health.failed_check(now, rules));
            }
        }
    }

    fn note_failure(&self, failure: &Failure, note: impl FnOnce(&mut Health, Instant) -> bool) {
        *self.last.lock() = Some(failure.clone());
        if note(&mut self.health.lock(), self.clock.now()) {
            tracing::warn!(route = self.route, origin = %self.url, "origin is down: {failure}");
        }
    }

    fn is_back(&self) {
        *self.last.lock() = None;
        tracing::info!(route = self.route, origin = %self.url, "origin is up again");
    }
}

/// A request on its way to one origin. Dropped without a report, it says nothing of the origin.
pub(crate) struct Attempt {
    pub backend: Arc<Backend>,
    rules: Rules,
    trial: bool,
    reported: bool,
}

impl Attempt {
    /// An answer's head has come.
    pub fn succeeded(mut self) {
        self.count(Outcome::Answered);
        if self.backend.health.lock().succeeded(self.rules) {
            self.backend.is_back();
        }
    }

    /// There is no answer.
    pub fn failed(mut self, failure: &Failure) {
        let outcome = Outcome::of(failure);
        if outcome == Outcome::Abandoned {
            return;
        }
        self.count(outcome);
        tracing::debug!(route = self.backend.route, origin = %self.backend.url, "no answer from the origin: {failure}");
        let rules = self.rules;
        self.backend.note_failure(failure, |health, now| health.failed(now, rules));
    }

    fn count(&mut self, outcome: Outcome) {
        self.reported = true;
        if let Some(counter) = self.backend.counts.attempts.get(outcome as usize) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.reported {
            self.count(Outcome::Abandoned);
            if self.trial {
                self.backend.health.lock().leave();
            }
        }
    }
}
