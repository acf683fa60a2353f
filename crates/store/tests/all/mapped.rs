//! Small objects in a mapped file: where they lie, what replaces what, and somebody else who cuts the file.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use tinaja_store::device::mapped::{Packing, WithMapped};
use tinaja_store::device::tree::{MemoryTree, Tree};
use tinaja_store::engine::trees::naming::{Naming, Scheme};
use tinaja_store::engine::trees::{FileTree, Mapped, Replacement, TreeOptions};
use tinaja_store::layout::Stamp;
use tinaja_store::{Cache, CacheOptions, Clock, Commit, EngineRef, Secret, Settings, Store, block_on, engines};

use crate::support::{get, key, put};

fn options(dir: &Path, engine: EngineRef) -> CacheOptions {
    CacheOptions::new(dir).engine(engine).disk_bytes(64 << 20).memory_bytes(0)
}

/// 300 to 7200 bytes, and every tenth object is too large for the file.
fn size(n: u64) -> usize {
    if n % 10 == 9 { 20_000 } else { 300 + (n as usize * 641) % 6900 }
}

fn files(dir: &Path) -> usize {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { files(&path) } else { 1 }).sum()
}

/// An object is one write, and one read for each hit; none for a miss. What is there when the process is killed is found, whether it
/// lies in the mapped file or not.
#[test]
fn small_objects_lie_in_the_mapped_file_and_large_ones_in_files() {
    for engine in [engines::SQUIDM, engines::SQUIDML, engines::SQUIDMLA] {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let (here, copy) = (dir.path().join("here"), dir.path().join("copy"));
        let store = Cache::open(options(&here, engine)).unwrap();
        (0..200).for_each(|n| assert!(matches!(put(&store, n, 1, size(n)), Commit::Stored { .. })));
        block_on(store.flush()).unwrap();
        (0..200).for_each(|n| assert_eq!(get(&store, n), Some(1), "{engine}"));
        assert!((200..300).all(|n| get(&store, n).is_none()));
        let stats = store.stats();
        assert_eq!((stats.writes, stats.reads, files(&here.join("objects"))), (200, 200, 20), "{engine}");
        assert_eq!(fs::metadata(here.join("mapped")).unwrap().len(), 16 << 20, "a quarter, allocated at once");
        // Newer versions, removals, and then a kill: what the kernel has is what there is.
        (0..50).for_each(|n| drop(put(&store, n, 2, size(n + 1))));
        (100..110).for_each(|n| assert!(block_on(store.remove(&key(n))).is_ok()));
        block_on(store.flush()).unwrap();
        assert!(Command::new("cp").arg("-r").arg(&here).arg(&copy).status().unwrap().success());
        let killed = Cache::open(options(&copy, engine)).unwrap();
        let expected = |n| if n < 50 { Some(2) } else { Some(1).filter(|_| !(100..110).contains(&n)) };
        (0..200).for_each(|n| assert_eq!(get(&killed, n), expected(n), "{engine}: {n}"));
        assert_eq!((killed.stats().damaged_at_open, killed.stats().live_objects), (0, 190), "{engine}");
        // What was free before is free again, and goes to others.
        (300..500).for_each(|n| assert!(matches!(put(&killed, n, 1, size(n)), Commit::Stored { .. })));
        (0..200).for_each(|n| assert_eq!(get(&killed, n), expected(n), "{engine}: {n}"));
        (300..500).for_each(|n| assert_eq!(get(&killed, n), Some(1), "{engine}: {n}"));
    }
}

/// A copy out of pages behind the end of a mapped file ends a process by `SIGBUS`. Here it is a miss, and counted.
#[test]
fn a_mapped_file_that_is_cut_makes_misses() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = Cache::open(options(dir.path(), engines::SQUIDMLA)).unwrap();
    (0..100).for_each(|n| drop(put(&store, n, 1, 3000)));
    block_on(store.flush()).unwrap();
    // 4096 bytes each: the first forty stay.
    fs::File::options().write(true).open(dir.path().join("mapped")).unwrap().set_len(40 * 4096).unwrap();
    let found: Vec<_> = (0..100).filter(|n| get(&store, *n) == Some(1)).collect();
    assert_eq!(found, (0..40).collect::<Vec<_>>());
    assert_eq!(store.stats().of_engine.named("lost_files"), 60);
    (40..100).for_each(|n| drop(put(&store, n, 2, 3000)));
    assert!((40..100).all(|n| get(&store, n) == Some(2)), "what is stored anew is there");
    block_on(store.close()).unwrap();
    drop(store);
    let store = Cache::open(options(dir.path(), engines::SQUIDMLA)).unwrap();
    assert!((0..100).all(|n| get(&store, n).is_some()));
}

/// The same while others read: whatever a reader has just looked at is gone under its hands, page by page, and comes back as zeros.
#[test]
fn a_mapped_file_that_is_cut_while_it_is_read_makes_misses() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = Cache::open(options(dir.path(), engines::SQUIDMLA)).unwrap();
    (0..100).for_each(|n| drop(put(&store, n, 1, 3000)));
    block_on(store.flush()).unwrap();
    let mapped = fs::File::options().write(true).open(dir.path().join("mapped")).unwrap();
    let bytes = mapped.metadata().unwrap().len();
    let (ended, found) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for reader in 0..4 {
            let (store, ended, found) = (&store, &ended, &found);
            scope.spawn(move || {
                let mut n = reader * 25;
                while !ended.load(SeqCst) {
                    // It looks at every byte that it is given.
                    let object = get(store, n % 100);
                    assert!(object.is_none_or(|version| version == 1));
                    found.fetch_add(u64::from(object.is_some()), SeqCst);
                    n += 1;
                }
            });
        }
        while found.load(SeqCst) < 100 {
            std::thread::yield_now();
        }
        for pages in (0..100).rev() {
            mapped.set_len(pages * 4096).unwrap();
            // Somebody reads while it is so short.
            let before = found.load(SeqCst);
            while pages > 90 && found.load(SeqCst) == before {
                std::thread::yield_now();
            }
            mapped.set_len(bytes).unwrap();
        }
        ended.store(true, SeqCst);
    });
    assert!((0..100).all(|n| get(&store, n).is_none()), "nothing of it is left");
    assert_eq!(store.stats().of_engine.named("lost_files") + store.stats().corrupt, 100);
    (0..100).for_each(|n| drop(put(&store, n, 2, 3000)));
    assert!((0..100).all(|n| get(&store, n) == Some(2)));
}

/// Somebody removes the mapped file, or puts another in its place. Who has it open reads on; who opens it next finds what there is, and
/// never anything else.
#[test]
fn a_mapped_file_that_is_removed_or_replaced_is_never_another() {
    for is_replaced in [false, true] {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let (here, other) = (dir.path().join("here"), dir.path().join("other"));
        for (dir, version) in [(&here, 1), (&other, 2)] {
            let store = Cache::open(options(dir, engines::SQUIDMLA)).unwrap();
            (0..100).for_each(|n| drop(put(&store, n, version, size(n))));
            block_on(store.close()).unwrap();
        }
        let store = Cache::open(options(&here, engines::SQUIDMLA)).unwrap();
        match is_replaced {
            false => fs::remove_file(here.join("mapped")).unwrap(),
            true => fs::rename(other.join("mapped"), here.join("mapped")).unwrap(),
        }
        assert!((0..100).all(|n| get(&store, n) == Some(1)), "it is open");
        block_on(store.close()).unwrap();
        drop(store);
        let store = Cache::open(options(&here, engines::SQUIDMLA)).unwrap();
        let found: Vec<_> = (0..100).filter(|n| get(&store, *n).is_some()).collect();
        assert_eq!(found, (0..100).filter(|n| n % 10 == 9).collect::<Vec<_>>(), "those in files of their own");
        let counted = ["lost_files", "foreign_files"].map(|name| store.stats().of_engine.named(name));
        assert_eq!(counted, if is_replaced { [0, 1] } else { [1, 0] });
        (0..100).for_each(|n| drop(put(&store, n, 3, size(n))));
        assert!((0..100).all(|n| get(&store, n) == Some(3)));
    }
}

#[test]
fn what_is_wrong_with_a_page_is_said() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let asked = Settings::new().with(&engines::PAGE_SIZE, 5000);
    let error = Cache::open(options(dir.path(), engines::SQUIDM).settings(asked)).err().unwrap().to_string();
    assert!(error.contains("a page cannot have 5000 bytes: choose 4KiB or 8KiB"), "{error}");
}

fn open(dir: &Path, mapped: Mapped) -> Cache {
    open_beside(Arc::new(MemoryTree::default()), dir, mapped)
}

/// The same, with these files beside the mapped one.
fn open_beside(files: Arc<MemoryTree>, dir: &Path, mapped: Mapped) -> Cache {
    let secret = Secret::from_bytes([7; 32]);
    let options = TreeOptions {
        engine: engines::SQUIDMLA,
        naming: Naming { scheme: Scheme::SquidL, first: 2, second: 4, files: 256, overlapping: false },
        bytes: 8 << 20,
        mapped: Some(mapped),
        mean_object_bytes: 8192,
        stamp: Stamp { seed: secret.seed() },
        clock: Clock::system(),
        flush_every: None,
        read_only: false,
    };
    let tree = WithMapped::over(files, &dir.join("mapped"), mapped.bytes, secret.seed(), false).unwrap();
    let engine = FileTree::open(Arc::new(tree), options).unwrap();
    Cache::over_by(Clock::system(), Arc::new(engine), secret, 0).unwrap()
}

fn small(replacement: Replacement) -> Mapped {
    Mapped { bytes: 256 << 10, page_bytes: 8192, packing: Packing::WithinPages, replacement }
}

/// An object replaces one of its own size where that lies: one write, and none for what leaves (section 3.3).
#[test]
fn a_full_file_replaces_in_place() {
    for replacement in [Replacement::Lru, Replacement::FBC] {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let store = open(dir.path(), small(replacement));
        for n in 0..1000 {
            assert!(matches!(put(&store, n, 1, 3000), Commit::Stored { .. }));
            assert!(get(&store, n % 4).is_some(), "asked for all the time");
            // What is still being written when its turn comes goes to the end of the line.
            if n % 16 == 15 {
                block_on(store.flush()).unwrap();
            }
        }
        let there: Vec<_> = (0..1000).filter(|n| get(&store, *n).is_some()).collect();
        assert_eq!((there.len(), there[..4].to_vec()), (64, vec![0, 1, 2, 3]), "{replacement:?}");
        assert!(there[4..].windows(2).all(|two| two[1] == two[0] + 1), "all of them the newest: {there:?}");
        block_on(store.flush()).unwrap();
        let stats = store.stats();
        let removed = stats.of_engine.named("removed_files");
        assert_eq!((stats.writes, stats.of_engine.named("replaced_segments"), removed), (1000, 936, 0));
    }
}

/// A file full of large segments has none for a small object: it is given one of those, and not refused.
#[test]
fn a_size_without_any_segment_is_given_a_larger_one() {
    for replacement in [Replacement::Lru, Replacement::FBC] {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let store = open(dir.path(), small(replacement));
        (0..32).for_each(|n| drop(put(&store, n, 1, 7000)));
        block_on(store.flush()).unwrap();
        (100..110).for_each(|n| assert!(matches!(put(&store, n, 1, 200), Commit::Stored { .. })));
        assert!((100..110).all(|n| get(&store, n) == Some(1)), "{replacement:?}");
        assert_eq!((0..32).filter(|n| get(&store, *n).is_some()).count(), 22, "{replacement:?}");
        assert_eq!(store.stats().live_objects, 32);
    }
}

/// The other way round: a file full of small segments has none for an object of a page's size, and no larger ones. Such an object goes into a file
/// of its own, drives nobody out of the mapped one, and is found there after a restart. What is as large as the segments that there are
/// still goes into one.
#[test]
fn a_size_without_any_segment_as_large_is_a_file() {
    for replacement in [Replacement::Lru, Replacement::FBC] {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let files = Arc::new(MemoryTree::default());
        let listed = || {
            let mut found = Vec::new();
            files.list(&mut |_, bytes| found.push(bytes)).unwrap();
            found.sort_unstable();
            found
        };
        let store = open_beside(files.clone(), dir.path(), small(replacement));
        (0..64).for_each(|n| assert!(matches!(put(&store, n, 1, 3000), Commit::Stored { .. })));
        block_on(store.flush()).unwrap();
        assert_eq!((listed().len(), store.stats().live_objects), (0, 64), "all in the mapped file, which is full");
        (100..110).for_each(|n| assert!(matches!(put(&store, n, 1, 7000), Commit::Stored { .. })));
        block_on(store.flush()).unwrap();
        let large = listed();
        assert!(large.len() == 10 && large.iter().all(|bytes| *bytes > 7000), "{replacement:?}: {large:?}");
        assert_eq!((store.stats().live_objects, store.stats().of_engine.named("replaced_segments")), (74, 0));
        assert!(matches!(put(&store, 200, 1, 3000), Commit::Stored { .. }));
        block_on(store.flush()).unwrap();
        assert_eq!((listed().len(), store.stats().of_engine.named("replaced_segments")), (10, 1), "{replacement:?}");
        block_on(store.close()).unwrap();
        let store = open_beside(files.clone(), dir.path(), small(replacement));
        assert!((100..110).all(|n| get(&store, n) == Some(1)), "{replacement:?}");
        assert_eq!((0..64).filter(|n| get(&store, *n) == Some(1)).count(), 63, "{replacement:?}");
    }
}

/// A free segment's header said how long it was, and a listing went on behind it. Opened again, what was free is cut another way: an
/// object there was not found, and could be found again, older, when the header had gone.
#[test]
fn what_was_cut_another_way_is_found() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mapped = Mapped { packing: Packing::InOrder, ..small(Replacement::Lru) };
    let store = open(dir.path(), mapped);
    for (n, bytes) in [(1, 200), (2, 7000), (3, 200)] {
        drop(put(&store, n, 1, bytes));
    }
    block_on(store.remove(&key(2))).unwrap();
    block_on(store.close()).unwrap();
    let store = open(dir.path(), mapped);
    for (n, bytes) in [(4, 3000), (5, 1500), (6, 700), (7, 200)] {
        drop(put(&store, n, 1, bytes));
    }
    block_on(store.close()).unwrap();
    let store = open(dir.path(), mapped);
    assert_eq!(
        [1, 2, 3, 4, 5, 6, 7].map(|n| get(&store, n)),
        [1, 0, 1, 1, 1, 1, 1].map(|n| Some(n).filter(|n| *n > 0))
    );
}

/// Cut while nobody had it open. It has its length again, and what lay behind the cut are misses.
#[test]
fn a_mapped_file_that_was_cut_is_counted_when_it_is_opened() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let open = || Cache::open(options(dir.path(), engines::SQUIDMLA)).unwrap();
    let lost = |store: &Cache| store.stats().of_engine.named("lost_files");
    let store = open();
    assert_eq!(lost(&store), 0, "made with the cache");
    (0..100).for_each(|n| drop(put(&store, n, 1, size(n))));
    block_on(store.close()).unwrap();
    drop(store);
    let store = open();
    assert_eq!((lost(&store), (0..100).filter(|n| get(&store, *n).is_some()).count()), (0, 100));
    block_on(store.close()).unwrap();
    drop(store);
    fs::File::options().write(true).open(dir.path().join("mapped")).unwrap().set_len(100_000).unwrap();
    let store = open();
    let found = (0..100).filter(|n| get(&store, *n).is_some()).count();
    assert!(lost(&store) == 1 && (10..100).contains(&found), "{} lost, {found} found", lost(&store));
    assert_eq!(fs::metadata(dir.path().join("mapped")).unwrap().len(), 16 << 20);
}

/// A user's own file of that name was written over.
#[test]
fn another_s_file_in_its_place_is_refused() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    fs::write(dir.path().join("mapped"), "mine").unwrap();
    let error = Cache::open(options(dir.path(), engines::SQUIDM)).err().unwrap().to_string();
    assert!(error.contains("something else has this name: move it away"), "{error}");
    assert_eq!(fs::read(dir.path().join("mapped")).unwrap(), b"mine");
}
