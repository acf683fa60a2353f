//! Faults from below a real file system, where wrappers around a device or a tree do not reach: a disk whose writes fail, one that is gone,
//! and bits that are flipped in the file system's image. No wrong byte, no panic, and with a disk that comes back a tree has all that was flushed.
//!
//! Needs root, a free loop device, /dev/fuse, and from Debian e2fsprogs.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustix::fs::SeekFrom;
use tinaja_store::contract::bytes_of;
use tinaja_store::device::mapped::{Segment, WithMapped};
use tinaja_store::device::tree::{Call, MemoryTree, Tree};
use tinaja_store::{Cache, CacheOptions, Commit, EngineRef, Hint, Key, Store, block_on, engines};

use crate::image::{End, Image, end_under};

fn options(dir: &Path, engine: EngineRef) -> CacheOptions {
    CacheOptions::new(dir.join("cache")).engine(engine).disk_bytes(256 << 20).memory_bytes(0).flush_every(None)
}

#[test]
fn what_was_flushed_outlasts_a_disk_that_fails() {
    for engine in [engines::SQUID2, engines::SQUIDMLA, engines::SEGMENTED] {
        for how in [End::FailedWrites, End::FailedDisk] {
            end_under("ext4", how, Duration::from_millis(500), |dir| options(dir, engine));
        }
    }
}

/// Files are read while their disk fails each read: they are misses or whole, and when the disk is well again everything is there.
#[test]
fn a_disk_that_fails_while_it_is_read_makes_misses() {
    for engine in [engines::CERN, engines::SQUID2, engines::SQUIDM, engines::SQUIDMLA] {
        let image = Image::new("ext4", true);
        let open = || Cache::open(options(&image.mount_point(), engine)).unwrap();
        let store = open();
        fill(&store);
        block_on(store.close()).unwrap();
        drop(store);
        image.remount();
        let store = open();
        image.fail_reads(true);
        let read = |n: u64| block_on(store.find(&key(n))).map(|mut hit| block_on(hit.body.collect(usize::MAX)));
        let whole = (0..OBJECTS).filter(|n| match read(*n) {
            Some(Ok(found)) => {
                assert!(found == body(*n), "{engine}: object {n} is another");
                true
            }
            Some(Err(_)) | None => false,
        });
        let whole = whole.count() as u64;
        println!("{engine}: {whole} of {OBJECTS} whole, {} requests of the disk failed", image.failed());
        assert!(whole < OBJECTS / 2 && image.failed() > 0, "{engine}: {whole} were still in memory");
        image.fail_reads(false);
        drop(store);
        image.remount();
        let store = open();
        let there = (0..OBJECTS).filter(|n| {
            let found = block_on(store.find(&key(*n))).map(|mut hit| block_on(hit.body.collect(usize::MAX)));
            assert!(found.is_none() || found == Some(Ok(body(*n))), "{engine}: object {n} is another");
            found.is_some()
        });
        assert_eq!(there.count() as u64, OBJECTS, "{engine}: a disk that failed for a while costs nothing");
        block_on(store.close()).unwrap();
        drop(store);
        image.unmount();
    }
}

/// A store reads all of its mapped file when it is opened, so that its pages are in memory. Here nobody has looked at them before their disk fails: to look
/// is `SIGBUS`, and to read an error.
#[test]
fn pages_that_their_disk_does_not_give_are_errors() {
    let image = Image::new("ext4", true);
    let bytes = 4 << 20;
    let open = || {
        let path = image.mount_point().join("mapped");
        WithMapped::over(Arc::new(MemoryTree::default()), &path, bytes, 42, false).unwrap()
    };
    let segments: Vec<String> = (0..100).map(|n| Segment::new(n * 8192, 4).unwrap().path()).collect();
    let tree = open();
    for path in &segments {
        tree.call(Call::Write { path, at: 0, bytes: &[7; 3000] }).unwrap();
    }
    tree.call(Call::Sync).unwrap();
    drop(tree);
    image.remount();
    let tree = open();
    let read = |path: &String| {
        let mut into = vec![0; 3000];
        tree.call(Call::Read { path, at: 0, into: &mut into }).map(|()| into)
    };
    image.fail_reads(true);
    assert!(segments[..50].iter().all(|path| read(path).is_err()));
    println!("{} requests of the disk failed", image.failed());
    image.fail_reads(false);
    assert!(segments[50..].iter().all(|path| read(path).is_ok_and(|bytes| bytes == [7; 3000])));
    drop(tree);
    image.unmount();
}

const OBJECTS: u64 = 120;

fn fill(store: &Cache) {
    for n in 0..OBJECTS {
        let mut writer = store.put(&key(n), Bytes::from(n.to_string()), Hint::default());
        block_on(writer.write(body(n)));
        assert!(matches!(block_on(writer.commit()), Commit::Stored { .. }));
    }
}

fn key(n: u64) -> Key {
    Key::from_name(format!("http://host-{}.test/{n}", n % 7).as_bytes())
}

/// From half a segment to beyond one part.
fn body(n: u64) -> Bytes {
    bytes_of(n, if n.is_multiple_of(17) { 300_000 } else { 200 + n as usize * 331 % 20_000 })
}

/// Where each of these eight bytes lie in a file.
fn found_in(file: &File, wanted: &HashMap<[u8; 8], u64>) -> HashMap<u64, u64> {
    let (mut found, mut at) = (HashMap::new(), 0);
    while let Ok(from) = rustix::fs::seek(file, SeekFrom::Data(at)) {
        let to = rustix::fs::seek(file, SeekFrom::Hole(from)).unwrap();
        let mut bytes = vec![0; (to - from) as usize];
        file.read_exact_at(&mut bytes, from).unwrap();
        for (offset, window) in (from..).zip(bytes.windows(8)) {
            if let Some(n) = wanted.get(window) {
                found.insert(*n, offset);
            }
        }
        at = to;
    }
    found
}

/// One bit is flipped in the image while it is not mounted, of one object in four in its body and of another in what lies before its body: its header, its
/// name, a segment's header. The first are misses and counted; so are the second, unless nobody needs that bit. All others are hits.
#[test]
fn flipped_bits_in_the_image_are_misses() {
    for engine in [engines::CERN, engines::SQUID, engines::SQUIDL, engines::SQUIDM, engines::SQUIDMLA] {
        let image = Image::new("ext4", false);
        let open = || Cache::open(options(&image.mount_point(), engine)).unwrap();
        let store = open();
        fill(&store);
        block_on(store.close()).unwrap();
        drop(store);
        image.unmount();
        let begin = |n: u64| <[u8; 8]>::try_from(&body(n)[100..108]).unwrap();
        let wanted: HashMap<_, _> = (0..OBJECTS).map(|n| (begin(n), n)).collect();
        let file = File::options().read(true).write(true).open(image.bytes()).unwrap();
        let found = found_in(&file, &wanted);
        assert_eq!(found.len() as u64, OBJECTS, "{engine}");
        for (n, at) in found.iter().filter(|(n, _)| *n % 2 == 1) {
            // The body began a hundred bytes before.
            let at = if n % 4 == 1 { *at } else { at - 101 - n % 56 };
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 1 << (n % 8)], at).unwrap();
        }
        file.sync_all().unwrap();
        drop(file);
        image.mount();
        let store = open();
        let mut missed = 0;
        for n in 0..OBJECTS {
            let read = block_on(store.find(&key(n))).map(|mut hit| block_on(hit.body.collect(usize::MAX)));
            let is_whole = read == Some(Ok(body(n)));
            assert!(is_whole || read.is_none_or(|read| read.is_err()), "{engine}: object {n} is another");
            assert!(is_whole || n % 2 == 1, "{engine}: object {n} was not damaged");
            assert!(!is_whole || n % 4 != 1, "{engine}: object {n} was damaged");
            missed += u64::from(!is_whole);
        }
        // What lies in the mapped file is read when it is opened.
        let stats = store.stats();
        println!(
            "{engine}: {missed} of {OBJECTS} missed: {} damaged when it was opened, {} when they were read",
            stats.damaged_at_open, stats.corrupt
        );
        assert_eq!(stats.damaged_at_open + stats.corrupt, missed, "{engine}");
        block_on(store.close()).unwrap();
        drop(store);
        image.unmount();
    }
}
