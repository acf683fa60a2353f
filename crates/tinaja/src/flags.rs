//! The command line: what may be said, and what it means when it is not said.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use bytesize::ByteSize;
use clap::{Args, Parser, Subcommand};
use tinaja_proxy::{Cidr, LogFormat, OriginUrl};
use tinaja_store::EngineName;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// A web cache for those with more disk than memory.
#[derive(Debug, Parser)]
#[command(name = "tinaja", version, about, max_term_width = 110)]
pub struct Flags {
    /// What to do.
    #[command(subcommand)]
    pub action: Action,
    /// What to say on stderr: error, warn, info, debug, trace or off; or for one part, as in tinaja_store=debug,warn.
    #[arg(long, global = true, value_name = "LEVEL", env = "TINAJA_LOG", default_value = "info", value_parser = filter)]
    pub log: String,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Run the cache: a forward proxy, or with --origin a reverse proxy.
    Serve(Box<Serve>),
    /// Say what a stopped cache holds and what its index costs.
    Inspect(Inspect),
}

/// The flags of `serve`.
#[derive(Debug, Args)]
pub struct Serve {
    /// Where to listen; may be given several times.
    #[arg(long, value_name = "ADDR:PORT", value_parser = address, default_value = "127.0.0.1:3128")]
    pub listen: Vec<SocketAddr>,
    /// Be a reverse proxy for this server, http://HOST:PORT or https://HOST:PORT, instead of a forward proxy. The
    /// certificate must come from an authority that the system trusts, or that SSL_CERT_FILE names.
    #[arg(long, value_name = "URL")]
    pub origin: Option<OriginUrl>,
    /// Where the cache lives; by default tinaja in the user's cache directory. Given several times, for several disks,
    /// objects are spread over all of them; the order may not change.
    #[arg(long, value_name = "DIR")]
    pub cache: Vec<PathBuf>,
    /// How much disk to use in each directory; by default what the cache has, or for a new one a quarter of what is free,
    /// 10GiB at most.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub disk: Option<u64>,
    /// How much memory to use for hot objects.
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "64MiB")]
    pub memory: u64,
    /// How many threads serve, in total over all addresses; by default one for each core. The disk has its own.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub workers: Option<u16>,
    /// How objects are kept and found on disk; by default as the cache was made, or hashcache-log for a new one.
    #[arg(long, value_name = "NAME")]
    pub engine: Option<EngineName>,
    /// Log each request to this file; or off.
    #[arg(long, value_name = "FILE|off", default_value = "off", value_parser = file_or_off)]
    pub access_log: FileOrOff,
    /// How to log requests: squid (its native format), common, combined or json.
    #[arg(long, value_name = "FORMAT", default_value = "squid")]
    pub access_log_format: LogFormat,
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
    /// Where the cache lives, as given to serve; by default tinaja in the user's cache directory.
    #[arg(long, value_name = "DIR")]
    pub cache: Vec<PathBuf>,
    /// Print JSON instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// A file, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOrOff(pub Option<PathBuf>);

// clap's parsers return what it prints after the flag's name and value.

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "an IP address and a port, as in 127.0.0.1:3128 or [::1]:3128".to_owned())
}

fn file_or_off(text: &str) -> Result<FileOrOff, String> {
    match text {
        "" => Err("name a file, or say off".to_owned()),
        "off" => Ok(FileOrOff(None)),
        file => Ok(FileOrOff(Some(PathBuf::from(file)))),
    }
}

/// A number of bytes: `4GiB`, `512MiB`, `100kB`, `1.5GB`, `4096`.
fn size(text: &str) -> Result<u64, String> {
    const MOST: u64 = 1 << 62;
    match ByteSize::from_str(text) {
        Ok(size) if size.as_u64() <= MOST => Ok(size.as_u64()),
        Ok(_) => Err("more than any disk has".to_owned()),
        Err(_) => Err("a size is a number and a unit, as in 4GiB, 512MiB or 100kB".to_owned()),
    }
}

/// A bare word must be a level, or a misspelt one would silently name a part of the program.
fn filter(text: &str) -> Result<String, String> {
    let is_level = |part: &str| !part.is_empty() && LevelFilter::from_str(part).is_ok();
    let meant = text.split(',').all(|part| part.contains('=') || is_level(part));
    if meant && EnvFilter::try_new(text).is_ok() {
        Ok(text.to_owned())
    } else {
        Err("levels are error, warn, info, debug, trace and off, and PART=LEVEL for one part".to_owned())
    }
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
    fn sizes_are_read_or_refused() {
        for (text, bytes) in [("4GiB", 4 << 30), ("512MiB", 512 << 20), ("100kB", 100_000), ("1.5GB", 1_500_000_000)] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for (text, bytes) in [("4096", 4096), ("0", 0)] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "GiB", "-1GiB", "4 apples", "1e9999", "nan", "99999999999EiB", "4GiBs"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn levels_are_read_or_refused() {
        for text in ["info", "off", "tinaja_store=debug,warn", "WARN"] {
            assert!(filter(text).is_ok(), "{text}");
        }
        for text in ["chatty", "", "info,chatty", "tinaja_store=loud"] {
            assert!(filter(text).is_err(), "{text}");
        }
    }

    #[test]
    fn serve_needs_no_flags() {
        let Action::Serve(serve) = Flags::parse_from(["tinaja", "serve"]).action else { panic!("not serve") };
        assert_eq!(serve.listen, ["127.0.0.1:3128".parse().unwrap()]);
        assert_eq!(serve.memory, 64 << 20);
        assert_eq!(serve.access_log, FileOrOff(None));
    }
}
