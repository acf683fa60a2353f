//! The thread that cleans, and what it writes by itself.

use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::RwLock;
use tinaja_clock::Clock;

use crate::device::worker;
use crate::layout::{Log, Segments};
use crate::terms::WhyNot;
use crate::wait::block_on_by;

/// How often it is looked whether the engine is still there.
const TICK: Duration = Duration::from_millis(250);
/// How long to wait where nothing can be cleaned: every segment is open and something is free still, or the disk takes nothing.
const PAUSE: Duration = Duration::from_millis(10);
/// Free segments that are left to the cleaner, where it writes something by itself.
const RESERVE: usize = 1;

/// An engine whose segments are cleaned.
pub trait Cleans: Send + Sync + 'static {
    /// Its records.
    fn log(&self) -> &Log;

    /// Its segments.
    fn segments(&self) -> &Arc<Segments>;

    /// Read while a record is appended and entered; written where nothing else may be.
    fn publishing(&self) -> &RwLock<()>;

    /// What is due beside cleaning, some times a second and after each segment.
    fn look_round(&self) {}

    /// Clean a segment; false if none can be.
    fn clean_next(&self) -> bool;
}

/// Start the thread that cleans whenever few segments are free. It ends when the engine is closed or dropped. Errors: the
/// system has no more threads.
pub fn start<E: Cleans>(engine: &Arc<E>) -> std::io::Result<()> {
    let (weak, segments) = (Arc::downgrade(engine), engine.segments().clone());
    worker::spawn("tinaja-cleaner", &engine.log().device, move |clock| work(clock, &weak, &segments))
}

fn work<E: Cleans>(clock: &Clock, engine: &Weak<E>, segments: &Segments) {
    loop {
        let is_due = segments.wait_for_work(TICK);
        let is_open = |engine: &Arc<E>| !engine.log().frontier.is_closed();
        let Some(engine) = engine.upgrade().filter(is_open) else { return };
        engine.look_round();
        if is_due && !clean(&*engine) {
            drop(engine);
            clock.sleep(PAUSE);
        }
    }
}

/// Clean until enough is free; false if there was nothing to clean. It is looked round between two segments: where whoever stores takes each
/// as soon as it is free, enough never is.
fn clean(engine: &impl Cleans) -> bool {
    clean_some(engine, usize::MAX, || engine.look_round())
}

/// Clean so many segments at the most, until enough are free.
pub fn clean_before(engine: &impl Cleans, most: usize) {
    clean_some(engine, most, || {});
}

fn clean_some(engine: &impl Cleans, most: usize, between: impl Fn()) -> bool {
    let is_over = || engine.segments().is_enough() || engine.log().frontier.is_closed();
    let mut cleaned = 0;
    while cleaned < most && !is_over() && engine.clean_next() {
        cleaned += 1;
        between();
    }
    cleaned > 0
}

/// Leave a free segment to the cleaner, which then need not wait for itself to write something.
pub fn reserve(segments: &Segments) {
    segments.reserve(RESERVE);
}

/// Append something that the cleaner writes by itself, alone with the index, if it `is_needed` still; false if there is no room
/// for it, or the disk fails. What was appended is handed to `enter`.
pub fn write<T>(
    engine: &impl Cleans,
    is_needed: impl Fn() -> bool,
    append: impl Fn(&mut Context<'_>) -> Poll<Result<T, WhyNot>>,
    enter: impl Fn(T),
) -> bool {
    let segments = engine.segments();
    block_on_by(
        engine.log().device.clock(),
        poll_fn(|cx| {
            let _alone = engine.publishing().write();
            if !is_needed() {
                return Poll::Ready(true);
            }
            segments.reserve(0);
            let appended = append(cx);
            reserve(segments);
            match appended {
                Poll::Ready(Ok(appended)) => {
                    enter(appended);
                    Poll::Ready(true)
                }
                Poll::Ready(Err(_)) => Poll::Ready(false),
                // This thread alone frees segments, so it does not wait for one.
                Poll::Pending if segments.free() == 0 => Poll::Ready(false),
                Poll::Pending => Poll::Pending,
            }
        }),
    )
}
