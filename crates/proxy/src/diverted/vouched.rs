//! Names that this proxy's resolver has found at an address, for a while.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How long what was found is gone by. Sites with many addresses tell some of them at a time: a client that was told of one earlier is
/// believed for so long. Whoever had the address before could be taken for the host for so long, too.
const BELIEVED: Duration = Duration::from_secs(600);
/// Memory: some 100 bytes each.
const MOST: usize = 4096;

/// Which names are where.
#[derive(Debug, Default)]
pub(crate) struct Vouched(Mutex<HashMap<(String, IpAddr), Instant>>);

impl Vouched {
    /// Remembers where a name was found. Of too many the oldest is forgotten.
    pub fn add(&self, name: &str, address: IpAddr, now: Instant) {
        let mut all = self.0.lock();
        let found = (name.to_owned(), address.to_canonical());
        if all.len() >= MOST && !all.contains_key(&found) {
            all.retain(|_, until| now < *until);
            let oldest = all.iter().min_by_key(|(_, until)| **until).map(|(found, _)| found.clone());
            if let Some(oldest) = oldest.filter(|_| all.len() >= MOST) {
                all.remove(&oldest);
            }
        }
        all.insert(found, now + BELIEVED);
    }

    /// Whether a name was found there lately.
    pub fn has(&self, name: &str, address: IpAddr, now: Instant) -> bool {
        self.0.lock().get(&(name.to_owned(), address.to_canonical())).is_some_and(|until| now < *until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn for_a_while_and_not_too_many() {
        let (began, vouched) = (Instant::now(), Vouched::default());
        let at = |seconds| began + Duration::from_secs(seconds);
        let address = |n: u32| IpAddr::from(n.to_be_bytes());
        vouched.add("a", address(1), at(0));
        assert!(vouched.has("a", address(1), at(599)) && vouched.has("a", "::ffff:0.0.0.1".parse().unwrap(), at(1)));
        assert!(!vouched.has("b", address(1), at(1)) && !vouched.has("a", address(2), at(1)));
        assert!(!vouched.has("a", address(1), at(600)));
        for n in 0..2 * MOST as u32 {
            vouched.add("a", address(n), began + Duration::from_millis(u64::from(n)));
        }
        assert_eq!(vouched.0.lock().len(), MOST);
        assert!(vouched.has("a", address(2 * MOST as u32 - 1), at(9)) && !vouched.has("a", address(0), at(9)));
    }
}
