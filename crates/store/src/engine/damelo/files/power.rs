//! The power goes at every request of a small store that is used by the paper's interface. Then every object that a checkpoint
//! of its group has heard of is found with its bytes, or a newer one of its name; nothing that was removed before such a
//! checkpoint comes back; and nobody gets another object's bytes.

use tinaja_clock::ManualClock;

use super::tests::{SMALL, blank, body, checkpoint, name, on};
use super::*;
use crate::device::wrap::{Fault, Faulty};
use crate::device::{Medium, Memory, Request};

const OBJECTS: u32 = 32;
const ROUNDS: u32 = 7;

/// What was done with an object: in which group, and whether a version was created there or what there was removed.
#[derive(Clone, Copy, Debug)]
struct Event {
    group: u32,
    version: Option<u32>,
}

/// All that was done with each object, and how much of it was to last when the power went.
struct History {
    events: Vec<Vec<Event>>,
    /// For each object, up to which event checkpoints had heard.
    lasting: Vec<usize>,
}

impl History {
    fn new() -> History {
        History { events: vec![Vec::new(); OBJECTS as usize], lasting: vec![0; OBJECTS as usize] }
    }

    fn note(&mut self, n: u32, group: u32, version: Option<u32>) {
        self.events[n as usize].push(Event { group, version });
    }

    /// What there is of an object if nothing is lost: its group and version.
    fn now(&self, n: u32) -> Option<(u32, u32)> {
        let last = self.events[n as usize].last()?;
        last.version.map(|version| (last.group, version))
    }

    /// A checkpoint of this group lasts.
    fn checkpointed(&mut self, group: u32) {
        for (events, lasting) in self.events.iter().zip(&mut self.lasting) {
            let heard = events.iter().rposition(|event| event.group == group).map_or(0, |at| at + 1);
            *lasting = (*lasting).max(heard);
        }
    }

    /// Whether this may be found of an object after the power cut.
    fn allows(&self, n: u32, found: Option<u32>, is_full: bool) -> bool {
        let events = &self.events[n as usize];
        let (heard, later) = events.split_at(self.lasting[n as usize]);
        let last = heard.last().and_then(|event| event.version);
        match found {
            Some(_) => last == found || later.iter().any(|event| event.version == found),
            None => is_full || last.is_none() || later.iter().any(|event| event.version.is_none()),
        }
    }
}

/// The body of a version of an object: nothing else has these bytes.
fn body_of(n: u32, version: u32) -> Vec<u8> {
    let mut body = body(n, 60 + (n * 977 + version * 331) as usize % 6000);
    body[..4].copy_from_slice(&version.to_le_bytes());
    body
}

/// The version that is found of an object, in whatever group; nobody gets other bytes. Errors: it cannot be read.
fn found(files: &FileSystem, n: u32) -> Result<Option<u32>, String> {
    let Some(group) = files.lookup(&name(n)) else { return Ok(None) };
    let Some(object) = files.read(&name(n), group).map_err(|error| error.to_string())? else { return Ok(None) };
    let version = u32::from_le_bytes(object[..4].try_into().unwrap());
    assert!(*object == body_of(n, version), "object {n} has other bytes");
    Ok(Some(version))
}

/// Create, read, remove, love, hate and checkpoint, until the disk fails. Objects move between groups: what maps them to groups
/// may change (section 3).
///
/// Where `is_full`, they move each time, and pages are evicted and journals begin anew as if the disk had no room for more.
fn long(files: &FileSystem, disk: &Faulty, cut: u64, hand: &ManualClock, is_full: bool) -> History {
    let (mut history, mut version) = (History::new(), 0);
    let is_on = || disk.calls() <= cut;
    for round in 0..ROUNDS {
        for n in (0..OBJECTS).filter(|n| (n + round) % 3 > 0) {
            version += 1;
            let moved = if is_full { 4 * round } else { round };
            let group = 1 + if n % 4 == 0 { n + moved } else { n } / 4 % 4;
            history.note(n, group, Some(version));
            if files.create(&name(n), group, &body_of(n, version)).is_err() {
                return history;
            }
        }
        for n in [round * 3 % OBJECTS, (round * 5 + 1) % OBJECTS, (round * 4 + 4) % OBJECTS] {
            let Some((group, _)) = history.now(n) else { continue };
            history.note(n, group, None);
            assert!(files.remove(&name(n), group).unwrap() || is_full || !is_on());
            if !is_on() {
                return history;
            }
        }
        for n in (0..OBJECTS).step_by(5) {
            let found = found(files, n);
            let is_now = found == Ok(history.now(n).map(|(_, version)| version)) || is_full && found == Ok(None);
            assert!(is_now || !is_on(), "object {n} is {found:?}");
        }
        if is_full {
            let inner = &files.engine.0;
            let mut state = inner.state.lock();
            // All that the last checkpoint has made last is evicted, and something of another group.
            while inner.evict(&mut state, (round + 2) % 4, None) {}
            inner.evict(&mut state, (round + 1) % 4, None);
            state.groups.iter_mut().zip(0..).for_each(|(group, n)| group.journal.is_tainted |= (n + round) % 3 == 0);
        }
        files.love(1 + round % 4).unwrap();
        files.hate(1 + (round + 1) % 4).unwrap();
        // One group, or two at once.
        let due: Vec<u32> = (1..=4).filter(|group| group % 4 == round % 4 || (round % 3 == 2 && *group == 2)).collect();
        checkpoint(files, hand, &due);
        if !is_on() {
            return history;
        }
        due.into_iter().for_each(|group| history.checkpointed(group));
    }
    history
}

/// Objects that move from group 1 to group 2, which alone is checkpointed from then on; and what was newer of them leaves: on the disk
/// and then evicted, on the disk and then removed, evicted before it was there.
fn moved(files: &FileSystem, disk: &Faulty, cut: u64, hand: &ManualClock, _: bool) -> History {
    let mut history = History::new();
    let is_on = || disk.calls() <= cut;
    let create = |history: &mut History, n: u32, group: u32, version: u32| {
        history.note(n, group, Some(version));
        files.create(&name(n), group, &body_of(n, version)).is_ok()
    };
    let last = |history: &mut History, group: u32| {
        checkpoint(files, hand, &[group]);
        if is_on() {
            history.checkpointed(group);
        }
        is_on()
    };
    let inner = &files.engine.0;
    let goes_on = (0..3).all(|n| create(&mut history, n, 1, 1))
        && last(&mut history, 1)
        && (0..2).all(|n| create(&mut history, n, 2, 2))
        && last(&mut history, 2)
        && create(&mut history, 2, 2, 2);
    if !goes_on {
        return history;
    }
    history.note(1, 2, None);
    assert!(files.remove(&name(1), 2).unwrap());
    while inner.evict(&mut inner.state.lock(), 1, None) {}
    // Group 3's checkpoint says what has left group 2.
    if create(&mut history, 5, 3, 3) && last(&mut history, 3) && create(&mut history, 3, 2, 3) && last(&mut history, 2)
    {
        // The journal that has said so begins anew.
        inner.state.lock().groups[1].journal.is_tainted = true;
        let _ = create(&mut history, 4, 2, 3) && last(&mut history, 2);
    }
    history
}

type Script = fn(&FileSystem, &Faulty, u64, &ManualClock, bool) -> History;

/// The store whose power goes at this request: what was done, what the disk's platter has, and what was on its way there.
fn cut_at(script: Script, cut: u64, is_full: bool) -> (History, Medium, Arc<Faulty>) {
    let (medium, hand) = (blank(), ManualClock::new());
    let plan = move |call, _: &Request| (call >= cut).then_some(Fault::Error);
    let disk = Arc::new(Faulty::volatile(Arc::new(Memory::by(hand.clock(), &medium)), plan));
    let layout = FileSystem::layout(SMALL.disk_bytes, &SMALL).unwrap();
    // It does not open if the power goes as it does.
    let opened = FileSystem::over(&(disk.clone() as Arc<dyn Device>), Secret::from_bytes([7; 32]), layout, &SMALL);
    let Ok(files) = opened else { return (History::new(), medium, disk) };
    let mut history = script(&files, &disk, cut, &hand, is_full);
    let evicted = files.engine.0.counts.evicted_pages.load(std::sync::atomic::Ordering::Relaxed);
    assert!(is_full || evicted == 0, "there is room for all");
    if files.close().is_ok() {
        (1..=4).for_each(|group| history.checkpointed(group));
    }
    (history, medium, disk)
}

#[test]
fn whatever_a_power_cut_leaves_what_was_checkpointed_is_there() {
    let (requests, openings, most_held, hits) = cut_everywhere(long, false);
    assert!(requests > 60 && openings > 500 && most_held > 4 && hits > 10 * openings, "{requests} {openings} {hits}");
}

#[test]
fn whatever_a_power_cut_leaves_of_a_full_disk_nothing_is_older() {
    let (requests, openings, most_held, hits) = cut_everywhere(long, true);
    assert!(requests > 60 && openings > 500 && most_held > 4 && hits > 5 * openings, "{requests} {openings} {hits}");
}

/// One group's journal had heard of a newer version, which left with its page, and the older one in another group came back: that
/// group's journal had not heard. So it was with what was removed, once the journal that said so was begun anew, and with what was
/// evicted before it was on the disk.
#[test]
fn whatever_a_power_cut_leaves_nothing_older_comes_back_in_another_group() {
    let (requests, openings, _, hits) = cut_everywhere(moved, true);
    assert!(requests > 15 && openings > 50 && hits > openings, "{requests} {openings} {hits}");
}

/// How many requests there were, how many openings, the most writes under way, and how many objects were found.
fn cut_everywhere(script: Script, is_full: bool) -> (u64, u32, usize, u32) {
    let requests = cut_at(script, u64::MAX, is_full).2.calls();
    let (mut openings, mut most_held, mut hits) = (0_u32, 0, 0_u32);
    for cut in 0..=requests {
        let (history, medium, disk) = cut_at(script, cut, is_full);
        let held = disk.held_writes();
        most_held = most_held.max(held.len());
        let mut look = |what: &str, which: usize, survives: &dyn Fn(usize, usize) -> bool| {
            openings += 1;
            let why = || format!("power cut at request {cut}, {what} {which} of {} writes", held.len());
            let files = on(&medium.after(&held, survives));
            for n in 0..OBJECTS {
                // What is damaged is a miss.
                let seen = found(&files, n);
                let version = seen.clone().ok().flatten();
                let (events, lasting) = (&history.events[n as usize], history.lasting[n as usize]);
                assert!(
                    history.allows(n, version, is_full),
                    "{}: object {n} is {seen:?} after {events:?}, of which {lasting} were to last",
                    why()
                );
                hits += u32::from(version.is_some());
            }
            files.create(b"later", 3, b"goes on").unwrap();
            assert_eq!(files.read(b"later", 3).unwrap().unwrap()[..], *b"goes on", "{}", why());
        };
        for subset in 0..1_usize << held.len().min(4) {
            look("surviving set", subset, &|n, _| n >= 4 || subset >> n & 1 == 1);
        }
        for torn in 0..held.len() {
            look("first half of", torn, &|n, block| n != torn || block < held[n].1.len() / 1024);
            look("second half of", torn, &|n, block| n != torn || block >= held[n].1.len() / 1024);
        }
    }
    println!("{requests} requests, {openings} openings, up to {most_held} writes under way");
    (requests, openings, most_held, hits)
}
