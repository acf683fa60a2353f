//! What the system lets one process have, against what the settings need; with what to do.

use anyhow::{Result, bail};
use bytesize::ByteSize;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::system::uname;
use rustix::thread::{CapabilitySet, capabilities};
use tinaja_proxy::{Diversion, Listener};
use tinaja_store::{IoEngine, memory_bytes};

use crate::settings::Settings;

/// Files beside those that are counted: standard streams, logs, sockets of listeners, the runtime's own.
const SOME_FILES: u64 = 64;
/// Connections to origins that a worker keeps for the next request.
const KEPT_BY_WORKER: u64 = 128;
/// Files of one disk: to claim it, to write and to read it, and those of io_uring.
const FILES_OF_DISK: u64 = 6;
/// What io_uring's rings of one disk take; as locked memory where the kernel counts them as that.
const RING_BYTES: u64 = 128 << 10;
/// The first kernel that does not (5.12).
const RINGS_ARE_FREE: (u32, u32) = (5, 12);

/// What settings need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Open files, sockets among them.
    pub files: u64,
    /// Locked memory in bytes.
    pub locked_bytes: u64,
}

impl Needs {
    /// What these need where the kernel is of this version.
    pub fn of(settings: &Settings, kernel: (u32, u32)) -> Needs {
        // One with positions has a file for each of the others.
        let disks = settings.cache.len() as u64 * if settings.positions_dir.is_some() { 2 } else { 1 };
        let clients = settings.proxy.limits.connections as u64;
        let kept = KEPT_BY_WORKER * settings.proxy.workers as u64;
        // Each client may wait for an origin.
        let files = clients.saturating_mul(2).saturating_add(kept + disks * FILES_OF_DISK + SOME_FILES);
        let rings = settings.io != IoEngine::Threads && kernel < RINGS_ARE_FREE;
        Needs { files, locked_bytes: if rings { disks * RING_BYTES } else { 0 } }
    }

    /// What there is too little of, each with what to do. `None` is a limit that is not one.
    fn missing(self, files: Option<u64>, locked_bytes: Option<u64>) -> Vec<String> {
        let mut missing = Vec::new();
        if let Some(most) = files.filter(|most| *most < self.files) {
            missing.push(format!(
                "the system allows {most} open files, but the clients that limits.connections allows and their origins may need \
                 {}: raise the limit (ulimit -H -n, or LimitNOFILE= in systemd) or lower limits.connections",
                self.files
            ));
        }
        if let Some(most) = locked_bytes.filter(|most| *most < self.locked_bytes) {
            missing.push(format!(
                "the system allows {most} bytes of locked memory, but io_uring needs {} with this kernel: raise the limit \
                 (ulimit -l, or LimitMEMLOCK= in systemd) or set io = \"threads\"",
                self.locked_bytes
            ));
        }
        missing
    }
}

/// Whether the memory that is set is there: for index and hot objects, and for clients.
///
/// Errors: it is not, with what to do.
pub fn fits(settings: &Settings) -> Result<()> {
    fit(settings, memory_bytes())
}

fn fit(settings: &Settings, there: u64) -> Result<()> {
    let (memory, clients) = (settings.memory_bytes, settings.proxy.limits.client_memory);
    if settings.memory_yields || memory.saturating_add(clients) <= there {
        return Ok(());
    }
    let size = |bytes| ByteSize::b(bytes).display().iec();
    bail!(
        "memory = {} for the cache and limits.client_memory = {} are more than the {} that this machine or control group has: lower one \
         of them, or set memory_yields = true",
        size(memory),
        size(clients),
        size(there)
    )
}

/// What settings would miss that are not in force yet: limits that a start would raise are taken as raised.
pub fn missing(settings: &Settings) -> Vec<String> {
    let hard = |resource| getrlimit(resource).maximum;
    let mut missing = Needs::of(settings, kernel()).missing(hard(Resource::Nofile), hard(Resource::Memlock));
    missing.extend(no_capability(settings, || {
        capabilities(None)
            .is_ok_and(|sets| sets.effective.intersects(CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW))
    }));
    missing
}

/// That a start would fail, where a listener takes connections by tproxy and this process may not.
fn no_capability(settings: &Settings, may: impl Fn() -> bool) -> Option<String> {
    let by_tproxy = |listener: &&Listener| listener.mode.diversion() == Some(Diversion::Tproxy);
    let listener = settings.proxy.listeners.iter().find(by_tproxy).filter(|_| !may())?;
    Some(format!(
        "the listener on {} takes connections by tproxy, which needs CAP_NET_ADMIN, and a process of this user does not have it: it \
         would not start. Set AmbientCapabilities=CAP_NET_ADMIN and CapabilityBoundingSet=CAP_NET_ADMIN in the systemd unit, or by = \
         \"redirect\", which needs no privilege",
        listener.address
    ))
}

/// Raises the soft limits to the hard ones, where that is more, and warns of what is too little all the same.
pub fn raise(settings: &Settings) {
    for resource in [Resource::Nofile, Resource::Memlock] {
        let Rlimit { current, maximum } = getrlimit(resource);
        if current != maximum
            && let Err(error) = setrlimit(resource, Rlimit { current: maximum, maximum })
        {
            tracing::debug!(%error, ?resource, "cannot raise a limit");
        }
    }
    let soft = |resource| getrlimit(resource).current;
    for what in Needs::of(settings, kernel()).missing(soft(Resource::Nofile), soft(Resource::Memlock)) {
        tracing::warn!("{what}");
    }
}

/// The kernel's version; 0.0 where it does not say.
fn kernel() -> (u32, u32) {
    version(&uname().release().to_string_lossy())
}

fn version(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::flags::{Action, Flags};

    fn settings(flags: &str) -> Settings {
        let words = ["tinaja", "serve", "--cache", "/c"].into_iter().chain(flags.split_whitespace());
        let Action::Serve(serve) = Flags::parse_from(words).action else { panic!("not serve") };
        Settings::new(*serve, None).unwrap()
    }

    #[test]
    fn needs_follow_from_settings() {
        for (flags, kernel, files, locked_bytes) in [
            ("--workers 2", (6, 1), 20_000 + 256 + 6 + 64, 0),
            ("--workers 4 --cache /d", (5, 12), 20_000 + 512 + 12 + 64, 0),
            ("--workers 2 --cache /d", (5, 10), 20_000 + 256 + 12 + 64, 2 * RING_BYTES),
            ("--workers 2 --io threads", (5, 10), 20_000 + 256 + 6 + 64, 0),
        ] {
            assert_eq!(Needs::of(&settings(flags), kernel), Needs { files, locked_bytes }, "{flags}");
        }
    }

    #[test]
    fn what_is_missing_is_said_with_what_to_do() {
        let needs = Needs { files: 20_326, locked_bytes: RING_BYTES };
        assert_eq!(needs.missing(None, None), [] as [&str; 0]);
        assert_eq!(needs.missing(Some(20_326), Some(RING_BYTES)), [] as [&str; 0]);
        let both = needs.missing(Some(20_325), Some(65_536)).join("\n");
        for word in
            ["20325", "20326", "LimitNOFILE=", "limits.connections", "65536", "131072", "LimitMEMLOCK=", "threads"]
        {
            assert!(both.contains(word), "{word} in {both}");
        }
    }

    #[test]
    fn a_capability_is_missing_where_a_listener_needs_it() {
        let mut settings = settings("");
        assert_eq!(no_capability(&settings, || false), None);
        settings.proxy.listeners[0].mode = tinaja_proxy::Mode::Transparent(Diversion::Redirect);
        assert_eq!(no_capability(&settings, || false), None);
        settings.proxy.listeners[0].mode = tinaja_proxy::Mode::Transparent(Diversion::Tproxy);
        assert_eq!(no_capability(&settings, || true), None);
        let said = no_capability(&settings, || false).unwrap();
        assert!(said.contains("127.0.0.1:3128") && said.contains("AmbientCapabilities=CAP_NET_ADMIN"), "{said}");
    }

    #[test]
    fn versions_of_kernels() {
        for (text, numbers) in [("6.1.0-18-amd64", (6, 1)), ("5.12", (5, 12)), ("5.4.0+", (5, 4)), ("odd", (0, 0))] {
            assert_eq!(version(text), numbers);
        }
    }
}
