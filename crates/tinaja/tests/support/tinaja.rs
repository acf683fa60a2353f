//! The binary under test.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tinaja_logs::{Record, squid};

use tinaja_testkit::client::{Response, get};
use tinaja_testkit::port::free_port;
use tinaja_testkit::process::Process;
use tinaja_testkit::tools;
use tinaja_testkit::wait::wait_for;

/// What makes a program see another time of day, if it is there.
pub const FAKETIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";

/// By when a line must be in the access log: the proxy writes down what it has each second.
const LOGGED_WITHIN: Duration = Duration::from_secs(30);

/// A cache directory, a port and flags; started, stopped and started again by one test.
pub struct Setup {
    dir: Arc<TempDir>,
    cache: PathBuf,
    address: SocketAddr,
    logged: bool,
    flags: Vec<String>,
    env: Vec<(&'static str, PathBuf)>,
}

/// One run of the proxy.
pub struct Tinaja {
    pub process: Process,
    address: SocketAddr,
    /// Its home, its log and its output: a proxy whose home went with the setup had listened already, and could not open its log any more.
    _dir: Option<Arc<TempDir>>,
}

impl Setup {
    /// A forward proxy that may connect to loopback, with a cache of 256 MiB on disk and 8 MiB in memory.
    pub fn forward() -> Self {
        Setup::bare().flags(&["--disk", "256MiB", "--memory", "8MiB", "--allow-destination", "127.0.0.0/8"])
    }

    /// A reverse proxy before `origin`.
    pub fn reverse(origin: SocketAddr) -> Self {
        Setup::reverse_url(&format!("http://{origin}"))
    }

    /// A reverse proxy before the origin at this URL.
    pub fn reverse_url(origin: &str) -> Self {
        Setup::bare().flags(&["--disk", "256MiB", "--memory", "8MiB", "--origin", origin])
    }

    /// No flags but for where to listen, to keep the cache and to log.
    pub fn bare() -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let dir = Arc::new(TempDir::new().unwrap());
        Setup { cache: dir.path().join("cache"), dir, logged: true, address, flags: Vec::new(), env: Vec::new() }
    }

    /// [`Setup::bare`] without the access log.
    pub fn unlogged() -> Self {
        Setup { logged: false, ..Setup::bare() }
    }

    /// Add flags.
    pub fn flags(mut self, flags: &[&str]) -> Self {
        self.flags.extend(flags.iter().map(|flag| (*flag).to_owned()));
        self
    }

    /// Trust only the authorities in this file.
    pub fn trusting(mut self, authorities: &Path) -> Self {
        self.env.push(("SSL_CERT_FILE", authorities.to_owned()));
        self
    }

    /// Start by another time of day, as [`FAKETIME`] reads it: "-7d" or "@1970-01-02 00:00:00"; nothing for the machine's own.
    pub fn with_clock(mut self, clock: &str) -> Self {
        let names = ["LD_PRELOAD", "FAKETIME", "FAKETIME_DONT_FAKE_MONOTONIC"];
        self.env.retain(|(name, _)| !names.contains(name));
        if !clock.is_empty() {
            self.env.extend(names.into_iter().zip([FAKETIME, clock, "1"].map(PathBuf::from)));
        }
        self
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Keep the cache there instead of in the scratch directory.
    pub fn cache(mut self, dir: &Path) -> Self {
        self.cache = dir.to_owned();
        self
    }

    /// Where the cache lives.
    pub fn cache_dir(&self) -> &Path {
        &self.cache
    }

    /// Everything the runs so far have printed.
    pub fn output(&self) -> String {
        fs::read_to_string(self.dir.path().join("output")).unwrap_or_default()
    }

    /// The access log of all runs so far. A request's line is written once it has ended, for which its client doesn't wait: stop
    /// the proxy first, or use [`Setup::access_log_once`].
    pub fn access_log(&self) -> Vec<Record> {
        let log = fs::read_to_string(self.dir.path().join("access.log")).unwrap_or_default();
        // The last line may be on its way.
        let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(|line| squid::parse(line).unwrap()).collect()
    }

    /// The access log of all runs so far, once this holds of it. Lines of several connections come in any order.
    pub fn access_log_once(&self, what: &str, holds: impl Fn(&[Record]) -> bool) -> Vec<Record> {
        wait_for(what, LOGGED_WITHIN, || Some(self.access_log()).filter(|log| holds(log)))
    }

    /// Start it and wait until it listens.
    pub fn start(&self) -> Tinaja {
        let mut process = Process::start("tinaja", &mut self.command(), &self.dir.path().join("output"));
        process.wait_until_listening(self.address);
        Tinaja { process, address: self.address, _dir: Some(self.dir.clone()) }
    }

    /// [`Setup::start`] with so many open files, unless it asks for more.
    pub fn start_with_soft_limit(&self, files: u32) -> Tinaja {
        let inner = self.command();
        let mut command = tools::client("sh", self.dir.path());
        command.arg("-c").arg(format!("ulimit -S -n {files} && exec \"$@\"")).arg("sh");
        command.arg(inner.get_program()).args(inner.get_args());
        let mut process = Process::start("tinaja", &mut command, &self.dir.path().join("output"));
        process.wait_until_listening(self.address);
        Tinaja { process, address: self.address, _dir: Some(self.dir.clone()) }
    }

    /// [`Setup::start`] with the system's resolver asking that name server alone: the process has an `/etc/resolv.conf` of
    /// its own. Nothing where no process may have one.
    pub fn start_with_name_server(&self, name_server: IpAddr) -> Option<Tinaja> {
        let allowed = tools::client("unshare", self.dir.path()).args(["--mount", "true"]).output().ok()?;
        if !allowed.status.success() {
            return None;
        }
        let resolver = self.dir.path().join("resolv.conf");
        fs::write(&resolver, format!("nameserver {name_server}\noptions timeout:2 attempts:2\n")).unwrap();
        let inner = self.command();
        let mut command = tools::client("unshare", self.dir.path());
        command.args(["--mount", "--propagation", "private", "sh", "-c"]);
        command.arg("mount --bind \"$1\" /etc/resolv.conf && shift && exec \"$@\"").arg("sh").arg(resolver);
        command.arg(inner.get_program()).args(inner.get_args());
        let mut process = Process::start("tinaja", &mut command, &self.dir.path().join("output"));
        process.wait_until_listening(self.address);
        Some(Tinaja { process, address: self.address, _dir: Some(self.dir.clone()) })
    }

    /// Start another one, with further flags, that takes over from the one that runs; `name` is where it prints to.
    pub fn successor(&self, name: &str, flags: &[&str]) -> Process {
        let mut command = self.command();
        command.arg("--take-over").args(flags);
        Process::start("tinaja", &mut command, &self.dir.path().join(name))
    }

    /// Run it to its end, for starts that must fail.
    pub fn run(&self) -> Output {
        tools::output(&mut self.command())
    }

    /// The binary, without arguments.
    pub fn binary(&self) -> Command {
        binary(&self.dir)
    }

    /// Run `tinaja inspect --json` on the cache.
    pub fn inspect(&self) -> Output {
        tools::output(binary(&self.dir).arg("inspect").arg("--cache").arg(self.cache_dir()).arg("--json"))
    }

    fn command(&self) -> Command {
        let mut command = binary(&self.dir);
        command.arg("serve").arg("--listen").arg(self.address.to_string());
        command.arg("--cache").arg(&self.cache);
        if self.logged {
            command.arg("--access-log").arg(self.dir.path().join("access.log"));
        }
        command.args(&self.flags).envs(self.env.iter().cloned());
        command
    }
}

impl Tinaja {
    /// A process that listens there already.
    pub fn of(process: Process, address: SocketAddr) -> Tinaja {
        Tinaja { process, address, _dir: None }
    }

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
