//! `[[intercept]]`: which tunnels are looked into, as written and as meant.

use std::ops::Range;
use std::path::PathBuf;

use anyhow::Result;
use serde::Deserialize;
use tinaja_proxy::cache_rules::HostPattern;
use tinaja_proxy::intercept::{
    InterceptAction, InterceptPreset, InterceptRule, InterceptRules, Interception, OnReject,
};
use tinaja_proxy::{Cidr, Listener};
use toml::Spanned;

use super::source::Source;
use super::words::{Word, Words};
use crate::values::{OneOrMore, Text};

/// One `[[intercept]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileIntercept {
    #[serde(default)]
    host: OneOrMore<Text<HostPattern>>,
    #[serde(default)]
    client: OneOrMore<Text<Cidr>>,
    #[serde(default)]
    action: Option<Text<Word<ActionName>>>,
    #[serde(default)]
    on_reject: Option<Text<Word<OnReject>>>,
    #[serde(default)]
    preset: Option<Text<InterceptPreset>>,
}

/// What becomes of a tunnel.
#[derive(Clone, Copy, Debug)]
enum ActionName {
    Cache,
    Tunnel,
    Refuse,
}

impl Words for ActionName {
    const WRONG: &'static str = "is not an action";

    fn words() -> Vec<(&'static str, Self)> {
        vec![("cache", ActionName::Cache), ("tunnel", ActionName::Tunnel), ("refuse", ActionName::Refuse)]
    }
}

impl Words for OnReject {
    const WRONG: &'static str = "does not say what is done";

    fn words() -> Vec<(&'static str, Self)> {
        vec![("refuse", OnReject::Refuse), ("tunnel", OnReject::Tunnel)]
    }
}

/// The rules of a file, and the CA that it names.
///
/// Errors: one of them makes no sense, never decides, or lacks what it needs; with its line.
pub fn interception(
    files: Vec<Spanned<FileIntercept>>,
    authority: Option<PathBuf>,
    source: &Source<'_>,
) -> Result<Interception> {
    let (mut rules, mut spans) = (Vec::<InterceptRule>::new(), Vec::<Range<usize>>::new());
    for (number, file) in (1..).zip(files) {
        let at = file.span();
        let line = Some(source.line(&at));
        let rule = file.into_inner().rule().map_err(|what| source.error(at.clone(), what))?;
        if matches!(rule.action, InterceptAction::Cache(_)) && authority.is_none() {
            let what = "this rule opens tunnels, and there is no CA: create one with `tinaja ca create DIR`, and name its \
                        directory in intercept_ca";
            return Err(source.error(at, what));
        }
        rules.push(InterceptRule { number, line, ..rule });
        spans.push(at);
    }
    let rules = InterceptRules::new(rules)
        .map_err(|error| source.error(spans.get(error.at).cloned().unwrap_or_default(), error))?;
    Ok(Interception { authority, rules })
}

/// Has all listeners go by it.
///
/// Errors: there are rules, and no listener that opens tunnels; with the line of the first.
pub fn tell(listeners: &mut [Listener], interception: &Interception, file: &str) -> Result<()> {
    let any_forward = listeners.iter().any(|listener| listener.mode.is_for_clients());
    if let (Some(rule), false) = (interception.rules.list().first(), any_forward) {
        anyhow::bail!(
            "{file}, line {}: tunnels are a forward or transparent proxy's, and no listener is one: remove this, or add a listener \
             with mode = \"forward\"",
            rule.line.unwrap_or_default()
        );
    }
    for listener in listeners {
        listener.interception = interception.clone();
    }
    Ok(())
}

impl FileIntercept {
    /// What it means.
    fn rule(self) -> Result<InterceptRule, &'static str> {
        let hosts: Vec<HostPattern> = self.host.0.into_iter().map(|Text(host)| host).collect();
        let clients = self.client.0.into_iter().map(|Text(network)| network).collect();
        let on_reject = self.on_reject.map(|Text(Word(on_reject))| on_reject);
        let action = match (self.preset, self.action) {
            (Some(_), action) if action.is_some() || on_reject.is_some() || !hosts.is_empty() => {
                return Err("a preset has hosts and an action of its own: leave it client alone");
            }
            (Some(Text(preset)), _) => return Ok(InterceptRule { clients, ..preset.rule() }),
            (None, None) => return Err("this rule says nothing: give it an action, or a preset"),
            (None, Some(Text(Word(ActionName::Cache)))) => InterceptAction::Cache(on_reject.unwrap_or_default()),
            (None, Some(_)) if on_reject.is_some() => {
                return Err("on_reject is about the certificate, which only action = \"cache\" shows: remove it");
            }
            (None, Some(Text(Word(ActionName::Tunnel)))) => InterceptAction::Tunnel,
            (None, Some(Text(Word(ActionName::Refuse)))) => InterceptAction::Refuse,
        };
        Ok(InterceptRule { action, hosts, clients, number: 0, line: None })
    }
}
