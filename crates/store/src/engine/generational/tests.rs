//! What an engine knows after a stop, and after it was killed.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use super::format::Format;
use super::options::Plan;
use super::{Generational, GenerationalOptions, recover, snapshot};
use crate::device::{Medium, Memory};
use crate::engine::{Engine, Kind, Place};
use crate::layout::alone::Alone;
use crate::layout::reach::Reach;
use crate::layout::{Stamp, SummaryEntry};
use crate::replace::Generations;
use crate::replace::generations::{Log, Value};

const DISK: u64 = 16 << 20;

fn open(medium: &Medium, format: Format) -> Generational {
    let options = GenerationalOptions::plan(&Plan {
        bytes: DISK,
        reserved: 4096,
        mean_object_bytes: 4096,
        stamp: Stamp { seed: 7 },
        format,
        entries: None,
        value: Value::Objects,
        index_memory: None,
    })
    .unwrap();
    Generational::open(Arc::new(Memory::over(medium)), &options).unwrap()
}

fn close(engine: &Generational) {
    let (tell, told) = sync_channel(1);
    engine.close(Box::new(move |result| drop(tell.send(result))));
    told.recv().unwrap().unwrap();
}

/// It takes a lap to learn, and on a large disk that takes weeks: each restart cost hits for as long.
#[test]
fn what_was_learned_is_there_after_a_stop_and_after_a_crash() {
    let medium = Medium::zeroed(DISK as usize);
    let first = open(&medium, Format::NEWEST);
    let nothing = first.0.policy.save();
    (0..100).for_each(|_| first.0.policy.hit(Log(1), 0));
    first.0.policy.learn([].into_iter());
    first.0.policy.stored_in(Log(first.0.policy.logs() as u8 - 1), 5 << 20);
    let learned = first.0.policy.save();
    assert_ne!(learned, nothing);
    close(&first);
    let second = open(&medium, Format::NEWEST);
    assert_eq!(second.0.policy.save(), learned, "after a stop");
    assert!(snapshot::take(&second.0, false));
    let third = open(&medium.copy(), Format::NEWEST);
    assert_eq!(third.0.policy.save(), learned, "after a crash");
}

/// A cache from before has no pages for it of its own, but its last page has room behind what it says: so it remembers too.
#[test]
fn a_cache_from_before_remembers_where_its_pages_have_room() {
    let medium = Medium::zeroed(DISK as usize);
    let mut learned = open(&medium, Format::OneSet).0.policy.save();
    for round in 0..3 {
        let engine = open(&medium, Format::OneSet);
        assert_eq!((engine.0.policy.save(), engine.stats().damaged_at_open), (learned, 0), "round {round}");
        engine.0.policy.hit(Log(1), 0);
        engine.0.policy.learn([].into_iter());
        learned = engine.0.policy.save();
        close(&engine);
    }
}

/// After a crash a segment may hold a record that nothing led to: the head of a large object of which a part was lost. As many slots led there
/// as objects were known, so all of it seemed to count, and the head was read along with what lay before it.
#[test]
fn what_a_crash_has_left_never_seems_to_count_as_a_whole() {
    let policy = Generations::new(DISK, 256 << 10, Value::Objects);
    let entry = |n: u64| SummaryEntry {
        id_low: n,
        place: Place(DISK + n * 3000),
        kind: Kind::Whole,
        reach: Reach::default(),
        number: n,
    };
    let found = |objects: u64| {
        let entries = (0..objects).map(entry).collect();
        let alone = Alone { region: Place(DISK), used: 100_000, entries, walked: None, is_void: false };
        recover::found_anew(&alone, None, &policy, 0)
    };
    assert_eq!([1, 2, 50].map(|objects| found(objects).objects), [2, 3, 51]);
    // To the policy this says that there are nothing but parts of large objects.
    assert_eq!((found(0).objects, found(0).segment(0).live_bytes), (0, 100_000));
}
