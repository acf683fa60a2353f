//! The driver: requests are put to a rig one by one, and what they cost is counted by what they were.

use std::time::Duration;

use super::{Endings, Grouping, Request};
use crate::error::LabError;
use crate::rig::{Reading, Rig};
use crate::times::Times;

/// How requests are put to a rig.
#[derive(Clone, Copy, Debug)]
pub struct Drive {
    /// So many requests come first and are not counted.
    pub warm_up: usize,
    /// The model by whose clock requests come at their times and wait for the disk. `None`: each comes as soon as the one
    /// before it is done.
    pub clock: Option<usize>,
    /// How long the origin takes to give an object.
    pub origin: Duration,
}

impl Default for Drive {
    fn default() -> Self {
        // PolyMix-4's origins take 2.5 s (HashCache, section 5.1).
        Drive { warm_up: 0, clock: None, origin: Duration::from_millis(2500) }
    }
}

/// What was counted.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Requests.
    pub requests: u64,
    /// Bytes sent to clients.
    pub bytes: u64,
    /// Requests answered by the store.
    pub hits: u64,
    /// Bytes of these.
    pub hit_bytes: u64,
    /// Misses of what may be stored.
    pub cachable_misses: u64,
    /// Objects stored.
    pub stored: u64,
    /// Reads of the disks on account of hits, and of misses. All others are for what is stored.
    pub hit_reads: u64,
    /// See [`Outcome::hit_reads`].
    pub miss_reads: u64,
    /// Times of all hits added up, by the clock of the driver.
    pub hit_time: Duration,
    /// The same, one by one.
    pub hit_times: Times,
    /// Times of all misses added up.
    pub miss_time: Duration,
    /// From the first request's time to the last one's.
    pub span: Duration,
    /// All that the disks did, and how long they were busy.
    pub spent: Reading,
}

fn share(of: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { of as f64 / all as f64 }
}

impl Outcome {
    /// Requests that the store did not answer.
    pub fn misses(&self) -> u64 {
        self.requests - self.hits
    }

    /// The paper's `chr`: the share of requests that hit.
    pub fn hit_ratio(&self) -> f64 {
        share(self.hits, self.requests)
    }

    /// The share of bytes that hit.
    pub fn byte_hit_ratio(&self) -> f64 {
        share(self.hit_bytes, self.bytes)
    }

    /// The paper's `cbr`: the share of misses that may be stored.
    pub fn cachable_ratio(&self) -> f64 {
        share(self.cachable_misses, self.misses())
    }

    /// Reads of the disk that a hit costs.
    pub fn reads_a_hit(&self) -> f64 {
        share(self.hit_reads, self.hits)
    }

    /// Reads that a miss costs.
    pub fn reads_a_miss(&self) -> f64 {
        share(self.miss_reads, self.misses())
    }

    /// Reads that an object stored costs: all that were for no hit and no miss, such as an index on the disk that is kept in
    /// step, whenever that happens.
    pub fn reads_a_store(&self) -> f64 {
        share(self.spent.reads.requests.saturating_sub(self.hit_reads + self.miss_reads), self.stored)
    }

    /// Writes that an object stored costs.
    pub fn writes_a_store(&self) -> f64 {
        share(self.spent.writes.requests, self.stored)
    }

    /// Requests a second that keep the disks always busy, by the model of this number.
    pub fn peak_rate(&self, model: usize) -> f64 {
        self.requests as f64 / self.spent.busy(model).as_secs_f64()
    }
}

/// Put requests to a rig: `warm_up` first, then all others, which are counted. Errors: those of [`Rig::get`].
pub fn drive(rig: &Rig, requests: impl Iterator<Item = Request>, how: &Drive) -> Result<Outcome, LabError> {
    let mut requests = requests.peekable();
    let mut driver =
        Driver { rig, how, grouping: Grouping::default(), endings: Endings::default(), outcome: Outcome::default() };
    for _ in 0..how.warm_up {
        if let Some(request) = requests.next() {
            driver.one(&request, None)?;
        }
    }
    driver.outcome = Outcome::default();
    let before = rig.read();
    let first = requests.peek().map(|request| request.time).unwrap_or_default();
    // By this clock the first of the counted requests comes.
    let starts = how.clock.map(|clock| rig.clocks(clock).max().unwrap_or_default());
    for request in requests {
        let span = request.time.saturating_sub(first);
        driver.one(&request, how.clock.zip(starts.map(|starts| starts + span)))?;
        driver.outcome.span = span;
    }
    let mut outcome = driver.outcome;
    outcome.spent = rig.read().since(&before);
    Ok(outcome)
}

struct Driver<'a> {
    rig: &'a Rig,
    how: &'a Drive,
    grouping: Grouping,
    endings: Endings,
    outcome: Outcome,
}

impl Driver<'_> {
    /// One request, which comes at a time by the clock of a model.
    fn one(&mut self, request: &Request, clock: Option<(usize, Duration)>) -> Result<(), LabError> {
        let (rig, outcome) = (self.rig, &mut self.outcome);
        let group = self.grouping.group(request);
        while let Some(over) = self.endings.next(request.time) {
            rig.end_group(over);
        }
        let waits = clock.map(|(clock, comes)| {
            rig.idle_until(clock, comes);
            (clock, comes, rig.clocks(clock).collect::<Vec<_>>())
        });
        let before = rig.requests();
        let hit = rig.get_part(request.object, request.sent_bytes)?;
        let reads = rig.requests().since(before).reads;
        // It is answered when the last of its reads is done; without any it is answered at once, whatever is written meanwhile.
        let waited = waits.filter(|_| reads > 0).map_or(Duration::ZERO, |(clock, comes, before)| {
            let moved = rig.clocks(clock).zip(before).filter(|(now, before)| now > before);
            moved.map(|(now, _)| now.saturating_sub(comes)).max().unwrap_or_default()
        });
        outcome.requests += 1;
        outcome.bytes += request.sent_bytes;
        if hit.is_some() {
            outcome.hits += 1;
            outcome.hit_bytes += request.sent_bytes;
            outcome.hit_reads += reads;
            outcome.hit_time += waited;
            outcome.hit_times.add(waited);
            return Ok(());
        }
        outcome.miss_reads += reads;
        outcome.miss_time += waited + self.how.origin;
        if request.cachable {
            outcome.cachable_misses += 1;
            if rig.put(request.object, request.bytes, Some(group)) {
                outcome.stored += 1;
                self.endings.stored(group, request.time);
            }
        }
        Ok(())
    }
}
