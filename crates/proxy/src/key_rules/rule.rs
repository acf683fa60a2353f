//! One rule about names: what it fits, and what it does.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use http::HeaderName;
use tinaja_http::judge::is_token;

use super::query::{Query, settled};
use crate::fits::{BadPattern, HostPattern, Hosts, PathPattern, covers};

/// The longest word that stands for a field's values, and the longest name of a cookie.
const MOST_WORD_BYTES: usize = 128;

/// How hosts end that stand for store ids.
const STORE_IDS: &str = ".store-id.invalid";

/// Says of the URLs that it fits what of a request counts. An empty list of hosts or paths fits all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRule {
    /// Hosts that clients ask for.
    pub hosts: Vec<HostPattern>,
    /// What the path is like, as clients send it, without the query.
    pub paths: Vec<PathPattern>,
    /// Which parameters of the query count.
    pub query: Query,
    /// Whether their order does not, but for those of one name.
    pub sort_query: bool,
    /// Parameters of paths and queries that hold a session, by name.
    pub sessions: Vec<String>,
    /// The host that stands for all of [`KeyRule::hosts`], and that requests go to.
    pub fold_host: Option<FoldedHost>,
    /// What stands for all of the hosts in names, though requests go to each.
    pub store_id: Option<StoreId>,
    /// What of a request counts besides the URL.
    pub add: Vec<Addition>,
    /// The content codings that the origin has, if that is known.
    pub encodings: Option<Vec<String>>,
    /// The cookies that the origin gets, and that count where it varies by Cookie. All, if none are named.
    pub cookies: Option<Vec<String>>,
    /// Fields whose values become words: of each the expressions and words, in order. A value that fits no expression goes.
    pub normalize: Vec<(HeaderName, Vec<(String, String)>)>,
    /// Fields that the origin does not get, so that it cannot vary by them.
    pub drop_fields: Vec<HeaderName>,
    /// It is meant to do nothing, as an exception from a later rule.
    pub says_keep: bool,
    /// The rule's number in the configuration, from 1.
    pub number: usize,
    /// Where it stands in the configuration file, if it does.
    pub line: Option<usize>,
}

/// A host, without a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoldedHost(pub(super) String);

/// What hosts of one owner have in common: up to 32 small letters, digits and dashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreId(String);

/// Something of a request that counts besides its URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Addition {
    /// The value of this field.
    Header(HeaderName),
    /// The value of this cookie.
    Cookie(String),
}

/// A word of a rule that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadWord {
    /// A store id.
    #[error("{0:?} is not a store id; use up to 32 small letters, digits and dashes, as in \"cdn\"")]
    StoreId(String),
    /// An addition.
    #[error("{0:?} is nothing to add; write \"header:NAME\" or \"cookie:NAME\"")]
    Addition(String),
}

impl KeyRule {
    /// Whether it, with these hosts, fits all that another one fits, as far as can be told without reading regular expressions.
    pub(super) fn covers(&self, hosts: &Hosts<'_>, other: &KeyRule) -> bool {
        covers(&self.paths, &other.paths, PathPattern::covers) && hosts.cover(&other.hosts)
    }

    /// The same rule with whatever follows from it: the host that others are folded into is one of them, so that it is asked for the same.
    pub fn completed(mut self) -> KeyRule {
        if let Some(FoldedHost(host)) = &self.fold_host {
            let own = HostPattern::Exact(host.clone());
            if !self.hosts.is_empty() && !self.hosts.iter().any(|pattern| pattern.covers(&own)) {
                self.hosts.push(own);
            }
        }
        self
    }

    /// Path and query as the origin gets them, and as they are named.
    pub(crate) fn path<'a>(&self, path: &'a str) -> Cow<'a, str> {
        if self.query == Query::All && !self.sort_query && self.sessions.is_empty() {
            return Cow::Borrowed(path);
        }
        settled(path, &self.query, self.sort_query, &self.sessions)
    }

    /// The host under whose name things are stored instead of that of the URL.
    pub(crate) fn other_host(&self) -> Option<String> {
        let folded = self.fold_host.as_ref().map(|FoldedHost(host)| host.clone());
        folded.or(self.store_id.as_ref().map(StoreId::host))
    }

    /// Whether it does anything.
    pub(super) fn acts(&self) -> bool {
        let KeyRule { hosts, paths, number, line, .. } = self.clone();
        *self != KeyRule { hosts, paths, number, line, ..KeyRule::default() }
    }
}

impl FoldedHost {
    /// The host, in lower case.
    pub fn host(&self) -> &str {
        &self.0
    }
}

impl FromStr for FoldedHost {
    type Err = BadPattern;

    fn from_str(text: &str) -> Result<Self, BadPattern> {
        match text.parse()? {
            HostPattern::Exact(host) => Ok(FoldedHost(host)),
            HostPattern::Below(_) => Err(BadPattern::Host(text.to_owned())),
        }
    }
}

impl StoreId {
    /// The host that stands for it in URLs that are shown, and by which all of it is purged. Nobody has a host below `.invalid` (RFC 6761).
    pub(crate) fn host(&self) -> String {
        format!("{}{STORE_IDS}", self.0)
    }
}

impl FromStr for StoreId {
    type Err = BadWord;

    fn from_str(text: &str) -> Result<Self, BadWord> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let fits = (1..=32).contains(&text.len()) && text.bytes().all(plain);
        fits.then(|| StoreId(text.to_owned())).ok_or_else(|| BadWord::StoreId(text.to_owned()))
    }
}

impl FromStr for Addition {
    type Err = BadWord;

    fn from_str(text: &str) -> Result<Self, BadWord> {
        let bad = || BadWord::Addition(text.to_owned());
        match text.split_once(':').ok_or_else(bad)? {
            ("header", name) => name.parse().map(Addition::Header).map_err(|_| bad()),
            ("cookie", name) if is_cookie(name) => Ok(Addition::Cookie(name.to_owned())),
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for Addition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Addition::Header(name) => write!(f, "header:{name}"),
            Addition::Cookie(name) => write!(f, "cookie:{name}"),
        }
    }
}

/// Whether cookies may have this name (RFC 6265 4.1.1).
pub(super) fn is_cookie(name: &str) -> bool {
    !name.is_empty() && name.len() <= MOST_WORD_BYTES && is_token(name.as_bytes())
}

/// Whether a field may have this value, and it is short.
pub(super) fn is_word(word: &str) -> bool {
    let printable = word.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    !word.is_empty() && word.len() <= MOST_WORD_BYTES && printable && word.trim() == word
}

impl fmt::Display for KeyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "key rule {} (line {line})", self.number),
            None => write!(f, "key rule {}", self.number),
        }
    }
}
