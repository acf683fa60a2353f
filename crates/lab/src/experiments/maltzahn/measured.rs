//! What was counted of one layout.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::peers::DiskCount;

/// What was counted in the measured half.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub struct Measured {
    pub requests: u64,
    pub hits: u64,
    pub files: DiskCount,
    pub mapped: DiskCount,
    pub faults: u64,
    /// Of the mapped file in memory, in the end.
    pub resident_bytes: u64,
    pub took: Duration,
    /// How far the kernel reads ahead in files, in KiB.
    pub read_ahead_kib: Option<u64>,
}

impl Measured {
    pub fn transactions(&self) -> u64 {
        [self.files, self.mapped].iter().map(|disk| disk.reads + disk.writes).sum()
    }
}
