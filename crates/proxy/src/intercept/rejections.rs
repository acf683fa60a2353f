//! Clients that did not accept a certificate of ours, for a while.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::remembered::Remembered;

/// How long a client's no is remembered: a program that knows its server's certificate goes on for so long, and one that was
/// given the CA meanwhile is not left out for ever.
const REMEMBERED: Duration = Duration::from_secs(3600);
/// Which clients said no to which name.
#[derive(Debug, Default)]
pub(crate) struct Rejections(Remembered<(IpAddr, String), ()>);

impl Rejections {
    /// Remembers one.
    pub fn add(&self, client: IpAddr, name: &str, now: Instant) {
        self.0.add((client.to_canonical(), name.to_owned()), (), now, now + REMEMBERED);
    }

    /// Whether a client has said no to a name.
    pub fn has(&self, client: IpAddr, name: &str, now: Instant) -> bool {
        self.0.get(&(client.to_canonical(), name.to_owned()), now).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remembered::MOST;

    #[test]
    fn for_a_while_and_not_too_many() {
        let (began, rejections) = (Instant::now(), Rejections::default());
        let at = |seconds| began + Duration::from_secs(seconds);
        let client = |n: u32| IpAddr::from(n.to_be_bytes());
        rejections.add(client(0), "a", at(0));
        assert!(rejections.has(client(0), "a", at(3599)));
        assert!(rejections.has("::ffff:0.0.0.0".parse().unwrap(), "a", at(1)));
        assert!(!rejections.has(client(0), "b", at(1)) && !rejections.has(client(1), "a", at(1)));
        assert!(!rejections.has(client(0), "a", at(3600)));
        for n in 0..2 * MOST as u32 {
            rejections.add(client(n), "a", began + Duration::from_millis(u64::from(n)));
        }
        assert_eq!(rejections.0.len(), MOST);
        let last = 2 * MOST as u32 - 1;
        assert!(rejections.has(client(last), "a", at(9)) && !rejections.has(client(0), "a", at(9)));
    }
}
