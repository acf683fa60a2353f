//! Connections that the kernel sent here, whose clients know of no proxy: where they were going, and whose address that is.
//!
//! - `vouched`: names that this proxy's resolver has found at an address
//! - `dialled`: tunnels of this proxy's own, so that one that comes back is known
//!
//! # Decisions
//!
//! - What a client of such a connection says of its host proves nothing: it has chosen an address, and may say any name (CVE-2009-0801).
//!   A plain request is for the host that it names only if that name is at the address by this proxy's own resolver, or its answer would
//!   be stored under somebody else's name. By TLS the origin's certificate proves the name, and no resolver is asked.
//! - An answer whose host is not proved is neither stored nor looked up: under a name with the address in it, it would be one client's
//!   to fill and nobody's to use.
//! - The address that the client chose is asked first, in each case. Where the name is at further addresses, those are asked if it does
//!   not answer: the client would have gone on to them if this proxy had not accepted its connection.

mod dialled;
mod vouched;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

use nix::sys::socket::sockopt::IpTransparent;
use nix::sys::socket::{getsockopt, setsockopt};
use rustix::net::sockopt::{ip_original_dst, ipv6_original_dst};

pub(crate) use dialled::{Dialled, Outgoing};
pub(crate) use vouched::Vouched;

/// How the kernel sends connections to a listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Diversion {
    /// By nftables' `redirect` or `dnat`, which change the address that the client chose; connection tracking knows it still. Needs no
    /// privilege.
    #[default]
    Redirect,
    /// By `tproxy`, which changes nothing. The listener takes connections to any address, for which it needs CAP_NET_ADMIN.
    Tproxy,
}

impl Diversion {
    /// The address that a client chose.
    ///
    /// Errors: what the system says; of a connection that connection tracking does not know, ENOENT.
    pub(crate) fn chosen(self, stream: impl AsFd, at: SocketAddr) -> io::Result<SocketAddr> {
        let chosen = match (self, at.ip().to_canonical()) {
            (Diversion::Tproxy, _) => at,
            // One by IPv4 to a listener for both is one by IPv4.
            (Diversion::Redirect, IpAddr::V4(_)) => SocketAddr::V4(ip_original_dst(stream)?),
            (Diversion::Redirect, IpAddr::V6(_)) => SocketAddr::V6(ipv6_original_dst(stream)?),
        };
        Ok(SocketAddr::new(chosen.ip().to_canonical(), chosen.port()))
    }
}

impl fmt::Display for Diversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Diversion::Redirect => "redirect",
            Diversion::Tproxy => "tproxy",
        })
    }
}

/// Has a listener take connections to addresses that are not this machine's. One that does so already, as one that was handed over,
/// needs no privilege for it.
///
/// Errors: what the system says; without CAP_NET_ADMIN and CAP_NET_RAW, EPERM.
pub(crate) fn take_any_address(listener: impl AsFd) -> io::Result<()> {
    if getsockopt(&listener, IpTransparent)? {
        return Ok(());
    }
    Ok(setsockopt(&listener, IpTransparent, &true)?)
}

/// Where the client of a diverted connection wanted to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    /// The address, in its canonical form.
    pub address: SocketAddr,
    pub proof: Proof,
}

/// What proves that a request's host is at the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// This proxy's resolver, or the host is the address.
    Names,
    /// The origin's certificate, which is checked before anything is asked.
    Certificate,
    /// Nothing does.
    Nothing,
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn what_was_not_diverted_went_to_the_listener_or_nowhere() {
        for any in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(any) else { continue };
            let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (stream, _) = listener.accept().unwrap();
            let at = stream.local_addr().unwrap();
            assert_eq!(Diversion::Tproxy.chosen(&stream, at).unwrap(), at);
            // Where connections are tracked it is known; where not, that is an error.
            assert!(Diversion::Redirect.chosen(&stream, at).map_or(true, |chosen| chosen == at));
        }
        let mapped: SocketAddr = "[::ffff:192.0.2.1]:80".parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(Diversion::Tproxy.chosen(&listener, mapped).unwrap(), "192.0.2.1:80".parse().unwrap());
    }
}
