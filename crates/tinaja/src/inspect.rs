//! `tinaja inspect`: what a stopped cache holds and what its index costs.

use std::io::{ErrorKind, Write, stdout};

use anyhow::{Context, Result};
use tinaja_store::{Cache, Store};

use crate::flags::Inspect;
use crate::place;
use crate::report::Report;

/// Print the figures of the cache that `flags` name.
///
/// Errors: there is no cache, it is in use, or it is not one that this version reads.
pub fn inspect(flags: Inspect) -> Result<()> {
    let dirs = place::cache_dirs(flags.cache)?;
    let report = Report::new(&dirs, &Cache::open_read_only(&dirs)?.stats());
    let text = if flags.json { format!("{}\n", serde_json::to_string_pretty(&report)?) } else { report.to_string() };
    match stdout().write_all(text.as_bytes()) {
        // Whoever reads through `head` has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}
