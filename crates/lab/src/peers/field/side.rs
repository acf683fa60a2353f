//! One server on its stand: started, ended in an orderly way or not, started again; and what it takes.

use std::fs::{self, File};
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use rustls::ClientConfig;

use super::connections::{Connections, Pace, Wanted};
use super::cores::Cores;
use super::product::Product;
use super::settings::{Room, Setting};
use super::stand::Stand;
use super::tls::Tls;
use crate::error::LabError;
use crate::peers::address::free_address;
use crate::peers::cleaner::Cleaner;
use crate::peers::counters::{self, DiskCount};
use crate::peers::places::ProcessGroup;
use crate::peers::service::ServiceNames;

/// How long a server may take to start, or to end when it is asked to.
const PATIENCE: Duration = Duration::from_secs(60);
/// Probes are objects from here on, which nobody else asks for.
const PROBES: u64 = 1 << 56;
/// Ends what is left of a process group, if this program is killed.
const UNDO: &str = r#"kill -KILL -- "-$1" 2>/dev/null; true"#;

/// What a side is made with.
pub struct Making<'a> {
    /// Where files lie for a while.
    pub scratch: &'a Path,
    /// On which core servers run.
    pub cores: &'a Cores,
    /// Where the origin is.
    pub origin: SocketAddrV4,
    /// What each has for objects.
    pub room: Room,
    /// Bytes of the file system, above those of [`Room::disk_bytes`].
    pub disk_bytes: u64,
    /// By what it is to remove objects when it is full, if it can be told: Tinaja's engine, Squid's policy. Without it each has its default.
    pub replacement: Option<&'a str>,
    /// With TLS and HTTP/2, or without.
    pub tls: Option<&'a Tls>,
}

/// See the module. Dropped, its processes are killed and its files removed, also if this program is killed.
pub struct Side {
    product: Product,
    program: PathBuf,
    arguments: Vec<String>,
    address: SocketAddrV4,
    tls: Option<Arc<ClientConfig>>,
    own: PathBuf,
    running: Option<Running>,
    base_bytes: Option<u64>,
    _services: ServiceNames,
    // Dropped last: the processes hold its files open.
    stand: Stand,
}

struct Running {
    group: ProcessGroup,
    _cleaner: Cleaner,
}

impl Side {
    /// Make a stand, and start the server there; back when it stores what it is asked for. Errors: it does not, with the last that it said.
    pub fn start(product: Product, program: &Path, making: &Making<'_>) -> Result<Side, LabError> {
        let stand = Stand::make(making.scratch, making.disk_bytes)?;
        let base_bytes = stand.used_bytes();
        let address = free_address()?;
        let Making { origin, room, replacement, tls, .. } = *making;
        let services = ServiceNames::new();
        let setting = Setting {
            stand: &stand,
            program,
            services: &services,
            address,
            origin,
            room,
            replacement,
            tls: tls.map(Tls::pair),
        };
        let (arguments, own) = (setting.write(product)?, setting.own());
        let (program, running, tls) = (program.to_owned(), None, tls.map(|tls| tls.http1().clone()));
        let mut side =
            Side { product, program, arguments, address, tls, own, running, base_bytes, _services: services, stand };
        side.begin(making.cores)?;
        Ok(side)
    }

    /// Which server.
    pub fn product(&self) -> Product {
        self.product
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddrV4 {
        self.address
    }

    /// Where it stands.
    pub fn stand(&self) -> &Stand {
        &self.stand
    }

    /// Start it, with what it has on its disk; how long until it answers and has looked at that. Errors: it does not, or runs already.
    pub fn begin(&mut self, cores: &Cores) -> Result<Duration, LabError> {
        let failed = |why: std::io::Error| LabError::failed("starting a server", why);
        let log = File::options().create(true).append(true).open(self.log()).map_err(failed)?;
        let mut command = self.stand.command(cores, &self.program, &self.arguments);
        command.stdin(Stdio::null()).stdout(log.try_clone().map_err(failed)?).stderr(log);
        let (began, rebuilt) = (Instant::now(), self.rebuilt());
        let group = ProcessGroup::start(&mut command).map_err(failed)?;
        let cleaner = Cleaner::by(UNDO, [group.number().to_string()])?;
        self.running = Some(Running { group, _cleaner: cleaner });
        while began.elapsed() < PATIENCE {
            self.still_runs()?;
            // While Squid looks through its store it has no room for objects in it.
            let has_looked = self.product != Product::Squid || self.rebuilt() > rebuilt;
            if has_looked && self.stores() {
                return Ok(began.elapsed());
            }
            sleep(Duration::from_millis(50));
        }
        Err(self.refused("it stores nothing"))
    }

    /// End it: in an orderly way, and how long that took, or at once. Errors: it takes longer than a minute, and is killed.
    pub fn end(&mut self, in_order: bool) -> Result<Duration, LabError> {
        let Some(mut running) = self.running.take() else { return Ok(Duration::ZERO) };
        let began = Instant::now();
        if in_order {
            running.group.tell(Signal::TERM);
            while running.group.ended().is_none() {
                if began.elapsed() > PATIENCE {
                    drop(running);
                    return Err(self.refused("it does not end when it is asked to"));
                }
                sleep(Duration::from_millis(10));
            }
        }
        let took = began.elapsed();
        let of_it = self.stand.processes(running.group.number());
        // What is left of it is killed.
        drop(running);
        while of_it.iter().any(|pid| counters::process(&pid.to_string()).is_some_and(|left| left.resident_bytes > 0)) {
            if began.elapsed() > PATIENCE {
                return Err(self.refused("it cannot be killed"));
            }
            sleep(Duration::from_millis(10));
        }
        Ok(took)
    }

    /// Errors: it has ended by itself, with the last that it said.
    pub fn still_runs(&mut self) -> Result<(), LabError> {
        match self.running.as_mut().and_then(|running| running.group.ended()) {
            Some(status) => Err(self.refused(&format!("it ended by itself with {status}"))),
            None => Ok(()),
        }
    }

    /// Have it open so many connections, with an answer from its memory over each. Errors: it takes or answers them not.
    pub fn connections(&self, count: usize) -> Result<Connections, LabError> {
        let mut connections = Connections::open_by(self.address, count, self.tls.as_ref())?;
        let probe = Wanted { object: PROBES, bytes: 100 };
        connections.run(std::iter::repeat_n(probe, count), Pace::Closed)?;
        Ok(connections)
    }

    fn processes(&self) -> Vec<u32> {
        self.running.as_ref().map(|running| self.stand.processes(running.group.number())).unwrap_or_default()
    }

    /// Processor time of all its threads so far.
    pub fn cpu(&self) -> Duration {
        counters::of_threads(&self.processes())
    }

    /// Bytes of memory that it holds.
    pub fn resident_bytes(&self) -> u64 {
        self.stand.resident_bytes(&self.processes())
    }

    /// What the disk has done for it so far.
    pub fn disk(&self) -> DiskCount {
        self.stand.counted(&self.processes())
    }

    /// Bytes of its disk that it takes, if the disk is its own.
    pub fn used_bytes(&self) -> Option<u64> {
        Some(self.stand.used_bytes()?.saturating_sub(self.base_bytes?))
    }

    /// Whether what it was asked for once is a hit the second time.
    fn stores(&self) -> bool {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let probe = Wanted { object: PROBES + NEXT.fetch_add(1, Relaxed), bytes: 100 };
        let asked = |_| Connections::open_by(self.address, 1, self.tls.as_ref())?.run([probe], Pace::Closed);
        let hits = (0..2).map(asked).map(|tally: Result<_, LabError>| tally.map_or(0, |tally| tally.hit_times.len()));
        hits.sum::<usize>() == 1
    }

    /// How often Squid has said that it has looked through its store.
    fn rebuilt(&self) -> usize {
        let log = fs::read(self.own.join("cache.log")).unwrap_or_default();
        String::from_utf8_lossy(&log).matches("Finished rebuilding storage from disk").count()
    }

    fn log(&self) -> PathBuf {
        self.stand.aside().join("output")
    }

    fn refused(&self, why: &str) -> LabError {
        let said = ["log", "cache.log"].map(|name| self.own.join(name)).into_iter().chain([self.log()]);
        let said: String = said
            .filter_map(|file| fs::read(file).ok())
            .map(|text| String::from_utf8_lossy(&text).into_owned())
            .collect();
        let last: Vec<_> = said.lines().rev().filter(|line| !line.trim().is_empty()).take(2).collect();
        LabError::failed("running a server", format!("{}: {why}: {}", self.product.name(), last.join(" | ")))
    }
}
