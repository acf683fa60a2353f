//! What all rooms of one running proxy share.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};

use crate::access::AccessLog;
use crate::config::{Limits, Mode};
use crate::failure::Failure;
use crate::rules::Rules;

/// One running proxy's settings and its access log.
#[derive(Debug)]
pub(crate) struct Shared {
    pub mode: Mode,
    pub rules: Rules,
    pub limits: Limits,
    /// The name in Via, by which loops are found.
    pub name: String,
    /// Where the proxy listens.
    pub listen: Vec<SocketAddr>,
    pub log: AccessLog,
}

impl Shared {
    /// Whether this address may be connected to in this mode. The proxy itself never may: that is a loop.
    pub fn check_address(&self, address: SocketAddr) -> Result<(), Failure> {
        if self.is_self(address) {
            return Err(Failure::Loop);
        }
        match self.mode {
            Mode::Forward => Ok(self.rules.check_address(address.ip())?),
            Mode::Reverse { .. } => Ok(()),
        }
    }

    fn is_self(&self, address: SocketAddr) -> bool {
        let ip = address.ip().to_canonical();
        let local = ip.is_loopback() || ip.is_unspecified();
        self.listen.iter().filter(|listen| listen.port() == address.port()).any(|listen| {
            let listening = listen.ip().to_canonical();
            listening == ip || (listening.is_unspecified() && local) || (is_any(ip) && listening.is_loopback())
        })
    }
}

/// Connecting to the unspecified address reaches loopback.
fn is_any(ip: IpAddr) -> bool {
    ip.is_unspecified()
}

/// A name for Via that no other proxy has.
pub(crate) fn unique_name() -> String {
    // RandomState is seeded from the system's randomness for each process, and differs with each use.
    format!("tinaja-{:016x}", RandomState::new().hash_one(std::process::id()))
}
