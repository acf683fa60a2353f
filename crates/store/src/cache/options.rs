//! What a cache is opened with, and why it may be refused.

use std::path::PathBuf;
use std::time::Duration;

use tinaja_clock::Clock;

use crate::device::file::advice;
use crate::device::{Io, IoEngine, OpenDiskError};
use crate::engine::spread::MAX_DISKS;
use crate::engine::{EngineRef, Registry, Settings};
use crate::engines;
use crate::layout::SuperblockError;

/// The disk space a new cache takes where nothing else is said.
pub const DEFAULT_DISK_BYTES: u64 = 1 << 30;

/// The mean object size of a new cache where nothing else is said (HashCache, section 2).
pub const DEFAULT_MEAN_BYTES: u64 = 8192;

/// How to open a cache: a directory, and what else is to be other than the default.
///
/// ```
/// use tinaja_store::CacheOptions;
///
/// # let asked_bytes = None;
/// let options = CacheOptions::new("/var/cache/example").memory_bytes(256 << 20).when(asked_bytes, CacheOptions::disk_bytes);
/// ```
#[derive(Clone, Debug)]
pub struct CacheOptions {
    pub(crate) dir: PathBuf,
    pub(crate) device: Option<PathBuf>,
    pub(crate) more_dirs: Vec<PathBuf>,
    pub(crate) disk_bytes: Option<u64>,
    pub(crate) positions_dir: Option<PathBuf>,
    pub(crate) memory_bytes: u64,
    pub(crate) memory_yields: bool,
    pub(crate) engine: Option<EngineRef>,
    pub(crate) engine_by_memory: bool,
    pub(crate) settings: Settings,
    pub(crate) engines: Registry,
    pub(crate) mean_object_bytes: Option<u64>,
    pub(crate) flush_every: Option<Duration>,
    pub(crate) io: IoEngine,
    pub(crate) io_threads: usize,
    pub(crate) clock: Clock,
}

impl CacheOptions {
    /// The defaults, in this directory; it is created if missing. The cache is one file in it.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        CacheOptions {
            dir: dir.into(),
            device: None,
            more_dirs: Vec::new(),
            disk_bytes: None,
            positions_dir: None,
            memory_bytes: 64 << 20,
            memory_yields: false,
            engine: None,
            engine_by_memory: false,
            settings: Settings::new(),
            engines: engines::built_in(),
            mean_object_bytes: None,
            flush_every: Some(Duration::from_secs(5)),
            io: IoEngine::Auto,
            io_threads: 8,
            clock: Clock::system(),
        }
    }

    /// The same with one of the methods below called, if there is a value for it; without one, the same.
    #[must_use]
    pub fn when<T>(self, value: Option<T>, set: impl FnOnce(Self, T) -> Self) -> Self {
        match value {
            Some(value) => set(self, value),
            None => self,
        }
    }

    /// A block device that takes the place of the file in the directory, which is then not looked at. It is used whole unless
    /// [`CacheOptions::disk_bytes`] says less, and formatted only if its first MiB is zeros. A directory's own path may be a
    /// block device as well, with the same effect. Default none. What is no block device is refused.
    #[must_use]
    pub fn device(mut self, path: impl Into<PathBuf>) -> Self {
        self.device = Some(path.into());
        self
    }

    /// Directories on further disks, in place of those said before. Objects are spread over all of them by their digest, in this
    /// order: it may not change. A disk that fails takes its own objects with it and nothing else. Default none. More than
    /// [`MAX_DISKS`] in all, or others than the cache was made with, are refused.
    #[must_use]
    pub fn more_dirs(mut self, dirs: impl IntoIterator<Item = PathBuf>) -> Self {
        self.more_dirs = dirs.into_iter().collect();
        self
    }

    /// Disk space in bytes in each directory, everything included, rounded down to whole regions of a 64th. Default what the
    /// existing cache has; of a new one the whole block device, or [`DEFAULT_DISK_BYTES`] in a directory. An existing cache of
    /// another size is refused, and so is a new one of less than 4 MiB or of more than is free.
    #[must_use]
    pub fn disk_bytes(mut self, bytes: u64) -> Self {
        self.disk_bytes = Some(bytes);
        self
    }

    /// A directory on a disk of its own for the positions that HashCache-LogLRU has no room for in memory (section 5.4), so
    /// that reading and writing them moves no arm over the log; created if missing. A file for each of the cache's disks is
    /// made in it, 4 bytes for each index slot or 5 with prefetching. Nothing in them lasts: they are made anew at each
    /// opening, here or in another directory. Default none: they lie beside the log. A cache remembers which of both; made
    /// with one, it is refused without, unless all positions are in memory. Other engines refuse it.
    #[must_use]
    pub fn positions_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.positions_dir = Some(dir.into());
        self
    }

    /// The whole budget for hot objects in memory, in bytes. Default 64 MiB; 0 keeps none. With the engine `generational` it is for its
    /// index as well: a new cache has as many index entries as three quarters of it have room for, from one to four for each object
    /// of the mean size, and hot objects have what the index leaves. If they have no room for one each, the index lies on the disk, and
    /// what is in memory of it takes three quarters. With 0 all of an index is in memory.
    #[must_use]
    pub fn memory_bytes(mut self, bytes: u64) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// Whether the kernel may take that memory back when it is short of it, so that the budget may be all that is free:
    /// what it took is read from the disk again. Default false: a hit then costs a copy, a checksum and a system call.
    #[must_use]
    pub fn memory_yields(mut self, yields: bool) -> Self {
        self.memory_yields = yields;
        self
    }

    /// The engine. Default what the existing cache has, or the default of [`CacheOptions::engines`]. An existing cache of
    /// another engine is refused.
    #[must_use]
    pub fn engine(mut self, engine: EngineRef) -> Self {
        self.engine = Some(engine);
        self
    }

    /// Whether the memory and the disk choose the engine of a new cache, where none is said: see [`crate::tune::within`]. Default false: then
    /// it is the default of [`CacheOptions::engines`].
    #[must_use]
    pub fn engine_by_memory(mut self, by_memory: bool) -> Self {
        self.engine_by_memory = by_memory;
        self
    }

    /// Settings of the engine, as far as they are said, in place of all that were said before: see [`crate::engines`] for which
    /// there are. Default none is said. An engine is not given what it does not have: that is refused. Of a setting that lasts,
    /// another value than the cache was made with is too.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// The engines that there are. Default those that come with Tinaja. A cache of an engine that is not among them is refused.
    #[must_use]
    pub fn engines(mut self, engines: Registry) -> Self {
        self.engines = engines;
        self
    }

    /// The mean object size in bytes by which a new cache counts its index slots. Default 8 KiB (HashCache,
    /// section 2). Smaller means more objects and more memory: 47 bits each. From 64 bytes to a 64th of the disk space; what
    /// is outside is refused.
    #[must_use]
    pub fn mean_object_bytes(mut self, bytes: u64) -> Self {
        self.mean_object_bytes = Some(bytes);
        self
    }

    /// How often what was stored is made to survive power loss without being asked. Default 5 seconds; `None` leaves
    /// it to [`crate::Store::flush`]. A killed process loses what it was told within a tenth of a second, stored or
    /// removed, whatever this is; with `generational` a little over half a second.
    #[must_use]
    pub fn flush_every(mut self, every: Option<Duration>) -> Self {
        self.flush_every = every;
        self
    }

    /// How requests to the disk are carried out. Default [`IoEngine::Auto`].
    #[must_use]
    pub fn io(mut self, io: IoEngine) -> Self {
        self.io = io;
        self
    }

    /// Requests each disk carries out at a time if threads do it. Default 8.
    #[must_use]
    pub fn io_threads(mut self, threads: usize) -> Self {
        self.io_threads = threads;
        self
    }

    /// Time and threads. Default the system's.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// The mean object size of a new cache.
    pub(super) fn mean_bytes(&self) -> u64 {
        self.mean_object_bytes.unwrap_or(DEFAULT_MEAN_BYTES)
    }

    pub(super) fn io_of(&self, threads: usize) -> Io {
        Io { engine: self.io, threads, clock: self.clock.clone() }
    }
}

/// Why a cache was not opened. Nothing was changed on disk, unless the cache was new.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory could not be made.
    #[error("cannot create the directory {path}: {error} (choose another one)")]
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
    /// The cache's positions lie in a directory of their own, and none was named.
    #[error(
        "{0} was created with its positions in a separate directory: name that directory or another one, or keep all 8 \
         positions of each set in memory"
    )]
    NoPositions(PathBuf),
    /// What is in the place of the file for positions is something else.
    #[error("{0} holds no positions of a Tinaja cache: move it away or choose another directory; it was not touched")]
    NotPositions(PathBuf),
    /// The file is not a cache that this program reads.
    #[error("{path} {error}")]
    Superblock {
        /// Which file.
        path: PathBuf,
        /// Why not.
        error: SuperblockError,
    },
    /// The block device is not blank, and holds no cache that this program reads.
    #[error(
        "{path} {found}: it was not touched. To give the device to Tinaja and lose all that is on it, clear its first MiB \
         (dd if=/dev/zero of={path} bs=1M count=1 conv=fsync), or name another device"
    )]
    Occupied {
        /// Which device.
        path: PathBuf,
        /// What it holds.
        found: String,
    },
    /// The path was given as a block device and is none.
    #[error("{0} is not a block device: name one, or a directory for a cache in a file")]
    NotADevice(PathBuf),
    /// The cache was made otherwise than asked for now.
    #[error(
        "{path} was made with {what} {there}, not {asked}: leave the setting out to use it as it is, or make it anew with what it \
         holds"
    )]
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
    /// The cache has another size than asked for now.
    #[error(
        "{path} has a size of {there} bytes, not {asked} bytes: leave the setting out to use it as it is, or make it anew with what \
         it holds"
    )]
    OtherSize {
        /// Which file or directory.
        path: PathBuf,
        /// Its bytes.
        there: u64,
        /// What was asked for.
        asked: u64,
    },
    /// The cache is being made anew ([`crate::Cache::remake`]), by another process.
    #[error("the cache in {0} is being made anew by another process: wait for that")]
    Remaking(PathBuf),
    /// The old cache cannot be read in part.
    #[error(
        "the old cache could not be read in part ({0}): it is as it was. To make the new one without what cannot be read, say so"
    )]
    Unreadable(String),
    /// What making the cache anew left cannot be put in its place, or removed.
    #[error("cannot {what} {path}: {error}{}", advice(.error))]
    Place {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// The answer.
        error: std::io::Error,
    },
    /// A setting makes no sense, or does not go with the engine.
    #[error("{0}")]
    Setting(String),
    /// The directories do not belong together.
    #[error(
        "{path} is {there}, and was given as {given}: name the directories in the order in which they were created, or make the \
         cache anew over these, with what it holds"
    )]
    OtherDisk {
        /// Which file.
        path: PathBuf,
        /// What it says it is.
        there: String,
        /// What it was taken for.
        given: String,
    },
    /// There is no engine to make a cache with.
    #[error("there is no engine in the list of engines: name one")]
    NoEngine,
    /// There are too many directories.
    #[error("a cache may be spread over {MAX_DISKS} directories, not {0}")]
    TooManyDisks(usize),
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
