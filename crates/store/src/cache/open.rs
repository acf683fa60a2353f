//! Opening a cache directory: formatting an empty one, and refusing what is not a cache of this program's.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use super::options::{CacheOptions, DEFAULT_DISK_BYTES, EngineName, OpenError};
use super::{Cache, Counters, Gate, Held, Inner, MAX_READS};
use crate::device::file::free_bytes;
use crate::device::{Access, Device, Disk, blocking};
use crate::engine::Engine;
use crate::engine::hashcache::{HashCacheLog, HashCacheLogOptions};
use crate::key::Secret;
use crate::layout::superblock::SUPERBLOCK_BYTES;
use crate::layout::{Stamp, Superblock, SuperblockError};
use crate::limits::{MAX_SLOTS, MIN_DISK_BYTES};
use crate::memory::HotObjects;
use crate::wait::Alarm;
use crate::write::Fills;

/// The cache's file inside its directory.
const FILE_NAME: &str = "tinaja.cache";

impl Cache {
    /// Open the cache in a directory, or make a new one there. Takes one small read for each region of the log (8 MiB).
    /// Errors: [`OpenError`]; an existing file is never reformatted.
    pub fn open(options: CacheOptions) -> Result<Cache, OpenError> {
        let path = options.dir.join(FILE_NAME);
        std::fs::create_dir_all(&options.dir)
            .map_err(|error| OpenError::Directory { path: options.dir.clone(), error })?;
        if !path.try_exists().unwrap_or(true) {
            format(&path, &options)?;
        }
        open(&path, &options, Access::Alone)
    }

    /// Open an existing cache for looking at it: nothing on disk changes, and nothing can be stored. Errors as
    /// [`Cache::open`], and [`OpenError::NoCache`].
    pub fn open_read_only(dir: impl Into<PathBuf>) -> Result<Cache, OpenError> {
        let options = CacheOptions { memory_bytes: 0, ..CacheOptions::new(dir) };
        if !Cache::exists(&options.dir) {
            return Err(OpenError::NoCache(options.dir));
        }
        open(&options.dir.join(FILE_NAME), &options, Access::ReadOnly)
    }

    /// A store over an engine of the caller's, with a budget of `memory_bytes` for hot objects. The secret must be the
    /// one with which the engine's records were written. Errors: the system has no more threads.
    pub fn over(engine: Arc<dyn Engine>, secret: Secret, memory_bytes: u64) -> std::io::Result<Cache> {
        Ok(Cache(Arc::new(Inner {
            limits: engine.limits(),
            engine,
            hot: HotObjects::new(memory_bytes),
            fills: Fills::default(),
            alarm: Alarm::start()?,
            counters: Counters::default(),
            secret,
            hot_budget_bytes: memory_bytes,
            gate: Gate::new(MAX_READS),
            held: Held::default(),
            stripes: [const { parking_lot::Mutex::new(()) }; 64],
            next_fill: AtomicU64::new(1),
            closed: AtomicBool::new(false),
        })))
    }

    /// Whether there is a cache in a directory, or a file in its place.
    pub fn exists(dir: &Path) -> bool {
        dir.join(FILE_NAME).exists()
    }
}

fn format(path: &Path, options: &CacheOptions) -> Result<(), OpenError> {
    let asked = options.disk_bytes.unwrap_or(DEFAULT_DISK_BYTES);
    let free = free_bytes(&options.dir);
    let limit = free.map_or(String::new(), |free| format!(" to {free} bytes, which are free there"));
    if asked < MIN_DISK_BYTES {
        return Err(OpenError::Size { asked, how: "small", limit });
    }
    if free.is_some_and(|free| asked > free) || asked / options.mean_object_bytes.max(1) > MAX_SLOTS {
        return Err(OpenError::Size { asked, how: "large", limit });
    }
    let mut secret = [0; 32];
    getrandom::fill(&mut secret)
        .map_err(|error| OpenError::Device { path: path.to_path_buf(), error: error.to_string() })?;
    let secret = Secret::from_bytes(secret);
    let plan = plan(asked, options.mean_object_bytes, Stamp { seed: secret.seed() });
    let plan = plan.ok_or(OpenError::Size { asked, how: "small", limit })?;
    let superblock = Superblock {
        engine: options.engine.unwrap_or_default().to_string(),
        log: plan.layout,
        slots: plan.slots,
        mean_object_bytes: plan.mean_object_bytes,
        secret,
    };
    let bytes = plan.layout.base + plan.layout.log_bytes();
    Disk::create(path, bytes, &superblock.encode()).map_err(OpenError::Disk)
}

/// How a cache of so many bytes is cut. Blocks of 4 KiB whatever the disk has: a cache may be moved to another one.
fn plan(bytes: u64, mean_object_bytes: u64, stamp: Stamp) -> Option<HashCacheLogOptions> {
    HashCacheLog::plan(bytes, SUPERBLOCK_BYTES, 4096, mean_object_bytes, stamp)
}

fn open(path: &Path, options: &CacheOptions, access: Access) -> Result<Cache, OpenError> {
    let device: Arc<dyn Device> = Arc::new(Disk::open(path, access, options.io_threads)?);
    let failed = |error: String| OpenError::Device { path: path.to_path_buf(), error };
    let first = blocking::read(&*device, 0, SUPERBLOCK_BYTES as usize).map_err(|error| failed(error.to_string()));
    let refused = |error| OpenError::Superblock { path: path.to_path_buf(), error };
    let superblock = match first {
        Ok(block) => Superblock::decode(&block, 4096, device.geometry().bytes).map_err(refused)?,
        // A file shorter than a superblock is not ours to read.
        Err(_) if device.geometry().bytes < SUPERBLOCK_BYTES => return Err(refused(SuperblockError::NotOurs)),
        Err(error) => return Err(error),
    };
    let engine_name = check(path, options, &superblock)?;
    let stamp = Stamp { seed: superblock.secret.seed() };
    let read_only = access == Access::ReadOnly;
    let engine: Arc<dyn Engine> = match engine_name {
        EngineName::HashCacheLog => {
            let Superblock { log, slots, mean_object_bytes, .. } = superblock;
            let options = HashCacheLogOptions::of(log, slots, SUPERBLOCK_BYTES, mean_object_bytes, stamp);
            let options = options.ok_or_else(|| refused(SuperblockError::Damaged))?;
            let options = HashCacheLogOptions { read_only, ..options };
            Arc::new(HashCacheLog::open(device, &options).map_err(failed)?)
        }
    };
    if read_only {
        // Nothing may be appended to a device that cannot be written to.
        engine.refuse_appends();
    }
    Cache::over(engine, superblock.secret, options.memory_bytes).map_err(|error| failed(error.to_string()))
}

/// The engine of an existing cache, if it and its size are those asked for.
fn check(path: &Path, options: &CacheOptions, superblock: &Superblock) -> Result<EngineName, OpenError> {
    let other = |what, there: String, asked: String| {
        Err(OpenError::OtherGeometry { path: path.to_path_buf(), what, there, asked })
    };
    let there = superblock.log.log_bytes();
    let stamp = Stamp { seed: superblock.secret.seed() };
    let asked = |bytes| plan(bytes, superblock.mean_object_bytes, stamp).map(|plan| plan.layout.log_bytes());
    if let Some(bytes) = options.disk_bytes.filter(|bytes| asked(*bytes) != Some(there)) {
        let there = there + superblock.log.base;
        return other("a size of", format!("{there} bytes"), format!("{bytes} bytes"));
    }
    let engine: EngineName = superblock.engine.parse().or_else(|_| {
        let asked = EngineName::ALL.map(EngineName::as_str).join(" or ");
        other("the engine", superblock.engine.clone(), asked)
    })?;
    match options.engine.filter(|asked| *asked != engine) {
        Some(asked) => other("the engine", engine.to_string(), asked.to_string()),
        None => Ok(engine),
    }
}
