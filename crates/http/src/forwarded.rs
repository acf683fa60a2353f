//! For whom proxies before this one ask: X-Forwarded-For, and Forwarded (RFC 7239).
//!
//! Each proxy adds whom it was asked by at the end, and whoever stands at the beginning of a chain may have written anything before that.
//! So both fields are read from their end, and no further than the first address that is no known proxy's: what stands before it is the
//! word of a stranger.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use http::HeaderName;
use http::header::FORWARDED;

use crate::limits::MAX_PROXIES;
use crate::lines::lines;
use crate::words::is_token;

/// The field that a chain of proxies writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChainField {
    /// X-Forwarded-For: addresses, with commas between them.
    #[default]
    XForwardedFor,
    /// Forwarded: elements with `for=`.
    Forwarded,
}

/// Commas within the quoted strings of one element of Forwarded. With each the element is read once more.
const MOST_COMMAS: usize = 8;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The client at the far end of a chain of known proxies, as a judged head says: the last address in the field that `is_proxy` does not
/// know, or the first of all if it knows each. `fields` are the head's lines. `None` where there is no such field, where it cannot be read as far as
/// that, or where it names more than [`MAX_PROXIES`] proxies: then nobody knows more than who has sent the request.
pub fn client(fields: &[u8], field: ChainField, is_proxy: impl Fn(IpAddr) -> bool) -> Option<IpAddr> {
    let name = match field {
        ChainField::XForwardedFor => X_FORWARDED_FOR,
        ChainField::Forwarded => FORWARDED,
    };
    // From the last line to the first. Each has a node at least, so that those before the last ones are never come to.
    let (mut last, mut count) = ([b"".as_slice(); MAX_PROXIES + 1], 0);
    for line in lines(fields).filter(|line| line.is(&name)) {
        *last.get_mut(count % (MAX_PROXIES + 1))? = line.value;
        count += 1;
    }
    let mut walk = Walk { seen: 0, farthest: None };
    for back in 1..=count.min(last.len()) {
        let line = last.get((count - back) % last.len())?;
        let found = match field {
            ChainField::XForwardedFor => walk.back(line.rsplit(|byte| *byte == b',').map(address), &is_proxy),
            ChainField::Forwarded => walk.back(Elements { rest: Some(line) }.map(|said| node_of(&said?)), &is_proxy),
        };
        match found {
            Step::Client(client) => return Some(client),
            Step::Unknown => return None,
            Step::GoOn => {}
        }
    }
    walk.farthest
}

/// Whether one line of Forwarded can have more behind it: each quote in it is closed, and each element is one. One of more elements than any chain of
/// proxies writes is none.
pub fn is_well_formed(line: &[u8]) -> bool {
    let most = MAX_PROXIES * 2;
    let mut elements = Elements { rest: Some(line) };
    elements.by_ref().take(most).all(|said| said.is_some()) && elements.next().is_none()
}

/// How far a chain was gone back.
struct Walk {
    seen: usize,
    farthest: Option<IpAddr>,
}

enum Step {
    Client(IpAddr),
    Unknown,
    GoOn,
}

impl Walk {
    fn back(&mut self, nodes: impl Iterator<Item = Option<IpAddr>>, is_proxy: &impl Fn(IpAddr) -> bool) -> Step {
        for node in nodes {
            let Some(node) = node else { return Step::Unknown };
            if !is_proxy(node) {
                return Step::Client(node);
            }
            self.seen += 1;
            if self.seen > MAX_PROXIES {
                return Step::Unknown;
            }
            self.farthest = Some(node);
        }
        Step::GoOn
    }
}

/// An address in X-Forwarded-For, which some write with a port, and an IPv6 one with or without brackets.
fn address(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text.trim_ascii()).ok()?;
    let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    let with_port = || text.parse::<SocketAddr>().ok().filter(is_plain).map(|address| address.ip());
    let found = text.parse().ok().or_else(bracketed).or_else(with_port)?;
    Some(found.to_canonical())
}

/// Whether an address has no zone, which means something on its own machine alone.
fn is_plain(address: &SocketAddr) -> bool {
    !matches!(address, SocketAddr::V6(v6) if v6.scope_id() != 0)
}

/// An address in `for=`: IPv4, or IPv6 in brackets, perhaps with a port (RFC 7239 6). `unknown` and names that hide one are no address.
fn node_of(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let (node, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (inner, port) = rest.split_once(']')?;
            (IpAddr::V6(inner.parse().ok()?), port.strip_prefix(':').or(port.is_empty().then_some("0"))?)
        }
        None => {
            let (v4, port) = text.split_once(':').unwrap_or((text, "0"));
            (IpAddr::V4(v4.parse().ok()?), port)
        }
    };
    let digits = (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit());
    // A port may be hidden, too.
    let hidden = port.strip_prefix('_').is_some_and(|rest| is_token(rest.as_bytes()));
    (digits || hidden).then(|| node.to_canonical())
}

/// The elements of one line of Forwarded from the last to the first: what each says after `for=`, empty where it says nothing, and `None` at one
/// that is malformed, where they end.
///
/// The last element is the shortest end of the line that is one, behind a comma. That is how a proxy has written it, whatever stands before:
/// what begins within a quoted string has an odd number of quotes, so that it is none, and a quote that a client leaves open swallows nothing.
struct Elements<'a> {
    rest: Option<&'a [u8]>,
}

impl Iterator for Elements<'_> {
    type Item = Option<Vec<u8>>;

    fn next(&mut self) -> Option<Option<Vec<u8>>> {
        let line = self.rest.take()?;
        let mut end = line.len();
        for _ in 0..=MOST_COMMAS {
            let comma = line.get(..end)?.iter().rposition(|byte| *byte == b',');
            let (before, text) = match comma {
                Some(comma) => (line.get(..comma), line.get(comma + 1..)?),
                None => (None, line),
            };
            if let Some(said) = element(text) {
                self.rest = before;
                return Some(Some(said));
            }
            let Some(comma) = comma else { break };
            end = comma;
        }
        Some(None)
    }
}

/// What one element says after `for=`, empty if nothing. `None` if it is malformed.
fn element(text: &[u8]) -> Option<Vec<u8>> {
    let mut rest = text;
    let mut said = None;
    loop {
        rest = rest.trim_ascii_start();
        if !matches!(rest.first(), None | Some(b';')) {
            let (name, behind) = rest.split_at_checked(rest.iter().position(|byte| *byte == b'=')?)?;
            let (value, behind) = value(behind.get(1..)?)?;
            if !is_token(name) {
                return None;
            }
            if name.eq_ignore_ascii_case(b"for") && said.replace(value).is_some() {
                return None;
            }
            rest = behind.trim_ascii_start();
        }
        match rest.split_first() {
            None => return Some(said.unwrap_or_default()),
            Some((b';', behind)) => rest = behind,
            Some(_) => return None,
        }
    }
}

/// A token or a quoted string, without its quotes, and what stands behind it.
fn value(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let Some(quoted) = text.strip_prefix(b"\"") else {
        let end = text.iter().position(|byte| !is_token(&[*byte])).unwrap_or(text.len());
        let (token, behind) = text.split_at_checked(end)?;
        return is_token(token).then(|| (token.to_vec(), behind));
    };
    let mut value = Vec::new();
    let mut bytes = quoted.iter().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return Some((value, quoted.get(at + 1..)?)),
            b'\\' => value.push(*bytes.next()?.1),
            byte => value.push(*byte),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proxies are 10.0.0.0/8 and 2001:db8::/112.
    fn known(address: IpAddr) -> bool {
        match address {
            IpAddr::V4(v4) => v4.octets()[0] == 10,
            IpAddr::V6(v6) => v6.segments()[..7] == [0x2001, 0xdb8, 0, 0, 0, 0, 0],
        }
    }

    fn found(field: ChainField, lines: &str) -> String {
        let fields: String = lines.split('|').map(|line| format!("{line}\r\n")).collect();
        client(fields.as_bytes(), field, known).map_or("-".into(), |client| client.to_string())
    }

    #[test]
    fn x_forwarded_for_is_read_from_its_end() {
        for (lines, expected) in [
            ("X-Forwarded-For: 203.0.113.7", "203.0.113.7"),
            ("x-forwarded-for:203.0.113.7,10.1.2.3 , 10.0.0.1", "203.0.113.7"),
            // What a client has written counts for nothing, whatever it is.
            ("X-Forwarded-For: 10.0.0.9, 203.0.113.7", "203.0.113.7"),
            ("X-Forwarded-For: 192.0.2.1, 203.0.113.7, 10.0.0.1", "203.0.113.7"),
            ("X-Forwarded-For: <script>, \", 203.0.113.7", "203.0.113.7"),
            ("X-Forwarded-For: 192.0.2.1|Host: a|X-Forwarded-For: 203.0.113.7, 10.0.0.1", "203.0.113.7"),
            ("X-Forwarded-For: 203.0.113.7|X-Forwarded-For: 10.0.0.1|X-Forwarded-For: 10.0.0.2", "203.0.113.7"),
            // All are known: the farthest of them has asked.
            ("X-Forwarded-For: 10.0.0.3, 10.0.0.2", "10.0.0.3"),
            ("X-Forwarded-For: 203.0.113.7:4711", "203.0.113.7"),
            ("X-Forwarded-For: 2001:db8:9::7, 2001:db8::1", "2001:db8:9::7"),
            ("X-Forwarded-For: [2001:db8:9::7], [2001:db8::1]:80", "2001:db8:9::7"),
            ("X-Forwarded-For: ::ffff:203.0.113.7, ::ffff:10.0.0.1", "203.0.113.7"),
        ] {
            assert_eq!(found(ChainField::XForwardedFor, lines), expected, "{lines}");
        }
        for nobody in [
            "Host: a",
            "X-Forwarded-For:",
            "X-Forwarded-For: unknown",
            "X-Forwarded-For: 203.0.113.7,",
            "X-Forwarded-For: 203.0.113.7, ,10.0.0.1",
            "X-Forwarded-For: 203.0.113.7|X-Forwarded-For: ",
            "X-Forwarded-For: 203.0.113.7, unknown, 10.0.0.1",
            "X-Forwarded-For: 203.0.113.7 10.0.0.1",
            "X-Forwarded-For: 203.0.113.007",
            "X-Forwarded-For: 203.0.113",
            "X-Forwarded-For: 3405803783",
            "X-Forwarded-For: 0xcb.0.0x71.7",
            "X-Forwarded-For: 203.0.113.7/32",
            "X-Forwarded-For: 203.0.113.7:",
            "X-Forwarded-For: 203.0.113.7:65536",
            "X-Forwarded-For: fe80::1%eth0",
            "X-Forwarded-For: [fe80::1%1]:80",
            "X-Forwarded-For: \"203.0.113.7\"",
            "X-Forwarded-For: for=203.0.113.7",
            "X-Forwarded-For: 203.0.113.7;10.0.0.1",
            "X-Forwarded-For: \u{665}.0.0.1",
            "X-Forwarded-For : 203.0.113.7",
            "X_Forwarded_For: 203.0.113.7",
            "Forwarded: for=203.0.113.7",
        ] {
            assert_eq!(found(ChainField::XForwardedFor, nobody), "-", "{nobody}");
        }
    }

    #[test]
    fn forwarded_is_read_from_its_end_too() {
        for (lines, expected) in [
            ("Forwarded: for=203.0.113.7", "203.0.113.7"),
            ("forwarded: For=203.0.113.7;proto=https, by=10.0.0.1;FOR=10.0.0.1;host=\"a,b;for=c\"", "203.0.113.7"),
            ("Forwarded: for=192.0.2.1, for=203.0.113.7, for=10.0.0.1", "203.0.113.7"),
            ("Forwarded: for=_hidden, for=\"203.0.113.7:80\", for=\"10.0.0.1:_port\"", "203.0.113.7"),
            ("Forwarded: for=\"[2001:db8:9::7]:4711\", for=\"[2001:db8::1]\"", "2001:db8:9::7"),
            ("Forwarded: for=\"203.0.113\\.7\"", "203.0.113.7"),
            ("Forwarded: for=10.0.0.3, for=10.0.0.2", "10.0.0.3"),
            // Whatever a client has written before it counts for nothing, and a quote that it leaves open swallows nothing.
            ("Forwarded: x, for=203.0.113.7", "203.0.113.7"),
            ("Forwarded: =;\"\\, , for=203.0.113.7;proto=https, for=10.0.0.1", "203.0.113.7"),
            ("Forwarded: for=\", for=203.0.113.7", "203.0.113.7"),
            ("Forwarded: for=192.0.2.1;x=\"\\\", for=203.0.113.7", "203.0.113.7"),
            ("Forwarded: for=192.0.2.1;x=\", for=\"[2001:db8:9::7]\"", "2001:db8:9::7"),
            // What stands in a quoted string is no element.
            ("Forwarded: for=203.0.113.7;host=\"a, for=192.0.2.1\"", "203.0.113.7"),
            ("Forwarded: for=203.0.113.7;host=\"a, for=192.0.2.1;b=\";by=\"c\"", "203.0.113.7"),
            ("Forwarded: for=203.0.113.7;host=\"a, for=192.0.2.1;b=\\\"c\"", "203.0.113.7"),
            // A line of its own is read by itself, and not at all behind the one that counts.
            ("Forwarded: for=\"|Forwarded: for=203.0.113.7", "203.0.113.7"),
        ] {
            assert_eq!(found(ChainField::Forwarded, lines), expected, "{lines}");
        }
        for nobody in [
            "X-Forwarded-For: 203.0.113.7",
            "Forwarded:",
            "Forwarded: for=unknown",
            "Forwarded: for=_hidden, for=10.0.0.1",
            "Forwarded: proto=https",
            "Forwarded: for=203.0.113.7, proto=https",
            "Forwarded: for=203.0.113.7;for=192.0.2.1",
            "Forwarded: for=\"203.0.113.7",
            "Forwarded: for=2001:db8:9::7",
            "Forwarded: for=\"2001:db8:9::7\"",
            "Forwarded: for=203.0.113.7:80x",
            "Forwarded: for= 203.0.113.7",
            "Forwarded: for=203.0.113.7 x",
            "Forwarded: 203.0.113.7",
            "Forwarded: for=\"203.0.113.7\"x",
            "Forwarded: for=203.0.113.7,",
        ] {
            assert_eq!(found(ChainField::Forwarded, nobody), "-", "{nobody}");
        }
    }

    #[test]
    fn what_may_stand_before_more() {
        for line in ["", "for=a", "for=a;host=\"b,c\", by=d", ", ,"] {
            assert!(is_well_formed(line.as_bytes()), "{line}");
        }
        for line in ["x", "for=\"", "x, for=a", "for=a, for=\"b", "for=a;for=b", &"for=\",".repeat(5000)] {
            assert!(!is_well_formed(line.as_bytes()), "{line}");
        }
        assert!(is_well_formed("for=a,".repeat(MAX_PROXIES * 2 - 1).as_bytes()));
        assert!(!is_well_formed("for=a,".repeat(MAX_PROXIES * 2).as_bytes()));
    }

    #[test]
    fn a_chain_without_end_names_nobody() {
        let chain = |proxies: usize| format!("203.0.113.7{}", ", 10.0.0.1".repeat(proxies));
        let named = |proxies| found(ChainField::XForwardedFor, &format!("X-Forwarded-For: {}", chain(proxies)));
        assert_eq!((named(MAX_PROXIES).as_str(), named(MAX_PROXIES + 1).as_str()), ("203.0.113.7", "-"));
        let elements = |proxies: usize| format!("for=203.0.113.7{}", ", for=10.0.0.1".repeat(proxies));
        let named = |proxies| found(ChainField::Forwarded, &format!("Forwarded: {}", elements(proxies)));
        assert_eq!((named(MAX_PROXIES).as_str(), named(MAX_PROXIES + 1).as_str()), ("203.0.113.7", "-"));
        let many = format!("X-Forwarded-For: 203.0.113.7{}", "|X-Forwarded-For: 10.0.0.1".repeat(100));
        assert_eq!(found(ChainField::XForwardedFor, &many), "-");
        // However long it is.
        assert_eq!((named(4000).as_str(), named(0).as_str()), ("-", "203.0.113.7"));
    }
}
