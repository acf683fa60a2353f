//! Several proxies as one cache, each on a machine of its own: nodes of ours, Squids that are siblings, nginx behind a HAProxy.

mod nginx;
mod ours;
mod squid;

pub use squid::{FASTER, REBUILT_MINUTES, Sharing, Told};

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::Read;
use std::net::{SocketAddrV4, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::origin::OBJECT;
use super::places::{Places, ProcessGroup};
use super::service::ServiceNames;
use crate::error::LabError;

/// How long a node may take to start.
const PATIENCE: Duration = Duration::from_secs(60);
/// Where each listens for clients.
const PORT: u16 = 3128;

/// Which proxies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Ours, objects on the disks of their homes.
    Tinaja {
        /// How many homes an object has.
        copies: u8,
    },
    /// Squids that are siblings.
    Squid(Sharing),
    /// nginx, and a HAProxy before them that chooses by a consistent hash of the URL.
    Nginx,
}

/// What each node has for objects.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Bytes of its disk.
    pub disk_bytes: u64,
    /// Bytes of memory for hot objects, if it keeps such.
    pub memory_bytes: u64,
}

impl Kind {
    /// Its name in tables.
    pub fn name(self) -> String {
        match self {
            Kind::Tinaja { copies } => format!("Tinaja, homes, copies {copies}"),
            Kind::Squid(sharing) => sharing.name().to_owned(),
            Kind::Nginx => "HAProxy and nginx".to_owned(),
        }
    }

    /// What has to be installed for it and is not; with the names of Debian's packages.
    pub fn missing(self) -> Vec<&'static str> {
        let programs: &[(&str, &'static str)] = match self {
            Kind::Tinaja { .. } => &[("openssl", "openssl")],
            Kind::Squid(_) => &[("squid", "squid")],
            Kind::Nginx => &[("nginx", "nginx-light"), ("haproxy", "haproxy")],
        };
        let absent = |(program, package): &(&str, &'static str)| super::find(program).is_none().then_some(*package);
        let mut missing: Vec<_> = programs.iter().filter_map(absent).collect();
        if self == Kind::Squid(Sharing::Digests) && squid::faster_clock().is_none() {
            missing.push("faketime");
        }
        missing
    }

    /// What it calls itself, with its version.
    pub fn version(self) -> String {
        let (program, option) = match self {
            Kind::Tinaja { .. } => (std::env::current_exe().ok(), "--version"),
            Kind::Squid(_) => (super::find("squid"), "-v"),
            Kind::Nginx => (super::find("nginx"), "-v"),
        };
        let output = program.and_then(|program| Command::new(program).arg(option).output().ok());
        let text = output.map(|output| [output.stdout, output.stderr].concat()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let line = text.lines().find(|line| line.split('.').count() > 1).unwrap_or_default();
        line.split_whitespace().take(4).collect::<Vec<_>>().join(" ")
    }
}

/// What all nodes are set up with.
struct Setting<'a> {
    places: &'a Places,
    /// All nodes that there will be, those that start later as well.
    count: u8,
    room: Room,
    origin: SocketAddrV4,
    services: &'a ServiceNames,
    /// What they share.
    dir: &'a Path,
}

/// Nodes that run. Dropped, they are killed, and what they kept is gone.
pub struct Crowd<'a> {
    kind: Kind,
    places: &'a Places,
    count: u8,
    room: Room,
    origin: SocketAddrV4,
    running: HashMap<u8, ProcessGroup>,
    front: Option<ProcessGroup>,
    began: Instant,
    // Dropped last.
    services: ServiceNames,
    dir: TempDir,
}

impl<'a> Crowd<'a> {
    /// Prepare all nodes, in files below `scratch`, and start the first ones; back when they take connections. Errors: one ends, or does
    /// not begin, with the last that it said.
    pub fn start(
        kind: Kind,
        places: &'a Places,
        (first, count): (u8, u8),
        room: Room,
        origin: SocketAddrV4,
        scratch: &Path,
    ) -> Result<Crowd<'a>, LabError> {
        let failed = |why: std::io::Error| LabError::failed("preparing nodes", why);
        let dir = tempfile::Builder::new().prefix("tinaja-lab-crowd-").tempdir_in(scratch).map_err(failed)?;
        // Who gives up root's rights must reach its files still.
        fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).map_err(failed)?;
        let (running, began, services) = (HashMap::new(), Instant::now(), ServiceNames::new());
        let mut crowd = Crowd { kind, places, count, room, origin, running, front: None, began, services, dir };
        match kind {
            Kind::Tinaja { .. } => ours::prepare(&crowd.setting())?,
            Kind::Squid(_) | Kind::Nginx => {}
        }
        for n in 0..count {
            fs::create_dir(crowd.own(n)).map_err(failed)?;
            match kind {
                Kind::Tinaja { copies } => ours::write(&crowd.setting(), n, &crowd.own(n), copies)?,
                Kind::Squid(sharing) => squid::write(&crowd.setting(), n, &crowd.own(n), sharing)?,
                Kind::Nginx => nginx::write(&crowd.setting(), n, &crowd.own(n))?,
            }
        }
        (0..first).try_for_each(|n| crowd.begin(n))?;
        (0..first).try_for_each(|n| crowd.wait(n))?;
        if matches!(kind, Kind::Tinaja { .. }) {
            (0..first).try_for_each(|n| ours::knows(&crowd.own(n), usize::from(first) - 1, PATIENCE))?;
        }
        // After them, or it would take them for dead.
        if kind == Kind::Nginx {
            let mut command = nginx::front(&crowd.setting())?;
            crowd.front = Some(run_at(&mut command, &crowd.dir.path().join("front.output"))?);
            crowd.listens(SocketAddrV4::new(places.here(), PORT), None)?;
        }
        Ok(crowd)
    }

    fn setting(&self) -> Setting<'_> {
        let Crowd { places, count, room, origin, ref services, .. } = *self;
        Setting { places, count, room, origin, services, dir: self.dir.path() }
    }

    fn own(&self, n: u8) -> PathBuf {
        self.dir.path().join(format!("box-{n}"))
    }

    fn address(&self, n: u8) -> SocketAddrV4 {
        SocketAddrV4::new(self.places.of(n), PORT)
    }

    /// Where clients ask, and which node that is, if it is one.
    pub fn doors(&self) -> Vec<(SocketAddrV4, Option<u8>)> {
        match self.kind {
            Kind::Nginx => vec![(SocketAddrV4::new(self.places.here(), PORT), None)],
            Kind::Tinaja { .. } | Kind::Squid(_) => (0..self.count).map(|n| (self.address(n), Some(n))).collect(),
        }
    }

    /// Start a node and wait until it takes connections. Errors: it does not.
    pub fn add(&mut self, n: u8) -> Result<(), LabError> {
        self.begin(n)?;
        self.wait(n)
    }

    /// Kill a node, and all that it has started.
    pub fn kill(&mut self, n: u8) {
        let Some(process) = self.running.remove(&n) else { return };
        let number = process.number();
        drop(process);
        if self.kind == Kind::Squid(Sharing::Digests) {
            squid::clean(number);
        }
    }

    /// Objects on the disks of all nodes that run, by their numbers: on how many, and the bytes of one copy.
    ///
    /// Errors: a disk cannot be read.
    pub fn on_disks(&self) -> Result<HashMap<u64, (u64, u64)>, LabError> {
        let mut all = HashMap::<u64, (u64, u64)>::new();
        for n in self.running.keys() {
            let found = match self.kind {
                Kind::Tinaja { .. } => ours::on_disk(&self.own(*n), self.dir.path())?,
                Kind::Squid(_) | Kind::Nginx => in_files(&self.own(*n).join("cache"))?,
            };
            for (object, bytes) in found {
                let (copies, of) = all.entry(object).or_default();
                (*copies, *of) = (*copies + 1, bytes);
            }
        }
        Ok(all)
    }

    /// What each node that runs says of its siblings that run, since it was started; nothing of other kinds. One that does not say it in
    /// time is warned about and left out: these are counts beside what is measured.
    pub fn told(&self) -> HashMap<u8, Told> {
        if !matches!(self.kind, Kind::Squid(_)) {
            return HashMap::new();
        }
        let running: HashSet<_> = self.running.keys().map(|n| self.places.of(*n)).collect();
        let told = |n: &u8| match squid::told(self.places.of(*n), &running) {
            Ok(told) => Some((*n, told)),
            Err(why) => {
                tracing::warn!(node = n, %why, "left out of what the Squids say of their siblings");
                None
            }
        };
        self.running.keys().filter_map(told).collect()
    }

    fn begin(&mut self, n: u8) -> Result<(), LabError> {
        let own = self.own(n);
        let mut command = match self.kind {
            Kind::Tinaja { .. } => ours::command(self.places, n, &own)?,
            Kind::Squid(sharing) => squid::command(&self.setting(), n, &own, sharing, self.began.elapsed())?,
            Kind::Nginx => nginx::command(self.places, n, &own)?,
        };
        let process = run_at(&mut command, &own.join("output"))?;
        self.running.insert(n, process);
        Ok(())
    }

    fn wait(&mut self, n: u8) -> Result<(), LabError> {
        self.listens(self.address(n), Some(n))
    }

    fn listens(&mut self, address: SocketAddrV4, node: Option<u8>) -> Result<(), LabError> {
        let begin = Instant::now();
        let output = node.map_or_else(|| self.dir.path().join("front.output"), |n| self.own(n).join("output"));
        let process = match node {
            Some(n) => self.running.get_mut(&n),
            None => self.front.as_mut(),
        };
        let Some(process) = process else { return Err(LabError::failed("starting a node", "it was not begun")) };
        while TcpStream::connect_timeout(&address.into(), Duration::from_secs(1)).is_err() {
            let why = match process.ended() {
                Some(status) => format!("it ended with {status}"),
                None if begin.elapsed() > PATIENCE => "it takes no connections".to_owned(),
                None => {
                    std::thread::sleep(Duration::from_millis(20));
                    continue;
                }
            };
            // Squid says why it ends in a log of its own.
            let said = [fs::read_to_string(output.with_file_name("cache.log")), fs::read_to_string(&output)];
            let said = said.map(Result::unwrap_or_default).concat();
            let mut last: Vec<_> = said.lines().rev().take(3).collect();
            // What it says of its memory and time comes after it.
            last.extend(said.lines().filter(|line| line.contains("FATAL: ")));
            return Err(LabError::failed(
                "starting a node",
                format!("{}: {why}: {}", self.kind.name(), last.join(" | ")),
            ));
        }
        Ok(())
    }
}

impl Drop for Crowd<'_> {
    fn drop(&mut self) {
        let all: Vec<u8> = self.running.keys().copied().collect();
        all.into_iter().for_each(|n| self.kill(n));
    }
}

/// Start it, what it says in a file. Errors: it does not.
fn run_at(command: &mut Command, output: &Path) -> Result<ProcessGroup, LabError> {
    let failed = |why: std::io::Error| LabError::failed("starting a node", why);
    let file = File::create(output).map_err(failed)?;
    command.stdin(Stdio::null()).stdout(file.try_clone().map_err(failed)?).stderr(file);
    ProcessGroup::start(command).map_err(failed)
}

fn program(name: &str) -> Result<PathBuf, LabError> {
    super::find(name).ok_or_else(|| LabError::failed("starting a node", format!("{name} is not installed")))
}

fn write(path: &Path, text: &str) -> Result<(), LabError> {
    fs::write(path, text).map_err(|why| LabError::failed("writing a node's settings", why))
}

/// What an answer says of itself, which object it is, is in the first so many bytes of its file.
const HEAD_BYTES: usize = 8192;

/// Objects that lie in files of their own below a directory: each file begins with the head of the answer. Bytes are the file's.
fn in_files(dir: &Path) -> Result<HashMap<u64, u64>, LabError> {
    let mut found = HashMap::new();
    look(dir, &mut found).map_err(|why| LabError::failed("looking through a node's directory", why))?;
    Ok(found)
}

fn look(dir: &Path, found: &mut HashMap<u64, u64>) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        // It may go at any moment: it is a running cache's.
        let Ok(about) = entry.metadata() else { continue };
        if about.is_dir() {
            look(&entry.path(), found)?;
            continue;
        }
        let Ok(file) = File::open(entry.path()) else { continue };
        let mut head = Vec::new();
        file.take(HEAD_BYTES as u64).read_to_end(&mut head)?;
        if let Some(object) = object_in(&head) {
            found.insert(object, about.len());
        }
    }
    Ok(())
}

/// The number of the object that a stored answer's head says it is, if it does.
fn object_in(head: &[u8]) -> Option<u64> {
    let field = OBJECT.as_bytes();
    let at = head.windows(field.len()).position(|window| window.eq_ignore_ascii_case(field))? + field.len();
    let rest = head.get(at..)?;
    let digits = rest.iter().take(8).position(u8::is_ascii_hexdigit)?;
    u64::from_str_radix(std::str::from_utf8(rest.get(digits..digits + 16)?).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_known_by_the_head_before_its_body() {
        let head = b"\x03\0\0junkHTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Object: 00000000000000ff\r\n\r\nbody";
        assert_eq!(object_in(head), Some(255));
        assert_eq!(object_in(b"x-object\0\x1000000000000000ff"), Some(255), "however a name and its value are parted");
        assert_eq!(object_in(b"X-Object: 00"), None);
        assert_eq!(object_in(b"72 bytes of a list"), None);
    }

    #[test]
    fn what_is_missing_is_named_by_its_package() {
        for kind in [Kind::Tinaja { copies: 1 }, Kind::Squid(Sharing::Digests), Kind::Nginx] {
            let known = ["openssl", "squid", "faketime", "nginx-light", "haproxy"];
            assert!(kind.missing().iter().all(|package| known.contains(package)));
        }
    }
}
