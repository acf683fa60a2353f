use std::sync::Barrier;

use tinaja_clock::ManualClock;

use super::*;
use crate::device::wrap::{Fault, Faulty};
use crate::device::{Medium, Memory, Request};
use crate::engine::damelo::options::Cleaning;

pub const SMALL: FileSystemOptions = FileSystemOptions {
    disk_bytes: 16 << 20,
    groups: 4,
    frame_bytes: 16 << 10,
    pool_bytes: 256 << 10,
    mean_object_bytes: 2048,
    checkpoint: Duration::ZERO,
    elevator: true,
};

pub fn over(device: Arc<dyn Device>, options: &FileSystemOptions) -> FileSystem {
    let layout = FileSystem::layout(device.geometry().bytes, options).unwrap();
    FileSystem::over(&device, Secret::from_bytes([7; 32]), layout, options).unwrap()
}

pub fn on(medium: &Medium) -> FileSystem {
    over(Arc::new(Memory::over(medium)), &SMALL)
}

pub fn blank() -> Medium {
    Medium::zeroed(SMALL.disk_bytes as usize)
}

pub fn name(n: u32) -> [u8; 4] {
    n.to_le_bytes()
}

pub fn body(n: u32, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at as u32 * 7 + n) as u8).collect()
}

/// Checkpoint these groups together, by their periods.
pub fn checkpoint(files: &FileSystem, hand: &ManualClock, groups: &[u32]) {
    const PERIOD: Duration = Duration::from_secs(10);
    groups.iter().for_each(|group| files.set_checkpoint(*group, PERIOD).unwrap());
    hand.advance(PERIOD);
    files.engine.work();
    let goes_on = || {
        let state = files.engine.0.state.lock();
        state.round.is_some() || state.asked.is_some()
    };
    while goes_on() {
        std::thread::yield_now();
    }
    groups.iter().for_each(|group| files.set_checkpoint(*group, Duration::ZERO).unwrap());
}

/// Whether these bytes lie in the frame of a page in memory.
fn lies_in_the_pool(files: &FileSystem, id: &[u8], object: &[u8]) -> bool {
    let id = files.id(id);
    let slot = (0..files.groups()).find_map(|group| files.slot(&id, group)).unwrap();
    let frame = files.engine.0.frame_in_memory(slot.at).unwrap();
    frame.as_ptr_range().contains(&object.as_ptr())
}

/// Section 3: each reader is given a pointer to the place in the pool where its object lies. No copy.
#[test]
fn an_object_is_read_where_it_lies() {
    let medium = blank();
    let files = on(&medium);
    files.create(b"a", 1, &body(1, 3000)).unwrap();
    let object = files.read(b"a", 1).unwrap().unwrap();
    assert!(*object == body(1, 3000) && lies_in_the_pool(&files, b"a", &object));
    drop(object);
    files.close().unwrap();
    // And so it is with one that had to be read from the disk.
    let files = on(&medium);
    assert_eq!(files.lookup(b"a"), Some(1));
    let object = files.read(b"a", 1).unwrap().unwrap();
    assert!(*object == body(1, 3000) && lies_in_the_pool(&files, b"a", &object));
    // The page is compacted under the reader: it reads on in the first frame, and who comes then in the second.
    files.create(b"b", 1, &body(2, 3000)).unwrap();
    assert!(files.remove(b"a", 1).unwrap() && files.read(b"a", 1).unwrap().is_none());
    files.close().unwrap();
    assert!(*object == body(1, 3000), "held beyond the end");
}

/// Slow readers hold a quarter of the frames at the most. Who comes then gets a copy, and creates go on.
#[test]
fn readers_hold_a_quarter_of_the_frames() {
    let files = on(&blank());
    let mut held = Vec::new();
    for n in 0..60 {
        files.create(&name(n), 1 + n % 4, &body(n, 8000)).unwrap();
        held.push(files.read(&name(n), 1 + n % 4).unwrap().unwrap());
    }
    for n in 60..200 {
        files.create(&name(n), 1 + n % 4, &body(n, 8000)).unwrap();
    }
    assert!(held.iter().zip(0..).all(|(object, n)| **object == body(n, 8000)), "held as they were");
    let frames = files.engine.0.options.pool_frames()[0];
    assert_eq!(frames, 16);
    let copied = files.engine.0.counts.copied_reads.load(std::sync::atomic::Ordering::Relaxed);
    assert!(copied >= 60 - 2 * frames as u64 / 4, "two objects a frame: {copied} copies");
}

#[test]
fn groups_are_loved_at_first_and_out_of_range_refused() {
    let files = on(&blank());
    assert!((0..4).all(|group| files.engine.is_loved(group)));
    files.hate(4).unwrap();
    assert!(!files.engine.is_loved(3));
    for group in [0, 5, u32::MAX] {
        let error = files.love(group).unwrap_err().to_string();
        assert!(error.ends_with("groups are numbered from 1 to 4"), "{error}");
        assert!(files.create(b"x", group, b"").is_err() && files.read(b"x", group).is_err());
        assert!(files.set_checkpoint(group, Duration::ZERO).is_err() && files.remove(b"x", group).is_err());
    }
    let error = files.create(b"x", 1, &[0; 16 << 10]).unwrap_err().to_string();
    assert!(error.contains("do not fit a frame, which takes 16268"), "{error}");
}

/// Loved pages stay by least recent use, hated ones leave first: the same load, read twice, asks the disk less often for
/// what is loved.
#[test]
fn loved_groups_stay_and_hated_ones_leave() {
    let medium = blank();
    let files = on(&medium);
    for n in 0..400 {
        files.create(&name(n), 1 + n % 4, &body(n, 2000)).unwrap();
    }
    files.close().unwrap();
    let reads_of_the_first = |loved: bool| {
        let files = on(&medium);
        // One that is loved among hated ones, and the other way round.
        let hated = if loved { 2..=4 } else { 1..=1 };
        hated.for_each(|group| files.hate(group).unwrap());
        let read = |n: u32| {
            let before = files.device.counters().reads;
            assert!(files.read(&name(n), 1 + n % 4).unwrap().is_some());
            files.device.counters().reads - before
        };
        // The first group's pages fit the pool. All the others pass through it, twice.
        (0..400).filter(|n| n % 4 == 0).for_each(|n| assert!(read(n) < 3));
        (0..2).for_each(|_| (0..400).filter(|n| n % 4 > 0).for_each(|n| assert!(read(n) < 3)));
        (0..400).filter(|n| n % 4 == 0).map(read).sum::<u64>()
    };
    assert_eq!(reads_of_the_first(true), 0, "all of it stayed");
    assert!(reads_of_the_first(false) > 5);
}

/// A hated group was filled page by page with one object each: by most recent use the page that was being filled left first, so
/// that the next object began another one.
#[test]
fn a_hated_group_is_filled_in_as_few_pages_as_a_loved_one() {
    let pages = |hated: Option<u32>| {
        let files = on(&blank());
        hated.into_iter().for_each(|group| files.hate(group).unwrap());
        for n in 0..2400 {
            // Pages of different groups are full at different times.
            files.create(&name(n), 1 + n * 7919 % 1009 % 4, &body(n, 400 + n as usize * 577 % 1200)).unwrap();
        }
        let engine = files.engine.0.clone();
        files.close().unwrap();
        engine.counts.pages_written.load(std::sync::atomic::Ordering::Relaxed)
    };
    let [loved, hated] = [None, Some(1)].map(pages);
    assert!((160..=200).contains(&loved) && hated <= loved + 8, "{hated} pages were written, and {loved} with love");
}

/// A delete asks the disk for nothing (section 4), and is applied when the page is written out.
#[test]
fn deletes_ask_for_nothing_and_are_applied_at_the_end() {
    let medium = blank();
    let files = on(&medium);
    (0..200).for_each(|n| files.create(&name(n), 1, &body(n, 1000)).unwrap());
    files.close().unwrap();
    let files = on(&medium);
    let before = files.device.counters();
    (0..200).filter(|n| n % 2 == 0).for_each(|n| assert!(files.remove(&name(n), 1).unwrap()));
    assert_eq!((files.device.counters().reads, files.device.counters().writes), (before.reads, before.writes));
    let engine = files.engine.0.clone();
    let with_deletes = engine.with_deletes().len();
    files.close().unwrap();
    let compacted = engine.counts.compacted_pages.load(std::sync::atomic::Ordering::Relaxed);
    assert!(with_deletes > 10 && compacted >= with_deletes as u64, "{compacted} pages of {with_deletes} compacted");
    assert_eq!(engine.with_deletes(), []);
    let files = on(&medium);
    (0..200).for_each(|n| assert_eq!(files.read(&name(n), 1).unwrap().is_some(), n % 2 == 1, "{n}"));
}

/// Section 4 leaves open when deletes are applied. Where that is done in the background, nobody who reads waits for it; where it is
/// done with the requests, whoever asks for a page that has some does, and that is counted.
#[test]
fn no_reader_waits_for_compaction_in_the_background() {
    let [in_background, with_requests] = [Cleaning::Background, Cleaning::WithRequests].map(|cleaning| {
        let device: Arc<dyn Device> = Arc::new(Memory::over(&blank()));
        let layout = FileSystem::layout(SMALL.disk_bytes, &SMALL).unwrap();
        let stamp = Stamp { seed: 7 };
        let pool_bytes = SMALL.pool_bytes;
        let options =
            DameloOptions { pool_bytes, cleaning, affection: Affection::Told, ..DameloOptions::of(layout, stamp) };
        let engine = Damelo::open(device.clone(), &options).unwrap();
        let files = FileSystem { engine, secret: Secret::from_bytes([7; 32]), device };
        (0..600).for_each(|n| files.create(&name(n), 1 + n % 4, &body(n, 1000)).unwrap());
        (0..600).filter(|n| n % 3 > 0).for_each(|n| assert!(files.remove(&name(n), 1 + n % 4).unwrap()));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let of_thread = (0..600).filter(move |n| n % 3 == 0 && n / 3 % 4 == thread);
                let files = &files;
                scope.spawn(move || {
                    of_thread.for_each(|n| {
                        let found = files.read(&name(n), 1 + n % 4).unwrap().unwrap();
                        assert!(*found == body(n, 1000), "{n}");
                    });
                });
            }
        });
        let counts = &files.engine.0.counts;
        while counts.compacted_pages.load(std::sync::atomic::Ordering::Relaxed) == 0 {
            files.engine.work();
        }
        counts.compaction_waits.load(std::sync::atomic::Ordering::Relaxed)
    });
    assert!(in_background == 0 && with_requests > 10, "{in_background} readers waited, and {with_requests}");
    println!("{in_background} and {with_requests} waits of readers for compaction");
}

/// A group is checkpointed by its own period while others are not, and a crash leaves what was.
#[test]
fn groups_have_periods_of_their_own() {
    let medium = blank();
    let hand = ManualClock::new();
    let files = over(Arc::new(Memory::by(hand.clock(), &medium)), &SMALL);
    files.set_checkpoint(2, Duration::from_secs(10)).unwrap();
    for n in 0..40 {
        files.create(&name(n), 1 + n % 2, &body(n, 1000)).unwrap();
    }
    let written = |files: &FileSystem| files.engine.0.counts.checkpoints.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(written(&files), 0);
    hand.advance(Duration::from_secs(11));
    files.engine.work();
    while written(&files) == 0 {
        std::thread::yield_now();
    }
    let crashed = on(&medium.copy());
    for n in 0..40 {
        let found = crashed.read(&name(n), 1 + n % 2).unwrap();
        assert_eq!(found.map(|found| found.to_vec()), (n % 2 == 1).then(|| body(n, 1000)), "{n}");
    }
}

/// An object was in group 1, and moved to group 2, which alone was checkpointed since. Its newer version was removed, and that
/// group's journal, which said so, was begun anew; or it was evicted. The older version came back after a crash: nobody had
/// told group 1's journal.
#[test]
fn an_older_version_in_another_group_does_not_come_back() {
    for is_removed in [true, false] {
        let medium = blank();
        let hand = ManualClock::new();
        let files = over(Arc::new(Memory::by(hand.clock(), &medium)), &SMALL);
        let inner = &files.engine.0;
        let checkpoint = |group: u32| checkpoint(&files, &hand, &[group]);
        files.create(b"x", 1, b"older").unwrap();
        files.create(b"stays", 1, b"").unwrap();
        checkpoint(1);
        files.create(b"x", 2, b"newer").unwrap();
        checkpoint(2);
        if is_removed {
            assert!(files.remove(b"x", 2).unwrap());
            checkpoint(2);
            inner.state.lock().groups[1].journal.is_tainted = true;
            files.create(b"y", 2, b"").unwrap();
        } else {
            assert!(inner.evict(&mut inner.state.lock(), 1, None));
        }
        checkpoint(2);
        let crashed = on(&medium.copy());
        assert_eq!((crashed.lookup(b"x"), crashed.lookup(b"stays")), (None, Some(1)), "removed: {is_removed}");
    }
}

/// A page was written because memory was full, with an object that was removed before the group's checkpoint. Other groups'
/// checkpoints had said that meanwhile, and the group's journal was begun anew: the page's own entry must not bring it back.
#[test]
fn what_was_removed_after_its_page_was_written_does_not_come_back() {
    let medium = blank();
    let hand = ManualClock::new();
    let files = over(Arc::new(Memory::by(hand.clock(), &medium)), &SMALL);
    let inner = &files.engine.0;
    let checkpoint = |group: u32| checkpoint(&files, &hand, &[group]);
    files.create(b"first", 1, b"").unwrap();
    checkpoint(1);
    files.create(b"x", 1, &body(1, 3000)).unwrap();
    files.create(b"stays", 1, &body(2, 3000)).unwrap();
    // More than memory has frames.
    (0..60).for_each(|n| files.create(&name(n), 2 + n % 3, &body(n, 9000)).unwrap());
    while inner.state.lock().groups[0].pending.written.is_empty() {
        std::thread::yield_now();
    }
    assert!(files.remove(b"x", 1).unwrap());
    checkpoint(2);
    assert!(inner.state.lock().groups[0].pending.removed.is_empty(), "all groups are told what is gone");
    inner.state.lock().groups[0].journal.is_tainted = true;
    checkpoint(3);
    checkpoint(1);
    let crashed = on(&medium.copy());
    assert_eq!((crashed.lookup(b"x"), crashed.lookup(b"stays"), crashed.lookup(b"first")), (None, Some(1), Some(1)));
}

/// All frames are on their way to a disk that takes nothing: whoever creates is told, and does not wait for ever.
#[test]
fn nobody_waits_for_ever_for_a_frame() {
    let medium = blank();
    let stalls = |_, request: &Request| matches!(request, Request::Write { .. }).then_some(Fault::Stalled);
    let quiet = Arc::new(Memory::over(&medium));
    over(quiet, &SMALL).close().unwrap();
    let open = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let is_open = open.clone();
    let device = Arc::new(Faulty::new(Arc::new(Memory::over(&medium)), move |n, request| {
        if is_open.load(std::sync::atomic::Ordering::SeqCst) { None } else { stalls(n, request) }
    }));
    let files = over(device.clone(), &SMALL);
    open.store(false, std::sync::atomic::Ordering::SeqCst);
    let told = (0..64).find_map(|n| files.create(&name(n), 1 + n % 4, &body(n, 9000)).err());
    assert!(matches!(told, Some(FileSystemError::Busy)), "{told:?}");
    open.store(true, std::sync::atomic::Ordering::SeqCst);
    device.release();
    files.create(b"later", 1, b"goes on").unwrap();
}

/// Sixteen threads, as in section 5: every object is there once, whole.
#[test]
fn many_threads_at_once() {
    let files = on(&blank());
    let barrier = Barrier::new(16);
    std::thread::scope(|scope| {
        for thread in 0..16_u32 {
            let (files, barrier) = (&files, &barrier);
            scope.spawn(move || {
                barrier.wait();
                for round in 0..30 {
                    let n = thread * 100 + round;
                    files.create(&name(n), 1 + thread % 4, &body(n, 700 + n as usize % 900)).unwrap();
                    let found = files.read(&name(n), 1 + thread % 4).unwrap().unwrap();
                    assert!(*found == body(n, 700 + n as usize % 900));
                    if round % 3 == 0 {
                        assert!(files.remove(&name(n), 1 + thread % 4).unwrap());
                    }
                }
            });
        }
    });
    for thread in 0..16 {
        for round in 0..30 {
            let found = files.read(&name(thread * 100 + round), 1 + thread % 4).unwrap();
            assert_eq!(found.is_some(), round % 3 > 0);
        }
    }
}

/// What is on a disk is not taken for something else, and not written over.
#[test]
fn what_is_there_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("objects");
    std::fs::write(&path, b"a letter").unwrap();
    let length = |path: &Path| std::fs::metadata(path).unwrap().len();
    assert!(FileSystem::open(&path, &SMALL).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"a letter");
    std::fs::write(&path, vec![1; 1 << 20]).unwrap();
    let error = FileSystem::open(&path, &SMALL).err().unwrap().to_string();
    assert!(error.contains("is not a Tinaja cache"), "{error}");
    std::fs::remove_file(&path).unwrap();
    for (options, says) in [
        (FileSystemOptions { frame_bytes: 24 << 10, ..SMALL }, "choose a power of two"),
        (FileSystemOptions { pool_bytes: 1000, ..SMALL }, "no room for one frame"),
        (FileSystemOptions { groups: 4000, ..SMALL }, "choose fewer groups"),
        (FileSystemOptions { groups: 0, ..SMALL }, "one group at least"),
    ] {
        let error = FileSystem::open(&path, &options).err().unwrap().to_string();
        assert!(error.contains(says), "{error}");
        std::fs::remove_file(&path).unwrap();
    }
    let files = FileSystem::open(&path, &SMALL).unwrap();
    files.create(b"a", 2, b"kept").unwrap();
    let error = FileSystem::open(&path, &SMALL).err().unwrap().to_string();
    assert!(error.contains("in use"), "{error}");
    files.close().unwrap();
    let files = FileSystem::open(&path, &SMALL).unwrap();
    assert_eq!(files.read(b"a", 2).unwrap().unwrap()[..], *b"kept");
    assert_eq!(length(&path), SMALL.disk_bytes);
}
