//! What counts as one client, and how many connections each has: one address, or one network of IPv6 that a client is usually given whole;
//! and the network of the site that has several of those, which may have more.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// The bits of an address of IPv6 that a network has, in which a client chooses the rest (RFC 6177).
const NETWORK_BITS: u32 = 64;

/// The bits that the network of a site has, which makes those of its clients from it.
const SITE_BITS: u32 = 48;

/// A site may have so many times as much as one of its clients.
pub(crate) const WIDER: u32 = 16;

/// Addresses that count as one. Never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Network(pub u128);

/// The client that has an address, and the site that has the client, where it may have others too.
pub(crate) fn networks(address: IpAddr) -> (Network, Option<Network>) {
    match address.to_canonical() {
        // Mapped ones are no network of IPv6.
        IpAddr::V4(v4) => (Network(v4.to_ipv6_mapped().to_bits()), None),
        IpAddr::V6(v6) => {
            // The lowest bits are free to tell the two apart.
            let of = |bits| Network((v6.to_bits() & (u128::MAX << (128 - bits))) | u128::from(bits));
            (of(NETWORK_BITS), Some(of(SITE_BITS)))
        }
    }
}

/// The connections of every client. Memory: some 50 bytes for each client that has one, and 50 for its site.
#[derive(Debug)]
pub(crate) struct Clients {
    /// 0 for any.
    most: usize,
    present: Mutex<HashMap<Network, usize>>,
    refused: AtomicU64,
}

/// A connection of a client's, until this is dropped.
#[derive(Debug)]
pub(crate) struct OfClient(Option<(Arc<Clients>, IpAddr)>);

impl Clients {
    /// Each client may have so many; 0 for any.
    pub fn new(most: usize) -> Arc<Clients> {
        Arc::new(Clients { most, present: Mutex::default(), refused: AtomicU64::new(0) })
    }

    /// How many connections were refused.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// One more connection from an address; `None` if its client has as many as it may, or its site has.
    pub fn enter(self: &Arc<Self>, address: IpAddr) -> Option<OfClient> {
        if self.most == 0 {
            return Some(OfClient(None));
        }
        let (client, site) = networks(address);
        let mut present = self.present.lock();
        let count = |network: &Network| present.get(network).copied().unwrap_or_default();
        let is_full = count(&client) >= self.most
            || site.is_some_and(|site| count(&site) >= self.most.saturating_mul(WIDER as usize));
        if is_full {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        for network in [Some(client), site].into_iter().flatten() {
            *present.entry(network).or_default() += 1;
        }
        Some(OfClient(Some((self.clone(), address))))
    }
}

impl Drop for OfClient {
    fn drop(&mut self) {
        let Some((clients, address)) = self.0.take() else { return };
        let mut present = clients.present.lock();
        let (client, site) = networks(address);
        for network in [Some(client), site].into_iter().flatten() {
            match present.get_mut(&network) {
                Some(count) if *count > 1 => *count -= 1,
                _ => drop(present.remove(&network)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_has_as_many_as_it_may() {
        let clients = Clients::new(2);
        let enter = |address: &str| clients.enter(address.parse().unwrap());
        let (one, two) = (enter("192.0.2.1").unwrap(), enter("::ffff:192.0.2.1").unwrap());
        assert!(enter("192.0.2.1").is_none());
        assert!(enter("192.0.2.2").is_some(), "another");
        let _network = (enter("2001:db8::1").unwrap(), enter("2001:db8::ffff:1").unwrap());
        assert!(enter("2001:db8::2").is_none(), "one network");
        assert!(enter("2001:db8:0:1::2").is_some(), "the next");
        drop(one);
        let again = enter("192.0.2.1");
        assert!(again.is_some() && enter("192.0.2.1").is_none());
        drop((two, again));
        assert_eq!(
            clients.present.lock().len(),
            2,
            "nobody is remembered who has gone, but a network and its site are there"
        );
    }

    /// A client with 48 bits has 65,536 networks of 64, and would have so many times as much.
    #[test]
    fn a_site_has_sixteen_times_as_many() {
        let clients = Clients::new(2);
        let enter = |network: u16, host: u8| clients.enter(format!("2001:db8:0:{network:x}::{host}").parse().unwrap());
        let all: Vec<_> = (0..16).flat_map(|network| [enter(network, 1), enter(network, 2)]).collect();
        assert!(all.iter().all(Option::is_some));
        assert!(enter(0xffff, 1).is_none());
        assert!(clients.enter("2001:db8:1::1".parse().unwrap()).is_some(), "the next site");
        assert_eq!(clients.refused(), 1);
        drop(all);
        assert!(enter(0xffff, 1).is_some());
    }

    #[test]
    fn networks_are_told_apart() {
        let of = |address: &str| networks(address.parse().unwrap());
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
        assert!(of("192.0.2.1").1.is_none() && of("192.0.2.1").0 != of("192.0.2.2").0);
        let (client, site) = of("2001:db8::1");
        assert_eq!((client, site), of("2001:db8:0:0:ffff::2"));
        assert_ne!(Some(client), site);
        assert!(of("2001:db8:0:1::").1 == site && of("2001:db8:0:1::").0 != client);
        assert!(of("::1").0.0 != 0 && of("0.0.0.0").0.0 != 0);
    }

    #[test]
    fn any_number() {
        let clients = Clients::new(0);
        let all: Vec<_> = (0..100).map(|_| clients.enter("192.0.2.1".parse().unwrap())).collect();
        assert!(all.iter().all(Option::is_some));
        assert!(clients.present.lock().is_empty());
    }
}
