//! Opening a cache directory: formatting an empty one, and refusing what is not a cache of this program's.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use super::{Cache, Counters, Gate, Inner, MAX_READS};
use crate::device::file::free_bytes;
use crate::device::{Access, Device, Disk, Op, OpenDiskError, Request};
use crate::engine::Engine;
use crate::engine::hashcache::{HashCacheLog, HashCacheLogOptions};
use crate::key::Secret;
use crate::layout::superblock::SUPERBLOCK_BYTES;
use crate::layout::{LogLayout, Stamp, Superblock, SuperblockError};
use crate::limits::{MAX_SLOTS, MIN_DISK_BYTES};
use crate::memory::{AlignedBuf, HotObjects};
use crate::wait::{Alarm, block_on, promise};
use crate::write::Fills;

/// The disk space a new cache takes where nothing else is said.
pub const DEFAULT_DISK_BYTES: u64 = 1 << 30;

/// The cache's file inside its directory.
const FILE_NAME: &str = "tinaja.cache";

/// An engine by name, as in `--engine`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum EngineName {
    /// HashCache-Log (HashCache, section 3.4): 47 bits a slot, one read a hit.
    #[default]
    HashCacheLog,
}

impl EngineName {
    /// Every engine.
    pub const ALL: [EngineName; 1] = [EngineName::HashCacheLog];

    /// The name users give it.
    pub fn as_str(self) -> &'static str {
        match self {
            EngineName::HashCacheLog => "hashcache-log",
        }
    }
}

impl fmt::Display for EngineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for EngineName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = EngineName::ALL.map(EngineName::as_str).join(", ");
        EngineName::ALL
            .into_iter()
            .find(|engine| engine.as_str() == name)
            .ok_or_else(|| format!("there is no engine {name:?}; there are: {known}"))
    }
}

/// How to open a cache.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// The directory; created if missing. The cache is one file in it.
    pub dir: PathBuf,
    /// Disk space for objects in bytes, rounded down to whole regions of a 64th; the file is 4 KiB larger. `None`: what the existing cache has, or
    /// [`DEFAULT_DISK_BYTES`]. An existing cache of another size is refused.
    pub disk_bytes: Option<u64>,
    /// The whole budget for hot objects in memory, in bytes. Default 64 MiB; 0 keeps none.
    pub memory_bytes: u64,
    /// The engine. `None`: what the existing cache has, or the default.
    pub engine: Option<EngineName>,
    /// The mean object size in bytes by which a new cache counts its index slots. Default 8 KiB (HashCache,
    /// section 2). Smaller means more objects and more memory: 47 bits each.
    pub mean_object_bytes: u64,
    /// Requests the disk carries out at a time. Default 8.
    pub io_threads: usize,
}

impl CacheOptions {
    /// The defaults, in this directory.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        CacheOptions {
            dir: dir.into(),
            disk_bytes: None,
            memory_bytes: 64 << 20,
            engine: None,
            mean_object_bytes: 8192,
            io_threads: 8,
        }
    }
}

/// Why a cache was not opened. Nothing was changed on disk, unless the cache was new.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory could not be made.
    #[error("cannot create the cache directory {path}: {error} (choose another directory with --cache)")]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The file could not be opened, or another process has it.
    #[error(transparent)]
    Disk(#[from] OpenDiskError),
    /// There is no cache here to look at.
    #[error("there is no cache in {0}")]
    NoCache(PathBuf),
    /// The file is not a cache that this program reads.
    #[error("{path} {error}")]
    Superblock {
        /// Which file.
        path: PathBuf,
        /// Why not.
        error: SuperblockError,
    },
    /// The cache was made otherwise than asked for now.
    #[error("{path} was made with {what} {there}, not {asked}: leave the setting out to use it as it is, or delete it")]
    OtherGeometry {
        /// Which file.
        path: PathBuf,
        /// Which setting.
        what: &'static str,
        /// What it was made with.
        there: String,
        /// What was asked for.
        asked: String,
    },
    /// The size is out of range.
    #[error("a cache of {asked} bytes is too {how}: choose a size from 4 MiB up{limit}")]
    Size {
        /// What was asked for.
        asked: u64,
        /// Small or large.
        how: &'static str,
        /// What there is room for.
        limit: String,
    },
    /// The device failed.
    #[error("cannot read {path}: {error}")]
    Device {
        /// Which file.
        path: PathBuf,
        /// What failed.
        error: String,
    },
}

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
    // Blocks of 4 KiB whatever the disk has: a cache may be moved to another one.
    let log = LogLayout::new(SUPERBLOCK_BYTES, asked, 4096);
    let log = log.ok_or(OpenError::Size { asked, how: "small", limit })?;
    let mut secret = [0; 32];
    getrandom::fill(&mut secret)
        .map_err(|error| OpenError::Device { path: path.to_path_buf(), error: error.to_string() })?;
    let superblock = Superblock {
        engine: options.engine.unwrap_or_default().to_string(),
        log,
        slots: (log.log_bytes() / options.mean_object_bytes.max(1)).clamp(1, MAX_SLOTS),
        mean_object_bytes: options.mean_object_bytes,
        secret: Secret::from_bytes(secret),
    };
    Disk::create(path, SUPERBLOCK_BYTES + log.log_bytes(), &superblock.encode()).map_err(OpenError::Disk)
}

fn open(path: &Path, options: &CacheOptions, access: Access) -> Result<Cache, OpenError> {
    let device: Arc<dyn Device> = Arc::new(Disk::open(path, access, options.io_threads)?);
    let failed = |error: String| OpenError::Device { path: path.to_path_buf(), error };
    let first = read_first_block(&*device).map_err(failed);
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
            let Superblock { log: layout, slots, mean_object_bytes, .. } = superblock;
            let options = HashCacheLogOptions { layout, slots, mean_object_bytes, stamp, read_only };
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
    let asked = |bytes| LogLayout::new(SUPERBLOCK_BYTES, bytes, 4096).map(|log| log.log_bytes());
    if let Some(bytes) = options.disk_bytes.filter(|bytes| asked(*bytes) != Some(there)) {
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

fn read_first_block(device: &dyn Device) -> Result<AlignedBuf, String> {
    let (done, answer) = promise();
    let request = Request::Read { at: 0, into: AlignedBuf::zeroed(SUPERBLOCK_BYTES as usize) };
    device.submit(Op { request, done: Box::new(move |outcome| done.keep(outcome)) });
    let outcome = block_on(answer).ok_or("the device was stopped")?;
    outcome.result.map_err(|error| error.to_string())?;
    outcome.buffer.ok_or_else(|| "the device gave no data".to_string())
}
