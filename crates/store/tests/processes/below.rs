//! Faults from below a real file system, where wrappers around a device or a tree do not reach: a disk whose writes fail, one that is gone,
//! and bits that are flipped in the file system's image. No wrong byte, no panic, and with a disk that comes back a tree has all that was flushed.
//!
//! Needs root, a free loop device, /dev/fuse, and from Debian e2fsprogs.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use rustix::fs::SeekFrom;
use tinaja_store::contract::bytes_of;
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

const OBJECTS: u64 = 120;

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

/// One bit of every second body is flipped in the image while it is not mounted: these are misses and counted, and the others are hits.
#[test]
fn flipped_bits_in_the_image_are_misses() {
    for engine in [engines::CERN, engines::SQUID, engines::SQUIDL, engines::SQUIDM, engines::SQUIDMLA] {
        let image = Image::new("ext4", false);
        let open = || Cache::open(options(&image.mount_point(), engine)).unwrap();
        let store = open();
        for n in 0..OBJECTS {
            let mut writer = store.put(&key(n), Bytes::from(n.to_string()), Hint::default());
            block_on(writer.write(body(n)));
            assert!(matches!(block_on(writer.commit()), Commit::Stored { .. }));
        }
        block_on(store.close()).unwrap();
        drop(store);
        image.unmount();
        let begin = |n: u64| <[u8; 8]>::try_from(&body(n)[100..108]).unwrap();
        let wanted: HashMap<_, _> = (0..OBJECTS).map(|n| (begin(n), n)).collect();
        let file = File::options().read(true).write(true).open(image.bytes()).unwrap();
        let found = found_in(&file, &wanted);
        assert_eq!(found.len() as u64, OBJECTS, "{engine}");
        for (_, at) in found.iter().filter(|(n, _)| *n % 2 == 1) {
            let mut byte = [0];
            file.read_exact_at(&mut byte, *at).unwrap();
            file.write_all_at(&[byte[0] ^ 1 << (at % 8)], *at).unwrap();
        }
        file.sync_all().unwrap();
        drop(file);
        image.mount();
        let store = open();
        for n in 0..OBJECTS {
            let read = block_on(store.find(&key(n))).map(|mut hit| block_on(hit.body.collect(usize::MAX)));
            match n % 2 {
                0 => assert!(read == Some(Ok(body(n))), "{engine}: object {n}"),
                _ => assert!(read.is_none_or(|read| read.is_err()), "{engine}: object {n} was damaged"),
            }
        }
        // What lies in the mapped file is read when it is opened.
        let stats = store.stats();
        println!(
            "{engine}: {} damaged when it was opened, {} when they were read",
            stats.damaged_at_open, stats.corrupt
        );
        assert_eq!(stats.damaged_at_open + stats.corrupt, OBJECTS / 2, "{engine}");
        block_on(store.close()).unwrap();
        drop(store);
        image.unmount();
    }
}
