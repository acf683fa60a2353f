//! `tinaja tune`, and what `serve` does of it when it makes a cache: measure, choose, say why.

use std::collections::HashMap;
use std::io::{ErrorKind, Write, stdout};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use tinaja_lab::load::read_trace;
use tinaja_store::tune::{Choice, DiskSpeed, Sizes, choose, choose_for};
use tinaja_store::{Cache, CacheOptions, EngineName};

use crate::flags::Tune;

/// How long a server's start may take for measuring.
const AT_START: Duration = Duration::from_secs(2);

/// Measure and choose, and print both tables, the choice and why.
///
/// Errors: the log or the cache cannot be read, or standard output cannot be written to. A disk that cannot be measured is
/// no error: then the paper's is printed, and why.
pub fn tune(flags: &Tune) -> Result<()> {
    let disk = DiskSpeed::measured_or_the_papers(&flags.dir, Duration::from_secs(flags.seconds.into()));
    let sizes = match &flags.trace {
        Some(trace) => of_trace(trace)?,
        None => of_cache(&flags.dir)?,
    };
    let choice = match flags.false_reads {
        Some(percent) => choose_for(&disk, &sizes, percent / 100.0),
        None => choose(&disk, &sizes),
    };
    let text = format!("{disk}\n{sizes}\nChosen:\n{choice}\n{}", advice(&choice, Cache::exists(&flags.dir)));
    match stdout().write_all(text.as_bytes()) {
        // Whoever reads through `head` has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}

/// The sizes of the objects in a log, each object once.
fn of_trace(path: &Path) -> Result<Sizes> {
    let trace = read_trace(path)?;
    let objects: HashMap<u64, u64> = trace.requests.iter().map(|request| (request.object, request.bytes)).collect();
    let count = objects.len();
    Ok(Sizes::of_bodies(objects.into_values()).named(format!("{count} objects asked for in {}", path.display())))
}

/// The sizes of the objects in a cache; the paper's if there is none, or nothing in it.
fn of_cache(dir: &Path) -> Result<Sizes> {
    if !Cache::exists(dir) {
        return Ok(Sizes::of_the_paper());
    }
    let cache = Cache::open_read_only(&[dir.to_path_buf()])
        .context("the objects in the cache cannot be looked at: stop its server, or name a log with --trace")?;
    Ok(Sizes::of_cache(&cache)?.unwrap_or_else(Sizes::of_the_paper))
}

/// How to use what was chosen.
fn advice(choice: &Choice, exists: bool) -> String {
    let Choice { bin_bytes, ways, hash_bits, mean_object_bytes, .. } = choice;
    let kept = if exists { "A cache keeps what it was made with: to have another one, delete it.\n" } else { "" };
    format!(
        "tinaja serve --engine hashcache-setmem --bin-size {}KiB --ways {ways} --hash-bits {hash_bits} --object-size \
         {mean_object_bytes}B\n{kept}",
        bin_bytes >> 10
    )
}

/// Whether a cache is about to be made whose bins nobody has said the size or the number of.
pub fn is_due(options: &CacheOptions) -> bool {
    let CacheOptions { bins, engine, dir, more_dirs, .. } = options;
    let is_new = !std::iter::once(dir).chain(more_dirs).any(|dir| Cache::exists(dir));
    is_new && bins.bytes.is_none() && bins.ways.is_none() && engine.is_some_and(EngineName::has_table)
}

/// The same options, with bins that suit the disk where that is due; what was chosen, and why, is logged.
pub fn of_new_cache(mut options: CacheOptions) -> CacheOptions {
    if !is_due(&options) {
        return options;
    }
    // Where it cannot be made, opening the cache says why.
    let _ = std::fs::create_dir_all(&options.dir);
    let disk = DiskSpeed::measured_or_the_papers(&options.dir, AT_START);
    let choice = choose(&disk, &Sizes::of_the_paper());
    tracing::info!("the new cache is cut for {}; see tinaja tune", disk.of);
    choice.why.iter().for_each(|why| tracing::info!("{why}"));
    options.bins = choice.bins(options.engine == Some(EngineName::HashCacheBasic));
    options
}
