//! The load of section 5.4, as Web Polygraph makes it: each request is for something new, or for anything that was asked for
//! before, all of it as likely.

use std::time::Duration;

use crate::load::Request;
use crate::paper::damelo as paper;
use crate::random::{Random, mix};

/// Origins. A group is chosen by the site that an object comes from, and which site that is is random: so groups are random, as in
/// the thesis. With four times as many sites as groups each group has some.
pub const SITES: u8 = 64;
/// Requests that are always under way; the thesis does not say how many robots its client had.
pub const AT_ONCE: usize = 32;
/// The hit ratio of a cache that keeps all that it may.
pub const MOST_HITS: f64 = paper::CACHEABLE * paper::REVISITED;

/// The requests, without end. An object is a number and a seed, so nothing is remembered.
pub struct Recurring {
    random: Random,
    seed: u64,
    /// Objects so far.
    count: u64,
}

impl Recurring {
    /// Requests that begin from a seed.
    pub fn new(seed: u64) -> Recurring {
        Recurring { random: Random::new(seed), seed, count: 0 }
    }

    fn choose(&mut self) -> u64 {
        if self.count > 0 && self.random.chance(paper::REVISITED) {
            return self.random.below(self.count);
        }
        self.count += 1;
        self.count - 1
    }
}

impl Iterator for Recurring {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let number = self.choose();
        // What an object is like is the same each time.
        let mut own = Random::new(mix(self.seed ^ mix(number)));
        let object = own.bits();
        let bytes = own.exponential(paper::PROXY_OBJECT_BYTES).max(1.0) as u64;
        Some(Request {
            time: Duration::ZERO,
            object,
            bytes,
            sent_bytes: bytes,
            client: self.random.below(AT_ONCE as u64),
            referer: None,
            host: own.below(SITES.into()),
            stream: 0,
            cachable: own.chance(paper::CACHEABLE),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn it_is_section_5_4s() {
        let requests: Vec<_> = Recurring::new(7).take(200_000).collect();
        let (mut seen, mut again, mut hits) = (HashMap::new(), 0_u32, 0_u32);
        for request in &requests {
            let like = (request.bytes, request.host, request.cachable);
            match seen.insert(request.object, like) {
                Some(before) => {
                    assert_eq!(before, like, "an object is the same each time");
                    again += 1;
                    hits += u32::from(request.cachable);
                }
                None => assert!(request.host < SITES.into()),
            }
        }
        let share = |count: u32| f64::from(count) / 200_000.0;
        assert!((share(again) - paper::REVISITED).abs() < 0.01, "{}", share(again));
        assert!((share(hits) - MOST_HITS).abs() < 0.01, "{}", share(hits));
        let objects = seen.len() as f64;
        let mean = seen.values().map(|(bytes, ..)| *bytes as f64).sum::<f64>() / objects;
        assert!((mean / paper::PROXY_OBJECT_BYTES - 1.0).abs() < 0.02, "{mean}");
        let at = |site: u8| seen.values().filter(|(_, host, _)| *host == u64::from(site)).count() as f64;
        assert!((0..SITES).all(|site| (at(site) * f64::from(SITES) / objects - 1.0).abs() < 0.2));
        let same: Vec<_> = Recurring::new(7).take(500).collect();
        assert_eq!(same, requests[..500]);
        assert_ne!(same, Recurring::new(8).take(500).collect::<Vec<_>>());
    }
}
