//! Who speaks on a connection.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use tinaja_clock::Clock;
use tinaja_http::judge::Judged;
use tinaja_logs::Record;

use super::diverted::Ends;
use super::inside::Inside;
use crate::access::record;
use crate::tls::Served;

/// Who is at the other end of a connection.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    /// The client's: whom its proxies ask for, if they are believed.
    pub address: IpAddr,
    /// Of whoever has connected.
    pub peer: IpAddr,
    /// What the connection was accepted with, where it is by TLS.
    pub served: Option<Served>,
    /// It is another proxy of the same cache.
    pub neighbour: bool,
    /// The tunnel in which it speaks, if that is intercepted here.
    pub inside: Option<Arc<Inside>>,
    /// It speaks in such a tunnel, here or at a neighbour.
    pub intercepted: bool,
    /// Where it was going, if the kernel sent it here.
    pub diverted: Option<Ends>,
}

impl Caller {
    /// Who has just connected.
    pub fn new(address: IpAddr) -> Caller {
        Caller {
            address,
            peer: address,
            served: None,
            neighbour: false,
            inside: None,
            intercepted: false,
            diverted: None,
        }
    }

    /// Whether it speaks for itself alone: nobody stands between it and what it says.
    pub fn is_end(&self) -> bool {
        self.neighbour || self.inside.is_some() || self.diverted.is_some()
    }

    /// A line of the access log for something that began at `began` and ends now.
    pub fn record(&self, began: Instant, clock: &Clock) -> Record {
        let chosen = self.diverted.map(|ends| ends.chosen.to_string());
        Record { chosen, ..record(self.address, began, clock) }
    }

    /// Where the tunnel of one of its requests leads to, as logs show it. What is said inside does not count.
    pub fn tunnel(&self, judged: &Judged) -> String {
        let host = || judged.authority.as_ref().map(ToString::to_string).unwrap_or_default();
        self.inside.as_ref().map_or_else(host, |inside| inside.to_string())
    }
}
