//! A file to measure a disk by, gone when it is let go of.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tinaja_clock::Clock;

use super::TuneError;
use crate::device::file::free_bytes;
use crate::device::{Access, Device, Disk, Io, IoEngine, blocking};
use crate::memory::AlignedBuf;

/// The largest file, and the smallest that reads of all sizes can be spread over.
const MOST_BYTES: u64 = 256 << 20;
const LEAST_BYTES: u64 = 4 << 20;
const PIECE_BYTES: usize = 1 << 20;

/// A file that was written: reads of what a file system only reserved do not reach the disk.
pub(super) struct Scratch {
    disk: Option<Disk>,
    path: PathBuf,
    bytes: u64,
}

impl Scratch {
    /// Write as much as the time allows, an eighth of what is free at most. Errors: [`TuneError`].
    pub(super) fn make(clock: &Clock, dir: &Path, time: Duration) -> Result<Self, TuneError> {
        let began = clock.now();
        let free = free_bytes(dir).unwrap_or(u64::MAX);
        let bytes = (free / 8).min(MOST_BYTES) & !(PIECE_BYTES as u64 - 1);
        if bytes < LEAST_BYTES {
            return Err(TuneError::Full { dir: dir.display().to_string(), free, needed: 8 * LEAST_BYTES });
        }
        let path = dir.join(format!("tinaja-tune-{}.scratch", std::process::id()));
        Disk::create(&path, bytes, &[])?;
        // From here on the file goes with this.
        let mut scratch = Scratch { disk: None, path, bytes: 0 };
        let io = Io { engine: IoEngine::Threads, threads: 1, clock: clock.clone() };
        let disk = Disk::open(&scratch.path, Access::Alone, &io)?;
        let is_direct = disk.geometry().direct;
        let disk = scratch.disk.insert(disk);
        if !is_direct {
            return Err(TuneError::Cached(dir.display().to_string()));
        }
        while scratch.bytes < bytes && (scratch.bytes < LEAST_BYTES || clock.since(began) < time) {
            let mut piece = AlignedBuf::zeroed(PIECE_BYTES);
            // Not zeros: there are disks that do not write those.
            let number = scratch.bytes.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
            for (word, nth) in piece.chunks_exact_mut(8).zip(1_u64..) {
                word.copy_from_slice(&number.wrapping_mul(nth).to_le_bytes());
            }
            let failed = |error| TuneError::Failed(format!("cannot write {}: {error}", scratch.path.display()));
            blocking::write(disk, scratch.bytes, piece).map_err(failed)?;
            scratch.bytes += PIECE_BYTES as u64;
        }
        Ok(scratch)
    }

    /// Bytes that were written.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What to read. It is there once the file was made.
    pub(super) fn device(&self) -> Result<&Disk, TuneError> {
        self.disk.as_ref().ok_or_else(|| TuneError::Failed("the file for the measurement is gone".into()))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(disk) = self.disk.take() {
            disk.stop();
        }
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!("cannot remove {}, which is no longer needed: {error}", self.path.display());
        }
    }
}
