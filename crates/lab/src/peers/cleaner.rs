//! What undoes a bench or a network, even when this program is killed.
//!
//! What these make outlives a program that is killed. So a shell in a process group of its own undoes it: the kernel tells
//! the shell of our end by closing its standard input. Nothing else undoes all of it.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::error::LabError;

/// Comes before each script: it waits until its standard input ends, which the kernel sees to when the program that began it is
/// gone, however it went.
const WAIT: &str = "cat >/dev/null\n";

/// Lift the limits (or what is unwritten would take minutes), end the servers, unmount, detach, remove.
const SCRIPT: &str = r#"
scratch=$1 group=$2
for loop in $(losetup -n -O NAME -j "$scratch/disk"); do
    numbers=$(cat "/sys/block/${loop#/dev/}/dev")
    for kind in read_iops write_iops read_bps write_bps; do
        limit=/sys/fs/cgroup/blkio/blkio.throttle.${kind}_device
        [ ! -e "$limit" ] || echo "$numbers 0" >"$limit"
    done
    [ ! -e "$group/io.max" ] || echo "$numbers riops=max wiops=max rbps=max wbps=max" >"$group/io.max"
done
left=300
while pids=$(cat "$group/cgroup.procs" 2>/dev/null) && [ -n "$pids" ] && [ $left -gt 0 ]; do
    kill -KILL $pids 2>/dev/null
    sleep 0.1
    left=$((left - 1))
done
while mountpoint -q "$scratch/mounted" && [ $left -gt 0 ]; do
    umount "$scratch/mounted" 2>/dev/null || sleep 0.1
    left=$((left - 1))
done
for loop in $(losetup -n -O NAME -j "$scratch/disk"); do losetup -d "$loop"; done
while [ -e "$group" ] && ! rmdir "$group" 2>/dev/null && [ $left -gt 0 ]; do
    sleep 0.1
    left=$((left - 1))
done
mountpoint -q "$scratch/mounted" || rm -rf --one-file-system -- "$scratch"
"#;

/// A shell that waits for us to let go of it. Dropped, it cleans, and is waited for.
pub struct Cleaner {
    shell: Child,
    hold: Option<ChildStdin>,
}

impl Cleaner {
    /// Have `scratch` cleaned, with the disk in its file `disk` mounted at `mounted`, and the control group `group`, if
    /// any of these are there when it comes to it. Errors: there is no shell.
    pub fn begin(scratch: &Path, group: &Path) -> Result<Cleaner, LabError> {
        Cleaner::by(SCRIPT, [scratch, group])
    }

    /// Have a script of the shell run at the end, with these arguments. Errors: there is no shell.
    pub fn by(script: &str, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<Cleaner, LabError> {
        let mut command = Command::new("sh");
        // In a process group of its own, so that Ctrl-C ends us and not what cleans up after us.
        command.arg("-c").arg(format!("{WAIT}{script}")).arg("sh").args(arguments);
        command.stdin(Stdio::piped()).process_group(0);
        let mut shell = command.spawn().map_err(|why| LabError::failed("starting what cleans up", why))?;
        let hold = shell.stdin.take();
        Ok(Cleaner { shell, hold })
    }
}

impl Drop for Cleaner {
    fn drop(&mut self) {
        drop(self.hold.take());
        if !self.shell.wait().is_ok_and(|status| status.success()) {
            tracing::warn!(
                "not all of it could be removed: see losetup -a, ip netns, and tinaja-lab-* in the control groups"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_never_made_is_no_hindrance() {
        let dir = tempfile::tempdir().unwrap();
        let scratch = dir.path().join("scratch");
        std::fs::create_dir_all(scratch.join("mounted")).unwrap();
        let cleaner = Cleaner::begin(&scratch, &dir.path().join("no-group")).unwrap();
        assert!(scratch.exists(), "nothing is removed before it is let go");
        drop(cleaner);
        assert!(!scratch.exists());
    }
}
