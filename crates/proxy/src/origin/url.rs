//! The URL of a reverse proxy's origin.

use std::fmt;
use std::str::FromStr;

use tinaja_http::authority::Authority;

use super::{Destination, default_port};

/// A server: `http://HOST:PORT` or `https://HOST:PORT`. The port may be left out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OriginUrl {
    tls: bool,
    authority: Authority,
}

/// A text that is no server's URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no server's URL; write it as in http://127.0.0.1:8080, without user, path or query")]
pub struct BadOrigin(String);

impl OriginUrl {
    pub(crate) fn destination(&self) -> Destination {
        Destination::of(self.tls, &self.authority)
    }

    /// What requests that name no host are sent with.
    pub(crate) fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The value of Host for this server.
    pub fn host_field(&self) -> String {
        self.authority.host_field(default_port(self.tls))
    }
}

impl FromStr for OriginUrl {
    type Err = BadOrigin;

    fn from_str(text: &str) -> Result<Self, BadOrigin> {
        let bad = || BadOrigin(text.to_owned());
        let (scheme, rest) = text.split_once("://").ok_or_else(bad)?;
        let tls = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return Err(bad()),
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let authority = Authority::parse(authority.as_bytes()).map_err(|_| bad())?;
        Ok(OriginUrl { tls, authority })
    }
}

impl fmt::Display for OriginUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.tls { "https" } else { "http" }, self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        for (text, printed, port) in [
            ("http://localhost:8080", "http://localhost:8080", 8080),
            ("HTTP://A/", "http://a", 80),
            ("https://[::1]", "https://[::1]", 443),
        ] {
            let url: OriginUrl = text.parse().unwrap();
            assert_eq!((url.to_string().as_str(), url.destination().port), (printed, port));
        }
        for text in ["", "localhost:80", "ftp://a", "http://", "http://a/b", "http://a?b", "http://u@a", "http://a:x"] {
            assert!(text.parse::<OriginUrl>().unwrap_err().to_string().contains("http://127.0.0.1:8080"), "{text}");
        }
    }
}
