//! A flush of a group whose frames on the disk are all on their way.
//!
//! An hour of mixed load over a small cache ended with a stop that failed: "all frames of a group are on their way to the disk". Nothing had
//! gone wrong. A page was new and had no frame on the disk yet, and those of its group were old ones, or being written. What is asked for
//! waits for them now.

use std::sync::atomic::{AtomicBool, Ordering};

use tinaja_clock::Clock;

use super::tests::{body, name};
use super::*;
use crate::device::{Geometry, Kind as Asked, Medium, Memory, Op};
use crate::engine::Buffered;
use crate::terms::Counters;

/// A disk that puts writes aside as long as it is told so.
struct Slow {
    disk: Memory,
    holds: AtomicBool,
    held: Mutex<Vec<Op>>,
}

impl Slow {
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

/// A group of which half of the pages last and are being written anew to the other half of the frames, and one more page, which has none.
fn with_a_page_without_a_frame(slow: &Arc<Slow>) -> (FileSystem, u32) {
    let files = super::tests::over(slow.clone(), &OPTIONS);
    let frames = files.engine.0.options.layout.ordinary.frames;
    // One page each.
    let last = frames / 2 + frames % 2;
    (0..last).for_each(|n| files.create(&name(n), 1, &body(n, 12_000)).unwrap());
    flush(&files).wait().unwrap();
    slow.holds.store(true, Ordering::SeqCst);
    let pages: Vec<_> = files.engine.0.state.lock().residents[0].pages.keys().copied().collect();
    pages.into_iter().for_each(|at| files.engine.0.mark_dirty(at));
    files.engine.write_out();
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
    let slow = Slow { disk: Memory::over(&medium), holds: AtomicBool::new(false), held: Mutex::default() };
    (medium, Arc::new(slow))
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
    let inner = files.engine.0.clone();
    let closing = std::thread::spawn(move || files.close());
    while inner.state.lock().round.is_none() {
        std::thread::yield_now();
    }
    drop(inner);
    slow.goes_on();
    closing.join().unwrap().unwrap();
    let again = super::tests::over(Arc::new(Memory::over(&medium)), &OPTIONS);
    assert_eq!(*again.read(&name(last), 1).unwrap().unwrap(), *body(last, 12_000));
    again.close().unwrap();
}
