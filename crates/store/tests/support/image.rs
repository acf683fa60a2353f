//! A file system in an image, which can be shut down while a store writes to it, so that everything that was not synced is gone; or
//! whose disk fails.
//!
//! Needs root, a free loop device, /dev/fuse, and from Debian e2fsprogs and xfsprogs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use tempfile::TempDir;
use tinaja_store::contract::bytes_of;
use tinaja_store::{Cache, CacheOptions, Commit, Hint, Key, Store, block_on};

use crate::failing_disk::FailingDisk;
use crate::support::wait_until;

const WRITERS: u64 = 4;
/// Objects a writer puts between two flushes.
const BATCH: u64 = 40;

fn run(program: &str, args: &[&str]) {
    let output = Command::new(program).args(args).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}; this test needs root and {program}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?} failed; this test needs root and a loop device: {said}");
}

/// How a file system comes to its end under a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It is shut down, as by a cut of the power.
    PowerCut,
    /// Its disk fails each write.
    FailedWrites,
    /// Its disk fails each read and each write.
    FailedDisk,
}

/// A file system in an image file, mounted until it is dropped.
pub struct Image {
    /// Where the image is a file that fails. Dropped after the file system is unmounted.
    below: Option<FailingDisk>,
    dir: TempDir,
}

impl Image {
    pub fn new(kind: &str, may_fail: bool) -> Self {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let mut image = Image { below: None, dir };
        std::fs::create_dir(image.mount_point()).unwrap();
        std::fs::File::create(image.bytes()).unwrap().set_len(640 << 20).unwrap();
        run(&format!("mkfs.{kind}"), &["-q", image.bytes().to_str().unwrap()]);
        if may_fail {
            let below = image.dir.path().join("below");
            std::fs::create_dir(&below).unwrap();
            image.below = Some(FailingDisk::mount(&below, &image.bytes()));
        }
        image.mount();
        image
    }

    /// The file that has the image's bytes.
    pub fn bytes(&self) -> PathBuf {
        self.dir.path().join("image")
    }

    /// The file that is mounted.
    fn file(&self) -> PathBuf {
        self.below.as_ref().map_or_else(|| self.bytes(), FailingDisk::file)
    }

    pub fn mount_point(&self) -> PathBuf {
        self.dir.path().join("mounted")
    }

    pub fn mount(&self) {
        run("mount", &["-o", "loop", self.file().to_str().unwrap(), self.text()]);
    }

    /// Have each read of its disk fail, or go well again. What the kernel keeps in memory of it is dropped, so that it is read.
    pub fn fail_reads(&self, fail: bool) {
        let below = self.below.as_ref().expect("it was made to fail");
        std::fs::write("/proc/sys/vm/drop_caches", "3").expect("this test needs root");
        below.faults.reads(fail);
    }

    /// Requests that have failed.
    pub fn failed(&self) -> u64 {
        self.below.as_ref().map_or(0, |below| below.faults.failed())
    }

    fn end(&self, how: End) {
        match (how, &self.below) {
            (End::PowerCut, _) => run("xfs_io", &["-x", "-c", "shutdown", self.text()]),
            (_, Some(below)) => {
                below.faults.writes(true);
                below.faults.reads(how == End::FailedDisk);
            }
            (_, None) => panic!("it was not made to fail"),
        }
    }

    fn text(&self) -> &str {
        // The temporary directory's name is plain.
        Box::leak(self.mount_point().to_str().unwrap().to_string().into_boxed_str())
    }

    /// The kernel takes a ring's files down some moments after the store has closed it, and so long the place is busy. And who
    /// was given mounts of his own meanwhile, as a process in a namespace, has this one as well: so long the loop device has the
    /// file system that was shut down, and would be mounted with it again.
    pub fn remount(&self) {
        self.unmount();
        if let Some(below) = &self.below {
            println!("{} requests of the disk failed", below.faults.failed());
            below.faults.reads(false);
            below.faults.writes(false);
        }
        self.mount();
    }

    pub fn unmount(&self) {
        let file = self.file();
        wait_until(&format!("{} stays busy", self.text()), || {
            Command::new("umount").arg(self.text()).output().unwrap().status.success()
        });
        wait_until(&format!("{} stays a disk", file.display()), || {
            let disks = Command::new("losetup").arg("--associated").arg(&file).output().unwrap();
            disks.status.success() && disks.stdout.is_empty()
        });
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.mount_point()).output();
        if self.below.is_some() {
            // The file system above it has it open for a moment still, and a mount that is busy would be left behind.
            let _ = Command::new("umount").arg("--lazy").arg(self.dir.path().join("below")).output();
        }
    }
}

fn key(writer: u64, n: u64) -> Key {
    Key::from_name(format!("{writer}/{n}").as_bytes())
}

fn body(writer: u64, n: u64) -> Bytes {
    let size = if n.is_multiple_of(29) { 700_000 } else { (n * 613 % 20_000) as usize };
    bytes_of(writer << 32 | n, size)
}

/// Put objects and flush, until told to stop; count what was acknowledged in `flushed`.
fn write(store: &Cache, writer: u64, flushed: &AtomicU64, stop: &AtomicBool) {
    let mut n = 0;
    while !stop.load(SeqCst) {
        let mut all_stored = true;
        for _ in 0..BATCH {
            let mut out = store.put(&key(writer, n), Bytes::from(n.to_string()), Hint::default());
            block_on(out.write(body(writer, n)));
            all_stored &= matches!(block_on(out.commit()), Commit::Stored { .. });
            n += 1;
        }
        if block_on(store.flush()).is_err() || !all_stored {
            return;
        }
        flushed.store(n, SeqCst);
    }
}

/// Cut the power under a file system of this kind so long after writers began, mount it again and look at everything. What the
/// store is opened with depends on where it is mounted.
pub fn cut_under(kind: &str, after: Duration, options: impl Fn(&Path) -> CacheOptions) {
    end_under(kind, End::PowerCut, after, options);
}

/// The same for any end.
pub fn end_under(kind: &str, how: End, after: Duration, options: impl Fn(&Path) -> CacheOptions) {
    let image = Image::new(kind, how != End::PowerCut);
    let open = || Cache::open(options(&image.mount_point())).unwrap();
    let store = Arc::new(open());
    let engine = store.stats().engine;
    let stop = Arc::new(AtomicBool::new(false));
    let flushed: Vec<_> = (0..WRITERS).map(|_| Arc::new(AtomicU64::new(0))).collect();
    let threads: Vec<_> = (0..WRITERS)
        .zip(flushed.clone())
        .map(|(writer, flushed)| {
            let (store, stop) = (store.clone(), stop.clone());
            thread::spawn(move || write(&store, writer, &flushed, &stop))
        })
        .collect();
    thread::sleep(after);
    // A cut before the first flush would show nothing; on a busy machine that takes longer.
    wait_until("nothing is flushed", || flushed.iter().any(|flushed| flushed.load(SeqCst) > 0));
    image.end(how);
    // A flush may be acknowledged only if it was whole before the cut; from now on all of them fail.
    stop.store(true, SeqCst);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    drop(store);
    image.remount();

    let store = open();
    let live = store.stats().live_objects;
    let (mut there, mut acknowledged) = (0, 0);
    for (writer, flushed) in (0..WRITERS).zip(&flushed) {
        let flushed = flushed.load(SeqCst);
        // The log holds the last 200 MB or so: look at what cannot have been overwritten.
        for n in flushed.saturating_sub(1000)..flushed + 2 * BATCH {
            // What was not flushed may fail to read: a head that is there and a part of its body that is not.
            let found = block_on(store.find(&key(writer, n))).is_some_and(|mut hit| {
                assert_eq!(hit.head, n.to_string());
                let read = block_on(hit.body.collect(usize::MAX));
                assert!(read.is_err() || read == Ok(body(writer, n)), "{kind}: wrong bytes of {writer}/{n}");
                read.is_ok()
            });
            if n < flushed {
                acknowledged += 1;
                there += u64::from(found);
            }
        }
    }
    println!(
        "{engine} on {kind}, {how:?} after {after:?}: {there} of {acknowledged} acknowledged objects are there, {live} in all"
    );
    assert!(acknowledged >= BATCH, "{acknowledged} acknowledged");
    // A tree knows its objects apart. With the others an object of the same fingerprint, or in the same set, may have taken one's place.
    let least = if engine.starts_with("squid") { acknowledged } else { acknowledged * 99 / 100 };
    assert!(there >= least, "{engine} on {kind}: {there} of {acknowledged}");
}
