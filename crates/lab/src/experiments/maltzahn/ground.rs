//! What files lie on while they are measured: for root a disk of their own with little memory, for others a directory, and what the kernel counts of this
//! process.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::error::LabError;
use crate::experiment::Setup;
use crate::peers::{Bench, BenchOptions, DiskCount, FileSystem, needs_root, of_process};

/// Of a control group that is given its limit later.
pub const UNLIMITED: u64 = 1 << 40;

/// See the module.
pub enum Ground {
    /// A disk of its own, whose requests the kernel counts.
    Disk(Box<Bench>),
    /// A directory on whatever disk there is. What this process reads and writes is counted, in pages, whoever it is for.
    Directory(TempDir),
}

impl Ground {
    /// One with room for so many bytes. Errors: as [`Bench::make`]; no directory can be made.
    pub fn make(setup: &Setup, disk_bytes: u64) -> Result<Ground, LabError> {
        if needs_root().is_ok() {
            let options = BenchOptions {
                scratch: setup.scratch.clone(),
                disk_bytes,
                memory_bytes: UNLIMITED,
                files: FileSystem::Ext4,
            };
            return Ok(Ground::Disk(Box::new(Bench::make(&options)?)));
        }
        let dir = tempfile::tempdir_in(&setup.scratch).map_err(|why| LabError::failed("making a directory", why))?;
        Ok(Ground::Directory(dir))
    }

    /// Where files may be made.
    pub fn dir(&self) -> PathBuf {
        match self {
            Ground::Disk(bench) => bench.mounted(),
            Ground::Directory(dir) => Path::to_path_buf(dir.path()),
        }
    }

    /// Requests so far, or pages.
    pub fn count(&self) -> DiskCount {
        match self {
            Ground::Disk(bench) => bench.disk(),
            Ground::Directory(_) => of_process(std::process::id()),
        }
    }

    /// Bytes of files that are still to be written, where that is known.
    pub fn dirty_bytes(&self) -> u64 {
        match self {
            Ground::Disk(bench) => bench.dirty_bytes(),
            Ground::Directory(_) => 0,
        }
    }

    /// As [`Bench::write_through`], where blocks are allocated beforehand for the measurement's sake.
    pub fn write_through(&self, file: &Path) -> Result<(), LabError> {
        match self {
            Ground::Disk(bench) => bench.write_through(file),
            Ground::Directory(_) => Ok(()),
        }
    }

    /// How far the kernel reads ahead in files, in KiB, where that is known.
    pub fn read_ahead_kib(&self) -> Option<u64> {
        match self {
            Ground::Disk(bench) => bench.read_ahead_kib(),
            Ground::Directory(_) => None,
        }
    }

    /// See to it that files have so much memory, where there are limits.
    pub fn leave_for_files(&self, bytes: u64) -> Result<(), LabError> {
        match self {
            Ground::Disk(bench) => bench.leave_for_files(bytes),
            Ground::Directory(_) => Ok(()),
        }
    }

    /// Do something under the limits that there are.
    pub fn within<T>(&self, work: impl FnOnce() -> T) -> Result<T, LabError> {
        match self {
            Ground::Disk(bench) => bench.within(work),
            Ground::Directory(_) => Ok(work()),
        }
    }
}

/// How it was counted, for a report.
pub fn note() -> String {
    if needs_root().is_ok() {
        "Counted at the block layer: requests of two loop devices with ext4 on them, files and mapped file apart, with the memory that is said.".to_owned()
    } else {
        "**Without root**: no disks and no limit of memory. Counted are 4 KiB pages that the kernel says this process has read from a disk and written \
         (read_bytes and write_bytes of /proc/self/io), files and mapped file together, each page when it is changed first: what comes from the page \
         cache is not counted, and neither are inodes and directories. Run it as root to count a disk's requests."
            .to_owned()
    }
}
