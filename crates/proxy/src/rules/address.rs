//! Which addresses are not public.
//!
//! The list is that of IANA's registries of special-purpose addresses (RFC 6890, as updated by RFC 8190), with those of multicast
//! beside them:
//! <https://www.iana.org/assignments/iana-ipv4-special-registry>, <https://www.iana.org/assignments/iana-ipv6-special-registry>,
//! <https://www.iana.org/assignments/multicast-addresses>, <https://www.iana.org/assignments/ipv6-address-space>.
//! What these call globally reachable and is anycast (AS112, AMT, relays of 6to4) is in it: it leads to whoever is nearest to the
//! proxy, where its clients do not get. Clouds have services on addresses of their own; those that no registry covers are named:
//! <https://learn.microsoft.com/en-us/azure/virtual-network/what-is-ip-address-168-63-129-16>.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The IPv4 address that an IPv6 address stands for: mapped (RFC 4291 2.5.5.2), compatible (2.5.5.1), translated by
/// NAT64 (RFC 6052 2.1) or reached by 6to4 (RFC 3056 2).
pub(super) fn embedded(address: IpAddr) -> Option<IpAddr> {
    let IpAddr::V6(address) = address else { return None };
    let [a, b, c, d, e, f, g, h] = address.segments();
    let low = |high: u16, low: u16| Some(IpAddr::V4(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low))));
    match (a, b, c, d, e, f) {
        (0, 0, 0, 0, 0, 0xffff) | (0x64, 0xff9b, 0, 0, 0, 0) => low(g, h),
        // `::` and `::1` are addresses of their own.
        (0, 0, 0, 0, 0, 0) if g != 0 || h > 1 => low(g, h),
        (0x2002, ..) => low(b, c),
        _ => None,
    }
}

/// What an address is if it is not public, as in "127.0.0.1 is ...".
pub(super) fn not_public(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => v4(address),
        IpAddr::V6(address) => v6(address),
    }
}

fn v4(address: Ipv4Addr) -> Option<&'static str> {
    Some(match address.octets() {
        [0, ..] => "an address of this host (0.0.0.0/8)",
        [127, ..] => "a loopback address (127.0.0.0/8)",
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => "a private address (RFC 1918)",
        [169, 254, 169, 254] => "a cloud's metadata service (169.254.169.254)",
        [169, 254, ..] => "a link-local address (169.254.0.0/16)",
        [100, 64..=127, ..] => "a carrier's internal address (100.64.0.0/10)",
        [168, 63, 129, 16] => "a cloud's platform service (168.63.129.16)",
        [192, 88, 99, _] => "an address of 6to4 relays (192.88.99.0/24)",
        [192, 31, 196, _] | [192, 175, 48, _] => "an address of the nearest AS112 server",
        [192, 52, 193, _] => "an address of the nearest AMT relay (192.52.193.0/24)",
        [192, 0, 0, _] => "an address reserved for protocols (192.0.0.0/24)",
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => "an address for documentation",
        [198, 18..=19, ..] => "an address for benchmarks (198.18.0.0/15)",
        [224..=239, ..] => "a multicast address (224.0.0.0/4)",
        [240..=255, ..] => "a reserved address (240.0.0.0/4)",
        _ => return None,
    })
}

fn v6(address: Ipv6Addr) -> Option<&'static str> {
    Some(match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => "the unspecified address (::)",
        [0, 0, 0, 0, 0, 0, 0, 1] => "the loopback address (::1)",
        [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254] => "a cloud's metadata service (fd00:ec2::254)",
        [0xfc00..=0xfdff, ..] => "a private address (fc00::/7)",
        [0xfe80..=0xfebf, ..] => "a link-local address (fe80::/10)",
        [0xfec0..=0xfeff, ..] => "a site-local address (fec0::/10)",
        [0xff00..=0xffff, ..] => "a multicast address (ff00::/8)",
        [0x64, 0xff9b, 1, ..] => "a local NAT64 address (64:ff9b:1::/48)",
        [0x2001, 0, ..] => "a Teredo address (2001::/32)",
        [0x2001, 0..=0x1ff, ..] => "an address reserved for protocols (2001::/23)",
        [0x2620, 0x4f, 0x8000, ..] => "an address of the nearest AS112 server",
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => "an address for documentation",
        // All that is given out to the public Internet is in 2000::/3; NAT64 and 6to4 were looked into before.
        [0x2000..=0x3fff, ..] => return None,
        _ => "an unassigned address",
    })
}
