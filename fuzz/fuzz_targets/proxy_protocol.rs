//! The header of the PROXY protocol: the address that a naive reader finds, or a refusal; the same however the bytes are cut; and what is
//! well-formed is taken.
#![no_main]
#![allow(dead_code)]

// The file is the proxy's own and private; it knows nothing of the rest of it.
#[path = "../../crates/proxy/src/proxy_protocol/header.rs"]
mod header;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use header::{Header, MOST_BYTES, Malformed, header};

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((mode, data)) = data.split_first() else { return };
    match mode % 4 {
        0 => read(data),
        // Behind a beginning that the fuzzer would have to guess.
        1 => read(&[b"PROXY ", data].concat()),
        2 => read(&[SIGNATURE, data].concat()),
        _ => write(data),
    }
});

/// Any bytes: what is said of them, what is said of their beginnings, and what a naive reader says.
fn read(bytes: &[u8]) {
    let said = header(bytes);
    let mut before = Ok(None);
    for length in 0..=bytes.len().min(2 * MOST_BYTES) {
        let now = header(&bytes[..length]);
        assert!(before == Ok(None) || before == now, "{before:?}, and with a byte more {now:?}");
        assert!(now != Ok(None) || length < MOST_BYTES, "{length} bytes tell nothing");
        before = now;
    }
    if bytes.len() <= 2 * MOST_BYTES {
        assert_eq!(before, said);
    }
    let Ok(Some(Header { client, bytes: length })) = said else { return };
    // The same address in two forms would be two clients.
    assert_eq!(client, client.map(|client| client.to_canonical()));
    let naive = if bytes.starts_with(SIGNATURE) { binary(bytes) } else { line(bytes) };
    assert_eq!(naive, Some((client, length)), "{}", bytes.escape_ascii());
}

/// What a line of version 1 that is taken says: it has come whole, is short, and consists of six words, or says that nothing is known.
fn line(bytes: &[u8]) -> Option<(Option<IpAddr>, usize)> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n").filter(|end| end + 2 <= 107)?;
    let text = String::from_utf8(bytes[..end].to_vec()).ok()?;
    assert!(!text.contains(['\r', '\n']));
    let mut words = text.split(' ');
    assert_eq!(words.next(), Some("PROXY"));
    let family = words.next()?;
    if family == "UNKNOWN" {
        return Some((None, end + 2));
    }
    let rest: Vec<&str> = words.collect();
    let [from, to, from_port, to_port] = rest[..] else { return None };
    // As an address with its port is read: a way of its own, and no laxer but for zeros before ports.
    let joined = |address: &str, port: &str| match family {
        "TCP4" => format!("{address}:{port}").parse::<SocketAddr>().ok().filter(SocketAddr::is_ipv4),
        "TCP6" => format!("[{address}]:{port}").parse::<SocketAddr>().ok().filter(SocketAddr::is_ipv6),
        _ => None,
    };
    let (from, _) = joined(from, from_port).zip(joined(to, to_port))?;
    Some((Some(from.ip().to_canonical()), end + 2))
}

/// The same of version 2.
fn binary(bytes: &[u8]) -> Option<(Option<IpAddr>, usize)> {
    let follows = usize::from(bytes[14]) * 256 + usize::from(bytes[15]);
    let address = match (bytes[12], bytes[13]) {
        (0x20, _) => None,
        (0x21, 0x11 | 0x12) if follows >= 12 => Some(IpAddr::from(<[u8; 4]>::try_from(&bytes[16..20]).ok()?)),
        (0x21, 0x21 | 0x22) if follows >= 36 => Some(IpAddr::from(<[u8; 16]>::try_from(&bytes[16..32]).ok()?)),
        (0x21, 0x00) => None,
        (0x21, 0x31 | 0x32) if follows >= 216 => None,
        _ => return None,
    };
    Some((address.map(|address| address.to_canonical()), 16 + follows))
}

/// A well-formed header, as other proxies write it: it is taken, says who was meant, and ends where it ends.
fn write(data: &[u8]) {
    let Some((numbers, behind)) = data.split_at_checked(40) else { return };
    let port = |at: usize| u16::from_be_bytes([numbers[at], numbers[at + 1]]);
    let (from, to) = match numbers[0] & 1 {
        0 => {
            let address = |at: usize| Ipv4Addr::from(<[u8; 4]>::try_from(&numbers[at..at + 4]).unwrap());
            (IpAddr::from(address(4)), IpAddr::from(address(20)))
        }
        _ => {
            let address = |at: usize| Ipv6Addr::from(<[u8; 16]>::try_from(&numbers[at..at + 16]).unwrap());
            (IpAddr::from(address(4)), IpAddr::from(address(20)))
        }
    };
    let bytes = match numbers[0] & 2 {
        0 => {
            let family = if from.is_ipv4() { "TCP4" } else { "TCP6" };
            format!("PROXY {family} {from} {to} {} {}\r\n", port(36), port(38)).into_bytes()
        }
        _ => {
            let octets = |address: IpAddr| match address {
                IpAddr::V4(address) => address.octets().to_vec(),
                IpAddr::V6(address) => address.octets().to_vec(),
            };
            let family = if from.is_ipv4() { 0x11 } else { 0x21 };
            let addresses = [octets(from), octets(to), numbers[36..40].to_vec()].concat();
            // With whatever follows the addresses.
            let follows = addresses.len() + usize::from(numbers[1]);
            let length = u16::try_from(follows).unwrap().to_be_bytes();
            [SIGNATURE, &[0x21, family], &length, &addresses, &vec![numbers[2]; usize::from(numbers[1])]].concat()
        }
    };
    let expected = Ok(Some(Header { client: Some(from.to_canonical()), bytes: bytes.len() }));
    assert_eq!(header(&bytes), expected);
    assert_eq!(header(&[&bytes, behind].concat()), expected, "what follows is the client's");
    if bytes.starts_with(b"P") {
        assert_eq!(header(&bytes[..bytes.len() - 1]), Ok(None), "it has not all come");
        let lax = [&bytes[..bytes.len() - 2], b"\n"].concat();
        assert_eq!(header(&lax), Err(Malformed::Line), "a line ends with CR LF");
    }
}
