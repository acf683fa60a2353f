//! What `serve` is told, by flags and by a configuration file: a flag overrides the file's setting.
//!
//! Both become one `Settings`. Tests fail for a flag that has no setting, for a setting that the example lacks, and for an
//! example that differs from a default.

mod cache_rules;
mod cluster;
pub mod file;
mod hosts;
mod intercept;
mod key_rules;
mod listeners;
mod mirrors;
mod named;
mod source;
mod trust;
mod upstream;
mod words;

use std::net::SocketAddr;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::available_parallelism;

use anyhow::{Context, Result, bail};
use tinaja_cluster::Joining;
use tinaja_proxy::mirrors::Credentials;
use tinaja_proxy::{Config, Listener, Rule};
use tinaja_store::{EngineRef, IoEngine};

use crate::flags::Serve;
use crate::knobs;
use crate::place;
use crate::values::{Address, FileOrOff, Filter, LogFormatName, Number, OneOrMore, Size, Text};
use file::File;
use source::Source;

/// The memory for hot objects, and for an index that shares it, where nothing else is said: that, or a quarter of what there is.
pub const DEFAULT_MEMORY_BYTES: u64 = 64 << 20;
/// What is said on stderr where nothing else is asked for.
pub const DEFAULT_LOG: &str = "info";

/// Everything that `serve` needs to know.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The cache's directories, at least one.
    pub cache: Vec<PathBuf>,
    /// The size of each, if it was said.
    pub disk_bytes: Option<u64>,
    /// The budget for hot objects, and for an index that shares it.
    pub memory_bytes: u64,
    /// Whether the kernel may take it back.
    pub memory_yields: bool,
    /// The engine, if it was said.
    pub engine: Option<EngineRef>,
    /// What engines are told beside.
    pub knobs: tinaja_store::Settings,
    /// Where positions lie that memory has no room for, if not beside the objects.
    pub positions_dir: Option<PathBuf>,
    /// The mean object size by which a new cache is cut, if it was said.
    pub object_bytes: Option<u64>,
    /// How the disk is read and written.
    pub io: IoEngine,
    /// What to say on stderr.
    pub log: String,
    /// Where and how.
    pub log_to: LogTo,
    /// Other machines with the same cache, if there are any.
    pub cluster: Option<Joining>,
    /// Whether the server shuts itself in.
    pub sandbox: bool,
    /// The configuration file and the files that it names to be read.
    pub named: Vec<PathBuf>,
    /// What the proxy itself is told.
    pub proxy: Config,
}

/// Where the program says what happens, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogTo {
    /// A file instead of stderr.
    pub file: Option<PathBuf>,
    /// An object a line instead of text.
    pub json: bool,
}

impl Settings {
    /// The flags, over the file that they name, over the defaults.
    ///
    /// Errors: the file cannot be read or makes no sense; flags and file do not go together; nothing says where the
    /// cache lives.
    pub fn new(flags: Serve, log: Option<Filter>) -> Result<Settings> {
        let Some(path) = flags.config.clone() else {
            return Settings::over(flags, log, File::default(), "", "");
        };
        let (file, text) = file::read(&path)?;
        let settings = Settings::over(flags, log, file, &path.display().to_string(), &text)?;
        Ok(Settings { named: named::named(path, &text), ..settings })
    }

    fn over(flags: Serve, log: Option<Filter>, file: File, name: &str, text: &str) -> Result<Settings> {
        let File { cache, disk, memory, workers, engine, .. } = file;
        let of_cache = flags.of_cache;
        let named =
            if of_cache.cache.is_empty() { cache.map_or(Vec::new(), |OneOrMore(dirs)| dirs) } else { of_cache.cache };
        let source = Source { name, text };
        let cache_rules = cache_rules::cache_rules(file.cache_rule, &source)?;
        let key_rules = key_rules::key_rules(file.key_rule, &source)?;
        let trust = trust::trust(file.ca_file, file.crl_file, &source)?;
        let interception = intercept::interception(file.intercept, file.intercept_ca, &source)?;
        let has_mirrors = !(flags.mirror.is_empty() && file.mirror.is_empty());
        let mut listeners = listeners::listeners(file.listener, has_mirrors, &source)?;
        if !flags.listen.is_empty() || listeners.is_empty() {
            listeners = listeners_of_flags(&flags.listen, flags.origin.as_ref());
        } else if flags.origin.is_some() {
            bail!("{name} defines listeners: to replace them with a reverse proxy, give --listen along with --origin");
        }
        let destinations = flags.allow_destination.into_iter().map(Rule::allow_destination);
        let ports = flags.allow_connect_port.into_iter().map(Rule::allow_connect_port);
        listeners::open(&mut listeners, &destinations.chain(ports).collect::<Vec<_>>())?;

        let public = flags.public_url.or(file.public_url.map(|Text(url)| url)).or(mirrors::public_url(&listeners));
        let mirrors = mirrors::mirrors(&flags.mirror, file.mirror, public, &source)?;
        let offline = flags.offline.or(file.offline).unwrap_or(false);
        for listener in &mut listeners {
            (listener.cache_rules, listener.offline) = (cache_rules.clone(), offline);
            listener.key_rules = key_rules.clone();
            listener.mirrors = mirrors.clone();
        }
        intercept::tell(&mut listeners, &interception, name)?;
        let size = |flag: Option<Size>, file: Option<Text<Size>>| flag.or(file.map(|Text(size)| size));
        let cores = available_parallelism().map_or(1, NonZero::get);
        let workers = flags.workers.map(usize::from).or(workers.map(|Number(workers)| workers as usize));
        let access_log = flags.access_log.or(file.access_log.map(|Text(to)| to)).unwrap_or(FileOrOff(None));
        let format = flags.access_log_format.or(file.access_log_format.map(|Text(format)| format));
        let log_file = flags.log_file.or(file.log_file.map(|Text(to)| to)).unwrap_or(FileOrOff(None));
        let log_format = flags.log_format.or(file.log_format.map(|Text(format)| format));
        let log_to = LogTo { file: log_file.0, json: log_format == Some(LogFormatName::Json) };
        let log = log.or(file.log.map(|Text(filter)| filter));
        let purge_credentials = file.purge_credentials.map(|path| Credentials::read(&path)).transpose()?;
        if purge_credentials.is_some() && file.metrics.is_none() {
            bail!(
                "purge_credentials are for POST /purge at the address of the metrics: set metrics too, as in \"127.0.0.1:9180\""
            );
        }
        let proxy = Config {
            listeners,
            workers: workers.unwrap_or(cores),
            access_log: access_log.0,
            access_log_format: format.unwrap_or_default(),
            limits: file.limits.limits(),
            trust: Arc::new(trust),
            control: None,
            request_ids: file.request_id.ids(),
            metrics: file.metrics.map(|Text(Address(address))| address),
            purge_credentials,
            name: file.name.map(|Text(name)| name.0),
        };
        proxy.check()?;
        Ok(Settings {
            cache: place::cache_dirs(named).context("there is no directory for the cache")?,
            disk_bytes: size(of_cache.disk, disk).map(|Size(bytes)| bytes),
            memory_bytes: size(flags.memory, memory)
                .map_or(DEFAULT_MEMORY_BYTES.min(tinaja_store::memory_bytes() / 4), |Size(bytes)| bytes),
            memory_yields: flags.memory_yields.or(file.memory_yields).unwrap_or(false),
            engine: of_cache.engine.or(engine.map(|Text(engine)| engine)),
            knobs: of_cache.knobs.0.over(&file.knobs).over(&knobs::defaults()),
            positions_dir: of_cache.positions_dir.or(file.positions_dir),
            object_bytes: size(of_cache.object_size, file.object_size).map(|Size(bytes)| bytes),
            io: of_cache.io.or(file.io.map(|Text(io)| io)).unwrap_or_default(),
            log: log.map_or(DEFAULT_LOG.into(), |Filter(filter)| filter),
            log_to,
            cluster: file.cluster.map(cluster::FileCluster::joining).transpose()?,
            sandbox: file.sandbox.unwrap_or(false),
            named: Vec::new(),
            proxy,
        })
    }
}

/// The listeners of a configuration file.
///
/// Errors: the file cannot be read or makes no sense.
pub fn listeners(config: &Path) -> Result<Vec<Listener>> {
    let (file, text) = file::read(config)?;
    let name = config.display().to_string();
    listeners::listeners(file.listener, !file.mirror.is_empty(), &Source { name: &name, text: &text })
}

/// A configuration file, and the files that it names to be read, none of which is read.
///
/// Errors: the file cannot be read or makes no sense.
pub fn named_files(config: &Path) -> Result<Vec<PathBuf>> {
    let (_, text) = file::read(config)?;
    Ok(named::named(config.to_owned(), &text))
}

/// Where a cache lives that flags or a configuration file name.
///
/// Errors: the file cannot be read or makes no sense; nothing says where.
pub fn cache_dirs(named: Vec<PathBuf>, config: Option<&Path>) -> Result<Vec<PathBuf>> {
    let file = match config {
        Some(path) if named.is_empty() => file::read(path)?.0.cache,
        _ => None,
    };
    place::cache_dirs(file.map_or(named, |OneOrMore(dirs)| dirs))
}

/// Whether a configuration file says that the cache is a node of a cluster.
///
/// Errors: the file cannot be read or makes no sense.
pub fn is_node(config: Option<&Path>) -> Result<bool> {
    config.map_or(Ok(false), |path| Ok(file::read(path)?.0.cluster.is_some()))
}

/// What the flags alone say; without any, the proxy's default.
fn listeners_of_flags(listen: &[Address], origin: Option<&tinaja_proxy::OriginUrl>) -> Vec<Listener> {
    let mut addresses: Vec<SocketAddr> = listen.iter().map(|Address(address)| *address).collect();
    if addresses.is_empty() {
        addresses = Config::default().listeners.iter().map(|listener| listener.address).collect();
    }
    let listener = |address| match origin {
        None => Listener::forward(address),
        Some(origin) => Listener::reverse(address, origin.clone()),
    };
    addresses.into_iter().map(listener).collect()
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
