//! A file whose reads and writes fail on demand, by FUSE: a loop device over it is a disk that fails below a real file system.
//!
//! Needs root and /dev/fuse.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, Generation, INodeNo, LockOwner,
    OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

const FILE: INodeNo = INodeNo(2);
const FOREVER: Duration = Duration::from_secs(3600);

/// What fails, and how often it did.
#[derive(Default)]
pub struct Faults {
    pub reads: AtomicBool,
    pub writes: AtomicBool,
    pub failed: AtomicU64,
}

impl Faults {
    fn fails(&self, kind: &AtomicBool) -> bool {
        let fails = kind.load(SeqCst);
        self.failed.fetch_add(fails.into(), SeqCst);
        fails
    }
}

/// A directory with one file, `disk`, for as long as this lives.
pub struct FailingDisk {
    pub faults: Arc<Faults>,
    dir: PathBuf,
    _session: BackgroundSession,
}

impl FailingDisk {
    /// The file's bytes lie in another one.
    pub fn mount(dir: &Path, bytes: &Path) -> FailingDisk {
        let faults = Arc::new(Faults::default());
        let file = File::options().read(true).write(true).open(bytes).unwrap();
        let one = OneFile { size: file.metadata().unwrap().len(), file, faults: faults.clone() };
        let session = fuser::spawn_mount(one, dir, &Config::default());
        let session = session.unwrap_or_else(|error| panic!("{error}; this test needs root and /dev/fuse"));
        FailingDisk { faults, dir: dir.to_path_buf(), _session: session }
    }

    pub fn file(&self) -> PathBuf {
        self.dir.join("disk")
    }
}

struct OneFile {
    file: File,
    size: u64,
    faults: Arc<Faults>,
}

impl OneFile {
    fn attributes(&self, node: INodeNo) -> FileAttr {
        let is_file = node == FILE;
        FileAttr {
            ino: node,
            size: if is_file { self.size } else { 0 },
            blocks: if is_file { self.size / 512 } else { 0 },
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_file { FileType::RegularFile } else { FileType::Directory },
            perm: if is_file { 0o600 } else { 0o700 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            flags: 0,
            blksize: 4096,
        }
    }
}

impl Filesystem for OneFile {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match name.to_str() {
            Some("disk") => reply.entry(&FOREVER, &self.attributes(FILE), Generation(0)),
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOREVER, &self.attributes(node));
    }

    fn setattr(
        &self,
        _: &Request,
        node: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<std::time::SystemTime>,
        _: Option<FileHandle>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        reply.attr(&FOREVER, &self.attributes(node));
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut into = vec![0; (size as usize).min(self.size.saturating_sub(offset) as usize)];
        if self.faults.fails(&self.faults.reads) || self.file.read_exact_at(&mut into, offset).is_err() {
            return reply.error(Errno::EIO);
        }
        reply.data(&into);
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        if self.faults.fails(&self.faults.writes) || self.file.write_all_at(data, offset).is_err() {
            return reply.error(Errno::EIO);
        }
        reply.written(data.len() as u32);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        if self.faults.writes.load(SeqCst) { reply.error(Errno::EIO) } else { reply.ok() }
    }
}
