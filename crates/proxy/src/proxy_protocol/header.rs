//! The header of the PROXY protocol, versions 1 and 2, as bytes.
//!
//! What the specification leaves open is decided strictly: a header that can be read in two ways is none. What it tells receivers to skip
//! is skipped: addresses that are no IP addresses, and what follows the addresses in version 2 (TLVs).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::Buf;

/// How version 2 begins.
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// How version 1 begins.
const WORD: &[u8] = b"PROXY ";
/// The longest line of version 1, with its CR LF (section 2.1).
const MOST_LINE_BYTES: usize = 107;
/// Bytes of version 2 before the addresses.
const FIXED_BYTES: usize = 16;
/// As many bytes tell all that is read of a header.
pub(super) const MOST_BYTES: usize = 128;

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// The client's address; `None` where it is the proxy itself that asks (a health check), or the client has none.
    pub client: Option<IpAddr>,
    /// Bytes of all of it.
    pub bytes: usize,
}

/// Bytes that begin no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("it begins with something else")]
    NoHeader,
    #[error("its line does not end within 107 bytes")]
    Endless,
    #[error("its line is not as version 1 has it")]
    Line,
    #[error("it is of version {0}")]
    Version(u8),
    #[error("its command is {0}, and there are 0 (LOCAL) and 1 (PROXY)")]
    Command(u8),
    #[error("its family and protocol are {0:#04x}, which do not exist")]
    Family(u8),
    #[error("it has no room for the addresses that it is to have")]
    Short,
}

/// The header that a connection begins with; `None` if more bytes are needed. All bytes belong to the header where more are needed.
pub(super) fn header(bytes: &[u8]) -> Result<Option<Header>, Malformed> {
    let begins_with = |begin: &[u8]| bytes.iter().zip(begin).all(|(one, other)| one == other);
    match () {
        () if begins_with(SIGNATURE) => binary(bytes),
        () if begins_with(WORD) => text(bytes),
        () => Err(Malformed::NoHeader),
    }
}

fn text(bytes: &[u8]) -> Result<Option<Header>, Malformed> {
    let line = bytes.get(..MOST_LINE_BYTES.min(bytes.len())).unwrap_or(bytes);
    let Some(end) = line.iter().position(|byte| *byte == b'\n') else {
        return if line.len() < MOST_LINE_BYTES { Ok(None) } else { Err(Malformed::Endless) };
    };
    let line = line.get(..end).and_then(|line| line.strip_suffix(b"\r")).ok_or(Malformed::Line)?;
    let line = std::str::from_utf8(line).ok().filter(|line| !line.contains('\r')).ok_or(Malformed::Line)?;
    let words: Vec<&str> = line.split(' ').collect();
    let client = match &words[..] {
        // What follows is to be ignored (section 2.1).
        [_, "UNKNOWN", ..] => None,
        [_, family @ ("TCP4" | "TCP6"), from, to, from_port, to_port] => {
            let is_there = port(from_port) && port(to_port);
            let addresses = match *family {
                "TCP4" => from.parse::<Ipv4Addr>().ok().zip(to.parse::<Ipv4Addr>().ok()).map(|(from, _)| from.into()),
                _ => from.parse::<Ipv6Addr>().ok().zip(to.parse::<Ipv6Addr>().ok()).map(|(from, _)| from.into()),
            };
            Some(addresses.filter(|_| is_there).ok_or(Malformed::Line)?)
        }
        _ => return Err(Malformed::Line),
    };
    Ok(Some(Header { client: client.map(|client: IpAddr| client.to_canonical()), bytes: end + 1 }))
}

/// Whether a text is a port, without zeros in front.
fn port(text: &str) -> bool {
    text.parse::<u16>().is_ok_and(|port| port.to_string() == text)
}

fn binary(bytes: &[u8]) -> Result<Option<Header>, Malformed> {
    let Some((_, mut rest)) = bytes.split_at_checked(SIGNATURE.len()) else { return Ok(None) };
    if rest.len() < FIXED_BYTES - SIGNATURE.len() {
        return Ok(None);
    }
    let (version, family, follows) = (rest.get_u8(), rest.get_u8(), usize::from(rest.get_u16()));
    let header = |client: Option<IpAddr>| {
        Ok(Some(Header { client: client.map(|client| client.to_canonical()), bytes: FIXED_BYTES + follows }))
    };
    match (version >> 4, version & 0xf) {
        // The proxy's own connection: whatever follows is to be ignored.
        (2, 0) => return header(None),
        (2, 1) => {}
        (2, command) => return Err(Malformed::Command(command)),
        (version, _) => return Err(Malformed::Version(version)),
    }
    let address_bytes = match family {
        0x00 => 0,
        0x11 | 0x12 => 12,
        0x21 | 0x22 => 36,
        0x31 | 0x32 => 216,
        family => return Err(Malformed::Family(family)),
    };
    match address_bytes {
        needed if follows < needed => Err(Malformed::Short),
        12 if rest.len() >= 12 => header(Some(Ipv4Addr::from_bits(rest.get_u32()).into())),
        36 if rest.len() >= 36 => header(Some(Ipv6Addr::from_bits(rest.get_u128()).into())),
        12 | 36 => Ok(None),
        // Of no family, or of the proxy's own machine.
        _ => header(None),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(line: &str) -> Result<Option<Header>, Malformed> {
        header(line.as_bytes())
    }

    /// A header of version 2.
    fn of(version: u8, family: u8, address: &[u8], follows: usize) -> Vec<u8> {
        let length = u16::try_from(follows).unwrap().to_be_bytes();
        [SIGNATURE, &[version, family], &length, address, &vec![7; follows.saturating_sub(address.len())]].concat()
    }

    #[test]
    fn lines() {
        for (text, client) in [
            ("PROXY TCP4 192.0.2.1 198.51.100.7 56324 443\r\n", Some("192.0.2.1")),
            ("PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n", Some("255.255.255.255")),
            ("PROXY TCP6 2001:db8::1 ::1 0 80\r\n", Some("2001:db8::1")),
            ("PROXY TCP6 ::ffff:192.0.2.1 ::1 1 80\r\n", Some("192.0.2.1")),
            ("PROXY UNKNOWN\r\n", None),
            ("PROXY UNKNOWN ffff:f...f:ffff  whatever 65535\r\n", None),
        ] {
            let client = client.map(|client| client.parse().unwrap());
            assert_eq!(line(text), Ok(Some(Header { client, bytes: text.len() })), "{text}");
            assert_eq!(line(&format!("{text}GET /")), line(text));
        }
        for text in [
            "PROXY TCP4 192.0.2.1 198.51.100.7 56324\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.7 56324 443 1\r\n",
            "PROXY TCP4  192.0.2.1 198.51.100.7 56324 443\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.7 056324 443\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.7 +1 443\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.7 1 65536\r\n",
            "PROXY TCP4 192.0.2.01 198.51.100.7 1 443\r\n",
            "PROXY TCP4 2001:db8::1 ::1 1 443\r\n",
            "PROXY TCP6 192.0.2.1 198.51.100.7 1 443\r\n",
            "PROXY TCP6 fe80::1%eth0 ::1 1 443\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.7 1 443\n",
            "PROXY TCP4 192.0.2.1 198.51.100.7 1 443 \r\n",
            "PROXY TCP4\r192.0.2.1 198.51.100.7 1 443\r\n",
            "PROXY tcp4 192.0.2.1 198.51.100.7 1 443\r\n",
            "PROXY UNKNOWN\r\r\n",
            "PROXY UNKNOWNS\r\n",
            "PROXY \r\n",
        ] {
            assert_eq!(line(text), Err(Malformed::Line), "{text:?}");
        }
        for text in ["GET / HTTP/1.1\r\n", "proxy TCP4", "PROXYTCP4", "\r\n\r\nG", " PROXY", "\x16\x03\x01"] {
            assert_eq!(line(text), Err(Malformed::NoHeader), "{text:?}");
        }
        let long = format!("PROXY UNKNOWN {}\r\n", "x".repeat(91));
        assert_eq!((long.len(), line(&long).unwrap().unwrap().bytes), (107, 107));
        assert_eq!(line(&long.replace("x\r", "xx\r")), Err(Malformed::Endless));
    }

    #[test]
    fn version_2() {
        let v4 = [192, 0, 2, 1, 198, 51, 100, 7, 0xdc, 4, 1, 0xbb];
        let v6 = [&Ipv6Addr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1]).octets()[..], &[0; 20]].concat();
        for (bytes, client) in [
            (of(0x21, 0x11, &v4, 12), Some("192.0.2.1")),
            (of(0x21, 0x12, &v4, 500), Some("192.0.2.1")),
            (of(0x21, 0x21, &v6, 36), Some("2001:db8::1")),
            (of(0x21, 0x22, &v6, 65_535), Some("2001:db8::1")),
            (of(0x21, 0x31, &[], 216), None),
            (of(0x21, 0x00, &[], 9), None),
            // The family of the proxy's own connection is ignored.
            (of(0x20, 0xff, &[], 3), None),
            (of(0x20, 0x00, &[], 0), None),
        ] {
            let client = client.map(|client| client.parse().unwrap());
            assert_eq!(header(&bytes), Ok(Some(Header { client, bytes: bytes.len() })));
            let most = bytes.len().min(MOST_BYTES);
            assert_eq!(header(&bytes[..most]), header(&bytes), "what is read of it tells");
        }
        for (bytes, why) in [
            (of(0x21, 0x11, &[], 11), Malformed::Short),
            (of(0x21, 0x21, &[], 35), Malformed::Short),
            (of(0x21, 0x31, &[], 215), Malformed::Short),
            (of(0x21, 0x13, &v4, 12), Malformed::Family(0x13)),
            (of(0x21, 0x41, &v4, 12), Malformed::Family(0x41)),
            (of(0x22, 0x11, &v4, 12), Malformed::Command(2)),
            (of(0x11, 0x11, &v4, 12), Malformed::Version(1)),
            (of(0x31, 0x11, &v4, 12), Malformed::Version(3)),
        ] {
            assert_eq!(header(&bytes), Err(why));
        }
    }

    proptest! {
        /// Whatever comes and however it is cut: an answer, never another one for more of the same, and never a header of
        /// which less than all has come without its saying so.
        #[test]
        fn any_bytes(bytes in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..300),
            "PROXY (TCP4|TCP6|UNKNOWN)[ 0-9a-f:.]{0,100}(\r\n)?[a-z]{0,9}".prop_map(String::into_bytes),
            (any::<u8>(), any::<u8>(), 0..400_usize).prop_map(|(version, family, follows)| of(version, family, &[], follows)),
        ]) {
            let mut before = Ok(None);
            for length in 0..=bytes.len() {
                let now = header(&bytes[..length]);
                prop_assert!(before == Ok(None) || before == now, "{before:?} {now:?}");
                prop_assert!(now != Ok(None) || length < MOST_BYTES);
                before = now;
            }
        }
    }
}
