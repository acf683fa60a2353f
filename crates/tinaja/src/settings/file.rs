//! The configuration file, as it is written. `docs/tinaja.toml` shows every setting.

use std::fs::File as OpenFile;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use tinaja_proxy::mirrors::PublicUrl;
use tinaja_proxy::{Action, Cidr, Limits, LogFormat, OriginUrl, Ports, RequestIds};
use tinaja_store::{EngineRef, IoEngine};
use toml::Spanned;

use super::cache_rules::FileCacheRule;
use super::cluster::FileCluster;
use super::intercept::FileIntercept;
use super::key_rules::FileKeyRule;
use super::mirrors::FileMirror;
use super::upstream::FileUpstream;
use super::words::{Word, Words};
use crate::knobs;
use crate::values::{Address, FieldName, FileOrOff, Filter, Limit, LogFormatName, Number, OneOrMore, Size, Text};

/// The longest file that is read: far more than anybody writes by hand.
const MOST_BYTES: u64 = 4 << 20;

/// The whole file. What is not there keeps its default.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct File {
    pub cache: Option<OneOrMore<PathBuf>>,
    pub disk: Option<Text<Size>>,
    pub memory: Option<Text<Size>>,
    pub memory_yields: Option<bool>,
    pub offline: Option<bool>,
    pub workers: Option<Number<1, 1024>>,
    pub sandbox: Option<bool>,
    pub engine: Option<Text<EngineRef>>,
    /// The settings of engines, which stand among the others.
    #[serde(skip)]
    pub knobs: tinaja_store::Settings,
    pub positions_dir: Option<PathBuf>,
    pub object_size: Option<Text<Size>>,
    pub io: Option<Text<IoEngine>>,
    pub access_log: Option<Text<FileOrOff>>,
    pub access_log_format: Option<Text<LogFormat>>,
    pub log: Option<Text<Filter>>,
    pub log_file: Option<Text<FileOrOff>>,
    pub log_format: Option<Text<LogFormatName>>,
    pub request_id: FileRequestId,
    pub metrics: Option<Text<Address>>,
    pub purge_credentials: Option<PathBuf>,
    /// The name in Via.
    pub name: Option<Text<Name>>,
    pub intercept_ca: Option<PathBuf>,
    pub ca_file: Option<Spanned<OneOrMore<PathBuf>>>,
    pub crl_file: Option<Spanned<OneOrMore<PathBuf>>>,
    pub public_url: Option<Text<PublicUrl>>,
    pub limits: FileLimits,
    pub cluster: Option<FileCluster>,
    pub cache_rule: Vec<Spanned<FileCacheRule>>,
    pub key_rule: Vec<Spanned<FileKeyRule>>,
    pub intercept: Vec<Spanned<FileIntercept>>,
    pub mirror: Vec<Spanned<FileMirror>>,
    pub listener: Vec<FileListener>,
}

/// `[request_id]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FileRequestId {
    pub header: Option<Text<FieldName>>,
    pub trust: Option<OneOrMore<Text<Cidr>>>,
}

impl FileRequestId {
    /// As the proxy takes it.
    pub fn ids(self) -> RequestIds {
        let trust = self.trust.map_or(Vec::new(), |OneOrMore(networks)| networks);
        RequestIds {
            header: self.header.map(|Text(FieldName(name))| name),
            trust: trust.into_iter().map(|Text(network)| network).collect(),
        }
    }
}

/// One `[[listener]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileListener {
    pub address: Spanned<Text<Address>>,
    #[serde(default)]
    pub mode: FileMode,
    #[serde(default)]
    pub by: Option<Spanned<FileDiversion>>,
    #[serde(default)]
    pub origin: Option<Spanned<Text<OriginUrl>>>,
    #[serde(default)]
    pub origins: Option<Spanned<Vec<Text<OriginUrl>>>>,
    #[serde(default)]
    pub upstream: Option<Spanned<FileUpstream>>,
    #[serde(default)]
    pub allow_destination: Option<Spanned<OneOrMore<Text<Cidr>>>>,
    #[serde(default)]
    pub allow_connect_port: Option<Spanned<OneOrMore<Number<1, 65535>>>>,
    #[serde(default)]
    pub pass_tags: bool,
    #[serde(default)]
    pub proxy_protocol: Option<Spanned<OneOrMore<Text<Cidr>>>>,
    #[serde(default)]
    pub trusted_proxies: Option<Spanned<OneOrMore<Text<Cidr>>>>,
    #[serde(default)]
    pub client_field: Option<Spanned<FileChainField>>,
    #[serde(default)]
    pub forwarded: Option<Spanned<FileForwarding>>,
    #[serde(default)]
    pub certificate: Vec<FileCertificate>,
    #[serde(default)]
    pub route: Vec<Spanned<FileRoute>>,
    #[serde(default)]
    pub rule: Vec<Spanned<FileRule>>,
}

/// What a listener is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileMode {
    #[default]
    Forward,
    Reverse,
    Transparent,
}

/// What a reverse proxy's origins are told of its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileForwarding {
    XForwarded,
    Forwarded,
    Both,
    None,
}

/// The field in which proxies before a listener say for whom they ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileChainField {
    XForwardedFor,
    Forwarded,
}

/// How the kernel sends connections to a transparent listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileDiversion {
    Redirect,
    Tproxy,
}

/// One `[[listener.route]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileRoute {
    #[serde(default)]
    pub host: Option<String>,
    #[serde(default)]
    pub path: Option<String>,
    #[serde(default)]
    pub origin: Option<Text<OriginUrl>>,
    #[serde(default)]
    pub origins: Option<Vec<Text<OriginUrl>>>,
    #[serde(default)]
    pub upstream: Option<FileUpstream>,
}

/// One `[[listener.certificate]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileCertificate {
    pub file: PathBuf,
    pub key: PathBuf,
}

/// One `[[listener.rule]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileRule {
    pub action: Text<Word<Action>>,
    #[serde(default)]
    pub client: OneOrMore<Text<Cidr>>,
    #[serde(default)]
    pub method: OneOrMore<Text<Method>>,
    #[serde(default)]
    pub port: OneOrMore<FilePorts>,
    #[serde(default)]
    pub destination: OneOrMore<Text<Cidr>>,
    #[serde(default)]
    pub upgrade: OneOrMore<Text<Protocol>>,
}

/// A protocol that clients ask for by Upgrade, in small letters. None is HTTP again: its requests would be judged by nobody.
#[derive(Clone, Debug)]
pub struct Protocol(pub String);

impl std::str::FromStr for Protocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let protocol = text.to_ascii_lowercase();
        let (name, version) = protocol.split_once('/').unwrap_or((&protocol, "1"));
        let is_word = |word: &str| {
            !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._+".contains(&byte))
        };
        if !is_word(name) || !is_word(version) {
            return Err(format!("{text:?} is not a protocol; write it as clients do in Upgrade, as in websocket"));
        }
        match name {
            "h2c" | "h2" | "h3" | "http" | "https" | "tls" => Err(format!(
                "{text:?} is never passed on: what came then would be requests that this proxy has not judged; leave it out, as clients \
                 then go on with HTTP"
            )),
            _ => Ok(Protocol(protocol)),
        }
    }
}

impl Words for Action {
    const WRONG: &'static str = "is not an action";

    fn words() -> Vec<(&'static str, Self)> {
        vec![("allow", Action::Allow), ("deny", Action::Deny)]
    }
}

/// A method's name: letters in upper case, since methods are told apart by case and no known one has others.
#[derive(Clone, Debug)]
pub struct Method(pub String);

impl std::str::FromStr for Method {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-');
        known
            .then(|| Method(text.to_owned()))
            .ok_or_else(|| format!("{text:?} is not a method; write it in capitals, as in GET or CONNECT"))
    }
}

/// The name in Via: letters, digits, dots, dashes.
#[derive(Clone, Debug)]
pub struct Name(pub String);

impl std::str::FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let fits = (1..=100).contains(&text.len()) && text.bytes().all(plain);
        let named = fits.then(|| Name(text.to_owned()));
        named.ok_or_else(|| {
            format!("{text:?} cannot be a name; use up to 100 letters, digits, dots, dashes and underscores")
        })
    }
}

/// A port as a number, or some as a text.
#[derive(Clone, Copy, Debug)]
pub struct FilePorts(pub Ports);

impl<'de> Deserialize<'de> for FilePorts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = FilePorts;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a port, as in 8443, or a range in quotes, as in \"8000-8999\"")
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<FilePorts, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<FilePorts, E> {
                text.parse().map(FilePorts).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// `[limits]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FileLimits {
    connections: Option<Number<1, 1_000_000>>,
    client_connections: Option<Number<0, 1_000_000>>,
    client_rate: Option<Number<0, 1_000_000>>,
    client_burst: Option<Number<1, 1_000_000>>,
    client_requests: Option<Number<0, 1_000_000>>,
    client_fetches: Option<Number<0, 1_000_000>>,
    client_memory: Option<Text<Size>>,
    streams: Option<Number<1, 10_000>>,
    head: Option<Text<Limit>>,
    idle: Option<Text<Limit>>,
    client_stall: Option<Text<Limit>>,
    body_rate: Option<Text<Size>>,
    resolve: Option<Text<Limit>>,
    connect: Option<Text<Limit>>,
    origin_stall: Option<Text<Limit>>,
    tunnel_idle: Option<Text<Limit>>,
    collapse: Option<Text<Limit>>,
    fill_range_below: Option<Text<Size>>,
    quick_abort_bytes: Option<Text<Size>>,
    quick_abort_percent: Option<Number<0, 100>>,
    stop: Option<Text<Limit>>,
    drain: Option<Text<Limit>>,
}

impl FileLimits {
    /// These limits, and the defaults where the file is silent. Written out, so that no limit is without a setting.
    pub fn limits(self) -> Limits {
        let default = Limits::default();
        let size = |set: Option<Text<Size>>, default| set.map_or(default, |Text(Size(bytes))| bytes);
        let time = |set: Option<Text<Limit>>, default| set.map_or(default, |Text(Limit(time))| time);
        let number = |set: Option<Number<0, 1_000_000>>, default| set.map_or(default, |Number(most)| most);
        Limits {
            connections: self.connections.map_or(default.connections, |Number(most)| most as usize),
            client_connections: self
                .client_connections
                .map_or(default.client_connections, |Number(most)| most as usize),
            client_rate: number(self.client_rate, default.client_rate),
            client_burst: self.client_burst.map_or(default.client_burst, |Number(most)| most),
            client_requests: number(self.client_requests, default.client_requests),
            client_fetches: number(self.client_fetches, default.client_fetches),
            client_memory: size(self.client_memory, default.client_memory),
            streams: self.streams.map_or(default.streams, |Number(most)| most),
            head: time(self.head, default.head),
            idle: time(self.idle, default.idle),
            client_stall: time(self.client_stall, default.client_stall),
            body_rate: size(self.body_rate, default.body_rate),
            resolve: time(self.resolve, default.resolve),
            connect: time(self.connect, default.connect),
            origin_stall: time(self.origin_stall, default.origin_stall),
            tunnel_idle: time(self.tunnel_idle, default.tunnel_idle),
            collapse: time(self.collapse, default.collapse),
            fill_range_below: size(self.fill_range_below, default.fill_range_below),
            quick_abort_bytes: size(self.quick_abort_bytes, default.quick_abort_bytes),
            // The number is at most 100.
            quick_abort_percent: self
                .quick_abort_percent
                .map_or(default.quick_abort_percent, |Number(part)| part as u8),
            stop: time(self.stop, default.stop),
            drain: time(self.drain, default.drain),
        }
    }
}

/// Reads a file, and keeps its text for naming lines.
///
/// Errors: it cannot be read, is no TOML, or holds a setting that does not exist or a value that makes no sense; with
/// the line.
pub fn read(path: &Path) -> Result<(File, String)> {
    let mut text = String::new();
    let read = OpenFile::open(path).and_then(|file| file.take(MOST_BYTES + 1).read_to_string(&mut text));
    read.with_context(|| format!("cannot read the configuration file {}", path.display()))?;
    if text.len() as u64 > MOST_BYTES {
        bail!("{} is larger than {MOST_BYTES} bytes, which is too large for a configuration file", path.display());
    }
    let file = parse(&text).with_context(|| format!("{} is not a valid configuration file", path.display()))?;
    Ok((file, text))
}

/// Errors: as [`read`].
pub fn parse(text: &str) -> Result<File, toml::de::Error> {
    let (file, knobs) = knobs::read(toml::Deserializer::parse(text)?)?;
    Ok(File { knobs, ..file })
}
