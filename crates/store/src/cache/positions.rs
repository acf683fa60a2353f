//! The file for the positions of HashCache-LogLRU in a directory on a disk of its own (section 5.4).
//!
//! Its first block says what it is; behind it lie the positions. Nothing in it lasts longer than the process that wrote it, so
//! that whoever has it locked may do with it what it likes: a file of another length, or of a cache that is gone, is made
//! anew, and only what is no such file at all is left alone. `docs/formats/hashcache-loglru.md` draws it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::options::{CacheOptions, OpenError};
use crate::device::lending::Lending;
use crate::device::{Access, Device, Disk, OpenDiskError, blocking, is_block_device};
use crate::layout::superblock::SUPERBLOCK_BYTES;

const MAGIC: &[u8; 12] = b"TinajaPo\x01\0\0\0";

/// The file for a disk of the cache, by its number from 0, with room for so many bytes. Errors: there is something else in its
/// place, another process has it, or it cannot be made.
pub(super) fn open(dir: &Path, number: u16, bytes: u64, options: &CacheOptions) -> Result<Arc<dyn Device>, OpenError> {
    if is_block_device(dir) {
        let error = ErrorKind::NotADirectory.into();
        return Err(OpenError::Directory { path: dir.to_path_buf(), error });
    }
    std::fs::create_dir_all(dir).map_err(|error| OpenError::Directory { path: dir.to_path_buf(), error })?;
    let path = path_in(dir, number);
    let mut disk = look(&path, options)?;
    if disk.as_ref().is_none_or(|disk| disk.geometry().bytes != bytes) {
        // Let go of before there is another one in its place: the system may have room for one only.
        drop(disk.take());
        let _ = std::fs::remove_file(&path);
        Disk::create(&path, bytes, MAGIC)?;
    }
    let disk = match disk {
        Some(disk) => disk,
        None => Disk::open(&path, Access::Alone, &options.io_of(options.io_threads))?,
    };
    let reader = disk.reader();
    Ok(Arc::new(Lending::over(Arc::new(disk), reader)))
}

/// Whether [`open`] would refuse what is in the file's place. Nothing is made. Errors as there.
pub(super) fn check(dir: &Path, number: u16, options: &CacheOptions) -> Result<(), OpenError> {
    look(&path_in(dir, number), options).map(drop)
}

fn path_in(dir: &Path, number: u16) -> PathBuf {
    dir.join(format!("tinaja-{}.positions", u32::from(number) + 1))
}

/// The file, locked, if there is one and it is ours.
fn look(path: &Path, options: &CacheOptions) -> Result<Option<Disk>, OpenError> {
    let disk = match Disk::open(path, Access::Alone, &options.io_of(options.io_threads)) {
        Ok(disk) => disk,
        Err(OpenDiskError::System { error, .. }) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if disk.geometry().bytes < SUPERBLOCK_BYTES {
        return Err(OpenError::NotPositions(path.to_path_buf()));
    }
    match blocking::read(&disk, 0, SUPERBLOCK_BYTES as usize) {
        Ok(block) if block.starts_with(MAGIC) => Ok(Some(disk)),
        Ok(_) => Err(OpenError::NotPositions(path.to_path_buf())),
        Err(error) => Err(OpenError::Device { path: path.to_path_buf(), error: error.to_string() }),
    }
}
