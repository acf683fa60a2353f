//! A load that turns over each day: what is new today is asked for most, what is old less and less, some of it for ever; and by
//! night somebody reads all there is, once.
//!
//! A day brings new objects, of which some are far more popular than others. A request is for one of the lasting objects, for one
//! of a day, the nearer the likelier, or for something that nobody asks for again. Every few nights a scan passes.

use std::time::Duration;

use super::Request;
use crate::random::{Random, Zipf, mix};

/// What a load is like. [`DaysOptions::new`] gives a middling one.
#[derive(Clone, Copy, Debug)]
pub struct DaysOptions {
    /// Requests of a day.
    pub requests: u64,
    /// Objects that are new each day.
    pub new: usize,
    /// Objects that last.
    pub lasting: usize,
    /// The share of the requests for what lasts, and of those for what nobody asks for again; the others are for what days brought.
    pub shares: (f64, f64),
    /// A scan comes each so many days, and has so many objects.
    pub scans: (u64, u64),
}

impl DaysOptions {
    /// 30,000 requests a day, 2000 new objects, 5000 that last; a scan of 6000 every third night.
    pub fn new() -> DaysOptions {
        DaysOptions { requests: 30_000, new: 2000, lasting: 5000, shares: (0.35, 0.15), scans: (3, 6000) }
    }
}

impl Default for DaysOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// The requests, without end. Memory: 8 bytes for each object that lasts or is new in a day.
pub struct Days {
    options: DaysOptions,
    lasting: Zipf,
    new: Zipf,
    back: Zipf,
    random: Random,
    seed: u64,
    sent: u64,
}

/// What days brought is asked for up to so many days later: `n` days later `1 / n^1.3` as often.
const DAYS_BACK: usize = 60;
/// The second half of the night, by parts of a day.
const SCANNED_FROM: f64 = 0.85;
/// The kinds of names that are mixed into numbers of objects.
const LASTING: u64 = 1 << 60;
const NEW: u64 = 2 << 60;
const ONCE: u64 = 3 << 60;
const SCANNED: u64 = 4 << 60;

impl Days {
    /// Requests that begin from a seed.
    pub fn new(options: DaysOptions, seed: u64) -> Days {
        let (lasting, new) = (Zipf::with(options.lasting, 0.9), Zipf::with(options.new, 0.9));
        Days { options, lasting, new, back: Zipf::with(DAYS_BACK, 1.3), random: Random::new(seed), seed, sent: 0 }
    }

    fn object(&mut self) -> u64 {
        let (length, number) = (self.options.requests.max(1), self.sent);
        let (day, part) = (number / length, (number % length) as f64 / length as f64);
        let (every, objects) = self.options.scans;
        if every > 0 && day % every == every - 1 && part >= SCANNED_FROM && self.random.chance(0.7) {
            // Each scan passes the same objects in the same order, as far as it comes.
            let passed = ((part - SCANNED_FROM) / (1.0 - SCANNED_FROM) * objects as f64) as u64;
            return SCANNED | passed;
        }
        let (lasting, once) = self.options.shares;
        let which = self.random.unit();
        if which < lasting {
            LASTING | self.lasting.rank(&mut self.random) as u64
        } else if which < lasting + once {
            ONCE | number
        } else {
            let born = day.saturating_sub(self.back.rank(&mut self.random) as u64 - 1);
            NEW | born << 30 | self.new.rank(&mut self.random) as u64
        }
    }
}

impl Iterator for Days {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let object = mix(self.object() ^ self.seed);
        let of_object = &mut Random::new(object);
        // Most is text and small images; a tenth is larger, some of it far.
        let bytes = match of_object.unit() {
            0.0..0.9 => of_object.log_normal(9000.0, 16_000.0),
            0.9..0.99 => of_object.log_normal(60_000.0, 60_000.0),
            _ => of_object.log_normal(700_000.0, 900_000.0),
        };
        let bytes = bytes.clamp(100.0, 8e6) as u64;
        let time = Duration::from_secs_f64(self.sent as f64 * 86_400.0 / self.options.requests.max(1) as f64);
        self.sent += 1;
        let client = self.random.below(200);
        let (referer, host) = (None, object % 97);
        Some(Request { time, object, bytes, sent_bytes: bytes, client, referer, host, stream: 0, cachable: true })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn a_day_has_its_own_objects_and_a_scan_asks_for_each_once() {
        let requests: Vec<_> = Days::new(DaysOptions::new(), 7).take(180_000).collect();
        assert_eq!(requests, Days::new(DaysOptions::new(), 7).take(180_000).collect::<Vec<_>>());
        let days: Vec<_> = requests.chunks(30_000).collect();
        let counts = |day: &[Request]| {
            let mut counts = HashMap::new();
            day.iter().for_each(|request| *counts.entry(request.object).or_insert(0_u64) += 1);
            counts
        };
        let (first, last) = (counts(days[0]), counts(days[5]));
        let common: u64 = last.iter().filter(|(object, _)| first.contains_key(object)).map(|(_, count)| count).sum();
        assert!((6_000..18_000).contains(&common), "{common} of 30,000 are for what the first day had");
        let night = counts(&days[2][(30_000.0 * SCANNED_FROM) as usize..]);
        assert!(night.len() > 2000, "{} objects in the night of a scan", night.len());
    }
}
