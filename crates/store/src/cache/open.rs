//! Opening a cache directory: making an empty one, and refusing what is not a cache of this program's.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::asked::{in_its_place, made_so, other, wrong_mean};
use super::by_memory::{beside_index, by_its_memory, by_memory, for_its_index};
use super::options::{CacheOptions, DEFAULT_DISK_BYTES, OpenError};
use super::remake::place;
use super::{Cache, positions, raw};
use crate::cache::limits::MIN_DISK_BYTES;
use crate::device::file::{existing, free_bytes};
use crate::device::lending::Lending;
use crate::device::{Access, Device, Disk, blocking, is_block_device};
use crate::engine::generational::INDEX_ENTRIES;
use crate::engine::hashcache::settings::POSITIONS_APART;
use crate::engine::registry::{Ask, Cut, Ground, Identity, InDirectory, LockedDirectory, Opening, OpeningFiles};
use crate::engine::spread::{MAX_DISKS, Spread};
use crate::engine::{Engine, EngineRef, Registry, Settings};
use crate::hot::HotObjects;
use crate::index::limits::MAX_SLOTS;
use crate::layout::superblock::SUPERBLOCK_BYTES;
use crate::layout::{Stamp, Superblock, SuperblockError};
use crate::terms::Secret;

/// The cache's file inside its directory.
pub(super) const FILE_NAME: &str = "tinaja.cache";

impl Cache {
    /// Open the cache in a directory, or make a new one there; see [`CacheOptions::more_dirs`] for several. Reads the
    /// newest snapshot of the index and what the log holds beyond it. Where [`Cache::remake`] was cut short, its end comes first, or
    /// what it began is removed. Errors: [`OpenError`]; an existing file is never reformatted.
    pub fn open(options: CacheOptions) -> Result<Cache, OpenError> {
        let dirs: Vec<_> = sites(&options)?.into_iter().map(|site| site.dir).collect();
        place::settle(&dirs)?;
        let sites = sites(&options)?;
        for Site { dir, .. } in sites.iter().filter(|site| !is_block_device(&site.dir)) {
            std::fs::create_dir_all(dir).map_err(|error| OpenError::Directory { path: dir.clone(), error })?;
        }
        open_all(sites, &options, Access::Alone, None)
    }

    /// Open an existing cache for looking at it: nothing on disk changes, and nothing can be stored. Errors as
    /// [`Cache::open`], and [`OpenError::NoCache`].
    pub fn open_read_only(dirs: &[PathBuf]) -> Result<Cache, OpenError> {
        let (first, others) =
            dirs.split_first().map_or((PathBuf::new(), &[][..]), |(first, others)| (first.clone(), others));
        Cache::look(&CacheOptions::new(first).more_dirs(others.to_vec()).memory_bytes(0))
    }

    /// [`Cache::open_read_only`], with engines of the caller's. Errors as there.
    pub fn look(options: &CacheOptions) -> Result<Cache, OpenError> {
        let sites = sites(options)?;
        if let Some(site) = sites.iter().find(|site| matches!(site.there, There::Nothing)) {
            return Err(OpenError::NoCache(site.dir.clone()));
        }
        open_all(sites, options, Access::ReadOnly, None)
    }

    /// Finds out whether [`Cache::open`] would refuse these options, as far as that can be told without writing and
    /// without reading the index: directories, sizes, superblocks. Errors as [`Cache::open`]; also that a running
    /// process has the cache.
    pub fn check(options: &CacheOptions) -> Result<(), OpenError> {
        let sites = sites(options)?;
        let of = sites.len() as u16;
        let mut secret: Option<Secret> = None;
        for (number, site) in (0_u16..).zip(sites) {
            if matches!(site.there, There::Nothing) {
                plan_new(&site.path, options, Stamp { seed: Secret::from_bytes([0; 32]).seed() })?;
                options.positions_dir.iter().try_for_each(|dir| positions::check(dir, number, options))?;
                continue;
            }
            let disk = check_disk(site, options, Access::ReadOnly)?;
            positions_dir(&disk, options)?.map_or(Ok(()), |dir| positions::check(dir, number, options))?;
            in_its_place(&disk, (number, of), secret.get_or_insert(disk.identity().secret.clone()))?;
        }
        Ok(())
    }

    /// The size of an existing cache, in bytes, and the one that was asked for, if they differ: [`Cache::open`] would refuse that with
    /// [`OpenError::OtherSize`]. Also beside a process that has the cache, but for engines that keep files in a directory, and
    /// nothing where it cannot be told.
    pub fn other_size(options: &CacheOptions) -> Option<(u64, u64)> {
        sites(options).ok()?.into_iter().find_map(|site| match &site.there {
            There::Nothing => None,
            There::Directory(_) => match check_disk(site, options, Access::ReadOnly) {
                Err(OpenError::OtherSize { there, asked, .. }) => Some((there, asked)),
                _ => None,
            },
            There::Something => other_size(&site.path, options),
        })
    }

    /// Whether there is a cache in a directory, or a file in its place.
    pub fn exists(dir: &Path) -> bool {
        let site = site(dir.to_path_buf(), &CacheOptions::new("").engines);
        !matches!(site.there, There::Nothing) && site.path.exists()
    }
}

/// What was asked for, with what the engine is to know of a directory for positions.
pub(super) fn asked_of(options: &CacheOptions) -> Settings {
    let asked = options.settings.clone();
    if options.positions_dir.is_some() { asked.with(&POSITIONS_APART, 1) } else { asked }
}

/// Where one of a cache's disks is, or is to be.
pub(super) struct Site {
    /// The directory or block device that was named.
    pub(super) dir: PathBuf,
    /// The file in it, the device, or the directory itself.
    path: PathBuf,
    pub(super) there: There,
}

/// What is there.
pub(super) enum There {
    Nothing,
    /// A file, or a device that is not blank.
    Something,
    /// Files of an engine's own.
    Directory(EngineRef),
}

pub(super) fn site(dir: PathBuf, engines: &Registry) -> Site {
    let something = |path: &Path| if raw::is_there(path) { There::Something } else { There::Nothing };
    if is_block_device(&dir) {
        return Site { path: dir.clone(), there: something(&dir), dir };
    }
    let path = dir.join(FILE_NAME);
    let has_files = |engine: &EngineRef| match &engine.ground {
        Ground::Directory(files) => (files.is_there)(&dir),
        Ground::Device(_) => false,
    };
    match (something(&path), engines.iter().find(has_files)) {
        (There::Nothing, Some(engine)) => Site { path: dir.clone(), there: There::Directory(engine), dir },
        (there, _) => Site { dir, path, there },
    }
}

/// Every directory or device, in order.
pub(super) fn sites(options: &CacheOptions) -> Result<Vec<Site>, OpenError> {
    if let Some(path) = options.device.as_ref().filter(|path| !is_block_device(path)) {
        return Err(OpenError::NotADevice(path.clone()));
    }
    let first = options.device.as_ref().unwrap_or(&options.dir);
    let dirs = || std::iter::once(first).chain(&options.more_dirs).cloned();
    match dirs().count() {
        count if count > MAX_DISKS => Err(OpenError::TooManyDisks(count)),
        _ => Ok(dirs().map(|dir| site(dir, &options.engines)).collect()),
    }
}

/// A disk that was locked, looked at and found right.
pub(super) struct Checked {
    pub(super) path: PathBuf,
    held: Held,
}

/// What there is of it.
enum Held {
    Device { engine: EngineRef, made: Settings, device: Arc<dyn Device>, identity: Identity, cut: Box<dyn Cut> },
    Directory { engine: EngineRef, locked: Box<dyn LockedDirectory>, settings: Settings },
}

impl Checked {
    /// Its engine, what it was made with, its bytes and the mean object size that it was made for.
    pub(super) fn about(&self) -> (EngineRef, Settings, u64, u64) {
        match &self.held {
            Held::Device { engine, made, cut, .. } => (engine, made.clone(), cut.end(), cut.mean_object_bytes()),
            Held::Directory { engine, locked, .. } => {
                (engine, locked.made_with(), locked.bytes(), locked.mean_object_bytes())
            }
        }
    }

    pub(super) fn identity(&self) -> &Identity {
        match &self.held {
            Held::Device { identity, .. } => identity,
            Held::Directory { locked, .. } => locked.identity(),
        }
    }
}

/// Open the cache in these places. One that is made gets `secret`, or that of its disks that exist, or a new one.
pub(super) fn open_all(
    sites: Vec<Site>,
    options: &CacheOptions,
    access: Access,
    mut secret: Option<Secret>,
) -> Result<Cache, OpenError> {
    let of = sites.len() as u16;
    // A disk that joins others is no new cache, so the memory does not choose its engine.
    let is_new = sites.iter().all(|site| matches!(site.there, There::Nothing));
    let options = &CacheOptions { engine_by_memory: options.engine_by_memory && is_new, ..options.clone() };
    let mut disks = Vec::new();
    // Those that exist first: a new disk among them gets their secret.
    let mut order: Vec<_> = (0_u16..).zip(sites).collect();
    order.sort_by_key(|(_, site)| matches!(site.there, There::Nothing));
    for (number, mut site) in order {
        if access == Access::Alone && matches!(site.there, There::Nothing) {
            let secret = match &secret {
                Some(secret) => secret.clone(),
                None => new_secret(&site.path)?,
            };
            site = make(site, options, Identity { secret, disk: (number, of) })?;
        }
        let disk = check_disk(site, options, access)?;
        in_its_place(&disk, (number, of), secret.get_or_insert(disk.identity().secret.clone()))?;
        disks.push((number, disk));
    }
    disks.sort_by_key(|(number, _)| *number);
    let shares = disks.iter().all(|(_, disk)| disk.about().0.has(&INDEX_ENTRIES));
    let engines = disks.into_iter().map(|(number, disk)| open_engine(number, disk, options, access));
    let mut engines = engines.collect::<Result<Vec<_>, _>>()?;
    let one = if engines.len() == 1 { engines.pop() } else { None };
    let all = |engines| Spread::over(engines).map(|spread| Arc::new(spread) as Arc<dyn Engine>);
    let (Some(engine), Some(secret)) = (one.or_else(|| all(engines)), secret) else {
        return Err(OpenError::TooManyDisks(of.into()));
    };
    if access == Access::ReadOnly {
        // Nothing may be appended to a device that cannot be written to.
        engine.refuse_appends();
    }
    let failed = |error: std::io::Error| OpenError::Device { path: options.dir.clone(), error: error.to_string() };
    let make = if options.memory_yields { HotObjects::yielding } else { HotObjects::new };
    let hot_bytes = if shares { beside_index(options.memory_bytes, &*engine) } else { options.memory_bytes };
    let hot = (make(hot_bytes), hot_bytes);
    Cache::over_hot(options.clock.clone(), engine, secret, hot).map_err(failed)
}

fn new_secret(path: &Path) -> Result<Secret, OpenError> {
    let mut secret = [0; 32];
    let failed = |error: getrandom::Error| OpenError::Device { path: path.to_path_buf(), error: error.to_string() };
    getrandom::fill(&mut secret).map_err(failed)?;
    Ok(Secret::from_bytes(secret))
}

/// Make a new, empty cache where nothing is.
fn make(site: Site, options: &CacheOptions, identity: Identity) -> Result<Site, OpenError> {
    let Site { dir, path, .. } = site;
    let stamp = Stamp { seed: identity.secret.seed() };
    let New { engine, bytes, how } = plan_new(&path, options, stamp)?;
    let cut = match how {
        How::Cut(cut) => cut,
        How::Files(files) => {
            let settings = &asked_of(options);
            let mean_object_bytes = options.mean_bytes();
            (files.create)(&dir, &Ask { bytes, reserved: 0, mean_object_bytes, stamp, settings }, &identity)?;
            return Ok(Site { path: dir.clone(), there: There::Directory(engine), dir });
        }
    };
    let superblock = engine.superblock(&*cut, identity);
    match raw::device_bytes(&path)? {
        Some(_) => raw::format(&path, options, &superblock)?,
        None => Disk::create(&path, cut.end(), &superblock.encode())?,
    }
    Ok(Site { dir, path, there: There::Something })
}

/// How a new cache becomes.
struct New {
    engine: EngineRef,
    bytes: u64,
    how: How,
}

enum How {
    Cut(Box<dyn Cut>),
    Files(&'static InDirectory),
}

/// How a new cache becomes, if there is room for it.
fn plan_new(path: &Path, options: &CacheOptions, stamp: Stamp) -> Result<New, OpenError> {
    let device_bytes = raw::device_bytes(path)?;
    let asked = options.disk_bytes.or(device_bytes).unwrap_or(DEFAULT_DISK_BYTES);
    let settings = asked_of(options);
    let by_memory = || options.engine_by_memory.then(|| by_memory(options, &settings, asked)).flatten();
    let engine = options.engine.or_else(by_memory).or(options.engines.default_engine()).ok_or(OpenError::NoEngine)?;
    let existing = existing(path.parent().unwrap_or(path));
    let free = device_bytes.or_else(|| free_bytes(existing));
    let limit = free.map_or(String::new(), |free| format!(" to {free} bytes, which are free there"));
    if let Some(why) = options.engines.wrong(engine, &settings, asked) {
        return Err(OpenError::Setting(why));
    }
    let settings = by_its_memory(engine, settings, options, asked);
    if asked < MIN_DISK_BYTES {
        return Err(OpenError::Size { asked, how: "small", limit });
    }
    if let Some(why) = wrong_mean(options.mean_bytes(), asked) {
        return Err(OpenError::Setting(why));
    }
    if free.is_some_and(|free| asked > free) || asked / options.mean_bytes().max(1) > MAX_SLOTS {
        return Err(OpenError::Size { asked, how: "large", limit });
    }
    let how = match &engine.ground {
        Ground::Directory(_) if device_bytes.is_some() => {
            let why = format!("{engine} keeps files in a directory, and {} is a block device", path.display());
            return Err(OpenError::Setting(why + ": name a directory, or choose another engine"));
        }
        Ground::Directory(files) => How::Files(files),
        Ground::Device(_) => {
            let ask = ask(asked, options.mean_bytes(), stamp, &settings);
            How::Cut(engine.cut(&ask).ok_or(OpenError::Size { asked, how: "small", limit })?)
        }
    };
    Ok(New { engine, bytes: asked, how })
}

fn ask(bytes: u64, mean_object_bytes: u64, stamp: Stamp, settings: &Settings) -> Ask<'_> {
    Ask { bytes, reserved: SUPERBLOCK_BYTES, mean_object_bytes, stamp, settings }
}

/// Lock what is there, and look whether it is what was asked for.
pub(super) fn check_disk(site: Site, options: &CacheOptions, access: Access) -> Result<Checked, OpenError> {
    let Site { path, there, .. } = site;
    let held = match there {
        There::Directory(engine) => check_directory(&path, engine, options, access)?,
        There::Nothing | There::Something => check_device(&path, options, access)?,
    };
    Ok(Checked { path, held })
}

fn check_directory(path: &Path, engine: EngineRef, options: &CacheOptions, access: Access) -> Result<Held, OpenError> {
    let Ground::Directory(files) = &engine.ground else { return Err(OpenError::NoCache(path.to_path_buf())) };
    let locked = (files.lock)(path, access)?;
    let made = locked.made_with();
    made_so(path, options, engine, &made, locked.bytes())?;
    same_size(path, options.disk_bytes, locked.bytes(), |bytes| bytes == locked.bytes())?;
    Ok(Held::Directory { engine, locked, settings: asked_of(options).over(&made) })
}

fn same_size(path: &Path, asked: Option<u64>, there: u64, is_same: impl Fn(u64) -> bool) -> Result<(), OpenError> {
    match asked.filter(|bytes| !is_same(*bytes)) {
        Some(asked) => Err(OpenError::OtherSize { path: path.to_path_buf(), there, asked }),
        None => Ok(()),
    }
}

/// By the first block, which does not change while a process has the cache, and without its lock.
fn other_size(path: &Path, options: &CacheOptions) -> Option<(u64, u64)> {
    let mut block = vec![0; SUPERBLOCK_BYTES as usize];
    let mut file = File::open(path).ok()?;
    let bytes = raw::device_bytes(path).ok()?.or_else(|| Some(file.metadata().ok()?.len()))?;
    file.read_exact(&mut block).ok()?;
    let superblock = Superblock::decode(&block).ok()?;
    let (engine, made) = options.engines.iter().find_map(|engine| Some((engine, engine.made_with(&superblock)?)))?;
    let stamp = Stamp { seed: superblock.secret.seed() };
    let settings = made.over(&asked_of(options));
    let cut = engine.cut_before(&superblock, &ask(bytes, 0, stamp, &settings))?;
    let (asked, there) = (options.disk_bytes?, cut.end());
    let end = engine.cut(&ask(asked, cut.mean_object_bytes(), stamp, &settings)).map(|cut| cut.end());
    (end != Some(there)).then_some((there, asked))
}

fn check_device(path: &Path, options: &CacheOptions, access: Access) -> Result<Held, OpenError> {
    let disk = Disk::open(path, access, &options.io_of(options.io_threads))?;
    let reader = disk.reader();
    let device: Arc<dyn Device> = Arc::new(Lending::over(Arc::new(disk), reader));
    let refused = |error| match is_block_device(path) {
        true => raw::refused(path, &error),
        false => OpenError::Superblock { path: path.to_path_buf(), error },
    };
    let device_bytes = device.geometry().bytes;
    let superblock = match blocking::read(&*device, 0, SUPERBLOCK_BYTES as usize) {
        Ok(block) => Superblock::decode(&block).map_err(refused)?,
        // A file shorter than a superblock is not ours to read.
        Err(_) if device_bytes < SUPERBLOCK_BYTES => return Err(refused(SuperblockError::NotOurs)),
        Err(error) => return Err(OpenError::Device { path: path.to_path_buf(), error: error.to_string() }),
    };
    let made = |engine: EngineRef| engine.made_with(&superblock).map(|made| (engine, made));
    let Some((engine, made)) = options.engines.iter().find_map(made) else {
        let known = options.engines.iter().map(|engine| engine.name).collect::<Vec<_>>().join(" or ");
        return Err(other(path, "the engine", superblock.engine, known));
    };
    let stamp = Stamp { seed: superblock.secret.seed() };
    // What lasts is as the disk has it; whether something else was asked for is seen to below.
    let settings = for_its_index(engine, made.clone().over(&asked_of(options)), options);
    let cut = engine.cut_before(&superblock, &ask(device_bytes, 0, stamp, &settings));
    let cut = cut.ok_or_else(|| refused(SuperblockError::Damaged))?;
    made_so(path, options, engine, &made, cut.end())?;
    let end = |bytes| engine.cut(&ask(bytes, cut.mean_object_bytes(), stamp, &settings)).map(|cut| cut.end());
    same_size(path, options.disk_bytes, cut.end(), |bytes| end(bytes) == Some(cut.end()))?;
    let identity = Identity { secret: superblock.secret, disk: superblock.disk };
    Ok(Held::Device { engine, made, device, identity, cut })
}

/// Where a cache's positions lie, if not beside its log and not all in memory. Errors: nobody said where.
fn positions_dir<'a>(disk: &Checked, options: &'a CacheOptions) -> Result<Option<&'a Path>, OpenError> {
    match &disk.held {
        Held::Device { cut, .. } if cut.beside_bytes().is_some() => {
            let dir = options.positions_dir.as_deref();
            dir.map(Some).ok_or_else(|| OpenError::NoPositions(disk.path.clone()))
        }
        Held::Device { .. } | Held::Directory { .. } => Ok(None),
    }
}

pub(super) fn open_engine(
    number: u16,
    disk: Checked,
    options: &CacheOptions,
    access: Access,
) -> Result<Arc<dyn Engine>, OpenError> {
    let read_only = access == Access::ReadOnly;
    let dir = if read_only { None } else { positions_dir(&disk, options)? };
    let Checked { path, held } = disk;
    let flush_every = options.flush_every;
    let opened = match held {
        Held::Device { device, cut, .. } => {
            let bytes = cut.beside_bytes().unwrap_or_default();
            let beside = dir.map(|dir| positions::open(dir, number, bytes, options)).transpose()?;
            cut.open(Opening { device, beside, flush_every, read_only })
        }
        Held::Directory { locked, settings, .. } => {
            let opening = OpeningFiles::of(settings, options.clock.clone());
            locked.open_guarded(OpeningFiles { flush_every, read_only, ..opening })
        }
    };
    opened.map_err(|error| OpenError::Device { path, error })
}
