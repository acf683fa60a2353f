//! The positions that memory has no room for: a small contiguous file (section 3.4), on the log's disk or on one of its own
//! (5.4).
//!
//! It is part of the index and no more lasting: opening reads the log and writes the file anew, so that nothing in it need
//! survive a crash. So a position may take its time: memory keeps a few that are to go out ([`OffsetLayout::most_waiting`]).
//! When these are many, those of the stripe that most of them belong to go out together: it is read, changed and written, two
//! requests for some 200 positions, where one by one each would cost two.
//!
//! A disk that fails at it is given up: the objects whose positions only it has are forgotten then, and so is each whose
//! position memory has no room for any more. All else goes on.

mod layout;
mod to_go;
mod writes;

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use super::set::{At, WAYS};
use crate::device::{Counters, Device, Op, Outcome, Request};
use crate::layout::changed::Changed;
use crate::layout::limits::MAX_WRITE_FAILURES;
use crate::memory::AlignedBuf;
use crate::memory::aligned::ALIGN;
use crate::terms::Stats;
use crate::terms::limits::WRITE_PATIENCE;
pub use layout::OffsetLayout;
use to_go::ToGo;

/// The file. Memory: the positions that wait to go out, and a stripe while it is written.
pub struct Offsets {
    /// None where memory has room for all positions.
    device: Option<Arc<dyn Device>>,
    layout: OffsetLayout,
    state: Mutex<OffsetsState>,
    /// Told when no stripe is on its way any more.
    idle: Condvar,
    /// See [`Offsets::is_lost`].
    lost: AtomicBool,
    read_errors: AtomicU64,
    write_errors: AtomicU64,
    /// Frees a slot.
    free: OnceLock<Box<dyn Fn(u64, usize) + Send + Sync>>,
}

/// What changes of it.
struct OffsetsState {
    moment: u64,
    changed: Changed,
    to_go: ToGo,
    /// Since when a stripe is on its way.
    writing_since: Option<Instant>,
    waiting: Vec<Waker>,
    closed: bool,
    /// Requests that have failed in a row.
    failures: u32,
}

/// Called with the positions of a set as the disk has them; `None` if it cannot be read.
pub type PositionsDone = Box<dyn FnOnce(Option<[At; WAYS]>) + Send>;

impl Offsets {
    /// Whether the disk has taken nothing for so long that nobody should wait for it.
    fn is_stalled(&self, state: &OffsetsState) -> bool {
        let is_long = |(device, since): (&Arc<dyn Device>, _)| device.clock().since(since) >= WRITE_PATIENCE;
        self.device.as_ref().zip(state.writing_since).is_some_and(is_long)
    }

    /// The file on a device, not looked at; without one, memory has to have room for all positions.
    pub fn on(device: Option<Arc<dyn Device>>, layout: OffsetLayout) -> Arc<Self> {
        let state = OffsetsState {
            moment: 1,
            changed: Changed::default(),
            to_go: ToGo::new(layout),
            writing_since: None,
            waiting: Vec::new(),
            closed: false,
            failures: 0,
        };
        Arc::new(Offsets {
            device,
            layout,
            state: Mutex::new(state),
            idle: Condvar::new(),
            lost: AtomicBool::new(false),
            read_errors: AtomicU64::new(0),
            write_errors: AtomicU64::new(0),
            free: OnceLock::new(),
        })
    }

    fn is_full(&self, state: &OffsetsState) -> bool {
        state.to_go.len() >= self.layout.most_waiting()
    }

    /// Whether another position may be put here, or is not waited for since the disk takes none or the file is closed. Pending: the waker is
    /// called when that is so.
    pub fn poll_room(self: &Arc<Self>, waker: &Waker) -> Poll<()> {
        self.write_if_due();
        let mut state = self.state.lock();
        if !self.is_full(&state) || self.is_lost() || self.is_stalled(&state) || state.closed {
            return Poll::Ready(());
        }
        if !state.waiting.iter().any(|other| other.will_wake(waker)) {
            state.waiting.push(waker.clone());
        }
        Poll::Pending
    }

    /// Whether another position may be put here now, for a purpose that can be left alone.
    pub fn has_room(&self) -> bool {
        !self.is_full(&self.state.lock())
    }

    /// Whether the file was given up until a restart, since [`MAX_WRITE_FAILURES`] requests in a row have failed: nothing is
    /// known then of a slot whose position is in it, and it takes no more.
    pub fn is_lost(&self) -> bool {
        self.lost.load(Relaxed)
    }

    /// A request to the device ended, well or not.
    fn judge(&self, well: bool) {
        let mut state = self.state.lock();
        state.failures = if well { 0 } else { state.failures + 1 };
        if state.failures >= MAX_WRITE_FAILURES && !self.lost.swap(true, Relaxed) {
            tracing::error!(
                "{MAX_WRITE_FAILURES} requests in a row to the file of positions have failed: it is given up until a \
                 restart. Objects whose position memory has no room for are forgotten, all others are found and stored \
                 as before"
            );
        }
    }

    /// A set changes. Called with its shard locked.
    pub fn note(&self, set: u64) {
        let mut state = self.state.lock();
        state.moment += 1;
        let moment = state.moment;
        state.changed.note(set, moment);
    }

    /// The moment before the next change.
    pub fn moment(&self) -> u64 {
        self.state.lock().moment + 1
    }

    /// Whether a set has changed since a moment, or may have.
    pub fn changed_since(&self, set: u64, moment: u64) -> bool {
        self.state.lock().changed.since(set, moment)
    }

    /// Keep a position. Called with the set's shard locked. False: it cannot be kept, and its slot is to be freed, or the
    /// disk's older position would be taken for its own.
    #[must_use]
    pub fn put(&self, set: u64, way: usize, at: At) -> bool {
        let mut state = self.state.lock();
        if self.device.is_none() || self.is_lost() || (self.is_full(&state) && self.is_stalled(&state)) {
            return false;
        }
        state.to_go.put(set, way, at);
        true
    }

    /// A position that is not on the disk yet.
    pub fn unwritten(&self, set: u64, way: usize) -> Option<At> {
        self.state.lock().to_go.get(set, way)
    }

    /// Read the positions of a set as the disk has them, in one request.
    pub fn read(self: &Arc<Self>, set: u64, done: PositionsDone) {
        let Some(device) = self.device.as_ref().filter(|_| !self.is_lost()) else { return done(None) };
        let (offsets, at) = (self.clone(), self.layout.block_at(set));
        let finish = move |outcome: Outcome| match (outcome.result, outcome.buffer) {
            (Ok(()), Some(block)) => {
                offsets.judge(true);
                done(Some(offsets.layout.all(&block, set)));
            }
            (result, _) => {
                tracing::warn!("positions of objects cannot be read: {:?}", result.err());
                offsets.read_errors.fetch_add(1, Relaxed);
                offsets.judge(false);
                done(None);
            }
        };
        let into = AlignedBuf::zeroed(ALIGN);
        device.submit(Op { request: Request::Read { at, into }, done: Box::new(finish) });
    }

    /// Bytes of memory allocated now, but for a stripe while it is written.
    pub fn memory_bytes(&self) -> u64 {
        self.state.lock().to_go.memory_bytes()
    }

    /// What the file and, if it is one of its own, its device did and failed at.
    pub fn stats(&self) -> Stats {
        let device = self.device.as_ref().filter(|_| self.layout.is_apart);
        let counters = device.map_or(Counters::default(), |device| device.counters());
        Stats {
            read_errors: self.read_errors.load(Relaxed),
            write_errors: self.write_errors.load(Relaxed),
            disks_retired: u64::from(device.is_some() && self.is_lost()),
            ..Stats::of_device(counters)
        }
    }

    /// The device, if it is one of its own: to be released when the log's is.
    pub fn device_apart(&self) -> Option<Arc<dyn Device>> {
        self.device.clone().filter(|_| self.layout.is_apart)
    }

    /// Send no more; what is on its way goes on.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let waiting = mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Wait for what was on its way when [`Offsets::close`] was called: another process may open the cache then, and write a
    /// file of its own.
    pub fn ended(&self) {
        let mut state = self.state.lock();
        while state.writing_since.is_some() {
            self.idle.wait(&mut state);
        }
    }
}
