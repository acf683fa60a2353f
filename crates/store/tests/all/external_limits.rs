//! The external indexing interface where it ends: tickets that are held, dropped or misused, several disks, what is in memory.

use std::path::Path;

use bytes::Bytes;
use tinaja_store::contract::bytes_of;
use tinaja_store::external::{ExternalError, Step};
use tinaja_store::limits::MAX_TICKETS;
use tinaja_store::{Cache, CacheOptions, Commit, Hint, Settings, Store, block_on, engines};

use crate::support::reading::{find, version};
use crate::support::{get, key, put};

fn open(dir: &Path) -> Cache {
    let options = CacheOptions::new(dir).disk_bytes(16 << 20);
    Cache::open(options.memory_bytes(0).mean_object_bytes(4096).flush_every(None)).unwrap()
}

#[test]
fn each_of_several_disks_has_its_own_descriptor() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let options =
        || CacheOptions::new(dirs[0].path()).disk_bytes(16 << 20).memory_bytes(0).more_dirs([dirs[1].path().into()]);
    let cache = Cache::open(options()).unwrap();
    (0..60)
        .for_each(|n| assert!(matches!(put(&cache, n, 1, if n < 58 { 3000 } else { 900_000 }), Commit::Stored { .. })));
    block_on(cache.close()).unwrap();
    drop(cache);
    let cache = Cache::open(options()).unwrap();
    let index = cache.external();
    let mut files = [0; 2];
    for n in 0..60 {
        let Step::Read(read) = block_on(index.locate(&key(n))).unwrap() else { panic!("{n} is not on disk") };
        let held = read.file().metadata().unwrap();
        let is_of = |dir: &tempfile::TempDir| {
            let there = std::fs::metadata(dir.path().join("tinaja.cache")).unwrap();
            std::os::unix::fs::MetadataExt::ino(&there) == std::os::unix::fs::MetadataExt::ino(&held)
        };
        files[dirs.iter().position(is_of).expect("of neither disk")] += 1;
        drop(read);
        assert_eq!(version(&index, n, &find(&index, &key(n)).0.unwrap()), 1);
    }
    assert!(files.iter().all(|count| *count > 10), "{files:?}");
}

#[test]
fn tickets_are_bounded_and_misuse_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path());
    let _ = put(&cache, 1, 1, 3000);
    block_on(cache.close()).unwrap();
    drop(cache);
    let cache = open(dir.path());
    let index = cache.external();
    let mut steps: Vec<_> = (0..MAX_TICKETS).map(|_| block_on(index.locate(&key(1))).unwrap()).collect();
    assert_eq!(block_on(index.locate(&key(1))).unwrap_err(), ExternalError::TooMany(MAX_TICKETS));
    drop(steps.pop());
    let Step::Read(read) = block_on(index.locate(&key(1))).unwrap() else { panic!("not on disk") };
    let wanted = read.bytes();
    let short = block_on(read.verify(&[0; 10])).unwrap_err();
    assert_eq!(short, ExternalError::Length { given: 10, wanted });
    assert!(find(&index, &key(1)).0.is_some(), "a mistake of the caller's costs nobody an object");
    let Some(Step::Read(read)) = steps.pop() else { panic!("not on disk") };
    let bytes = read.read().unwrap();
    block_on(cache.close()).unwrap();
    assert_eq!(block_on(read.verify(&bytes)).unwrap_err(), ExternalError::Closed);
    assert_eq!(block_on(index.locate(&key(1))).unwrap_err(), ExternalError::Closed);
}

#[test]
fn hot_objects_need_no_read_and_unfinished_writes_are_not_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    let options = CacheOptions::new(dir.path()).disk_bytes(16 << 20);
    let cache = Cache::open(options).unwrap();
    let index = cache.external();
    let _ = put(&cache, 1, 1, 3000);
    assert_eq!(get(&cache, 1), Some(1));
    let mut writer = cache.put(&key(1), Bytes::from_static(b"2"), Hint::default());
    block_on(writer.write(bytes_of(1002, 3000)));
    let (object, reads) = find(&index, &key(1));
    assert_eq!((version(&index, 1, &object.unwrap()), reads), (1, 0));
    assert!(matches!(block_on(writer.commit()), Commit::Stored { .. }));
    assert_eq!(version(&index, 1, &find(&index, &key(1)).0.unwrap()), 2);
}

/// Where related objects are read in one request, whoever wants one that is being read waits for it. A request that was
/// handed out to a program was taken for one under way: while its ticket was held, and for ever once it was dropped, lookups
/// of all that it would have read ran into their deadlines.
#[test]
fn nobody_waits_for_a_read_that_was_handed_out() {
    let dir = tempfile::tempdir().unwrap();
    let options = || {
        let settings = Settings::new().with(&engines::PREFETCH, 1);
        CacheOptions::new(dir.path()).settings(settings).disk_bytes(16 << 20).memory_bytes(0).mean_object_bytes(4096)
    };
    let cache = Cache::open(options()).unwrap();
    for n in 0..8 {
        let hint = Hint { group: Some(1), ..Hint::default() };
        let mut writer = cache.put(&key(n), Bytes::from_static(b"1"), hint);
        block_on(writer.write(bytes_of(n * 1000 + 1, 3000)));
        assert!(matches!(block_on(writer.commit()), Commit::Stored { .. }));
    }
    block_on(cache.close()).unwrap();
    drop(cache);
    let cache = Cache::open(options()).unwrap();
    let index = cache.external();
    let Step::Read(read) = block_on(index.locate(&key(0))).unwrap() else { panic!("not on disk") };
    assert!(read.bytes() > 8 * 3000, "one request for all of them: {} bytes", read.bytes());
    let began = std::time::Instant::now();
    assert!((1..4).all(|n| get(&cache, n) == Some(1)), "while the ticket is held");
    drop(read);
    assert!((4..8).all(|n| get(&cache, n) == Some(1)), "when it was dropped");
    assert!(began.elapsed() < tinaja_store::FIND_DEADLINE, "they waited");
    let (object, reads) = find(&index, &key(0));
    assert_eq!(version(&index, 0, &object.unwrap()), 1);
    assert!(reads <= 1, "{reads}");
}
