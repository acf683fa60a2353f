//! The tunnels that the proxy has opened, each by both of its ends.
//!
//! Where the kernel sends the machine's own connections here too, and not all but the proxy's, each tunnel would come back as another
//! one, without end: tunnels have no Via. A connection with the ends of one of these is the proxy's own. One end alone says nothing:
//! systems share a port among connections to different addresses, so another program's may come from it too.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;

/// Where a connection comes from, and where it goes.
type Ends = (SocketAddr, SocketAddr);

/// Those that are open, and how many have the same ends: a system may give ends to the next while this proxy is still busy with the
/// last. Memory: some 80 bytes each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dialled(Arc<Mutex<HashMap<Ends, usize>>>);

/// One of them, for as long as this is there.
#[derive(Debug)]
pub(crate) struct Outgoing {
    all: Dialled,
    ends: Option<Ends>,
}

impl Dialled {
    /// Knows of one to `to` that has just been opened. Of one whose own address the system does not say it does not.
    pub fn add(&self, from: io::Result<SocketAddr>, to: SocketAddr) -> Outgoing {
        let ends = from.ok().map(|from| canonical(from, to));
        if let Some(ends) = ends {
            *self.0.lock().entry(ends).or_default() += 1;
        }
        Outgoing { all: self.clone(), ends }
    }

    /// Whether a connection from there, to the address that its client chose, is one of them.
    pub fn has(&self, peer: SocketAddr, chosen: SocketAddr) -> bool {
        self.0.lock().contains_key(&canonical(peer, chosen))
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        let Some(ends) = self.ends else { return };
        let mut all = self.all.0.lock();
        if let Some(count) = all.get_mut(&ends) {
            *count -= 1;
            if *count == 0 {
                all.remove(&ends);
            }
        }
    }
}

fn canonical(from: SocketAddr, to: SocketAddr) -> Ends {
    let canonical = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
    (canonical(from), canonical(to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_long_as_it_is_open() {
        let dialled = Dialled::default();
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let (from, to, elsewhere) = (address("192.0.2.1:4000"), address("192.0.2.9:443"), address("192.0.2.8:443"));
        let outgoing = dialled.add(Ok(from), to);
        let _unknown = dialled.add(Err(io::ErrorKind::NotConnected.into()), to);
        assert!(
            dialled.has(from, to) && dialled.has(address("[::ffff:192.0.2.1]:4000"), address("[::ffff:192.0.2.9]:443"))
        );
        assert!(!dialled.has(address("192.0.2.1:4001"), to) && !dialled.has(address("192.0.2.2:4000"), to));
        // Another program's, from the same port to elsewhere.
        assert!(!dialled.has(from, elsewhere));
        // The next with the same ends, which outlives the first.
        let next = dialled.add(Ok(from), to);
        drop(outgoing);
        assert!(dialled.has(from, to));
        drop(next);
        assert!(!dialled.has(from, to) && dialled.0.lock().is_empty());
    }
}
