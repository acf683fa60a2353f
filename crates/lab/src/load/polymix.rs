//! A load like PolyMix-4's, the one that the HashCache paper was measured with: its published mix of contents, sizes and
//! recurrence, not its program.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::Request;
use crate::random::{Random, Zipf, mix};

/// How many objects a page embeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Embedded {
    /// As PolyMix-4 has it: Zipf over 1 to 13, 4.1 on average.
    Zipf13,
    /// As the HashCache paper says of it: 10 to 20, all as likely.
    TenToTwenty,
}

impl Embedded {
    /// How many that are, in tables.
    pub fn a_page(self) -> &'static str {
        match self {
            Embedded::Zipf13 => "4",
            Embedded::TenToTwenty => "10-20",
        }
    }
}

/// What a load is like. [`PolyMixOptions::new`] gives PolyMix-4's numbers.
#[derive(Clone, Copy, Debug)]
pub struct PolyMixOptions {
    /// How many objects a page embeds.
    pub embedded: Embedded,
    /// Requests a second, all clients together.
    pub rate: f64,
    /// Clients.
    pub clients: u64,
    /// The share of requests for what was asked for before and may be stored: the hit ratio that a perfect cache has.
    pub offered_hits: f64,
    /// Of how many pages and single objects, the latest ones, requests are repeated.
    pub working_set: u64,
}

/// A kind of contents: its share of the single objects or of all requests, its sizes, how much of it may be stored.
struct Content {
    bytes: fn(&mut Random) -> f64,
    cachable: f64,
}

const IMAGE: Content = Content { bytes: |random| random.exponential(4500.0), cachable: 0.80 };
const HTML: Content = Content { bytes: |random| random.exponential(8500.0), cachable: 0.90 };
const OTHER: Content = Content { bytes: |random| random.log_normal(25_000.0, 10_000.0), cachable: 0.72 };
const DOWNLOAD: Content = Content { bytes: |random| random.log_normal(300_000.0, 300_000.0), cachable: 0.95 };
const CONTENTS: [Content; 4] = [IMAGE, HTML, OTHER, DOWNLOAD];
/// Shares of the requests: pages with what they embed, other single objects, downloads.
const PAGES: f64 = 0.80;
const DOWNLOADS: f64 = 0.005;
/// One page in so many of the working set is hot, and so many of the repeated requests are for hot ones.
const HOT_ONE_IN: u64 = 100;
const HOT_REQUESTS: f64 = 0.10;
/// No body is larger; the log-normal sizes have no end.
const LARGEST: f64 = 8e6;

impl PolyMixOptions {
    /// PolyMix-4's 55 % of hits, from 200 clients and so many pages and single objects.
    pub fn new(embedded: Embedded, rate: f64, working_set: u64) -> Self {
        PolyMixOptions { embedded, rate, clients: 200, offered_hits: 0.55, working_set }
    }

    /// Objects that a page embeds on average.
    pub fn mean_embedded(&self) -> f64 {
        match self.embedded {
            Embedded::Zipf13 => Zipf::new(13).mean(),
            Embedded::TenToTwenty => 15.0,
        }
    }

    /// Requests that a view brings on average.
    pub fn requests_a_view(&self) -> f64 {
        let page = self.page_share();
        page * (1.0 + self.mean_embedded()) + 1.0 - page
    }

    /// The share of views that are of something new.
    pub fn share_of_new_views(&self) -> f64 {
        1.0 - self.offered_hits / self.cachable_share()
    }

    /// Bytes that a new view brings and that may be stored, on average.
    pub fn stored_bytes_a_view(&self) -> f64 {
        let html = PAGES / (1.0 + self.mean_embedded());
        let others = 1.0 - PAGES - DOWNLOADS;
        let small = (PAGES - html) * IMAGE.cachable * 4500.0 + html * HTML.cachable * 8500.0;
        let large = others * OTHER.cachable * 25_000.0 + DOWNLOADS * DOWNLOAD.cachable * 300_000.0;
        (small + large) * self.requests_a_view()
    }

    /// The share of views that are of a page, so that pages and what they embed are [`PAGES`] of the requests.
    fn page_share(&self) -> f64 {
        let pages = PAGES / (1.0 + self.mean_embedded());
        pages / (pages + 1.0 - PAGES)
    }

    /// The share of requests for contents that may be stored.
    pub fn cachable_share(&self) -> f64 {
        let html = PAGES / (1.0 + self.mean_embedded());
        let others = 1.0 - PAGES - DOWNLOADS;
        (PAGES - html) * IMAGE.cachable + html * HTML.cachable + others * OTHER.cachable + DOWNLOADS * DOWNLOAD.cachable
    }
}

/// The requests, without end. Memory: those of the pages that are being loaded.
pub struct PolyMix {
    options: PolyMixOptions,
    zipf: Zipf,
    random: Random,
    seed: u64,
    /// Views of something new so far: their numbers are names.
    views: u64,
    /// When the next view begins, in microseconds.
    next_view: u64,
    pending: BinaryHeap<Reverse<(u64, u64, Wanted)>>,
    sequence: u64,
}

/// Who wants which object of which view: 0 is the page or the single object, others are embedded.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Wanted {
    view: u64,
    part: u64,
    client: u64,
}

impl PolyMix {
    /// Requests that begin from a seed.
    pub fn new(options: PolyMixOptions, seed: u64) -> Self {
        let (zipf, random) = (Zipf::new(13), Random::new(seed));
        PolyMix { options, zipf, random, seed, views: 0, next_view: 0, pending: BinaryHeap::new(), sequence: 0 }
    }

    /// From now on views begin so often that it comes to so many requests a second.
    pub fn set_rate(&mut self, rate: f64) {
        self.options.rate = rate;
    }

    /// Random numbers that belong to one thing, the same each time.
    fn of(&self, view: u64, part: u64) -> Random {
        Random::new(mix(mix(self.seed ^ mix(view)).wrapping_add(part)))
    }

    /// How many objects a view brings beside its first; `None` for a single object.
    fn embeds(&self, view: u64) -> Option<u64> {
        let mut random = self.of(view, u64::MAX);
        random.chance(self.options.page_share()).then(|| match self.options.embedded {
            Embedded::Zipf13 => self.zipf.rank(&mut random) as u64,
            Embedded::TenToTwenty => 10 + random.below(11),
        })
    }

    /// Something new, or something of the working set again.
    fn choose(&mut self) -> u64 {
        if self.views == 0 || self.random.chance(self.options.share_of_new_views()) {
            self.views += 1;
            return self.views - 1;
        }
        let first = self.views.saturating_sub(self.options.working_set);
        let view = first + self.random.below(self.views - first);
        let hot = view - view % HOT_ONE_IN;
        if self.random.chance(HOT_REQUESTS) { hot.max(first) } else { view }
    }

    /// Begin views until the request that comes first cannot come from a later one.
    fn begin_views(&mut self) {
        while self.pending.peek().is_none_or(|Reverse((time, ..))| *time >= self.next_view) {
            let (view, client) = (self.choose(), self.random.below(self.options.clients));
            let mut time = self.next_view;
            for part in 0..=self.embeds(view).unwrap_or(0) {
                self.sequence += 1;
                self.pending.push(Reverse((time, self.sequence, Wanted { view, part, client })));
                // What a page embeds is asked for once the page has begun to come, a few at a time.
                time += if part == 0 { 300_000 } else { self.random.below(100_000) };
            }
            let pause = self.random.exponential(self.options.requests_a_view() / self.options.rate.max(1e-6));
            self.next_view += (pause * 1e6) as u64 + 1;
        }
    }
}

impl Iterator for PolyMix {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        self.begin_views();
        let Reverse((time, _, Wanted { view, part, client })) = self.pending.pop()?;
        let mut random = self.of(view, part);
        let object = random.bits();
        let stream = match (self.embeds(view), part) {
            (Some(_), 0) => 1,
            (Some(_), _) => 0,
            (None, _) if random.chance(DOWNLOADS / (1.0 - PAGES)) => 3,
            (None, _) => 2,
        };
        let content = CONTENTS.get(stream).unwrap_or(&OTHER);
        let bytes = (content.bytes)(&mut random).clamp(1.0, LARGEST) as u64;
        Some(Request {
            time: Duration::from_micros(time),
            object,
            bytes,
            sent_bytes: bytes,
            client,
            referer: (part > 0).then(|| self.of(view, 0).bits()),
            host: view % 997,
            stream: stream as u8,
            cachable: random.chance(content.cachable),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// The published mix: shares, sizes, hits offered.
    #[test]
    fn the_mix_is_polymix_4s() {
        let options = PolyMixOptions::new(Embedded::Zipf13, 100.0, 5000);
        let requests: Vec<_> = PolyMix::new(options, 3).take(300_000).collect();
        let count = |stream: u8| requests.iter().filter(|request| request.stream == stream).count() as f64 / 3e5;
        for (stream, share) in [(0, 0.65), (1, 0.15), (2, 0.195), (3, 0.005)] {
            assert!((count(stream) - share).abs() < 0.015, "{stream}: {}", count(stream));
        }
        let bytes = requests.iter().map(|request| request.bytes as f64).sum::<f64>() / 3e5;
        assert!((9_500.0..11_800.0).contains(&bytes), "{bytes} bytes a request");
        let mut seen = HashSet::new();
        let again = |request: &&Request| !seen.insert(request.object) && request.cachable;
        let hits = requests.iter().filter(again).count() as f64 / 3e5;
        assert!((hits - 0.55).abs() < 0.02, "{hits} of all requests can be hits");
        assert!(requests.is_sorted_by_key(|request| request.time));
        let rate = 3e5 / requests.last().unwrap().time.as_secs_f64();
        assert!((rate / 100.0 - 1.0).abs() < 0.02, "{rate} requests a second");
    }

    #[test]
    fn an_object_is_the_same_each_time_and_so_is_a_load() {
        let options = PolyMixOptions::new(Embedded::TenToTwenty, 100.0, 1000);
        let requests: Vec<_> = PolyMix::new(options, 3).take(50_000).collect();
        let again: Vec<_> = PolyMix::new(options, 3).take(50_000).collect();
        assert!(requests == again && requests != PolyMix::new(options, 4).take(50_000).collect::<Vec<_>>());
        let mut first = std::collections::HashMap::new();
        for request in &requests {
            let (bytes, cachable) = *first.entry(request.object).or_insert((request.bytes, request.cachable));
            assert_eq!((bytes, cachable), (request.bytes, request.cachable));
        }
        let pages = requests.iter().filter(|request| request.stream == 1).count() as f64;
        let images = requests.iter().filter(|request| request.stream == 0).count() as f64;
        assert!((images / pages - 15.0).abs() < 0.3, "{}", images / pages);
    }
}
