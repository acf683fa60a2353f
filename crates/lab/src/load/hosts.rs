//! A load as a proxy sees it: pages of many hosts, each with the objects that it embeds, some asked for far more often than
//! others, and as much or as little locality of hosts as is asked for.
//!
//! A view is of a page: the page is asked for and then, one after the other, what it embeds, all from the page's host. Several views go
//! on at once, and each request is the next one of any of them. With one at a time a host is asked again and again before the next
//! one's turn comes; the more there are, the less of that is left.

use std::time::Duration;

use super::{Request, codeen_bytes};
use crate::random::{Random, Zipf, mix};

/// Objects that all pages of a host embed, as its logo: the first ones of each page.
const SHARED: u64 = 2;
/// The kinds of names that are mixed into numbers of objects.
const OF_HOST: u64 = 0x686F_7374;
const OF_SIZE: u64 = 0x7369_7A65;

/// What a load is like.
#[derive(Clone, Copy, Debug)]
pub struct HostsOptions {
    /// Pages that there are, over all hosts.
    pub pages: usize,
    /// Hosts that have them: a host of rank `r` has `1 / r^alpha` as many as the first, so that what all pages of a host embed is as steep in
    /// its popularity as pages are.
    pub hosts: usize,
    /// A page of rank `r` is viewed `1 / r^alpha` as often as the first: 0.64 to 0.83 in logs of proxies (Breslau and others,
    /// INFOCOM 1999).
    pub alpha: f64,
    /// Views that go on at once: 1 for the strongest locality of hosts.
    pub at_once: usize,
    /// Requests a second.
    pub rate: f64,
}

/// The requests, without end. Memory: 8 bytes a page, a host, and 40 a view that goes on.
pub struct Hosts {
    options: HostsOptions,
    pages: Zipf,
    hosts: Zipf,
    embedded: Zipf,
    random: Random,
    seed: u64,
    sent: u64,
    views: Vec<View>,
}

#[derive(Clone, Copy)]
struct View {
    page: u64,
    host: u64,
    client: u64,
    /// The next object: 0 is the page itself.
    next: u64,
    objects: u64,
}

impl Hosts {
    /// Requests that begin from a seed.
    pub fn new(options: HostsOptions, seed: u64) -> Hosts {
        Hosts {
            pages: Zipf::with(options.pages, options.alpha),
            hosts: Zipf::with(options.hosts, options.alpha),
            embedded: Zipf::new(13),
            random: Random::new(seed),
            seed,
            sent: 0,
            views: Vec::new(),
            options,
        }
    }

    /// A view of some page. What the page is like follows from its number.
    fn view(&mut self) -> View {
        let page = self.pages.rank(&mut self.random) as u64;
        let mut of_page = Random::new(mix(page ^ self.seed));
        let host = self.hosts.rank(&mut of_page) as u64;
        View {
            page,
            host,
            client: self.random.below(200),
            next: 0,
            objects: 1 + self.embedded.rank(&mut of_page) as u64,
        }
    }
}

impl Iterator for Hosts {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        while self.views.len() < self.options.at_once.max(1) {
            let view = self.view();
            self.views.push(view);
        }
        let at = self.random.below(self.views.len() as u64) as usize;
        let view = self.views.get_mut(at)?;
        let part = view.next;
        view.next += 1;
        let (host, page, client) = (view.host, view.page, view.client);
        if view.next >= view.objects {
            self.views.swap_remove(at);
        }
        // What all pages of a host embed has the host's name, and not the page's.
        let object = match part {
            1..=SHARED => mix(mix(host ^ OF_HOST) ^ part),
            _ => mix(mix(page) ^ part),
        };
        let bytes = codeen_bytes(&mut Random::new(mix(object ^ self.seed ^ OF_SIZE)));
        let time = Duration::from_secs_f64(self.sent as f64 / self.options.rate);
        self.sent += 1;
        let referer = (part > 0).then(|| mix(mix(page)));
        Some(Request { time, object, bytes, sent_bytes: bytes, client, referer, host, stream: 0, cachable: true })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    fn options(at_once: usize) -> HostsOptions {
        HostsOptions { pages: 20_000, hosts: 2000, alpha: 0.75, at_once, rate: 100.0 }
    }

    /// Requests of the host that was asked for just before.
    fn repeats(at_once: usize) -> f64 {
        let all: Vec<_> = Hosts::new(options(at_once), 1).take(50_000).collect();
        all.windows(2).filter(|two| two[0].host == two[1].host).count() as f64 / 50_000.0
    }

    #[test]
    fn the_more_views_at_once_the_less_locality_of_hosts() {
        let shares = [1, 4, 16, 1024].map(repeats);
        assert!(shares.windows(2).all(|two| two[0] > two[1]), "{shares:?}");
        assert!(shares[0] > 0.7 && shares[3] < 0.1, "{shares:?}");
    }

    #[test]
    fn an_object_has_one_host_and_one_size_and_the_same_seed_gives_the_same() {
        let all: Vec<_> = Hosts::new(options(8), 7).take(100_000).collect();
        let mut seen = HashMap::new();
        for request in &all {
            let before = *seen.entry(request.object).or_insert((request.host, request.bytes));
            assert_eq!(before, (request.host, request.bytes));
        }
        assert!(all.iter().eq(&Hosts::new(options(8), 7).take(100_000).collect::<Vec<_>>()));
        assert!(!all.iter().eq(&Hosts::new(options(8), 8).take(100_000).collect::<Vec<_>>()));
        let hosts: HashSet<_> = all.iter().map(|request| request.host).collect();
        assert!(hosts.len() > 1000, "{}", hosts.len());
    }

    /// A page of rank 100 is viewed 100^0.75 = 31.6 times less often than the first.
    #[test]
    fn popularity_is_as_steep_as_was_asked() {
        let zipf = Zipf::with(1000, 0.75);
        let mut random = Random::new(3);
        let mut times = vec![0_u32; 1001];
        (0..2_000_000).for_each(|_| times[zipf.rank(&mut random)] += 1);
        let steepness = f64::from(times[1]) / f64::from(times[100]);
        assert!((steepness / 31.6 - 1.0).abs() < 0.1, "{steepness}");
    }
}
