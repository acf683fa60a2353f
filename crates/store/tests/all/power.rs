//! Power cuts and disks that lie, at every request of a scripted run: never a wrong byte, never an older version than
//! one that a flush acknowledged, nothing removed comes back, and the store always opens.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use parking_lot::Mutex;
use tinaja_store::device::wrap::{Fault, Faulty, Tear};
use tinaja_store::device::{Medium, Memory, Request};
use tinaja_store::{Cache, Commit, EngineRef, Store, block_on, engines};

use crate::support::{
    blank, disk, get, has_table, key, open_as, plan_as, put, put_in_groups, puts_in_groups, section_of, sound,
};

pub const OBJECTS: u64 = 24;

for_every_engine!(
    whatever_a_power_cut_leaves_what_was_flushed_is_there,
    a_power_cut_after_many_laps_revives_nothing,
    a_disk_that_lies_about_a_write_makes_misses,
    a_power_cut_while_opening_changes_nothing,
);

/// For each object the number of the last event that was acknowledged, and whether it was a version or a removal.
#[derive(Clone, Debug)]
pub struct Acknowledged {
    last: Vec<(u64, bool)>,
    /// Objects whose removal was begun since, or in a table the writing of a newer version: they may be gone.
    leaving: Vec<u64>,
}

impl Acknowledged {
    pub fn nothing() -> Self {
        Acknowledged { last: vec![(0, false); OBJECTS as usize], leaving: Vec::new() }
    }

    /// What may be found of an object: the version acknowledged, a later one, or nothing.
    fn allows(&self, n: u64, found: Option<u64>) -> bool {
        let (number, there) = self.last[n as usize];
        found.is_none_or(|version| version > number || (there && version == number))
    }

    fn must_be_there(&self, n: u64) -> bool {
        self.last[n as usize].1 && !self.leaving.contains(&n)
    }
}

/// Versions of objects small and large, removals and flushes over five regions of the log. Events are numbered, and a
/// version is its event's number. `floor` is kept up with each sync that succeeds; the first that fails ends the run, as a power cut does.
pub fn script(engine: EngineRef, store: &Cache, rounds: u64, floor: &Mutex<Acknowledged>) {
    let mut now = Acknowledged::nothing();
    let mut event = 0;
    for round in 0..rounds {
        for n in (0..OBJECTS).filter(|n| !(n + round).is_multiple_of(3)) {
            event += 1;
            let size = if n == 5 { 70_000 } else { (n * 977 + round * 331) % 9000 };
            if has_table(engine) {
                floor.lock().leaving.push(n);
            }
            if matches!(put(store, n, event, size as usize), Commit::Stored { .. }) {
                now.last[n as usize] = (event, true);
            }
        }
        for n in [round % OBJECTS, (round * 5 + 1) % OBJECTS] {
            event += 1;
            floor.lock().leaving.push(n);
            if block_on(store.remove(&key(n))).is_err() {
                return;
            }
            now.last[n as usize] = (event, false);
            match puts_in_groups() {
                true => floor.lock().last[n as usize] = (event, false),
                false => *floor.lock() = now.clone(),
            }
        }
        if round % 2 == 0 || round + 1 == rounds {
            if block_on(store.flush()).is_err() {
                return;
            }
            *floor.lock() = now.clone();
        }
    }
}

/// Open what is left and look at everything: the number of objects found.
///
/// With `flushed`, what a flush acknowledged must be there, or what a later version or removal of it was under way
/// must be whole. So it was not once: a region's summary could reach the disk before the batches that it vouches for. The
/// newer version's record was then known and not there, and the acknowledged one was taken to be replaced by it.
fn check(engine: EngineRef, medium: &Medium, floor: &Acknowledged, flushed: bool, why: &dyn Fn() -> String) -> usize {
    let store = open_as(engine, sound(medium)).unwrap_or_else(|error| panic!("{}: it does not open: {error}", why()));
    look_at_all(&store, floor, flushed, why)
}

/// The same of a store that is open.
pub fn look_at_all(store: &Cache, floor: &Acknowledged, flushed: bool, why: &dyn Fn() -> String) -> usize {
    let (mut hits, mut lost) = (0, Vec::new());
    for n in 0..OBJECTS {
        let found = get(store, n);
        let acknowledged = floor.last[n as usize];
        assert!(floor.allows(n, found), "{}: object {n} is {found:?}, acknowledged {acknowledged:?}", why());
        if found.is_none() && floor.must_be_there(n) {
            lost.push(n);
        }
        hits += usize::from(found.is_some());
    }
    assert!(!flushed || lost.is_empty(), "{}: {lost:?} were acknowledged and are lost", why());
    // It takes new objects, and they are found.
    assert!(matches!(put(store, 5, 999, 3000), Commit::Stored { .. }) && get(store, 5) == Some(999), "{}", why());
    hits
}

/// The state that the last flush before request `call` acknowledged, and the disk whose power went then.
fn cut_at(engine: EngineRef, call: u64, rounds: u64, medium: &Medium) -> (Acknowledged, Arc<Faulty>) {
    put_in_groups();
    let plan = move |now, _: &Request| (now >= call).then_some(Fault::Error);
    let failing = Arc::new(Faulty::volatile(Arc::new(Memory::over(medium)), plan));
    let floor = Mutex::new(Acknowledged::nothing());
    if let Ok(store) = open_as(engine, failing.clone()) {
        script(engine, &store, rounds, &floor);
    }
    (floor.into_inner(), failing)
}

/// Every subset of what was under way, and every one of them torn in three ways, at every request.
fn power_cuts(engine: EngineRef, blank: &dyn Fn() -> Medium, rounds: u64, flushed: bool) {
    let (mut call, mut openings, mut most_held) = (0, 0, 0);
    let calls = cut_at(engine, u64::MAX, rounds, &blank()).1.calls();
    while call < calls {
        let medium = blank();
        let (floor, failing) = cut_at(engine, call, rounds, &medium);
        let held = failing.held_writes();
        most_held = most_held.max(held.len());
        let mut look = |what: &str, which: usize, survives: &dyn Fn(usize, usize) -> bool| {
            openings += 1;
            let why = || format!("power cut at request {call}, {what} {which} of {} writes", held.len());
            check(engine, &medium.after(&held, survives), &floor, flushed, &why);
        };
        for subset in 0..1_usize << held.len().min(6) {
            look("surviving set", subset, &|n, _| n >= 6 || subset >> n & 1 == 1);
        }
        for torn in 0..held.len() {
            look("first half of", torn, &|n, block| n != torn || block < held[n].1.len() / 1024);
            look("second half of", torn, &|n, block| n != torn || block >= held[n].1.len() / 1024);
            look("every other block of", torn, &|n, block| n != torn || block % 2 == 1);
        }
        call += 1;
    }
    println!("{calls} requests, {openings} openings, up to {most_held} writes under way");
    assert!(calls > 60 && openings > 300 && most_held > 1);
}

fn whatever_a_power_cut_leaves_what_was_flushed_is_there(engine: EngineRef) {
    power_cuts(engine, &blank, 8, true);
}

/// The same in a log of five regions that goes round and round: objects may be gone, but none is old or wrong.
fn a_power_cut_after_many_laps_revives_nothing(engine: EngineRef) {
    // Larger objects have a log of their own there, so that it takes longer until it has gone round.
    let rounds = if engine == engines::GENERATIONAL { 24 } else { 14 };
    power_cuts(engine, &|| small(engine), rounds, false);
}

/// A disk whose log has few regions.
fn small(engine: EngineRef) -> Medium {
    Medium::zeroed(if has_table(engine) { 4 << 20 } else { 1400 << 10 })
}

/// Where a write may land instead: the superblock's, a snapshot's, the log's first region, the middle, a summary.
fn elsewhere(at: u64, medium_bytes: u64) -> [u64; 5] {
    [4096, 110 << 10, at.wrapping_add(4096), at.saturating_sub(8192), medium_bytes / 2 / 4096 * 4096]
        .map(|to| to.min(medium_bytes - (256 << 10)))
}

/// A run in which one write is given a fault that the disk does not tell of.
struct Lie {
    closed: Medium,
    killed: Medium,
    writes: u64,
    /// What the last flush acknowledged.
    floor: Acknowledged,
    /// What had been acknowledged when the region began that was open at the end.
    floor_of_open_region: Acknowledged,
}

fn lie(engine: EngineRef, blank: &dyn Fn() -> Medium, rounds: u64, target: u64, fault: Fault) -> Lie {
    let closed = blank();
    let bytes = closed.size() as u64;
    let layout = section_of(&*plan_as(engine, bytes)).log;
    let writes = Arc::new(AtomicU64::new(0));
    let floor = Arc::new(Mutex::new(Acknowledged::nothing()));
    let open_region = Arc::new(Mutex::new((0, Acknowledged::nothing())));
    let open_regions = Arc::new(Mutex::new(BTreeMap::from([(0, Acknowledged::nothing())])));
    let (count, now, region, regions) = (writes.clone(), floor.clone(), open_region.clone(), open_regions.clone());
    let plan = move |_, request: &Request| {
        let Request::Write { at, part, .. } = request else { return None };
        let number = at.checked_sub(layout.base).map(|at| at / layout.region_bytes);
        let mut region = region.lock();
        // Summaries of regions before it are written later.
        if let Some(number) = number.filter(|number| *number > region.0) {
            *region = (number, now.lock().clone());
            regions.lock().insert(number, region.1.clone());
        }
        let end = at.saturating_sub(layout.base) + part.len() as u64;
        if let Some(number) = number.filter(|number| end == (number + 1) * layout.region_bytes) {
            regions.lock().remove(&number);
        }
        let fault = match fault {
            Fault::Misdirected(which) => Fault::Misdirected(elsewhere(*at, bytes)[which as usize]),
            fault => fault,
        };
        (count.fetch_add(1, SeqCst) == target).then_some(fault)
    };
    let store = open_as(engine, disk(&closed, plan)).unwrap();
    script(engine, &store, rounds, &floor);
    let (killed, floor) = (closed.copy(), floor.lock().clone());
    let mut floor_of_open_region = open_region.lock().1.clone();
    if engine == engines::GENERATIONAL {
        // It has several open, in which removals and versions of different ages lie.
        let oldest = open_regions.lock().values().next().cloned();
        floor_of_open_region = oldest.unwrap_or_else(Acknowledged::nothing);
    }
    block_on(store.close()).unwrap();
    Lie { closed, killed, writes: writes.load(SeqCst), floor, floor_of_open_region }
}

/// Every write of the run is given each fault in turn.
fn lies(engine: EngineRef, blank: &dyn Fn() -> Medium, rounds: u64) {
    let faults: Vec<_> = [Tear::Prefix(1), Tear::Prefix(9), Tear::Suffix(1), Tear::Suffix(9), Tear::Alternating]
        .map(Fault::Torn)
        .into_iter()
        .chain([Fault::Lost, Fault::Held])
        .chain([0, 77, 4096 * 8 + 3, u64::MAX].map(Fault::Flipped))
        .chain([0, 1, 2, 3, 4].map(Fault::Misdirected))
        .collect();
    let (mut writes, mut runs, mut hits) = (0, 0, 0);
    for fault in faults {
        let (mut target, mut last) = (0, 1);
        while target < last {
            let lie = lie(engine, blank, rounds, target, fault);
            let honest = fault == Fault::Held;
            let killed_floor = if honest { &lie.floor } else { &lie.floor_of_open_region };
            for (end, medium, floor) in [("closed", &lie.closed, &lie.floor), ("killed", &lie.killed, killed_floor)] {
                let why = || format!("write {target} was {fault:?}, then {end}");
                // What was to be written over stays whole where a write got lost: in a table nothing tells.
                let stale = has_table(engine) && !honest && !matches!(fault, Fault::Flipped(_));
                let anything = Acknowledged::nothing();
                hits += check(engine, medium, if stale { &anything } else { floor }, honest, &why);
                runs += 1;
            }
            last = lie.writes;
            target += 1;
        }
        writes = writes.max(last);
    }
    println!("{writes} writes, {runs} openings, {:.1} objects found on average", hits as f64 / f64::from(runs));
    assert!(writes > 30 && hits as f64 / f64::from(runs) > 12.0);
}

fn a_disk_that_lies_about_a_write_makes_misses(engine: EngineRef) {
    lies(engine, &|| if has_table(engine) { small(engine) } else { blank() }, 8);
}

/// The power goes at every request of an opening after a kill, again and again: the next opening finds the same.
fn a_power_cut_while_opening_changes_nothing(engine: EngineRef) {
    let medium = blank();
    let floor = Mutex::new(Acknowledged::nothing());
    let store = open_as(engine, sound(&medium)).unwrap();
    script(engine, &store, 8, &floor);
    let (killed, floor) = (medium.copy(), floor.into_inner());
    drop(store);
    let whole = check(engine, &killed.copy(), &floor, true, &|| "undisturbed".into());
    let (mut call, mut calls, mut writes) = (0, 1, 0);
    while call < calls {
        let left = killed.copy();
        let plan = move |now, _: &Request| (now >= call).then_some(Fault::Error);
        let failing = Arc::new(Faulty::volatile(Arc::new(Memory::over(&left)), plan));
        drop(open_as(engine, failing.clone()));
        calls = calls.max((failing.calls() + 1).min(call + 2));
        writes = writes.max(failing.held());
        for tear in [Tear::Suffix(0), Tear::Prefix(1), Tear::Alternating] {
            let held = failing.held_writes();
            let again = left.after(&held, |_, block| match tear {
                Tear::Prefix(blocks) => block < blocks as usize,
                Tear::Suffix(blocks) => block >= blocks as usize,
                Tear::Alternating => block % 2 == 1,
            });
            let why = || format!("power cut at request {call} of an opening, {tear:?} of {} writes", held.len());
            assert_eq!(check(engine, &again, &floor, true, &why), whole, "{}", why());
        }
        call += 1;
    }
    println!("{calls} requests, up to {writes} writes under way");
    assert!(calls > 10 && writes > 0);
}
