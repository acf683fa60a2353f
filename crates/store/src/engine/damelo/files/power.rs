//! The power goes at every request of a small store that is used by the paper's interface. Then every object that a checkpoint
//! of its group has heard of is found with its bytes, or a newer one of its name; nothing that was removed before such a
//! checkpoint comes back; and nobody gets another object's bytes.

use tinaja_clock::ManualClock;

use super::tests::{SMALL, blank, body, name, on};
use super::*;
use crate::device::wrap::{Fault, Faulty};
use crate::device::{Medium, Memory, Request};

const OBJECTS: u32 = 32;
const ROUNDS: u32 = 7;
const PERIOD: Duration = Duration::from_secs(10);

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
/// Where `is_full`, pages are evicted and journals begin anew as often as if the disk had no room for more.
fn script(files: &FileSystem, disk: &Faulty, cut: u64, hand: &ManualClock, is_full: bool) -> History {
    let (mut history, mut version) = (History::new(), 0);
    let is_on = || disk.calls() <= cut;
    for round in 0..ROUNDS {
        for n in (0..OBJECTS).filter(|n| (n + round) % 3 > 0) {
            version += 1;
            let group = 1 + if n % 4 == 0 { n + round } else { n } / 4 % 4;
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
            // Not the one that was asked for last: its pages are those that the disk has.
            inner.evict(&mut state, (round + 1) % 4, None);
            inner.evict(&mut state, (round + 3) % 4, None);
            state.groups.iter_mut().zip(0..).for_each(|(group, n)| group.journal.is_tainted |= (n + round) % 3 == 0);
        }
        files.love(1 + round % 4).unwrap();
        files.hate(1 + (round + 1) % 4).unwrap();
        // One group, or two at once.
        let due: Vec<u32> = (1..=4).filter(|group| group % 4 == round % 4 || (round % 3 == 2 && *group == 2)).collect();
        due.iter().for_each(|group| files.set_checkpoint(*group, PERIOD).unwrap());
        hand.advance(PERIOD);
        files.engine.work();
        while {
            let state = files.engine.0.state.lock();
            state.round.is_some() || state.asked.is_some()
        } {
            std::thread::yield_now();
        }
        due.iter().for_each(|group| files.set_checkpoint(*group, Duration::ZERO).unwrap());
        if !is_on() {
            return history;
        }
        due.into_iter().for_each(|group| history.checkpointed(group));
    }
    history
}

/// The store whose power goes at this request: what was done, what the disk's platter has, and what was on its way there.
fn cut_at(cut: u64, is_full: bool) -> (History, Medium, Arc<Faulty>) {
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
    cut_everywhere(false);
}

/// A group's journal had heard of a newer version, which left with its page, and an older one in another group came back: that
/// group's journal had not heard. So it was with what was removed, once the journal that said so was begun anew.
#[test]
fn whatever_a_power_cut_leaves_of_a_full_disk_nothing_older_comes_back() {
    cut_everywhere(true);
}

fn cut_everywhere(is_full: bool) {
    let requests = cut_at(u64::MAX, is_full).2.calls();
    let (mut openings, mut most_held, mut hits) = (0_u32, 0, 0_u32);
    for cut in 0..=requests {
        let (history, medium, disk) = cut_at(cut, is_full);
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
    assert!(requests > 60 && openings > 500 && most_held > 4 && hits > 5 * openings, "{requests} {openings} {hits}");
}
