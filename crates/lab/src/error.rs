//! Why an experiment could not be carried out.

use std::path::PathBuf;

/// Why an experiment could not be carried out, or its report not be shown.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// An engine could not be opened over its disks.
    #[error("cannot open {engine} over {disk_bytes} bytes: {why}")]
    Engine {
        /// Which engine.
        engine: String,
        /// On how much disk.
        disk_bytes: u64,
        /// What it said.
        why: String,
    },
    /// The store lost what it must not lose, or the system refused a thread or a file.
    #[error("{what}: {why}")]
    Failed {
        /// What was being done.
        what: &'static str,
        /// What went wrong.
        why: String,
    },
    /// The experiment replays one log and was given none or several.
    #[error(
        "{name} takes exactly one log, and {given} were given: tinaja lab {name} LOG (Squid, Common, Combined or JSON, .tsv or .csv, also compressed with gzip or zstd)"
    )]
    NeedsTrace {
        /// Which experiment.
        name: &'static str,
        /// How many logs were named.
        given: usize,
    },
    /// The experiment makes disks and limits of its own, which only root may.
    #[error(
        "this creates a disk (losetup, mount) and limits for it and for memory (control groups), which only root may do: run it \
         with sudo, or in your own virtual machine; docs/lab/hashcache-peers.md has the results of the last run"
    )]
    NeedsRoot,
    /// A log could not be read.
    #[error("cannot read the requests in {path}: {why}")]
    Trace {
        /// Which file.
        path: PathBuf,
        /// Why not, with the line where that is known.
        why: String,
    },
    /// A plot could not be drawn.
    #[error("cannot draw {path}: {why}")]
    Plot {
        /// Which file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
}

impl LabError {
    /// Something failed while `what` was done.
    pub fn failed(what: &'static str, why: impl ToString) -> Self {
        LabError::Failed { what, why: why.to_string() }
    }
}
