//! What the rest of Tinaja knows of an engine: one record, which the engine's folder exports; and the list of all of them.
//!
//! Flags, the configuration file, programs in C, `--help`, the laboratory and the tests read this list. So a new engine is
//! its folder and a line in [`crate::engines`]; one from outside is a record and [`Registry::with`].

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tinaja_clock::Clock;

use super::fused::Fused;
use super::{Engine, Setting, Settings};
use crate::device::fused::FusedDevice;
use crate::device::{Access, Device, OpenDiskError};
use crate::fuse::Fuse;
use crate::layout::{Stamp, Superblock};
use crate::terms::{Figure, Secret, Stats};

/// An engine, by its record.
pub type EngineRef = &'static EngineRecord;

/// What an engine's folder exports.
pub struct EngineRecord {
    /// The name that users give it, as in `--engine`.
    pub name: &'static str,
    /// What it is good for, in a line.
    pub about: &'static str,
    /// The settings that it has.
    pub settings: &'static [&'static Setting],
    /// Whether it knows how many objects it has: those without an index of all of them in memory do not.
    pub counts_objects: bool,
    /// What is wrong with settings together in a cache of so many bytes, and what to do about it. What is wrong with one
    /// alone its [`Setting`] says.
    pub wrong: fn(&Settings, u64) -> Option<String>,
    /// What it counts beside what all engines do, in [`Stats::of_engine`]; eight at the most.
    pub figures: &'static [&'static Figure],
    /// What `inspect` says of its slots, behind their number: how they are cut. Empty for nothing.
    pub inspect: fn(&Stats) -> String,
    /// Where it keeps its objects.
    pub ground: Ground,
}

/// Where an engine keeps its objects.
pub enum Ground {
    /// In one file, or on a block device, behind a superblock that the store writes and reads.
    Device(OnDevice),
    /// In files of its own in the cache's directory. There is no superblock: the engine says itself whose directory it is.
    Directory(InDirectory),
}

/// An engine in one file, or on a block device.
pub struct OnDevice {
    /// The names that it has in superblocks, of 16 bytes at most, and which settings each stands for. A program that does not
    /// know a name leaves the disk alone.
    pub names: &'static [(&'static str, &'static [(&'static Setting, u64)])],
    /// What else its section of the superblock says of settings.
    pub made_with: fn(&[u8]) -> Settings,
    /// How a new disk is cut. `None` if it is too small.
    pub cut: fn(&Ask<'_>) -> Planned,
    /// How the disk with this section was cut. `None` if its numbers do not fit each other, or the disk.
    pub cut_before: fn(&[u8], &Ask<'_>) -> Planned,
}

/// How a disk is cut; `None` if it cannot be.
pub type Planned = Option<Box<dyn Cut>>;

/// What an engine is told of a disk that is to be cut for it, or was.
#[derive(Clone, Debug)]
pub struct Ask<'a> {
    /// Bytes of the disk: as many as are asked for, or as there are.
    pub bytes: u64,
    /// Bytes at its beginning that are taken.
    pub reserved: u64,
    /// For which mean size of objects; of no account where the disk says it.
    pub mean_object_bytes: u64,
    /// Seeds the checksums.
    pub stamp: Stamp,
    /// What was said, and what the disk was made with.
    pub settings: &'a Settings,
}

/// How a disk is cut for an engine, and what the engine is opened with.
pub trait Cut: fmt::Debug + Send + Sync {
    /// Where what it takes of the disk ends, what is reserved included.
    fn end(&self) -> u64;

    /// The mean object size that it was cut for.
    fn mean_object_bytes(&self) -> u64;

    /// The settings that last, as it was cut with.
    fn made_with(&self) -> Settings;

    /// The engine's own section of the superblock.
    fn section(&self) -> Vec<u8>;

    /// Bytes of a second device that the engine needs, what is reserved on it included; `None` if it needs none. By default
    /// none.
    fn beside_bytes(&self) -> Option<u64> {
        None
    }

    /// Open what is on the device, or begin on one that holds nothing yet. Errors: the device's, as text. Call
    /// `open` instead, which stops an engine that panics.
    fn open_unguarded(&self, opening: Opening) -> Result<Arc<dyn Engine>, String>;
}

/// What an engine is opened over.
pub struct Opening {
    /// Its disk, which has the clock too.
    pub device: Arc<dyn Device>,
    /// The second device, of [`Cut::beside_bytes`].
    pub beside: Option<Arc<dyn Device>>,
    /// How often what was written is synced without being asked.
    pub flush_every: Option<Duration>,
    /// Nothing is written; appends are refused.
    pub read_only: bool,
}

impl Opening {
    /// To read and write, with one device, synced only when asked.
    pub fn of(device: Arc<dyn Device>) -> Self {
        Opening { device, beside: None, flush_every: None, read_only: false }
    }
}

impl dyn Cut + '_ {
    /// Open what is on the device, or begin on one that holds nothing yet. An engine that panics, now or later, is stopped:
    /// its store then finds nothing and stores nothing, and the device is left alone. Errors: the device's, as text; that
    /// the second device is missing; or that the engine was stopped.
    pub fn open(&self, opening: Opening) -> Result<Arc<dyn Engine>, String> {
        guarded(opening, |opening| self.open_unguarded(opening))
    }
}

/// Open an engine behind a fuse of its own; see [`crate::fuse`].
fn guarded(
    opening: Opening,
    open: impl FnOnce(Opening) -> Result<Arc<dyn Engine>, String>,
) -> Result<Arc<dyn Engine>, String> {
    let fuse = Fuse::new();
    let device = FusedDevice::over(opening.device, fuse.clone());
    let beside = opening.beside.map(|beside| FusedDevice::over(beside, fuse.clone()));
    let opened = fuse.guard(|| open(Opening { device, beside, ..opening }));
    let engine = opened.unwrap_or_else(|| Err(fuse.why().into()))?;
    Ok(Fused::over(engine, fuse))
}

/// An engine in a directory of its own.
pub struct InDirectory {
    /// Whether there is a cache of this engine's in a directory. What cannot be looked at is taken to be one.
    pub is_there: fn(&Path) -> bool,
    /// Make an empty one, all or nothing: a crash leaves a directory of which `is_there` says no.
    pub create: fn(&Path, &Ask<'_>, &Identity) -> Result<(), OpenDiskError>,
    /// Lock the one that is there against other processes and read what it says of itself.
    pub lock: fn(&Path, Access) -> Locked,
}

/// A directory that was locked, or why it was not.
pub type Locked = Result<Box<dyn LockedDirectory>, OpenDiskError>;

/// Whose a disk is.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The store's secret, the same on all its disks.
    pub secret: Secret,
    /// Which of the store's disks this is, from 0, and how many there are.
    pub disk: (u16, u16),
}

/// A directory that was locked and looked at. Dropped, it is let go of.
pub trait LockedDirectory: Send {
    /// Whose it is.
    fn identity(&self) -> &Identity;

    /// Bytes that it may take.
    fn bytes(&self) -> u64;

    /// The mean object size that it was made for.
    fn mean_object_bytes(&self) -> u64;

    /// The settings that it was made with.
    fn made_with(&self) -> Settings;

    /// Open it. Errors: the system's, as text. Call `open_guarded` instead, which stops an engine that panics.
    fn open(self: Box<Self>, opening: OpeningFiles) -> Result<Arc<dyn Engine>, String>;
}

/// What an engine in a directory is opened with.
#[derive(Clone)]
pub struct OpeningFiles {
    /// What was said, over what it was made with.
    pub settings: Settings,
    /// Time and threads.
    pub clock: Clock,
    /// How often what was written is synced without being asked.
    pub flush_every: Option<Duration>,
    /// Nothing is written; appends are refused.
    pub read_only: bool,
    /// To be blown by threads of the engine's own.
    pub(crate) fuse: Arc<Fuse>,
}

impl OpeningFiles {
    /// To read and write, synced only when asked.
    pub fn of(settings: Settings, clock: Clock) -> Self {
        OpeningFiles { settings, clock, flush_every: None, read_only: false, fuse: Fuse::new() }
    }
}

impl dyn LockedDirectory {
    /// [`LockedDirectory::open`], with a fuse: an engine that panics, now or in a call of its own, is stopped, and its
    /// files are left alone. Errors as there.
    pub fn open_guarded(self: Box<Self>, opening: OpeningFiles) -> Result<Arc<dyn Engine>, String> {
        let fuse = opening.fuse.clone();
        let opened = fuse.guard(|| self.open(opening));
        let engine = opened.unwrap_or_else(|| Err(fuse.why().into()))?;
        Ok(Fused::over(engine, fuse))
    }
}

impl EngineRecord {
    /// Whether a value asks for something that it does not have.
    fn lacks(&self, setting: &Setting, value: u64) -> bool {
        !self.has(setting) && setting.nothing != Some(value)
    }

    /// Whether it has a setting.
    pub fn has(&self, setting: &Setting) -> bool {
        self.settings.iter().any(|other| **other == *setting)
    }

    /// How the disk with this superblock was cut; `None` if its numbers do not fit each other, or the disk.
    pub fn cut_before(&self, superblock: &Superblock, ask: &Ask<'_>) -> Option<Box<dyn Cut>> {
        match &self.ground {
            Ground::Device(on_device) => (on_device.cut_before)(&superblock.section, ask),
            Ground::Directory(_) => None,
        }
    }

    /// How a new disk is cut; `None` if it is too small, or if the engine keeps files of its own. Settings that it does not have
    /// are of no account here: [`Registry::wrong`] refuses them.
    pub fn cut(&self, ask: &Ask<'_>) -> Option<Box<dyn Cut>> {
        let has = ask.settings.iter().filter(|(setting, _)| self.has(setting));
        let settings = &has.fold(Settings::new(), |settings, (setting, value)| settings.with(setting, value));
        let ask = &Ask { settings, ..*ask };
        match &self.ground {
            Ground::Device(on_device) => (on_device.cut)(ask),
            Ground::Directory(_) => None,
        }
    }

    /// The superblock of a disk that is cut so. The cut of another engine gets no name, and no program opens it.
    pub fn superblock(&self, cut: &dyn Cut, identity: Identity) -> Superblock {
        let made = cut.made_with();
        let stands = |said: &[(&'static Setting, u64)]| {
            said.iter().all(|(setting, value)| made.get(setting).unwrap_or(0) == *value)
        };
        let names = match &self.ground {
            Ground::Device(on_device) => on_device.names,
            Ground::Directory(_) => &[],
        };
        let name = names.iter().find(|(_, said)| stands(said)).map_or("", |(name, _)| name);
        let Identity { secret, disk } = identity;
        Superblock { engine: name.to_owned(), section: cut.section(), secret, disk }
    }

    /// The settings that the disk with this superblock was made with; `None` if it is another engine's.
    pub fn made_with(&self, superblock: &Superblock) -> Option<Settings> {
        let Ground::Device(on_device) = &self.ground else { return None };
        let (_, said) = on_device.names.iter().find(|(name, _)| *name == superblock.engine)?;
        let by_section = (on_device.made_with)(&superblock.section);
        Some(said.iter().fold(by_section, |made, (setting, value)| made.with(setting, *value)))
    }
}

impl PartialEq for EngineRecord {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for EngineRecord {}

impl fmt::Debug for EngineRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl fmt::Display for EngineRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The engines that there are, in the order in which they are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registry {
    engines: Arc<[EngineRef]>,
    default: Option<EngineRef>,
}

impl Registry {
    /// These engines. The first one is what a new cache has where nothing is said.
    pub fn of(engines: &[EngineRef]) -> Self {
        Registry { engines: engines.into(), default: engines.first().copied() }
    }

    /// The same, and one more; in the place of one of its name.
    #[must_use]
    pub fn with(self, engine: EngineRef) -> Self {
        let others = self.iter().filter(|other| *other != engine);
        Registry { engines: others.chain([engine]).collect(), default: self.default.or(Some(engine)) }
    }

    /// The same, and this is what a new cache has where nothing is said.
    #[must_use]
    pub fn with_default(self, engine: EngineRef) -> Self {
        Registry { default: Some(engine), ..self }
    }

    /// What a new cache has where nothing is said; `None` where there is no engine at all.
    pub fn default_engine(&self) -> Option<EngineRef> {
        self.default
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = EngineRef> + '_ {
        self.engines.iter().copied()
    }

    /// The engine of this name. Errors: there is none; the text says which there are.
    pub fn find(&self, name: &str) -> Result<EngineRef, String> {
        let known = || self.iter().map(|engine| engine.name).collect::<Vec<_>>().join(", ");
        self.iter()
            .find(|engine| engine.name == name)
            .ok_or_else(|| format!("there is no engine {name:?}; there are: {}", known()))
    }

    /// Every setting of any engine, once, by name.
    pub fn settings(&self) -> Vec<&'static Setting> {
        let mut all: Vec<_> = self.iter().flat_map(|engine| engine.settings.iter().copied()).collect();
        all.sort_by_key(|setting| setting.name);
        all.dedup();
        all
    }

    /// The engines that have a setting, as they are listed in a sentence.
    pub fn with_setting(&self, setting: &Setting) -> String {
        let names: Vec<_> = self.iter().filter(|engine| engine.has(setting)).map(|engine| engine.name).collect();
        match &names[..] {
            [] => "another engine".to_owned(),
            [one] => (*one).to_owned(),
            [others @ .., last] => format!("{} or {last}", others.join(", ")),
        }
    }

    /// What is wrong with settings for an engine in a cache of so many bytes, and what to do about it; `None` if nothing is.
    pub fn wrong(&self, engine: &EngineRecord, settings: &Settings, disk_bytes: u64) -> Option<String> {
        if let Some(why) = settings.iter().find_map(|(setting, value)| setting.refusal(value)) {
            return Some(why);
        }
        if let Some((setting, _)) = settings.iter().find(|(setting, value)| engine.lacks(setting, *value)) {
            let (missing, others) = (setting.missing, self.with_setting(setting));
            return Some(format!("{engine} {missing}: leave that out, or choose {others}"));
        }
        (engine.wrong)(settings, disk_bytes)
    }
}
