//! The servers behind a route, as they are configured: which, in what order, how they are spoken to and given up.
//!
//! HTTP/2 is spoken only where the configuration asks for it, and after a request has been judged. Connection-specific
//! fields, lengths that lie and streams that end early make an answer invalid, as over HTTP/1.1.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::{BadOrigin, Destination, OriginUrl};
use crate::tls::CertificateFiles;

/// Servers that answer alike, and how they are asked. [`OriginUrl`]s become one by `into`, with all defaults.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Upstream {
    /// At least one. What is stored is named after the first, so that others may come and go behind it.
    pub origins: Vec<OriginUrl>,
    /// Which of them is asked. Default [`Balance::First`].
    pub balance: Balance,
    /// One request is sent to so many of them at most, one after the other. Default 3.
    pub tries: u32,
    /// And to no further one after so long. Default 10 s: whoever waits longer has usually left.
    pub retry_within: Duration,
    /// An origin is out after so many requests, or so many checks, that failed in a row: by connections that fail, and
    /// answers that do not come or are malformed. Default 3. One alone is never out, unless it is checked.
    pub fails: u32,
    /// Then it is left alone for so long; behind that one request tries it, and the others go on without it. Default 5 s.
    pub rest: Duration,
    /// Asks each origin from time to time. Default none.
    pub check: Option<Check>,
    /// Each of an origin's addresses must accept a connection within this, TLS included. Default `Limits::connect`.
    pub connect: Option<Duration>,
    /// An origin that sends nothing is given up after this. Default `Limits::origin_stall`.
    pub stall: Option<Duration>,
    /// Connections to each origin that are kept for later, at most. Default 64; memory: a socket's each.
    pub keep: usize,
    /// They are closed after this. Default 4 s, less than servers usually allow, so that requests seldom meet a
    /// connection that is just being closed.
    pub keep_for: Duration,
    /// Speak HTTP/2: by TLS with origins that choose it, in the clear with all, which have to know it then. Up to 64
    /// requests share a connection. Default no: HTTP/1.1.
    pub http2: bool,
    /// How TLS is spoken, where it is.
    pub tls: OriginTls,
}

/// Which origin of several a request goes to, as long as it is not out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Balance {
    /// The first: the others stand in for it, in their order.
    #[default]
    First,
    /// Each in turn.
    RoundRobin,
    /// Each URL to the same one, so that caches behind stay warm. One that is out gives its URLs to the others, and
    /// those keep theirs.
    Hash,
}

/// How an origin is asked whether it is well.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Check {
    /// What is asked for, by GET: it is well if it answers with 2xx or 3xx.
    pub path: String,
    /// From one answer to the next question. Default 5 s.
    pub interval: Duration,
    /// So many good answers in a row bring an origin back. Default 2.
    pub passes: u32,
}

impl Check {
    /// Asks for this path, with the defaults for all else.
    pub fn of(path: String) -> Check {
        Check { path, interval: Duration::from_secs(5), passes: 2 }
    }
}

/// How TLS is spoken with origins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct OriginTls {
    /// Authorities that may have signed their certificates, in PEM. Default the system's, or those of SSL_CERT_FILE.
    pub authority: Option<PathBuf>,
    /// What is shown to origins that ask who is there. Default nothing.
    pub certificate: Option<CertificateFiles>,
}

impl From<OriginUrl> for Upstream {
    fn from(origin: OriginUrl) -> Upstream {
        Upstream {
            origins: vec![origin],
            balance: Balance::First,
            tries: 3,
            retry_within: Duration::from_secs(10),
            fails: 3,
            rest: Duration::from_secs(5),
            check: None,
            connect: None,
            stall: None,
            keep: 64,
            keep_for: Duration::from_secs(4),
            http2: false,
            tls: OriginTls::default(),
        }
    }
}

impl FromStr for Upstream {
    type Err = BadOrigin;

    /// One origin, with all defaults.
    fn from_str(text: &str) -> Result<Self, BadOrigin> {
        text.parse::<OriginUrl>().map(Upstream::from)
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, origin) in self.origins.iter().enumerate() {
            write!(f, "{}{origin}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl Upstream {
    /// What is stored is named after this, whichever origin it came from.
    pub(crate) fn names(&self) -> Option<&OriginUrl> {
        self.origins.first()
    }

    /// The destination that is in the names of what is stored.
    pub(crate) fn destination(&self) -> Option<Destination> {
        self.names().map(OriginUrl::destination)
    }

    /// Whether origins can be out: one alone is asked whatever happens, for there is nothing better to do.
    pub(crate) fn may_rest(&self) -> bool {
        self.origins.len() > 1 || self.check.is_some()
    }
}

/// A route's servers, and the name that figures have for the route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Behind {
    /// Host and path, `*` for any.
    pub route: String,
    pub upstream: Upstream,
}

/// By the route and its first origin: each request that goes to an origin looks its route's up, and hardly two share both.
impl Hash for Behind {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.route, self.upstream.origins.first()).hash(state);
    }
}
