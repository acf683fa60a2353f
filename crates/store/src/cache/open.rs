//! Opening a cache directory: formatting an empty one, and refusing what is not a cache of this program's.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::asked::{in_its_place, name_of};
use super::on_disk::NameOnDisk;
use super::options::{CacheOptions, DEFAULT_DISK_BYTES, OpenError};
use super::plan::Plan;
use super::tuning::{wrong, wrong_mean};
use super::{Cache, positions, raw};
use crate::cache::limits::MIN_DISK_BYTES;
use crate::device::file::{existing, free_bytes};
use crate::device::lending::Lending;
use crate::device::{Access, Device, Disk, blocking, is_block_device};
use crate::engine::Engine;
use crate::engine::spread::{MAX_DISKS, Spread};
use crate::hot::HotObjects;
use crate::index::limits::MAX_SLOTS;
use crate::layout::superblock::SUPERBLOCK_BYTES;
use crate::layout::{Stamp, Superblock, SuperblockError};
use crate::terms::Secret;

/// The cache's file inside its directory.
const FILE_NAME: &str = "tinaja.cache";

impl Cache {
    /// Open the cache in a directory, or make a new one there; see [`CacheOptions::more_dirs`] for several. Reads the
    /// newest snapshot of the index and what the log holds beyond it. Errors: [`OpenError`]; an existing file is never
    /// reformatted.
    pub fn open(options: CacheOptions) -> Result<Cache, OpenError> {
        let options = &with_positions(options);
        let dirs = dirs_of(options)?;
        for dir in dirs.iter().filter(|dir| !is_block_device(dir)) {
            std::fs::create_dir_all(dir).map_err(|error| OpenError::Directory { path: dir.clone(), error })?;
        }
        open_all(&dirs, options, Access::Alone)
    }

    /// Open an existing cache for looking at it: nothing on disk changes, and nothing can be stored. Errors as
    /// [`Cache::open`], and [`OpenError::NoCache`].
    pub fn open_read_only(dirs: &[PathBuf]) -> Result<Cache, OpenError> {
        if let Some(dir) = dirs.iter().find(|dir| !Cache::exists(dir)) {
            return Err(OpenError::NoCache(dir.clone()));
        }
        let options = CacheOptions { memory_bytes: 0, ..CacheOptions::new("") };
        open_all(dirs, &options, Access::ReadOnly)
    }

    /// Finds out whether [`Cache::open`] would refuse these options, as far as that can be told without writing and
    /// without reading the index: directories, sizes, superblocks. Errors as [`Cache::open`]; also that a running
    /// process has the cache.
    pub fn check(options: &CacheOptions) -> Result<(), OpenError> {
        let options = &with_positions(options.clone());
        let dirs = dirs_of(options)?;
        let mut secret: Option<Secret> = None;
        for (number, path) in (0_u16..).zip(dirs.iter().map(|dir| path_in(dir))) {
            if !raw::is_there(&path) {
                plan_new(&path, options, Stamp { seed: Secret::from_bytes([0; 32]).seed() })?;
                options.positions_dir.iter().try_for_each(|dir| positions::check(dir, number, options))?;
                continue;
            }
            let disk = check_disk(path, options, Access::ReadOnly)?;
            positions_dir(&disk, options)?.map_or(Ok(()), |dir| positions::check(dir, number, options))?;
            in_its_place(&disk, (number, dirs.len() as u16), secret.get_or_insert(disk.superblock.secret.clone()))?;
        }
        Ok(())
    }

    /// Whether there is a cache in a directory, or a file in its place.
    pub fn exists(dir: &Path) -> bool {
        let path = path_in(dir);
        path.exists() && raw::is_there(&path)
    }
}

/// The options, with what the engine is to know of a directory for positions.
fn with_positions(mut options: CacheOptions) -> CacheOptions {
    options.tuning.positions_apart = options.positions_dir.is_some();
    options
}

/// Where the cache of a directory is: in its file, or on it if it is a block device.
fn path_in(dir: &Path) -> PathBuf {
    if is_block_device(dir) { dir.to_path_buf() } else { dir.join(FILE_NAME) }
}

/// Every directory or device, in order.
fn dirs_of(options: &CacheOptions) -> Result<Vec<PathBuf>, OpenError> {
    if let Some(path) = options.device.as_ref().filter(|path| !is_block_device(path)) {
        return Err(OpenError::NotADevice(path.clone()));
    }
    let first = options.device.as_ref().unwrap_or(&options.dir);
    let dirs: Vec<_> = std::iter::once(first).chain(&options.more_dirs).cloned().collect();
    if dirs.len() > MAX_DISKS { Err(OpenError::TooManyDisks(dirs.len())) } else { Ok(dirs) }
}

/// A disk whose superblock was read and found right.
pub(super) struct Checked {
    pub(super) path: PathBuf,
    device: Arc<dyn Device>,
    pub(super) superblock: Superblock,
    name: NameOnDisk,
}

fn open_all(dirs: &[PathBuf], options: &CacheOptions, access: Access) -> Result<Cache, OpenError> {
    let of = dirs.len() as u16;
    let mut secret: Option<Secret> = None;
    let mut disks = Vec::new();
    // Those that exist first: a new disk among them gets their secret.
    let mut order: Vec<_> = (0_u16..).zip(dirs.iter().map(|dir| path_in(dir))).collect();
    order.sort_by_key(|(_, path)| !raw::is_there(path));
    for (number, path) in order {
        if access == Access::Alone && !raw::is_there(&path) {
            let secret = match &secret {
                Some(secret) => secret.clone(),
                None => new_secret(&path)?,
            };
            format(&path, options, secret, (number, of))?;
        }
        let disk = check_disk(path, options, access)?;
        in_its_place(&disk, (number, of), secret.get_or_insert(disk.superblock.secret.clone()))?;
        disks.push((number, disk));
    }
    disks.sort_by_key(|(number, _)| *number);
    let engines = disks.into_iter().map(|(number, disk)| open_engine(number, disk, options, access));
    let mut engines = engines.collect::<Result<Vec<_>, _>>()?;
    let one = if engines.len() == 1 { engines.pop() } else { None };
    let all = |engines| Spread::over(engines).map(|spread| Arc::new(spread) as Arc<dyn Engine>);
    let (Some(engine), Some(secret)) = (one.or_else(|| all(engines)), secret) else {
        return Err(OpenError::TooManyDisks(dirs.len()));
    };
    if access == Access::ReadOnly {
        // Nothing may be appended to a device that cannot be written to.
        engine.refuse_appends();
    }
    let failed = |error: std::io::Error| OpenError::Device { path: options.dir.clone(), error: error.to_string() };
    let make = if options.memory_yields { HotObjects::yielding } else { HotObjects::new };
    let hot = (make(options.memory_bytes), options.memory_bytes);
    Cache::over_hot(engine, secret, hot).map_err(failed)
}

fn new_secret(path: &Path) -> Result<Secret, OpenError> {
    let mut secret = [0; 32];
    let failed = |error: getrandom::Error| OpenError::Device { path: path.to_path_buf(), error: error.to_string() };
    getrandom::fill(&mut secret).map_err(failed)?;
    Ok(Secret::from_bytes(secret))
}

fn format(path: &Path, options: &CacheOptions, secret: Secret, disk: (u16, u16)) -> Result<(), OpenError> {
    let plan = plan_new(path, options, Stamp { seed: secret.seed() })?;
    let (engine, positions_apart) = (options.engine.unwrap_or_default(), plan.positions_bytes().is_some());
    let name = NameOnDisk { engine, prefetch: plan.reads_ahead(), positions_apart };
    let superblock = Superblock {
        engine: name.as_str().to_string(),
        log: *plan.log(),
        slots: plan.slots(),
        mean_object_bytes: plan.mean_object_bytes(),
        block_bytes: plan.block_bytes(),
        ways: plan.ways_on_disk(),
        hash_bits: plan.hash_bits(),
        secret,
        disk,
    };
    if raw::device_bytes(path)?.is_some() {
        return raw::format(path, options, &superblock);
    }
    let bytes = plan.log().base + plan.log().log_bytes();
    Disk::create(path, bytes, &superblock.encode()).map_err(OpenError::Disk)
}

/// How a new cache becomes, if there is room for it.
fn plan_new(path: &Path, options: &CacheOptions, stamp: Stamp) -> Result<Plan, OpenError> {
    let engine = options.engine.unwrap_or_default();
    if options.tuning.prefetch == Some(true) && !engine.can_prefetch() {
        return Err(OpenError::NoPrefetch(engine));
    }
    let device_bytes = raw::device_bytes(path)?;
    let asked = options.disk_bytes.or(device_bytes).unwrap_or(DEFAULT_DISK_BYTES);
    let existing = existing(path.parent().unwrap_or(path));
    let free = device_bytes.or_else(|| free_bytes(existing));
    let limit = free.map_or(String::new(), |free| format!(" to {free} bytes, which are free there"));
    if let Some(why) = wrong(options.engine.unwrap_or_default(), options.tuning, options.bins, asked) {
        return Err(OpenError::Setting(why));
    }
    if asked < MIN_DISK_BYTES {
        return Err(OpenError::Size { asked, how: "small", limit });
    }
    if let Some(why) = wrong_mean(options.mean_object_bytes, asked) {
        return Err(OpenError::Setting(why));
    }
    if free.is_some_and(|free| asked > free) || asked / options.mean_object_bytes.max(1) > MAX_SLOTS {
        return Err(OpenError::Size { asked, how: "large", limit });
    }
    plan(options, asked, options.mean_object_bytes, stamp).ok_or(OpenError::Size { asked, how: "small", limit })
}

/// How a cache of so many bytes is cut.
pub(super) fn plan(options: &CacheOptions, bytes: u64, mean_object_bytes: u64, stamp: Stamp) -> Option<Plan> {
    let engine = options.engine.unwrap_or_default();
    Plan::with_bins(engine, options.tuning, options.bins, bytes, SUPERBLOCK_BYTES, mean_object_bytes, stamp)
}

fn check_disk(path: PathBuf, options: &CacheOptions, access: Access) -> Result<Checked, OpenError> {
    let disk = Disk::open(&path, access, options.io, options.io_threads)?;
    let reader = disk.reader();
    let device: Arc<dyn Device> = Arc::new(Lending::over(Arc::new(disk), reader));
    let refused = |error| match is_block_device(&path) {
        true => raw::refused(&path, &error),
        false => OpenError::Superblock { path: path.clone(), error },
    };
    let superblock = match blocking::read(&*device, 0, SUPERBLOCK_BYTES as usize) {
        Ok(block) => Superblock::decode(&block, 4096, device.geometry().bytes).map_err(refused)?,
        // A file shorter than a superblock is not ours to read.
        Err(_) if device.geometry().bytes < SUPERBLOCK_BYTES => return Err(refused(SuperblockError::NotOurs)),
        Err(error) => return Err(OpenError::Device { path, error: error.to_string() }),
    };
    let name = name_of(&path, options, &superblock)?;
    Ok(Checked { path, device, superblock, name })
}

/// Where a cache's positions lie, if not beside its log and not all in memory. Errors: nobody said where.
fn positions_dir<'a>(disk: &Checked, options: &'a CacheOptions) -> Result<Option<&'a Path>, OpenError> {
    if !disk.name.positions_apart || options.tuning.all_positions_in_memory() {
        return Ok(None);
    }
    let dir = options.positions_dir.as_deref();
    dir.map(Some).ok_or_else(|| OpenError::NoPositions(disk.path.clone()))
}

fn open_engine(
    number: u16,
    disk: Checked,
    options: &CacheOptions,
    access: Access,
) -> Result<Arc<dyn Engine>, OpenError> {
    let dir = if access == Access::Alone { positions_dir(&disk, options)? } else { None };
    let Checked { path, device, superblock, name: NameOnDisk { engine, .. } } = disk;
    let refused = || OpenError::Superblock { path: path.clone(), error: SuperblockError::Damaged };
    let plan = Plan::of(engine, options.tuning, &superblock, SUPERBLOCK_BYTES).ok_or_else(refused)?;
    let plan = plan.reading_only(access == Access::ReadOnly).flushing(options.flush_every);
    let bytes = plan.positions_bytes().unwrap_or_default();
    let positions = dir.map(|dir| positions::open(dir, number, bytes, options)).transpose()?;
    plan.open_beside(device, positions).map_err(|error| OpenError::Device { path: path.clone(), error })
}
