//! Engines with a file an object: power cuts, file systems that fail, and somebody else in their directory.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tinaja_store::contract::bytes_of;
use tinaja_store::device::mapped::Packing;
use tinaja_store::device::tree::{Call, Fate, Faulty, FileFault, MemoryTree, Tree};
use tinaja_store::engine::trees::naming::{Naming, Scheme};
use tinaja_store::engine::trees::{FileTree, Mapped, Replacement, TreeOptions};
use tinaja_store::layout::Stamp;
use tinaja_store::{
    Cache, CacheOptions, Clock, Commit, EngineRef, Secret, Settings, Store, Updated, WhyNot, block_on, engines,
};

use crate::power::{Acknowledged, OBJECTS, look_at_all, script};
use crate::support::{get, key, put, wait_until};

const CAPACITY: u64 = 64 << 20;

fn naming(files: u32) -> Naming {
    Naming { scheme: Scheme::Squid2, first: 2, second: 4, files, overlapping: false }
}

fn open_with(tree: Arc<dyn Tree>, naming: Naming, bytes: u64) -> Result<Cache, String> {
    open_mapped(tree, naming, bytes, None)
}

fn open_mapped(tree: Arc<dyn Tree>, naming: Naming, bytes: u64, mapped: Option<Mapped>) -> Result<Cache, String> {
    open_flushed(tree, naming, bytes, mapped, None)
}

fn open_flushed(
    tree: Arc<dyn Tree>,
    naming: Naming,
    bytes: u64,
    mapped: Option<Mapped>,
    flush_every: Option<Duration>,
) -> Result<Cache, String> {
    let secret = Secret::from_bytes([7; 32]);
    let options = TreeOptions {
        engine: engines::SQUID2,
        naming,
        bytes,
        mapped,
        mean_object_bytes: 8192,
        stamp: Stamp { seed: secret.seed() },
        clock: Clock::system(),
        flush_every,
        read_only: false,
    };
    let engine = FileTree::open(tree, options)?;
    Ok(Cache::over_by(Clock::system(), Arc::new(engine), secret, 0).unwrap())
}

fn open(tree: Arc<dyn Tree>) -> Result<Cache, String> {
    open_with(tree, naming(256), CAPACITY)
}

/// Without a mapped file, with one that has room for all, with one so small that objects replace each other, and by URL.
fn ways() -> [(Naming, Option<Mapped>); 4] {
    let mapped =
        Mapped { bytes: 4 << 20, page_bytes: 8192, packing: Packing::WithinPages, replacement: Replacement::Lru };
    let small = Mapped { bytes: 24 << 10, packing: Packing::InOrder, replacement: Replacement::FBC, ..mapped };
    let by_url = Naming { scheme: Scheme::Cern, ..naming(256) };
    [(naming(256), None), (naming(256), Some(mapped)), (naming(256), Some(small)), (by_url, None)]
}

type Fates = (&'static str, fn(&str) -> Fate);

/// What of a file that no sync covers a cut of the power leaves, five ways.
fn fates() -> [Fates; 5] {
    [
        ("none of it", |_| Fate::Before),
        ("all of it", |_| Fate::Now),
        ("zeros", |_| Fate::Zeros),
        ("the beginning of each", |_| Fate::Cut(700)),
        ("every other file", |path| match path.bytes().map(usize::from).sum::<usize>() % 3 {
            0 => Fate::Before,
            1 => Fate::Now,
            _ => Fate::Cut(60_000),
        }),
    ]
}

/// The power goes at every call. What a flush acknowledged is there, or a newer version of it; nothing removed comes back.
#[test]
fn whatever_a_power_cut_leaves_what_was_flushed_is_there() {
    ways().into_iter().for_each(cut_the_power);
}

fn cut_the_power((naming, mapped): (Naming, Option<Mapped>)) {
    let open = |tree: Arc<dyn Tree>| open_mapped(tree, naming, CAPACITY, mapped);
    let least = if mapped.is_some_and(|mapped| mapped.bytes < 1 << 20) { 6.0 } else { 12.0 };
    let run = |call: u64| {
        let tree = MemoryTree::default();
        let plan = move |now, _: &Call<'_>| (now >= call).then_some(FileFault::Error(ErrorKind::Other));
        let failing = Arc::new(Faulty::over(Arc::new(tree.clone()), plan));
        let floor = Mutex::new(Acknowledged::nothing());
        if let Ok(store) = open(failing.clone()) {
            script(engines::SQUID2, &store, 6, &floor);
        }
        (tree, floor.into_inner(), failing.calls())
    };
    let (_, _, calls) = run(u64::MAX);
    let (mut openings, mut found) = (0, 0);
    for call in 0..calls {
        let (tree, floor, _) = run(call);
        for (what, fate) in fates() {
            let why = || format!("power cut at call {call}, of what was not synced {what} is left");
            let left = open(Arc::new(tree.left(fate))).unwrap_or_else(|error| panic!("{}: {error}", why()));
            // Where they replace each other, what was acknowledged may be gone.
            found += look_at_all(&left, &floor, least > 10.0, &why);
            openings += 1;
        }
    }
    println!("{calls} calls, {openings} openings, {:.1} objects found on average", found as f64 / f64::from(openings));
    assert!(calls > 100 && found as f64 / f64::from(openings) > least);
}

/// Each call of a run goes wrong in turn, in every way. No wrong byte, no older version than one that was acknowledged.
#[test]
fn a_file_system_that_fails_or_lies_makes_misses() {
    ways().into_iter().for_each(fail_each_call);
}

fn fail_each_call((naming, mapped): (Naming, Option<Mapped>)) {
    let open = |tree: Arc<dyn Tree>| open_mapped(tree, naming, CAPACITY, mapped);
    let least = if mapped.is_some_and(|mapped| mapped.bytes < 1 << 20) { 6.0 } else { 12.0 };
    let run = |target: u64, fault: Option<FileFault>| {
        let tree = MemoryTree::default();
        let plan = move |now, _: &Call<'_>| fault.filter(|_| now == target);
        let faulty = Arc::new(Faulty::over(Arc::new(tree.clone()), plan));
        let floor = Mutex::new(Acknowledged::nothing());
        let store = open(faulty.clone()).unwrap();
        script(engines::SQUID2, &store, 4, &floor);
        (tree, floor.into_inner(), faulty.calls(), store)
    };
    let (_, _, calls, _) = run(u64::MAX, None);
    let honest = [ErrorKind::StorageFull, ErrorKind::PermissionDenied, ErrorKind::Other].map(FileFault::Error);
    let lies = [FileFault::Short(100), FileFault::Lost, FileFault::Flipped(0), FileFault::Flipped(77_777)];
    let (mut openings, mut found) = (0, 0);
    for fault in honest.into_iter().chain(lies) {
        for target in (0..calls).step_by(3) {
            let (tree, floor, _, store) = run(target, Some(fault));
            let why = || format!("call {target} was {fault:?}");
            // What was lost without a word a flush has acknowledged in vain, and a removal too.
            let floor = if fault == FileFault::Lost { Acknowledged::nothing() } else { floor };
            look_at_all(&store, &floor, false, &why);
            drop(store);
            let left = open(Arc::new(tree.left(|_| Fate::Now))).unwrap();
            found += look_at_all(&left, &floor, false, &why);
            openings += 1;
        }
    }
    println!("{calls} calls, {openings} openings, {:.1} objects found on average", found as f64 / f64::from(openings));
    assert!(found as f64 / f64::from(openings) > least);
}

/// A sync that fails tells, and what it was for is not served from then on.
#[test]
fn what_a_failed_sync_was_for_is_not_trusted() {
    let fails = Arc::new(Mutex::new(false));
    let now = fails.clone();
    let plan = move |_, call: &Call<'_>| {
        (matches!(call, Call::Sync) && *now.lock()).then_some(FileFault::Error(ErrorKind::Other))
    };
    let store = open(Arc::new(Faulty::over(Arc::new(MemoryTree::default()), plan))).unwrap();
    drop(put(&store, 1, 1, 5000));
    block_on(store.flush()).unwrap();
    drop(put(&store, 2, 1, 5000));
    *fails.lock() = true;
    let error = block_on(store.flush()).unwrap_err().to_string();
    assert!(error.contains("cannot sync the directory"), "{error}");
    assert_eq!((get(&store, 1), get(&store, 2)), (Some(1), None));
    // Eight in a row, and nothing is written any more; what is there is served.
    for n in 3..10 {
        drop(put(&store, n, 1, 100));
        assert!(block_on(store.flush()).is_err());
    }
    assert!(matches!(put(&store, 20, 1, 100), Commit::NotStored(_)));
    assert_eq!((get(&store, 1), store.stats().disks_retired), (Some(1), 1));
}

/// An object had been stored when its file could not be written. The flush after that said that all was well, and so did the end.
#[test]
fn a_file_that_could_not_be_written_is_told_of() {
    for kind in [ErrorKind::Other, ErrorKind::StorageFull] {
        let fails = Arc::new(Mutex::new(false));
        let now = fails.clone();
        let plan = move |_, call: &Call<'_>| {
            (matches!(call, Call::Write { .. }) && *now.lock()).then_some(FileFault::Error(kind))
        };
        let store = open(Arc::new(Faulty::over(Arc::new(MemoryTree::default()), plan))).unwrap();
        let lose = |n, failures| {
            *fails.lock() = true;
            assert!(matches!(put(&store, n, 1, 5000), Commit::Stored { .. }));
            wait_until("its write has failed", || store.stats().write_errors == failures);
            *fails.lock() = false;
        };
        lose(1, 1);
        let error = block_on(store.flush()).unwrap_err().to_string();
        assert!(error.contains("could not be written"), "{error}");
        assert_eq!((get(&store, 1), block_on(store.flush())), (None, Ok(())), "once");
        lose(2, 2);
        assert!(block_on(store.close()).is_err());
    }
}

/// A sync that nobody asked for fails, and what it was for is given up. The next flush said that all was well.
#[test]
fn what_a_sync_by_the_clock_took_is_told_to_the_next_who_asks() {
    let fails = Arc::new(Mutex::new(false));
    let now = fails.clone();
    let plan = move |_, call: &Call<'_>| {
        (matches!(call, Call::Sync) && *now.lock()).then_some(FileFault::Error(ErrorKind::Other))
    };
    let tree = Arc::new(Faulty::over(Arc::new(MemoryTree::default()), plan));
    let every = Duration::from_millis(1);
    let store = open_flushed(tree, naming(256), CAPACITY, None, Some(every)).unwrap();
    *fails.lock() = true;
    assert!(matches!(put(&store, 1, 1, 5000), Commit::Stored { .. }));
    wait_until("a sync has failed", || store.stats().sync_errors > 0);
    *fails.lock() = false;
    assert!(block_on(store.flush()).is_err());
    assert_eq!((get(&store, 1), block_on(store.flush())), (None, Ok(())), "once");
}

/// An older version waited for a sync to make the newer one last. The object was removed while that sync was under way: the
/// newer file went, the older one only when the sync had ended, and the removal did not wait for it. After a cut of the power it was
/// there again.
#[test]
fn a_removal_during_a_sync_takes_the_older_version_too() {
    let (tree, held) = (MemoryTree::default(), Arc::new((Mutex::new(false), Condvar::new())));
    let gate = held.clone();
    let plan = move |_, call: &Call<'_>| {
        let (is_held, changed) = &*gate;
        let mut is_held = is_held.lock();
        while *is_held && matches!(call, Call::Sync) {
            changed.wait(&mut is_held);
        }
        None
    };
    let store = Arc::new(open(Arc::new(Faulty::over(Arc::new(tree.clone()), plan))).unwrap());
    drop(put(&store, 1, 1, 5000));
    block_on(store.flush()).unwrap();
    drop(put(&store, 1, 2, 5000));
    *held.0.lock() = true;
    let flushing = std::thread::spawn({
        let store = store.clone();
        move || block_on(store.flush())
    });
    let writes = || store.stats().writes == 2;
    wait_until("the sync has begun", || writes() && store.stats().disk_waiting == 1);
    let removing = std::thread::spawn({
        let store = store.clone();
        move || block_on(store.remove(&key(1)))
    });
    // The newer one stays until that lasts.
    wait_until("the older file is removed", || store.stats().of_engine.named("removed_files") == 1);
    *held.0.lock() = false;
    held.1.notify_all();
    flushing.join().unwrap().unwrap();
    removing.join().unwrap().unwrap();
    let left = open(Arc::new(tree.left(|_| Fate::Before))).unwrap();
    assert_eq!(get(&left, 1), None);
}

/// A removal was acknowledged while the removed file was still being written: the sync had been asked for before the file was
/// removed, and did not wait for that. After a kill the object was there.
#[test]
fn a_removal_while_it_is_written_lasts() {
    let (tree, held) = (MemoryTree::default(), Arc::new((Mutex::new(true), Condvar::new())));
    let gate = held.clone();
    let removals = Arc::new(Mutex::new(Vec::new()));
    let seen = removals.clone();
    let plan = move |_, call: &Call<'_>| {
        let (is_held, changed) = &*gate;
        let mut is_held = is_held.lock();
        while *is_held && matches!(call, Call::Write { .. }) {
            changed.wait(&mut is_held);
        }
        match call {
            Call::Remove { .. } => seen.lock().push("removed"),
            Call::Sync => seen.lock().push("synced"),
            _ => {}
        }
        None
    };
    let store = Arc::new(open(Arc::new(Faulty::over(Arc::new(tree.clone()), plan))).unwrap());
    drop(put(&store, 1, 1, 5000));
    let removing = std::thread::spawn({
        let store = store.clone();
        move || block_on(store.remove(&key(1)))
    });
    wait_until("it is removed", || store.stats().live_objects == 0);
    *held.0.lock() = false;
    held.1.notify_all();
    removing.join().unwrap().unwrap();
    assert_eq!(*removals.lock(), ["removed", "synced"]);
    assert_eq!(get(&open(Arc::new(tree.left(|_| Fate::Before))).unwrap(), 1), None);
}

/// An object of several parts was lost a moment after it was stored: its record was written before one of its parts was, and the list of
/// its directory, which names it when all is written, was asked already. What the list did not name was forgotten.
#[test]
fn what_is_not_listed_yet_is_found() {
    let held = Arc::new((Mutex::new(true), Condvar::new()));
    let gate = held.clone();
    let plan = move |_, call: &Call<'_>| {
        let is_first_part = |bytes: &[u8], at: u64| at == 0 && bytes.len() > 100_000;
        let (is_held, changed) = &*gate;
        let mut is_held = is_held.lock();
        while *is_held && matches!(call, Call::Write { at, bytes, .. } if is_first_part(bytes, *at)) {
            changed.wait(&mut is_held);
        }
        None
    };
    let by_url = Naming { scheme: Scheme::Cern, ..naming(256) };
    let tree = Arc::new(Faulty::over(Arc::new(MemoryTree::default()), plan));
    let store = open_with(tree, by_url, CAPACITY).unwrap();
    drop(put(&store, 1, 1, 600_000));
    wait_until("all but one part is written", || store.stats().writes > 1 && store.stats().disk_waiting == 1);
    let found = get(&store, 1);
    *held.0.lock() = false;
    held.1.notify_all();
    assert_eq!(found, Some(1));
    block_on(store.flush()).unwrap();
    assert_eq!(get(&store, 1), Some(1));
}

/// Of two writes of one object the one that was committed last counts, after a restart too: the other one's file had the higher
/// number, since it was begun later.
#[test]
fn what_was_committed_last_counts_after_a_kill() {
    let tree = MemoryTree::default();
    let store = open(Arc::new(tree.clone())).unwrap();
    let mut long = store.put(&key(1), "2".into(), tinaja_store::Hint::default());
    block_on(long.write(bytes_of(1002, 900_000)));
    wait_until("it has a file", || store.stats().writes > 0);
    drop(put(&store, 1, 1, 5000));
    assert!(matches!(block_on(long.commit()), Commit::Stored { .. }));
    assert_eq!(get(&store, 1), Some(2));
    // Killed before anything is synced, and all of it is there.
    wait_until("all is written", || store.stats().disk_waiting == 0 && store.stats().writes == 6);
    let left = open(Arc::new(tree.left(|_| Fate::Now))).unwrap();
    assert_eq!(get(&left, 1), Some(2));
}

/// With a second newer version, once flushed, the file of the first one went together with that of the one between: whoever read it
/// was cut off. The random histories found it once in some dozen runs.
#[test]
fn a_reader_of_a_version_reads_on_when_two_newer_ones_last() {
    let store = open(Arc::new(MemoryTree::default())).unwrap();
    drop(put(&store, 1, 1, 900_000));
    block_on(store.flush()).unwrap();
    let mut reader = block_on(store.find(&key(1))).unwrap();
    for version in [2, 3] {
        drop(put(&store, 1, version, 900_000));
        block_on(store.flush()).unwrap();
    }
    assert!(block_on(reader.body.collect(usize::MAX)) == Ok(bytes_of(1001, 900_000)));
    assert_eq!(get(&store, 1), Some(3));
}

/// Who had followed a write and read on after its end had no hold on its file: with a newer version, once flushed, it was cut off.
/// The random histories found it, in one run of some hundred.
#[test]
fn who_followed_a_write_reads_on_when_a_newer_one_lasts() {
    let store = open(Arc::new(MemoryTree::default())).unwrap();
    let mut writer = store.put(&key(1), "1".into(), tinaja_store::Hint::default());
    block_on(writer.write(bytes_of(1001, 900_000)));
    let mut follower = block_on(store.find(&key(1))).unwrap();
    assert!(matches!(block_on(writer.commit()), Commit::Stored { .. }));
    drop(put(&store, 1, 2, 900_000));
    block_on(store.flush()).unwrap();
    assert!(block_on(follower.body.collect(usize::MAX)) == Ok(bytes_of(1001, 900_000)));
}

/// What somebody reads and is evicted meanwhile stays for them.
#[test]
fn a_reader_of_what_is_evicted_reads_on() {
    let store = open_with(Arc::new(MemoryTree::default()), naming(256), 8 << 20).unwrap();
    drop(put(&store, 1, 1, 900_000));
    let mut reader = block_on(store.find(&key(1))).unwrap();
    (100..112).for_each(|n| drop(put(&store, n, 1, 900_000)));
    assert_eq!(get(&store, 1), None);
    block_on(store.flush()).unwrap();
    assert!(block_on(reader.body.collect(usize::MAX)) == Ok(bytes_of(1001, 900_000)));
}

/// A version that somebody still reads is evicted, so is a newer one of the same object: after a kill the first was there again.
#[test]
fn an_older_version_does_not_outlast_a_newer_one() {
    let tree = MemoryTree::default();
    let store = open_with(Arc::new(tree.clone()), naming(256), 8 << 20).unwrap();
    let fill = |from: u64| (from..from + 12).for_each(|n| drop(put(&store, n, 1, 900_000)));
    drop(put(&store, 1, 1, 900_000));
    let reader = block_on(store.find(&key(1))).unwrap();
    fill(100);
    assert_eq!(get(&store, 1), None);
    drop(put(&store, 1, 2, 900_000));
    fill(200);
    assert_eq!(get(&store, 1), None);
    block_on(store.flush()).unwrap();
    assert_eq!(get(&open(Arc::new(tree.left(|_| Fate::Now))).unwrap(), 1), None);
    drop(reader);
}

/// Versions go in their order, and a disk on which the older one cannot be removed would have held up the newer one for ever, with
/// every flush and the close behind it. Whoever asked is told.
#[test]
fn a_removal_that_always_fails_is_told_and_holds_up_nothing() {
    for also_syncs in [false, true] {
        let (tree, fails) = (MemoryTree::default(), Arc::new(Mutex::new(false)));
        let failing = fails.clone();
        let plan = move |_, call: &Call<'_>| {
            let is_hit = matches!(call, Call::Remove { .. }) || also_syncs && matches!(call, Call::Sync);
            (is_hit && *failing.lock()).then_some(FileFault::Error(ErrorKind::PermissionDenied))
        };
        let store = open(Arc::new(Faulty::over(Arc::new(tree.clone()), plan))).unwrap();
        drop(put(&store, 1, 1, 5000));
        block_on(store.flush()).unwrap();
        drop(put(&store, 1, 2, 5000));
        *fails.lock() = true;
        assert!(block_on(store.remove(&key(1))).is_err());
        assert_eq!(get(&store, 1), None);
        if !also_syncs {
            *fails.lock() = false;
            drop(put(&store, 2, 1, 5000));
            block_on(store.flush()).unwrap();
            let mut files = 0;
            tree.list(&mut |_, _| files += 1).unwrap();
            assert_eq!(files, 1, "what could not be removed is, later");
        }
        assert_eq!(block_on(store.close()).is_err(), also_syncs);
    }
}

/// A cache that is only looked at is not changed, however damaged its files are.
#[test]
fn looking_removes_nothing() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = Cache::open(options(dir.path(), engines::SQUID)).unwrap();
    (0..3).for_each(|n| drop(put(&store, n, 1, 5000)));
    block_on(store.close()).unwrap();
    drop(store);
    let all = files(&dir.path().join("objects"));
    let mut bytes = fs::read(&all[0]).unwrap();
    bytes[2000] ^= 1;
    fs::write(&all[0], &bytes).unwrap();
    let looked = Cache::open_read_only(&[dir.path().to_owned()]).unwrap();
    assert_eq!((0..3).filter(|n| get(&looked, *n).is_some()).count(), 2);
    assert_eq!(looked.stats().corrupt, 1);
    block_on(looked.close()).unwrap();
    assert!(all.iter().all(|path| path.exists()));
}

/// A directory in the place of a file cannot be removed as one. Every sync failed for it, and after eight of them nothing was
/// written any more.
#[test]
fn a_directory_in_the_place_of_a_file_fails_no_sync() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = Cache::open(options(dir.path(), engines::SQUID2)).unwrap();
    (0..3).for_each(|n| drop(put(&store, n, 1, 5000)));
    block_on(store.flush()).unwrap();
    let all = files(&dir.path().join("objects"));
    fs::remove_file(&all[1]).unwrap();
    fs::create_dir(&all[1]).unwrap();
    assert_eq!((0..3).filter(|n| get(&store, *n).is_some()).count(), 2);
    for n in 10..30 {
        assert!(matches!(put(&store, n, 1, 500), Commit::Stored { .. }));
        block_on(store.flush()).unwrap();
    }
    assert!((10..30).all(|n| get(&store, n) == Some(1)));
}

/// A long body stays while its head is replaced, again and again; a bound keeps the file from growing for ever.
#[test]
fn heads_of_a_long_body_are_replaced_in_its_file() {
    let tree = MemoryTree::default();
    let store = open(Arc::new(tree.clone())).unwrap();
    drop(put(&store, 1, 1, 1_000_000));
    let (mut replaced, mut largest) = (0, 0);
    for n in 0..40_u64 {
        // The head says the version, and how often it was replaced in spaces.
        let head = format!("1{}", " ".repeat(50_000 + n as usize));
        match block_on(store.update_head(&key(1), Box::new(move |_| Some(head.clone().into())))) {
            Ok(Updated::Done) => replaced += 1,
            other => {
                assert!(matches!(other, Ok(Updated::NotStored(WhyNot::Evicted) | Updated::Absent)), "{other:?}");
                continue;
            }
        }
        block_on(store.flush()).unwrap();
        tree.list(&mut |_, bytes| largest = largest.max(bytes)).unwrap();
        let left = open(Arc::new(tree.left(|_| Fate::Before))).unwrap();
        let mut hit = block_on(left.find(&key(1))).unwrap();
        assert_eq!(hit.head.len(), 50_001 + n as usize);
        assert!(block_on(hit.body.collect(usize::MAX)).unwrap() == bytes_of(1001, 1_000_000));
    }
    println!("{replaced} heads, {largest} bytes at most");
    assert!((20..39).contains(&replaced) && largest < 2_400_000);
}

/// The power goes while a new head is written behind a long body: the head before it is found.
#[test]
fn a_head_that_is_cut_off_leaves_the_one_before() {
    let tree = MemoryTree::default();
    let store = open(Arc::new(tree.clone())).unwrap();
    drop(put(&store, 1, 1, 600_000));
    block_on(store.flush()).unwrap();
    let mut before = 0;
    tree.list(&mut |_, bytes| before = bytes as usize).unwrap();
    let edit = |_: &bytes::Bytes| Some(format!("1{}", " ".repeat(30_000)).into());
    assert_eq!(block_on(store.update_head(&key(1), Box::new(edit))), Ok(Updated::Done));
    wait_until("it is written", || store.stats().writes == 5);
    let mut after = 0;
    tree.list(&mut |_, bytes| after = bytes as usize).unwrap();
    for cut in (before..after).step_by(997).chain([before + 1, after - 1]) {
        let left = open(Arc::new(tree.left(|_| Fate::Cut(cut)))).unwrap();
        let hit = block_on(left.find(&key(1))).unwrap_or_else(|| panic!("cut to {cut} of {before} to {after}"));
        assert_eq!(hit.head.len(), 1, "cut to {cut}");
        assert_eq!(get(&left, 1), Some(1));
    }
}

/// One file an object: a write, and a read for each hit. A new version is a write, and the old file goes with the next sync.
#[test]
fn calls_are_counted() {
    let tree = MemoryTree::default();
    let store = open(Arc::new(tree.clone())).unwrap();
    (0..20).for_each(|n| drop(put(&store, n, 1, 3000)));
    block_on(store.flush()).unwrap();
    let calls = || (store.stats().writes, store.stats().reads, store.stats().of_engine.named("removed_files"));
    assert_eq!(calls(), (20, 0, 0));
    (0..20).for_each(|n| assert_eq!(get(&store, n), Some(1)));
    assert!((30..40).all(|n| get(&store, n).is_none()), "a miss is known from memory");
    assert_eq!(calls(), (20, 20, 0));
    (0..5).for_each(|n| drop(put(&store, n, 2, 3000)));
    block_on(store.flush()).unwrap();
    block_on(store.flush()).unwrap();
    assert_eq!(calls(), (25, 20, 5));
    // The parts of a long body, its record, and one read for each of them.
    drop(put(&store, 50, 1, 600_000));
    block_on(store.flush()).unwrap();
    assert_eq!(calls(), (29, 20, 5));
    assert_eq!(get(&store, 50), Some(1));
    assert_eq!(calls(), (29, 24, 5));
    let mut files = 0;
    tree.list(&mut |_, _| files += 1).unwrap();
    assert_eq!(files, 21);
}

/// A full cache lets go of what was asked for least recently, and never takes more than it may.
#[test]
fn the_least_recently_used_leaves() {
    let tree = MemoryTree::default();
    let store = open_with(Arc::new(tree.clone()), naming(256), 4 << 20).unwrap();
    for n in 0..3000 {
        assert!(matches!(put(&store, n, 1, 3000), Commit::Stored { .. }));
        assert_eq!(get(&store, n % 10), Some(1), "asked for all the time");
    }
    let there: Vec<_> = (0..3000).filter(|n| get(&store, *n).is_some()).collect();
    assert!(there.len() > 1000 && there[..10] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], "{}", there.len());
    assert!(there[10..].windows(2).all(|two| two[1] == two[0] + 1), "all of them the newest");
    block_on(store.flush()).unwrap();
    let mut bytes = 0;
    tree.list(&mut |_, size| bytes += size.next_multiple_of(4096)).unwrap();
    assert!(bytes <= 4 << 20, "{bytes}");
    assert_eq!(store.stats().live_objects, there.len() as u64);
    println!("{:.0} bits of memory an object", store.stats().bits_per_live_object());
    assert_eq!(store.stats().of_engine.named("evicted_files"), 3000 - there.len() as u64);
}

/// l1 l2 k objects and no more (section 2.4.1): then the oldest makes room, and its number is used again.
#[test]
fn a_tree_of_full_directories_evicts() {
    let tree = MemoryTree::default();
    let store = open_with(Arc::new(tree.clone()), naming(3), CAPACITY).unwrap();
    for n in 0..100 {
        assert!(matches!(put(&store, n, 1, 500), Commit::Stored { .. }), "{n}");
    }
    wait_until("all are written and removed", || store.stats().of_engine.named("removed_files") == 76);
    block_on(store.flush()).unwrap();
    let mut files = Vec::new();
    tree.list(&mut |path, _| files.push(path.to_owned())).unwrap();
    assert_eq!(files.len(), 2 * 4 * 3);
    assert_eq!((0..100).filter(|n| get(&store, *n).is_some()).count(), 24);
    assert!((76..100).all(|n| get(&store, n) == Some(1)));
}

/// Opens a gate however a test ends: writes that wait before it hold up the end of their store.
struct OpensGate(Arc<(Mutex<[bool; 2]>, Condvar)>);

impl Drop for OpensGate {
    fn drop(&mut self) {
        *self.0.0.lock() = [false; 2];
        self.0.1.notify_all();
    }
}

/// Where all numbers were taken and what was to make room was still being written, each write that ended meanwhile made another object
/// leave: on a slow disk a new object cost many.
#[test]
fn a_new_object_costs_one_old_one_however_slow_the_disk_is() {
    // What is held: all writes, and those of the first file.
    let held = Arc::new((Mutex::new([true, true]), Condvar::new()));
    let first = Arc::new(Mutex::new(String::new()));
    let (gate, seen) = (held.clone(), first.clone());
    let plan = move |_, call: &Call<'_>| {
        let (is_held, changed) = &*gate;
        let Call::Write { path, .. } = call else { return None };
        let is_first = {
            let mut first = seen.lock();
            if first.is_empty() {
                (*path).clone_into(&mut first);
            }
            *first == *path
        };
        let mut is_held = is_held.lock();
        while is_held[usize::from(is_first)] {
            changed.wait(&mut is_held);
        }
        None
    };
    let tree = Arc::new(Faulty::over(Arc::new(MemoryTree::default()), plan));
    let store = Arc::new(open_with(tree, naming(3), CAPACITY).unwrap());
    let _opened = OpensGate(held.clone());
    let _ = put(&store, 0, 1, 500);
    wait_until("the first is being written", || !first.lock().is_empty());
    (1..24).for_each(|n| drop(put(&store, n, 1, 500)));
    let putting = std::thread::spawn({
        let store = store.clone();
        move || put(&store, 24, 1, 500)
    });
    let evicted = || store.stats().of_engine.named("evicted_files");
    wait_until("the first is to go", || evicted() == 1);
    held.0.lock()[0] = false;
    held.1.notify_all();
    wait_until("all others are written", || store.stats().writes == 23 && store.stats().disk_waiting == 1);
    held.0.lock()[1] = false;
    held.1.notify_all();
    assert!(matches!(putting.join().unwrap(), Commit::Stored { .. }));
    let found = (0..25).filter(|n| get(&store, *n).is_some()).count();
    assert_eq!((evicted(), found), (1, 24));
}

fn options(dir: &Path, engine: EngineRef) -> CacheOptions {
    CacheOptions::new(dir).engine(engine).disk_bytes(64 << 20).memory_bytes(0).flush_every(None)
}

/// The files of the objects beneath a directory.
fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<_> = entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect();
    all.sort();
    all
}

/// A file that is removed, cut, lengthened, replaced by another, by a directory or by a link while the cache is open is a miss and is
/// counted; the others are hits.
#[test]
fn somebody_else_in_the_directory_makes_misses_that_are_counted() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = Cache::open(options(dir.path(), engines::SQUID)).unwrap();
    (0..10).for_each(|n| drop(put(&store, n, 1, 5000)));
    block_on(store.flush()).unwrap();
    let files = files(&dir.path().join("objects"));
    assert_eq!(files.len(), 10);
    fs::remove_file(&files[0]).unwrap();
    fs::File::options().write(true).open(&files[1]).unwrap().set_len(2000).unwrap();
    fs::remove_file(&files[2]).unwrap();
    fs::create_dir(&files[2]).unwrap();
    fs::rename(&files[4], &files[3]).unwrap();
    symlink(&files[5], &files[4]).unwrap();
    fs::write(&files[6], vec![b'x'; 10_000]).unwrap();
    let found = (0..10).filter(|n| get(&store, *n).is_some()).count();
    let stats = store.stats();
    assert_eq!((found, stats.of_engine.named("lost_files"), stats.corrupt), (4, 4, 2));
    // Those that are found to be wrong are replaced like any other.
    (0..10).for_each(|n| assert!(matches!(put(&store, n, 2, 4000), Commit::Stored { .. })));
    (0..10).for_each(|n| assert_eq!(get(&store, n), Some(2)));
}

/// The whole tree is emptied while it is open: misses, and objects are stored again.
#[test]
fn an_emptied_directory_is_filled_again() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = Cache::open(options(dir.path(), engines::SQUIDL)).unwrap();
    (0..OBJECTS).for_each(|n| drop(put(&store, n, 1, 5000)));
    block_on(store.flush()).unwrap();
    for entry in fs::read_dir(dir.path().join("objects")).unwrap() {
        fs::remove_dir_all(entry.unwrap().path()).unwrap();
    }
    assert!((0..OBJECTS).all(|n| get(&store, n).is_none()));
    assert_eq!(store.stats().of_engine.named("lost_files"), OBJECTS);
    (0..OBJECTS).for_each(|n| drop(put(&store, n, 2, 5000)));
    block_on(store.close()).unwrap();
    drop(store);
    let store = Cache::open(options(dir.path(), engines::SQUIDL)).unwrap();
    assert!((0..OBJECTS).all(|n| get(&store, n) == Some(2)));
}

/// What is in the directory and none of the cache's is left alone and counted; a file without its end is removed.
#[test]
fn strange_files_are_left_alone() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let open = || Cache::open(options(dir.path(), engines::SQUID)).unwrap();
    let store = open();
    (0..10).for_each(|n| drop(put(&store, n, 1, 5000)));
    block_on(store.close()).unwrap();
    drop(store);
    let objects = dir.path().join("objects");
    let all = files(&objects);
    fs::write(objects.join("README"), "mine").unwrap();
    fs::write(all[0].with_extension("bak"), "mine").unwrap();
    fs::File::options().write(true).open(&all[3]).unwrap().set_len(4000).unwrap();
    let store = open();
    let stats = store.stats();
    assert_eq!((stats.of_engine.named("foreign_files"), stats.damaged_at_open, stats.live_objects), (2, 1, 9));
    assert!(objects.join("README").exists() && !all[3].exists());
}

/// The index of files is none: after a kill everything that was written is found, and numbers go on behind it.
#[test]
fn a_directory_says_how_it_was_made() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let asked = |settings| options(dir.path(), engines::SQUIDL_K).settings(settings);
    let made = Settings::new().with(&engines::FIRST_LEVEL, 4).with(&engines::FILES_PER_DIRECTORY, 7);
    drop(Cache::open(asked(made)).unwrap());
    let other = Settings::new().with(&engines::FIRST_LEVEL, 8);
    let error = Cache::open(asked(other)).err().unwrap().to_string();
    assert!(
        error.contains("was made with a tree of 4 first-level directories, not 8 first-level directories"),
        "{error}"
    );
    let third = Settings::new().with(&engines::FIRST_LEVEL, 3);
    let error =
        Cache::open(options(&dir.path().join("new"), engines::SQUIDL).settings(third)).err().unwrap().to_string();
    assert!(error.contains("choose a power of two, as 4"), "{error}");
    let store = Cache::open(asked(Settings::new())).unwrap();
    // No name says a host here, so each object stands for itself.
    (0..100).for_each(|n| drop(put(&store, n, 1, 500)));
    block_on(store.flush()).unwrap();
    let mut most = std::collections::BTreeMap::new();
    for file in files(&dir.path().join("objects")) {
        *most.entry(file.parent().unwrap().to_owned()).or_insert(0) += 1;
    }
    assert!(most.values().all(|count| *count <= 7) && most.values().sum::<i32>() == 100);
    assert_eq!(store.stats().slots, 4 * 256 * 7);
}
