//! Where one server stands: a file system of its own and a group of processes if root asks, else a directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::cores::Cores;
use crate::error::LabError;
use crate::peers::bench::{Bench, BenchOptions, FileSystem, needs_root};
use crate::peers::counters::{self, DiskCount, ProcessCount};

/// Bytes of memory for a server and its page cache: so many that nobody is held back by them.
const MEMORY_BYTES: u64 = 2 << 30;

/// See the module. Dropped, all of it is removed.
pub struct Stand {
    place: Place,
}

enum Place {
    /// A disk that is counted for this server alone.
    Own(Bench),
    /// A directory on a disk that is everybody's: what the kernel counts of the processes stands for the disk.
    Within(TempDir),
}

impl Stand {
    /// Make one, with a disk of so many bytes. Who is not root, or has no loop devices, has a directory, and [`Stand::is_own`] says so. Errors:
    /// not even that can be made.
    pub fn make(scratch: &Path, disk_bytes: u64) -> Result<Stand, LabError> {
        let options = BenchOptions {
            scratch: scratch.to_owned(),
            disk_bytes,
            memory_bytes: MEMORY_BYTES,
            files: FileSystem::Ext4,
        };
        if needs_root().is_ok() {
            match Bench::make(&options) {
                Ok(bench) => return Ok(Stand { place: Place::Own(bench) }),
                Err(why) => tracing::warn!("a directory stands for a disk of its own: {why}"),
            }
        }
        let failed = |why: std::io::Error| LabError::failed("making a directory", why);
        let dir = tempfile::Builder::new().prefix("tinaja-lab-peers-").tempdir_in(scratch).map_err(failed)?;
        fs::create_dir(dir.path().join("mounted")).map_err(failed)?;
        // Servers that give up root's rights must reach their files still.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(dir.path(), open).map_err(failed)?;
        Ok(Stand { place: Place::Within(dir) })
    }

    /// Whether it has a disk of its own.
    pub fn is_own(&self) -> bool {
        self.bench().is_some()
    }

    /// The disk and the group, if it has them.
    pub fn bench(&self) -> Option<&Bench> {
        match &self.place {
            Place::Own(bench) => Some(bench),
            Place::Within(_) => None,
        }
    }

    /// Where objects may lie.
    pub fn disk(&self) -> PathBuf {
        match &self.place {
            Place::Own(bench) => bench.mounted(),
            Place::Within(dir) => dir.path().join("mounted"),
        }
    }

    /// Where all else lies.
    pub fn aside(&self) -> &Path {
        match &self.place {
            Place::Own(bench) => bench.aside(),
            Place::Within(dir) => dir.path(),
        }
    }

    /// A command that runs a program there, on the servers' core.
    pub fn command(&self, cores: &Cores, program: &Path, arguments: &[String]) -> Command {
        let pinned = cores.command(program);
        let mut command = match &self.place {
            Place::Own(bench) => {
                let mut command = bench.command(Path::new(pinned.get_program()));
                command.args(pinned.get_args());
                command
            }
            Place::Within(_) => pinned,
        };
        command.args(arguments);
        command
    }

    /// Processes of this process group there: all that run in the group, if there is one.
    pub fn processes(&self, group: u32) -> Vec<u32> {
        match &self.place {
            Place::Own(bench) => bench.process_ids(),
            Place::Within(_) => counters::of_process_group(group),
        }
    }

    /// Bytes of memory that these processes hold, what they share once.
    pub fn resident_bytes(&self, processes: &[u32]) -> u64 {
        match &self.place {
            Place::Own(bench) => bench.processes().resident_bytes,
            Place::Within(_) => {
                let counts: Vec<_> = processes.iter().filter_map(|pid| counters::process(&pid.to_string())).collect();
                let shared = counts.iter().map(|count| count.shared_bytes).max().unwrap_or_default();
                ProcessCount::together(counts.into_iter(), shared).resident_bytes
            }
        }
    }

    /// What the disk did for these processes so far.
    pub fn counted(&self, processes: &[u32]) -> DiskCount {
        match &self.place {
            Place::Own(bench) => bench.disk(),
            Place::Within(_) => {
                processes.iter().fold(DiskCount::default(), |sum, pid| sum + counters::of_process(*pid))
            }
        }
    }

    /// Have what was written go to the disk. Errors: it does not.
    pub fn sync(&self) -> Result<(), LabError> {
        self.bench().map_or(Ok(()), Bench::sync)
    }

    /// Have the kernel forget the disk's files: with their names and inodes if the disk is this server's alone, else their pages. Errors: the
    /// server still runs, or a file cannot be read.
    pub fn forget(&self) -> Result<(), LabError> {
        match &self.place {
            Place::Own(bench) => bench.forget_files(),
            Place::Within(dir) => {
                let failed = |why: std::io::Error| LabError::failed("dropping pages of files", why);
                forget_pages(&dir.path().join("mounted")).map_err(failed)
            }
        }
    }

    /// Bytes of the disk that files take, if it is this server's alone.
    pub fn used_bytes(&self) -> Option<u64> {
        let told = rustix::fs::statvfs(self.bench()?.mounted()).ok()?;
        Some((told.f_blocks - told.f_bfree) * told.f_frsize)
    }
}

/// Have all files below a directory written out, and their pages dropped.
fn forget_pages(dir: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            forget_pages(&path)?;
        } else {
            let file = fs::File::open(path)?;
            rustix::fs::fdatasync(&file)?;
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stand_has_room_for_files_and_is_gone_afterwards() {
        let scratch = tempfile::tempdir().unwrap();
        let stand = Stand::make(scratch.path(), 32 << 20).unwrap();
        let before = stand.used_bytes();
        assert_eq!(before.is_some(), stand.is_own());
        fs::write(stand.disk().join("file"), vec![1; 1 << 20]).unwrap();
        stand.sync().unwrap();
        stand.forget().unwrap();
        assert_eq!(fs::read(stand.disk().join("file")).unwrap(), vec![1; 1 << 20]);
        if let (Some(before), Some(after)) = (before, stand.used_bytes()) {
            assert!((1 << 20..2 << 20).contains(&(after - before)), "{before} {after}");
        }
        assert!(stand.aside().exists());
        drop(stand);
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
    }
}
