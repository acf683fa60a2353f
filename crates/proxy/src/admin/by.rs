//! Taking back more than a URL, or a URL softly: by the control socket, in a stopped cache, and by PURGE with a field that says what.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use http::HeaderName;
use tinaja_clock::Clock;
use tinaja_http::lines::lines;

use super::elsewhere::with_elsewhere;
use crate::bans::{BanError, Bans, MOST_TEXT_BYTES, Rule, Selector, Subject, hash, of_stopped_node, split, tag_fields};
use crate::config::Listener;
use crate::nodes::{Nodes, ban_everywhere};

/// In a PURGE: what is purged besides the URL itself, and how.
const PURGE: HeaderName = HeaderName::from_static("tinaja-purge");
/// The same for those who know it from Fastly.
const SOFT: HeaderName = HeaderName::from_static("fastly-soft-purge");
/// Tags in one PURGE, as at Fastly.
const MOST_TAGS: usize = 256;

/// Takes back what fits, under the names that these listeners give it too. Returns once it is on the disk, and on those of all other nodes.
///
/// Errors: why nothing was taken back, and what to do.
pub(crate) async fn purge_by(
    (bans, nodes): (&Arc<Bans>, Option<&Arc<Nodes>>),
    clock: &Clock,
    listeners: &[Arc<Listener>],
    what: &[Selector],
    soft: bool,
) -> Result<(), String> {
    if what.is_empty() {
        return Err("nothing was named: say what to purge".into());
    }
    let what = with_elsewhere(what, listeners);
    let rules = what.iter().map(Selector::rule).collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
    ban_everywhere(bans, nodes, clock, rules, soft).await.map_err(|error| error.to_string())
}

/// The same in a cache that no server runs on, whose first directory this is; and whether it is a node of a cluster. Whoever calls this has
/// the cache open.
///
/// Errors: [`BanError`].
pub fn ban_stopped(
    (dir, is_node): (&Path, bool),
    what: &[Selector],
    soft: bool,
    now: SystemTime,
) -> Result<(), BanError> {
    if is_node {
        return Err(of_stopped_node());
    }
    let bans = Bans::away(dir.is_dir().then_some(dir), is_node);
    // Nothing is judged here; whoever serves from the cache finds out how old its index is.
    bans.take(now, u64::MAX);
    bans.ban(what.iter().filter_map(|what| what.rule().ok()).collect(), soft, now).map(drop)
}

/// What a PURGE asks for besides forgetting its URL.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct By {
    rules: Vec<Rule>,
    soft: bool,
}

impl By {
    /// Has it done.
    ///
    /// Errors: [`BanError`].
    pub async fn carry_out(self, bans: &Arc<Bans>, nodes: Option<&Arc<Nodes>>, clock: &Clock) -> Result<(), BanError> {
        ban_everywhere(bans, nodes, clock, self.rules, self.soft).await
    }
}

/// What the fields of a PURGE ask for, of a URL that is stored as any of `subjects`, which are asked for by whether it is the beginning of
/// URLs; nothing if that is to be forgotten and no more. Tags count
/// at its hosts alone: rules have let the client purge there.
///
/// Errors: why they make no sense, for the client.
///
/// With `is_ban`, for which what is stored is not looked for, the URL itself is taken back like the others.
pub(crate) fn asked_by<'a>(
    is_ban: bool,
    fields: &[u8],
    subjects: impl FnOnce(bool) -> Vec<Subject<'a>>,
) -> Result<Option<By>, String> {
    let (mut soft, mut wide, mut tags) = (false, None, Vec::new());
    for line in lines(fields) {
        if line.is(&SOFT) {
            soft |= line.value == b"1";
        } else if line.is(&PURGE) {
            for word in split(line.value) {
                match word {
                    b"soft" => soft = true,
                    b"prefix" | b"host" if wide.is_none_or(|before| before == word) => wide = Some(word),
                    b"prefix" | b"host" => return Err("Tinaja-Purge names both a prefix and a host.".into()),
                    _ => return Err("Tinaja-Purge takes soft, prefix and host, and nothing else.".into()),
                }
            }
        } else if tag_fields().iter().any(|name| line.is(name)) {
            tags.extend(split(line.value).map(hash));
            if tags.len() > MOST_TAGS {
                return Err(format!("At most {MOST_TAGS} tags are purged at once."));
            }
        }
    }
    if !tags.is_empty() && wide.is_some() {
        return Err("Purge by tags, or by a prefix or host, but not by both at once.".into());
    }
    if tags.is_empty() && wide.is_none() && !soft && !is_ban {
        return Ok(None);
    }
    let subjects = subjects(wide == Some(b"prefix"));
    if subjects.is_empty() {
        return Err("There is no such URL.".into());
    }
    let mut rules: Vec<Rule> = Vec::new();
    for Subject { host, url, .. } in subjects {
        if url.len() > MOST_TEXT_BYTES {
            return Err(format!("Such a purge takes a URL of {MOST_TEXT_BYTES} bytes at most."));
        }
        let host = host.into_owned();
        let of_subject = match wide {
            Some(b"host") => vec![Rule::Host(host)],
            Some(_) => vec![Rule::Prefix(url)],
            None if tags.is_empty() => vec![Rule::Url(url)],
            None => tags.iter().map(|tag| Rule::Tag { host: Some(host.clone()), tag: *tag }).collect(),
        };
        for rule in of_subject {
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
    }
    Ok(Some(By { rules, soft }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_purge_asks_for() {
        let subject = || Subject { scheme: "http", host: "a.example".into(), url: "a.example:81/x?y".into() };
        let asked = |fields: &str| asked_by(false, fields.as_bytes(), |_| vec![subject()]);
        let by = |rules, soft| Ok(Some(By { rules, soft }));
        let tag = |tag: &str| Rule::Tag { host: Some("a.example".into()), tag: hash(tag.as_bytes()) };
        assert_eq!(asked("Accept: */*\r\n"), Ok(None));
        assert_eq!(asked("Fastly-Soft-Purge: 0\r\n"), Ok(None));
        let banned = |fields: &[u8]| asked_by(true, fields, |_| vec![subject()]);
        assert_eq!(banned(b""), by(vec![Rule::Url("a.example:81/x?y".into())], false));
        assert_eq!(banned(b"Tinaja-Purge: host\r\n"), by(vec![Rule::Host("a.example".into())], false));
        let long = Subject { scheme: "http", host: "a.example".into(), url: "a".repeat(MOST_TEXT_BYTES + 1) };
        assert!(
            asked_by(false, b"Tinaja-Purge: prefix\r\n", |_| vec![long]).unwrap_err().contains("4096 bytes at most")
        );
        for fields in ["Fastly-Soft-Purge: 1\r\n", "tinaja-purge: soft\r\n"] {
            assert_eq!(asked(fields), by(vec![Rule::Url("a.example:81/x?y".into())], true));
        }
        assert_eq!(asked("Surrogate-Key: a b\r\n"), by(vec![tag("a"), tag("b")], false));
        let both = "xkey: a\r\nCache-Tag: b,c\r\nTinaja-Purge: soft\r\n";
        assert_eq!(asked(both), by(vec![tag("a"), tag("b"), tag("c")], true));
        assert_eq!(asked("Tinaja-Purge: host\r\n"), by(vec![Rule::Host("a.example".into())], false));
        assert_eq!(asked("Tinaja-Purge: prefix, soft\r\n"), by(vec![Rule::Prefix("a.example:81/x?y".into())], true));
        let other = Subject { scheme: "http", host: "b.example".into(), url: "b.example/x".into() };
        let all = asked_by(false, b"Tinaja-Purge: host\r\n", |_| vec![subject(), other, subject()]);
        assert_eq!(all, by(vec![Rule::Host("a.example".into()), Rule::Host("b.example".into())], false));
        assert!(asked_by(false, b"Tinaja-Purge: host\r\n", |_| Vec::new()).is_err());
        let many = format!("xkey: {}\r\n", "t ".repeat(MOST_TAGS + 1));
        let refused =
            ["Tinaja-Purge: all\r\n", "Tinaja-Purge: host prefix\r\n", "Tinaja-Purge: host\r\nxkey: a\r\n", &many];
        refused.into_iter().for_each(|fields| assert!(asked(fields).is_err(), "{fields}"));
    }
}
