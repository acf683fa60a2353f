//! The command line: what may be said, and what it means when it is not said.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Parser, Subcommand};
use tinaja_proxy::mirrors::PublicUrl;
use tinaja_proxy::{Cidr, LogFormat, OriginUrl};
use tinaja_store::{EngineRef, IoEngine};

use crate::knobs::{self, Knobs};
use crate::mirror_flags::MirrorFlag;
use crate::values::{Address, DiskPart, FileOrOff, Filter, LogFormatName, Size};

/// A web cache for machines with more disk than memory.
#[derive(Debug, Parser)]
#[command(name = "tinaja", version, about, max_term_width = 110)]
pub struct Flags {
    #[command(subcommand)]
    pub action: Action,
    /// Log level: error, warn, info (the default), debug, trace or off; or per module, as in tinaja_store=debug,warn.
    #[arg(long, global = true, value_name = "LEVEL", env = "TINAJA_LOG")]
    pub log: Option<Filter>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Run the cache: a forward proxy, or with --origin a reverse proxy.
    Serve(Box<Serve>),
    /// Show what a cache holds and how much memory its index takes, with or without a server running on it.
    Inspect(Inspect),
    /// Measure a disk, suggest bin, set and hash sizes for it and for your objects, and explain the choice.
    Tune(Tune),
    /// Purge URLs, or all objects with a prefix, host, suffix, tag or other pattern, from the cache of a server, running or stopped.
    Purge(Purge),
    /// Give a stopped cache another size, engine or settings, or other disks, and keep what it holds. The new cache is made beside the
    /// old one, so the disk must have room for both; --from takes a cache to another disk.
    Resize(Box<Resize>),
    /// Show what a running server would do with a GET, without asking the origin: the name in the cache, the cache rule that fits,
    /// what is stored, and why it would be a hit or not.
    Explain(Explain),
    /// Create the CA by which a forward proxy intercepts HTTPS, show it, or show how clients come to trust it.
    Ca(Ca),
    /// Print the nftables lines that send connections to the transparent listeners of a configuration file, and reject QUIC.
    InterceptHints(InterceptHints),
    /// Make a running server reload its configuration: the modes, routes, rules and certificates of its listeners.
    Reload(Reload),
    /// Replace a running server with the program that is installed now, started with the same flags: no connection is
    /// refused, no request fails, and the cache is kept.
    Upgrade(Upgrade),
    /// Show the cluster that a running server is a node of.
    Cluster(Cluster),
    /// Run an experiment, which measures a table or figure of a paper again. Without a name, list all experiments.
    Lab(Lab),
    /// Write man pages and shell completions, for packages.
    #[command(hide = true)]
    Generate(Generate),
}

/// The commands of `ca`.
#[derive(Debug, Args)]
pub struct Ca {
    #[command(subcommand)]
    pub action: CaAction,
}

/// What there is to do with a CA.
#[derive(Debug, Subcommand)]
pub enum CaAction {
    /// Create a CA: ca.pem, which clients are given, and ca.key, which only its owner may read. An existing one is not overwritten.
    Create(CaCreate),
    /// Show its subject, fingerprint and dates, and where it is.
    Show(CaAt),
    /// Print the commands that make clients trust it: Debian, Firefox, Chromium, pip, npm, cargo, Go.
    InstallHints(CaAt),
}

/// The flags of `ca create`.
#[derive(Debug, Args)]
pub struct CaCreate {
    /// Directory to create it in (default: ca in $STATE_DIRECTORY, or tinaja/ca in $XDG_STATE_HOME or ~/.local/state).
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Its name, as clients show it (default: Tinaja CA of this host).
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Days for which it is valid, from 1 to 3650.
    #[arg(long, value_name = "N", default_value_t = 1095, value_parser = clap::value_parser!(u32).range(1..=3650))]
    pub days: u32,
    /// Domain that it may sign for, with all below it; may be repeated. Clients refuse whatever else it signs. Default: any name.
    #[arg(long, value_name = "DOMAIN")]
    pub only_for: Vec<String>,
}

/// Which CA.
#[derive(Debug, Args)]
pub struct CaAt {
    /// Its directory (default: ca in $STATE_DIRECTORY, or tinaja/ca in $XDG_STATE_HOME or ~/.local/state).
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// The flags of `intercept-hints`.
#[derive(Debug, Args)]
pub struct InterceptHints {
    /// The configuration file, as given to serve.
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// An interface by which clients' connections come in, as br-lan; may be repeated. What comes in by others is left alone.
    #[arg(long, value_name = "INTERFACE")]
    pub from: Vec<String>,
    /// The user that the proxy runs as: then the connections of this machine's own programs are sent to it too, but not its own.
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
}

/// The flags of `generate`.
#[derive(Debug, Args)]
pub struct Generate {
    /// The directory to write to. It is created if it does not exist.
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
}

/// The flags of `reload`.
#[derive(Debug, Args)]
pub struct Reload {
    /// The server's configuration file, which names its cache.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The cache of the server to reach (default: tinaja in $XDG_CACHE_HOME or ~/.cache).
    #[arg(long, value_name = "DIR")]
    pub cache: Vec<PathBuf>,
}

/// The commands of `cluster`.
#[derive(Debug, Args)]
pub struct Cluster {
    #[command(subcommand)]
    pub action: ClusterAction,
}

/// What there is to do with a cluster.
#[derive(Debug, Subcommand)]
pub enum ClusterAction {
    /// Show its nodes, their shares of the keys, what is in the shared memory, and nodes that do not go with this one.
    Status(ClusterStatus),
}

/// The flags of `cluster status`.
#[derive(Debug, Args)]
pub struct ClusterStatus {
    /// The server's configuration file, which names its cache.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The cache of the server to ask (default: tinaja in $XDG_CACHE_HOME or ~/.cache).
    #[arg(long, value_name = "DIR")]
    pub cache: Vec<PathBuf>,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// The flags of `upgrade`.
#[derive(Debug, Args)]
pub struct Upgrade {
    /// The server's configuration file, which names its cache.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The cache of the server to reach (default: tinaja in $XDG_CACHE_HOME or ~/.cache).
    #[arg(long, value_name = "DIR")]
    pub cache: Vec<PathBuf>,
}

/// The flags of `resize`. What is not said is as it was.
#[derive(Debug, Args)]
pub struct Resize {
    /// The configuration file, as given to serve: its cache, disk, engine and the engine's settings count.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub of_cache: CacheFlags,
    /// Another directory or device with a disk of the old cache, such as one that is to be removed, or all of it to copy the cache
    /// elsewhere; may be repeated. A disk that the cache goes on without is put out of use.
    #[arg(long, value_name = "DIR|DEVICE")]
    pub from: Vec<PathBuf>,
    /// Leave out what the disk cannot read. Without this an unreadable part ends it, and the old cache stays.
    #[arg(long)]
    pub despite_errors: bool,
}

/// Where a cache lies and how it is made: flags that `serve` and `resize` share.
#[derive(Clone, Debug, Default, Args)]
pub struct CacheFlags {
    /// Directory or block device of the cache (default: tinaja in $XDG_CACHE_HOME or ~/.cache). Repeat it to spread objects
    /// over several disks; their order must not change. A device is used whole unless --disk is smaller, and a new cache is
    /// created on it only if its first MiB is zeros.
    #[arg(long, value_name = "DIR|DEVICE")]
    pub cache: Vec<PathBuf>,
    /// Disk space to use in each directory. Default: the size of the existing cache, or for a new one a quarter of the
    /// free space, at most 10GiB.
    #[arg(long, value_name = "SIZE")]
    pub disk: Option<Size>,
    #[arg(long, value_name = "NAME", help = knobs::engines_help())]
    pub engine: Option<EngineRef>,
    #[command(flatten)]
    pub knobs: Knobs,
    /// Directory for the object positions that are not kept in memory, for example on an SSD, so that reading them does not
    /// load the cache's disks. Default: on the same disks as the objects. Its files are rebuilt at every start, so there is
    /// no need to keep them.
    #[arg(long, value_name = "DIR")]
    pub positions_dir: Option<PathBuf>,
    /// Average object size (default 8KiB). A new cache is planned for as many objects of this size as fit on the disk.
    #[arg(long, value_name = "SIZE")]
    pub object_size: Option<Size>,
    /// How to read and write the disk: with io_uring, with threads, or auto (the default), which uses io_uring if the
    /// kernel allows it.
    #[arg(long, value_name = "auto|uring|threads")]
    pub io: Option<IoEngine>,
}

/// The flags of `serve`.
#[derive(Clone, Debug, Default, Args)]
pub struct Serve {
    /// Read the configuration from this file (TOML, see docs/tinaja.toml). Flags override it.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Check all settings and show what the server would do, without starting it.
    #[arg(long)]
    pub check: bool,
    /// Take over the sockets and the cache of the server that runs on the same cache, without refusing a connection or
    /// failing a request. The old server exits when its connections have ended.
    #[arg(long, conflicts_with = "check")]
    pub take_over: bool,
    /// Address to listen on; may be repeated. Default: the listeners of the configuration file, or 127.0.0.1:3128.
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Vec<Address>,
    /// Run as a reverse proxy for this server, http://HOST:PORT or https://HOST:PORT, instead of as a forward proxy. Its
    /// certificate must be signed by an authority that the system trusts, or by one in SSL_CERT_FILE.
    #[arg(long, value_name = "URL")]
    pub origin: Option<OriginUrl>,
    /// Serve the packages of a source below a path of this server: KIND=URL[,HOST...] with pip, npm, cargo, go, apt, maven or oci, and
    /// the other hosts that its files lie on. Clients need no certificate for that. The server prints each client's setting. May be
    /// repeated; replaces the mirrors of the configuration file.
    #[arg(long, value_name = "KIND=URL")]
    pub mirror: Vec<MirrorFlag>,
    /// Where clients find this server, for links in the indexes of mirrors (default: the first address that it listens on).
    #[arg(long, value_name = "URL")]
    pub public_url: Option<PublicUrl>,
    #[command(flatten)]
    pub of_cache: CacheFlags,
    /// Memory for the index and for hot objects (default 64MiB, or a quarter of what there is). With the disk it chooses the engine of a
    /// new cache. The index of generational is within it, or on the disk if it does not fit; other engines have theirs beside it.
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<Size>,
    /// Let the kernel take that memory back when the system runs low, so that --memory can take all free memory. Off by
    /// default, because each hit in memory then costs a copy and a check.
    #[arg(long, value_name = "true|false")]
    pub memory_yields: Option<bool>,
    /// Ask no origin: answer with what is in the cache, fresh or stale, and with 504 where nothing is. For times when the link is
    /// down. Without a value, true. A reload does not change what this flag says; offline in the configuration file can change.
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub offline: Option<bool>,
    /// Threads that serve requests, for all addresses together (default: one per core). Disk threads are extra.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub workers: Option<u16>,
    /// File to log requests to, or off (the default).
    #[arg(long, value_name = "FILE|off")]
    pub access_log: Option<FileOrOff>,
    /// Format of the request log: squid (its native format, the default), common, combined or json.
    #[arg(long, value_name = "FORMAT")]
    pub access_log_format: Option<LogFormat>,
    /// File for the server's own log, or off (the default) to log to stderr.
    #[arg(long, value_name = "FILE|off")]
    pub log_file: Option<FileOrOff>,
    /// Format of the server's own log: text (the default), or json, one object per line.
    #[arg(long, value_name = "text|json")]
    pub log_format: Option<LogFormatName>,
    /// Let clients of a forward proxy reach these private or local addresses, as in 192.168.0.0/16; may be repeated.
    #[arg(long, value_name = "CIDR", conflicts_with = "origin")]
    pub allow_destination: Vec<Cidr>,
    /// Let clients open tunnels (CONNECT) to this port, besides 443 and 563; may be repeated.
    #[arg(long, value_name = "PORT", conflicts_with = "origin", value_parser = clap::value_parser!(u16).range(1..))]
    pub allow_connect_port: Vec<u16>,
}

/// The flags of `inspect`.
#[derive(Debug, Args)]
pub struct Inspect {
    /// The cache, as given to serve. Default: the one in the configuration file, or tinaja in $XDG_CACHE_HOME or
    /// ~/.cache.
    #[arg(long, value_name = "DIR")]
    pub cache: Vec<PathBuf>,
    /// The configuration file, as given to serve.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Number of hosts to list, those with the most objects and those with the most bytes; 0 lists none. Counting reads
    /// the whole cache from disk, for at most half a minute if a server is running.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(..=10_000))]
    pub top: u32,
    /// Print JSON instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// The flags of `tune`.
#[derive(Debug, Args)]
pub struct Tune {
    /// An existing directory on the disk to measure. A temporary file of up to 256 MiB is created in it. If it holds a
    /// cache, object sizes are taken from there.
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Take object sizes from this log: a Squid, Common, Combined or JSON access log, or a table of requests as .tsv or
    /// .csv. Any of them may be gzipped.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Percentage of lookups of absent objects that may read the disk in vain (default 4, for which the paper's 8 bits of
    /// hash are enough). The lower it is, the more bits of hash are chosen.
    #[arg(long, value_name = "PERCENT")]
    pub false_reads: Option<f64>,
    /// Seconds to measure for.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub seconds: u32,
}

/// The flags of `purge`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("by").multiple(true)))]
pub struct Purge {
    /// URL to remove, as clients request it. All its variants are removed.
    #[arg(required_unless_present = "by", value_name = "URL")]
    pub url: Vec<String>,
    /// Purge what is at URLs that begin with this one, which has the whole host; http and https count as one.
    #[arg(long, value_name = "URL", group = "by")]
    pub prefix: Vec<String>,
    /// Purge what is at this host, on any port; *.example.org is all hosts below example.org. With --tag or --suffix: only there.
    #[arg(long, value_name = "HOST", group = "by")]
    pub host: Vec<String>,
    /// Purge objects whose path ends so, as in .css.
    #[arg(long, value_name = "END", group = "by")]
    pub suffix: Vec<String>,
    /// Purge objects in whose URL this regular expression is found.
    #[arg(long, value_name = "REGEX", group = "by")]
    pub regex: Vec<String>,
    /// Purge objects that have this tag in Surrogate-Key, xkey or Cache-Tag.
    #[arg(long, value_name = "TAG", group = "by")]
    pub tag: Vec<String>,
    /// Purge everything.
    #[arg(long, group = "by")]
    pub all: bool,
    /// Make it stale instead of removing it: it is validated before it is used, and may be served stale where that is allowed.
    #[arg(long)]
    pub soft: bool,
    /// The cache, as given to serve. Default: the one in the configuration file, or tinaja in $XDG_CACHE_HOME or
    /// ~/.cache.
    #[arg(long, value_name = "DIR")]
    pub cache: Vec<PathBuf>,
    /// The configuration file, as given to serve.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// The flags of `explain`.
#[derive(Debug, Args)]
pub struct Explain {
    /// URL to explain, as clients request it.
    #[arg(value_name = "URL")]
    pub url: String,
    /// A field of the request, as in 'Accept-Language: en'; may be repeated.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    pub header: Vec<String>,
    /// The cache of the server to ask. Default: the one in the configuration file, or tinaja in $XDG_CACHE_HOME or ~/.cache.
    #[arg(long, value_name = "DIR")]
    pub cache: Vec<PathBuf>,
    /// The configuration file, as given to serve.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print JSON instead of text.
    #[arg(long)]
    pub json: bool,
}

/// The flags of `lab`.
#[derive(Debug, Args)]
pub struct Lab {
    /// The experiment to run, or all, to run them one after the other. replay is for a log of yours: tinaja lab replay access.log.
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// The log to replay, for replay; the same as --trace.
    #[arg(value_name = "LOG")]
    pub access_log: Option<PathBuf>,
    /// Use small disks and few requests: takes seconds instead of minutes, with less precise results.
    #[arg(long)]
    pub quick: bool,
    /// Print JSON instead of tables.
    #[arg(long, requires = "name")]
    pub json: bool,
    /// Draw the plots into this file, an .svg or a .png.
    #[arg(long, value_name = "FILE", requires = "name")]
    pub plot: Option<PathBuf>,
    /// Seed of the random numbers. The default is fixed, so that runs can be repeated.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Requests, 1000 to 10000000. Of the generated load, for the maltzahn experiments (default: 1250000, with 1 GB of small
    /// objects) and damelo-proxy (for each proxy; default: as many as are answered in five minutes). Of the log, for replay
    /// (default: the first 1000000).
    #[arg(long, value_name = "N", requires = "name", value_parser = clap::value_parser!(u32).range(1000..=10_000_000))]
    pub requests: Option<u32>,
    /// A log to replay, for the experiments that replay logs; may be repeated. Squid, Common, Combined or JSON access logs,
    /// or tables of requests as .tsv or .csv. Any of them may be compressed with gzip or zstd.
    #[arg(long, value_name = "FILE")]
    pub trace: Vec<PathBuf>,
    /// With replay: an engine to replay the log with, as of serve; may be repeated. Default: all that have a disk to themselves.
    #[arg(long, value_name = "NAME", requires = "name")]
    pub engine: Vec<EngineRef>,
    /// With replay: the size of the disk, as in 10GiB, or as a part of what the log's objects take, as in 10%; may be repeated.
    /// Default: 2%, 10% and 35%.
    #[arg(long, value_name = "SIZE|PERCENT", requires = "name")]
    pub disk: Vec<DiskPart>,
    /// With replay: memory of each engine for hot objects. Default: none.
    #[arg(long, value_name = "SIZE", requires = "name")]
    pub memory: Option<Size>,
    /// Keep each row of the experiment's tables in this directory as soon as it is measured, and measure no row again that is
    /// there: maltzahn-layouts and maltzahn-squid, which take hours, go on where they were ended. Use an empty directory after
    /// a change to the program.
    #[arg(long, value_name = "DIR", requires = "name")]
    pub resume: Option<PathBuf>,
    /// With peers and policies-peers: where the other servers' programs are, to compare builds of your own; may be repeated.
    /// Default: PATH, /usr/sbin and /usr/local/sbin.
    #[arg(long, value_name = "DIR", requires = "name")]
    pub servers: Vec<PathBuf>,
    /// Write a page with its plot for each experiment to this directory, and a page with links to all of them.
    #[arg(long, value_name = "DIR", requires = "name")]
    pub docs: Option<PathBuf>,
    /// Write all reports into this file, as one page of HTML. `lab all --quick` writes tinaja-lab.html if nothing else is said.
    #[arg(long, value_name = "FILE", requires = "name")]
    pub report: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_flags_agree_with_each_other() {
        Flags::command().debug_assert();
    }

    #[test]
    fn serve_needs_no_flags() {
        let Action::Serve(serve) = Flags::parse_from(["tinaja", "serve"]).action else { panic!("not serve") };
        assert!(serve.listen.is_empty() && serve.config.is_none() && !serve.check);
    }
}
