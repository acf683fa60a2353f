//! What an experiment is.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tinaja_store::EngineRef;

use crate::error::LabError;
use crate::report::Report;

/// One table or figure of a paper, or one claim of ours. Each has a file of its own.
#[derive(Clone, Copy)]
pub struct Experiment {
    /// The name to run it by, as in `tinaja lab NAME`.
    pub name: &'static str,
    /// What it shows, in one line.
    pub shows: &'static str,
    /// Where in which paper.
    pub paper: &'static str,
    /// Whether it also replays the logs that [`Setup::traces`] names, if there are any.
    pub replays_logs: bool,
    /// Whether it goes by [`Setup::requests`].
    pub takes_requests: bool,
    /// Whether it keeps its rows in [`Setup::resume`] and goes on from there.
    pub resumes: bool,
    /// What not every machine has for it.
    pub needs: Needs,
    /// Carry it out. Errors: [`LabError`].
    pub run: fn(&Setup) -> Result<Report, LabError>,
}

/// What an experiment needs beside this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing.
    Nothing,
    /// Only root may run it: it makes disks, and limits in the kernel. `all` leaves it out.
    Root,
    /// Minutes, and disks of its own if root runs it. `all` leaves it out.
    Time,
    /// UCX. `all` leaves it out where that is not installed.
    Ucx,
    /// A log of whoever asks, on disks by [`Setup::replay`]. `all` leaves it out.
    Log,
}

impl Needs {
    /// What keeps `all` from running it, if anything does.
    pub fn missing(self) -> Option<String> {
        match self {
            Needs::Nothing => None,
            Needs::Root => Some("it needs root to create disks and limits; run it by name".to_owned()),
            Needs::Time => Some("it takes minutes; run it by name".to_owned()),
            Needs::Log => Some("it replays a log of yours: tinaja lab replay LOG".to_owned()),
            Needs::Ucx => tinaja_ucx::Ucx::load().err().map(|why| why.to_string()),
        }
    }
}

/// How experiments are run.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Small disks and few requests: seconds instead of minutes, and coarser figures.
    pub quick: bool,
    /// What all that is random begins from. The same seed gives the same requests.
    pub seed: u64,
    /// So many requests of the generated load, by the experiments that go by it, instead of as many as they have by themselves.
    pub requests: Option<usize>,
    /// Logs to be replayed, by the experiments that do so.
    pub traces: Vec<PathBuf>,
    /// On what `replay` replays a log.
    pub replay: ReplayOptions,
    /// Where an experiment of hours keeps each row as soon as it is measured, and takes from what was measured before.
    pub resume: Option<PathBuf>,
    /// Where the servers that `peers` runs are looked for, instead of where they lie on most machines.
    pub servers: Vec<PathBuf>,
    /// Where files may be made for a while, by the experiments that need some. Default: the system's place for that.
    pub scratch: PathBuf,
}

/// On what `replay` replays a log. What is left empty is chosen by the experiment.
#[derive(Clone, Debug, Default)]
pub struct ReplayOptions {
    /// Engines. Default: all that have a disk to themselves.
    pub engines: Vec<EngineRef>,
    /// Disks. Default: 2, 10 and 35 % of what the log's objects take.
    pub disks: Vec<DiskPart>,
    /// Memory of each engine for hot objects, in bytes, beside its disk and its index. Default: none.
    pub memory_bytes: u64,
}

impl ReplayOptions {
    /// As the command line has it.
    pub(crate) fn arguments(&self) -> String {
        let engines = self.engines.iter().map(|engine| format!(" --engine {engine}"));
        let disks = self.disks.iter().map(|disk| match disk {
            DiskPart::Bytes(bytes) => format!(" --disk {bytes}"),
            DiskPart::Percent(percent) => format!(" --disk {percent}%"),
        });
        let memory = (self.memory_bytes > 0).then(|| format!(" --memory {}", self.memory_bytes));
        engines.chain(disks).chain(memory).collect()
    }
}

/// How large a disk is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DiskPart {
    /// So many bytes.
    Bytes(u64),
    /// So many percent of what all objects of a log take.
    Percent(f64),
}

impl Default for Setup {
    fn default() -> Self {
        let (traces, replay, scratch) = (Vec::new(), ReplayOptions::default(), std::env::temp_dir());
        let (servers, resume) = (Vec::new(), None);
        Setup { quick: false, seed: 2009, requests: None, traces, replay, resume, servers, scratch }
    }
}

impl Setup {
    /// A quick one.
    pub fn quick() -> Self {
        Setup { quick: true, ..Setup::default() }
    }

    /// So many requests as were asked for; else `full`, or `quick` if this is to be quick.
    pub fn count(&self, full: usize, quick: usize) -> usize {
        self.requests.unwrap_or_else(|| self.choose(full, quick))
    }

    /// `full`, or `quick` if this is to be quick.
    pub fn choose<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }
}

impl Experiment {
    /// Carry it out, and take its time. Errors: those of the experiment.
    pub fn timed(&self, setup: &Setup) -> Result<(Report, Duration), LabError> {
        let began = Instant::now();
        let report = (self.run)(setup)?;
        Ok((report, began.elapsed()))
    }
}

/// The name of a log's file as reports have it: `_` for each letter that a page or a terminal would take for more than a letter.
pub fn plain_name(log: &Path) -> String {
    let name = log.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let is_special = |letter: char| letter.is_control() || matches!(letter, '`' | '|' | '<');
    name.chars().map(|letter| if is_special(letter) { '_' } else { letter }).collect()
}
