//! Somebody browses: requests without a log, as many as it takes to fill a cache of any size.

use std::time::Duration;

use crate::load::Request;
use crate::random::{Random, mix};

/// What browsing is like.
#[derive(Clone, Copy, Debug)]
pub struct BrowserOptions {
    /// What is random begins from it.
    pub seed: u64,
    /// It goes on until all bodies together have so many bytes.
    pub body_bytes: u64,
    /// The share of views that are of a site seen for the first time.
    pub new_sites: f64,
    /// The share of views of a known site that are of a page seen before.
    pub old_pages: f64,
    /// Objects that all pages of a site show; and those of a page's own besides itself, on average.
    pub shared: u64,
    /// See [`BrowserOptions::shared`].
    pub own: f64,
}

impl BrowserOptions {
    /// Chosen so that a cache without end answers 34 to 45 % of it, as the paper's traces have it (section 4.2): the paper says nothing else of
    /// them but a mean size of 4 KiB, where these bodies have 15 on average. That takes a quarter of the calls to fill 2 GiB.
    pub fn new(seed: u64, body_bytes: u64) -> Self {
        BrowserOptions { seed, body_bytes, new_sites: 0.3, old_pages: 0.25, shared: 8, own: 12.0 }
    }
}

/// A view, with which another one may begin.
#[derive(Clone, Copy)]
struct View {
    site: u64,
    page: u64,
    /// The view of the same site before it.
    before: Option<usize>,
}

/// Views of a session on average, and the pause behind it; seconds between views.
const VIEWS_A_SESSION: f64 = 30.0;
const SESSION_PAUSE: f64 = 8.0 * 3600.0;
const VIEW_PAUSE: f64 = 20.0;
/// No body is larger, in bytes.
const LARGEST: f64 = 8e6;

/// The requests in order of their times. Half of the views of known sites are of a recent one, half of one by how often it was seen.
/// Memory: 100 bytes a request.
pub fn browse(options: &BrowserOptions) -> Vec<Request> {
    let mut random = Random::new(options.seed);
    let (mut views, mut requests): (Vec<View>, Vec<Request>) = (Vec::new(), Vec::new());
    let mut last_of_site: Vec<usize> = Vec::new();
    let (mut seen, mut bytes, mut pages) = (std::collections::HashSet::new(), 0, 0);
    let mut seconds = 0.0;
    // Each view has an object at least, so this ends; what has no bytes is counted as one.
    while bytes < options.body_bytes {
        let view = next_view(options, &views, &last_of_site, &mut pages, &mut random);
        let number = views.len();
        views.push(view);
        match last_of_site.get_mut(view.site as usize) {
            Some(last) => *last = number,
            None => last_of_site.push(number),
        }
        for (object, size) in objects_of(options, view) {
            if seen.insert(object) {
                bytes += size.max(1);
            }
            let time = Duration::from_secs_f64(seconds + random.exponential(0.8));
            let (client, host) = (1, view.site);
            let page = mix(view.page);
            let referer = (object != page).then_some(page);
            let (stream, cachable) = (0, true);
            requests.push(Request {
                time,
                object,
                bytes: size,
                sent_bytes: size,
                client,
                referer,
                host,
                stream,
                cachable,
            });
        }
        seconds += random.exponential(VIEW_PAUSE);
        if random.chance(1.0 / VIEWS_A_SESSION) {
            seconds += random.exponential(SESSION_PAUSE);
        }
    }
    requests.sort_by_key(|request| request.time);
    requests
}

fn next_view(
    options: &BrowserOptions,
    views: &[View],
    last_of_site: &[usize],
    pages: &mut u64,
    random: &mut Random,
) -> View {
    let mut new_page = || {
        *pages += 1;
        *pages
    };
    if views.is_empty() || random.chance(options.new_sites) {
        return View { site: last_of_site.len() as u64, page: new_page(), before: None };
    }
    // Of all views any one: a site seen often is seen more often still. Or the latest ones: half of them among the last few.
    let back = if random.chance(0.5) {
        random.below(views.len() as u64)
    } else {
        (views.len() as f64).powf(random.unit()) as u64 - 1
    };
    let known = views.iter().rev().nth(back as usize).or(views.last());
    let site = known.map_or(0, |view| view.site);
    let before = last_of_site.get(site as usize).copied();
    let mut page = before.and_then(|at| views.get(at));
    if !random.chance(options.old_pages) {
        return View { site, page: new_page(), before };
    }
    // Back along the site's own views, half as far each time.
    while let Some(older) = page.and_then(|view| view.before).and_then(|at| views.get(at)) {
        if random.chance(0.5) {
            break;
        }
        page = Some(older);
    }
    View { site, page: page.map_or_else(new_page, |view| view.page), before }
}

/// What a view shows, with sizes: the same for the same page each time.
fn objects_of(options: &BrowserOptions, view: View) -> Vec<(u64, u64)> {
    let mut of_site = Random::new(mix(options.seed ^ mix(!view.site)));
    let mut of_page = Random::new(mix(options.seed ^ mix(view.page)));
    let page = (mix(view.page), of_page.log_normal(12_000.0, 12_000.0));
    let own = of_page.exponential(options.own).min(options.own * 10.0).round() as u64;
    let shared = (0..options.shared).map(|_| (of_site.bits(), body_bytes(&mut of_site)));
    let shared: Vec<_> = shared.collect();
    let own: Vec<_> = (0..own).map(|_| (of_page.bits(), body_bytes(&mut of_page))).collect();
    let all = std::iter::once(page).chain(shared).chain(own);
    all.map(|(object, size)| (object, size.clamp(1.0, LARGEST) as u64)).collect()
}

/// PolyMix-4's kinds of contents, with fewer large ones than a proxy sees.
fn body_bytes(random: &mut Random) -> f64 {
    match random.unit() {
        kind if kind < 0.80 => random.exponential(6000.0),
        kind if kind < 0.98 => random.log_normal(25_000.0, 10_000.0),
        _ => random.log_normal(300_000.0, 300_000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::browser::{MOST_PAUSE_US, MakeOptions, TRIM_BYTES, prepare, trace_of};

    #[test]
    fn a_cache_without_end_answers_what_the_papers_did() {
        let requests = browse(&BrowserOptions::new(1, 100 << 20));
        assert!(requests.is_sorted_by_key(|request| request.time));
        let prepared = prepare(&trace_of(&requests, &MakeOptions::new(1)), MOST_PAUSE_US, TRIM_BYTES);
        assert!((0.34..=0.45).contains(&prepared.hit_rate()), "{}", prepared.hit_rate());
        assert!((100 << 20..110 << 20).contains(&prepared.bytes) && prepared.left_out == 0, "{}", prepared.bytes);
        let mean = prepared.bytes / prepared.entries;
        assert!((12_000..20_000).contains(&mean), "{mean} bytes an entry");
        assert_eq!(browse(&BrowserOptions::new(1, 1 << 20)), browse(&BrowserOptions::new(1, 1 << 20)));
        assert!(browse(&BrowserOptions::new(1, 0)).is_empty());
    }
}
