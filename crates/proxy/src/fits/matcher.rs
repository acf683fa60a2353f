//! All rules' hosts and paths as one matcher.

use std::collections::HashMap;
use std::ops::Range;

use regex::bytes::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};

use super::patterns::{HostPattern, PathPattern};

/// Rules at most, with those that presets stand for.
const MOST_RULES: usize = 4096;
/// Hosts at most, of all rules of one kind together.
const MOST_HOSTS: usize = 200_000;
/// The most memory for one regular expression. `\d{1,400}` takes some 30 KB.
const MOST_REGEX_BYTES: usize = 64 * 1024;
/// The most memory for the paths of all rules.
const MOST_PATHS_BYTES: usize = 8 << 20;
/// Characters of an expression that a message repeats at most.
const MOST_SHOWN: usize = 80;

/// Why the hosts and paths of rules cannot be matched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadUrls {
    /// A regular expression that is none.
    #[error("{expression:?} is not a regular expression: {cause}")]
    Regex {
        /// As it is written.
        expression: String,
        /// What is wrong with it.
        cause: String,
    },
    /// A regular expression whose automaton would be too large.
    #[error("the regular expression {0:?} is too large: {MOST_REGEX_BYTES} bytes of memory are allowed for one")]
    RegexTooLarge(String),
    /// All together are too large.
    #[error("the paths of all rules together are too large: {MOST_PATHS_BYTES} bytes of memory are allowed for them")]
    PathsTooLarge,
    /// Too many.
    #[error("there are more than {MOST_RULES} rules")]
    TooMany,
    /// Too many hosts.
    #[error("the rules up to this one name more than {MOST_HOSTS} hosts: name domains, as in *.example.org")]
    TooManyHosts,
}

/// What finds rules by host and path. Rules are numbered from 0, in their order.
#[derive(Debug)]
pub(crate) struct UrlMatcher {
    /// The rules that name a host, by it, in their order.
    exact: HashMap<String, Vec<usize>>,
    /// Those that name all hosts below one.
    below: HashMap<String, Vec<usize>>,
    /// Those that name none.
    any: Vec<usize>,
    paths: RegexSet,
    /// Which of the set's expressions are a rule's.
    of_rule: Vec<Range<usize>>,
}

/// Whether a rule's place and paths are allowed, and the hosts of all rules up to it.
///
/// Errors: [`BadUrls`].
pub(crate) fn check(at: usize, hosts_so_far: usize, paths: &[PathPattern]) -> Result<(), BadUrls> {
    if at >= MOST_RULES {
        return Err(BadUrls::TooMany);
    }
    if hosts_so_far > MOST_HOSTS {
        return Err(BadUrls::TooManyHosts);
    }
    let mut expressions = paths.iter().filter_map(|path| match path {
        PathPattern::Regex(expression) => Some(expression),
        _ => None,
    });
    expressions.try_for_each(|expression| compiled(expression).map(drop))
}

/// Compiles one expression in bounded memory.
///
/// Errors: [`BadUrls::Regex`], [`BadUrls::RegexTooLarge`].
pub(crate) fn compiled(expression: &str) -> Result<Regex, BadUrls> {
    let built = RegexBuilder::new(expression).unicode(false).size_limit(MOST_REGEX_BYTES).build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => BadUrls::RegexTooLarge(shown(expression)),
        error => {
            // Several lines, of which the last says what is wrong.
            let cause = error.to_string();
            let cause = cause.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            BadUrls::Regex { expression: shown(expression), cause }
        }
    })
}

impl UrlMatcher {
    /// Of rules that have been checked, by their hosts and paths.
    ///
    /// Errors: [`BadUrls::PathsTooLarge`].
    pub fn new<'a>(rules: impl Iterator<Item = (&'a [HostPattern], &'a [PathPattern])>) -> Result<UrlMatcher, BadUrls> {
        let (mut exact, mut below) = (HashMap::<String, Vec<usize>>::new(), HashMap::<String, Vec<usize>>::new());
        let (mut any, mut expressions, mut of_rule) = (Vec::new(), Vec::new(), Vec::new());
        for (at, (hosts, paths)) in rules.enumerate() {
            for host in hosts {
                let (map, host) = match host {
                    HostPattern::Exact(host) => (&mut exact, host),
                    HostPattern::Below(host) => (&mut below, host),
                };
                map.entry(host.clone()).or_default().push(at);
            }
            if hosts.is_empty() {
                any.push(at);
            }
            let first = expressions.len();
            expressions.extend(paths.iter().map(PathPattern::expression));
            of_rule.push(first..expressions.len());
        }
        let set = RegexSetBuilder::new(&expressions).unicode(false).size_limit(MOST_PATHS_BYTES).build();
        // Each of them is good, so that all of them are not can only be their size.
        let paths = set.map_err(|_| BadUrls::PathsTooLarge)?;
        Ok(UrlMatcher { exact, below, any, paths, of_rule })
    }

    /// The first rule that fits this host and this path, without its query, and is `picked`.
    pub fn find(&self, host: &str, path: &str, mut picked: impl FnMut(usize) -> bool) -> Option<usize> {
        let candidates = self.of_host(host);
        if candidates.is_empty() {
            return None;
        }
        let found = self.paths.matches(path.as_bytes());
        let fits = |at: usize| {
            let own = self.of_rule.get(at).cloned().unwrap_or_default();
            own.is_empty() || own.into_iter().any(|expression| found.matched(expression))
        };
        candidates.into_iter().filter(|at| fits(*at)).find(|at| picked(*at))
    }

    /// The rules that fit a host, in their order.
    pub fn of_host(&self, host: &str) -> Vec<usize> {
        let mut all = self.any.clone();
        all.extend(self.exact.get(host).into_iter().flatten());
        let mut rest = host;
        while let Some((_, domain)) = rest.split_once('.') {
            all.extend(self.below.get(domain).into_iter().flatten());
            rest = domain;
        }
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// As much of an expression as a message has room for.
fn shown(expression: &str) -> String {
    match expression.char_indices().nth(MOST_SHOWN) {
        Some((end, _)) => format!("{}...", expression.get(..end).unwrap_or_default()),
        None => expression.to_owned(),
    }
}
