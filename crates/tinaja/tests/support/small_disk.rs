//! A disk that fills up: a cache whose file is larger than the file system that it lies on.
//!
//! New caches allocate all of their file, so that this cannot happen by itself; it can on thinly provisioned volumes,
//! on file systems that copy on write, and to a file that was copied without its empty parts, as here.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::tinaja::Setup;
use tinaja_testkit::tools;

/// A file system in memory, mounted until it is dropped. Needs root.
pub struct SmallDisk {
    dir: TempDir,
}

impl SmallDisk {
    /// A file system of so many bytes; `None`, and a word on stderr, where mounting is not permitted.
    pub fn mount(bytes: u64) -> Option<Self> {
        let dir = TempDir::new().unwrap();
        let options = format!("size={bytes}");
        let mounted =
            tools::output(Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(dir.path()));
        if !mounted.status.success() {
            eprintln!("SKIPPED: a file system cannot be mounted: {}", String::from_utf8_lossy(&mounted.stderr));
            return None;
        }
        Some(SmallDisk { dir })
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Put a new cache of `disk` bytes on it, made elsewhere with `flags` and copied without its empty parts.
    pub fn put_cache(&self, disk: &str, flags: &[&str]) -> Setup {
        let elsewhere = Setup::bare().flags(&["--disk", disk]).flags(flags);
        let mut proxy = elsewhere.start();
        // An answer shows that it is up, signals and all.
        assert_eq!(proxy.get("http://127.0.0.1:25/").unwrap().status, 403);
        assert_eq!(proxy.process.terminate().code(), Some(0), "{}", elsewhere.output());
        let cache = self.path().join("cache");
        let copied = Command::new("cp").args(["-r", "--sparse=always"]).arg(elsewhere.cache_dir()).arg(&cache).output();
        assert!(copied.as_ref().is_ok_and(|copied| copied.status.success()), "{copied:?}");
        Setup::bare().flags(flags).cache(&cache)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.dir.path()).output();
    }
}
