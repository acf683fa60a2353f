//! A sequence put to a policy, and what came of it.

use super::{Asked, Policy, Sequence};

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Requests, and those that found their object.
    pub requests: u64,
    /// See [`Outcome::requests`].
    pub hits: u64,
    /// Bytes of the objects asked for, and of those that were found.
    pub bytes: u64,
    /// See [`Outcome::bytes`].
    pub hit_bytes: u64,
    /// Bytes sent to clients, and those of objects that were found: less where clients wanted a part, or had it already.
    pub sent_bytes: u64,
    /// See [`Outcome::sent_bytes`].
    pub hit_sent_bytes: u64,
    /// Bytes written for each byte of a stored record, if the policy knows of a disk.
    pub written: Option<f64>,
    /// Hits of each part of the sequence, as shares of its requests.
    pub over_time: Vec<f64>,
}

/// How a sequence is replayed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Replay {
    /// So many requests come first and are not counted.
    pub warm_up: usize,
    /// The rest is told in so many parts, if any.
    pub parts: usize,
}

impl Outcome {
    /// The share of requests that found their object.
    pub fn hit_ratio(&self) -> f64 {
        self.hits as f64 / self.requests.max(1) as f64
    }

    /// The share of the objects' bytes that were found.
    pub fn byte_hit_ratio(&self) -> f64 {
        self.hit_bytes as f64 / self.bytes.max(1) as f64
    }

    /// The share of bytes sent that were found.
    pub fn sent_hit_ratio(&self) -> f64 {
        self.hit_sent_bytes as f64 / self.sent_bytes.max(1) as f64
    }
}

/// Put a sequence to a policy.
pub fn replay(sequence: &Sequence, policy: &mut dyn Policy, how: Replay) -> Outcome {
    let mut outcome = Outcome::default();
    let mut one = |asked: &Asked| asked.cachable && policy.ask(asked);
    let (before, counted) = sequence.asked.split_at(how.warm_up.min(sequence.asked.len()));
    before.iter().for_each(|asked| {
        one(asked);
    });
    let part = counted.len().div_ceil(how.parts.max(1)).max(1);
    for asked in counted.chunks(part) {
        let mut hits = 0;
        for asked in asked {
            outcome.bytes += asked.bytes;
            outcome.sent_bytes += asked.sent_bytes;
            if one(asked) {
                hits += 1;
                outcome.hit_bytes += asked.bytes;
                outcome.hit_sent_bytes += asked.sent_bytes;
            }
        }
        outcome.hits += hits;
        outcome.requests += asked.len() as u64;
        outcome.over_time.push(hits as f64 / asked.len() as f64);
    }
    outcome.written = policy.written().map(|(written, stored)| written as f64 / stored.max(1) as f64);
    outcome
}
