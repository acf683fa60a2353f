//! `tinaja inspect`: what a cache holds and what its index costs, whether a server runs on it or not.

use std::io::{ErrorKind, Write, stdout};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tinaja_proxy::admin::top_hosts;
use tinaja_proxy::admin::words::{Answer, Ask, Figures};
use tinaja_store::{Cache, Store, block_on};

use crate::control;
use crate::flags::Inspect;
use crate::report::Report;
use crate::settings;

/// Nobody waits longer for hosts to be counted; the report says that it is not complete.
const COUNTING: Duration = Duration::from_secs(120);

/// Print the figures of the cache that `flags` name: its server's, or else read from its disk, which is not changed.
///
/// Errors: there is no cache, its server does not answer, or it is not one that this version reads.
pub fn inspect(flags: Inspect) -> Result<()> {
    let dirs = settings::cache_dirs(flags.cache, flags.config.as_deref())?;
    let report = match control::ask(&dirs, &Ask::Inspect { top: flags.top })? {
        Some(Answer::Inspected { figures, top }) => Report::new(&dirs, true, *figures, top),
        Some(_) => bail!("the server sent an unexpected answer: it may be another version"),
        None => stopped(&dirs, flags.top)?,
    };
    let text = if flags.json { format!("{}\n", serde_json::to_string_pretty(&report)?) } else { report.to_string() };
    match stdout().write_all(text.as_bytes()) {
        // Whoever reads through `head` has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}

fn stopped(dirs: &[PathBuf], top: u32) -> Result<Report> {
    let cache = Cache::open_read_only(dirs)?;
    let figures = Figures::from(&cache.stats());
    let top = match top {
        0 => None,
        most => Some(block_on(top_hosts(&cache, most as usize, COUNTING))?),
    };
    Ok(Report::new(dirs, false, figures, top))
}
