//! Which objects belong together: those of one page.
//!
//! HashCache (section 4.3) groups what one client fetches within a small time window with the same Referer. Here the page
//! itself belongs to the group too, and so does what its style sheets ask for, which name themselves as the referrer. The
//! store writes a group together, so that one request to the disk brings all of a page.
//!
//! What is remembered is bounded for each client and in the number of clients, so that nobody can make it grow, and none
//! can push out more than a fresh client's own pages. It is advice: a wrong guess costs the disk a few blocks.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use foldhash::HashMap;
use http::HeaderMap;
use http::header::{CONTENT_TYPE, REFERER};
use parking_lot::Mutex;
use tinaja_store::limits::GROUP_WINDOW;

/// Clients that are remembered; the one that was away longest is forgotten first.
const MOST_CLIENTS: usize = 1024;
/// URLs that are remembered for each: the pages, style sheets and frames of a few tabs.
const MOST_URLS: usize = 32;

/// The pages that clients are loading. Memory: about 1 MiB at the most.
#[derive(Default)]
pub(crate) struct Groups {
    clients: Mutex<HashMap<IpAddr, Pages>>,
    /// Nobody outside can aim two URLs at one number.
    seed: RandomState,
    last: AtomicU64,
}

/// What one client was told to load by what, the oldest first.
struct Pages {
    urls: VecDeque<Url>,
    last: Instant,
}

struct Url {
    number: u64,
    group: u64,
    last: Instant,
}

/// An object that is to be stored.
pub(crate) struct Member<'a> {
    pub client: IpAddr,
    pub host: &'a str,
    pub path: &'a str,
    pub request: &'a HeaderMap,
    pub response: &'a HeaderMap,
}

impl Member<'_> {
    /// Whether it is a page, which others belong to, rather than what belongs to a page.
    fn is_page(&self) -> bool {
        let kind = self.response.get(CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
        let is = |name: &str| kind.get(..name.len()).is_some_and(|kind| kind.eq_ignore_ascii_case(name.as_bytes()));
        is("text/html") || is("application/xhtml")
    }
}

/// One number for all addresses that a client may use at will: an IPv6 network of 64 bits.
fn client_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
        v4 => v4,
    }
}

impl Groups {
    /// The group that an object belongs to, which it joins now.
    pub fn join(&self, member: &Member<'_>, now: Instant) -> u64 {
        let client = client_of(member.client);
        let own = self.number(member.host, member.path);
        let referrer = self.referrer(member.request);
        let mut clients = self.clients.lock();
        if !clients.contains_key(&client) && clients.len() >= MOST_CLIENTS {
            let idle = clients.iter().min_by_key(|(_, pages)| pages.last).map(|(client, _)| *client);
            idle.and_then(|client| clients.remove(&client));
        }
        let pages = clients.entry(client).or_insert_with(|| Pages { urls: VecDeque::new(), last: now });
        pages.last = now;
        while pages.urls.front().is_some_and(|url| now.saturating_duration_since(url.last) >= GROUP_WINDOW) {
            pages.urls.pop_front();
        }
        if member.is_page() {
            // Whoever loads it names it as the referrer, or only its origin if they lie elsewhere.
            let group = self.last.fetch_add(1, Relaxed);
            pages.note(own, group, now);
            pages.note(self.number(member.host, "/"), group, now);
            return group;
        }
        let group = pages.group_of(referrer).unwrap_or_else(|| self.last.fetch_add(1, Relaxed));
        pages.note(referrer, group, now);
        pages.note(own, group, now);
        group
    }

    /// The number of what a request says it comes from; one for all that say nothing.
    fn referrer(&self, request: &HeaderMap) -> u64 {
        let referrer = request.get(REFERER).and_then(|value| value.to_str().ok());
        let Some((_, rest)) = referrer.and_then(|url| url.split_once("://")) else { return 0 };
        let rest = rest.split('#').next().unwrap_or_default();
        match rest.find('/') {
            Some(at) => self.number(rest.get(..at).unwrap_or_default(), rest.get(at..).unwrap_or_default()),
            None => self.number(rest, "/"),
        }
    }

    fn number(&self, host: &str, path: &str) -> u64 {
        let is_lower = !host.bytes().any(|byte| byte.is_ascii_uppercase());
        let host = if is_lower { Cow::Borrowed(host) } else { Cow::Owned(host.to_ascii_lowercase()) };
        self.seed.hash_one((host, path))
    }
}

impl Pages {
    fn group_of(&self, number: u64) -> Option<u64> {
        self.urls.iter().find(|url| url.number == number).map(|url| url.group)
    }

    /// What names this URL as its referrer belongs to this group from now on.
    fn note(&mut self, number: u64, group: u64, now: Instant) {
        self.urls.retain(|url| url.number != number);
        if self.urls.len() >= MOST_URLS {
            self.urls.pop_front();
        }
        self.urls.push_back(Url { number, group, last: now });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const CLIENT: &str = "192.0.2.1";

    fn join(groups: &Groups, client: &str, url: &str, referrer: &str, kind: &str, now: Instant) -> u64 {
        let (host, path) = url.split_at(url.find('/').unwrap());
        let (mut request, mut response) = (HeaderMap::new(), HeaderMap::new());
        if !referrer.is_empty() {
            request.insert(REFERER, referrer.parse().unwrap());
        }
        response.insert(CONTENT_TYPE, kind.parse().unwrap());
        let client = client.parse().unwrap();
        groups.join(&Member { client, host, path, request: &request, response: &response }, now)
    }

    #[test]
    fn a_page_and_all_that_it_loads_are_one_group() {
        let (groups, now) = (Groups::default(), Instant::now());
        let one = |url: &str, referrer: &str, kind: &str| join(&groups, CLIENT, url, referrer, kind, now);
        let page = one("a.example/p?q=1", "http://other.example/", "Text/HTML; charset=utf-8");
        assert_eq!(one("a.example/style.css", "http://A.example/p?q=1#top", "text/css"), page);
        assert_eq!(one("fonts.example/f.woff", "http://a.example/style.css", "font/woff"), page, "a style sheet's");
        assert_eq!(one("cdn.example/i.png", "https://a.example/", "image/png"), page, "named by its origin alone");
        let next = one("a.example/next", "http://a.example/p?q=1", "text/html");
        assert_ne!(next, page, "a page begins a group of its own, wherever its link was");
        assert_eq!(one("a.example/n.png", "http://a.example/next", "image/png"), next);
        assert_eq!(one("a.example/late.png", "http://a.example/p?q=1", "image/png"), page);
        assert_ne!(join(&groups, "192.0.2.2", "a.example/x.png", "http://a.example/p?q=1", "image/png", now), page);
    }

    #[test]
    fn same_referrer_or_none_is_a_group_without_a_page_too() {
        let (groups, now) = (Groups::default(), Instant::now());
        let one = |url: &str, referrer: &str| join(&groups, CLIENT, url, referrer, "image/png", now);
        assert_eq!(one("a.example/1", "http://hit.example/"), one("b.example/2", "http://hit.example"));
        assert_eq!(one("a.example/3", ""), one("b.example/4", "nonsense"));
        assert_ne!(one("a.example/5", ""), one("b.example/6", "http://hit.example/"));
    }

    #[test]
    fn a_group_ends_with_its_window() {
        let (groups, began) = (Groups::default(), Instant::now());
        let at = |seconds| join(&groups, CLIENT, "a.example/1", "http://p.example/", "image/png", began + seconds);
        let first = at(Duration::ZERO);
        assert_eq!(at(GROUP_WINDOW - Duration::from_millis(1)), first);
        assert_eq!(at(GROUP_WINDOW * 2 - Duration::from_millis(2)), first, "as long as somebody joins");
        assert_ne!(at(GROUP_WINDOW * 4), first);
    }

    #[test]
    fn hostile_clients_cannot_make_it_grow() {
        let (groups, now) = (Groups::default(), Instant::now());
        for n in 0..100_000_u32 {
            let url = format!("a.example/{n}");
            let client = format!("2001:db8:{:x}:{:x}::{:x}:{:x}", n % 7000, n % 3, n >> 16, n & 0xFFFF);
            join(&groups, &client, &url, &format!("http://b.example/{n}"), "text/html", now);
            join(&groups, CLIENT, &url, &format!("http://b.example/{n}"), "image/png", now);
        }
        let clients = groups.clients.lock();
        assert!(clients.len() <= MOST_CLIENTS);
        assert!(clients.values().all(|pages| pages.urls.len() <= MOST_URLS && pages.urls.capacity() <= 2 * MOST_URLS));
        let same = ["2001:db8:1:2::1", "2001:db8:1:2:ffff::9"].map(|client| client_of(client.parse().unwrap()));
        assert_eq!(same[0], same[1], "a network of 64 bits is one client");
    }
}
