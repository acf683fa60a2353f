//! A cache on a whole block device: formatted only where nothing is, and never in place of something else.

use std::path::Path;

use super::options::{CacheOptions, OpenError};
use crate::device::block::{TELLING_BYTES, look};
use crate::device::{Access, Device, Disk, blocking, is_block_device};
use crate::layout::superblock::SUPERBLOCK_BYTES;
use crate::layout::{Superblock, SuperblockError};
use crate::memory::AlignedBuf;

/// Whether there is something at this path: a file, or a device that is not blank. What cannot be looked at is taken to
/// be there, so that nothing is put in its place.
pub(super) fn is_there(path: &Path) -> bool {
    if is_block_device(path) {
        return look(path).map_or(true, |(_, blank)| !blank);
    }
    path.try_exists().unwrap_or(true)
}

/// The bytes of a block device, `None` for any other path.
pub(super) fn device_bytes(path: &Path) -> Result<Option<u64>, OpenError> {
    if is_block_device(path) { Ok(Some(look(path)?.0)) } else { Ok(None) }
}

/// Put a superblock on a device that is blank. It is claimed and looked at once more before.
pub(super) fn format(path: &Path, options: &CacheOptions, superblock: &Superblock) -> Result<(), OpenError> {
    let device = Disk::open(path, Access::Alone, &options.io_of(1))?;
    let made = (|| {
        let bytes = TELLING_BYTES.min(device.geometry().bytes) as usize;
        if blocking::read(&device, 0, bytes)?.iter().any(|&byte| byte != 0) {
            return Ok(false);
        }
        let mut block = AlignedBuf::zeroed(SUPERBLOCK_BYTES as usize);
        block.copy_from_slice(&superblock.encode());
        blocking::write(&device, 0, block)?;
        blocking::sync(&device).map(|()| true)
    })();
    device.stop();
    match made {
        Ok(true) => Ok(()),
        Ok(false) => Err(refused(path, &SuperblockError::NotOurs)),
        Err(error) => Err(OpenError::Device { path: path.to_path_buf(), error: error.to_string() }),
    }
}

/// Why what is on a device is no cache that this program reads, and how to clear it.
pub(super) fn refused(path: &Path, error: &SuperblockError) -> OpenError {
    let found = match error {
        SuperblockError::NotOurs => "holds something that is not a Tinaja cache".to_string(),
        SuperblockError::OtherVersion(version) => format!("holds a Tinaja cache of format version {version}"),
        SuperblockError::OldTable => "holds a Tinaja cache with a Disk Table of format version 1".to_string(),
        SuperblockError::Damaged => "holds a Tinaja cache with a damaged superblock".to_string(),
    };
    OpenError::Occupied { path: path.to_path_buf(), found }
}
