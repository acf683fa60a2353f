//! How the disk is used, as said by flags: by io_uring or by threads, as a file or as a whole block device.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::support::tinaja::{Setup, Tinaja};
use tinaja_testkit::body::body;
use tinaja_testkit::origin::Origin;

/// Whether a process has an io_uring open.
fn has_ring(proxy: &Tinaja) -> bool {
    let open = fs::read_dir(format!("/proc/{}/fd", proxy.process.pid())).unwrap();
    let name = |entry: std::io::Result<fs::DirEntry>| fs::read_link(entry.unwrap().path()).unwrap_or_default();
    open.map(name).any(|name| name.to_string_lossy().contains("io_uring"))
}

fn assert_object(proxy: &Tinaja, origin: &Origin) {
    let response = proxy.get(&origin.url("/20000/x")).unwrap();
    assert!(response.status == 200 && response.body == body("/20000/x", 20_000));
}

fn inspected(setup: &Setup) -> serde_json::Value {
    let output = setup.inspect();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The same cache by threads and by io_uring; whichever wrote it, the other reads it.
#[test]
fn io_is_carried_out_as_asked() {
    let (origin, dir) = (Origin::of_patterns(), TempDir::new().unwrap());
    let mut setup = None;
    for (io, ring) in [("threads", false), ("uring", true), ("threads", false), ("auto", true)] {
        let this = Setup::forward().cache(&dir.path().join("cache")).flags(&["--io", io]);
        let mut proxy = this.start();
        assert_eq!(has_ring(&proxy), ring, "--io {io}");
        assert_object(&proxy, &origin);
        assert_eq!(proxy.process.terminate().code(), Some(0));
        setup = Some(this);
    }
    assert_eq!(origin.paths().len(), 1, "the others were hits");
    let figures = inspected(&setup.unwrap());
    assert_eq!((&figures["engine"], &figures["mean_object_bytes"]), (&"generational".into(), &8192.into()));
    assert_eq!((&figures["live_objects"], &figures["damaged_at_open"]), (&1.into(), &0.into()));
}

/// A loop device over a file of zeros, detached when it goes.
struct Loop {
    path: PathBuf,
    _dir: TempDir,
}

impl Loop {
    fn attach(bytes: u64) -> Option<Loop> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: this test needs root, to set up a loop device");
            return None;
        }
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("image");
        File::create(&file).unwrap().set_len(bytes).unwrap();
        match Command::new("losetup").args(["--find", "--show"]).arg(&file).output() {
            Ok(made) if made.status.success() => {
                Some(Loop { path: String::from_utf8(made.stdout).unwrap().trim().into(), _dir: dir })
            }
            _ => {
                eprintln!("SKIPPED: no loop device to be had");
                None
            }
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let detached = Command::new("losetup").arg("--detach").arg(&self.path).status();
        assert!(detached.is_ok_and(|status| status.success()) || std::thread::panicking(), "{:?} stays", self.path);
    }
}

fn on(device: &Path) -> Setup {
    Setup::bare().cache(device).flags(&["--memory", "8MiB", "--allow-destination", "127.0.0.0/8"])
}

/// A blank device is used whole without being told how much, and found again; what holds something else is refused.
#[test]
fn a_block_device_is_a_cache() {
    let Some(device) = Loop::attach(64 << 20) else { return };
    let origin = Origin::of_patterns();
    for _ in 0..2 {
        let setup = on(&device.path);
        let mut proxy = setup.start();
        assert_object(&proxy, &origin);
        assert_eq!(proxy.process.terminate().code(), Some(0));
    }
    assert_eq!(origin.paths().len(), 1, "the second start found it");
    let figures = inspected(&on(&device.path));
    assert!(figures["capacity_bytes"].as_u64().unwrap() > 60 << 20 && figures["live_objects"] == 1, "{figures}");

    File::options().write(true).open(&device.path).unwrap().write_all(b"something else").unwrap();
    let refused = on(&device.path).run();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("holds something that is not a Tinaja cache") && said.contains("dd if=/dev/zero"), "{said}");
}

/// Positions in a directory of their own: made there, asked for at the next start, and in no command's way that need not have
/// them.
#[test]
fn positions_lie_where_they_are_said_to() {
    let (origin, dir) = (Origin::of_patterns(), TempDir::new().unwrap());
    let (cache, positions) = (dir.path().join("cache"), dir.path().join("fast"));
    let with = |flags: &[&str]| Setup::forward().cache(&cache).flags(&["--engine", "hashcache-loglru"]).flags(flags);
    let named = ["--positions-dir", positions.to_str().unwrap()];
    for _ in 0..2 {
        let setup = with(&named);
        let mut proxy = setup.start();
        assert_object(&proxy, &origin);
        assert_eq!(proxy.process.terminate().code(), Some(0));
        assert_eq!(inspected(&setup)["live_objects"], 1, "inspecting needs no positions");
    }
    assert_eq!(origin.paths().len(), 1, "the second start found it");
    assert!(fs::metadata(positions.join("tinaja-1.positions")).unwrap().len() > 4096);

    let refused = with(&[]).run();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("--positions-dir") && said.contains("--positions-in-memory 8"), "{said}");

    let url = origin.url("/20000/x");
    let purged = Command::new(env!("CARGO_BIN_EXE_tinaja")).arg("purge").arg(&url).arg("--cache").arg(&cache).output();
    let purged = purged.unwrap();
    let said = String::from_utf8_lossy(&purged.stdout).into_owned() + &String::from_utf8_lossy(&purged.stderr);
    assert!(purged.status.success() && said.contains("purged"), "{said}");
    let proxy = with(&named).start();
    assert_object(&proxy, &origin);
    assert_eq!(origin.paths().len(), 2, "it was purged");
}
