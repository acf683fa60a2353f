//! `tinaja tune`, and what `serve` does of it when it makes a cache: measure, choose, say why.

use std::collections::HashMap;
use std::io::{ErrorKind, Write, stdout};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tinaja_lab::load::read_trace;
use tinaja_store::Clock;
use tinaja_store::engines::{self, BIN_SIZE, HASHCACHE_BASIC, WAYS};
use tinaja_store::tune::{Choice, DiskSpeed, Sizes, TuneError, Within, choose, choose_for, within};
use tinaja_store::{Cache, CacheOptions, DEFAULT_MEAN_BYTES, is_block_device};

use crate::flags::Tune;
use crate::settings::Settings;

/// How long a server's start may take for measuring.
const AT_START: Duration = Duration::from_secs(2);

/// Measure and choose, and print both tables, the choice and why.
///
/// Errors: there is no such directory, there is no room for a file to measure by, or none can be made in it; the disk fails; the
/// log or the cache cannot be read; standard output cannot be written to. A file system that keeps files in memory is no error,
/// and neither is a block device, which is not written to: then the paper's disk is gone by, and why is printed.
pub fn tune(flags: &Tune) -> Result<()> {
    let disk = measured(&flags.dir, Duration::from_secs(flags.seconds.into()))?;
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

/// What the disk under a directory does. A directory that `serve` would make is not measured by the one above it: whether it is
/// on the same disk nobody knows before it is there, and a name with a slip in it looks the same.
fn measured(dir: &Path, budget: Duration) -> Result<DiskSpeed> {
    if is_block_device(dir) {
        return Ok(DiskSpeed::measured_or_the_papers(&Clock::system(), dir, budget));
    }
    match dir.metadata() {
        Ok(found) if found.is_dir() => {}
        Ok(_) => {
            bail!(
                "{0} is not a directory: name a directory on the disk to measure, for example the one that contains {0}",
                shown(dir)
            )
        }
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            let above = dir.ancestors().skip(1).find(|above| above.is_dir()).unwrap_or(Path::new("."));
            bail!(
                "there is no directory {0}: create it first (mkdir -p {0}), or name {1} if it is on the same disk",
                shown(dir),
                shown(above)
            )
        }
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", shown(dir))),
    }
    match DiskSpeed::measure(&Clock::system(), dir, budget) {
        Err(why @ TuneError::Cached(_)) => Ok(DiskSpeed::of_the_paper_since(&why)),
        Err(TuneError::Scratch(why)) => Err(why).context(
            "measuring a disk needs a temporary file on it: name a directory on the same disk that this user may write to",
        ),
        measured => Ok(measured?),
    }
}

fn shown(path: &Path) -> std::path::Display<'_> {
    if path.as_os_str().is_empty() { Path::new(".").display() } else { path.display() }
}

/// The sizes of the objects in a log, each object once.
fn of_trace(path: &Path) -> Result<Sizes> {
    let trace = read_trace(path)?;
    let objects: HashMap<u64, u64> = trace.requests.iter().map(|request| (request.object, request.bytes)).collect();
    let count = objects.len();
    Ok(Sizes::of_bodies(objects.into_values()).named(format!("{count} objects requested in {}", path.display())))
}

/// The sizes of the objects in a cache; the paper's if there is none, or nothing in it.
fn of_cache(dir: &Path) -> Result<Sizes> {
    if !Cache::exists(dir) {
        return Ok(Sizes::of_the_paper());
    }
    let cache = Cache::open_read_only(&[dir.to_path_buf()])
        .context("cannot read the objects in the cache: stop its server, or name a log with --trace")?;
    Ok(Sizes::of_cache(&cache)?.unwrap_or_else(Sizes::of_the_paper))
}

/// How to use what was chosen.
fn advice(choice: &Choice, exists: bool) -> String {
    let Choice { bin_bytes, ways, hash_bits, mean_object_bytes, .. } = choice;
    let kept = if exists {
        "A cache keeps the sizes it was created with: `tinaja resize` changes them, and keeps what it holds.\n"
    } else {
        ""
    };
    format!(
        "tinaja serve --engine hashcache-setmem --bin-size {}KiB --ways {ways} --hash-bits {hash_bits} --object-size \
         {mean_object_bytes}B\n{kept}",
        bin_bytes >> 10
    )
}

/// Whether a cache is about to be made whose bins nobody has said the size or the number of.
pub fn is_due(settings: &Settings) -> bool {
    let is_new = !settings.cache.iter().any(|dir| Cache::exists(dir));
    let said = [&BIN_SIZE, &WAYS].iter().any(|setting| settings.knobs.get(setting).is_some());
    is_new && !said && settings.engine.is_some_and(|engine| engine.has(&BIN_SIZE))
}

/// The engine that the memory and the disk choose, where a cache is about to be made and nobody has said an engine or how its disk is to
/// be cut.
pub fn by_memory(settings: &Settings, disk_bytes: Option<u64>) -> Option<Within> {
    let is_new = !settings.cache.iter().any(|dir| Cache::exists(dir));
    let chosen = within(
        settings.memory_bytes,
        disk_bytes?.saturating_mul(settings.cache.len() as u64),
        settings.object_bytes.unwrap_or(DEFAULT_MEAN_BYTES),
    );
    let is_open = settings.engine.is_none() && settings.positions_dir.is_none();
    let wrong = engines::built_in().wrong(chosen.engine, &settings.knobs, disk_bytes?);
    (is_new && is_open && wrong.is_none()).then_some(chosen)
}

/// The options of these settings, with bins that suit the disk where that is due; what was chosen, and why, is logged.
pub fn of_new_cache(options: CacheOptions, settings: &Settings, disk_bytes: Option<u64>) -> CacheOptions {
    if let Some(chosen) = by_memory(settings, disk_bytes) {
        tracing::info!("the engine of the new cache is {chosen}");
    }
    let Some(dir) = settings.cache.first().filter(|_| is_due(settings)) else { return options };
    // Where it cannot be made, opening the cache says why.
    let _ = std::fs::create_dir_all(dir);
    let disk = DiskSpeed::measured_or_the_papers(&Clock::system(), dir, AT_START);
    let choice = choose(&disk, &Sizes::of_the_paper());
    tracing::info!("sizes of the new cache were chosen for {}; see tinaja tune", disk.of);
    choice.why.iter().for_each(|why| tracing::info!("{why}"));
    options.settings(choice.settings(settings.engine == Some(HASHCACHE_BASIC)).over(&settings.knobs))
}
