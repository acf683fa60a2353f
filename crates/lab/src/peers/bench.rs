//! What a proxy is run on: a disk that the kernel limits, with a file system, and a group of processes with little memory.

use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::cleaner::Cleaner;
use super::counters::{self, DiskCount, ProcessCount};
use super::limits::Group;
use crate::error::LabError;

/// How a bench is made.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// Where its files lie for a while; it must be on a disk, not in memory.
    pub scratch: PathBuf,
    /// Bytes of the disk.
    pub disk_bytes: u64,
    /// Bytes of memory that the proxy and its files' page cache may take together.
    pub memory_bytes: u64,
    /// What is on the disk.
    pub files: FileSystem,
}

/// A file system on the disk of a [`Bench`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileSystem {
    /// ext4 with blocks of 4 KiB.
    #[default]
    Ext4,
    /// ext2 with blocks of so many bytes: 1024, 2048 or 4096. The kernel may have ext4's driver do it: [`Bench::is_by_ext4`].
    Ext2(u32),
}

impl fmt::Display for FileSystem {
    /// As in `ext2, blocks of 4 KiB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileSystem::Ext4 => f.write_str("ext4"),
            FileSystem::Ext2(block_bytes) => write!(f, "ext2, blocks of {} KiB", block_bytes >> 10),
        }
    }
}

impl FileSystem {
    /// The tool that makes it, and the size of its blocks.
    fn made_by(self) -> (&'static str, &'static str, u32) {
        match self {
            FileSystem::Ext4 => ("mkfs.ext4", "lazy_itable_init=0,lazy_journal_init=0", 4096),
            FileSystem::Ext2(block_bytes) => ("mkfs.ext2", "lazy_itable_init=0", block_bytes),
        }
    }
}

/// A file as a disk (a loop device past the page cache), a file system on it, and a control group. One at a time is in use.
///
/// Dropped, killed or crashed: the limits are lifted, what runs in the group is ended, and all of it is removed.
pub struct Bench {
    scratch: PathBuf,
    /// The loop device, as in /dev/loop0, and its numbers, as in 7:0.
    device: String,
    numbers: String,
    group: Group,
    // Dropped last, it waits until all is gone.
    _cleaner: Cleaner,
}

/// Why a bench cannot be made by this user, if so.
///
/// Errors: it is not root.
pub fn needs_root() -> Result<(), LabError> {
    if rustix::process::geteuid().is_root() { Ok(()) } else { Err(LabError::NeedsRoot) }
}

/// Files that this process, and each that it starts, can have open: both ends of what 200 clients and a proxy keep open, and
/// more. Login shells have 1024.
const OPEN_FILES: u64 = 16_384;

/// See to it that clients and origin can have their connections. Errors: this user may not have so many files open.
pub fn allow_open_files() -> Result<(), LabError> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= OPEN_FILES) {
        return Ok(());
    }
    let maximum = maximum.map(|maximum| maximum.max(OPEN_FILES));
    setrlimit(Resource::Nofile, Rlimit { current: Some(OPEN_FILES), maximum }).map_err(|why| {
        LabError::failed("allowing for connections", format!("{OPEN_FILES} open files: {why}; see ulimit -H -n"))
    })
}

impl Bench {
    /// Make one. Errors: not root, no loop devices, no control groups, or a file system in memory.
    pub fn make(options: &BenchOptions) -> Result<Bench, LabError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        needs_root()?;
        let name = format!("tinaja-lab-peers-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let scratch = options.scratch.join(&name);
        let failed = |why: std::io::Error| LabError::failed("making a directory", why);
        fs::create_dir(&scratch).map_err(failed)?;
        // From here on whatever is made is taken away again.
        let cleaner = Cleaner::begin(&scratch, &Group::path_of(&name))?;
        // Squid gives up root's rights and must reach its files still.
        fs::set_permissions(&scratch, fs::Permissions::from_mode(0o755)).map_err(failed)?;
        fs::create_dir(scratch.join("mounted")).map_err(failed)?;
        let device = attach(&scratch, options.disk_bytes, options.files)?;
        let numbers = system_file(&device, "dev")?;
        let group = Group::make(&name, options.memory_bytes)?;
        Ok(Bench { scratch, device, numbers, group, _cleaner: cleaner })
    }

    /// Where the limited disk is mounted.
    pub fn mounted(&self) -> PathBuf {
        self.scratch.join("mounted")
    }

    /// A directory that is on another disk, without limits: for settings and logs.
    pub fn aside(&self) -> &Path {
        &self.scratch
    }

    /// A command that will run in the group, with all that it starts.
    pub fn command(&self, program: &Path) -> Command {
        // It enters before the program begins, so that all of its memory is on the group's account.
        let mut command = Command::new("sh");
        command.args(["-c", r#"echo $$ >"$0" && exec "$@""#]).arg(self.group.processes()).arg(program);
        command
    }

    /// Write a file of zeros and more over itself, as it will have been once a cache was full.
    ///
    /// Of a file that was only allocated ext4 keeps what was written apart from what was not, and one request of a program
    /// becomes one to the disk for each written part.
    pub fn write_through(&self, file: &Path) -> Result<(), LabError> {
        let name = |kind: &str| format!("{kind}={}", file.display());
        let mut copy = Command::new("dd");
        copy.args([name("if"), name("of")]).args([
            "bs=1M",
            "conv=notrunc,fsync",
            "iflag=direct",
            "oflag=direct",
            "status=none",
        ]);
        run(&mut copy).map(drop)
    }

    /// Have all that was written go to the disk. Errors: it does not.
    pub fn sync(&self) -> Result<(), LabError> {
        run(Command::new("sync").arg("--file-system").arg(self.mounted())).map(drop)
    }

    /// Have all that was written go to the disk, and from now on let it take so many reads and so many writes a second.
    pub fn limit(&self, requests: u64) -> Result<(), LabError> {
        self.sync()?;
        self.group.limit_disk(&self.numbers, Some(requests))
    }

    /// From now on let the disk read so many bytes a second, and write so many. Errors: the kernel has no such limit.
    pub fn limit_bytes(&self, bytes: u64) -> Result<(), LabError> {
        self.group.limit_disk_bytes(&self.numbers, Some(bytes))
    }

    /// Lift the disk's limits: a server that is ended waits for what it has under way, and that may be minutes of them. Errors: as
    /// [`Bench::limit_bytes`].
    pub fn lift_limits(&self) -> Result<(), LabError> {
        self.group.limit_disk(&self.numbers, None)?;
        self.group.limit_disk_bytes(&self.numbers, None)
    }

    /// Have the kernel forget the disk's files and directories: all is written out and mounted again. Errors: something on it is
    /// in use.
    pub fn forget_files(&self) -> Result<(), LabError> {
        self.sync()?;
        run(Command::new("umount").arg(self.mounted()))?;
        mount(&self.device, &self.mounted())
    }

    /// Whether the driver of the disk's file system is ext4's, which may do ext2 too.
    pub fn is_by_ext4(&self) -> bool {
        Path::new("/sys/fs/ext4").join(self.device.trim_start_matches("/dev/")).exists()
    }

    /// Do something under the same limits as what [`Bench::command`] starts: all of this process, and for good what it
    /// starts meanwhile. Errors: this process is not let into the group.
    pub fn within<T>(&self, work: impl FnOnce() -> T) -> Result<T, LabError> {
        self.group.within(work)
    }

    /// How far the kernel reads ahead in files on it, in KiB.
    pub fn read_ahead_kib(&self) -> Option<u64> {
        let name = self.device.trim_start_matches("/dev/");
        fs::read_to_string(format!("/sys/block/{name}/queue/read_ahead_kb")).ok()?.trim().parse().ok()
    }

    /// What the disk did so far.
    pub fn disk(&self) -> DiskCount {
        counters::disk(self.device.trim_start_matches("/dev/")).unwrap_or_default()
    }

    /// What the processes of the group took so far.
    pub fn processes(&self) -> ProcessCount {
        self.group.count()
    }

    /// The numbers of the group's processes.
    pub fn process_ids(&self) -> Vec<u32> {
        self.group.process_ids()
    }

    /// Processes of the group that the kernel has ended so far because there was no more memory for them. Others may go on:
    /// a proxy of several processes begins such a one anew.
    pub fn ended_for_memory(&self) -> u64 {
        self.group.ended_for_memory()
    }

    /// Let the group take so much memory for files beside what its programs have of their own at this moment. What the kernel keeps of files
    /// counts as theirs, bytes as well as inodes, names and pages of directories: on a machine with so little memory they had to share it too. As
    /// the programs grow it is to be called again and again.
    ///
    /// Errors: the group has more and cannot give it back; the second version of control groups ends processes then. ext4 cannot give back
    /// what its journal still has to write in place, as many bytes as the journal has at most: leave files more than that.
    pub fn leave_for_files(&self, bytes: u64) -> Result<(), LabError> {
        self.group.limit_memory(self.group.own_bytes() + bytes)
    }

    /// Let the group take so much memory for the contents of files beside all else that it has at this moment, inodes and names too:
    /// for a comparison with a program whose tables do not count either. To be called again and again. Errors: the
    /// kernel has no such limit.
    pub fn leave_for_page_cache(&self, bytes: u64) -> Result<(), LabError> {
        self.group.hold_to(self.group.bytes_beside_page_cache() + bytes)
    }

    /// Bytes of the page cache on the group's account that the disk has not got yet.
    pub fn dirty_bytes(&self) -> u64 {
        self.group.dirty_bytes()
    }

    /// Bytes of the page cache on the group's account.
    pub fn page_cache_bytes(&self) -> u64 {
        self.group.page_cache_bytes()
    }
}

/// How far the kernel reads ahead in files: what it does by itself on most disks.
const READ_AHEAD_KIB: u32 = 128;

/// Make the disk and mount it; its name.
fn attach(scratch: &Path, bytes: u64, files: FileSystem) -> Result<String, LabError> {
    let (image, mounted) = (scratch.join("disk"), scratch.join("mounted"));
    run(Command::new("fallocate").args(["--length", &bytes.to_string()]).arg(&image))?;
    let device = run(Command::new("losetup").args(["--find", "--show", "--direct-io=on"]).arg(&image))?;
    let device = device.trim().to_owned();
    if system_file(&device, "loop/dio")? != "1" {
        let why =
            format!("{} is in memory, or cannot be read past the page cache: set TMPDIR to a disk", scratch.display());
        return Err(LabError::failed("making a disk of a file", why));
    }
    // Of what lies below a loop device the kernel may conclude another one, and a read would be of 2.5 MiB.
    let read_ahead = Path::new("/sys/block").join(device.trim_start_matches("/dev/")).join("queue/read_ahead_kb");
    fs::write(read_ahead, READ_AHEAD_KIB.to_string())
        .map_err(|why| LabError::failed("setting how far the kernel reads ahead", why))?;
    // Without lazy initialisation, whose writes would be counted as the proxy's.
    // Blocks of the kernel's pages, which small disks would not have, and inodes for as many files as there are of them.
    let (tool, extended, block_bytes) = files.made_by();
    let shape = ["-q", "-m", "0", "-b", &block_bytes.to_string(), "-i", "4096", "-E", extended];
    run(Command::new(tool).args(shape).arg(&device))?;
    mount(&device, &mounted)?;
    Ok(device)
}

fn mount(device: &str, at: &Path) -> Result<(), LabError> {
    run(Command::new("mount").args(["-o", "noatime", device]).arg(at)).map(drop)
}

fn system_file(device: &str, file: &str) -> Result<String, LabError> {
    let path = Path::new("/sys/block").join(device.trim_start_matches("/dev/")).join(file);
    let text = fs::read_to_string(&path);
    text.map(|text| text.trim().to_owned()).map_err(|why| LabError::failed("asking for a loop device", why))
}

/// Run a tool; what it said.
pub fn run(command: &mut Command) -> Result<String, LabError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |why: String| LabError::failed("preparing a disk or a server", format!("{name}: {why}"));
    let output = command.output().map_err(|why| failed(why.to_string()))?;
    if !output.status.success() {
        return Err(failed(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
