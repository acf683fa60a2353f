//! Logs by size and generation: what a large object pushes out, and what it does not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use tinaja_store::device::wrap::{Fault, Faulty};
use tinaja_store::device::{Medium, Memory, Request};
use tinaja_store::{Cache, Commit, Store, block_on, engines};

use crate::support::random::Random;
use crate::support::{BASE, blank, disk, get, open_as, put, settle, sound};

fn open() -> Cache {
    open_as(engines::GENERATIONAL, sound(&blank())).unwrap()
}

/// An object of the largest size that is stored takes more than half of the disk. So its first parts become the oldest of all large
/// ones before its last are there, and left: it was stored, and gone by then. While it comes, others come too, and are asked for.
#[test]
fn the_largest_object_does_not_push_itself_out() {
    let store = open();
    let most = store.max_object_bytes() as usize;
    assert!(most > store.stats().capacity_bytes as usize / 2, "{most} of {}", store.stats().capacity_bytes);
    for n in 0..400 {
        assert!(matches!(put(&store, n, 1, 20_000), Commit::Stored { .. }));
        assert_eq!(get(&store, n), Some(1));
    }
    for round in 0..3 {
        let large = 1000 + round;
        assert!(matches!(put(&store, large, 7, most - 1000), Commit::Stored { .. }));
        assert_eq!(get(&store, large), Some(7), "round {round}");
    }
    block_on(store.flush()).unwrap();
    assert!(matches!(put(&store, 2000, 1, most + 1), Commit::NotStored(_)), "it is refused at once");
    assert_eq!(get(&store, 1002), Some(7));
}

/// A process that is killed before it has written as much as makes a snapshot due leaves none. Several in a row went once round the disk
/// like that: with what was replaced written over, nobody knew what the rest meant, and the next start found an empty cache.
#[test]
fn killed_again_and_again_before_a_snapshot_it_does_not_begin_empty() {
    let mut medium = blank();
    for process in 0..12 {
        let store = open_as(engines::GENERATIONAL, sound(&medium)).unwrap();
        let of = |process: u64| (1000 * process..1000 * process + 150).rev();
        let lost = (process > 0).then(|| of(process - 1).take(50).filter(|n| get(&store, *n).is_none()).count());
        assert!(lost.is_none_or(|lost| lost == 0), "process {process}: {lost:?} of the last 50 are gone");
        for n in of(process).rev() {
            assert!(matches!(put(&store, n, 1, 20_000), Commit::Stored { .. }));
        }
        block_on(store.flush()).unwrap();
        medium = medium.copy();
    }
}

/// What a killed process was writing landed once the next one had looked round. It lay where that one then wrote, under numbers that it
/// gave out again: an older version came back, and what had been flushed was gone. The kill test saw it once in 180 runs.
#[test]
fn what_a_killed_process_was_writing_lands_late_and_changes_nothing() {
    let medium = blank();
    let first = open_as(engines::GENERATIONAL, sound(&medium)).unwrap();
    assert!(matches!(put(&first, 0, 1, 20_000), Commit::Stored { .. }));
    block_on(first.flush()).unwrap();
    let medium = medium.copy();
    let failing = Arc::new(Faulty::volatile(Arc::new(Memory::over(&medium)), |_, _: &Request| None));
    let second = open_as(engines::GENERATIONAL, failing.clone()).unwrap();
    for n in 0..60 {
        assert!(matches!(put(&second, n, 2, 20_000), Commit::Stored { .. }));
    }
    settle(&*failing);
    let on_its_way = failing.held_writes();
    assert!(!on_its_way.is_empty());
    let medium = medium.copy();
    let third = open_as(engines::GENERATIONAL, sound(&medium)).unwrap();
    for n in 0..40 {
        assert!(matches!(put(&third, n, 3, 20_000), Commit::Stored { .. }));
    }
    block_on(third.flush()).unwrap();
    let fourth = open_as(engines::GENERATIONAL, sound(&medium.after(&on_its_way, |_, _| true))).unwrap();
    for n in 0..40 {
        assert_eq!(get(&fourth, n), Some(3), "object {n}");
    }
}

/// A number of objects that are never replaced pass through, and few that are: what leaves young costs no mark of removal, and no
/// snapshot that is not due. Such marks and snapshots once took two thirds of the bytes that were to be written again.
#[test]
fn what_leaves_young_costs_no_marks_of_removal() {
    let store = open();
    let stats = || store.stats();
    // The first snapshots, of which nothing is known before, are due.
    let mut stored = 0;
    let mut pass = |from: u64, count: u64| {
        for n in from..from + count {
            assert!(matches!(put(&store, n, 1, 3000), Commit::Stored { .. }));
            stored += 3000;
        }
        stored
    };
    pass(0, 12_000);
    let (before, bytes) = (stats(), pass(12_000, 0));
    let passed = pass(12_000, 12_000) - bytes;
    let after = stats();
    let of = |name: &str| after.of_engine.named(name) - before.of_engine.named(name);
    let cleaned = of("cleaned_segments");
    println!("{passed} bytes passed, {cleaned} segments were cleaned, {} bytes of snapshots", of("snapshot_bytes"));
    assert!(cleaned > 50 && of("kept_bytes") == 0, "nobody asked for any: {cleaned}");
    assert!(of("snapshot_bytes") < passed / 40, "{} of {passed}", of("snapshot_bytes"));
}

/// A cache that stores what it misses, as a proxy does, killed at any moment: most objects leave with their segments and are stored
/// anew, as later versions, while the segment with the version before may be free and not written over yet. What was flushed is
/// never older than that afterwards, whichever of the two snapshots can be read.
#[test]
fn killed_at_any_moment_no_version_that_had_left_comes_back() {
    const KEYS: u64 = 2500;
    // Enough segments for several logs: in one alone, what was written first leaves first.
    let medium = Medium::zeroed(10 << 20);
    let store = open_as(engines::GENERATIONAL, sound(&medium)).unwrap();
    let (mut newest, mut flushed) = (vec![0; KEYS as usize], vec![0; KEYS as usize]);
    let (mut random, mut kills, mut found) = (Random(99), 0, 0);
    let mut random = |below: u64| random.below(below);
    for step in 0..30_000_u64 {
        let n = if random(2) == 0 { random(KEYS) } else { random(KEYS / 10) };
        if get(&store, n).is_none() || random(20) == 0 {
            newest[n as usize] = step + 1;
            assert!(matches!(
                put(&store, n, step + 1, [800, 3000, 9000, 20_000, 4000][n as usize % 5]),
                Commit::Stored { .. }
            ));
        }
        if random(10) == 0 {
            block_on(store.flush()).unwrap();
            flushed.copy_from_slice(&newest);
        }
        if random(60) > 0 {
            continue;
        }
        kills += 1;
        let left = medium.copy();
        if random(2) == 0 {
            // Not only what the newest snapshot says.
            let at = BASE as usize + random(48 << 10) as usize;
            left.with(|bytes| bytes[at] ^= 1);
        }
        let again = open_as(engines::GENERATIONAL, sound(&left)).unwrap();
        for n in 0..KEYS {
            let version = get(&again, n);
            let least = flushed[n as usize];
            assert!(version.is_none_or(|version| version >= least), "{n} is {version:?} after {step}, and was {least}");
            found += u64::from(version.is_some());
        }
    }
    println!("{kills} kills, {found} found");
    assert!(kills > 300 && found > 500 * kills);
}

/// One write of the log fails, and nobody asks for a flush, as behind a proxy. Each snapshot was told of that failure once more: eight failed
/// in half a second though the disk did all that it was asked, and the disk was given up. The simulation found it. Now and then the write that
/// failed was one of a snapshot, or said that a segment has left, and whoever flushes is not told of those: it is one of records, in the second
/// half of the disk.
#[test]
fn one_failed_write_does_not_retire_the_disk() {
    let is_next = Arc::new(AtomicBool::new(false));
    let fails = is_next.clone();
    let medium = blank();
    let half = medium.bytes().len() as u64 / 2;
    let plan = move |_, request: &Request| {
        let is_write = matches!(request, Request::Write { at, part, .. } if *at >= half && part.len() > 4096);
        (is_write && fails.swap(false, SeqCst)).then_some(Fault::Error)
    };
    let store = open_as(engines::GENERATIONAL, disk(&medium, plan)).unwrap();
    let mut lost = 0;
    for n in 0..6000 {
        if n == 500 {
            is_next.store(true, SeqCst);
        }
        lost += usize::from(!matches!(put(&store, n, 1, 20_000), Commit::Stored { .. }));
    }
    let stats = store.stats();
    assert!(!is_next.load(SeqCst) && stats.write_errors >= 1, "{stats:?}");
    assert!(stats.lap > 3 && stats.disks_retired == 0 && lost <= 10, "{lost} lost, {stats:?}");
    assert!(block_on(store.flush()).is_err(), "who asks is told all the same");
    assert!(block_on(store.flush()).is_ok());
}

/// All that with the index on the disk, and no memory for it but what it cannot do without.
mod with_its_index_on_disk {
    use crate::support::with_index_on_disk;

    #[test]
    fn the_largest_object_does_not_push_itself_out() {
        with_index_on_disk(super::the_largest_object_does_not_push_itself_out);
    }

    #[test]
    fn killed_again_and_again_before_a_snapshot_it_does_not_begin_empty() {
        with_index_on_disk(super::killed_again_and_again_before_a_snapshot_it_does_not_begin_empty);
    }

    #[test]
    fn what_a_killed_process_was_writing_lands_late_and_changes_nothing() {
        with_index_on_disk(super::what_a_killed_process_was_writing_lands_late_and_changes_nothing);
    }

    #[test]
    fn killed_at_any_moment_no_version_that_had_left_comes_back() {
        with_index_on_disk(super::killed_at_any_moment_no_version_that_had_left_comes_back);
    }

    #[test]
    fn one_failed_write_does_not_retire_the_disk() {
        with_index_on_disk(super::one_failed_write_does_not_retire_the_disk);
    }
}
