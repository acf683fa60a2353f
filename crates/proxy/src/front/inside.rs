//! What a connection inside an intercepted tunnel may ask for.

use std::fmt;
use std::net::SocketAddr;

use tinaja_http::authority::Authority;
use tinaja_http::judge::{Judged, Target};

use super::Way;
use crate::diverted::{Chosen, Proof};
use crate::exchange::Request;
use crate::failure::Failure;
use crate::origin::{Destination, default_port};

/// A tunnel that is intercepted: what its certificate was made for, and the port that it leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Inside {
    pub name: String,
    pub port: u16,
}

impl Inside {
    /// The way of a request inside: to the tunnel's own end by TLS, and nowhere else. What is stored has that name, and a client
    /// that asks for another has not seen a certificate for it (RFC 9110 7.4). `chosen` is the address that the client chose, where it
    /// knows of no proxy.
    ///
    /// Errors: [`Failure::OtherThanTunnel`].
    pub fn way<'a>(&self, judged: &'a Judged, chosen: Option<SocketAddr>) -> Result<Way<'a>, Failure> {
        let path = match &judged.target {
            Target::Origin(path) | Target::Absolute { tls: true, path } => path.as_str(),
            Target::Asterisk => "*",
            Target::Absolute { tls: false, .. } => return Err(Failure::OtherThanTunnel),
            Target::Tunnel => return Err(Failure::NoUpgrade),
        };
        let host = judged.authority.as_ref().filter(|host| self.is(host)).ok_or(Failure::OtherThanTunnel)?;
        Ok(Way {
            path: path.into(),
            host: host.clone(),
            host_tls: true,
            destination: self.destination(),
            behind: None,
            mirror: None,
            chosen: chosen.map(|address| Chosen { address, proof: Proof::Certificate }),
        })
    }

    /// Where the tunnel leads to.
    pub fn destination(&self) -> Destination {
        Destination { tls: true, host: self.name.clone(), port: self.port }
    }

    fn is(&self, host: &Authority) -> bool {
        host.host() == self.name && host.port_or(default_port(true)) == self.port
    }

    /// Whether a request asks for another protocol than HTTP. A proxy may ignore Upgrade, but a WebSocket would then fail.
    pub fn leaves_http(request: &Request) -> bool {
        !request.counts_hops() && request.asked_protocols().next().is_some()
    }
}

impl fmt::Display for Inside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inside { name, port } = self;
        if name.contains(':') { write!(f, "[{name}]:{port}") } else { write!(f, "{name}:{port}") }
    }
}

#[cfg(test)]
mod tests {
    use tinaja_http::judge::judge;

    use super::*;

    #[test]
    fn its_own_end_and_no_other() {
        let usual = Inside { name: "a.example".into(), port: 443 };
        let other = Inside { name: "a.example".into(), port: 8443 };
        for (inside, line, host, path) in [
            (&usual, "GET /x?y", "a.example", Some("/x?y")),
            (&usual, "GET /x", "A.Example:443", Some("/x")),
            (&usual, "GET https://a.example/x", "a.example", Some("/x")),
            (&usual, "OPTIONS *", "a.example", Some("*")),
            (&usual, "GET /x", "b.example", None),
            (&usual, "GET /x", "a.example.", None),
            (&usual, "GET /x", "a.example:8443", None),
            (&usual, "GET http://a.example/x", "a.example", None),
            (&usual, "GET https://b.example/x", "b.example", None),
            (&usual, "CONNECT a.example:443", "a.example:443", None),
            (&other, "GET /x", "a.example:8443", Some("/x")),
            (&other, "GET /x", "a.example", None),
            (&other, "GET https://a.example/x", "a.example", None),
        ] {
            let judged = judge(format!("{line} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).unwrap();
            let way = inside.way(&judged, None);
            assert_eq!(way.as_ref().ok().map(|way| &*way.path), path, "{line} {host}");
            if let Ok(way) = way {
                assert_eq!((way.destination, way.host_tls), (inside.destination(), true), "{line} {host}");
            }
        }
        let old = judge(b"GET /x HTTP/1.0\r\n\r\n").unwrap();
        assert!(usual.way(&old, None).is_err(), "it says for which host it is, or nothing");
        assert_eq!(Inside { name: "::1".into(), port: 1 }.to_string(), "[::1]:1");
    }
}
