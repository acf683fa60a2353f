//! What an experiment is.

use std::path::PathBuf;

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
    /// Whether only root may run it: it makes disks, and limits in the kernel. `all` leaves it out.
    pub needs_root: bool,
    /// Carry it out. Errors: [`LabError`].
    pub run: fn(&Setup) -> Result<Report, LabError>,
}

/// How experiments are run.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Small disks and few requests: seconds instead of minutes, and coarser figures.
    pub quick: bool,
    /// What all that is random begins from. The same seed gives the same requests.
    pub seed: u64,
    /// Logs to be replayed, by the experiments that do so.
    pub traces: Vec<PathBuf>,
    /// Where files may be made for a while, by the experiments that need some. Default: the system's place for that.
    pub scratch: PathBuf,
}

impl Default for Setup {
    fn default() -> Self {
        Setup { quick: false, seed: 2009, traces: Vec::new(), scratch: std::env::temp_dir() }
    }
}

impl Setup {
    /// A quick one.
    pub fn quick() -> Self {
        Setup { quick: true, ..Setup::default() }
    }

    /// `full`, or `quick` if this is to be quick.
    pub fn choose<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }
}
