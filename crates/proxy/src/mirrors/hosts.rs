//! URLs of mirrors: of their sources, of the hosts that these name, and our own.

use std::fmt;
use std::str::FromStr;

use tinaja_http::authority::Authority;

use crate::cache_rules::HostPattern;
use crate::origin::{Destination, OriginUrl, default_port};
use crate::routes::beginning;

/// The URL of a source: a server, and what all paths there begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorUrl {
    pub(crate) server: OriginUrl,
    /// With a slash at both ends.
    pub(crate) prefix: String,
}

/// Where clients find this proxy: a scheme and an authority, without a slash at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicUrl(OriginUrl);

/// A host that a source's files lie on, or all below one: `files.example.org`, `*.example.org`, `http://files.example.org:8080`.
/// HTTPS at its usual port unless it says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedHost {
    tls: bool,
    host: HostPattern,
    port: u16,
}

/// A text that is no such URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadMirrorUrl {
    /// A source's.
    #[error(
        "{0:?} is not the URL of a source; write it as in https://index.example.org/simple/, without user, query or escapes"
    )]
    Origin(String),
    /// Ours.
    #[error("{0:?} is not where clients find this proxy; write it as in http://cache.example.org:3128, without a path")]
    Public(String),
    /// A host's.
    #[error("{0:?} is not a host; write it as in files.example.org, *.example.org or http://files.example.org:8080")]
    Host(String),
}

impl FromStr for MirrorUrl {
    type Err = BadMirrorUrl;

    fn from_str(text: &str) -> Result<Self, BadMirrorUrl> {
        let bad = || BadMirrorUrl::Origin(text.to_owned());
        let (_, rest) = text.split_once("://").ok_or_else(bad)?;
        let length = rest.find('/').map_or(text.len(), |at| text.len() - rest.len() + at);
        let (server, path) = text.split_at(length);
        let path = if path.is_empty() { "/" } else { path };
        let prefix = beginning(path).map(|path| format!("{path}/")).ok_or_else(bad)?;
        Ok(MirrorUrl { server: server.parse().map_err(|_| bad())?, prefix })
    }
}

impl fmt::Display for MirrorUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.server, self.prefix)
    }
}

impl FromStr for PublicUrl {
    type Err = BadMirrorUrl;

    fn from_str(text: &str) -> Result<Self, BadMirrorUrl> {
        text.parse().map(PublicUrl).map_err(|_| BadMirrorUrl::Public(text.to_owned()))
    }
}

impl PublicUrl {
    /// Whether this is its host, by whichever scheme.
    pub(crate) fn is_at(&self, host: &Authority) -> bool {
        let Destination { tls, host: name, port } = self.0.destination();
        name == host.host() && port == host.port_or(default_port(tls))
    }
}

impl fmt::Display for PublicUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.0.destination().tls { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.0.host_field())
    }
}

impl FromStr for ListedHost {
    type Err = BadMirrorUrl;

    fn from_str(text: &str) -> Result<Self, BadMirrorUrl> {
        let bad = || BadMirrorUrl::Host(text.to_owned());
        let (tls, rest) = match text.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            Some(_) => return Err(bad()),
            None => (true, text),
        };
        let (below, name) = rest.strip_prefix("*.").map_or((false, rest), |name| (true, name));
        let authority = Authority::parse(name.as_bytes()).map_err(|_| bad())?;
        let host = authority.host().to_owned();
        let host = if below { HostPattern::Below(host) } else { HostPattern::Exact(host) };
        Ok(ListedHost { tls, host, port: authority.port_or(default_port(tls)) })
    }
}

impl ListedHost {
    /// Whether it means this.
    pub(crate) fn fits(&self, destination: &Destination) -> bool {
        let host = destination.host.as_str();
        let is_host = match &self.host {
            HostPattern::Exact(name) => name == host,
            HostPattern::Below(name) => {
                host.strip_suffix(name.as_str()).is_some_and(|rest| rest.ends_with('.') && rest.len() > 1)
            }
        };
        is_host && self.tls == destination.tls && self.port == destination.port
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources() {
        for (text, printed) in [
            ("https://a", "https://a/"),
            ("https://a/", "https://a/"),
            ("https://A:8443/x/y", "https://a:8443/x/y/"),
            ("http://a/x/", "http://a/x/"),
        ] {
            assert_eq!(text.parse::<MirrorUrl>().unwrap().to_string(), printed);
        }
        for text in
            ["", "a/x", "ftp://a/", "https://u@a/", "https://a/x?y", "https://a/../b/", "https://a/%61/", "https:///x"]
        {
            assert!(text.parse::<MirrorUrl>().unwrap_err().to_string().contains(&format!("{text:?}")), "{text}");
        }
        assert_eq!("http://Cache:3128/".parse::<PublicUrl>().unwrap().to_string(), "http://cache:3128");
        assert!("http://cache/x".parse::<PublicUrl>().is_err());
    }

    #[test]
    fn listed_hosts() {
        let fits = |listed: &str, tls, host: &str, port| {
            listed.parse::<ListedHost>().unwrap().fits(&Destination { tls, host: host.into(), port })
        };
        assert!(fits("files.example.org", true, "files.example.org", 443));
        assert!(fits("*.example.org", true, "a.b.example.org", 443));
        assert!(fits("http://files.example.org:8080", false, "files.example.org", 8080));
        for (listed, tls, host, port) in [
            ("files.example.org", false, "files.example.org", 80),
            ("files.example.org", true, "files.example.org", 444),
            ("files.example.org", true, "files.example.org.evil", 443),
            ("files.example.org", true, "xfiles.example.org", 443),
            ("*.example.org", true, "example.org", 443),
            ("*.example.org", true, ".example.org", 443),
            ("*.example.org", true, "badexample.org", 443),
        ] {
            assert!(!fits(listed, tls, host, port), "{listed} {host}");
        }
        for text in ["", "ftp://a", "a/b", "*", "a b", "u@a"] {
            assert!(text.parse::<ListedHost>().is_err(), "{text}");
        }
    }
}
