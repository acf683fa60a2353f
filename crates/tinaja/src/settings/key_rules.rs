//! `[[key_rule]]`: under which names answers are stored, as written and as meant.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Result;
use http::HeaderName;
use serde::Deserialize;
use tinaja_proxy::key_rules::{
    Addition, FoldedHost, HostPattern, KeyRule, KeyRules, Parameter, PathPattern, Query, StoreId, TRACKING,
};
use toml::Spanned;

use super::hosts::hosts;
use super::source::Source;
use super::words::{Word, Words};
use crate::values::{OneOrMore, Text};

/// One `[[key_rule]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileKeyRule {
    #[serde(default)]
    host: OneOrMore<Text<HostPattern>>,
    #[serde(default)]
    host_file: Option<PathBuf>,
    #[serde(default)]
    path: OneOrMore<Text<PathPattern>>,
    #[serde(default)]
    path_regex: OneOrMore<String>,
    #[serde(default)]
    query: Option<Text<Word<WholeQuery>>>,
    #[serde(default)]
    drop_query: Option<OneOrMore<Text<Parameter>>>,
    #[serde(default)]
    keep_query: Option<OneOrMore<Text<Parameter>>>,
    #[serde(default)]
    preset: Option<Text<Word<Preset>>>,
    #[serde(default)]
    sort_query: bool,
    #[serde(default)]
    strip_session: OneOrMore<String>,
    #[serde(default)]
    fold_host: Option<Text<FoldedHost>>,
    #[serde(default)]
    store_id: Option<Text<StoreId>>,
    #[serde(default)]
    add: OneOrMore<Text<Addition>>,
    #[serde(default)]
    encodings: Option<OneOrMore<String>>,
    #[serde(default)]
    vary_cookies: Option<OneOrMore<String>>,
    #[serde(default)]
    normalize: BTreeMap<String, Vec<(String, String)>>,
    #[serde(default)]
    drop_field: OneOrMore<Text<Field>>,
}

/// What becomes of a query as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WholeQuery {
    Keep,
    Drop,
}

impl Words for WholeQuery {
    const WRONG: &'static str = "does not say what becomes of the query";

    fn words() -> Vec<(&'static str, Self)> {
        vec![("keep", WholeQuery::Keep), ("drop", WholeQuery::Drop)]
    }

    fn besides(_: &str) -> &'static str {
        ", or drop_query and keep_query for some of it"
    }
}

/// A list of parameters that comes with Tinaja.
#[derive(Clone, Copy, Debug)]
enum Preset {
    Tracking,
}

impl Words for Preset {
    const WRONG: &'static str = "is not a preset";

    fn words() -> Vec<(&'static str, Self)> {
        vec![("tracking", Preset::Tracking)]
    }
}

/// A field of requests.
#[derive(Clone, Debug)]
struct Field(HeaderName);

impl FromStr for Field {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Field).map_err(|_| format!("{text:?} is not a field; write its name, as in User-Agent"))
    }
}

/// The rules of a file.
///
/// Errors: one of them makes no sense, or never fits; with its line.
pub fn key_rules(files: Vec<Spanned<FileKeyRule>>, source: &Source<'_>) -> Result<KeyRules> {
    let (mut rules, mut spans) = (Vec::<KeyRule>::new(), Vec::<Range<usize>>::new());
    for (number, file) in (1..).zip(files) {
        let at = file.span();
        let line = Some(source.line(&at));
        let rule = file.into_inner().rule().map_err(|what| source.error(at.clone(), what))?;
        rules.push(KeyRule { number, line, ..rule });
        spans.push(at);
    }
    KeyRules::new(rules).map_err(|error| source.error(spans.get(error.at).cloned().unwrap_or_default(), error))
}

impl FileKeyRule {
    /// What it means.
    fn rule(self) -> Result<KeyRule, String> {
        let query = self.query()?;
        let mut before = HashSet::new();
        if let Some(Text(twice)) = self.host.0.iter().find(|Text(host)| !before.insert(host.to_string())) {
            return Err(format!("host has \"{twice}\" twice: remove one of them"));
        }
        let texts = |OneOrMore(list): OneOrMore<Text<PathPattern>>| list.into_iter().map(|Text(one)| one);
        let expressions = self.path_regex.0.into_iter().map(PathPattern::Regex);
        let mut normalize = Vec::new();
        for (name, words) in self.normalize {
            let Field(field) = name.parse()?;
            normalize.push((field, words));
        }
        let rule = KeyRule {
            hosts: hosts(self.host, self.host_file.as_ref())?,
            paths: texts(self.path).chain(expressions).collect(),
            query,
            sort_query: self.sort_query,
            sessions: self.strip_session.0,
            fold_host: self.fold_host.map(|Text(host)| host),
            store_id: self.store_id.map(|Text(id)| id),
            add: self.add.0.into_iter().map(|Text(one)| one).collect(),
            encodings: self.encodings.map(|OneOrMore(list)| list),
            cookies: self.vary_cookies.map(|OneOrMore(list)| list),
            normalize,
            drop_fields: self.drop_field.0.into_iter().map(|Text(Field(name))| name).collect(),
            says_keep: self.query == Some(Text(Word(WholeQuery::Keep))),
            ..KeyRule::default()
        };
        Ok(rule.completed())
    }

    /// Which parameters count.
    fn query(&self) -> Result<Query, String> {
        let list = |list: &Option<OneOrMore<Text<Parameter>>>| {
            list.as_ref().map(|OneOrMore(list)| list.iter().map(|Text(one)| one.clone()).collect::<Vec<_>>())
        };
        let (dropped, kept) = (list(&self.drop_query), list(&self.keep_query));
        let tracking = self.preset.as_ref().map(|Text(Word(Preset::Tracking))| {
            TRACKING.iter().filter_map(|name| name.parse().ok()).collect::<Vec<Parameter>>()
        });
        let without = match (dropped, tracking) {
            (None, None) => None,
            (dropped, tracking) => {
                if dropped.as_ref().is_some_and(Vec::is_empty) {
                    return Err("drop_query is empty, and does nothing: remove it".into());
                }
                // What is in both is named once.
                let mut all = dropped.unwrap_or_default();
                let others: Vec<_> = tracking.into_iter().flatten().filter(|one| !all.contains(one)).collect();
                all.extend(others);
                Some(all)
            }
        };
        match (self.query, without, kept) {
            (Some(Text(Word(WholeQuery::Keep))), None, None) | (None, None, None) => Ok(Query::All),
            (Some(Text(Word(WholeQuery::Drop))), None, None) => Ok(Query::Nothing),
            (None, Some(without), None) => Ok(Query::Without(without)),
            (None, None, Some(kept)) => Ok(Query::Only(kept)),
            _ => {
                Err("query, keep_query, and drop_query or preset each say which parameters count: use one of them"
                    .into())
            }
        }
    }
}

#[cfg(test)]
#[path = "key_rules_tests.rs"]
mod tests;
