//! What becomes of answers: whether they are stored, and for how long, where the operator knows more than the origin says.
//!
//! Rules are read from the top, and the first that fits an answer decides alone. Where none fits, RFC 9111 decides.
//!
//! # Decisions
//!
//! - What a rule says is decided when an answer is stored, and stands in numbers in its head. So a hit reads no rule. The one
//!   exception is a client's wish to have an answer validated; for a request with such a wish the rules are asked, if any of them
//!   is about that.
//! - Hosts and paths of all rules are matched at once (`fits`). What is left for each rule is to compare numbers.
//! - A rule that can never fit is an error, not a warning: whoever wrote it expects it to do something.
//! - An answer to a request with Authorization is never made to last longer by a rule, unless the rule says that it is for all.

mod matcher;
mod presets;
mod rule;

use std::sync::Arc;

use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
pub use tinaja_http::encoding::{Coding, Codings};
pub use tinaja_http::storable::{Orders, Override, Overrides, Storing};

use matcher::Matcher;
pub use presets::Preset;
pub(crate) use presets::{kept, validated};
pub use rule::{CacheRule, StatusPattern, TypePattern};

pub use crate::fits::{BadPattern, BadUrls, HostPattern, PathPattern};

/// Rules, read once. Copies share them.
#[derive(Clone, Debug, Default)]
pub struct CacheRules(Option<Arc<Matcher>>);

/// Why rules make no sense. The place in the list, from 0, says which.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct BadCacheRules {
    /// The rule that is to blame.
    pub at: usize,
    /// What is wrong with it.
    pub why: BadCacheRule,
}

/// Why a rule makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadCacheRule {
    /// An earlier one takes all that it could fit.
    #[error(
        "this rule never fits, since {0} above it fits all that it could: remove one of them, or change their order"
    )]
    NeverFits(String),
    /// Its bounds leave nothing.
    #[error("min_size is larger than max_size")]
    Sizes,
    /// The shortest lifetime is longer than the longest.
    #[error("min_ttl is longer than max_ttl")]
    Lifetimes,
    /// The lifetime is outside of its own bounds.
    #[error("ttl is not between min_ttl and max_ttl")]
    Lifetime,
    /// What is never stored needs nothing else.
    #[error("store = \"never\" leaves nothing for the other actions to do: remove them, or the store")]
    Never,
    /// An override without what it makes room for.
    #[error("override = \"{0}\" does nothing without {1}")]
    Idle(&'static str, &'static str),
    /// Its hosts or paths cannot be matched.
    #[error("{0}")]
    Urls(#[from] BadUrls),
}

/// What rules can see of an answer and of the request that it is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    /// The host, without a port.
    pub host: &'a str,
    /// Path and query.
    pub path: &'a str,
    pub status: StatusCode,
    pub response: &'a HeaderMap,
}

impl CacheRules {
    /// Reads rules in their order.
    ///
    /// Errors: [`BadCacheRules`], with the first that is to blame.
    pub fn new(rules: Vec<CacheRule>) -> Result<CacheRules, BadCacheRules> {
        if rules.is_empty() {
            return Ok(CacheRules::default());
        }
        Matcher::new(rules).map(|matcher| CacheRules(Some(Arc::new(matcher))))
    }

    /// How many there are, each preset counted once.
    pub fn len(&self) -> usize {
        let mut numbers: Vec<usize> = self.list().iter().map(|rule| rule.number).collect();
        numbers.dedup();
        numbers.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    fn list(&self) -> &[CacheRule] {
        self.0.as_ref().map_or(&[], |matcher| &matcher.rules)
    }

    /// The rule for an answer, if there is one.
    pub(crate) fn find(&self, seen: Seen<'_>) -> Option<&CacheRule> {
        let matcher = self.0.as_ref()?;
        let media_type = seen.response.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let media_type = media_type.split(';').next().unwrap_or_default().trim();
        let path = seen.path.split('?').next().unwrap_or_default();
        let bytes = seen.response.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.trim().parse().ok());
        matcher.find(seen.host, path, |rule| rule.fits_answer(seen.status.as_u16(), media_type, bytes))
    }

    /// What is ordered of an answer.
    #[cfg(test)]
    pub(crate) fn orders(&self, seen: Seen<'_>) -> Orders {
        self.find(seen).map_or(Orders::default(), |rule| rule.orders)
    }

    /// The rules that may fit an answer of which only the host and the path are known, in their order.
    pub(crate) fn find_before(&self, host: &str, path: &str) -> Vec<&CacheRule> {
        let path = path.split('?').next().unwrap_or_default();
        let Some(matcher) = &self.0 else { return Vec::new() };
        let mut all = Vec::new();
        // Nothing is picked, so all that could be are seen.
        matcher.find(host, path, |rule| {
            all.push(rule);
            false
        });
        all
    }

    /// The first rule that has answers sent encoded and names no host.
    pub(crate) fn encodes_without_host(&self) -> Option<&CacheRule> {
        self.list().iter().find(|rule| !rule.orders.encode.is_empty() && rule.hosts.is_empty())
    }

    /// Whether an answer of which only the host and the path are known may be sent encoded by a rule that `heeds` says counts. A rule that fits
    /// whatever comes decides for those below it.
    pub(crate) fn may_encode(&self, host: &str, path: &str, heeds: impl Fn(&CacheRule) -> bool) -> bool {
        let Some(matcher) = self.0.as_ref().filter(|matcher| matcher.encodes) else { return false };
        let path = path.split('?').next().unwrap_or_default();
        matcher.find(host, path, |rule| heeds(rule) || rule.fits_all_answers()).is_some_and(heeds)
    }

    /// Whether some rule says that clients' wishes to have answers validated do not count.
    pub(crate) fn may_ignore_reload(&self) -> bool {
        self.0.as_ref().is_some_and(|matcher| matcher.ignores_reload)
    }
}

impl PartialEq for CacheRules {
    fn eq(&self, other: &CacheRules) -> bool {
        self.list() == other.list()
    }
}

#[cfg(test)]
mod tests;
