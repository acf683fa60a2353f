//! A load that changes at once: a new site becomes hot, a scan passes that nobody asks for again, popularity turns round.
//!
//! Unlike [`super::Sites`] and [`super::Days`], which drift, each change comes at a known request, so that it can be said how long
//! a cache takes to learn of it.

use std::time::Duration;

use super::{Request, codeen_bytes};
use crate::random::{Random, Zipf, mix};

/// What happens, each for so many requests as the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing has changed yet.
    Calm,
    /// A new site has three tenths of all requests from now on.
    NewSite,
    /// After each five requests comes one for an object that nobody asks for again.
    Scan,
    /// The scan is over.
    AfterScan,
    /// What was asked for most is asked for least, and the other way round, for good.
    TurnedRound,
}

impl Phase {
    /// In their order.
    pub const ALL: [Phase; 5] = [Phase::Calm, Phase::NewSite, Phase::Scan, Phase::AfterScan, Phase::TurnedRound];

    /// As tables say it.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Calm => "calm",
            Phase::NewSite => "a new site is hot",
            Phase::Scan => "a scan passes",
            Phase::AfterScan => "after the scan",
            Phase::TurnedRound => "popularity turned round",
        }
    }
}

/// The requests. Memory: 8 bytes an object.
pub struct Changes {
    objects: Zipf,
    count: usize,
    of_site: Zipf,
    /// Of a phase; those of a scan come besides.
    requests: u64,
    sent: u64,
    /// Requests since the scan's last one.
    between: u64,
    scanned: u64,
    random: Random,
    seed: u64,
}

/// The [`Request::stream`] of a scan's requests.
pub const SCANNED: u8 = 1;

const ALPHA: f64 = 0.8;
/// Requests between two of a scan's.
const BETWEEN: u64 = 5;
/// Of the new site: objects, and its share of requests.
const SITE: (usize, f64) = (1000, 0.3);

impl Changes {
    /// So many requests a phase, of so many objects beside the new site's and the scan's.
    pub fn new(objects: usize, requests: u64, seed: u64) -> Changes {
        let (of_site, random) = (Zipf::with(SITE.0, ALPHA), Random::new(seed));
        let (objects, count) = (Zipf::with(objects, ALPHA), objects);
        Changes { objects, count, of_site, requests, sent: 0, between: 0, scanned: 0, random, seed }
    }

    fn phase(&self) -> Option<Phase> {
        Phase::ALL.get((self.sent / self.requests.max(1)) as usize).copied()
    }

    fn object(&mut self, phase: Phase) -> u64 {
        if phase != Phase::Calm && self.random.chance(SITE.1) {
            return mix(1 << 40 | self.of_site.rank(&mut self.random) as u64);
        }
        let rank = self.objects.rank(&mut self.random);
        let number = if phase == Phase::TurnedRound { (self.count + 1).saturating_sub(rank) } else { rank };
        mix(number as u64)
    }
}

impl Iterator for Changes {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let phase = self.phase()?;
        let is_scan = phase == Phase::Scan && self.between >= BETWEEN;
        self.between = if is_scan { 0 } else { self.between + 1 };
        let object = if is_scan {
            self.scanned += 1;
            mix(1 << 41 | self.scanned)
        } else {
            self.sent += 1;
            self.object(phase)
        };
        let bytes = codeen_bytes(&mut Random::new(mix(object ^ self.seed)));
        let stream = if is_scan { SCANNED } else { 0 };
        let time = Duration::from_millis(20 * (self.sent + self.scanned));
        Some(Request {
            time,
            object,
            bytes,
            sent_bytes: bytes,
            client: 0,
            referer: None,
            host: 0,
            stream,
            cachable: true,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn each_change_comes_at_its_request() {
        let all: Vec<_> = Changes::new(2000, 10_000, 3).collect();
        assert_eq!(all, Changes::new(2000, 10_000, 3).collect::<Vec<_>>());
        let scanned: Vec<_> = (0..all.len()).filter(|at| all[*at].stream == SCANNED).collect();
        assert!((1999..=2001).contains(&scanned.len()), "{}", scanned.len());
        assert!(scanned.iter().all(|at| (20_000..32_001).contains(at)));
        let usual: Vec<_> = all.into_iter().filter(|request| request.stream != SCANNED).collect();
        assert_eq!(usual.len(), 50_000);
        let most = |part: &[Request]| {
            let mut counts = HashMap::new();
            part.iter().for_each(|request| *counts.entry(request.object).or_insert(0_u64) += 1);
            let mut counts: Vec<_> = counts.into_iter().map(|(object, count)| (count, object)).collect();
            counts.sort_unstable_by(|a, b| b.cmp(a));
            counts.into_iter().take(5).map(|(_, object)| object).collect::<Vec<_>>()
        };
        let most: Vec<_> = usual.chunks(10_000).map(most).collect();
        let site: Vec<_> = (1..4).map(|rank| mix(1 << 40 | rank)).collect();
        assert!(!most[0].iter().any(|object| site.contains(object)));
        assert!(most[1..].iter().all(|phase| phase.contains(&site[0])), "{most:?}");
        assert!(most[..4].iter().all(|phase| phase.contains(&mix(1))) && !most[4].contains(&mix(1)), "{most:?}");
        assert!(most[4].contains(&mix(2000)), "{most:?}");
    }
}
