//! A file or block device as a device; files are created whole. Both are locked against other
//! processes, read and written past the page cache.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustix::fs::{OFlags, statvfs};
use tinaja_clock::Clock;

use super::block::{self, is_block_device};
use super::engine::{Carrier, Io, IoEngine};
use super::fence::Fence;
use super::tally::Tally;
use super::{Counters, Device, Geometry, Kind, Op};
use crate::memory::AlignedBuf;

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading and writing, alone.
    Alone,
    /// Reading, while nobody writes.
    ReadOnly,
}

/// Why a file could not be opened as a device.
#[derive(Debug, thiserror::Error)]
pub enum OpenDiskError {
    /// Another process has it.
    #[error("{0} is in use by another process: stop that one, or choose another directory")]
    InUse(PathBuf),
    /// Writes of a process that was killed have not arrived after two minutes.
    #[error(
        "writes to {0} are still on their way, of a process that has ended: look whether its disk hangs, and start again"
    )]
    OnTheirWay(PathBuf),
    /// The block device is claimed.
    #[error(
        "{0} is mounted, or in use by another process, RAID, LVM or swap: unmount or stop that, or name another device"
    )]
    Claimed(PathBuf),
    /// The block device has sectors too large.
    #[error("{path} has sectors of {bytes} bytes, and a cache needs 4096 or less: name another device")]
    Sectors {
        /// Which.
        path: PathBuf,
        /// How large.
        bytes: u64,
    },
    /// The system said no.
    #[error("cannot {what} {path}: {error}{}", advice(.error))]
    System {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// The answer.
        error: io::Error,
    },
}

/// What to do about an error of a file system's; empty where nobody knows.
pub(crate) fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::PermissionDenied => " (give this user the right to write there, or choose another directory)",
        ErrorKind::ReadOnlyFilesystem => " (choose a directory on a file system that can be written to)",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            " (make room, choose a smaller size, or another directory)"
        }
        ErrorKind::NotADirectory | ErrorKind::AlreadyExists => " (choose a path where a directory can be)",
        _ => "",
    }
}

/// An open file or block device of fixed size. Its threads end when it is dropped.
pub struct Disk {
    carrier: Carrier,
    geometry: Geometry,
    /// The same, for whoever reads it himself.
    reader: Arc<File>,
    counters: Arc<Tally>,
    /// Closed when the disk is stopped or released: a block device is held by the open file itself.
    lock: Mutex<Option<File>>,
    /// Around what is on its way to the file.
    fence: Mutex<Option<Fence>>,
    /// Another process may have it, so nothing is written here.
    released: AtomicBool,
}

impl Disk {
    /// Open a file or a block device. Direct I/O is used where the file system has it; where it has not, that is
    /// logged once. Errors: [`OpenDiskError`].
    pub fn open(path: &Path, access: Access, io: &Io) -> Result<Self, OpenDiskError> {
        let system = |what| move |error| OpenDiskError::System { what, path: path.to_path_buf(), error };
        let is_block = is_block_device(path);
        let write = access == Access::Alone;
        let open = |flags| OpenOptions::new().read(true).write(write).custom_flags(bits(flags)).open(path);
        // For a block device this flag asks that nobody else has claimed it, and claims it.
        let claim = if is_block && write { OFlags::EXCL } else { OFlags::empty() };
        let plain = open(claim).map_err(|error| match error.kind() {
            ErrorKind::ResourceBusy => OpenDiskError::Claimed(path.to_path_buf()),
            _ => system("open")(error),
        })?;
        lock(&plain, access, path)?;
        let (bytes, sector) = if is_block {
            block::measure(&plain, path)?
        } else {
            (plain.metadata().map_err(system("examine"))?.len(), None)
        };
        let smallest = |file: &File| sector.or_else(|| block_bytes(file));
        let direct = open(OFlags::DIRECT).ok().and_then(|file| Some((smallest(&file)?, file)));
        let (file, block_bytes, is_direct) = match direct {
            Some((block, file)) => (file, block, true),
            None => {
                tracing::warn!("{} cannot be read past the page cache: using buffered I/O", path.display());
                (open(OFlags::empty()).map_err(system("open"))?, 4096, false)
            }
        };
        let fence = Mutex::new(Fence::put_up(&file, access, path, &io.clock)?);
        let flags = if is_direct { OFlags::DIRECT } else { OFlags::empty() };
        let reader = OpenOptions::new().read(true).custom_flags(bits(flags)).open(path).map_err(system("open"))?;
        let counters = Arc::new(Tally::by(io.clock.clone()));
        let carrier = Carrier::start(file, io.engine, io.threads, &counters).map_err(system(match io.engine {
            IoEngine::Uring => "start io_uring for",
            _ => "start threads for",
        }))?;
        let geometry = Geometry { bytes, block_bytes, direct: is_direct };
        let (reader, lock) = (Arc::new(reader), Mutex::new(Some(plain)));
        Ok(Disk { carrier, geometry, reader, counters, lock, fence, released: AtomicBool::new(false) })
    }

    /// Who carries out the requests: [`IoEngine::Uring`] or [`IoEngine::Threads`].
    pub fn engine(&self) -> IoEngine {
        self.carrier.engine()
    }

    /// The same file or block device once more, open for reading only and in the same way, past the page cache or not. It
    /// outlives the disk.
    pub fn reader(&self) -> Arc<File> {
        self.reader.clone()
    }

    /// Create a file of `bytes`, every one of them allocated, that begins with `start`, and put it at `path` only
    /// when it is whole on disk: a crash leaves nothing or all. Only its owner may read it: a cache holds what people
    /// have looked at. Errors: [`OpenDiskError`]; nothing is left behind.
    pub fn create(path: &Path, bytes: u64, start: &[u8]) -> Result<(), OpenDiskError> {
        let new = path.with_extension("new");
        let system = |what| {
            let path = path.to_path_buf();
            move |error| OpenDiskError::System { what, path, error }
        };
        let made = (|| {
            let file = create_anew(&new)?;
            allocate(&file, bytes)?;
            file.write_all_at(start, 0)?;
            file.sync_all()
        })();
        if let Err(error) = made {
            let _ = std::fs::remove_file(&new);
            return Err(system("create")(error));
        }
        std::fs::rename(&new, path).map_err(system("create"))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(system("sync the directory of"))
    }
}

/// Create a file for its owner alone. What a crash has left of this name goes; a link is not followed, whoever has put it there.
/// Errors: the system's; a directory has this name, or somebody was quicker.
pub(crate) fn create_anew(path: &Path) -> io::Result<File> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// What there is of a path: itself, or the nearest that it lies in. Of a relative one that may be the directory that the process
/// is in.
pub fn existing(path: &Path) -> &Path {
    let above = path.ancestors().map(|above| if above.as_os_str().is_empty() { Path::new(".") } else { above });
    above.into_iter().find(|above| above.exists()).unwrap_or(Path::new("."))
}

/// Bytes that a new file in `folder` could take, `None` if the system does not say.
pub fn free_bytes(folder: &Path) -> Option<u64> {
    let stat = statvfs(folder).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// As the standard library takes them.
fn bits(flags: OFlags) -> i32 {
    flags.bits().cast_signed()
}

fn lock(file: &File, access: Access, path: &Path) -> Result<(), OpenDiskError> {
    let locked = if access == Access::Alone { file.try_lock() } else { file.try_lock_shared() };
    locked.map_err(|error| match error {
        TryLockError::WouldBlock => OpenDiskError::InUse(path.to_path_buf()),
        TryLockError::Error(error) => OpenDiskError::System { what: "lock", path: path.to_path_buf(), error },
    })
}

/// The smallest block that direct reads of this file take: 512 or 4096; `None` if it takes neither.
fn block_bytes(file: &File) -> Option<u64> {
    let mut buffer = AlignedBuf::zeroed(4096);
    let mut reads = |len: usize| buffer.get_mut(..len).is_some_and(|part| file.read_at(part, len as u64).is_ok());
    [512, 4096].into_iter().find(|&len| reads(len)).map(|len| len as u64)
}

/// Reserve every byte now, so that a full disk is met here and not in mid-write.
fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    let len = i64::try_from(bytes).map_err(|_| io::Error::from(ErrorKind::FileTooLarge))?;
    // `rustix::fs::fallocate` is the bare system call: where a file system has none, such as ext2, it reserves nothing. The C
    // library then writes to every block.
    // SAFETY: a plain system call on an open file descriptor.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, len) } {
        0 => Ok(()),
        // Some file systems cannot reserve; a sparse file then meets a full disk at a write, which poisons a region.
        libc::EOPNOTSUPP | libc::EINVAL => file.set_len(bytes),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

impl Device for Disk {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn clock(&self) -> &Clock {
        self.counters.clock()
    }

    fn submit(&self, op: Op) {
        if op.request.kind() != Kind::Read && self.released.load(Ordering::Acquire) {
            return op.fail(io::Error::other("the disk was left to another process"));
        }
        self.carrier.submit(op);
    }

    fn counters(&self) -> Counters {
        self.counters.get()
    }

    fn stop(&self) {
        self.carrier.stop();
        self.release();
    }

    fn release(&self) {
        self.released.store(true, Ordering::Release);
        // Now, not when the last reference goes: whoever opens the file next need not wait for that.
        // The fence first: once the lock is gone, somebody may be waiting for it.
        if let Some(fence) = self.fence.lock().take() {
            fence.take_down();
        }
        if let Some(lock) = self.lock.lock().take() {
            let _ = lock.unlock();
        }
    }
}
