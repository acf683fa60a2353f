//! Where servers are told to listen.

use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

use crate::error::LabError;

/// Below what outgoing connections are given by default: of those, one may take a port between the moment it is found to be
/// free and the moment the server listens there.
const PORTS: std::ops::Range<u16> = 30_000..32_768;

/// An address on loopback that nobody listens on at the moment, and that this process gives out once.
///
/// Two processes begin at different ports, by their numbers. Errors: none is free.
pub fn free_address() -> Result<SocketAddrV4, LabError> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let begin = u64::from(std::process::id()) * 64;
    for _ in PORTS {
        let n = begin + u64::from(NEXT.fetch_add(1, Relaxed));
        // Less than the length of the range, which fits.
        let port = PORTS.start + (n % PORTS.len() as u64) as u16;
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        // By connecting, since a listener of our own could live on in a process that is started at this moment.
        if TcpStream::connect(address).is_err() {
            return Ok(address);
        }
    }
    let why = format!("nothing is free from port {} to {}", PORTS.start, PORTS.end - 1);
    Err(LabError::failed("finding a port to listen on", why))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::net::TcpListener;

    use super::*;

    /// Each is given once, none is taken, and none is one that an outgoing connection may be given.
    #[test]
    fn addresses_are_free_and_given_once() {
        let first = free_address().unwrap();
        // Where the next one would be, if nobody else asks meanwhile.
        let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, first.port() + 1));
        let mut given = HashSet::from([first]);
        for _ in 0..50 {
            let address = free_address().unwrap();
            assert!(TcpStream::connect(address).is_err());
            assert!(PORTS.contains(&address.port()) && given.insert(address), "{address}");
        }
    }
}
