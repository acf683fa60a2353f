//! What an object of a log at an age is worth: hits for the time that it will take up its place.
//!
//! Each log has, for each bucket of ages, the hits that came and the exposure, objects times laps, during which they came. Both
//! decay, so that what is long past is forgotten. From the rates follows the worth at an age: the best mean rate over any span up to
//! a twentieth of a lap that begins there. Longer spans would promise the young what only the hottest live to see: of a log that
//! nothing leaves, the oldest segments hold what was asked for first because it is asked for most.
//!
//! Every hit counts the same. Whoever counts later hits of an object less, since it will be written again anyway, finds a little
//! less: tokens do not reach for all.
//!
//! Where little is known, a rate leans on that of all classes in the same generation, that on all generations, and that on the
//! rate of the bucket before: an object that was left alone for twice as long is asked for half as soon.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::ages::{BUCKETS, begins, between, length};
use super::shape::{Log, Shape};

/// A rate leans on a more general one as if that had been seen for as long as so many hits take.
const LEANS_HITS: f64 = 1.0;
/// Spans over which a rate is the mean end once they are so long, in laps.
const SPAN: f64 = 0.05;
/// Before anything is known: hits of an object in its first lap.
const FIRST_GUESS: f64 = 0.3;

/// What was seen of one log, or of several, by age.
#[derive(Clone, Copy, Debug)]
struct Seen {
    hits: [f64; BUCKETS],
    laps: [f64; BUCKETS],
}

impl Seen {
    const NOTHING: Seen = Seen { hits: [0.0; BUCKETS], laps: [0.0; BUCKETS] };

    fn add(&mut self, other: &Seen) {
        let add = |into: &mut [f64; BUCKETS], from: &[f64; BUCKETS]| {
            into.iter_mut().zip(from).for_each(|(into, from)| *into += from);
        };
        add(&mut self.hits, &other.hits);
        add(&mut self.laps, &other.laps);
    }

    fn is_nothing(&self) -> bool {
        self.hits.iter().chain(&self.laps).all(|value| *value == 0.0)
    }

    fn decay(&mut self, to: f64) {
        self.hits.iter_mut().chain(&mut self.laps).for_each(|value| *value *= to);
    }

    /// Rates by age that lean on others.
    fn rates(&self, lean_on: &[f64; BUCKETS]) -> [f64; BUCKETS] {
        let mut rates = *lean_on;
        for ((rate, hits), laps) in rates.iter_mut().zip(&self.hits).zip(&self.laps) {
            *rate = lean(*hits, *laps, *rate);
        }
        rates
    }
}

fn lean(hits: f64, laps: f64, on: f64) -> f64 {
    (hits + LEANS_HITS) / (laps + LEANS_HITS / on.max(1e-9))
}

/// See the module. Memory: 1.5 KiB a log.
pub(super) struct Learned {
    shape: Shape,
    seen: Vec<Seen>,
}

/// Hits that came since the last time that something was learned, by log and bucket.
pub(super) struct Hits(Box<[AtomicU64]>);

/// What an object is worth, by log and bucket: hits a lap.
pub(super) struct Worth(Box<[AtomicU64]>);

fn place(log: Log, bucket: usize) -> usize {
    usize::from(log.0) * BUCKETS + bucket
}

fn zeroes(logs: usize) -> Box<[AtomicU64]> {
    (0..logs * BUCKETS).map(|_| AtomicU64::new(0)).collect()
}

impl Hits {
    pub fn new(logs: usize) -> Hits {
        Hits(zeroes(logs))
    }

    pub fn add(&self, log: Log, bucket: usize) {
        if let Some(hits) = self.0.get(place(log, bucket)) {
            hits.fetch_add(1, Relaxed);
        }
    }

    fn take(&self, log: usize, bucket: usize) -> f64 {
        self.0.get(log * BUCKETS + bucket).map_or(0.0, |hits| hits.swap(0, Relaxed) as f64)
    }
}

impl Worth {
    pub fn new(logs: usize) -> Worth {
        Worth(zeroes(logs))
    }

    pub fn at(&self, log: Log, bucket: usize) -> f64 {
        self.0.get(place(log, bucket)).map_or(0.0, |worth| f64::from_bits(worth.load(Relaxed)))
    }

    fn set(&self, log: usize, worths: &[f64; BUCKETS]) {
        let places = self.0.iter().skip(log * BUCKETS);
        places.zip(worths).for_each(|(place, worth)| place.store(worth.to_bits(), Relaxed));
    }
}

impl Learned {
    pub fn new(shape: Shape) -> Learned {
        Learned { shape, seen: vec![Seen::NOTHING; shape.logs()] }
    }

    /// Objects of a log went from one age to another, in laps.
    pub fn exposed(&mut self, log: Log, objects: f64, from: f64, to: f64) {
        let Some(seen) = self.seen.get_mut(usize::from(log.0)) else { return };
        for (bucket, laps) in between(from, to) {
            if let Some(sum) = seen.laps.get_mut(bucket) {
                *sum += objects * laps;
            }
        }
    }

    /// All that was seen, for each log hits by age and then exposure by age: what [`Learned::recall`] takes.
    pub fn seen(&self) -> impl Iterator<Item = f64> + '_ {
        self.seen.iter().flat_map(|seen| seen.hits.iter().chain(&seen.laps)).copied()
    }

    /// Go on from what was seen before.
    pub fn recall(&mut self, mut seen: impl Iterator<Item = f64>) {
        let all = self.seen.iter_mut().flat_map(|seen| seen.hits.iter_mut().chain(&mut seen.laps));
        all.zip(&mut seen).for_each(|(value, before)| *value = before);
    }

    /// Take in the hits that came, and forget some of what was before.
    pub fn take_in(&mut self, hits: &Hits, decay: f64) {
        for (log, seen) in self.seen.iter_mut().enumerate() {
            seen.decay(decay);
            for (bucket, sum) in seen.hits.iter_mut().enumerate() {
                *sum += hits.take(log, bucket);
            }
        }
    }

    /// Write down what follows from all that was seen.
    pub fn appraise(&self, worth: &Worth) {
        let (small, generations) = (self.shape.small(), self.shape.generations);
        let (mut all, mut of_generation) = (Seen::NOTHING, [Seen::NOTHING; Shape::MOST_GENERATIONS]);
        for (log, seen) in self.seen.iter().enumerate().filter(|(_, seen)| !seen.is_nothing()) {
            all.add(seen);
            if log < small
                && let Some(sum) = of_generation.get_mut(log % generations)
            {
                sum.add(seen);
            }
        }
        let lengths = std::array::from_fn(length);
        let mut general = [0.0; BUCKETS];
        let (mut before, mut began) = (FIRST_GUESS, 1.0);
        for (bucket, (rate, length)) in general.iter_mut().zip(&lengths).enumerate() {
            let middle = begins(bucket) + length / 2.0;
            let guess = if bucket == 0 { FIRST_GUESS / middle.max(1.0 / 64.0) } else { before * began / middle };
            let (hits, laps) = (all.hits.get(bucket).copied(), all.laps.get(bucket).copied());
            *rate = lean(hits.unwrap_or(0.0), laps.unwrap_or(0.0), guess);
            (before, began) = (*rate, middle);
        }
        // What the logs of each generation lean on, and what is worth whatever nothing is known of; the last of large objects.
        let of_generation = of_generation.iter().take(generations).map(|of_all_classes| of_all_classes.rates(&general));
        let mut lean_on: Vec<_> = of_generation.chain([general]).map(|rates| (rates, None)).collect();
        for (log, seen) in self.seen.iter().enumerate() {
            let group = if log < small { log % generations } else { generations };
            let Some((lean_on, of_nothing)) = lean_on.get_mut(group) else { continue };
            let appraised = || best_rates(&seen.rates(lean_on), &lengths);
            match seen.is_nothing() {
                true => worth.set(log, of_nothing.get_or_insert_with(appraised)),
                false => worth.set(log, &appraised()),
            }
        }
    }
}

/// The best mean rate over any span of up to [`SPAN`] that begins with each bucket, or over that bucket if it is longer; buckets are so
/// long.
fn best_rates(rates: &[f64; BUCKETS], lengths: &[f64; BUCKETS]) -> [f64; BUCKETS] {
    let mut best = [0.0; BUCKETS];
    for (from, best) in best.iter_mut().enumerate() {
        let (mut hits, mut laps) = (0.0, 0.0);
        for (rate, length) in rates.iter().zip(lengths).skip(from) {
            hits += rate * length;
            laps += length;
            if hits / laps > *best {
                *best = hits / laps;
            }
            if laps > SPAN {
                break;
            }
        }
    }
    best
}
