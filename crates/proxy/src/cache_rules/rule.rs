//! One rule about storing: what it fits, and what it orders.

use std::fmt;
use std::str::FromStr;

use tinaja_http::storable::Orders;

use crate::fits::{BadPattern, HostPattern, Hosts, PathPattern, covers};

/// Says of the answers that it fits what becomes of them. An empty list fits everything; a rule fits where each of its lists
/// does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheRule {
    /// What is said of them.
    pub orders: Orders,
    /// Hosts that clients ask for.
    pub hosts: Vec<HostPattern>,
    /// What the path is like, without the query.
    pub paths: Vec<PathPattern>,
    /// The answer's status.
    pub statuses: Vec<StatusPattern>,
    /// The answer's media type.
    pub types: Vec<TypePattern>,
    /// The fewest bytes of body that the answer announces. An answer that announces none fits no rule with such a bound.
    pub min_bytes: Option<u64>,
    /// The most.
    pub max_bytes: Option<u64>,
    /// The rule's number in the configuration, from 1; several rules have one number if a preset stands for them.
    pub number: usize,
    /// Where it stands in the configuration file, if it does.
    pub line: Option<usize>,
}

/// A status, or all of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusPattern {
    /// This one.
    One(u16),
    /// All that begin with this digit.
    Class(u16),
}

/// A media type, or all of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypePattern {
    /// This one, as in `text/html`.
    One(String),
    /// All that begin so, as in `image/`.
    Kind(String),
}

impl CacheRule {
    /// Orders this of everything, until its lists are filled.
    pub fn new(orders: Orders) -> CacheRule {
        CacheRule {
            orders,
            hosts: Vec::new(),
            paths: Vec::new(),
            statuses: Vec::new(),
            types: Vec::new(),
            min_bytes: None,
            max_bytes: None,
            number: 0,
            line: None,
        }
    }

    /// Whether it fits an answer, but for its host and its path.
    pub(super) fn fits_answer(&self, status: u16, media_type: &str, bytes: Option<u64>) -> bool {
        let size_fits = match (self.min_bytes, self.max_bytes, bytes) {
            (None, None, _) => true,
            (_, _, None) => false,
            (least, most, Some(bytes)) => least.unwrap_or(0) <= bytes && bytes <= most.unwrap_or(u64::MAX),
        };
        size_fits
            && (self.statuses.is_empty() || self.statuses.iter().any(|pattern| pattern.fits(status)))
            && (self.types.is_empty() || self.types.iter().any(|pattern| pattern.fits(media_type)))
    }

    /// Whether it fits every answer to a request for its hosts and paths.
    pub(super) fn fits_all_answers(&self) -> bool {
        let any_size = self.min_bytes.is_none() && self.max_bytes.is_none();
        any_size && self.statuses.is_empty() && self.types.is_empty()
    }

    /// Whether it, with these hosts, fits all that another one fits, as far as can be told without reading regular expressions.
    pub(super) fn covers(&self, hosts: &Hosts<'_>, other: &CacheRule) -> bool {
        let sizes = (self.min_bytes.unwrap_or(0), self.max_bytes.unwrap_or(u64::MAX));
        let any_size = self.min_bytes.is_none() && self.max_bytes.is_none();
        let others = (other.min_bytes.unwrap_or(0), other.max_bytes.unwrap_or(u64::MAX));
        let other_any = other.min_bytes.is_none() && other.max_bytes.is_none();
        covers(&self.paths, &other.paths, PathPattern::covers)
            && hosts.cover(&other.hosts)
            && covers(&self.statuses, &other.statuses, StatusPattern::covers)
            && covers(&self.types, &other.types, TypePattern::covers)
            && (any_size || (!other_any && sizes.0 <= others.0 && others.1 <= sizes.1))
    }
}

impl StatusPattern {
    fn fits(self, status: u16) -> bool {
        match self {
            StatusPattern::One(one) => one == status,
            StatusPattern::Class(digit) => status / 100 == digit,
        }
    }

    fn covers(&self, other: &StatusPattern) -> bool {
        match other {
            StatusPattern::One(status) => self.fits(*status),
            StatusPattern::Class(_) => self == other,
        }
    }
}

impl FromStr for StatusPattern {
    type Err = BadPattern;

    fn from_str(text: &str) -> Result<Self, BadPattern> {
        let pattern = match text.strip_suffix("xx") {
            Some(digit) => digit.parse().ok().filter(|digit| (2..=5).contains(digit)).map(StatusPattern::Class),
            None => text.parse().ok().filter(|status| (200..=599).contains(status)).map(StatusPattern::One),
        };
        // `parse` alone would take a sign.
        pattern.filter(|_| !text.starts_with('+')).ok_or_else(|| BadPattern::Status(text.to_owned()))
    }
}

impl TypePattern {
    fn fits(&self, media_type: &str) -> bool {
        match self {
            TypePattern::One(one) => media_type.eq_ignore_ascii_case(one),
            TypePattern::Kind(kind) => {
                media_type.get(..kind.len()).is_some_and(|start| start.eq_ignore_ascii_case(kind))
            }
        }
    }

    fn covers(&self, other: &TypePattern) -> bool {
        match other {
            TypePattern::One(media_type) => self.fits(media_type),
            TypePattern::Kind(_) => self == other,
        }
    }
}

impl FromStr for TypePattern {
    type Err = BadPattern;

    fn from_str(text: &str) -> Result<Self, BadPattern> {
        let is_token = |part: &str| {
            !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
        };
        let lower = text.to_ascii_lowercase();
        match lower.split_once('/') {
            Some((kind, "*")) if is_token(kind) => Ok(TypePattern::Kind(format!("{kind}/"))),
            Some((kind, sub)) if is_token(kind) && is_token(sub) => Ok(TypePattern::One(lower)),
            _ => Err(BadPattern::Type(text.to_owned())),
        }
    }
}

impl fmt::Display for CacheRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "cache rule {} (line {line})", self.number),
            // Those of the configuration are numbered from 1.
            None if self.number == 0 => f.write_str("a rule for this kind of mirror"),
            None => write!(f, "cache rule {}", self.number),
        }
    }
}
