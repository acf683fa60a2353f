//! The binary under test.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;

use super::client::{Response, get};
use super::process::Process;
use super::tools;

/// A cache directory, a port and flags; started, stopped and started again by one test.
pub struct Setup {
    dir: TempDir,
    address: SocketAddr,
    flags: Vec<String>,
}

/// One run of the proxy.
pub struct Tinaja {
    pub process: Process,
    address: SocketAddr,
}

impl Setup {
    /// A forward proxy that may connect to loopback, with a cache of 256 MiB on disk and 8 MiB in memory.
    pub fn forward() -> Self {
        Setup::bare().flags(&[
            "--disk",
            "256MiB",
            "--memory",
            "8MiB",
            "--allow-destination",
            "127.0.0.0/8",
        ])
    }

    /// A reverse proxy before `origin`.
    pub fn reverse(origin: SocketAddr) -> Self {
        let origin = format!("http://{origin}");
        Setup::bare().flags(&["--disk", "256MiB", "--memory", "8MiB", "--origin", &origin])
    }

    /// No flags but for where to listen, to keep the cache and to log.
    pub fn bare() -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], super::free_port()));
        Setup {
            dir: TempDir::new().unwrap(),
            address,
            flags: Vec::new(),
        }
    }

    /// Add flags.
    pub fn flags(mut self, flags: &[&str]) -> Self {
        self.flags.extend(flags.iter().map(|flag| (*flag).to_owned()));
        self
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn cache_dir(&self) -> PathBuf {
        self.dir.path().join("cache")
    }

    /// Everything the runs so far have printed.
    pub fn output(&self) -> String {
        fs::read_to_string(self.dir.path().join("output")).unwrap_or_default()
    }

    /// The access log of all runs so far.
    pub fn access_log(&self) -> String {
        fs::read_to_string(self.dir.path().join("access.log")).unwrap_or_default()
    }

    /// Start it and wait until it listens.
    pub fn start(&self) -> Tinaja {
        let mut process = Process::start("tinaja", &mut self.command(), &self.dir.path().join("output"));
        process.wait_until_listening(self.address);
        Tinaja {
            process,
            address: self.address,
        }
    }

    /// Run it to its end, for starts that must fail.
    pub fn run(&self) -> Output {
        tools::output(&mut self.command())
    }

    /// Run `tinaja inspect --json` on the cache.
    pub fn inspect(&self) -> Output {
        tools::output(
            binary(&self.dir)
                .arg("inspect")
                .arg("--cache")
                .arg(self.cache_dir())
                .arg("--json"),
        )
    }

    fn command(&self) -> Command {
        let mut command = binary(&self.dir);
        command.arg("serve").arg("--listen").arg(self.address.to_string());
        command
            .arg("--cache")
            .arg(self.cache_dir())
            .arg("--access-log")
            .arg(self.dir.path().join("access.log"));
        command.args(&self.flags);
        command
    }
}

impl Tinaja {
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The proxy's URL, as clients want it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// GET `url` through the proxy.
    pub fn get(&self, url: &str) -> io::Result<Response> {
        get(self.address, url)
    }
}

/// The binary, with its home in `dir` and nothing of the machine's environment.
pub fn binary(dir: &TempDir) -> Command {
    tools::client(env!("CARGO_BIN_EXE_tinaja"), dir.path())
}
