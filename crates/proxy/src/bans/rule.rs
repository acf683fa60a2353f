//! What a ban names, in the form in which it is looked up; and what an object is to it.

use std::borrow::Cow;

use tinaja_http::authority::Authority;

use crate::origin::default_port;

/// What a ban names. URLs are without their scheme, hosts in lower case and without a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Rule {
    All,
    Url(String),
    Prefix(String),
    Host(String),
    /// All hosts below this one.
    Domain(String),
    /// The end of a path, at one host or all.
    Suffix {
        host: Option<String>,
        suffix: String,
    },
    /// Found in a URL, its scheme included.
    Regex(String),
    /// The hash of a tag, at one host or all.
    Tag {
        host: Option<String>,
        tag: u64,
    },
}

impl Rule {
    /// Their kinds, as they are counted and as objects are said to be banned by them.
    pub const KINDS: [&str; 8] = ["all", "url", "prefix", "host", "domain", "suffix", "regex", "tag"];

    /// The number of its kind.
    pub fn kind(&self) -> usize {
        match self {
            Rule::All => 0,
            Rule::Url(_) => 1,
            Rule::Prefix(_) => 2,
            Rule::Host(_) => 3,
            Rule::Domain(_) => 4,
            Rule::Suffix { .. } => 5,
            Rule::Regex(_) => 6,
            Rule::Tag { .. } => 7,
        }
    }

    /// The name of its kind.
    pub fn kind_name(&self) -> &'static str {
        Rule::KINDS.get(self.kind()).copied().unwrap_or_default()
    }

    /// Bytes of its texts.
    pub fn text_bytes(&self) -> usize {
        match self {
            Rule::All => 0,
            Rule::Url(text) | Rule::Prefix(text) | Rule::Host(text) | Rule::Domain(text) | Rule::Regex(text) => {
                text.len()
            }
            Rule::Suffix { host, suffix } => host.as_ref().map_or(0, String::len) + suffix.len(),
            Rule::Tag { host, .. } => host.as_ref().map_or(0, String::len),
        }
    }

    /// Whether such rules are tried one by one.
    pub fn is_tried(&self) -> bool {
        matches!(self, Rule::Suffix { .. } | Rule::Regex(_))
    }
}

/// An object, as rules see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subject<'a> {
    pub scheme: &'a str,
    pub host: Cow<'a, str>,
    /// Host, port where it is not the scheme's default, path and query.
    pub url: String,
}

impl<'a> Subject<'a> {
    /// What is at a path of an authority.
    pub fn new(tls: bool, authority: &Authority, path: &str) -> Subject<'a> {
        let url = format!("{}{path}", authority.host_field(default_port(tls)));
        let scheme = if tls { "https" } else { "http" };
        Subject { scheme, host: authority.host().to_owned().into(), url }
    }

    /// The path without its query.
    pub fn path(&self) -> &str {
        let path = self.url.find('/').and_then(|at| self.url.get(at..)).unwrap_or_default();
        path.split('?').next().unwrap_or_default()
    }
}
