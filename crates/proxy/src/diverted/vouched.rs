//! Names that this proxy's resolver has found at an address, for a while.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::remembered::Remembered;

/// How long what was found is gone by. Sites with many addresses tell some of them at a time: a client that was told of one earlier is
/// believed for so long. Whoever had the address before could be taken for the host for so long, too.
const BELIEVED: Duration = Duration::from_secs(600);
/// How long it is not looked for again where it was not found. A resolver that does not answer costs one client in so long its patience.
const DOUBTED: Duration = Duration::from_secs(30);

/// Which names are where, and which are not.
#[derive(Debug, Default)]
pub(crate) struct Vouched(Remembered<(String, IpAddr), bool>);

impl Vouched {
    /// Remembers whether a name was found at an address.
    pub fn add(&self, name: &str, address: IpAddr, found: bool, now: Instant) {
        let time = if found { BELIEVED } else { DOUBTED };
        self.0.add((name.to_owned(), address.to_canonical()), found, now, now + time);
    }

    /// Whether a name was found there lately; nothing where nobody looked.
    pub fn has(&self, name: &str, address: IpAddr, now: Instant) -> Option<bool> {
        self.0.get(&(name.to_owned(), address.to_canonical()), now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remembered::MOST;

    #[test]
    fn for_a_while_and_not_too_many() {
        let (began, vouched) = (Instant::now(), Vouched::default());
        let at = |seconds| began + Duration::from_secs(seconds);
        let address = |n: u32| IpAddr::from(n.to_be_bytes());
        vouched.add("a", address(1), true, at(0));
        let has = |name: &str, address: IpAddr, seconds| vouched.has(name, address, at(seconds));
        assert_eq!(has("a", address(1), 599), Some(true));
        assert_eq!(has("a", "::ffff:0.0.0.1".parse().unwrap(), 1), Some(true));
        assert_eq!((has("b", address(1), 1), has("a", address(2), 1), has("a", address(1), 600)), (None, None, None));
        vouched.add("b", address(1), false, at(0));
        assert_eq!((has("b", address(1), 29), has("b", address(1), 30)), (Some(false), None));
        for n in 0..2 * MOST as u32 {
            vouched.add("a", address(n), true, began + Duration::from_millis(u64::from(n)));
        }
        assert_eq!(vouched.0.len(), MOST);
        assert_eq!((has("a", address(2 * MOST as u32 - 1), 9), has("a", address(0), 9)), (Some(true), None));
    }
}
