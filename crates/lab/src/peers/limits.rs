//! Control groups: how much memory the servers may take, and how many requests a second the disk takes.

use std::fs;
use std::path::{Path, PathBuf};

use super::counters::{self, ProcessCount};
use crate::error::LabError;

const ROOT: &str = "/sys/fs/cgroup";

/// A control group of the servers' own.
///
/// In the first version of control groups the disk is limited for everybody, in the root group: a child's limit would hold
/// direct requests only, not what the kernel writes later. In the second version a group's limit holds both.
pub struct Group {
    path: PathBuf,
    is_first_version: bool,
}

/// Where the group of this name lies, and whether it is of the first version.
fn place(name: &str) -> (PathBuf, bool) {
    let first = Path::new(ROOT).join("memory");
    let is_first_version = first.is_dir();
    (if is_first_version { first } else { PathBuf::from(ROOT) }.join(name), is_first_version)
}

impl Group {
    /// Where a group of this name would lie.
    pub fn path_of(name: &str) -> PathBuf {
        place(name).0
    }

    /// A group that may take so much memory, the caches of its files included. Errors: it cannot be made.
    pub fn make(name: &str, memory_bytes: u64) -> Result<Group, LabError> {
        let failed = |why: std::io::Error| LabError::failed("making a control group with a memory limit", why);
        let (path, is_first_version) = place(name);
        if !is_first_version {
            // Already so under most inits; where it cannot be, the limit below fails and says it.
            let _ = fs::write(Path::new(ROOT).join("cgroup.subtree_control"), "+memory +io");
        }
        fs::create_dir(&path).map_err(failed)?;
        let group = Group { path, is_first_version };
        group.limit_memory(memory_bytes)?;
        Ok(group)
    }

    /// Let it take so much memory. Errors: it has more already and cannot give it back; the second version ends processes then.
    pub fn limit_memory(&self, bytes: u64) -> Result<(), LabError> {
        let limit = if self.is_first_version { "memory.limit_in_bytes" } else { "memory.max" };
        let failed = |why| LabError::failed("making a control group with a memory limit", why);
        fs::write(self.path.join(limit), bytes.to_string()).map_err(failed)
    }

    /// Let it take so much memory, but never end its processes for it: where all of that is on its way to the disk they wait. In
    /// little memory on a busy machine the kernel has ended who had 12 MB, for 6 MB of pages that were being written. A limit
    /// below what cannot be given back at once stays as it was, until this is called again. Errors: the kernel has no such
    /// limit.
    pub fn hold_to(&self, bytes: u64) -> Result<(), LabError> {
        let failed = |why| LabError::failed("limiting the memory of a control group", why);
        if !self.is_first_version {
            return fs::write(self.path.join("memory.high"), bytes.to_string()).map_err(failed);
        }
        fs::write(self.path.join("memory.oom_control"), "1").map_err(failed)?;
        match fs::write(self.path.join("memory.limit_in_bytes"), bytes.to_string()) {
            Err(why) if why.kind() == std::io::ErrorKind::ResourceBusy => Ok(()),
            set => set.map_err(failed),
        }
    }

    /// The file that takes a process in.
    pub fn processes(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }

    /// Do something as a process of this group, and be one of the former group again. What is started meanwhile stays in it.
    /// Errors: the kernel takes us in neither.
    pub fn within<T>(&self, work: impl FnOnce() -> T) -> Result<T, LabError> {
        let enter = |group: &Path| {
            fs::write(group.join("cgroup.procs"), std::process::id().to_string())
                .map_err(|why| LabError::failed("entering a control group", format!("{}: {why}", group.display())))
        };
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let former = former(&own, self.is_first_version).ok_or_else(|| {
            LabError::failed("entering a control group", "/proc/self/cgroup does not say which one this process is in")
        })?;
        enter(&self.path)?;
        let done = work();
        enter(&former)?;
        Ok(done)
    }

    /// Let the disk with these numbers, as in 7:0, take so many reads and so many writes a second, or any number again.
    /// Errors: the kernel has no such limit.
    pub fn limit_disk(&self, numbers: &str, requests: Option<u64>) -> Result<(), LabError> {
        if self.is_first_version {
            for kind in ["read", "write"] {
                let file = Path::new(ROOT).join(format!("blkio/blkio.throttle.{kind}_iops_device"));
                throttle(&file, format!("{numbers} {}", requests.unwrap_or_default()))?;
            }
            return Ok(());
        }
        let most = requests.map_or("max".to_owned(), |requests| requests.to_string());
        throttle(&self.path.join("io.max"), format!("{numbers} riops={most} wiops={most}"))
    }

    /// Let this disk read so many bytes a second, and write so many, or any number again. Errors: as [`Group::limit_disk`].
    pub fn limit_disk_bytes(&self, numbers: &str, bytes: Option<u64>) -> Result<(), LabError> {
        if self.is_first_version {
            return ["read", "write"].iter().try_for_each(|kind| {
                let file = Path::new(ROOT).join(format!("blkio/blkio.throttle.{kind}_bps_device"));
                throttle(&file, format!("{numbers} {}", bytes.unwrap_or_default()))
            });
        }
        let most = bytes.map_or("max".to_owned(), |bytes| bytes.to_string());
        throttle(&self.path.join("io.max"), format!("{numbers} rbps={most} wbps={most}"))
    }

    /// The numbers of the group's processes.
    pub fn process_ids(&self) -> Vec<u32> {
        let text = fs::read_to_string(self.processes()).unwrap_or_default();
        text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
    }

    /// What all processes of the group have taken so far.
    pub fn count(&self) -> ProcessCount {
        let counts = self.process_ids().into_iter().filter_map(|pid| counters::process(&pid.to_string()));
        ProcessCount::together(counts, self.memory("shmem"))
    }

    /// Bytes of files that the kernel keeps in memory on the group's account; memory that processes share is none.
    pub fn page_cache_bytes(&self) -> u64 {
        // Both versions count shared memory as a file.
        self.memory(if self.is_first_version { "cache" } else { "file" }).saturating_sub(self.memory("shmem"))
    }

    /// Bytes of the programs' own: what is no file's, and what processes share. What the kernel keeps for them, as of files the inodes and the
    /// names, is not in it.
    pub fn own_bytes(&self) -> u64 {
        self.memory(if self.is_first_version { "rss" } else { "anon" }) + self.memory("shmem")
    }

    /// Bytes of the programs' own, and what the kernel keeps for them beside the contents of files.
    pub fn bytes_beside_page_cache(&self) -> u64 {
        let file = if self.is_first_version { "memory.usage_in_bytes" } else { "memory.current" };
        let text = fs::read_to_string(self.path.join(file)).unwrap_or_default();
        text.trim().parse::<u64>().unwrap_or_default().saturating_sub(self.page_cache_bytes())
    }

    /// Bytes of the page cache that the disk has not got yet.
    pub fn dirty_bytes(&self) -> u64 {
        let [dirty, leaving] =
            if self.is_first_version { ["dirty", "writeback"] } else { ["file_dirty", "file_writeback"] };
        self.memory(dirty) + self.memory(leaving)
    }

    /// How many of the group's processes the kernel has ended so far because the group had no more memory.
    pub fn ended_for_memory(&self) -> u64 {
        let file = if self.is_first_version { "memory.oom_control" } else { "memory.events" };
        let text = fs::read_to_string(self.path.join(file)).unwrap_or_default();
        counters::field(&text, "oom_kill").unwrap_or_default()
    }

    /// Bytes of one kind of the group's memory.
    fn memory(&self, kind: &str) -> u64 {
        let text = fs::read_to_string(self.path.join("memory.stat")).unwrap_or_default();
        counters::field(&text, kind).unwrap_or_default()
    }
}

fn throttle(file: &Path, line: String) -> Result<(), LabError> {
    fs::write(file, line).map_err(|why| {
        LabError::failed("limiting the disk", format!("{}: {why} (is block throttling in the kernel?)", file.display()))
    })
}

/// The group that a process is in, from its /proc/PID/cgroup: a line for each controller of the first version, and one
/// without any for the second.
fn former(text: &str, is_first_version: bool) -> Option<PathBuf> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let wanted = if is_first_version { "memory" } else { "" };
    let (_, path) = lines.find(|(controllers, _)| controllers.split(',').any(|one| one == wanted))?;
    let root = if is_first_version { Path::new(ROOT).join("memory") } else { PathBuf::from(ROOT) };
    Some(root.join(path.trim_start_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_former_group_is_that_of_the_version_in_use() {
        let first = "12:pids:/a:b\n5:cpu,memory:/jobs/7\n1:name=systemd:/\n0::/other\n";
        assert_eq!(former(first, true), Some(Path::new(ROOT).join("memory/jobs/7")));
        assert_eq!(former(first, false), Some(Path::new(ROOT).join("other")));
        assert_eq!(former("0::/\n", false), Some(PathBuf::from(ROOT).join("")));
        assert_eq!(former("0::/\n", true), None);
        assert_eq!(former("nonsense\n\n", false), None);
    }
}
