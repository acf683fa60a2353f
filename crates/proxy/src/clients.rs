//! How many connections each client has: one address, or one network of IPv6 that a client is usually given whole.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;

/// The bits of an address of IPv6 that a network has, in which a client chooses the rest (RFC 6177).
const NETWORK_BITS: u32 = 64;

/// The connections of every client. Memory: some 50 bytes for each client that has one.
#[derive(Debug)]
pub(crate) struct Clients {
    /// 0 for any.
    most: usize,
    present: Mutex<HashMap<IpAddr, usize>>,
}

/// A connection of a client's, until this is dropped.
#[derive(Debug)]
pub(crate) struct OfClient(Option<(Arc<Clients>, IpAddr)>);

impl Clients {
    /// Each client may have so many; 0 for any.
    pub fn new(most: usize) -> Arc<Clients> {
        Arc::new(Clients { most, present: Mutex::default() })
    }

    /// One more connection from an address; `None` if its client has as many as it may.
    pub fn enter(self: &Arc<Self>, address: IpAddr) -> Option<OfClient> {
        if self.most == 0 {
            return Some(OfClient(None));
        }
        let client = client_of(address);
        let mut present = self.present.lock();
        let count = present.get(&client).copied().unwrap_or_default();
        (count < self.most).then(|| {
            present.insert(client, count + 1);
            OfClient(Some((self.clone(), client)))
        })
    }
}

impl Drop for OfClient {
    fn drop(&mut self) {
        let Some((clients, client)) = self.0.take() else { return };
        let mut present = clients.present.lock();
        match present.get_mut(&client) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(present.remove(&client)),
        }
    }
}

/// What counts as one client.
fn client_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << NETWORK_BITS)).into(),
        address => address,
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
        assert_eq!(clients.present.lock().len(), 1, "nobody is remembered who has gone");
    }

    #[test]
    fn any_number() {
        let clients = Clients::new(0);
        let all: Vec<_> = (0..100).map(|_| clients.enter("192.0.2.1".parse().unwrap())).collect();
        assert!(all.iter().all(Option::is_some));
        assert!(clients.present.lock().is_empty());
    }
}
