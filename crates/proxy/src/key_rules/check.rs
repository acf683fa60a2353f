//! Whether a rule about names makes sense by itself.

use http::HeaderName;
use http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, COOKIE,
    EXPECT, HOST, MAX_FORWARDS, PRAGMA, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, VIA,
};
use tinaja_http::judge::is_token;
use tinaja_http::misleading::is_misleading;
use tinaja_http::vary::NOT_FETCHED_WITH;

use super::query::Query;
use super::rule::{Addition, KeyRule, is_cookie, is_word};
use super::{BadUrls, ReadRule};

/// Members of one list of a rule, at most.
const MOST_MEMBERS: usize = 64;

/// Why rules make no sense. The place in the list, from 0, says which.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct BadKeyRules {
    /// The rule that is to blame.
    pub at: usize,
    /// What is wrong with it.
    pub why: BadKeyRule,
}

/// Why a rule makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadKeyRule {
    /// An earlier one takes all that it could fit.
    #[error(
        "this rule never fits, since {0} above it fits all that it could: remove one of them, or change their order"
    )]
    NeverFits(String),
    /// It does nothing.
    #[error("this rule says nothing: give it an action, or query = \"keep\" to leave what it fits as it is")]
    Nothing,
    /// Hosts become one, and none are named.
    #[error("{0} needs host: without it all hosts there are would become one")]
    NeedsHost(&'static str),
    /// Two actions that are one too many.
    #[error("{0} and {1} do not go together: {2}")]
    Together(&'static str, &'static str, &'static str),
    /// A list that is too long.
    #[error("{0} has more than {MOST_MEMBERS} members")]
    TooMany(&'static str),
    /// A list without members.
    #[error("{0} is empty, and does nothing: remove it")]
    Empty(&'static str),
    /// A list that has something twice.
    #[error("{0} has {1:?} twice: remove one of them")]
    Twice(&'static str, String),
    /// A name of a session.
    #[error("{0:?} is not the name of a parameter; write it without ; and =, as in \"jsessionid\"")]
    Session(String),
    /// A name of a cookie.
    #[error("{0:?} is not the name of a cookie")]
    Cookie(String),
    /// An added cookie that is one of many.
    #[error(
        "add = \"cookie:{0}\" needs {0:?} in vary_cookies: origins differ over where a cookie ends, so those that count must be all that they get. \
         Name in vary_cookies all cookies that the origin needs on this rule's paths; each of them counts"
    )]
    NeedsCookie(String),
    /// A coding.
    #[error("{0:?} is not a content coding that an origin has besides identity; write it as in \"br\" or \"gzip\"")]
    Encoding(String),
    /// A field with a setting of its own.
    #[error("{field} cannot be in {setting}: {instead}")]
    Field {
        /// The field.
        field: HeaderName,
        /// Where it stands.
        setting: &'static str,
        /// What to do.
        instead: &'static str,
    },
    /// A word for values.
    #[error("{0:?} cannot stand for a field's values; use up to 128 printable characters")]
    Word(String),
    /// A word that would become another one by the next proxy with the same rule.
    #[error(
        "for {field}, {word:?} itself becomes {other:?}: put an expression that fits {word:?} before it, as \"^{word}$\""
    )]
    Unstable {
        /// The field.
        field: HeaderName,
        /// The word.
        word: String,
        /// What it becomes.
        other: String,
    },
    /// Its hosts, paths or expressions are of no use.
    #[error("{0}")]
    Urls(#[from] BadUrls),
}

/// Fields that say something to this proxy, or that it sets or takes away itself.
const OURS: [HeaderName; 18] = [
    HOST,
    CONNECTION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    VIA,
    CONTENT_LENGTH,
    CONTENT_TYPE,
    CONTENT_ENCODING,
    EXPECT,
    MAX_FORWARDS,
    CACHE_CONTROL,
    PRAGMA,
    PROXY_AUTHORIZATION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-forwarded-proto"),
];

/// Errors: what is wrong with a rule that has been completed.
pub(super) fn check(rule: &KeyRule) -> Result<(), BadKeyRule> {
    let KeyRule { query, sort_query, sessions, fold_host, store_id, add, encodings, cookies, .. } = rule;
    for (name, there) in [("fold_host", fold_host.is_some()), ("store_id", store_id.is_some())] {
        if there && rule.hosts.is_empty() {
            return Err(BadKeyRule::NeedsHost(name));
        }
    }
    if fold_host.is_some() && store_id.is_some() {
        return Err(BadKeyRule::Together("fold_host", "store_id", "with one host there is nothing left to share"));
    }
    if *query == Query::Nothing && *sort_query {
        return Err(BadKeyRule::Together("query = \"drop\"", "sort_query", "nothing is left to sort"));
    }
    let of_query = match query {
        Query::All | Query::Nothing => 1,
        // A preset is one word of the rule.
        Query::Without(list) => list.iter().filter(|one| !one.is_tracking()).count().max(list.len().min(1)),
        Query::Only(list) => list.len(),
    };
    let list = if matches!(query, Query::Only(_)) { "keep_query" } else { "drop_query" };
    for (name, members) in [
        (list, of_query),
        ("strip_session", sessions.len().max(1)),
        ("add", add.len().max(1)),
        ("encodings", encodings.as_ref().map_or(1, Vec::len)),
        ("vary_cookies", cookies.as_ref().map_or(1, |cookies| cookies.len().max(1))),
        ("normalize", rule.normalize.len().max(1)),
        ("drop_field", rule.drop_fields.len().max(1)),
    ] {
        match members {
            0 => return Err(BadKeyRule::Empty(name)),
            1..=MOST_MEMBERS => {}
            _ => return Err(BadKeyRule::TooMany(name)),
        }
    }
    let is_parameter = |name: &str| {
        !name.is_empty()
            && name.len() <= 256
            && name.bytes().all(|byte| byte.is_ascii_graphic() && !b";=&/?#*".contains(&byte))
    };
    if let Some(bad) = sessions.iter().find(|name| !is_parameter(name)) {
        return Err(BadKeyRule::Session(bad.clone()));
    }
    if let Some(bad) = cookies.iter().flatten().find(|name| !is_cookie(name)) {
        return Err(BadKeyRule::Cookie(bad.clone()));
    }
    let is_coding = |coding: &String| {
        is_token(coding.as_bytes())
            && coding.to_ascii_lowercase() == *coding
            && !["*", "identity", "x-gzip", "x-compress"].contains(&coding.as_str())
    };
    if let Some(bad) = encodings.iter().flatten().find(|coding| !is_coding(coding)) {
        return Err(BadKeyRule::Encoding(bad.clone()));
    }
    let fields = |names: &mut dyn Iterator<Item = &HeaderName>| names.map(ToString::to_string).collect::<Vec<_>>();
    let parameters = match query {
        Query::All | Query::Nothing => &[][..],
        Query::Without(list) | Query::Only(list) => list,
    };
    for (name, members) in [
        (list, parameters.iter().map(ToString::to_string).collect()),
        ("add", add.iter().map(ToString::to_string).collect()),
        ("strip_session", sessions.clone()),
        ("encodings", encodings.clone().unwrap_or_default()),
        ("vary_cookies", cookies.clone().unwrap_or_default()),
        ("normalize", fields(&mut rule.normalize.iter().map(|(field, _)| field))),
        ("drop_field", fields(&mut rule.drop_fields.iter())),
    ] {
        let mut before = std::collections::HashSet::new();
        if let Some(twice) = members.iter().find(|member| !before.insert(*member)) {
            return Err(BadKeyRule::Twice(name, twice.clone()));
        }
    }
    check_fields(rule)
}

fn check_fields(rule: &KeyRule) -> Result<(), BadKeyRule> {
    let added = rule.add.iter().filter_map(|one| match one {
        Addition::Header(name) => Some(("add", name)),
        Addition::Cookie(_) => None,
    });
    let normalized = rule.normalize.iter().map(|(name, _)| ("normalize", name));
    let dropped = rule.drop_fields.iter().map(|name| ("drop_field", name));
    for (setting, field) in added.chain(normalized).chain(dropped) {
        let instead = match field {
            _ if OURS.contains(field) || NOT_FETCHED_WITH.contains(field) || is_misleading(field, true) => {
                "what an origin gets of it is not what the client sends"
            }
            _ if *field == AUTHORIZATION && setting != "add" => "it says who the client is, which its answer is for",
            _ if *field == COOKIE && setting == "add" => "name one of them, as \"cookie:NAME\"",
            _ if *field == COOKIE => "say in vary_cookies which of them the origin gets",
            _ if *field == ACCEPT_ENCODING && setting == "normalize" => "say in encodings what the origin has",
            _ => continue,
        };
        return Err(BadKeyRule::Field { field: field.clone(), setting, instead });
    }
    let changed = |name: &HeaderName| rule.normalize.iter().any(|(field, _)| field == name);
    if rule.drop_fields.iter().any(changed) {
        return Err(BadKeyRule::Together("drop_field", "normalize", "what is dropped has no value"));
    }
    if rule.encodings.is_some() && rule.drop_fields.contains(&ACCEPT_ENCODING) {
        return Err(BadKeyRule::Together("drop_field", "encodings", "what is dropped has no value"));
    }
    for one in &rule.add {
        match one {
            Addition::Header(name) if rule.drop_fields.contains(name) => {
                return Err(BadKeyRule::Together("add", "drop_field", "what is dropped has no value to add"));
            }
            Addition::Cookie(name) if rule.cookies.as_ref().is_none_or(|kept| !kept.contains(name)) => {
                return Err(BadKeyRule::NeedsCookie(name.clone()));
            }
            _ => {}
        }
    }
    match rule.normalize.iter().flat_map(|(_, words)| words).find(|(_, word)| !is_word(word)) {
        Some((_, bad)) => Err(BadKeyRule::Word(bad.clone())),
        None if rule.normalize.iter().any(|(_, words)| words.is_empty()) => {
            Err(BadKeyRule::Empty("a field of normalize"))
        }
        None if rule.normalize.iter().any(|(_, words)| words.len() > MOST_MEMBERS) => {
            Err(BadKeyRule::TooMany("a field of normalize"))
        }
        None if !rule.acts() => Err(BadKeyRule::Nothing),
        None => Ok(()),
    }
}

impl ReadRule {
    /// Whether words stay what they are, however many proxies have the same rule.
    ///
    /// Errors: [`BadKeyRule::Unstable`].
    pub(super) fn check_words(&self) -> Result<(), BadKeyRule> {
        for (at, (field, words)) in self.rule.normalize.iter().enumerate() {
            for (_, word) in words {
                let other = self.word(at, word.as_bytes()).unwrap_or_default();
                if other != word {
                    let (field, word, other) = (field.clone(), word.clone(), other.to_owned());
                    return Err(BadKeyRule::Unstable { field, word, other });
                }
            }
        }
        Ok(())
    }
}
