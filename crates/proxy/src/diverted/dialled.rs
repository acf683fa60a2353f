//! The proxy's own ends of the tunnels that it has opened.
//!
//! Where the kernel sends the machine's own connections here too, and not all but the proxy's, each tunnel would come back as another
//! one, without end: tunnels have no Via. A connection that comes from one of these is the proxy's own.

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;

/// The ends that are open. Memory: some 40 bytes each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dialled(Arc<Mutex<HashSet<SocketAddr>>>);

/// One of them, for as long as this is there.
#[derive(Debug)]
pub(crate) struct Outgoing {
    all: Dialled,
    end: Option<SocketAddr>,
}

impl Dialled {
    /// Knows of one that has just been opened. Of one whose address the system does not say it does not.
    pub fn add(&self, end: io::Result<SocketAddr>) -> Outgoing {
        let end = end.ok().map(canonical);
        if let Some(end) = end {
            self.0.lock().insert(end);
        }
        Outgoing { all: self.clone(), end }
    }

    /// Whether a connection comes from one of them.
    pub fn has(&self, peer: SocketAddr) -> bool {
        self.0.lock().contains(&canonical(peer))
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        if let Some(end) = self.end {
            self.all.0.lock().remove(&end);
        }
    }
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_long_as_it_is_open() {
        let dialled = Dialled::default();
        let end: SocketAddr = "192.0.2.1:4000".parse().unwrap();
        let outgoing = dialled.add(Ok(end));
        let _unknown = dialled.add(Err(io::ErrorKind::NotConnected.into()));
        assert!(dialled.has(end) && dialled.has("[::ffff:192.0.2.1]:4000".parse().unwrap()));
        assert!(!dialled.has("192.0.2.1:4001".parse().unwrap()) && !dialled.has("192.0.2.2:4000".parse().unwrap()));
        drop(outgoing);
        assert!(!dialled.has(end));
    }
}
