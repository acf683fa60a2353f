//! The addresses of this machine.
//!
//! A connection from the proxy to one of them never leaves the machine: it goes over loopback, past whatever guards the machine
//! from outside, and comes to services that trust their own host. So they are refused like loopback, public or not, unless a rule
//! names them. An address that is translated on the way, as a cloud's public ones are, stands on no interface and is not known here.

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use nix::ifaddrs::getifaddrs;
use parking_lot::RwLock;
use tinaja_clock::Clock;

/// Addresses come and go with networks: they are read again after this.
const EVERY: Duration = Duration::from_secs(10);

/// Where they are read.
type Read = Box<dyn Fn() -> io::Result<HashSet<IpAddr>> + Send + Sync>;

/// What interfaces have, as of a short while ago.
pub(crate) struct Own {
    clock: Clock,
    read: Read,
    known: RwLock<Known>,
}

#[derive(Debug, Default)]
struct Known {
    at: Option<Instant>,
    addresses: HashSet<IpAddr>,
    /// They could not be read the last time, which is said once.
    failed: bool,
}

impl Own {
    /// Those of the interfaces that the system tells of.
    pub fn of_interfaces(clock: Clock) -> Own {
        Own::read_by(clock, Box::new(interfaces))
    }

    fn read_by(clock: Clock, read: Read) -> Own {
        let own = Own { clock, read, known: RwLock::default() };
        own.look(own.clock.now());
        own
    }

    /// Whether it is one of them.
    pub fn has(&self, address: IpAddr) -> bool {
        let now = self.clock.now();
        let known = self.known.read();
        let is_old = known.at.is_none_or(|at| now.saturating_duration_since(at) >= EVERY);
        if !is_old {
            return known.addresses.contains(&address.to_canonical());
        }
        drop(known);
        self.look(now);
        self.known.read().addresses.contains(&address.to_canonical())
    }

    /// Reads them; what was known stays if that fails.
    fn look(&self, now: Instant) {
        let read = (self.read)();
        let mut known = self.known.write();
        known.at = Some(now);
        match read {
            Ok(addresses) => (known.addresses, known.failed) = (addresses, false),
            Err(error) if !std::mem::replace(&mut known.failed, true) => {
                tracing::warn!(%error, "cannot read this machine's addresses: those that are public are not refused");
            }
            Err(_) => {}
        }
    }
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.known.read().fmt(f)
    }
}

/// What the system says. It takes a netlink socket for that.
fn interfaces() -> io::Result<HashSet<IpAddr>> {
    let addresses = getifaddrs()?.filter_map(|interface| {
        let address = interface.address?;
        let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
    });
    Ok(addresses.map(|address| address.to_canonical()).collect())
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tinaja_clock::ManualClock;

    use super::*;

    /// A machine that has these.
    pub fn having(addresses: &[&str]) -> Own {
        let addresses: HashSet<IpAddr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
        Own::read_by(ManualClock::new().clock(), Box::new(move || Ok(addresses.clone())))
    }

    #[test]
    fn interfaces_have_loopback_at_least() {
        let own = Own::of_interfaces(Clock::system());
        assert!(own.has("127.0.0.1".parse().unwrap()) && own.has("::ffff:127.0.0.1".parse().unwrap()), "{own:?}");
        assert!(!own.has("192.0.2.77".parse().unwrap()));
    }

    #[test]
    fn they_are_read_again_by_the_clock_and_kept_where_that_fails() {
        let (hand, now) = (ManualClock::new(), Arc::new(Mutex::new(Some("198.41.0.4"))));
        let said = now.clone();
        let read = move || match *said.lock() {
            Some(address) => Ok(HashSet::from([address.parse().unwrap()])),
            None => Err(io::Error::other("no netlink")),
        };
        let own = Own::read_by(hand.clock(), Box::new(read));
        let has = |address: &str| own.has(address.parse().unwrap());
        assert!(has("198.41.0.4") && !has("198.41.0.5"));
        *now.lock() = Some("198.41.0.5");
        assert!(has("198.41.0.4"), "not yet");
        hand.advance(EVERY);
        assert!(!has("198.41.0.4") && has("198.41.0.5"));
        *now.lock() = None;
        hand.advance(EVERY);
        assert!(has("198.41.0.5"), "better those of before than none");
    }
}
