//! The command line: what may be said, and what it means when it is not said.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use tinaja_proxy::{Cidr, LogFormat, OriginUrl};
use tinaja_store::{EngineRef, IoEngine};

use crate::knobs::{self, Knobs};
use crate::values::{Address, FileOrOff, Filter, LogFormatName, Size};

/// A web cache for those with more disk than memory.
#[derive(Debug, Parser)]
#[command(name = "tinaja", version, about, max_term_width = 110)]
pub struct Flags {
    /// What to do.
    #[command(subcommand)]
    pub action: Action,
    /// What to say on stderr: error, warn, info, debug, trace or off; or for one part, as in tinaja_store=debug,warn.
    /// The default is info.
    #[arg(long, global = true, value_name = "LEVEL", env = "TINAJA_LOG")]
    pub log: Option<Filter>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Run the cache: a forward proxy, or with --origin a reverse proxy.
    Serve(Box<Serve>),
    /// Say what a cache holds and what its index costs, whether a server runs on it or not.
    Inspect(Inspect),
    /// Measure a disk and the objects, choose how large bins, sets and hashes should be, and say why.
    Tune(Tune),
    /// Forget what is stored under URLs, in the cache of a running server or in a stopped one.
    Purge(Purge),
    /// Have a running server read its settings again: modes, routes, rules and certificates of its listeners.
    Reload(Reload),
    /// Have a running server start the program that lies in its place now, with the same flags, and hand over to it: no
    /// connection is refused, no request fails, and the cache stays.
    Upgrade(Upgrade),
    /// Run an experiment of the laboratory: a table or figure of a paper, measured again. Alone: list them.
    Lab(Lab),
    /// Write man pages and shell completions, for packages.
    #[command(hide = true)]
    Generate(Generate),
}

/// The flags of `generate`.
#[derive(Debug, Args)]
pub struct Generate {
    /// Where to; the directory is made.
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
}

/// The flags of `reload`.
#[derive(Debug, Args)]
pub struct Reload {
    /// The server's settings file, which says where its cache lives.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The server's cache, by which it is found; by default tinaja in the user's cache directory.
    #[arg(long, value_name = "DIR")]
    pub cache: Vec<PathBuf>,
}

/// The flags of `upgrade`.
#[derive(Debug, Args)]
pub struct Upgrade {
    /// The server's settings file, which says where its cache lives.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The server's cache, by which it is found; by default tinaja in the user's cache directory.
    #[arg(long, value_name = "DIR")]
    pub cache: Vec<PathBuf>,
}

/// The flags of `serve`.
#[derive(Clone, Debug, Args)]
pub struct Serve {
    /// Read settings from this file (TOML, see docs/tinaja.toml); flags override it.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Check all settings and say what would be done, without doing it.
    #[arg(long)]
    pub check: bool,
    /// Take over from the server that runs on the same cache, without a refused connection or a failed request: from its
    /// sockets on. It ends once its connections have.
    #[arg(long, conflicts_with = "check")]
    pub take_over: bool,
    /// Where to listen; may be given several times. By default what the file says, or 127.0.0.1:3128.
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Vec<Address>,
    /// Be a reverse proxy for this server, http://HOST:PORT or https://HOST:PORT, instead of a forward proxy. The
    /// certificate must come from an authority that the system trusts, or that SSL_CERT_FILE names.
    #[arg(long, value_name = "URL")]
    pub origin: Option<OriginUrl>,
    /// Where the cache lives, a directory or a block device; by default tinaja in the user's cache directory. Given
    /// several times, for several disks, objects are spread over all of them; the order may not change. A device is used
    /// whole unless --disk says less, and made a cache of only if its first MiB is zeros.
    #[arg(long, value_name = "DIR|DEVICE")]
    pub cache: Vec<PathBuf>,
    /// How much disk to use in each directory; by default what the cache has, or for a new one a quarter of what is free,
    /// 10GiB at most.
    #[arg(long, value_name = "SIZE")]
    pub disk: Option<Size>,
    /// How much memory to use for hot objects; by default 64MiB.
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<Size>,
    /// Whether the kernel may take that memory back when it is short of it, so that --memory may be all that is free; by
    /// default false, since each hit in memory then costs a copy and a check.
    #[arg(long, value_name = "true|false")]
    pub memory_yields: Option<bool>,
    /// How many threads serve, in total over all addresses; by default one for each core. The disk has its own.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub workers: Option<u16>,
    #[arg(long, value_name = "NAME", help = knobs::engines_help())]
    pub engine: Option<EngineRef>,
    #[command(flatten)]
    pub knobs: Knobs,
    /// Where the positions lie that memory has no room for: a directory on a disk of its own, as an SSD beside large disks,
    /// so that they cost the cache's disk nothing. By default beside the objects. Nothing in it need be kept: it is made
    /// anew at each start, here or elsewhere.
    #[arg(long, value_name = "DIR")]
    pub positions_dir: Option<PathBuf>,
    /// How large objects are on average, by which a new cache counts how many there is room for; by default 8KiB.
    #[arg(long, value_name = "SIZE")]
    pub object_size: Option<Size>,
    /// How the disk is read and written: by io_uring, by threads, or auto: by io_uring if the kernel allows it, which is
    /// the default.
    #[arg(long, value_name = "auto|uring|threads")]
    pub io: Option<IoEngine>,
    /// Log each request to this file; or off, which is the default.
    #[arg(long, value_name = "FILE|off")]
    pub access_log: Option<FileOrOff>,
    /// How to log requests: squid (its native format, the default), common, combined or json.
    #[arg(long, value_name = "FORMAT")]
    pub access_log_format: Option<LogFormat>,
    /// Say what happens in this file; or off: on stderr, which is the default.
    #[arg(long, value_name = "FILE|off")]
    pub log_file: Option<FileOrOff>,
    /// How to say it: as text, which is the default, or as JSON, an object a line.
    #[arg(long, value_name = "text|json")]
    pub log_format: Option<LogFormatName>,
    /// Let clients of a forward proxy reach these addresses, though private or local, as in 192.168.0.0/16; may be
    /// given several times.
    #[arg(long, value_name = "CIDR", conflicts_with = "origin")]
    pub allow_destination: Vec<Cidr>,
    /// Let clients open tunnels (CONNECT) to this port, besides 443 and 563; may be given several times.
    #[arg(long, value_name = "PORT", conflicts_with = "origin", value_parser = clap::value_parser!(u16).range(1..))]
    pub allow_connect_port: Vec<u16>,
}

/// The flags of `inspect`.
#[derive(Debug, Args)]
pub struct Inspect {
    /// Where the cache lives, as given to serve; by default what the file says, or tinaja in the user's cache directory.
    #[arg(long, value_name = "DIR")]
    pub cache: Vec<PathBuf>,
    /// The configuration file that was given to serve.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// List so many hosts with the most objects and the most bytes. To count them, all of the cache's disk is read, for
    /// half a minute at most where a server runs; 0 leaves it out.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(..=10_000))]
    pub top: u32,
    /// Print JSON instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// The flags of `tune`.
#[derive(Debug, Args)]
pub struct Tune {
    /// A directory on the disk to measure, which must be there. For a while a file of up to 256 MiB is made in it. If a cache
    /// is there, the sizes are those of its objects.
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Take the sizes of objects from this log: Squid, Common, Combined or JSON access logs, or tables of requests as .tsv or
    /// .csv, all of them also packed by gzip.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Of how many lookups in a hundred of what is not there the disk may be read for nothing: the fewer, the more bits of hash
    /// are chosen. By default 4, which the paper's 8 bits are enough for.
    #[arg(long, value_name = "PERCENT")]
    pub false_reads: Option<f64>,
    /// How many seconds to measure for.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub seconds: u32,
}

/// The flags of `purge`.
#[derive(Debug, Args)]
pub struct Purge {
    /// What to forget, as clients ask for it, with all its variants.
    #[arg(required = true, value_name = "URL")]
    pub url: Vec<String>,
    /// Where the cache lives, as given to serve; by default what the file says, or tinaja in the user's cache directory.
    #[arg(long, value_name = "DIR")]
    pub cache: Vec<PathBuf>,
    /// The configuration file that was given to serve.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// The flags of `lab`.
#[derive(Debug, Args)]
pub struct Lab {
    /// Which experiment; or all, which runs one after the other.
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Small disks and few requests: seconds instead of minutes, and coarser figures.
    #[arg(long)]
    pub quick: bool,
    /// Print JSON instead of tables.
    #[arg(long, requires = "name")]
    pub json: bool,
    /// Draw the plots into this file, by its name an SVG or a PNG.
    #[arg(long, value_name = "FILE", requires = "name")]
    pub plot: Option<PathBuf>,
    /// What random numbers begin from; by default always the same.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// A log to replay, for the experiments that do so; may be given several times. Squid, Common, Combined or JSON access
    /// logs, or tables of requests as .tsv or .csv, all of them also packed by gzip.
    #[arg(long, value_name = "FILE")]
    pub trace: Vec<PathBuf>,
    /// Write a page with its picture for each experiment into this directory, and a page that leads to them.
    #[arg(long, value_name = "DIR", requires = "name")]
    pub docs: Option<PathBuf>,
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
