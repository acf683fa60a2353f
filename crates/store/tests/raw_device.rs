//! A cache on a raw block device: a loop device over a file. Needs root, `losetup` and a free loop device; where one is
//! missing the tests say so and pass.
//!
//! A program of its own: these tests start processes and claim devices, which takes turns (see `alone`).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;
use tinaja_store::contract::bytes_of;
use tinaja_store::device::{Access, Device, Disk, Io, IoEngine};
use tinaja_store::{Cache, CacheOptions, Commit, Hint, Key, OpenError, Store, block_on};

/// One test at a time: a program that another one starts has this process's open files for the moment until it runs, and with
/// them its claim to a device that was closed meanwhile.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A loop device over a file of zeros, detached when it goes.
struct Loop {
    path: PathBuf,
    dir: TempDir,
}

impl Loop {
    fn attach(bytes: u64, sector: u32) -> Option<Loop> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: this test needs root, to set up a loop device");
            return None;
        }
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let file = dir.path().join("image");
        File::create(&file).unwrap().set_len(bytes).unwrap();
        let sector = sector.to_string();
        let made = Command::new("losetup").args(["--find", "--show", "--sector-size", &sector]).arg(&file).output();
        match made {
            Ok(made) if made.status.success() => {
                let path = String::from_utf8(made.stdout).unwrap().trim().into();
                Some(Loop { path, dir })
            }
            Ok(made) => {
                eprintln!("SKIPPED: no loop device to be had: {}", String::from_utf8_lossy(&made.stderr));
                None
            }
            Err(error) => {
                eprintln!("SKIPPED: losetup cannot be run: {error}");
                None
            }
        }
    }

    fn options(&self) -> CacheOptions {
        CacheOptions::new(self.dir.path().join("unused")).device(self.path.clone())
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        let mut device = OpenOptions::new().write(true).open(&self.path).unwrap();
        device.seek(SeekFrom::Start(at)).unwrap();
        device.write_all(bytes).unwrap();
        device.sync_all().unwrap();
    }

    fn whole(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        File::open(&self.path).unwrap().read_to_end(&mut bytes).unwrap();
        bytes
    }

    /// The error's text, after making sure that opening changed nothing.
    fn refused(&self, options: CacheOptions) -> String {
        let before = self.whole();
        let error = Cache::open(options).err().expect("this must be refused").to_string();
        assert!(self.whole() == before, "the device was touched: {error}");
        error
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let detached = Command::new("losetup").arg("--detach").arg(&self.path).status();
        assert!(detached.is_ok_and(|status| status.success()) || std::thread::panicking(), "{:?} stays", self.path);
    }
}

fn put(cache: &Cache, n: u64) {
    let mut writer = cache.put(&Key::from_name(&n.to_le_bytes()), "head".into(), Hint::default());
    block_on(writer.write(bytes_of(n, 5000)));
    assert!(matches!(block_on(writer.commit()), Commit::Stored { .. }));
}

fn found(cache: &Cache) -> usize {
    let body = |n: u64| {
        let mut hit = block_on(cache.find(&Key::from_name(&n.to_le_bytes())))?;
        block_on(hit.body.collect(usize::MAX)).ok()
    };
    (0..200).filter(|&n| body(n).is_some_and(|body| body == bytes_of(n, 5000))).count()
}

#[test]
fn a_blank_device_becomes_a_cache_that_is_found_again() {
    let _alone = alone();
    for (sector, io) in [(512, IoEngine::Auto), (4096, IoEngine::Auto), (4096, IoEngine::Threads)] {
        let Some(device) = Loop::attach(32 << 20, sector) else { return };
        let disk = Disk::open(&device.path, Access::Alone, &Io::new(io, 1)).unwrap();
        let geometry = disk.geometry();
        assert_eq!((geometry.bytes, geometry.block_bytes, geometry.direct), (32 << 20, sector.into(), true));
        drop(disk);

        let options = device.options().io(io);
        let cache = Cache::open(options.clone()).unwrap();
        assert!(cache.stats().capacity_bytes > 30 << 20, "it is used whole: {:?}", cache.stats());
        (0..200).for_each(|n| put(&cache, n));
        block_on(cache.close()).unwrap();
        let cache = Cache::open(options.clone()).unwrap();
        assert!(found(&cache) >= 195, "but for full sets");
        assert!(device.refused(options.clone()).contains("is mounted, or in use by another process"));
        drop(cache);
        let seen = Cache::open_read_only(std::slice::from_ref(&device.path)).unwrap();
        assert!(found(&seen) >= 195 && Cache::exists(&device.path));
        drop(seen);
        let other = options.disk_bytes(16 << 20);
        assert!(device.refused(other).contains("a size of"));
        assert!(!device.dir.path().join("unused").exists(), "the directory is not looked at");
    }
}

#[test]
fn whatever_else_a_device_holds_is_left_alone() {
    let _alone = alone();
    let Some(device) = Loop::attach(32 << 20, 512) else { return };
    // A boot sector's mark, an ext4 superblock's magic, a RAID superblock, Btrfs: each where it belongs.
    for (at, bytes) in
        [(510, &[0x55, 0xAA][..]), (1080, &[0x53, 0xEF]), (4096, b"\xFC\x4E\x2B\xA9"), (65_600, b"_BHRfS_M")]
    {
        device.write(at, bytes);
        let error = device.refused(device.options());
        assert!(
            error.contains("holds something that is not a Tinaja cache") && error.contains("dd if=/dev/zero"),
            "{error}"
        );
        assert!(error.contains(device.path.to_str().unwrap()), "{error}");
        device.write(at, &vec![0; bytes.len()]);
    }
    drop(Cache::open(device.options()).expect("blank again"));
    device.write(8, &[7]);
    assert!(device.refused(device.options()).contains("format version 7"));
    device.write(8, &[1]);
    device.write(90, &[1, 2, 3]);
    assert!(device.refused(device.options()).contains("damaged superblock"));
    device.write(0, &vec![0; 1 << 20]);
    drop(Cache::open(device.options()).expect("cleared as the message said"));
}

#[test]
fn a_mounted_device_is_refused() {
    let _alone = alone();
    let Some(device) = Loop::attach(64 << 20, 512) else { return };
    let made = Command::new("mkfs.ext4").arg("-q").arg(&device.path).status();
    let at = device.dir.path().join("mounted");
    std::fs::create_dir(&at).unwrap();
    let mounted = made.is_ok_and(|status| status.success())
        && Command::new("mount").args([&device.path, &at]).status().is_ok_and(|status| status.success());
    if !mounted {
        eprintln!("SKIPPED: a file system cannot be made and mounted here");
        return;
    }
    let error = Cache::open(device.options()).err().map(|error| error.to_string());
    let files = std::fs::read_dir(&at).unwrap().count();
    assert!(Command::new("umount").arg(&at).status().unwrap().success());
    assert!(error.as_ref().is_some_and(|error| error.contains("is mounted")), "{error:?}");
    assert_eq!(files, 1, "lost+found");
}

#[test]
fn devices_of_odd_sizes_are_refused_or_rounded() {
    let _alone = alone();
    let Some(device) = Loop::attach(1 << 20, 512) else { return };
    assert!(device.refused(device.options()).contains("too small"));
    let more = device.options().disk_bytes(8 << 20);
    assert!(device.refused(more).contains("too large"));
    let Some(device) = Loop::attach((9 << 20) + 512 * 7, 512) else { return };
    let cache = Cache::open(device.options()).unwrap();
    assert!(cache.stats().capacity_bytes <= 9 << 20);
    (0..200).for_each(|n| put(&cache, n));
}

#[test]
fn what_is_no_block_device_is_said_to_be_none() {
    let _alone = alone();
    for path in [Path::new("/dev/null"), Path::new("/no/such/device"), Path::new("/")] {
        let options = CacheOptions::new("/no/such/directory").device(path);
        let error = Cache::open(options).err().unwrap();
        assert!(matches!(&error, OpenError::NotADevice(named) if named == path), "{error}");
        assert!(error.to_string().contains("is not a block device"), "{error}");
    }
}
