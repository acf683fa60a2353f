//! `[[mirror]]` and `--mirror`: sources of packages, as written and as meant.

use std::ops::Range;
use std::path::PathBuf;

use anyhow::{Result, anyhow};
use serde::Deserialize;
use tinaja_proxy::mirrors::{Credentials, Kind, ListedHost, Mirror, MirrorUrl, Mirrors, PublicUrl, Unrewritten};
use tinaja_proxy::{Cidr, Listener};
use toml::Spanned;

use super::source::Source;
use super::upstream::{FileUpstream, upstream};
use super::words::{Word, Words};
use crate::mirror_flags::MirrorFlag;
use crate::values::{OneOrMore, Size, Text};

/// One `[[mirror]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileMirror {
    path: String,
    origin: Text<MirrorUrl>,
    #[serde(default)]
    hosts: OneOrMore<Text<ListedHost>>,
    #[serde(default)]
    kind: Option<Text<Kind>>,
    #[serde(default)]
    rewrite: Option<bool>,
    #[serde(default)]
    rewrite_limit: Option<Text<Size>>,
    #[serde(default)]
    unrewritten: Option<Text<Word<Unrewritten>>>,
    #[serde(default)]
    clients: OneOrMore<Text<Cidr>>,
    #[serde(default)]
    token_hosts: OneOrMore<Text<ListedHost>>,
    #[serde(default)]
    credentials: Option<PathBuf>,
    #[serde(default)]
    upstream: Option<FileUpstream>,
}

impl Words for Unrewritten {
    const WRONG: &'static str = "does not say what becomes of them";

    fn words() -> Vec<(&'static str, Self)> {
        vec![("pass", Unrewritten::Pass), ("refuse", Unrewritten::Refuse)]
    }
}

/// The mirrors of a file, or those of flags in their place.
///
/// Errors: one of them makes no sense, or two have one path; with its line. Credentials that cannot be read, or that others can.
pub fn mirrors(
    flags: &[MirrorFlag],
    files: Vec<Spanned<FileMirror>>,
    public: Option<PublicUrl>,
    source: &Source<'_>,
) -> Result<Mirrors> {
    if !flags.is_empty() {
        let mirrors = flags.iter().cloned().map(MirrorFlag::mirror).collect();
        return Mirrors::new(mirrors, public).map_err(|(_, bad)| anyhow!("--mirror: {bad}"));
    }
    let (mut mirrors, mut spans) = (Vec::<Mirror>::new(), Vec::<Range<usize>>::new());
    for file in files {
        let at = file.span();
        mirrors.push(file.into_inner().mirror().map_err(|what| source.error(at.clone(), what))?);
        spans.push(at);
    }
    Mirrors::new(mirrors, public).map_err(|(at, bad)| source.error(spans.get(at).cloned().unwrap_or_default(), bad))
}

impl FileMirror {
    fn mirror(self) -> Result<Mirror, String> {
        let Text(origin) = self.origin;
        let default = Mirror::new(self.path, origin);
        let server = default.upstream.origins.first().cloned();
        let asked = upstream(server, None, self.upstream)?;
        let credentials = self.credentials.map(|path| Credentials::read(&path)).transpose();
        Ok(Mirror {
            upstream: asked.unwrap_or_else(|| default.upstream.clone()),
            hosts: self.hosts.0.into_iter().map(|Text(host)| host).collect(),
            token_hosts: self.token_hosts.0.into_iter().map(|Text(host)| host).collect(),
            kind: self.kind.map(|Text(kind)| kind),
            rewrite: self.rewrite,
            rewrite_limit_bytes: self.rewrite_limit.map_or(default.rewrite_limit_bytes, |Text(Size(bytes))| bytes),
            unrewritten: self.unrewritten.map_or(default.unrewritten, |Text(Word(one))| one),
            clients: self.clients.0.into_iter().map(|Text(network)| network).collect(),
            credentials: credentials.map_err(|bad| bad.to_string())?,
            ..default
        })
    }
}

/// Where clients find the proxy if nothing says so: at its first listener, where that is one address of which the port is known.
pub fn public_url(listeners: &[Listener]) -> Option<PublicUrl> {
    let first = listeners.iter().find(|listener| listener.mode.diversion().is_none());
    let first = first.filter(|first| !first.address.ip().is_unspecified() && first.address.port() != 0)?;
    let scheme = if first.certificates.is_empty() { "http" } else { "https" };
    format!("{scheme}://{}", first.address).parse().ok()
}
