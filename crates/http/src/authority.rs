//! `host:port`, in one form whatever the client wrote (RFC 3986 3.2, RFC 9110 4.2.3).

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use crate::limits::MAX_HOST_BYTES;
use crate::refusal::Refusal;

/// A host and, where it was given, a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Authority {
    /// In lower case; an IPv6 address without its brackets, in its canonical form.
    host: String,
    port: Option<u16>,
}

impl Authority {
    /// Reads `host` or `host:port`. Hosts are names of letters, digits, `-`, `_` and `.`, IPv4 addresses, or IPv6
    /// addresses in brackets.
    ///
    /// Errors: [`Refusal::Userinfo`], [`Refusal::Backslash`] or [`Refusal::Authority`].
    pub fn parse(bytes: &[u8]) -> Result<Authority, Refusal> {
        if bytes.contains(&b'@') {
            return Err(Refusal::Userinfo);
        }
        if bytes.contains(&b'\\') {
            return Err(Refusal::Backslash);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| Refusal::Authority)?;
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (address, rest) = rest.split_once(']').ok_or(Refusal::Authority)?;
                let address: Ipv6Addr = address.parse().map_err(|_| Refusal::Authority)?;
                let port = match rest {
                    "" => None,
                    rest => Some(rest.strip_prefix(':').ok_or(Refusal::Authority)?),
                };
                (address.to_string(), port)
            }
            None => match text.split_once(':') {
                Some((host, port)) => (name(host)?, Some(port)),
                None => (name(text)?, None),
            },
        };
        Ok(Authority { host, port: port.map(parse_port).transpose()? })
    }

    /// The host in lower case, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The same port at another host, in the form of [`Authority::host`]; `None` if that is none.
    pub fn at(&self, host: &str) -> Option<Authority> {
        let shown = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let Authority { host, port: None } = Authority::parse(shown.as_bytes()).ok()? else { return None };
        Some(Authority { host, port: self.port })
    }

    /// The port, if one was given.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// The port, or `default`.
    pub fn port_or(&self, default: u16) -> u16 {
        self.port.unwrap_or(default)
    }

    /// The address, where the host is one.
    pub fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// The value for a Host field (RFC 9110 7.2): without the port where it is the scheme's default.
    pub fn host_field(&self, default_port: u16) -> String {
        match self.port.filter(|port| *port != default_port) {
            // Nearly all: without the machinery of formats, since each request asks.
            None if !self.host.contains(':') => self.host.clone(),
            port => Authority { host: self.host.clone(), port }.to_string(),
        }
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]", self.host)?;
        } else {
            f.write_str(&self.host)?;
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

fn name(text: &str) -> Result<String, Refusal> {
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    if text.is_empty() || text.len() > MAX_HOST_BYTES || text.starts_with('.') || !text.bytes().all(valid) {
        return Err(Refusal::Authority);
    }
    Ok(text.to_ascii_lowercase())
}

fn parse_port(text: &str) -> Result<u16, Refusal> {
    // `parse` alone would take a sign.
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Refusal::Authority);
    }
    text.parse().ok().filter(|port| *port != 0).ok_or(Refusal::Authority)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_host() {
        let at = |authority: &str, host: &str| {
            Authority::parse(authority.as_bytes()).unwrap().at(host).map(|other| other.to_string())
        };
        assert_eq!(at("a:81", "B").as_deref(), Some("b:81"));
        assert_eq!(at("a", "::1").as_deref(), Some("[::1]"));
        assert_eq!(at("[::1]:8", "a").as_deref(), Some("a:8"));
        for none in ["b:82", "", "[::1]:80", "a b"] {
            assert_eq!(at("a:81", none), None, "{none}");
        }
    }

    #[test]
    fn one_form() {
        for (from, to, port) in [
            ("Example.COM", "example.com", None),
            ("example.com:080", "example.com:80", Some(80)),
            ("127.0.0.1:8080", "127.0.0.1:8080", Some(8080)),
            ("[::1]", "[::1]", None),
            ("[0:0:0:0:0:FFFF:7f00:1]:443", "[::ffff:127.0.0.1]:443", Some(443)),
            ("a_b-c.d.", "a_b-c.d.", None),
        ] {
            let authority = Authority::parse(from.as_bytes()).unwrap();
            assert_eq!((authority.to_string().as_str(), authority.port()), (to, port), "{from}");
        }
        assert_eq!(Authority::parse(b"a:80").unwrap().host_field(80), "a");
        assert_eq!(Authority::parse(b"a:80").unwrap().host_field(443), "a:80");
    }

    #[test]
    fn refused() {
        for text in [
            "",
            ":80",
            "a:",
            "a:0",
            "a:65536",
            "a:+80",
            "a:8 0",
            "a b",
            "a/b",
            "[::1",
            "::1",
            "[::1]x",
            "[::1%eth0]",
            "[127.0.0.1]",
            "a,b",
            ".a",
            "a:80:80",
            "\u{ff41}",
            "a%00",
            "*",
        ] {
            assert_eq!(Authority::parse(text.as_bytes()), Err(Refusal::Authority), "{text}");
        }
        assert_eq!(Authority::parse(b"u@a"), Err(Refusal::Userinfo));
        assert_eq!(Authority::parse(b"a\\b"), Err(Refusal::Backslash));
        assert_eq!(Authority::parse(b"a\xff"), Err(Refusal::Authority));
        assert_eq!(Authority::parse("a".repeat(255).as_bytes()), Err(Refusal::Authority));
    }
}
