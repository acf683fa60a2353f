//! A file whose reads and writes fail on demand, by FUSE: a loop device over it is a disk that fails below a real file system.
//!
//! A process of its own serves it. While a page of a mapped file is read, no memory of that process can be mapped; a server in it
//! that needed some just then waited for the page, and the page for the server: one of 33 runs hung, and whoever looked at its memory with it.
//!
//! Needs root and /dev/fuse.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, Generation, INodeNo, LockOwner, OpenFlags, ReplyAttr,
    ReplyData, ReplyEmpty, ReplyEntry, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use crate::support::wait_until;

const FILE: INodeNo = INodeNo(2);
const FOREVER: Duration = Duration::from_secs(3600);

/// Where the server is told the directory and the file of the bytes.
const SERVES: &str = "TINAJA_FAILING_DISK";
/// Bytes of the file of faults: whether reads fail, whether writes do, and how many have, in 8 bytes.
const READS_AT: u64 = 0;
const WRITES_AT: u64 = 1;
const FAILED_AT: u64 = 8;

/// What fails, and how often it did: in a file that both processes have.
pub struct Faults(File);

impl Faults {
    pub fn reads(&self, fail: bool) {
        self.set(READS_AT, fail);
    }

    pub fn writes(&self, fail: bool) {
        self.set(WRITES_AT, fail);
    }

    /// Requests that have failed.
    pub fn failed(&self) -> u64 {
        let mut count = [0; 8];
        self.0.read_exact_at(&mut count, FAILED_AT).unwrap();
        u64::from_le_bytes(count)
    }

    fn set(&self, at: u64, fail: bool) {
        self.0.write_all_at(&[u8::from(fail)], at).unwrap();
    }

    fn is_set(&self, at: u64) -> bool {
        let mut one = [0];
        self.0.read_exact_at(&mut one, at).unwrap();
        one != [0]
    }

    /// Of the server's one thread.
    fn fails(&self, at: u64) -> bool {
        let fails = self.is_set(at);
        if fails {
            self.0.write_all_at(&(self.failed() + 1).to_le_bytes(), FAILED_AT).unwrap();
        }
        fails
    }
}

/// A directory with one file, `disk`, for as long as this lives.
pub struct FailingDisk {
    pub faults: Faults,
    dir: PathBuf,
    server: Child,
}

impl FailingDisk {
    /// The file's bytes lie in another one.
    pub fn mount(dir: &Path, bytes: &Path) -> FailingDisk {
        let faults = faults_of(bytes);
        faults.0.set_len(16).unwrap();
        let mut server = Command::new(std::env::current_exe().unwrap());
        server.args(["--exact", "failing_disk::serves", "--ignored"]).stdin(Stdio::piped()).stdout(Stdio::null());
        let server = server.env(SERVES, format!("{}\n{}", dir.display(), bytes.display())).spawn().unwrap();
        let disk = FailingDisk { faults, dir: dir.to_path_buf(), server };
        wait_until("no file is served; this test needs root and /dev/fuse", || disk.file().exists());
        disk
    }

    pub fn file(&self) -> PathBuf {
        self.dir.join("disk")
    }
}

impl Drop for FailingDisk {
    fn drop(&mut self) {
        drop(self.server.stdin.take());
        let _ = self.server.wait();
    }
}

fn faults_of(bytes: &Path) -> Faults {
    let path = bytes.with_extension("faults");
    Faults(File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap())
}

/// The server's process: it ends with what it gets to read, which is nothing.
#[test]
#[ignore = "run by tests with a disk that fails"]
fn serves() {
    let Ok(what) = std::env::var(SERVES) else { return };
    let (dir, bytes) = what.split_once('\n').unwrap();
    let file = File::options().read(true).write(true).open(bytes).unwrap();
    let one = OneFile { size: file.metadata().unwrap().len(), file, faults: faults_of(Path::new(bytes)) };
    let session = fuser::spawn_mount(one, dir, &Config::default()).unwrap();
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    drop(session);
}

struct OneFile {
    file: File,
    size: u64,
    faults: Faults,
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
        if self.faults.fails(READS_AT) || self.file.read_exact_at(&mut into, offset).is_err() {
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
        if self.faults.fails(WRITES_AT) || self.file.write_all_at(data, offset).is_err() {
            return reply.error(Errno::EIO);
        }
        reply.written(data.len() as u32);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        if self.faults.is_set(WRITES_AT) { reply.error(Errno::EIO) } else { reply.ok() }
    }
}
