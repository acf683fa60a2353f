//! Which objects are related: fetched by the same client, on account of the same page, shortly after each other (HashCache,
//! section 4.3).

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use tinaja_store::limits::{GROUP_HOLD, GROUP_QUIET, GROUP_WINDOW};

use super::Request;
use crate::random::mix;

/// Clients that are remembered, at most; beyond that all are forgotten at once. 40 bytes each.
const MAX_CLIENTS: usize = 1 << 16;

/// Gives requests of one client, for one page, the number of one group; it ends when [`GROUP_WINDOW`] has gone by since its
/// last request, as in the proxy.
#[derive(Default)]
pub struct Grouping {
    last: HashMap<u64, Last>,
    groups: u64,
}

struct Last {
    page: u64,
    time: Duration,
    group: u64,
}

impl Grouping {
    /// The group of a request, which comes after all before it.
    pub fn group(&mut self, request: &Request) -> u64 {
        // A page itself is related to what it embeds.
        let page = request.referer.unwrap_or(request.object);
        if self.last.len() >= MAX_CLIENTS {
            self.last.clear();
        }
        let groups = &mut self.groups;
        let mut new = || {
            *groups += 1;
            mix(*groups)
        };
        let last = self.last.entry(request.client).or_insert_with(|| Last { page, time: request.time, group: new() });
        if last.page != page || request.time.saturating_sub(last.time) >= GROUP_WINDOW {
            last.group = new();
        }
        last.page = page;
        last.time = request.time;
        last.group
    }
}

/// Ends groups by the times of the requests: a run in virtual time is over before a store that goes by the wall's clock
/// takes any group to be whole.
#[derive(Default)]
pub struct Endings {
    /// When each group began, and when its last object was stored.
    groups: HashMap<u64, (Duration, Duration)>,
    /// Times at which a group may be over.
    due: BTreeSet<(Duration, u64)>,
}

impl Endings {
    /// An object of a group was stored.
    pub fn stored(&mut self, group: u64, now: Duration) {
        let (began, last) = self.groups.entry(group).or_insert((now, now));
        *last = now;
        self.due.insert((now + GROUP_QUIET, group));
        self.due.insert((*began + GROUP_HOLD, group));
    }

    /// The next group that is over by now: quiet for [`GROUP_QUIET`], or [`GROUP_HOLD`] old.
    pub fn next(&mut self, now: Duration) -> Option<u64> {
        while let Some((_, group)) = self.due.first().copied().filter(|(due, _)| *due <= now) {
            self.due.pop_first();
            let over = |(began, last): &(Duration, Duration)| *last + GROUP_QUIET <= now || *began + GROUP_HOLD <= now;
            if self.groups.get(&group).is_some_and(over) {
                self.groups.remove(&group);
                return Some(group);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_end_when_they_are_quiet_or_old() {
        let ms = Duration::from_millis;
        let mut endings = Endings::default();
        (0..6).for_each(|n| endings.stored(1, ms(n * 400)));
        endings.stored(2, ms(100));
        assert_eq!(endings.next(ms(500)), None);
        assert_eq!(endings.next(ms(600)), Some(2));
        assert_eq!(endings.next(ms(1999)), None, "an object came each 400 ms");
        assert_eq!([endings.next(ms(2000)), endings.next(ms(2000)), endings.next(ms(9000))], [Some(1), None, None]);
    }

    #[test]
    fn a_group_is_one_clients_page_within_a_window() {
        let mut grouping = Grouping::default();
        let mut group = |windows: f64, client, object, referer| {
            let time = GROUP_WINDOW.mul_f64(windows);
            grouping.group(&Request {
                time,
                object,
                bytes: 1,
                sent_bytes: 1,
                client,
                referer,
                host: 0,
                stream: 0,
                cachable: true,
            })
        };
        let page = group(0.0, 1, 100, None);
        assert_eq!(group(0.2, 1, 101, Some(100)), page);
        let other = group(0.2, 2, 101, Some(100));
        assert_ne!(other, page, "another client");
        assert_eq!(group(1.1, 1, 102, Some(100)), page, "the window begins with each");
        assert_ne!(group(2.1, 1, 103, Some(100)), page, "too late");
        assert_ne!(group(2.1, 2, 103, Some(200)), other, "another page");
    }
}
