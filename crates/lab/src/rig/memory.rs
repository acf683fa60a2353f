//! What memory the process takes, and a limit to it where the system lets one be set.

use std::fs;
use std::path::{Path, PathBuf};

/// Bytes of memory that the process holds now, and the most that it held since [`forget_peak`]; 0 where the system
/// does not say.
pub fn resident_bytes() -> (u64, u64) {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    let bytes = |name| field(name).unwrap_or_default() << 10;
    (bytes("VmRSS:"), bytes("VmHWM:"))
}

/// Let the most that the process held begin anew.
pub fn forget_peak() {
    // Where this is not allowed the peak is that of the whole life: too large, never too small.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// A memory cgroup of the process's own, below the one it was in. Dropped, the process goes back and the group is gone.
pub struct MemoryLimit {
    group: PathBuf,
    before: PathBuf,
    is_first_version: bool,
}

impl MemoryLimit {
    /// Give the process so much memory: what it takes beyond, caches of files and the kernel's share included, the
    /// kernel takes back or kills it for. `None` where that may not be done: it takes root and a memory controller.
    pub fn enter(bytes: u64) -> Option<MemoryLimit> {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        let named =
            |prefix: &str| groups.lines().find_map(|line| line.split_once(prefix).map(|(_, path)| path.to_owned()));
        let first =
            named(":memory:").map(|path| (Path::new("/sys/fs/cgroup/memory").join(path.trim_start_matches('/')), true));
        let second = || named("::").map(|path| (Path::new("/sys/fs/cgroup").join(path.trim_start_matches('/')), false));
        let (before, is_first_version) = first.or_else(second)?;
        let group = before.join(format!("tinaja-lab-{}", std::process::id()));
        fs::create_dir(&group).ok()?;
        // From here on dropping it undoes what was done.
        let limit = MemoryLimit { group, before, is_first_version };
        let file = if is_first_version { "memory.limit_in_bytes" } else { "memory.max" };
        fs::write(limit.group.join(file), bytes.to_string()).ok()?;
        fs::write(limit.group.join("cgroup.procs"), std::process::id().to_string()).ok()?;
        Some(limit)
    }

    /// The most that was charged to the group, in bytes.
    pub fn peak_bytes(&self) -> Option<u64> {
        let file = if self.is_first_version { "memory.max_usage_in_bytes" } else { "memory.peak" };
        fs::read_to_string(self.group.join(file)).ok()?.trim().parse().ok()
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        let _ = fs::write(self.before.join("cgroup.procs"), std::process::id().to_string());
        // A group that has just been left may be busy for a moment.
        for _ in 0..50 {
            if fs::remove_dir(&self.group).is_ok() || !self.group.exists() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        tracing::warn!("{} could not be removed", self.group.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_says_what_it_holds() {
        let (now, peak) = resident_bytes();
        assert!(now > 1 << 20 && peak >= now, "{now} {peak}");
    }
}
