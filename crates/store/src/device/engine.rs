//! Who carries out a disk's requests: io_uring, or threads where there is none.

use std::fmt;
use std::fs::File;
use std::io;
use std::str::FromStr;
use std::sync::{Arc, Once};

use tinaja_clock::Clock;

use super::Op;
use super::tally::Tally;
use super::threads::Threads;
use super::uring::Uring;

/// How requests are carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoEngine {
    /// By io_uring if the kernel has it and allows it, otherwise by threads, which is logged once.
    #[default]
    Auto,
    /// By io_uring. Where the kernel refuses it, a disk does not open.
    Uring,
    /// By threads, each with one request at a time.
    Threads,
}

impl IoEngine {
    /// Every choice.
    pub const ALL: [IoEngine; 3] = [IoEngine::Auto, IoEngine::Uring, IoEngine::Threads];

    /// The name users give it.
    pub fn as_str(self) -> &'static str {
        match self {
            IoEngine::Auto => "auto",
            IoEngine::Uring => "uring",
            IoEngine::Threads => "threads",
        }
    }
}

impl fmt::Display for IoEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for IoEngine {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = || IoEngine::ALL.map(IoEngine::as_str).join(", ");
        let named = IoEngine::ALL.into_iter().find(|engine| engine.as_str() == name);
        named.ok_or_else(|| format!("there is no way of input and output {name:?}; there are: {}", known()))
    }
}

/// How a disk carries out its requests, and the clock that it has.
#[derive(Clone, Debug)]
pub struct Io {
    /// By io_uring or by threads.
    pub engine: IoEngine,
    /// Requests that threads carry out at a time; io_uring has up to [`crate::limits::MAX_IN_FLIGHT`].
    pub threads: usize,
    /// The clock of the disk, and of the engine over it.
    pub clock: Clock,
}

impl Io {
    /// With the system's clock.
    pub fn new(engine: IoEngine, threads: usize) -> Self {
        Io { engine, threads, clock: Clock::system() }
    }
}

/// One of the two, started.
pub(super) enum Carrier {
    Uring(Uring),
    Threads(Threads),
}

impl Carrier {
    /// Start the one that was chosen, with `threads` threads if it comes to that. Errors: io_uring was asked for and is
    /// refused, or the system has no more threads.
    pub(super) fn start(file: File, engine: IoEngine, threads: usize, tally: &Arc<Tally>) -> io::Result<Self> {
        if engine != IoEngine::Threads {
            match file.try_clone().and_then(|file| Uring::start(file, tally.clone())) {
                Ok(ring) => return Ok(Carrier::Uring(ring)),
                Err(error) if engine == IoEngine::Uring => return Err(error),
                Err(error) => {
                    static SAID: Once = Once::new();
                    SAID.call_once(|| tracing::warn!("io_uring is not to be had here ({error}): using threads"));
                }
            }
        }
        Threads::start(file, threads, tally.clone()).map(Carrier::Threads)
    }

    pub(super) fn engine(&self) -> IoEngine {
        match self {
            Carrier::Uring(_) => IoEngine::Uring,
            Carrier::Threads(_) => IoEngine::Threads,
        }
    }

    pub(super) fn submit(&self, op: Op) {
        match self {
            Carrier::Uring(ring) => ring.submit(op),
            Carrier::Threads(threads) => threads.submit(op),
        }
    }

    pub(super) fn stop(&self) {
        match self {
            Carrier::Uring(ring) => ring.stop(),
            Carrier::Threads(threads) => threads.stop(),
        }
    }
}
