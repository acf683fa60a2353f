//! A load that drifts: sites become hot within minutes and cool for hours, beside others that are always asked for.
//!
//! A site has a few to some thousand objects, of sizes as CoDeeN saw them, some asked for more than others. Most sites are steady.
//! Now and then a site becomes hot: its share of the requests rises at once to up to a third, and halves again and again. What is
//! asked for then is partly new and partly what the site has had for long.

use std::time::Duration;

use super::{Request, codeen_bytes};
use crate::random::{Random, Zipf, mix};

/// What a load is like. [`SitesOptions::new`] gives a middling one.
#[derive(Clone, Copy, Debug)]
pub struct SitesOptions {
    /// Sites that there are.
    pub sites: usize,
    /// A site of rank `r` is asked for `1 / r^alpha` as often as the first, while none is hot.
    pub alpha: f64,
    /// Requests between two sites that become hot, on average.
    pub calm: f64,
    /// Requests after which a hot site is half as hot.
    pub half_life: f64,
    /// Requests a second.
    pub rate: f64,
}

impl SitesOptions {
    /// Two thousand sites, of which one becomes hot each 15,000 requests and is half as hot 10,000 requests later.
    pub fn new() -> SitesOptions {
        SitesOptions { sites: 2000, alpha: 0.8, calm: 15_000.0, half_life: 10_000.0, rate: 50.0 }
    }
}

impl Default for SitesOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// The requests, without end. Memory: 8 bytes a site, and 32 for each that is hot.
pub struct Sites {
    options: SitesOptions,
    sites: Zipf,
    pages: Vec<Zipf>,
    random: Random,
    seed: u64,
    sent: u64,
    hot: Vec<Hot>,
}

#[derive(Clone, Copy)]
struct Hot {
    site: u64,
    share: f64,
    /// Objects that the site has since then.
    new: u64,
    since: u64,
}

/// A site's objects are so many, a power of two by the site's number: 8 to 2048.
const DOUBLINGS: usize = 9;
/// Hot sites that are below this share are like all others again.
const COOL: f64 = 0.002;
/// All hot sites together have at most so much of all requests.
const MOST_HOT: f64 = 0.6;

impl Sites {
    /// Requests that begin from a seed.
    pub fn new(options: SitesOptions, seed: u64) -> Sites {
        let pages = (0..DOUBLINGS).map(|doublings| Zipf::with(8 << doublings, 0.9)).collect();
        let (sites, random) = (Zipf::with(options.sites, options.alpha), Random::new(seed));
        Sites { options, sites, pages, random, seed, sent: 0, hot: Vec::new() }
    }

    /// Which site is asked, and how many of the requests' objects are new ones of its.
    fn site(&mut self) -> (u64, Option<Hot>) {
        if self.random.chance(1.0 / self.options.calm.max(1.0)) {
            let site = self.random.below(self.options.sites as u64);
            let share = 0.05 + 0.3 * self.random.unit();
            self.hot.push(Hot { site, share, new: 16 + self.random.below(500), since: self.sent });
        }
        let cooling = f64::exp2(-1.0 / self.options.half_life.max(1.0));
        self.hot.iter_mut().for_each(|hot| hot.share *= cooling);
        self.hot.retain(|hot| hot.share > COOL);
        let all: f64 = self.hot.iter().map(|hot| hot.share).sum();
        let mut at = self.random.unit() * f64::max(1.0, all / MOST_HOT);
        for hot in &self.hot {
            at -= hot.share;
            if at < 0.0 {
                return (hot.site, Some(*hot));
            }
        }
        (self.sites.rank(&mut self.random) as u64, None)
    }
}

impl Iterator for Sites {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let (site, hot) = self.site();
        let objects = self.pages.get(mix(site ^ self.seed) as usize % DOUBLINGS)?;
        let rank = objects.rank(&mut self.random) as u64;
        let object = match hot {
            // Half of what is asked for of a hot site is new: the higher its rank, the more.
            Some(hot) if self.random.chance(0.5) => mix(mix(site ^ hot.since << 20) ^ (rank % hot.new + (1 << 40))),
            _ => mix(mix(site) ^ rank),
        };
        let bytes = codeen_bytes(&mut Random::new(mix(object ^ self.seed)));
        let time = Duration::from_secs_f64(self.sent as f64 / self.options.rate);
        self.sent += 1;
        let client = self.random.below(200);
        Some(Request {
            time,
            object,
            bytes,
            sent_bytes: bytes,
            client,
            referer: None,
            host: site,
            stream: 0,
            cachable: true,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn sites_become_hot_and_cool_again() {
        let requests: Vec<_> = Sites::new(SitesOptions::new(), 5).take(200_000).collect();
        assert_eq!(requests, Sites::new(SitesOptions::new(), 5).take(200_000).collect::<Vec<_>>());
        let hottest = |part: &[Request]| {
            let mut counts = HashMap::new();
            part.iter().for_each(|request| *counts.entry(request.host).or_insert(0_u64) += 1);
            counts.into_iter().max_by_key(|(_, count)| *count).unwrap()
        };
        let hottest: Vec<_> = requests.chunks(10_000).map(hottest).collect();
        let different: std::collections::HashSet<_> = hottest.iter().map(|(site, _)| site).collect();
        assert!(different.len() > 5, "{hottest:?}");
        assert!(hottest.iter().any(|(_, count)| *count > 1500), "{hottest:?}");
    }
}
