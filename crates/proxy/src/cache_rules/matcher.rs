//! All rules as one matcher.

use std::collections::HashMap;
use std::ops::Range;

use regex::bytes::{RegexBuilder, RegexSet, RegexSetBuilder};
use tinaja_http::storable::{Override, Storing};

use super::rule::{CacheRule, HostPattern, PathPattern};
use super::{BadCacheRule, BadCacheRules, MOST_PATHS_BYTES, MOST_REGEX_BYTES, MOST_RULES};

/// Characters of an expression that a message repeats at most.
const MOST_SHOWN: usize = 80;

/// Rules, and what finds them.
#[derive(Debug)]
pub(super) struct Matcher {
    pub rules: Vec<CacheRule>,
    /// Whether one of them says that clients' reloads do not count.
    pub ignores_reload: bool,
    /// Whether one of them has answers sent encoded.
    pub encodes: bool,
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

impl Matcher {
    /// Errors: [`BadCacheRules`].
    pub fn new(rules: Vec<CacheRule>) -> Result<Matcher, BadCacheRules> {
        for (at, rule) in rules.iter().enumerate() {
            let earlier = rules.iter().take(at);
            check(rule, at, earlier).map_err(|why| BadCacheRules { at, why })?;
        }
        let (mut exact, mut below) = (HashMap::<String, Vec<usize>>::new(), HashMap::<String, Vec<usize>>::new());
        let (mut any, mut expressions, mut of_rule) = (Vec::new(), Vec::new(), Vec::new());
        for (at, rule) in rules.iter().enumerate() {
            for host in &rule.hosts {
                let (map, host) = match host {
                    HostPattern::Exact(host) => (&mut exact, host),
                    HostPattern::Below(host) => (&mut below, host),
                };
                map.entry(host.clone()).or_default().push(at);
            }
            if rule.hosts.is_empty() {
                any.push(at);
            }
            let first = expressions.len();
            expressions.extend(rule.paths.iter().map(PathPattern::expression));
            of_rule.push(first..expressions.len());
        }
        let set = RegexSetBuilder::new(&expressions).unicode(false).size_limit(MOST_PATHS_BYTES).build();
        // Each of them is good, so that all of them are not can only be their size.
        let too_large = |_| BadCacheRules { at: rules.len().saturating_sub(1), why: BadCacheRule::PathsTooLarge };
        let paths = set.map_err(too_large)?;
        let ignores_reload = rules.iter().any(|rule| rule.orders.ignores_reload);
        let encodes = rules.iter().any(|rule| !rule.orders.encode.is_empty());
        Ok(Matcher { rules, ignores_reload, encodes, exact, below, any, paths, of_rule })
    }

    /// The first rule that fits this host and this path and is `picked`.
    pub fn find<'a>(
        &'a self,
        host: &str,
        path: &str,
        mut picked: impl FnMut(&'a CacheRule) -> bool,
    ) -> Option<&'a CacheRule> {
        let candidates = self.candidates(host);
        if candidates.is_empty() {
            return None;
        }
        let found = self.paths.matches(path.as_bytes());
        let fits = |at: usize| {
            let own = self.of_rule.get(at).cloned().unwrap_or_default();
            own.is_empty() || own.into_iter().any(|expression| found.matched(expression))
        };
        let fitting = candidates.into_iter().filter(|at| fits(*at));
        fitting.filter_map(|at| self.rules.get(at)).find(|rule| picked(rule))
    }

    /// The rules that fit a host, in their order.
    fn candidates(&self, host: &str) -> Vec<usize> {
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

/// Whether a rule makes sense, by itself and below the earlier ones.
fn check<'a>(
    rule: &CacheRule,
    at: usize,
    mut earlier: impl Iterator<Item = &'a CacheRule>,
) -> Result<(), BadCacheRule> {
    let orders = &rule.orders;
    if at >= MOST_RULES {
        return Err(BadCacheRule::TooMany);
    }
    if rule.min_bytes.zip(rule.max_bytes).is_some_and(|(least, most)| least > most) {
        return Err(BadCacheRule::Sizes);
    }
    if orders.min_seconds > orders.max_seconds {
        return Err(BadCacheRule::Lifetimes);
    }
    if orders.ttl_seconds.is_some_and(|ttl| !(orders.min_seconds..=orders.max_seconds).contains(&ttl)) {
        return Err(BadCacheRule::Lifetime);
    }
    let nothing_else = tinaja_http::storable::Orders { store: Storing::Never, ..Default::default() };
    if orders.store == Storing::Never && *orders != nothing_else {
        return Err(BadCacheRule::Never);
    }
    for (one, missing, what) in [
        (Override::Lifetime, orders.ttl_seconds.is_none(), "ttl"),
        (Override::Status, orders.ttl_seconds.is_none(), "ttl"),
        (Override::MustRevalidate, orders.grace_seconds.is_none(), "grace"),
    ] {
        if orders.overrides.has(one) && missing {
            return Err(BadCacheRule::Idle(one.name(), what));
        }
    }
    for path in &rule.paths {
        let PathPattern::Regex(expression) = path else { continue };
        let built = RegexBuilder::new(expression).unicode(false).size_limit(MOST_REGEX_BYTES).build();
        match built {
            Ok(_) => {}
            Err(regex::Error::CompiledTooBig(_)) => return Err(BadCacheRule::RegexTooLarge(shown(expression))),
            Err(error) => {
                // Several lines, of which the last says what is wrong.
                let cause = error.to_string();
                let cause = cause.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
                return Err(BadCacheRule::Regex { expression: shown(expression), cause });
            }
        }
    }
    match earlier.find(|other| other.covers(rule)) {
        Some(other) => Err(BadCacheRule::NeverFits(other.to_string())),
        None => Ok(()),
    }
}
