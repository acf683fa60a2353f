//! What raw block devices have that files have not: a size that only the kernel knows, sectors, and something on them.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;

use rustix::fs::ioctl_blksszget;

use super::OpenDiskError;
use crate::memory::aligned::ALIGN;

/// The part of a device whose bytes tell whether something is on it: partition tables and file systems begin here, the
/// last of them (Btrfs, RAID, ZFS) within the first 128 KiB.
pub(crate) const TELLING_BYTES: u64 = 1 << 20;

/// Whether this path is a block device.
pub fn is_block_device(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.file_type().is_block_device())
}

/// A block device's size and the size of its sectors.
pub(super) fn measure(mut device: &File, path: &Path) -> Result<(u64, Option<u64>), OpenDiskError> {
    let system = |error| OpenDiskError::System { what: "measure", path: path.to_path_buf(), error };
    let bytes = device.seek(SeekFrom::End(0)).map_err(system)?;
    let sector = u64::from(ioctl_blksszget(device).map_err(|errno| system(errno.into()))?);
    if sector > ALIGN as u64 {
        return Err(OpenDiskError::Sectors { path: path.to_path_buf(), bytes: sector });
    }
    Ok((bytes, Some(sector)))
}

/// The size of a block device, and whether the beginning of it holds nothing but zeros. It is not claimed for this.
pub(crate) fn look(path: &Path) -> Result<(u64, bool), OpenDiskError> {
    let system = |what| move |error| OpenDiskError::System { what, path: path.to_path_buf(), error };
    let device = File::open(path).map_err(system("open"))?;
    let (bytes, _) = measure(&device, path)?;
    let mut first = vec![0; TELLING_BYTES.min(bytes) as usize];
    device.read_exact_at(&mut first, 0).map_err(system("read"))?;
    Ok((bytes, first.iter().all(|&byte| byte == 0)))
}
