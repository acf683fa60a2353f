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

    /// Read an object; whether it is there.
    pub fn get(&mut self, asked: &Asked) -> bool {
        match self.rig.get(asked.object.into()) {
            Ok(found) => found.is_some(),
            Err(error) => {
                self.failed.get_or_insert(error);
                false
            }
        }
    }

    /// Store an object, whether it is there or not.
    pub fn put(&mut self, asked: &Asked) {
        let object = u64::from(asked.object);
        let body_bytes = asked.bytes.saturating_sub(beside_body(object)).max(1);
        if self.rig.put(object, body_bytes, None) {
            self.stored += asked.bytes;
        }
    }

    /// The rig that it is on.
    pub fn rig(&self) -> &Rig {
        &self.rig
    }
}

impl Policy for Engine {
    fn ask(&mut self, asked: &Asked) -> bool {
        let is_hit = self.get(asked);
        if !is_hit {
            self.put(asked);
        }
        is_hit
    }

    fn written(&self) -> Option<(u64, u64)> {
        Some((self.rig.read().writes.bytes, self.stored))
    }
}
