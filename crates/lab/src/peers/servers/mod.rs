//! The proxies: how each is set up, started and stopped.

mod squid;
mod tinaja;
mod traffic_server;

use std::fs::{self, File};
use std::net::{SocketAddrV4, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tinaja_store::{EngineRef, engines};

use super::address::free_address;
use super::bench::Bench;
use crate::error::LabError;

/// A proxy takes no longer to start or to stop than a slow disk makes it.
const PATIENCE: Duration = Duration::from_secs(120);

/// Which proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Ours.
    Tinaja {
        /// With which engine.
        engine: EngineRef,
        /// With or without prefetching.
        prefetch: bool,
        /// On a file whose parts have not all been written once: see [`write_through`](super::Bench::write_through).
        is_new: bool,
    },
    /// Squid, with one of its stores.
    Squid(SquidStore),
    /// Apache Traffic Server.
    TrafficServer,
}

/// Where Squid keeps objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SquidStore {
    /// Each object in a file, an index on the heap. The disk is asked by the process that serves.
    Ufs,
    /// The same, and the disk is asked from threads.
    Aufs,
    /// All objects in slots of one file, the disk asked by a process of its own, an index in shared memory.
    Rock,
}

/// What all proxies are given alike.
#[derive(Clone, Debug)]
pub struct Share {
    /// Bytes of disk for objects.
    pub disk_bytes: u64,
    /// Bytes of memory for hot objects.
    pub hot_bytes: u64,
}

/// A proxy that runs in a bench. Dropped, it is killed; processes that it started itself end with the bench.
pub struct Server {
    peer: Peer,
    child: Child,
    address: SocketAddrV4,
    cache: PathBuf,
    log: PathBuf,
}

/// How a proxy is started.
struct Start {
    command: Command,
    cache: PathBuf,
}

impl Peer {
    /// Its name in tables.
    pub fn name(self) -> String {
        match self {
            Peer::Tinaja { engine, prefetch, is_new } => {
                let (prefetch, new) =
                    (if prefetch { " + prefetch" } else { "" }, if is_new { ", new file" } else { "" });
                format!("{engine}{prefetch}{new}")
            }
            Peer::Squid(SquidStore::Ufs) => "Squid, ufs".to_owned(),
            Peer::Squid(SquidStore::Aufs) => "Squid, aufs".to_owned(),
            Peer::Squid(SquidStore::Rock) => "Squid, rock".to_owned(),
            Peer::TrafficServer => "Traffic Server".to_owned(),
        }
    }

    /// Its program; `None` if it is not installed.
    pub fn program(self) -> Option<PathBuf> {
        match self {
            // The one that this runs in.
            Peer::Tinaja { .. } => std::env::current_exe().ok(),
            Peer::Squid(_) => find("squid"),
            Peer::TrafficServer => find("traffic_server"),
        }
    }

    /// What it calls itself, with its version.
    pub fn version(self) -> String {
        let option = if matches!(self, Peer::Squid(_)) { "-v" } else { "--version" };
        let output = self.program().and_then(|program| Command::new(program).arg(option).output().ok());
        let text = output.map(|output| [output.stdout, output.stderr].concat()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let line = text.lines().find(|line| line.split('.').count() > 1).unwrap_or_default();
        line.split_whitespace().take(4).collect::<Vec<_>>().join(" ")
    }
}

/// A program in one of the places where Debian puts them.
pub fn find(name: &str) -> Option<PathBuf> {
    ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"]
        .into_iter()
        .map(|dir| Path::new(dir).join(name))
        .find(|path| path.exists())
}

impl Server {
    /// Set it up on the bench's disk and start it; back when it takes connections. A file that it keeps objects in has been
    /// written through once, unless it is to be new. Errors: it is not installed, or it ends, with the last that it said.
    pub fn start(peer: Peer, bench: &Bench, share: &Share) -> Result<Server, LabError> {
        if let Peer::Tinaja { is_new: false, engine, .. } = peer
            && engines::on_devices().find(engine.name).is_ok()
        {
            let first = Server::begin(peer, bench, share)?;
            let file = first.cache.join("tinaja.cache");
            drop(first);
            bench.write_through(&file)?;
        }
        Server::begin(peer, bench, share)
    }

    fn begin(peer: Peer, bench: &Bench, share: &Share) -> Result<Server, LabError> {
        let failed = |why: std::io::Error| LabError::failed("starting a proxy", why);
        let program = peer
            .program()
            .ok_or_else(|| LabError::failed("starting a proxy", format!("{} is not installed", peer.name())))?;
        let address = free_address()?;
        let setting = Setting { bench, program: &program, address, share };
        let Start { mut command, cache } = match peer {
            Peer::Tinaja { engine, prefetch, .. } => tinaja::start(&setting, engine, prefetch),
            Peer::Squid(store) => squid::start(&setting, store)?,
            Peer::TrafficServer => traffic_server::start(&setting)?,
        };
        let log = bench.aside().join("output");
        let output = File::create(&log).map_err(failed)?;
        command.stdin(Stdio::null()).stdout(output.try_clone().map_err(failed)?).stderr(output);
        let child = command.spawn().map_err(failed)?;
        let mut server = Server { peer, child, address, cache, log };
        server.wait_until_up(bench)?;
        Ok(server)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddrV4 {
        self.address
    }

    /// Bytes of memory that its index takes, if it says so.
    pub fn index_bytes(&self) -> Option<u64> {
        match self.peer {
            Peer::Tinaja { .. } => tinaja::index_bytes(self.peer, &self.cache),
            Peer::Squid(SquidStore::Ufs | SquidStore::Aufs) => squid::index_bytes(self.address),
            Peer::Squid(SquidStore::Rock) => squid::rock_index_bytes(self.child.id()),
            Peer::TrafficServer => traffic_server::index_bytes(&self.cache),
        }
    }

    /// Errors: it has ended meanwhile.
    pub fn still_runs(&mut self) -> Result<(), LabError> {
        match self.child.try_wait() {
            Ok(Some(status)) => {
                Err(self.refused(&format!("it ended with {status}; signal 9 is the limit of its memory")))
            }
            _ => Ok(()),
        }
    }

    fn wait_until_up(&mut self, bench: &Bench) -> Result<(), LabError> {
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(self.refused(&format!("it ended with {status}")));
            }
            // While Squid still looks through its store it has no room for objects in it.
            let is_ready = !matches!(self.peer, Peer::Squid(_)) || squid::has_read_its_store(bench);
            if is_ready && TcpStream::connect(self.address).is_ok() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(self.refused("it takes no connections"))
    }

    fn refused(&self, why: &str) -> LabError {
        let said = fs::read_to_string(&self.log).unwrap_or_default();
        let last: Vec<_> = said.lines().rev().take(3).collect();
        LabError::failed("running a proxy", format!("{}: {why}: {}", self.peer.name(), last.join(" | ")))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // What it would write at an orderly end is thrown away with the disk.
        if let Ok(pid) = i32::try_from(self.child.id())
            && let Some(pid) = Pid::from_raw(pid)
        {
            let _ = kill_process(pid, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// What a proxy is set up with.
struct Setting<'a> {
    bench: &'a Bench,
    program: &'a Path,
    address: SocketAddrV4,
    share: &'a Share,
}

fn write(path: &Path, text: &str) -> Result<(), LabError> {
    fs::write(path, text).map_err(|why| LabError::failed("writing a proxy's settings", why))
}

fn make_dir(path: &Path) -> Result<(), LabError> {
    fs::create_dir(path).map_err(|why| LabError::failed("making a proxy's directory", why))
}
