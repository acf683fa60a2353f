//! What was found by reading the code: each of these lost an object, or brought one back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use super::super::options::{GenerationalOptions, Plan};
use super::super::snapshot::header;
use super::*;
use crate::device::wrap::{Fault, Faulty};
use crate::device::{Medium, Memory, Request};
use crate::engine::Kind;
use crate::replace::generations::Value;

const DISK: u64 = 16 << 20;

struct Subject {
    table: Table,
    options: GenerationalOptions,
    device: Arc<Faulty>,
    fails_reads: Arc<AtomicBool>,
    /// The number of the next snapshot.
    next: u64,
}

fn id(n: u64) -> u64 {
    xxhash_rust::xxh3::xxh3_64(&n.to_le_bytes())
}

impl Subject {
    fn new() -> Self {
        Self::with(None)
    }

    fn with(entries: Option<u64>) -> Self {
        let stamp = Stamp { seed: 7 };
        let (format, value) = (Format::NEWEST, Value::Objects);
        let plan = Plan {
            bytes: DISK,
            reserved: 4096,
            mean_object_bytes: 4096,
            stamp,
            format,
            entries,
            value,
            index_memory: Some(64 << 10),
        };
        let options = GenerationalOptions::plan(&plan).unwrap();
        let fails_reads = Arc::new(AtomicBool::new(false));
        let fails = fails_reads.clone();
        let faults = move |_, request: &Request| {
            (matches!(request, Request::Read { .. }) && fails.load(SeqCst)).then_some(Fault::Error)
        };
        let device = Arc::new(Faulty::new(Arc::new(Memory::over(&Medium::zeroed(DISK as usize))), faults));
        let layout = options.layout;
        let homes = (0..layout.regions).map(|n| Place(layout.log_bytes() + n * layout.region_bytes));
        let segments = Segments::new(device.clock().clone(), layout, options.entries(), homes, None);
        let table = Table::new(&options.table_plan().unwrap());
        let table = table.over(Arc::new(segments), None, vec![0; layout.regions as usize].into(), |_| Some(0), &[]);
        Subject { table, options, device, fails_reads, next: 1 }
    }

    fn place(&self, nth: u64) -> Place {
        Place(self.options.layout.log_bytes() + nth * 4096)
    }

    fn enter(&self, n: u64, nth: u64) {
        self.table.enter(Kind::Whole, id(n), self.place(nth));
    }

    /// A merge that ends well, or is given up behind its last page.
    fn merge(&mut self, ends: bool) {
        let number = self.next;
        // The next goes where one was to go that was given up.
        self.next += if ends { 1 } else { 2 };
        self.table.merge_begins(0);
        let snapshots = self.table.snapshots(&*self.device);
        let page = |page: u64| match page < self.options.shards() {
            true => self.table.merge(&*self.device, page, |hits, _| hits.into()),
            false => Vec::new(),
        };
        let settle = || if ends { Ok(()) } else { Err(std::io::Error::other("given up")) };
        let written = snapshots.write(header(number, 1, false, 0), page, settle);
        assert_eq!(written.is_ok(), ends);
        self.table.merge_ended(ends.then_some(number));
    }

    /// Where the index leads, by the page if need be.
    fn leads(&self, n: u64) -> Option<Place> {
        let nowhere = Place(u64::MAX / 2);
        let pool = Arc::default();
        let past = |place: Place| self.table.leads_past((&*self.device, &pool), id(n), place, &mut 1);
        let there = |place: &Place| past(*place) == Some(false);
        if past(nowhere) == Some(false) {
            return None;
        }
        let regions = (0..self.options.layout.regions).map(|at| at * self.options.layout.region_bytes);
        regions.map(|at| Place(self.options.layout.log_bytes() + at)).find(there)
    }
}

/// A reader had the head of an older version open, of which a part was gone. What it forgot was the newer version, which was on the disk.
#[test]
fn whoever_forgets_an_older_place_forgets_nothing_newer() {
    let mut subject = Subject::new();
    let newer = subject.options.layout.region_bytes / 4096 * 3;
    subject.enter(1, 5);
    subject.merge(true);
    subject.enter(1, newer);
    subject.merge(true);
    subject.table.forget(id(1), subject.place(5));
    let region = subject.options.layout.region_of(subject.place(newer));
    assert_eq!(subject.leads(1), Some(region));
    subject.table.forget(id(1), subject.place(newer));
    assert_eq!(subject.leads(1), None);
}

/// A page could not be read, once, and its filter said that it holds nothing. Then the merge failed, so that the page was still what lookups
/// went by; what was removed meanwhile was said to be absent already, and came back when the page could be read again.
#[test]
fn what_is_removed_while_its_page_cannot_be_read_stays_away() {
    let mut subject = Subject::new();
    (0..50).for_each(|n| subject.enter(n, n));
    subject.merge(true);
    subject.fails_reads.store(true, SeqCst);
    subject.merge(false);
    (0..25).for_each(|n| subject.table.remove_low(id(n)));
    subject.fails_reads.store(false, SeqCst);
    assert!((0..25).all(|n| subject.leads(n).is_none()) && (25..50).all(|n| subject.leads(n).is_some()));
    subject.merge(true);
    assert!((0..25).all(|n| subject.leads(n).is_none()) && (25..50).all(|n| subject.leads(n).is_some()));
}

/// The cleaner had written an object once more, and meanwhile its copy had to go for another one: nothing led to it then.
#[test]
fn what_was_written_once_more_is_found_whatever_becomes_of_its_copy() {
    let mut subject = Subject::new();
    let again = subject.options.layout.region_bytes / 4096 * 2;
    subject.enter(1, 5);
    subject.merge(true);
    assert!(subject.table.hits(id(1), subject.place(5)).is_some());
    subject.table.copies.forget(subject.table.cut.spot(id(1)).mixed());
    subject.table.follow(id(1), subject.place(5), subject.place(again));
    assert_eq!(subject.table.find(id(1)), Some(subject.place(again)));
}

/// A lookup read its page slowly, and what it read was replaced and merged meanwhile: a copy of that would have hidden the newer version.
#[test]
fn what_was_read_slowly_becomes_no_copy() {
    let mut subject = Subject::new();
    subject.enter(1, 5);
    subject.merge(true);
    let (current, spot) = (subject.table.current(), subject.table.cut.spot(id(1)));
    subject.enter(1, 9);
    assert!(!subject.table.keep_copy(spot, subject.place(5), &current), "something has changed");
    subject.merge(true);
    subject.table.copies.forget(spot.mixed());
    assert!(!subject.table.keep_copy(spot, subject.place(5), &current), "that table is another one");
    assert!(subject.table.copy(spot).is_none());
    let current = subject.table.current();
    assert!(subject.table.keep_copy(spot, subject.place(9), &current) && subject.table.copy(spot).is_some());
    // While its segment is cleaned nothing leads there for longer than the segment stays.
    subject.table.copies.forget(spot.mixed());
    subject.table.leaves(0);
    assert!(subject.table.keep_copy(spot, subject.place(9), &current) && subject.table.copy(spot).is_none());
}

/// What the table had lost was removed, and nothing was to be done for it: nothing led to it. But a copy of it was there from before, and when
/// the filter, made anew, took it for something that is there, what had been removed was found.
#[test]
fn what_is_removed_leaves_no_copy_even_if_the_table_does_not_hold_it() {
    let mut subject = Subject::new();
    (0..50).for_each(|n| subject.enter(n, n));
    subject.merge(true);
    let spots: Vec<_> = (0..50).map(|n| subject.table.cut.spot(id(n))).collect();
    assert!(spots.iter().all(|spot| subject.table.copy(*spot).is_some()));
    subject.fails_reads.store(true, SeqCst);
    subject.merge(true);
    subject.fails_reads.store(false, SeqCst);
    subject.merge(true);
    assert!(spots.iter().any(|spot| !subject.table.may_hold(*spot)), "the table has lost them");
    (0..50).for_each(|n| subject.table.remove_low(id(n)));
    assert!(spots.iter().all(|spot| subject.table.copy(*spot).is_none()));
}

/// A record that was read beside another one may be an older version, or of what was removed: the log does not say so. What is copied is what
/// the table leads to.
#[test]
fn what_lies_beside_a_record_is_copied_only_if_it_counts() {
    let mut subject = Subject::new();
    // Those in one part of a segment are spoilt together: each has a part to itself.
    let apart = subject.options.layout.region_bytes / 64 / 4096;
    assert_eq!(apart, 1, "a part is as long as an object here");
    (0..8).for_each(|n| subject.enter(n, n));
    subject.merge(true);
    let neighbour = |subject: &Subject, n: u64, nth: u64| {
        let spot = subject.table.cut.spot(id(n));
        subject.table.copies.forget(spot.mixed());
        subject.table.keep_neighbour(id(n), subject.place(nth));
        subject.table.copy(spot).is_some()
    };
    assert!((0..8).all(|n| neighbour(&subject, n, n)));
    assert!(!neighbour(&subject, 99, 20), "the table does not hold it");
    // Replaced, removed, and written once more, each before the next merge and after it.
    subject.enter(0, 40);
    subject.table.remove_low(id(1));
    subject.table.follow(id(2), subject.place(2), subject.place(42));
    let old = |subject: &Subject| (0..3).filter(|n| neighbour(subject, *n, *n)).count();
    assert_eq!(old(&subject), 0, "something has changed");
    subject.merge(true);
    assert_eq!(old(&subject), 0);
    assert!(neighbour(&subject, 0, 40) && !neighbour(&subject, 1, 1) && neighbour(&subject, 2, 42));
    assert!((3..8).all(|n| neighbour(&subject, n, n)), "the others count as before");
    // Replaced before the table ever led to it.
    subject.enter(10, 50);
    subject.enter(10, 51);
    subject.merge(true);
    assert!(!neighbour(&subject, 10, 50) && neighbour(&subject, 10, 51));
    // The cleaner wrote it once more when a newer version was there: what it wrote never counted.
    subject.enter(11, 52);
    subject.merge(true);
    subject.enter(11, 53);
    subject.table.follow(id(11), subject.place(52), subject.place(54));
    subject.merge(true);
    assert!(!neighbour(&subject, 11, 54) && !neighbour(&subject, 11, 52) && neighbour(&subject, 11, 53));
    // Its segment was to leave, and stays.
    subject.enter(12, 55);
    assert!(subject.table.evict_unless(id(12), subject.place(55), |_| false) == Some(true));
    subject.merge(true);
    assert!(!neighbour(&subject, 12, 55));
    subject.table.leaves(0);
    assert!(!neighbour(&subject, 3, 3), "its segment is being cleaned");
    subject.table.has_left();
    assert!(neighbour(&subject, 3, 3));
    // What a lost page led to may have been replaced since by what that page led to.
    subject.fails_reads.store(true, SeqCst);
    subject.merge(true);
    subject.fails_reads.store(false, SeqCst);
    assert!((3..8).all(|n| !neighbour(&subject, n, n)));
}

/// After a start it is known of a segment whether all of it counts, and not what of it.
#[test]
fn after_a_start_segments_of_which_something_was_replaced_are_not_read_along() {
    let mut subject = Subject::new();
    let second = subject.options.layout.region_bytes / 4096;
    (0..8).for_each(|n| subject.enter(n, n));
    (8..16).for_each(|n| subject.enter(n, second + n));
    subject.enter(3, second + 20);
    subject.merge(true);
    let (number, table) = (subject.next - 1, Table::new(&subject.options.table_plan().unwrap()));
    for page in 0..subject.options.shards() {
        table.load(page, &subject.table.snapshots(&*subject.device).page(number, page).unwrap());
    }
    let layout = subject.options.layout;
    let homes: Vec<_> = (0..layout.regions).map(|n| layout.log_bytes() + n * layout.region_bytes + 1).collect();
    let segments = subject.table.segments.clone().unwrap();
    let written = |at: usize| Some([8, 9].get(at).copied().unwrap_or(0));
    subject.table = table.over(segments, Some(number), homes.into(), written, &[]);
    let neighbour = |n: u64, nth: u64| {
        subject.table.keep_neighbour(id(n), subject.place(nth));
        subject.table.copy(subject.table.cut.spot(id(n))).is_some()
    };
    assert!((0..8).all(|n| !neighbour(n, n)), "one of eight was replaced");
    assert!((8..16).all(|n| neighbour(n, second + n)) && neighbour(3, second + 20));
}

/// On a spinning disk each read between two writes is two seeks: pages are read in runs of a megabyte.
#[test]
fn a_merge_reads_its_pages_in_runs() {
    let mut subject = Subject::with(Some(400_000));
    (0..500).for_each(|n| subject.enter(n, n));
    subject.merge(true);
    let (pages, before) = (subject.table.cut.shape.shards(), subject.device.counters().reads);
    (500..1000).for_each(|n| subject.enter(n, n));
    subject.merge(true);
    let reads = subject.device.counters().reads - before;
    println!("{reads} reads of {pages} pages");
    assert!(pages > 500 && reads == pages.div_ceil(256), "{reads} reads of {pages} pages");
    // Of two that share a spot one is there.
    let lost = (0..1000).filter(|n| subject.leads(*n).is_none()).count();
    assert!(lost < 5, "{lost}");
}
