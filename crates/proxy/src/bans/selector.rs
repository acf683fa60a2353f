//! What an operator names, in the words of the command line and of the control socket.

use regex::bytes::RegexBuilder;
use serde::{Deserialize, Serialize};
use tinaja_http::judge::{Target, judge};

use super::rule::{Rule, Subject};
use super::tags::{hash, split};
use crate::cache_rules::HostPattern;

/// The longest text, in bytes.
pub(crate) const MOST_TEXT_BYTES: usize = 4096;
/// The largest program that a regular expression may become, in bytes; and what it may use while it is tried, on each thread.
const MOST_REGEX_BYTES: usize = 256 * 1024;

/// Which objects are taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case", deny_unknown_fields)]
pub enum Selector {
    /// Everything.
    All,
    /// What is at this URL.
    Url {
        /// Absolute, as clients ask for it; its scheme does not count.
        url: String,
    },
    /// What is at URLs that begin so.
    Prefix {
        /// Absolute, with the whole host.
        url: String,
    },
    /// What is at a host, on any port.
    Host {
        /// `www.example.org`, or `*.example.org` for all below it.
        host: String,
    },
    /// Objects whose path ends so, its query left out.
    Suffix {
        /// As in `.css`.
        suffix: String,
        /// At this host alone.
        host: Option<String>,
    },
    /// Objects in whose URL this is found.
    Regex {
        /// In the syntax of the `regex` crate, about bytes.
        regex: String,
    },
    /// Objects that have this tag.
    Tag {
        /// As it stands in `Surrogate-Key`, `xkey` or `Cache-Tag`.
        tag: String,
        /// At this host alone.
        host: Option<String>,
    },
}

/// What names no objects.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSelector {
    /// No URL.
    #[error(
        "{0:?} is no URL; write it with its host, as in http://www.example.org/img/, with what must be escaped escaped"
    )]
    Url(String),
    /// No host.
    #[error("{0:?} is no host; write it without a port, as in www.example.org, or *.example.org for all below it")]
    Host(String),
    /// One host is wanted.
    #[error(
        "{0:?} names many hosts, and a tag or suffix is purged at one host or all; give --host alone to purge them all"
    )]
    ManyHosts(String),
    /// No end of a path.
    #[error("{0:?} is no end of a path; write it as in .css, with what must be escaped escaped")]
    Suffix(String),
    /// No tag.
    #[error("{0:?} is no tag; tags have no blanks or commas")]
    Tag(String),
    /// No regular expression.
    #[error("the regular expression {expression:?} is of no use: {why}")]
    Regex {
        /// As it was written.
        expression: String,
        /// In the words of the `regex` crate.
        why: String,
    },
    /// One that grows without bound.
    #[error("the regular expression {0:?} takes more than 256 KiB; use less repetition, or purge by a prefix or tag")]
    RegexTooLarge(String),
    /// Too long.
    #[error("it has {0} bytes, and at most 4096 are taken")]
    TooLong(usize),
}

impl Selector {
    /// The rule that it is.
    ///
    /// Errors: [`BadSelector`].
    pub(crate) fn rule(&self) -> Result<Rule, BadSelector> {
        Ok(match self {
            Selector::All => Rule::All,
            Selector::Url { url } => Rule::Url(short(url).and_then(subject)?.url),
            Selector::Prefix { url } => Rule::Prefix(short(url).and_then(subject)?.url),
            Selector::Host { host } => match pattern(host)? {
                HostPattern::Exact(host) => Rule::Host(host),
                HostPattern::Below(host) => Rule::Domain(host),
            },
            Selector::Suffix { suffix, host } => {
                if !is_suffix(short(suffix)?) {
                    return Err(BadSelector::Suffix(suffix.clone()));
                }
                Rule::Suffix { host: one(host)?, suffix: suffix.clone() }
            }
            Selector::Regex { regex } => {
                compiled(short(regex)?)?;
                Rule::Regex(regex.clone())
            }
            Selector::Tag { tag, host } => {
                if !split(short(tag)?.as_bytes()).eq([tag.as_bytes()]) {
                    return Err(BadSelector::Tag(tag.clone()));
                }
                Rule::Tag { host: one(host)?, tag: hash(tag.as_bytes()) }
            }
        })
    }

    /// Whether it makes sense.
    ///
    /// Errors: [`BadSelector`].
    pub fn check(&self) -> Result<(), BadSelector> {
        self.rule().map(drop)
    }
}

impl Rule {
    /// Whether it is what [`Selector::rule`] may make. What another node says is not believed.
    pub fn makes_sense(&self) -> bool {
        let is_text = |text: &str| {
            !text.is_empty() && text.len() <= MOST_TEXT_BYTES && text.bytes().all(|byte| byte.is_ascii_graphic())
        };
        let may_be = |host: &Option<String>| host.as_deref().is_none_or(is_text);
        match self {
            Rule::All => true,
            Rule::Url(text) | Rule::Prefix(text) | Rule::Host(text) | Rule::Domain(text) => is_text(text),
            Rule::Suffix { host, suffix } => may_be(host) && is_text(suffix) && is_suffix(suffix),
            Rule::Regex(text) => text.len() <= MOST_TEXT_BYTES && compiled(text).is_ok(),
            Rule::Tag { host, .. } => may_be(host),
        }
    }
}

/// Compiles a regular expression in bounded memory.
pub(super) fn compiled(expression: &str) -> Result<regex::bytes::Regex, BadSelector> {
    let mut builder = RegexBuilder::new(expression);
    let built = builder.unicode(false).size_limit(MOST_REGEX_BYTES).dfa_size_limit(MOST_REGEX_BYTES).build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => BadSelector::RegexTooLarge(expression.to_owned()),
        error => {
            // The last line of several says it; the others draw where.
            let why = error.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            BadSelector::Regex { expression: expression.to_owned(), why }
        }
    })
}

/// Whether paths can end so.
fn is_suffix(suffix: &str) -> bool {
    !suffix.is_empty() && suffix.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#".contains(&byte))
}

fn short(text: &str) -> Result<&str, BadSelector> {
    if text.len() <= MOST_TEXT_BYTES { Ok(text) } else { Err(BadSelector::TooLong(text.len())) }
}

/// Read as the URL of a request is.
fn subject(url: &str) -> Result<Subject<'static>, BadSelector> {
    let judged = judge(format!("GET {url} HTTP/1.0\r\n\r\n").as_bytes());
    match judged.map(|judged| (judged.target, judged.authority)) {
        Ok((Target::Absolute { tls, path }, Some(authority))) => Ok(Subject::new(tls, &authority, &path)),
        _ => Err(BadSelector::Url(url.to_owned())),
    }
}

fn pattern(host: &str) -> Result<HostPattern, BadSelector> {
    short(host)?.parse().map_err(|_| BadSelector::Host(host.to_owned()))
}

fn one(host: &Option<String>) -> Result<Option<String>, BadSelector> {
    let Some(host) = host else { return Ok(None) };
    match pattern(host)? {
        HostPattern::Exact(host) => Ok(Some(host)),
        HostPattern::Below(_) => Err(BadSelector::ManyHosts(host.clone())),
    }
}
