//! Hosts and paths, as an operator names them.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use tinaja_http::authority::Authority;

/// Some hosts, without a port: `a.example`, or `*.a.example` for all below it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostPattern {
    /// This one.
    Exact(String),
    /// All whose names end with a dot and this.
    Below(String),
}

/// Some paths, by their bytes as clients send them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathPattern {
    /// This one.
    Exact(String),
    /// All that begin so.
    Prefix(String),
    /// All that end so.
    Suffix(String),
    /// All in which this regular expression is found.
    Regex(String),
}

/// A text that says nothing that a rule could fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPattern {
    /// A host.
    #[error("{0:?} is not a host; write a name or an address without a port, as in www.example.org, or *.example.org")]
    Host(String),
    /// A path.
    #[error(
        "{0:?} is not a path; write it as in /index.html, /img/* for what begins so, or *.iso for what ends so; for anything \
         else there is path_regex"
    )]
    Path(String),
    /// A status.
    #[error("{0:?} is not a status; write it as in 404, or \"4xx\" for all of that class")]
    Status(String),
    /// A media type.
    #[error("{0:?} is not a media type; write it as in text/html, or image/* for all of that kind")]
    Type(String),
}

/// Whether a list, which fits everything if it is empty, covers another.
pub(crate) fn covers<T>(ours: &[T], theirs: &[T], covers: impl Fn(&T, &T) -> bool) -> bool {
    ours.is_empty() || (!theirs.is_empty() && theirs.iter().all(|their| ours.iter().any(|our| covers(our, their))))
}

/// The hosts of one rule, to be compared with those of others: there may be many.
pub(crate) struct Hosts<'a>(HashSet<&'a HostPattern>);

impl<'a> Hosts<'a> {
    pub fn new(hosts: &'a [HostPattern]) -> Hosts<'a> {
        Hosts(hosts.iter().collect())
    }

    /// Whether these, which are all hosts if there is none, cover another rule's.
    pub fn cover(&self, theirs: &[HostPattern]) -> bool {
        self.0.is_empty() || (!theirs.is_empty() && theirs.iter().all(|their| self.has(their)))
    }

    fn has(&self, their: &HostPattern) -> bool {
        let (HostPattern::Exact(name) | HostPattern::Below(name)) = their;
        let mut domains = std::iter::successors(name.split_once('.'), |(_, rest)| rest.split_once('.'));
        self.0.contains(their) || domains.any(|(_, domain)| self.0.contains(&HostPattern::Below(domain.to_owned())))
    }
}

impl HostPattern {
    /// Whether a host, in lower case and without its port, is one of them.
    pub(crate) fn fits(&self, host: &str) -> bool {
        match self {
            HostPattern::Exact(name) => host == name,
            HostPattern::Below(domain) => is_below(host, domain),
        }
    }

    /// Whether all of another's hosts are among them.
    pub(crate) fn covers(&self, other: &HostPattern) -> bool {
        match (self, other) {
            (HostPattern::Below(domain), HostPattern::Exact(name) | HostPattern::Below(name)) => {
                self == other || is_below(name, domain)
            }
            _ => self == other,
        }
    }
}

fn is_below(name: &str, domain: &str) -> bool {
    name.strip_suffix(domain).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostPattern::Exact(name) => f.write_str(name),
            HostPattern::Below(domain) => write!(f, "*.{domain}"),
        }
    }
}

impl FromStr for HostPattern {
    type Err = BadPattern;

    fn from_str(text: &str) -> Result<Self, BadPattern> {
        let bad = || BadPattern::Host(text.to_owned());
        let (name, below) = text.strip_prefix("*.").map_or((text, false), |name| (name, true));
        // An IPv6 address may stand without its brackets, as in routes.
        let name = if name.contains(':') && !name.starts_with('[') { format!("[{name}]") } else { name.to_owned() };
        let authority = Authority::parse(name.as_bytes()).map_err(|_| bad())?;
        if authority.port().is_some() || authority.host().contains('*') {
            return Err(bad());
        }
        let host = authority.host().to_owned();
        Ok(if below { HostPattern::Below(host) } else { HostPattern::Exact(host) })
    }
}

impl PathPattern {
    pub(crate) fn covers(&self, other: &PathPattern) -> bool {
        use PathPattern::{Exact, Prefix, Suffix};
        match (self, other) {
            (Prefix(start), Exact(path) | Prefix(path)) => path.starts_with(start),
            (Suffix(end), Exact(path) | Suffix(path)) => path.ends_with(end),
            _ => self == other,
        }
    }

    /// As a regular expression.
    pub(super) fn expression(&self) -> String {
        match self {
            PathPattern::Exact(path) => format!("^{}$", regex::escape(path)),
            PathPattern::Prefix(start) => format!("^{}", regex::escape(start)),
            PathPattern::Suffix(end) => format!("{}$", regex::escape(end)),
            PathPattern::Regex(expression) => expression.clone(),
        }
    }
}

impl FromStr for PathPattern {
    type Err = BadPattern;

    fn from_str(text: &str) -> Result<Self, BadPattern> {
        let visible = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#*".contains(&byte));
        let pattern = match (text.strip_prefix('*'), text.strip_suffix('*')) {
            (None, None) if text.starts_with('/') => PathPattern::Exact(text.to_owned()),
            (None, Some(start)) if start.starts_with('/') => PathPattern::Prefix(start.to_owned()),
            (Some(end), None) if !end.is_empty() => PathPattern::Suffix(end.to_owned()),
            _ => return Err(BadPattern::Path(text.to_owned())),
        };
        match &pattern {
            PathPattern::Exact(part) | PathPattern::Prefix(part) | PathPattern::Suffix(part) if visible(part) => {
                Ok(pattern)
            }
            _ => Err(BadPattern::Path(text.to_owned())),
        }
    }
}

/// Whether some server would read `.` or `..` in it, escaped or not, and go elsewhere (RFC 3986 5.2.4).
pub(crate) fn has_dot_segments(path: &str) -> bool {
    if !path.contains(['.', '%']) {
        return false;
    }
    let plain = path.to_ascii_lowercase().replace("%2e", ".").replace("%2f", "/").replace("%5c", "/");
    // Some servers cut parameters off a segment before they look at it.
    plain.split('/').any(|segment| matches!(segment.split(';').next(), Some("." | "..")))
}
