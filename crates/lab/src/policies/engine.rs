//! An engine itself, on a disk in memory: what is simulated beside what ships.

use tinaja_store::{EngineRef, Settings};

use super::{Asked, Policy};
use crate::error::LabError;
use crate::rig::{Rig, Spec, beside_body};

/// An engine without hot objects, over a disk of so many bytes, superblock and all.
pub struct Engine {
    rig: Rig,
    stored: u64,
    failed: Option<LabError>,
}

impl Engine {
    /// Empty. Errors: the disk is too small for it.
    pub fn new(
        engine: EngineRef,
        settings: Settings,
        disk_bytes: u64,
        mean_object_bytes: u64,
    ) -> Result<Engine, LabError> {
        let spec = Spec { settings, mean_object_bytes, ..Spec::new(engine, disk_bytes) };
        Ok(Engine { rig: Rig::new(&spec)?, stored: 0, failed: None })
    }

    /// What went wrong, if anything did: other bytes than were stored.
    pub fn failed(&mut self) -> Option<LabError> {
        self.failed.take()
    }

    /// The rig that it is on.
    pub fn rig(&self) -> &Rig {
        &self.rig
    }
}

impl Policy for Engine {
    fn ask(&mut self, asked: &Asked) -> bool {
        let object = u64::from(asked.object);
        match self.rig.get(object) {
            Ok(Some(_)) => return true,
            Ok(None) => {}
            Err(error) => {
                self.failed.get_or_insert(error);
            }
        }
        let body_bytes = asked.bytes.saturating_sub(beside_body(object)).max(1);
        if self.rig.put(object, body_bytes, None) {
            self.stored += asked.bytes;
        }
        false
    }

    fn written(&self) -> Option<(u64, u64)> {
        Some((self.rig.read().writes.bytes, self.stored))
    }
}
