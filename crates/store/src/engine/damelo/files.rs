//! The paper's own interface (chapter 3): a file system for whole objects in one program, which says itself what belongs
//! together and what is to stay in memory.
//!
//! Calls block, and any number of threads may make them. Groups are numbered from 1, as in the paper.
//!
//! ```
//! use tinaja_store::damelo::{FileSystem, FileSystemOptions};
//!
//! # let dir = std::env::temp_dir().join(format!("tinaja-doc-damelo-{}", std::process::id()));
//! # std::fs::create_dir_all(&dir)?;
//! let files = FileSystem::open(&dir.join("objects"), &FileSystemOptions { disk_bytes: 64 << 20, ..Default::default() })?;
//! files.love(3)?;
//! files.create(b"somefile.gif", 3, &[b'a'; 100])?;
//! let group = files.lookup(b"somefile.gif").expect("it was created");
//! let object = files.read(b"somefile.gif", group)?.expect("it is there");
//! assert_eq!(object[..], [b'a'; 100]);
//! drop(object);
//! files.hate(3)?;
//! assert!(files.remove(b"somefile.gif", group)?);
//! files.close()?;
//! # std::fs::remove_dir_all(dir)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fs::OpenOptions;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};

use super::engine::Damelo;
use super::layout::{At, DameloLayout, Shape, Slot};
use super::limits::{FRAME_PATIENCE, LARGE_FRAME_BYTES, LEAST_FRAME_BYTES};
use super::options::{Affection, DameloOptions};
use super::record::DAMELO;
use super::state::Wanted;
use crate::device::block::{TELLING_BYTES, is_block_device};
use crate::device::elevator::Order;
use crate::device::{Access, Device, Disk, Io, IoEngine, OpenDiskError, blocking};
use crate::engine::registry::Identity;
use crate::engine::{Engine, Fetched, Kind, Placement, Record};
use crate::layout::record::HEADER_BYTES;
use crate::layout::superblock::SUPERBLOCK_BYTES;
use crate::layout::{Stamp, Superblock, SuperblockError};
use crate::memory::AlignedBuf;
use crate::terms::{Digest, Key, ReadError, Secret, WhyNot};

/// What a file system is opened with. What is said of the disk holds for a new one; a disk that is there stays as it is.
#[derive(Clone, Copy, Debug)]
pub struct FileSystemOptions {
    /// Bytes of a file that is not there yet. A block device is taken whole.
    pub disk_bytes: u64,
    /// Groups of a new one.
    pub groups: u32,
    /// Bytes of a frame of a new one: a power of two, 16 KiB to 256 KiB. An object and its name must fit into one.
    pub frame_bytes: u32,
    /// Memory for frames.
    pub pool_bytes: u64,
    /// The mean size of objects, by which the memory for a new one's tables is counted.
    pub mean_object_bytes: u64,
    /// How often each group is checkpointed, until [`FileSystem::set_checkpoint`] says otherwise; zero for never.
    pub checkpoint: Duration,
    /// Whether the disk is asked in the order of its elevator. Flash wants it otherwise.
    pub elevator: bool,
}

impl Default for FileSystemOptions {
    /// As in section 5.4: 16 groups, frames of 64 KiB, 128 MiB of memory; objects of 8 KiB, 1 GiB of disk, no checkpoints.
    fn default() -> Self {
        FileSystemOptions {
            disk_bytes: 1 << 30,
            groups: 16,
            frame_bytes: 64 << 10,
            pool_bytes: 128 << 20,
            mean_object_bytes: 8 << 10,
            checkpoint: Duration::ZERO,
            elevator: true,
        }
    }
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum FileSystemError {
    /// There is no such group.
    #[error("there is no group {group}: groups are numbered from 1 to {groups}")]
    NoGroup {
        /// The group that was named.
        group: u32,
        /// How many there are.
        groups: u32,
    },
    /// The object does not fit a frame.
    #[error("{bytes} bytes do not fit a frame, which takes {most} with the object's name: keep larger ones elsewhere")]
    TooLarge {
        /// The object's bytes and its name's.
        bytes: usize,
        /// How many fit.
        most: usize,
    },
    /// The options cannot be.
    #[error("{0}")]
    Options(String),
    /// The file or device cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenDiskError),
    /// What is there is something else.
    #[error("{path} {error}")]
    Occupied {
        /// The file or device.
        path: PathBuf,
        /// What it is.
        error: SuperblockError,
    },
    /// What is there is another engine's cache.
    #[error("{path} is a cache of the engine {engine}: open it as one, or choose another file; it was not touched")]
    OtherEngine {
        /// The file or device.
        path: PathBuf,
        /// Whose it is.
        engine: String,
    },
    /// All frames are held, or the disk takes nothing, for longer than anybody should wait.
    #[error("no frame was free for {} seconds: readers hold them, or the disk is too slow", FRAME_PATIENCE.as_secs())]
    Busy,
    /// The bytes on disk are not the ones that were written.
    #[error("the object is damaged and was forgotten")]
    Damaged,
    /// The device failed.
    #[error("the device failed: {0}")]
    Device(String),
    /// It was closed.
    #[error("the file system is closed")]
    Closed,
}

/// Groups of objects on one disk.
pub struct FileSystem {
    engine: Damelo,
    secret: Secret,
    device: Arc<dyn Device>,
}

/// An object, in the frame that it was read into. The frame stays as it is until this is dropped, which is the paper's
/// `release`. Where too many frames are held already it is a copy.
#[derive(Debug)]
pub struct Object(Bytes);

impl Deref for Object {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl FileSystem {
    /// Open the file system in a file or on a block device; a new file is made, and a blank one or a blank device is taken.
    /// Errors: the options cannot be; the file cannot be opened, is in use, or holds something else.
    pub fn open(path: &Path, options: &FileSystemOptions) -> Result<Self, FileSystemError> {
        if !path.exists() {
            let system = |error| OpenDiskError::System { what: "create", path: path.to_path_buf(), error };
            let file = OpenOptions::new().write(true).create_new(true).open(path).map_err(system)?;
            file.set_len(options.disk_bytes).map_err(system)?;
        }
        let device: Arc<dyn Device> = Arc::new(Disk::open(path, Access::Alone, &Io::new(IoEngine::default(), 4))?);
        let opened = Self::on(&device, path, options);
        if opened.is_err() {
            device.stop();
        }
        opened
    }

    fn on(device: &Arc<dyn Device>, path: &Path, options: &FileSystemOptions) -> Result<Self, FileSystemError> {
        let failed = |error: std::io::Error| FileSystemError::Device(error.to_string());
        let bytes = device.geometry().bytes;
        let telling = if is_block_device(path) { TELLING_BYTES } else { SUPERBLOCK_BYTES };
        let first = blocking::read(&**device, 0, telling.min(bytes) as usize).map_err(failed)?;
        if first.iter().any(|byte| *byte != 0) {
            let occupied = |error| FileSystemError::Occupied { path: path.to_path_buf(), error };
            let superblock = Superblock::decode(&first).map_err(occupied)?;
            if DAMELO.made_with(&superblock).is_none() {
                return Err(FileSystemError::OtherEngine { path: path.to_path_buf(), engine: superblock.engine });
            }
            let layout = DameloLayout::decode(&superblock.section, bytes);
            let layout = layout.ok_or_else(|| occupied(SuperblockError::Damaged))?;
            return Self::over(device, superblock.secret, layout, options);
        }
        let mut random = [0; 32];
        getrandom::fill(&mut random).map_err(|error| FileSystemError::Device(error.to_string()))?;
        let (secret, layout) = (Secret::from_bytes(random), Self::layout(bytes, options)?);
        let made = DameloOptions::of(layout, Stamp { seed: secret.seed() });
        let superblock = DAMELO.superblock(&made, Identity { secret: secret.clone(), disk: (0, 1) });
        let mut block = AlignedBuf::zeroed(SUPERBLOCK_BYTES as usize);
        block.copy_from_slice(&superblock.encode());
        blocking::write(&**device, 0, block).and_then(|()| blocking::sync(&**device)).map_err(failed)?;
        Self::over(device, secret, layout, options)
    }

    fn layout(bytes: u64, options: &FileSystemOptions) -> Result<DameloLayout, FileSystemError> {
        let wrong = |why: String| Err(FileSystemError::Options(why));
        let frame = options.frame_bytes;
        if !frame.is_power_of_two() || !(LEAST_FRAME_BYTES..=LARGE_FRAME_BYTES).contains(&frame) {
            return wrong(format!("a frame cannot have {frame} bytes: choose a power of two from 16 KiB to 256 KiB"));
        }
        if options.groups == 0 {
            return wrong("there must be one group at least".to_owned());
        }
        if options.pool_bytes < u64::from(frame) {
            let pool = options.pool_bytes;
            return wrong(format!("a pool of {pool} bytes has no room for one frame of {frame}: make it larger"));
        }
        let shape = Shape { groups: options.groups, frame_bytes: frame, large_percent: 0, centre: true };
        let layout = DameloLayout::plan(bytes, SUPERBLOCK_BYTES, options.mean_object_bytes, &shape);
        match layout {
            Some(layout) if layout.groups() == options.groups => Ok(layout),
            _ => wrong(format!(
                "{bytes} bytes have no room for {} groups of some frames of {frame} bytes each: choose fewer groups, smaller \
                 frames or a larger disk",
                options.groups
            )),
        }
    }

    fn over(
        device: &Arc<dyn Device>,
        secret: Secret,
        layout: DameloLayout,
        options: &FileSystemOptions,
    ) -> Result<Self, FileSystemError> {
        let options = DameloOptions {
            pool_bytes: options.pool_bytes,
            affection: Affection::Told,
            order: if options.elevator { Order::TwoWay } else { Order::InTurn },
            depth: if options.elevator { 1 } else { super::record::PLAIN_DEPTH },
            flush_every: Some(options.checkpoint).filter(|every| !every.is_zero()),
            ..DameloOptions::of(layout, Stamp { seed: secret.seed() })
        };
        let engine = Damelo::open(device.clone(), &options).map_err(FileSystemError::Device)?;
        Ok(FileSystem { engine, secret, device: device.clone() })
    }

    /// How many groups there are; they are numbered from 1.
    pub fn groups(&self) -> u32 {
        self.engine.0.options.layout.groups()
    }

    fn group(&self, group: u32) -> Result<u32, FileSystemError> {
        let groups = self.groups();
        match group.checked_sub(1) {
            Some(number) if number < groups => Ok(number),
            _ => Err(FileSystemError::NoGroup { group, groups }),
        }
    }

    fn id(&self, name: &[u8]) -> Digest {
        self.secret.digest(&Key::from_name(name))
    }

    /// Copy an object into a group; one of this name, in whatever group, is replaced. Waits for a frame, no longer than a
    /// few seconds. Errors: [`FileSystemError::NoGroup`], `TooLarge`, `Busy`, `Device`, `Closed`.
    pub fn create(&self, name: &[u8], group: u32, data: &[u8]) -> Result<(), FileSystemError> {
        let number = self.group(group)?;
        let most = self.engine.0.options.layout.class_of(number).max_record_bytes() - HEADER_BYTES;
        let bytes = name.len().saturating_add(data.len());
        if bytes > most || u16::try_from(name.len()).is_err() {
            return Err(FileSystemError::TooLarge { bytes, most });
        }
        let id = self.id(name);
        let at = Placement { group: Some(number.into()), ..Placement::of(id) };
        let record = Record { id, kind: Kind::Whole, name, head: &[], body: data, related_bytes: 0 };
        let created = crate::wait::block_on(std::future::poll_fn(|cx| self.engine.poll_append(cx, &at, &record)));
        created.map(drop).map_err(|why| match why {
            WhyNot::Slow => FileSystemError::Busy,
            WhyNot::Closed => FileSystemError::Closed,
            other => FileSystemError::Device(other.to_string()),
        })
    }

    fn slot(&self, id: &Digest, group: u32) -> Option<Slot> {
        let state = self.engine.0.state.lock();
        let of_group = state.groups.get(group as usize)?;
        let spot = of_group.find(id)?;
        Some(Slot { at: At { group, page: spot.page }, slot: spot.slot, life: of_group.page(spot.page)?.life })
    }

    /// The group of an object, from memory. An object of another name may have the same digest with a probability of 2^-128:
    /// what is read says whose it is.
    pub fn lookup(&self, name: &[u8]) -> Option<u32> {
        let id = self.id(name);
        (0..self.groups()).find(|group| self.slot(&id, *group).is_some()).map(|group| group + 1)
    }

    /// An object of a group, without a copy; `None` if the group has none of this name. Waits for the disk, no longer than
    /// a few seconds. Errors: [`FileSystemError::NoGroup`], `Busy`, `Damaged`, `Device`.
    pub fn read(&self, name: &[u8], group: u32) -> Result<Option<Object>, FileSystemError> {
        let (number, id) = (self.group(group)?, self.id(name));
        let Some(slot) = self.slot(&id, number) else { return Ok(None) };
        match self.fetch(slot, Wanted { id: Some(id), indexed: true, even_deleted: false }) {
            Some(Fetched::Record(found)) if found.name == name => Ok(Some(Object(found.body))),
            Some(Fetched::Record(_) | Fetched::Missing) => Ok(None),
            Some(Fetched::Failed(ReadError::Corrupt)) => Err(FileSystemError::Damaged),
            Some(Fetched::Failed(error)) => Err(FileSystemError::Device(error.to_string())),
            None => Err(FileSystemError::Busy),
        }
    }

    /// What lies in a slot; `None` if the disk says nothing for too long.
    fn fetch(&self, slot: Slot, wanted: Wanted) -> Option<Fetched> {
        let answer = Arc::new((Mutex::new(None), Condvar::new()));
        let tell = answer.clone();
        let done = move |fetched: Fetched| {
            *tell.0.lock() = Some(fetched);
            tell.1.notify_one();
        };
        self.engine.0.read(slot, wanted, Box::new(done));
        let clock = self.device.clock();
        let until = clock.now() + FRAME_PATIENCE;
        let mut fetched = answer.0.lock();
        while fetched.is_none() && clock.now() < until {
            clock.wait_until(&answer.1, &mut fetched, until);
        }
        fetched.take()
    }

    /// Remove an object from a group, without a request to the disk. Whether it was there. It may be back after a crash, but
    /// not after a checkpoint of its group. Errors: [`FileSystemError::NoGroup`].
    pub fn remove(&self, name: &[u8], group: u32) -> Result<bool, FileSystemError> {
        let (number, id) = (self.group(group)?, self.id(name));
        if self.slot(&id, number).is_none() {
            return Ok(false);
        }
        Ok(self.engine.0.remove(&mut self.engine.0.state.lock(), &id))
    }

    /// Keep a group's pages in memory longest. Errors: [`FileSystemError::NoGroup`].
    pub fn love(&self, group: u32) -> Result<(), FileSystemError> {
        self.engine.love(self.group(group)?);
        Ok(())
    }

    /// Let a group's pages leave memory first. Errors: [`FileSystemError::NoGroup`].
    pub fn hate(&self, group: u32) -> Result<(), FileSystemError> {
        self.engine.hate(self.group(group)?);
        Ok(())
    }

    /// Checkpoint a group so often from now on; zero for never. The others go on meanwhile. Errors:
    /// [`FileSystemError::NoGroup`].
    pub fn set_checkpoint(&self, group: u32, every: Duration) -> Result<(), FileSystemError> {
        self.engine.set_checkpoint(self.group(group)?, Some(every));
        Ok(())
    }

    /// Apply all deletes, write out what was changed, checkpoint all groups, and let go of the disk. Dropped without this,
    /// it is as if the process had been killed. Errors: the device's.
    pub fn close(self) -> Result<(), FileSystemError> {
        for at in self.engine.0.with_deletes() {
            let life = self.engine.0.state.lock().group(at.group).and_then(|group| Some(group.page(at.page)?.life));
            if let Some(life) = life {
                // Whatever lies in its first slot: it is the page that is wanted in memory.
                self.fetch(Slot { at, slot: 0, life }, Wanted { id: None, indexed: false, even_deleted: true });
                self.engine.0.mark_dirty(at);
            }
        }
        let (done, answer) = crate::wait::promise();
        self.engine.close(Box::new(move |result| done.keep(result)));
        let closed = crate::wait::block_on(answer).unwrap_or_else(|| Err("the device was stopped".to_owned()));
        closed.map_err(FileSystemError::Device)
    }
}

#[cfg(test)]
mod left_out;
#[cfg(test)]
mod power;
#[cfg(test)]
mod tests;
