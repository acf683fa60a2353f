//! What raw block devices have that files have not: a size that only the kernel knows, sectors, and something on them.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;

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
    let mut sector: libc::c_int = 0;
    // SAFETY: this request writes one int, and `sector` is one.
    if unsafe { libc::ioctl(device.as_raw_fd(), libc::BLKSSZGET as _, &mut sector) } != 0 {
        return Err(system(std::io::Error::last_os_error()));
    }
    match u64::try_from(sector) {
        Ok(sector) if sector <= ALIGN as u64 => Ok((bytes, Some(sector))),
        _ => Err(OpenDiskError::Sectors { path: path.to_path_buf(), bytes: sector.unsigned_abs().into() }),
    }
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
