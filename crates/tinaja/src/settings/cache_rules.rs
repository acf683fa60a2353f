//! `[[cache_rule]]`: what is stored, and for how long, as written and as meant.

use std::ops::Range;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Result;
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use tinaja_proxy::cache_rules::{
    CacheRule, CacheRules, Coding, HostPattern, Orders, Override, PathPattern, Preset, StatusPattern, Storing,
    TypePattern,
};
use toml::Spanned;

use super::hosts::hosts;
use super::source::Source;
use super::words::{Word, Words};
use crate::values::{OneOrMore, Size, Text};

/// One `[[cache_rule]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileCacheRule {
    #[serde(default)]
    host: OneOrMore<Text<HostPattern>>,
    #[serde(default)]
    host_file: Option<PathBuf>,
    #[serde(default)]
    path: OneOrMore<Text<PathPattern>>,
    #[serde(default)]
    path_regex: OneOrMore<String>,
    #[serde(default)]
    status: OneOrMore<FileStatus>,
    #[serde(default, rename = "type")]
    media_type: OneOrMore<Text<TypePattern>>,
    #[serde(default)]
    min_size: Option<Text<Size>>,
    #[serde(default)]
    max_size: Option<Text<Size>>,
    #[serde(default)]
    preset: Option<Text<Preset>>,
    #[serde(default)]
    store: Option<Text<Word<Storing>>>,
    #[serde(default)]
    ttl: Option<Text<Lifetime>>,
    #[serde(default)]
    min_ttl: Option<Text<Lifetime>>,
    #[serde(default)]
    max_ttl: Option<Text<Lifetime>>,
    #[serde(default)]
    grace: Option<Text<Lifetime>>,
    #[serde(default, rename = "override")]
    overrides: Option<OneOrMore<Text<Word<Override>>>>,
    #[serde(default)]
    ignore: Option<OneOrMore<Text<Word<Ignored>>>>,
    #[serde(default)]
    encode: Option<OneOrMore<Text<Word<Coding>>>>,
}

/// A lifetime: none at all, or up to ten years.
#[derive(Clone, Copy, Debug)]
struct Lifetime(Duration);

impl FromStr for Lifetime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const MOST: Duration = Duration::from_secs(10 * 366 * 24 * 3600);
        match humantime::parse_duration(text) {
            Ok(time) if time.subsec_nanos() > 0 => Err("a lifetime is whole seconds, as caches reckon it".to_owned()),
            Ok(time) if time <= MOST => Ok(Lifetime(time)),
            Ok(_) => Err("a lifetime is at most ten years".to_owned()),
            Err(_) => Err("a lifetime is a number and a unit, as in 10m, 12h, 30days or 0s".to_owned()),
        }
    }
}

impl Words for Storing {
    const WRONG: &'static str = "does not say what is stored";

    fn words() -> Vec<(&'static str, Self)> {
        vec![("default", Storing::Careful), ("shared", Storing::Shared), ("never", Storing::Never)]
    }
}

impl Words for Override {
    const WRONG: &'static str = "is nothing to override";

    fn words() -> Vec<(&'static str, Self)> {
        Override::ALL.map(|one| (one.name(), one)).to_vec()
    }
}

/// What is left unheeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ignored {
    SetCookie,
    ClientNoCache,
}

impl Words for Ignored {
    const WRONG: &'static str = "is nothing to ignore";

    fn words() -> Vec<(&'static str, Self)> {
        vec![("set-cookie", Ignored::SetCookie), ("client-no-cache", Ignored::ClientNoCache)]
    }

    fn besides(text: &str) -> &'static str {
        match text.starts_with("vary:") {
            true => {
                ". What an origin varies by and a name lacks would be poison: use drop_field in a key rule, by which the origin does not get \
                 the field"
            }
            false => "",
        }
    }
}

impl Words for Coding {
    const WRONG: &'static str = "is no coding that responses can be sent in";

    fn words() -> Vec<(&'static str, Self)> {
        Coding::ALL.map(|coding| (coding.name(), coding)).to_vec()
    }
}

/// A status as a number, or a class as a text.
#[derive(Clone, Copy, Debug)]
struct FileStatus(StatusPattern);

impl<'de> Deserialize<'de> for FileStatus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = FileStatus;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a status, as in 404, or a class in quotes, as in \"4xx\"")
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<FileStatus, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<FileStatus, E> {
                text.parse().map(FileStatus).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// The rules of a file.
///
/// Errors: one of them makes no sense, or never fits; with its line.
pub fn cache_rules(files: Vec<Spanned<FileCacheRule>>, source: &Source<'_>) -> Result<CacheRules> {
    let (mut rules, mut spans) = (Vec::<CacheRule>::new(), Vec::<Range<usize>>::new());
    for (number, file) in (1..).zip(files) {
        let at = file.span();
        let line = Some(source.line(&at));
        let meant = file.into_inner().rules().map_err(|what| source.error(at.clone(), what))?;
        for rule in meant {
            rules.push(CacheRule { number, line, ..rule });
            spans.push(at.clone());
        }
    }
    CacheRules::new(rules).map_err(|error| source.error(spans.get(error.at).cloned().unwrap_or_default(), error))
}

impl FileCacheRule {
    /// What it means: one rule, or those of its preset.
    fn rules(self) -> Result<Vec<CacheRule>, String> {
        let orders = self.orders()?;
        let texts = |OneOrMore(list): OneOrMore<Text<PathPattern>>| list.into_iter().map(|Text(one)| one);
        let hosts = hosts(self.host, self.host_file.as_ref())?;
        let expressions = self.path_regex.0.into_iter().map(PathPattern::Regex);
        let bytes = |size: Option<Text<Size>>| size.map(|Text(Size(bytes))| bytes);
        let rule = CacheRule {
            paths: texts(self.path).chain(expressions).collect(),
            statuses: self.status.0.into_iter().map(|FileStatus(status)| status).collect(),
            types: self.media_type.0.into_iter().map(|Text(one)| one).collect(),
            min_bytes: bytes(self.min_size),
            max_bytes: bytes(self.max_size),
            hosts,
            ..CacheRule::new(orders.unwrap_or_default())
        };
        let Some(Text(preset)) = self.preset else {
            let what =
                "this rule says nothing: give it an action, or store = \"default\" to leave what it fits to RFC 9111";
            return if orders.is_none() { Err(what.into()) } else { Ok(vec![rule]) };
        };
        if orders.is_some() || rule != (CacheRule { hosts: rule.hosts.clone(), ..CacheRule::new(Orders::default()) }) {
            return Err("a preset has paths and actions of its own: leave it host alone, or host_file".into());
        }
        if rule.hosts.is_empty() {
            return Err("a preset needs host: it goes by the form of paths, which mean something else elsewhere".into());
        }
        Ok(preset.rules(&rule.hosts))
    }

    /// What it orders, if it has any action.
    fn orders(&self) -> Result<Option<Orders>, &'static str> {
        let default = Orders::default();
        let seconds = |time: &Option<Text<Lifetime>>| time.as_ref().map(|Text(Lifetime(time))| time.as_secs());
        let ignored = |what| self.ignore.as_ref().is_some_and(|OneOrMore(list)| list.contains(&Text(Word(what))));
        let overrides =
            self.overrides.as_ref().map(|OneOrMore(list)| list.iter().map(|Text(Word(one))| *one).collect());
        let encode: Vec<Coding> =
            self.encode.iter().flat_map(|OneOrMore(list)| list).map(|Text(Word(coding))| *coding).collect();
        if self.encode.is_some() && encode.is_empty() {
            return Err("an empty list of codings encodes nothing: remove it");
        }
        if encode.iter().enumerate().any(|(number, coding)| encode.iter().take(number).any(|other| other == coding)) {
            return Err("encode names a coding twice: list each once, the one that you like best first");
        }
        let empty = [self.overrides.as_ref().map(|list| list.0.len()), self.ignore.as_ref().map(|list| list.0.len())];
        if empty.contains(&Some(0)) {
            return Err("an empty list of what to override or to ignore does nothing: remove it");
        }
        let times = [&self.ttl, &self.min_ttl, &self.max_ttl, &self.grace];
        let says = self.store.is_some()
            || self.overrides.is_some()
            || self.ignore.is_some()
            || self.encode.is_some()
            || times.into_iter().any(Option::is_some);
        let orders = Orders {
            store: self.store.map_or(default.store, |Text(Word(store))| store),
            ttl_seconds: seconds(&self.ttl),
            min_seconds: seconds(&self.min_ttl).unwrap_or(default.min_seconds),
            max_seconds: seconds(&self.max_ttl).unwrap_or(default.max_seconds),
            grace_seconds: seconds(&self.grace),
            overrides: overrides.unwrap_or_default(),
            without_cookies: ignored(Ignored::SetCookie),
            ignores_reload: ignored(Ignored::ClientNoCache),
            encode: encode.into_iter().collect(),
        };
        Ok(says.then_some(orders))
    }
}
