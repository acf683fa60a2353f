//! `sandbox = true`: a server that gives up what a cache does not need, by itself and before it has opened anything.
//!
//! What it is for: a bug that lets somebody run code in the server gives him the cache, and neither the machine's files nor its programs.
//!
//! # Decisions
//!
//! - Landlock has the kernel refuse files that the settings do not name ([`files`]), and seccomp system calls that a cache never makes
//!   ([`calls`]). Neither needs a privilege, and neither can be undone.
//! - It is done before the first thread is started: Landlock is in force for the thread that asks for it and for those that it starts later.
//!   A thread without it would be a way out for all, so a process with threads is refused.
//! - A kernel that cannot do it ends the start. Whoever sets `sandbox` counts on it, and does not read every log.
//! - A reload reads the files that the settings named at the start, in whatever version. One that names others is refused with the
//!   reason, before anything of it is read.
//! - No process is started, so there is no `tinaja upgrade`: its successor would be in the same sandbox, with the files of the old settings,
//!   and one more sandbox around it each time. `serve --take-over` starts one from outside.

mod calls;
mod files;

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};

use crate::settings::{self, Settings};
use files::Files;

/// What may be read since this process is in its sandbox.
static ENTERED: OnceLock<Files> = OnceLock::new();

/// Puts this process into its sandbox, if the settings say so. The cache's directories are made, if need be: what is not there cannot be
/// allowed.
///
/// Errors: the kernel cannot do it, or not wholly; a directory of the cache cannot be made; there are threads already. Then no more may
/// be started with these settings.
pub fn enter(settings: &Settings) -> Result<()> {
    if !settings.sandbox {
        return Ok(());
    }
    possible(settings)?;
    let threads = threads(&fs::read_to_string("/proc/self/status").unwrap_or_default());
    if threads != Some(1) {
        bail!(
            "sandbox: it must be set up before there are threads, and /proc/self/status says that there are {threads:?}"
        );
    }
    for dir in settings.cache.iter().chain(&settings.positions_dir).filter(|dir| !dir.exists()) {
        fs::create_dir_all(dir).with_context(|| format!("sandbox: cannot create the directory {}", dir.display()))?;
    }
    let files = Files::of(settings);
    files.restrict().context("sandbox: the kernel does not restrict files")?;
    calls::restrict().context("sandbox: the kernel does not filter system calls")?;
    tracing::info!("in a sandbox: other files than those that the settings name, and other programs, are out of reach");
    let _ = ENTERED.set(files);
    Ok(())
}

/// Whether a server with these settings could be in a sandbox on this machine. Nothing is changed.
///
/// Errors: it could not, with the reason.
pub fn possible(settings: &Settings) -> Result<()> {
    if !settings.sandbox {
        return Ok(());
    }
    if settings.cluster.as_ref().is_some_and(|joining| !joining.one_sided.is_empty()) {
        bail!(
            "sandbox: one-sided reads of a cluster need drivers and devices that nobody can list: set one_sided = [] or sandbox = false"
        );
    }
    files::possible()?;
    calls::possible()
}

/// Whether settings in this file may be read, with all that they name: always, but in a sandbox.
///
/// Errors: it names a file that is out of reach; the file cannot be read or makes no sense.
pub fn may_read(config: Option<&Path>) -> Result<()> {
    let (Some(files), Some(config)) = (ENTERED.get(), config) else { return Ok(()) };
    let named = settings::named_files(config)?;
    match named.iter().find(|path| !files.may_be_read(path)) {
        Some(path) => bail!(
            "{} is out of reach: this server is in a sandbox with the files that its settings named when it started; start it again to have \
             this one too",
            path.display()
        ),
        None => Ok(()),
    }
}

/// How many threads a process has, by its status.
fn threads(status: &str) -> Option<u32> {
    status.lines().find_map(|line| line.strip_prefix("Threads:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_counted() {
        assert_eq!(threads("Name:\ttinaja\nThreads:\t12\nSigQ:\t1/2\n"), Some(12));
        assert_eq!(threads("Name:\ttinaja\n"), None);
        assert!(threads(&fs::read_to_string("/proc/self/status").unwrap()).is_some_and(|threads| threads > 1));
    }
}
