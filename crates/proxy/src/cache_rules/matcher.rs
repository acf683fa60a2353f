//! All rules as one matcher, and whether they make sense.

use tinaja_http::storable::{Override, Storing};

use super::rule::CacheRule;
use super::{BadCacheRule, BadCacheRules};
use crate::fits::{BadUrls, Hosts, UrlMatcher, check as check_urls};

/// Rules, and what finds them.
#[derive(Debug)]
pub(super) struct Matcher {
    pub rules: Vec<CacheRule>,
    /// Whether one of them says that clients' reloads do not count.
    pub ignores_reload: bool,
    /// Whether one of them has answers sent encoded.
    pub encodes: bool,
    urls: UrlMatcher,
}

impl Matcher {
    /// Errors: [`BadCacheRules`].
    pub fn new(rules: Vec<CacheRule>) -> Result<Matcher, BadCacheRules> {
        let (mut hosts, mut count) = (Vec::<Hosts<'_>>::new(), 0);
        for (at, rule) in rules.iter().enumerate() {
            count += rule.hosts.len();
            let checked = check_urls(at, count, &rule.paths).map_err(BadCacheRule::Urls).and_then(|()| check(rule));
            let covers = |(other, hosts): &(&CacheRule, &Hosts<'_>)| other.covers(hosts, rule);
            let checked = checked.and_then(|()| match rules.iter().zip(&hosts).find(covers) {
                Some((other, _)) => Err(BadCacheRule::NeverFits(other.to_string())),
                None => Ok(()),
            });
            checked.map_err(|why| BadCacheRules { at, why })?;
            hosts.push(Hosts::new(&rule.hosts));
        }
        let too_large =
            |why: BadUrls| BadCacheRules { at: rules.len().saturating_sub(1), why: BadCacheRule::Urls(why) };
        let urls = UrlMatcher::new(rules.iter().map(|rule| (&*rule.hosts, &*rule.paths))).map_err(too_large)?;
        let ignores_reload = rules.iter().any(|rule| rule.orders.ignores_reload);
        let encodes = rules.iter().any(|rule| !rule.orders.encode.is_empty());
        Ok(Matcher { rules, ignores_reload, encodes, urls })
    }

    /// The first rule that fits this host and this path and is `picked`.
    pub fn find<'a>(
        &'a self,
        host: &str,
        path: &str,
        mut picked: impl FnMut(&'a CacheRule) -> bool,
    ) -> Option<&'a CacheRule> {
        let picked = |at: usize| self.rules.get(at).is_some_and(&mut picked);
        self.rules.get(self.urls.find(host, path, picked)?)
    }
}

/// Whether a rule makes sense by itself.
fn check(rule: &CacheRule) -> Result<(), BadCacheRule> {
    let orders = &rule.orders;
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
    Ok(())
}
