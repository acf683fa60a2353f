//! A backend over a disk, with the clocks of both.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tempfile::NamedTempFile;
use tinaja_backend::{Backend, EngineBackend, EngineBackendOptions};
use tinaja_store::device::wrap::{Counted, Detail};
use tinaja_store::device::{Access, Device, Disk as RealDisk, Io, IoEngine};
use tinaja_store::engine::Engine;
use tinaja_store::engine::registry::{Ask, Opening};
use tinaja_store::layout::Stamp;
use tinaja_store::{EngineRef, Secret, Settings, block_on};

use crate::error::LabError;
use crate::rig::{Clock, Emmc, EmmcModel, PageCache, PageCacheOptions, Sparse};
use crate::rival::{Blockfile, BlockfileOptions};

/// On what a backend stands.
#[derive(Clone, Debug)]
pub enum DiskKind {
    /// A phone's flash, modelled: times are virtual.
    Emmc(EmmcModel),
    /// A file made in this directory: times are the wall's. Where there is a page cache it goes by the replay's clock, though nobody
    /// sleeps, and so writes out as often as it would have.
    Real(PathBuf),
    /// Nothing that takes time.
    Nothing,
}

/// The disk of a stand.
#[derive(Clone, Debug)]
pub struct Disk {
    /// What it is.
    pub place: DiskKind,
    /// The kernel's page cache in front of it, modelled. The rival always has one.
    pub page_cache: Option<PageCacheOptions>,
}

/// An engine's batch is written out when it is this old, as the store does it by the wall's clock.
const BATCH_AGE: Duration = Duration::from_millis(100);
/// The first block of a disk, where a cache has its superblock.
const RESERVED: u64 = 4096;
const SECRET: [u8; 32] = [0x5A; 32];

/// A backend over a disk. Dropped, it is stopped.
pub struct Stand {
    /// The backend.
    pub backend: Arc<dyn Backend>,
    clock: Clock,
    engine: Option<Arc<dyn Engine>>,
    page_cache: Option<Arc<PageCache>>,
    emmc: Option<Arc<Emmc>>,
    counted: Arc<Counted>,
    is_real: bool,
    /// Since when an engine's batch holds something.
    batch_since: Mutex<Option<Duration>>,
    /// Gone with the stand.
    _file: Option<NamedTempFile>,
}

/// A call that has begun.
pub struct Begun {
    at: Duration,
    wall: Instant,
}

struct Below {
    counted: Arc<Counted>,
    emmc: Option<Arc<Emmc>>,
    clock: Clock,
    file: Option<NamedTempFile>,
}

impl Disk {
    fn below(&self, bytes: u64) -> io::Result<Below> {
        let clock = Clock::default();
        let (mut emmc, mut file) = (None, None);
        let device: Arc<dyn Device> = match &self.place {
            DiskKind::Nothing => Arc::new(Sparse::new(bytes)),
            DiskKind::Emmc(model) => {
                let device = Emmc::new(Arc::new(Sparse::new(bytes)), model.clone(), clock.clone());
                emmc.insert(Arc::new(device)).clone()
            }
            DiskKind::Real(dir) => {
                let made = NamedTempFile::new_in(dir)?;
                made.as_file().set_len(bytes)?;
                let disk = RealDisk::open(made.path(), Access::Alone, &Io::new(IoEngine::Auto, 8))
                    .map_err(io::Error::other)?;
                file = Some(made);
                Arc::new(disk)
            }
        };
        Ok(Below { counted: Arc::new(Counted::new(device)), emmc, clock, file })
    }
}

impl Stand {
    /// The rival of so many bytes. Errors: the disk cannot be made.
    pub fn rival(options: BlockfileOptions, disk: &Disk) -> Result<Stand, LabError> {
        let below = disk.below(Blockfile::device_bytes(options.bytes));
        let below = below.map_err(|error| LabError::failed("making a disk for the rival", error))?;
        let pages = disk.page_cache.unwrap_or(PageCacheOptions::phone());
        let pages = Arc::new(PageCache::new(below.counted.clone(), pages, below.clock.clone()));
        let backend = Arc::new(Blockfile::new(pages.clone(), options, below.clock.clone()));
        Ok(Stand::new(backend, None, Some(pages), below, disk))
    }

    /// An engine over a disk of so many bytes, behind the same traits. Errors: the disk cannot be made, or is too small for it.
    pub fn engine(engine: EngineRef, settings: &Settings, bytes: u64, disk: &Disk) -> Result<Stand, LabError> {
        let refused = |why: String| LabError::Engine { engine: engine.to_string(), disk_bytes: bytes, why };
        let below = disk.below(bytes).map_err(|error| refused(error.to_string()))?;
        let pages = disk
            .page_cache
            .map(|options| Arc::new(PageCache::new(below.counted.clone(), options, below.clock.clone())));
        let device = pages.clone().map_or(below.counted.clone() as Arc<dyn Device>, |pages| pages);
        let stamp = Stamp { seed: Secret::from_bytes(SECRET).seed() };
        let cut = engine.cut(&Ask { bytes, reserved: RESERVED, mean_object_bytes: MEAN_ENTRY, stamp, settings });
        let cut = cut.ok_or_else(|| refused("it is too small".into()))?;
        let engine = cut.open(Opening::of(device)).map_err(refused)?;
        let options = EngineBackendOptions::default();
        let backend = EngineBackend::over(engine.clone(), Secret::from_bytes(SECRET), options);
        let backend = Arc::new(backend.map_err(|error| refused(error.to_string()))?);
        Ok(Stand::new(backend, Some(engine), pages, below, disk))
    }

    fn new(
        backend: Arc<dyn Backend>,
        engine: Option<Arc<dyn Engine>>,
        page_cache: Option<Arc<PageCache>>,
        below: Below,
        disk: &Disk,
    ) -> Stand {
        let Below { counted, emmc, clock, file } = below;
        let (is_real, batch_since) = (matches!(disk.place, DiskKind::Real(_)), Mutex::default());
        Stand { backend, clock, engine, page_cache, emmc, counted, is_real, batch_since, _file: file }
    }

    /// A call comes at a time: what was to be written out by then has been.
    pub fn begin(&self, at: Duration) -> Begun {
        let due = self.batch_since.lock().take_if(|since| *since + BATCH_AGE <= at);
        if let Some(since) = due {
            self.work_until(since + BATCH_AGE);
            let buffered = self.engine.as_ref().and_then(|engine| engine.capabilities().buffered);
            buffered.into_iter().for_each(|buffered| buffered.write_out());
        }
        self.work_until(at);
        // What was read meanwhile nobody waited for.
        let _ = self.emmc.as_ref().and_then(|emmc| emmc.answered());
        Begun { at, wall: Instant::now() }
    }

    fn work_until(&self, time: Duration) {
        match &self.page_cache {
            Some(pages) => pages.work_until(time),
            None => drop(self.clock.reach(time)),
        }
    }

    /// The call has ended: how long it took. By the model only its reads count, since nobody waits for writes; what the processor takes is left out.
    pub fn end(&self, begun: &Begun) -> Duration {
        match &self.emmc {
            Some(emmc) => emmc.answered().map_or(Duration::ZERO, |at| at.saturating_sub(begun.at)),
            None if self.is_real => begun.wall.elapsed(),
            None => Duration::ZERO,
        }
    }

    /// Something was given to the backend that it may hold back for a while.
    pub fn wrote(&self, at: Duration) {
        self.batch_since.lock().get_or_insert(at);
    }

    /// Write out what there is. Errors: it failed.
    pub fn finish(&self) -> Result<(), LabError> {
        block_on(self.backend.flush()).map_err(|error| LabError::failed("writing out the rest", error))?;
        let pages = self.page_cache.as_ref().map_or(Ok(()), |pages| pages.flush());
        pages.map_err(|error| LabError::failed("writing out the rest", error))
    }

    /// What went to the device.
    pub fn detail(&self) -> Detail {
        self.counted.detail()
    }

    /// How long a modelled device was at work, and how many of its writes were not sequential.
    pub fn worked(&self) -> Option<(Duration, u64)> {
        self.emmc.as_ref().map(|emmc| (emmc.busy(), emmc.merges()))
    }
}

/// For entries of which mean size engines are set up: the default of 8 KiB.
const MEAN_ENTRY: u64 = 8192;

impl Drop for Stand {
    fn drop(&mut self) {
        // What it held is not needed any more.
        let _ = block_on(self.backend.stop());
    }
}
