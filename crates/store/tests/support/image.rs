//! A file system in an image, which can be shut down while a store writes to it: everything that was not synced is gone then.
//!
//! Needs root, a free loop device, and from Debian e2fsprogs and xfsprogs.

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

/// A file system in an image file, mounted until it is dropped.
struct Image {
    dir: TempDir,
}

impl Image {
    fn new(kind: &str) -> Self {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let image = Image { dir };
        std::fs::create_dir(image.mount_point()).unwrap();
        let file = image.dir.path().join("image");
        std::fs::File::create(&file).unwrap().set_len(640 << 20).unwrap();
        run(&format!("mkfs.{kind}"), &["-q", file.to_str().unwrap()]);
        image.mount();
        image
    }

    fn mount_point(&self) -> PathBuf {
        self.dir.path().join("mounted")
    }

    fn mount(&self) {
        run("mount", &["-o", "loop", self.dir.path().join("image").to_str().unwrap(), self.text()]);
    }

    fn text(&self) -> &str {
        // The temporary directory's name is plain.
        Box::leak(self.mount_point().to_str().unwrap().to_string().into_boxed_str())
    }

    fn cut_the_power(&self) {
        run("xfs_io", &["-x", "-c", "shutdown", self.text()]);
    }

    /// The kernel takes a ring's files down some moments after the store has closed it, and so long the place is busy. And who
    /// was given mounts of his own meanwhile, as a process in a namespace, has this one as well: so long the loop device has the
    /// file system that was shut down, and would be mounted with it again.
    fn remount(&self) {
        let file = self.dir.path().join("image");
        wait_until(&format!("{} stays busy", self.text()), || {
            Command::new("umount").arg(self.text()).output().unwrap().status.success()
        });
        wait_until(&format!("{} stays a disk", file.display()), || {
            let disks = Command::new("losetup").arg("--associated").arg(&file).output().unwrap();
            disks.status.success() && disks.stdout.is_empty()
        });
        self.mount();
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.mount_point()).output();
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
    let image = Image::new(kind);
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
    image.cut_the_power();
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
        "{engine} on {kind} after {after:?}: {there} of {acknowledged} acknowledged objects are there, {live} in all"
    );
    assert!(acknowledged >= BATCH, "{acknowledged} acknowledged");
    assert!(there * 100 >= acknowledged * 99, "{engine} on {kind}: {there} of {acknowledged}");
}
