//! A flush of a group whose frames on the disk are all on their way.
//!
//! An hour of mixed load over a small cache ended with a stop that failed: "all frames of a group are on their way to the disk". Nothing had
//! gone wrong. A page was new and had no frame on the disk yet, and those of its group were old ones, or being written. What is asked for
//! waits for them now.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tinaja_clock::Clock;

use super::tests::{body, name};
use super::*;
use crate::device::wrap::{Fault, Faulty};
use crate::device::{Geometry, Kind as Asked, Medium, Memory, Op, Request};
use crate::engine::Buffered;
use crate::terms::Counters;

/// A disk that puts writes aside as long as it is told so.
struct Slow {
    disk: Arc<dyn Device>,
    holds: AtomicBool,
    held: Mutex<Vec<Op>>,
}

impl Slow {
    fn over(disk: Arc<dyn Device>) -> Arc<Slow> {
        Arc::new(Slow { disk, holds: AtomicBool::new(false), held: Mutex::default() })
    }

    fn goes_on(&self) {
        self.holds.store(false, Ordering::SeqCst);
        let held = std::mem::take(&mut *self.held.lock());
        held.into_iter().for_each(|op| self.disk.submit(op));
    }
}

impl Device for Slow {
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }

    fn clock(&self) -> &Clock {
        self.disk.clock()
    }

    fn submit(&self, op: Op) {
        if op.request.kind() == Asked::Write && self.holds.load(Ordering::SeqCst) {
            return self.held.lock().push(op);
        }
        self.disk.submit(op);
    }

    fn counters(&self) -> Counters {
        self.disk.counters()
    }

    fn stop(&self) {
        self.disk.stop();
    }
}

const OPTIONS: FileSystemOptions =
    FileSystemOptions { groups: 1, pool_bytes: 16 << 20, disk_bytes: 1 << 20, ..super::tests::SMALL };

fn half_of_the_frames(files: &FileSystem) -> u32 {
    files.engine.0.options.layout.ordinary.frames.div_ceil(2)
}

/// All pages of the first group are on their way to the disk from now on.
fn write_anew(files: &FileSystem, slow: &Slow) {
    slow.holds.store(true, Ordering::SeqCst);
    let pages: Vec<_> = files.engine.0.state.lock().residents[0].pages.keys().copied().collect();
    pages.into_iter().filter(|at| at.group == 0).for_each(|at| files.engine.0.mark_dirty(at));
    files.engine.write_out();
}

/// Closes, and the disk goes on once the first round has begun.
fn close(files: FileSystem, slow: &Slow) -> Result<(), FileSystemError> {
    let inner = files.engine.0.clone();
    let closing = std::thread::spawn(move || files.close());
    while inner.state.lock().round.is_none() {
        std::thread::yield_now();
    }
    slow.goes_on();
    closing.join().unwrap()
}

/// A group of which half of the pages last and are being written anew to the other half of the frames, and one more page, which has none.
fn with_a_page_without_a_frame(slow: &Arc<Slow>) -> (FileSystem, u32) {
    let files = super::tests::over(slow.clone(), &OPTIONS);
    let last = half_of_the_frames(&files);
    // One page each.
    (0..last).for_each(|n| files.create(&name(n), 1, &body(n, 12_000)).unwrap());
    flush(&files).wait().unwrap();
    write_anew(&files, slow);
    files.create(&name(last), 1, &body(last, 12_000)).unwrap();
    (files, last)
}

/// What a flush ended with, once it has.
type Told = Mutex<Option<Result<(), String>>>;

struct Flush(Arc<(Told, Condvar)>);

impl Flush {
    fn wait(self) -> Result<(), String> {
        let mut told = self.0.0.lock();
        while told.is_none() {
            self.0.1.wait(&mut told);
        }
        told.take().unwrap()
    }
}

fn flush(files: &FileSystem) -> Flush {
    let told = Arc::new((Mutex::new(None), Condvar::new()));
    let tell = told.clone();
    files.engine.sync(
        None,
        Box::new(move |result| {
            *tell.0.lock() = Some(result);
            tell.1.notify_one();
        }),
    );
    Flush(told)
}

fn slow() -> (Medium, Arc<Slow>) {
    let medium = Medium::zeroed(OPTIONS.disk_bytes as usize);
    let slow = Slow::over(Arc::new(Memory::over(&medium)));
    (medium, slow)
}

#[test]
fn a_page_without_a_frame_is_waited_for() {
    let (medium, slow) = slow();
    let (files, last) = with_a_page_without_a_frame(&slow);
    let all = (0..=last).filter(|n| files.lookup(&name(*n)).is_some()).count();
    assert_eq!(all, last as usize + 1, "nothing has left");
    let asked = flush(&files);
    assert!(asked.0.0.lock().is_none(), "it lasts once it is written");
    slow.goes_on();
    asked.wait().unwrap();
    // As if the process had been killed.
    drop(files);
    let again = super::tests::over(Arc::new(Memory::over(&medium)), &OPTIONS);
    assert_eq!(*again.read(&name(last), 1).unwrap().unwrap(), *body(last, 12_000), "it lasts");
    again.close().unwrap();
}

#[test]
fn so_is_one_that_is_there_when_the_cache_is_closed() {
    let (medium, slow) = slow();
    let (files, last) = with_a_page_without_a_frame(&slow);
    close(files, &slow).unwrap();
    let again = super::tests::over(Arc::new(Memory::over(&medium)), &OPTIONS);
    assert_eq!(*again.read(&name(last), 1).unwrap().unwrap(), *body(last, 12_000));
    again.close().unwrap();
}

const OF_TWO: FileSystemOptions = FileSystemOptions { groups: 2, disk_bytes: 2 << 20, ..OPTIONS };

/// Objects beside those that are numbered.
const STAYS: u32 = 900;
const MOVES: u32 = 901;
const OLD: u32 = 902;
const REMOVED: u32 = 903;
const NEW: u32 = 904;

/// What a power cut has left, at this request of a close whose first round leaves the first of two groups out.
struct Cut {
    medium: Medium,
    disk: Arc<Faulty>,
    /// Objects of one page each in the first group: all but the last lasted before, and the last has no frame yet.
    last: u32,
    /// Whether the close came to its end before that.
    is_closed: bool,
    /// Pages that left for the last one: where all frames hold two versions of each page, the one that was used longest ago.
    evicted: u64,
}

fn closed_until(cut: u64) -> Cut {
    let medium = Medium::zeroed(OF_TWO.disk_bytes as usize);
    let from = Arc::new(AtomicU64::new(u64::MAX));
    let is_off = from.clone();
    let plan = move |call, _: &Request| (call >= is_off.load(Ordering::SeqCst)).then_some(Fault::Error);
    let disk = Arc::new(Faulty::volatile(Arc::new(Memory::over(&medium)), plan));
    let slow = Slow::over(disk.clone());
    let files = super::tests::over(slow.clone(), &OF_TWO);
    let inner = files.engine.0.clone();
    let last = half_of_the_frames(&files);
    // Two on one page, so that it stays when one of them moves.
    [STAYS, MOVES].iter().for_each(|n| files.create(&name(*n), 1, &body(*n, 6_000)).unwrap());
    (1..last).for_each(|n| files.create(&name(n), 1, &body(n, 12_000)).unwrap());
    [OLD, REMOVED].iter().for_each(|n| files.create(&name(*n), 2, &body(*n, 6_000)).unwrap());
    flush(&files).wait().unwrap();
    write_anew(&files, &slow);
    files.create(&name(last), 1, &body(last, 12_000)).unwrap();
    files.create(&name(MOVES), 2, &body(MOVES, 7_000)).unwrap();
    files.create(&name(NEW), 2, &body(NEW, 6_000)).unwrap();
    assert!(files.remove(&name(REMOVED), 2).unwrap());
    from.store(disk.calls() + cut, Ordering::SeqCst);
    let is_closed = close(files, &slow).is_ok();
    let evicted = inner.counts.evicted_pages.load(Ordering::Relaxed);
    Cut { medium, disk, last, is_closed, evicted }
}

/// One group says that the cache was closed, and the other has not heard of it yet.
#[test]
fn the_power_goes_in_a_close_that_takes_two_rounds() {
    let again = FileSystemOptions { pool_bytes: 1 << 20, ..OF_TWO };
    let (mut openings, mut between) = (0, 0);
    for cut in 0.. {
        let Cut { medium, disk, last, is_closed, evicted } = closed_until(cut);
        assert!(evicted <= 1, "{evicted}");
        let held = disk.held_writes();
        let mut look = |survives: &dyn Fn(usize, usize) -> bool| {
            openings += 1;
            let files = super::tests::over(Arc::new(Memory::over(&medium.after(&held, survives))), &again);
            // How long what is found is; of each version another length.
            let found = |n: u32| {
                let object = files.lookup(&name(n)).and_then(|group| files.read(&name(n), group).unwrap())?;
                assert!(*object == *body(n, object.len()), "other bytes for {n}");
                Some(object.len())
            };
            let ended = if is_closed { "" } else { "not " };
            let why = format!("the power goes at request {cut} of a close that has {ended}ended");
            assert!((1..last).all(|n| found(n) == Some(12_000)), "{why}");
            assert_eq!(found(OLD), Some(6_000), "{why}");
            let stays = found(STAYS);
            assert!(stays == Some(6_000) || evicted > 0 && stays.is_none(), "{why}: {stays:?}");
            let [moved, removed, new, behind] = [MOVES, REMOVED, NEW, last].map(found);
            assert!(moved == Some(7_000) || !is_closed && moved == Some(6_000), "{why}: {moved:?}");
            assert!(removed.is_none() || !is_closed, "{why}: {removed:?}");
            assert!([new, behind] == [Some(6_000), Some(12_000)] || !is_closed, "{why}: {new:?} {behind:?}");
            between += u32::from(new.is_some() && behind.is_none());
            files.create(b"later", 2, b"goes on").unwrap();
            files.close().unwrap();
        };
        for subset in 0..1_usize << held.len().min(4) {
            look(&|n, _| n >= 4 || subset >> n & 1 == 1);
        }
        (0..held.len()).for_each(|torn| look(&|n, block| n != torn || block < held[n].1.len() / 1024));
        if is_closed && held.is_empty() {
            break;
        }
    }
    println!("{openings} openings, {between} of them between the rounds");
    assert!(openings > 50 && between > 5, "{openings} {between}");
}
