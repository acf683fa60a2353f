//! Which destinations clients of a forward proxy may reach.
//!
//! A proxy stands where its clients do not: its own loopback, the machines beside it, a cloud's metadata service. So
//! addresses that are not public are refused unless the operator opens them. The address is judged, not the name, and
//! the very address that was judged is connected to: a name that resolves differently a moment later gains nothing.

mod address;
mod cidr;

use std::net::IpAddr;

pub use cidr::{BadCidr, Cidr};

/// Ports that tunnels may lead to by default: HTTPS, and news over TLS, as in Squid's `SSL_ports`.
const TUNNEL_PORTS: [u16; 2] = [443, 563];

/// What clients of a forward proxy may reach, besides public addresses at the usual ports.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Addresses that are allowed although they are not public.
    pub allow_destinations: Vec<Cidr>,
    /// Ports to which CONNECT may open tunnels, besides 443 and 563.
    pub allow_connect_ports: Vec<u16>,
}

/// Why a destination is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Denied {
    #[error(
        "{address} is {kind}. The proxy reaches public addresses only; --allow-destination {address} opens this one."
    )]
    Address { address: IpAddr, kind: &'static str },
    #[error("Tunnels may not lead to port {0}; --allow-connect-port {0} opens it. Open without it are 443 and 563.")]
    TunnelPort(u16),
    #[error(
        "Plain HTTP may not be spoken to port {0}, which belongs to another protocol. Open are 80, 443 and above 1024."
    )]
    PlainPort(u16),
}

impl Rules {
    /// Whether CONNECT may lead to this port.
    pub(crate) fn check_tunnel_port(&self, port: u16) -> Result<(), Denied> {
        let open = TUNNEL_PORTS.contains(&port) || self.allow_connect_ports.contains(&port);
        if open { Ok(()) } else { Err(Denied::TunnelPort(port)) }
    }

    /// Whether requests may be sent to this port. Low ports belong to protocols that can be tricked into taking a
    /// request for their own (mail, for one).
    pub(crate) fn check_plain_port(&self, port: u16) -> Result<(), Denied> {
        if matches!(port, 80 | 443 | 1025..) { Ok(()) } else { Err(Denied::PlainPort(port)) }
    }

    /// Whether this address may be connected to.
    pub(crate) fn check_address(&self, address: IpAddr) -> Result<(), Denied> {
        // An IPv6 address can carry an IPv4 address that is the one really reached.
        let inner = address::embedded(address).unwrap_or(address);
        let allowed = |cidr: &Cidr| cidr.contains(address) || cidr.contains(inner);
        if self.allow_destinations.iter().any(allowed) {
            return Ok(());
        }
        match address::not_public(inner) {
            Some(kind) => Err(Denied::Address { address, kind }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rules: &Rules, address: &str) -> bool {
        rules.check_address(address.parse().unwrap()).is_ok()
    }

    #[test]
    fn refused_by_default() {
        let rules = Rules::default();
        for address in [
            "127.0.0.1",
            "127.255.255.254",
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "169.254.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "224.0.0.1",
            "239.1.1.1",
            "240.0.0.1",
            "255.255.255.255",
            "192.0.0.1",
            "198.18.0.1",
            "192.0.2.1",
            "198.51.100.1",
            "203.0.113.1",
            "::",
            "::1",
            "fe80::1",
            "fc00::1",
            "fd00:ec2::254",
            "fec0::1",
            "ff02::1",
            "2001:db8::1",
            "100::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2002:c0a8:101::1",
            "2001:0:1::1",
            "5f00::1",
            "3fff::1",
        ] {
            assert!(!check(&rules, address), "{address}");
        }
        for address in [
            "1.1.1.1",
            "93.184.216.34",
            "172.32.0.1",
            "100.128.0.1",
            "169.253.0.1",
            "192.0.1.1",
            "2606:4700::1111",
            "::ffff:1.1.1.1",
            "64:ff9b::101:101",
            "2002:101:101::1",
        ] {
            assert!(check(&rules, address), "{address}");
        }
    }

    #[test]
    fn opened() {
        let rules = Rules {
            allow_destinations: vec!["10.0.0.0/8".parse().unwrap(), "::1".parse().unwrap()],
            allow_connect_ports: vec![8443],
        };
        for (address, allowed) in [
            ("10.1.2.3", true),
            ("::ffff:10.1.2.3", true),
            ("64:ff9b::a01:203", true),
            ("::1", true),
            ("127.0.0.1", false),
        ] {
            assert_eq!(check(&rules, address), allowed, "{address}");
        }
        assert!(rules.check_tunnel_port(8443).is_ok());
    }

    #[test]
    fn ports() {
        let rules = Rules::default();
        for (port, tunnel, plain) in [
            (443, true, true),
            (563, true, false),
            (80, false, true),
            (22, false, false),
            (25, false, false),
            (1024, false, false),
            (8080, false, true),
            (65535, false, true),
        ] {
            assert_eq!(rules.check_tunnel_port(port).is_ok(), tunnel, "{port}");
            assert_eq!(rules.check_plain_port(port).is_ok(), plain, "{port}");
        }
    }

    #[test]
    fn refusals_name_the_flag() {
        let denied = Rules::default().check_address("127.0.0.1".parse().unwrap()).unwrap_err().to_string();
        assert!(denied.contains("loopback") && denied.contains("--allow-destination 127.0.0.1"), "{denied}");
        let denied = Rules::default().check_tunnel_port(25).unwrap_err().to_string();
        assert!(denied.contains("--allow-connect-port 25"), "{denied}");
    }
}
