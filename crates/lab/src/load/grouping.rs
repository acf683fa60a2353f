//! Which objects are related: fetched by the same client, on account of the same page, shortly after each other (HashCache,
//! section 4.3).

use std::collections::HashMap;
use std::time::Duration;

use super::Request;
use crate::random::mix;

/// Clients that are remembered, at most; beyond that all are forgotten at once. 40 bytes each.
const MAX_CLIENTS: usize = 1 << 16;

/// Gives requests of one client, for one page, within a time window the number of one group.
pub struct Grouping {
    window: Duration,
    last: HashMap<u64, Last>,
    groups: u64,
}

struct Last {
    page: u64,
    time: Duration,
    group: u64,
}

impl Grouping {
    /// A group ends when so much time has gone by since its last request.
    pub fn new(window: Duration) -> Self {
        Grouping { window, last: HashMap::new(), groups: 0 }
    }

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
        if last.page != page || request.time.saturating_sub(last.time) > self.window {
            last.group = new();
        }
        last.page = page;
        last.time = request.time;
        last.group
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_one_clients_page_within_a_window() {
        let mut grouping = Grouping::new(Duration::from_secs(5));
        let mut group = |seconds, client, object, referer| {
            let time = Duration::from_secs(seconds);
            grouping.group(&Request { time, object, bytes: 1, client, referer, host: 0, stream: 0, cachable: true })
        };
        let page = group(0, 1, 100, None);
        assert_eq!(group(1, 1, 101, Some(100)), page);
        let other = group(1, 2, 101, Some(100));
        assert_ne!(other, page, "another client");
        assert_eq!(group(4, 1, 102, Some(100)), page);
        assert_ne!(group(10, 1, 103, Some(100)), page, "too late");
        assert_ne!(group(10, 2, 103, Some(200)), other, "another page");
    }
}
