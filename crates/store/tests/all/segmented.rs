//! The log-structured cache: what leaves, what stays since it is open or valuable, and what a stop and a crash leave.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use tinaja_store::contract::bytes_of;
use tinaja_store::device::wrap::{Counted, Fault};
use tinaja_store::device::{Device, Medium, Request};
use tinaja_store::engine::registry::Cut;
use tinaja_store::engine::segmented::SegmentedOptions;
use tinaja_store::layout::region::{encode, entries, footer};
use tinaja_store::layout::{LogLayout, Stamp};
use tinaja_store::{Cache, Commit, Secret, Settings, Store, block_on, engines};

use crate::support::{
    BASE, DISK_BYTES, blank, disk, get, is_read, is_write, key, open_planned, plan_with, put, settle, sound,
};

fn plan(keep_percent: u64) -> Box<dyn Cut> {
    plan_with(engines::SEGMENTED, &Settings::new().with(&engines::KEEP, keep_percent), DISK_BYTES as u64)
}

/// [`plan`] with nothing kept, in the engine's own words.
fn options() -> SegmentedOptions {
    let stamp = Stamp { seed: Secret::from_bytes([7; 32]).seed() };
    SegmentedOptions::plan(DISK_BYTES as u64, BASE, 4096, stamp).unwrap()
}

fn open(medium: &Medium) -> Cache {
    open_planned(&*plan(0), sound(medium)).unwrap()
}

fn layout() -> LogLayout {
    options().layout
}

fn stored(commit: Commit) {
    assert!(matches!(commit, Commit::Stored { .. }), "{commit:?}");
}

/// Objects `from` up to `to`, of so many bytes each.
fn put_all(store: &Cache, from: u64, to: u64, bytes: usize) {
    (from..to).for_each(|n| stored(put(store, n, 1, bytes)));
}

/// What has left and how many segments were cleaned is counted once the cleaner rests: in the midst of a segment some of its
/// objects have left, and it is not counted yet.
#[test]
fn what_is_oldest_leaves_with_its_segment() {
    let device = sound(&blank());
    let store = open_planned(&*plan(0), device.clone()).unwrap();
    put_all(&store, 0, 1000, 20_000);
    block_on(store.flush()).unwrap();
    settle(&*device);
    let there: Vec<_> = (0..1000).map(|n| get(&store, n) == Some(1)).collect();
    let first = there.iter().position(|there| *there).unwrap();
    assert!(there[first..].iter().all(|there| *there), "nothing younger than what is there left before it");
    let stats = store.stats();
    println!("{first} of 1000 left in {} segments of {}", stats.of_engine.named("cleaned_segments"), layout().regions);
    let segment_objects = layout().region_bytes / 20_200;
    assert!(
        first as u64 / segment_objects <= stats.of_engine.named("cleaned_segments")
            && stats.of_engine.named("evicted_objects") >= first as u64 - segment_objects
    );
    // All but the current segment and those kept free.
    assert!((1000 - first) as u64 >= (layout().regions - 6) * segment_objects, "{first}");
    assert_eq!(
        (stats.of_engine.named("passed_over_segments"), stats.of_engine.named("kept_bytes"), stats.lost_to_full_sets),
        (0, 0, 0)
    );
}

/// Each byte is written once: headers, summaries and what is left free at the ends of segments are all there is more. Reads
/// are counted once the cleaner rests: it may have read the summary of a segment that is not counted as cleaned yet.
#[test]
fn a_byte_stored_is_a_byte_written() {
    let medium = blank();
    let device = Arc::new(Counted::new(sound(&medium)));
    let store = open_planned(&*plan(0), device.clone()).unwrap();
    let before = device.counters();
    put_all(&store, 0, 2000, 8000);
    block_on(store.flush()).unwrap();
    settle(&*device);
    let (now, stats) = (device.counters(), store.stats());
    let amplification = (now.write_bytes - before.write_bytes) as f64 / stats.stored_bytes as f64;
    let requests = now.writes - before.writes;
    println!("{amplification:.4} bytes written a byte stored, in {requests} requests for 2000 objects");
    assert!(amplification < 1.05, "{amplification}");
    assert!(requests < 700, "{requests} requests");
    let reads = now.reads - before.reads;
    assert!(
        reads <= 2 * stats.of_engine.named("cleaned_segments"),
        "{reads} reads, to clean {} segments",
        stats.of_engine.named("cleaned_segments")
    );
}

#[test]
fn a_segment_is_closed_when_its_slots_are_used_up() {
    let medium = blank();
    let store = open(&medium);
    let plan = options();
    put_all(&store, 0, 1 + 4 * plan.entries() as u64, 10);
    assert_eq!(store.stats().frontier_bytes / layout().region_bytes, 4, "the fifth segment has one object");
}

#[test]
fn what_somebody_has_open_is_passed_over() {
    let medium = blank();
    let store = open(&medium);
    stored(put(&store, 7777, 1, 700_000));
    let mut open = block_on(store.find(&key(7777))).unwrap();
    let first = block_on(open.body.next(1000)).unwrap().unwrap();
    put_all(&store, 0, 1000, 20_000);
    block_on(store.flush()).unwrap();
    assert_eq!((20..40).filter(|n| get(&store, *n).is_some()).count(), 0, "what lay behind it has left");
    assert!(store.stats().of_engine.named("passed_over_segments") > 0);
    let rest = block_on(open.body.collect(usize::MAX)).unwrap();
    assert!([first, rest].concat() == bytes_of(7777 * 1000 + 1, 700_000));
    drop(open);
    let before = store.stats().of_engine.named("passed_over_segments");
    put_all(&store, 2000, 3000, 20_000);
    assert_eq!(get(&store, 7777), None, "nobody has it open any more");
    assert_eq!(store.stats().of_engine.named("passed_over_segments"), before);
}

/// Two versions of objects in segments that are passed over and in later ones that are not: when the later ones are
/// overwritten, the older versions must not come to light, neither at once nor after a crash or a clean stop.
#[test]
fn no_older_version_comes_to_light_when_its_segment_was_passed_over() {
    let medium = blank();
    let store = open(&medium);
    stored(put(&store, 7777, 1, 700_000));
    put_all(&store, 0, 20, 1000);
    let held = block_on(store.find(&key(7777))).unwrap();
    put_all(&store, 1000, 1020, 20_000);
    for n in 0..20 {
        if n % 2 == 0 { stored(put(&store, n, 2, 1000)) } else { drop(block_on(store.remove(&key(n)))) }
    }
    put_all(&store, 2000, 3000, 20_000);
    block_on(store.flush()).unwrap();
    assert!(store.stats().of_engine.named("passed_over_segments") > 0);
    let crashed = medium.copy();
    let gone = |store: &Cache| (0..20).for_each(|n| assert_ne!(get(store, n), Some(1), "object {n} is back"));
    gone(&store);
    gone(&open(&crashed));
    drop(held);
    block_on(store.close()).unwrap();
    gone(&open(&medium));
}

/// After a clean stop the index is read as it was saved; after a crash it is made anew from the summaries. Both find the
/// same.
///
/// This failed once in ten to twenty runs, with 8 to 11 requests where 7 were right. All that the disk had been asked for
/// by the end of the opening was counted, and not all of it was the opening's: that begins a segment, after which too few
/// may be free, and then the cleaner's thread reads summaries at once, one or two requests a segment. How many are free at
/// the stop depends on how far the cleaner had come by then. So each request is counted for the thread that asks.
#[test]
fn a_stop_saves_the_index_and_a_crash_has_the_summaries() {
    let medium = blank();
    let store = open(&medium);
    put_all(&store, 0, 600, 20_000);
    (590..600).for_each(|n| drop(block_on(store.remove(&key(n)))));
    block_on(store.flush()).unwrap();
    let all: Vec<_> = (0..600).map(|n| get(&store, n)).collect();
    let crashed = medium.copy();
    block_on(store.close()).unwrap();
    let look = |medium: &Medium| {
        let (own, strays) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (opener, log, opening, others) = (thread::current().id(), layout().base, own.clone(), strays.clone());
        let count = move |_, request: &Request| {
            let is_of_log = request.extent().is_some_and(|(at, _)| at >= log);
            if thread::current().id() == opener {
                opening.fetch_add(1, SeqCst);
            } else if !is_read(request) || !is_of_log {
                others.fetch_add(1, SeqCst);
            }
            None
        };
        let store = open_planned(&*plan(0), disk(medium, count)).unwrap();
        let calls = own.load(SeqCst);
        let found: Vec<_> = (0..600).map(|n| get(&store, n)).collect();
        assert_eq!(strays.load(SeqCst), 0, "other threads read summaries, to clean segments, and ask for nothing else");
        (calls, found, store.stats().damaged_at_open)
    };
    let plan = options();
    let (calls, found, damaged) = look(&medium);
    // Two headers read, and the pages, which are one run; two headers written, and a sync.
    assert!(plan.saved.pages > 1 && plan.saved.area_bytes() < 1 << 20);
    assert_eq!((calls, damaged), (2 + 1 + 3, 0));
    // A fresh segment was begun, so the oldest may have been cleaned for it.
    let lost: Vec<_> = (0..600).filter(|n| found[*n] != all[*n]).collect();
    let first = all.iter().position(Option::is_some).unwrap();
    let few = 5 * layout().region_bytes as usize / 20_000;
    assert!(lost.iter().all(|n| (first..first + few).contains(n)), "{lost:?}");
    let (calls, found, damaged) = look(&crashed);
    assert!(calls > layout().regions, "{calls} requests");
    assert_eq!(damaged, 0);
    // Segments that had been cleaned and not overwritten are found again, and nothing else is.
    let lost: Vec<_> = (0..600).filter(|n| all[*n].is_some() && found[*n] != all[*n]).collect();
    assert!(lost.iter().all(|n| (first..first + few).contains(n)), "{lost:?}");
    assert!(found[590..].iter().all(Option::is_none), "removed is removed");
}

/// Every block of the saved index damaged in turn: the segments say the same.
#[test]
fn a_damaged_saved_index_is_not_believed() {
    let medium = blank();
    let store = open(&medium);
    put_all(&store, 0, 300, 3000);
    drop(block_on(store.remove(&key(7))));
    block_on(store.close()).unwrap();
    let (from, to) = (4096, layout().base as usize);
    for at in (from..to).step_by(4096) {
        let left = medium.copy();
        left.with(|bytes| bytes[at + at % 1000] ^= 0x20);
        let store = open(&left);
        assert!((0..300).all(|n| get(&store, n) == (n != 7).then_some(1)), "block at {at}");
    }
}

#[test]
fn what_is_asked_for_most_stays_within_the_budget() {
    let found = |keep_percent| {
        let medium = blank();
        let device = Arc::new(Counted::new(sound(&medium)));
        let store = open_planned(&*plan(keep_percent), device.clone()).unwrap();
        // Twenty small objects that are asked for all the time, and a stream that nobody asks for again.
        put_all(&store, 0, 20, 1000);
        for n in 1000..3000 {
            stored(put(&store, n, 1, 20_000));
            let _ = get(&store, n % 20);
        }
        block_on(store.flush()).unwrap();
        let there = (0..20).filter(|n| get(&store, *n).is_some()).count();
        let (stats, written) = (store.stats(), device.counters().write_bytes);
        println!(
            "{keep_percent} %: {there} of 20 there, {} bytes kept, {written} written",
            stats.of_engine.named("kept_bytes")
        );
        assert!(stats.of_engine.named("kept_bytes") * 100 <= stats.stored_bytes * keep_percent * 102 / 100);
        (there, stats.of_engine.named("kept_bytes"))
    };
    assert_eq!(found(0), (0, 0));
    let (there, kept) = found(10);
    assert!(there == 20 && kept >= 20_000, "{there} there");
}

/// A summary that leads to other places than its records': what it says is checked against the records.
#[test]
fn a_summary_that_lies_finds_nothing_wrong() {
    let medium = blank();
    let store = open(&medium);
    put_all(&store, 0, 300, 3000);
    block_on(store.flush()).unwrap();
    let crashed = medium.copy();
    let (layout, stamp) = (layout(), Stamp { seed: Secret::from_bytes([7; 32]).seed() });
    let end = (layout.base + layout.region_bytes) as usize;
    let lied = crashed.with(|bytes| {
        let region = &bytes[end - layout.region_bytes as usize..end];
        let read = footer(&layout, stamp, 0, region).unwrap();
        let mut all = entries(&layout, stamp, &read, region).unwrap();
        let places: Vec<_> = all.iter().map(|entry| entry.place).collect();
        all.iter_mut().zip(places.iter().rev()).for_each(|(entry, place)| entry.place = *place);
        let summary = encode(&layout, stamp, read.region, read.used, &all);
        bytes[end - summary.len()..end].copy_from_slice(&summary);
        all.len() as u64
    });
    let store = open(&crashed);
    let found = (0..300).filter(|n| get(&store, *n).is_some()).count() as u64;
    println!("{lied} entries lie, {found} of 300 found");
    assert!(lied > 50 && found >= 300 - lied && found <= 301 - lied);
}

/// Readers of everything: room is made all the same, and they are told.
#[test]
fn readers_of_everything_stop_nobody() {
    let medium = blank();
    let store = open(&medium);
    let large = layout().region_bytes as usize * 2;
    let mut hits: Vec<_> = (0..20)
        .filter_map(|n| {
            let _ = put(&store, n, 1, large);
            block_on(store.find(&key(n)))
        })
        .collect();
    let begun = Instant::now();
    put_all(&store, 1000, 1600, 20_000);
    assert!(begun.elapsed() < Duration::from_secs(25), "no lease had to end for it");
    for hit in &mut hits {
        let body = block_on(hit.body.collect(usize::MAX));
        assert!(
            body.is_err_and(|error| error == tinaja_store::ReadError::Gone) || hit.body.len() == Some(large as u64)
        );
    }
}

/// A write failed, a flush told so, and nothing was stored before the cache was closed: its segment was left out of what is
/// saved, and the next opening took the one before for the last and began it once more, with places that had been given out.
#[test]
fn a_segment_that_was_given_up_is_not_begun_again() {
    let medium = blank();
    let fails = Arc::new(AtomicBool::new(false));
    let broken = fails.clone();
    let failing = move |_, request: &_| (is_write(request) && broken.load(SeqCst)).then_some(Fault::Full);
    let store = open_planned(&*plan(0), disk(&medium, failing)).unwrap();
    put_all(&store, 0, 40, 20_000);
    block_on(store.flush()).unwrap();
    fails.store(true, SeqCst);
    stored(put(&store, 40, 1, 1000));
    assert!(block_on(store.flush()).is_err());
    fails.store(false, SeqCst);
    let segment = |store: &Cache| store.stats().frontier_bytes / layout().region_bytes;
    let given_up = segment(&store);
    block_on(store.close()).unwrap();
    let store = open(&medium);
    assert_eq!((segment(&store), get(&store, 40)), (given_up + 1, None));
    assert_eq!((0..20).filter(|n| get(&store, *n) == Some(1)).count(), 20, "what lies in other segments is there");
}
