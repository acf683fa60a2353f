//! What is put on the bench, and how its disks are cut.

use tinaja_store::device::wrap::Model;
use tinaja_store::engine::registry::{Ask, Cut};
use tinaja_store::layout::Stamp;
use tinaja_store::{EngineRef, Secret, Settings, engines};

use crate::error::LabError;

/// The first block of a disk, where a cache has its superblock.
const RESERVED: u64 = 4096;
/// The same for every rig, so that objects lie at the same places each time.
pub(super) const SECRET: [u8; 32] = [0x5A; 32];

/// What is put on the bench.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Which engine.
    pub engine: EngineRef,
    /// Its settings. Where positions lie on a disk of their own, one more disk has those of all others.
    pub settings: Settings,
    /// Bytes of each disk.
    pub disk_bytes: u64,
    /// How many disks; objects are spread over them.
    pub disks: usize,
    /// For which mean size of objects the disks are cut.
    pub mean_object_bytes: u64,
    /// Memory for hot objects, in bytes.
    pub hot_bytes: u64,
    /// The models whose clocks run along. May be empty.
    pub models: Vec<Model>,
}

impl Spec {
    /// One disk of so many bytes, for objects of 8 KiB, without hot objects and without a clock.
    pub fn new(engine: EngineRef, disk_bytes: u64) -> Self {
        let (settings, models) = (Settings::new(), Vec::new());
        Spec { engine, settings, disk_bytes, disks: 1, mean_object_bytes: 8192, hot_bytes: 0, models }
    }

    /// How each disk is cut. Errors: it is too small; that the engine has no disk to itself.
    pub fn cut(&self) -> Result<Box<dyn Cut>, LabError> {
        if engines::on_devices().find(self.engine.name).is_err() {
            return Err(self.refused("it keeps files in a directory, and these disks have none"));
        }
        let cut = self.engine.cut(&Ask {
            bytes: self.disk_bytes,
            reserved: RESERVED,
            mean_object_bytes: self.mean_object_bytes,
            stamp: Stamp { seed: Secret::from_bytes(SECRET).seed() },
            settings: &self.settings,
        });
        cut.ok_or_else(|| self.refused("the disk is too small for it"))
    }

    pub(super) fn refused(&self, why: impl ToString) -> LabError {
        LabError::Engine { engine: self.engine.to_string(), disk_bytes: self.disk_bytes, why: why.to_string() }
    }
}
