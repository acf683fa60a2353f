//! Under which names answers are stored, where the operator knows that several URLs are one thing, or one URL several.
//!
//! Rules are read from the top, and the first that fits a URL decides alone. Where none fits, every byte of a URL counts.
//!
//! # Decisions
//!
//! - What a rule takes out of a name it takes out of the request as well. Otherwise whoever puts something in it that his origin
//!   heeds and the name lacks would choose what all others get. The one exception is `store_id`, by which an operator says that
//!   several hosts have the same.
//! - GET and HEAD alone are changed. All other methods reach their origin as they came, and are named for what they make invalid.
//! - What a rule adds does not become part of the name, but of the variant, like a field that the answer varies by. So a URL stays
//!   one name, that is purged and made invalid at once, and has no more variants than any other.
//! - A rule makes nothing new of what it has made already: nodes of a cluster ask each other for what one of them has changed.

mod check;
mod cookies;
mod fields;
mod query;
mod rule;

use std::sync::Arc;

use regex::bytes::Regex;

pub use crate::fits::{BadPattern, BadUrls, HostPattern, PathPattern};
use crate::fits::{Hosts, UrlMatcher, check as check_urls, compiled};
pub use check::{BadKeyRule, BadKeyRules};
pub use query::{BadParameter, Parameter, Query, TRACKING};
pub use rule::{Addition, BadWord, FoldedHost, KeyRule, StoreId};

/// Rules, read once. Copies share them.
#[derive(Clone, Debug, Default)]
pub struct KeyRules(Option<Arc<Compiled>>);

#[derive(Debug)]
struct Compiled {
    rules: Vec<Arc<ReadRule>>,
    urls: UrlMatcher,
}

/// A rule, and its expressions for values of fields, in their order.
#[derive(Debug)]
pub(crate) struct ReadRule {
    pub rule: KeyRule,
    words: Vec<Vec<Regex>>,
    /// What it does to fields, if it does something.
    actions: Option<[u8; 16]>,
}

impl KeyRules {
    /// Reads rules in their order.
    ///
    /// Errors: [`BadKeyRules`], with the first that is to blame.
    pub fn new(rules: Vec<KeyRule>) -> Result<KeyRules, BadKeyRules> {
        if rules.is_empty() {
            return Ok(KeyRules::default());
        }
        let (mut hosts, mut count, mut words) = (Vec::<Hosts<'_>>::new(), 0, Vec::new());
        for (at, rule) in rules.iter().enumerate() {
            let bad = |why| BadKeyRules { at, why };
            count += rule.hosts.len();
            check_urls(at, count, &rule.paths).map_err(|why| bad(why.into()))?;
            check::check(rule).map_err(bad)?;
            let of_field = |(_, words): &(_, Vec<(String, String)>)| {
                words.iter().map(|(expression, _)| compiled(expression)).collect::<Result<Vec<Regex>, BadUrls>>()
            };
            let of_rule = rule.normalize.iter().map(of_field).collect::<Result<Vec<_>, _>>();
            words.push(of_rule.map_err(|why| bad(why.into()))?);
            if let Some((other, _)) = rules.iter().zip(&hosts).find(|(other, hosts)| other.covers(hosts, rule)) {
                return Err(bad(BadKeyRule::NeverFits(other.to_string())));
            }
            hosts.push(Hosts::new(&rule.hosts));
        }
        drop(hosts);
        let too_large = |why: BadUrls| BadKeyRules { at: rules.len().saturating_sub(1), why: why.into() };
        let urls = UrlMatcher::new(rules.iter().map(|rule| (&*rule.hosts, &*rule.paths))).map_err(too_large)?;
        let rules: Vec<_> =
            rules.into_iter().zip(words).map(|(rule, words)| Arc::new(ReadRule::new(rule, words))).collect();
        for (at, rule) in rules.iter().enumerate() {
            rule.check_words().map_err(|why| BadKeyRules { at, why })?;
        }
        Ok(KeyRules(Some(Arc::new(Compiled { rules, urls }))))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list().len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    fn list(&self) -> &[Arc<ReadRule>] {
        self.0.as_ref().map_or(&[], |compiled| &compiled.rules)
    }

    /// The rule for a URL, by its host without a port and its path with the query.
    pub(crate) fn find(&self, host: &str, path: &str) -> Option<&Arc<ReadRule>> {
        let Compiled { rules, urls } = &**self.0.as_ref()?;
        let path = path.split('?').next().unwrap_or_default();
        // The server as a whole (`*`) is no URL.
        rules.get(urls.find(host, path, |_| path.starts_with('/'))?)
    }

    /// Rules that fold hosts into one, and that.
    pub(crate) fn folds(&self) -> impl Iterator<Item = (&KeyRule, &str)> {
        self.list().iter().filter_map(|read| Some((&read.rule, read.rule.fold_host.as_ref()?.host())))
    }

    /// The hosts under whose names some of what clients ask this host for is stored.
    pub(crate) fn other_hosts(&self, host: &HostPattern) -> Vec<String> {
        let meets = |rule: &&Arc<ReadRule>| rule.rule.hosts.iter().any(|own| own.covers(host) || host.covers(own));
        let mut others: Vec<String> =
            self.list().iter().filter(meets).filter_map(|rule| rule.rule.other_host()).collect();
        others.sort_unstable();
        others.dedup();
        others
    }
}

impl PartialEq for KeyRules {
    fn eq(&self, other: &KeyRules) -> bool {
        self.list().iter().map(|rule| &rule.rule).eq(other.list().iter().map(|rule| &rule.rule))
    }
}

#[cfg(test)]
mod tests;
