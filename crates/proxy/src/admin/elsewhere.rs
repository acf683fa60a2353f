//! What is stored under other URLs than clients ask for, because a key rule says so: it is taken back with what was named.

use std::sync::Arc;

use tinaja_http::authority::Authority;
use tinaja_http::judge::{Target, judge};

use crate::bans::Selector;
use crate::config::Listener;
use crate::fits::HostPattern;

/// What was named, and what key rules of these listeners make of it.
pub(super) fn with_elsewhere(what: &[Selector], listeners: &[Arc<Listener>]) -> Vec<Selector> {
    let mut all = what.to_vec();
    for listener in listeners.iter().filter(|listener| !listener.key_rules.is_empty()) {
        for other in what.iter().flat_map(|one| elsewhere(one, listener)) {
            if !all.contains(&other) {
                all.push(other);
            }
        }
    }
    all
}

/// Under which other names a listener may have stored what one selector names.
fn elsewhere(what: &Selector, listener: &Listener) -> Vec<Selector> {
    let rules = &listener.key_rules;
    let others = |host: &str| host.parse::<HostPattern>().map_or(Vec::new(), |host| rules.other_hosts(&host));
    match what {
        Selector::All | Selector::Regex { .. } => Vec::new(),
        Selector::Suffix { host: None, .. } | Selector::Tag { host: None, .. } => Vec::new(),
        Selector::Host { host } => others(host).into_iter().map(|host| Selector::Host { host }).collect(),
        Selector::Suffix { suffix, host: Some(host) } => {
            let of = |host| Selector::Suffix { suffix: suffix.clone(), host: Some(host) };
            others(host).into_iter().map(of).collect()
        }
        Selector::Tag { tag, host: Some(host) } => {
            let of = |host| Selector::Tag { tag: tag.clone(), host: Some(host) };
            others(host).into_iter().map(of).collect()
        }
        Selector::Url { url } => {
            let Some((scheme, authority, path)) = parts(url) else { return Vec::new() };
            let Some(rule) = rules.find(authority.host(), &path) else { return Vec::new() };
            let host = rule.rule.other_host().unwrap_or_else(|| authority.host().to_owned());
            let url = at(scheme, &host, &authority, &rule.rule.path(&path));
            vec![Selector::Url { url }]
        }
        // Its end may be amid a query, which is taken as it stands.
        Selector::Prefix { url } => {
            let Some((scheme, authority, path)) = parts(url) else { return Vec::new() };
            let of = |host: String| Selector::Prefix { url: at(scheme, &host, &authority, &path) };
            others(authority.host()).into_iter().map(of).collect()
        }
    }
}

/// A URL, read as that of a request is.
fn parts(url: &str) -> Option<(&'static str, Authority, String)> {
    let judged = judge(format!("GET {url} HTTP/1.0\r\n\r\n").as_bytes()).ok()?;
    match (judged.target, judged.authority) {
        (Target::Absolute { tls, path }, Some(authority)) => {
            Some((if tls { "https" } else { "http" }, authority, path))
        }
        _ => None,
    }
}

fn at(scheme: &str, host: &str, authority: &Authority, path: &str) -> String {
    let there = authority.at(host).unwrap_or_else(|| authority.clone());
    format!("{scheme}://{there}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Mode;
    use crate::key_rules::{KeyRule, KeyRules, Query};
    use crate::routes::Routes;

    #[test]
    fn what_clients_ask_for_is_found_where_it_is_stored() {
        let hosts = |text: &str| text.split(' ').map(|host| host.parse().unwrap()).collect();
        let rules = KeyRules::new(vec![
            KeyRule { hosts: hosts("a.x *.c.x"), store_id: Some("cdn".parse().unwrap()), ..KeyRule::default() },
            KeyRule {
                hosts: hosts("b.y www.y"),
                fold_host: Some("www.y".parse().unwrap()),
                query: Query::Nothing,
                ..KeyRule::default()
            },
        ]);
        let listener = Listener { key_rules: rules.unwrap(), ..Listener::forward("127.0.0.1:80".parse().unwrap()) };
        let url = |url: &str| Selector::Url { url: url.into() };
        let prefix = |url: &str| Selector::Prefix { url: url.into() };
        let host = |host: &str| Selector::Host { host: host.into() };
        let tag = |host: Option<&str>| Selector::Tag { tag: "t".into(), host: host.map(str::to_owned) };
        let id = "cdn.store-id.invalid";
        for (what, expected) in [
            (url("http://a.x:81/p?q"), vec![url("http://cdn.store-id.invalid:81/p?q")]),
            (url("https://b.y/p?q"), vec![url("https://www.y/p")]),
            (url("http://z/"), vec![]),
            (prefix("http://d.c.x/p?q"), vec![prefix("http://cdn.store-id.invalid/p?q")]),
            (host("a.x"), vec![host(id)]),
            (host("*.x"), vec![host(id)]),
            (host("*.e.c.x"), vec![host(id)]),
            (host("*.y"), vec![host("www.y")]),
            (host("c.x"), vec![]),
            (tag(Some("e.c.x")), vec![tag(Some(id))]),
            (tag(None), vec![]),
            (Selector::All, vec![]),
        ] {
            assert_eq!(elsewhere(&what, &listener), expected, "{what:?}");
        }
        // The same behind a reverse proxy.
        let mode = Mode::Reverse(Routes::to("http://127.0.0.1".parse().unwrap()));
        let reverse = Listener { mode, ..listener };
        assert_eq!(elsewhere(&url("http://a.x:81/p"), &reverse), [url("http://cdn.store-id.invalid:81/p")]);
        assert_eq!(elsewhere(&prefix("http://b.y:81/p"), &reverse), [prefix("http://www.y:81/p")]);
    }
}
