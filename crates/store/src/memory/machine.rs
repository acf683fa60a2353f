//! How much memory there is for this process: the machine's, or less where a control group says so.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Where control groups are mounted, on every system that has them.
const GROUPS: &str = "/sys/fs/cgroup";

/// Bytes of memory that this process may take, as they were when this was first asked: those of the machine, or of the control
/// group with the least, be it this process's own or one that it lies in (`memory.max`, or `memory.limit_in_bytes` of the first
/// version). `u64::MAX` where the system does not say.
pub fn memory_bytes() -> u64 {
    static FOUND: OnceLock<u64> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        let limits = limit_files(&read(Path::new("/proc/self/cgroup"))).into_iter();
        let limits = limits.filter_map(|file| number(&read(&file)));
        limits.chain(total(&read(Path::new("/proc/meminfo")))).min().unwrap_or(u64::MAX)
    })
}

/// All of the machine's memory, from /proc/meminfo.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_ascii_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// A limit as a control group's file has it: a number, or "max".
fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// The files with the limits of these groups, from /proc/self/cgroup, and of all that they lie in. In a container some may not
/// be there.
fn limit_files(groups: &str) -> Vec<PathBuf> {
    let files = groups.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let (root, file) = match controllers {
            "" => (PathBuf::from(GROUPS), "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                (Path::new(GROUPS).join("memory"), "memory.limit_in_bytes")
            }
            _ => return None,
        };
        let path = path.trim_start_matches('/').to_owned();
        Some(Path::new(&path).ancestors().map(|path| root.join(path).join(file)).collect::<Vec<_>>())
    });
    files.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_says_what_it_has_and_a_group_what_it_allows() {
        assert_eq!(total("MemFree:  5 kB\nMemTotal:       24684204 kB\n"), Some(24_684_204 * 1024));
        assert_eq!((total(""), total("MemTotal: many kB")), (None, None));
        assert_eq!((number("134217728\n"), number("max\n"), number("")), (Some(128 << 20), None, None));
        assert!(memory_bytes() > 8 << 20, "this test runs in more");
    }

    #[test]
    fn a_group_may_take_what_those_that_it_lies_in_allow() {
        let files = |text| limit_files(text).into_iter().map(|file| file.display().to_string()).collect::<Vec<_>>();
        assert_eq!(
            files("0::/system.slice/tinaja.service\n"),
            [
                "/sys/fs/cgroup/system.slice/tinaja.service/memory.max",
                "/sys/fs/cgroup/system.slice/memory.max",
                "/sys/fs/cgroup/memory.max"
            ]
        );
        assert_eq!(
            files("3:cpu,cpuacct:/\n4:memory:/box\n1:name=systemd:/\n"),
            ["/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
        );
        assert!(files("nonsense\n2:\n\n").is_empty());
    }
}
