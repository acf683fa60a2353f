//! The positions that memory has no room for: a small contiguous file on the same disk, 32 bytes a set (section 3.4), or 40
//! with reaches (3.5).
//!
//! It is part of the index and no more lasting: opening reads the log and writes the file anew, so that nothing in it need
//! survive a crash. A position on its way to the disk is kept in memory until it is there; the writes of a tenth of a
//! second go out together, one request for each block of 128 sets, or 102.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Weak};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::lru_set::{At, POSITION_BYTES, WAYS};
use crate::device::{Device, Op, Outcome, Request, blocking, worker};
use crate::layout::changed::Changed;
use crate::layout::reach::Reach;
use crate::layout::take::take_u32;
use crate::limits::{MAX_POSITIONS_WAITING, WRITE_PATIENCE};
use crate::memory::AlignedBuf;
use crate::memory::aligned::ALIGN;
use crate::writer::WhyNot;

/// How often positions go out.
const TICK: Duration = Duration::from_millis(100);

/// Where the file lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetLayout {
    /// Where on the device it begins.
    pub base: u64,
    /// Sets of the index.
    pub sets: u64,
    /// Whether a byte of reach goes with each position.
    pub has_reaches: bool,
}

impl OffsetLayout {
    /// Its bytes on disk.
    pub fn bytes(&self) -> u64 {
        self.sets.div_ceil(self.sets_in_block()) * ALIGN as u64
    }

    fn entry_bytes(&self) -> usize {
        POSITION_BYTES + usize::from(self.has_reaches)
    }

    fn sets_in_block(&self) -> u64 {
        (ALIGN / (WAYS * self.entry_bytes())) as u64
    }

    fn block_at(&self, set: u64) -> u64 {
        self.base + set / self.sets_in_block() * ALIGN as u64
    }

    fn at_in_block(&self, set: u64, way: usize) -> usize {
        ((set % self.sets_in_block()) as usize * WAYS + way) * self.entry_bytes()
    }

    fn put(&self, block: &mut [u8], set: u64, way: usize, at: At) {
        let [a, b, c, d] = at.position.to_le_bytes();
        let entry = [a, b, c, d, at.reach.0];
        let room = block.get_mut(self.at_in_block(set, way)..).unwrap_or_default();
        room.iter_mut().zip(entry).take(self.entry_bytes()).for_each(|(to, from)| *to = from);
    }

    fn all(&self, block: &[u8], set: u64) -> [At; WAYS] {
        let mut all = [At::default(); WAYS];
        for (way, to) in all.iter_mut().enumerate() {
            let mut entry = block.get(self.at_in_block(set, way)..).unwrap_or_default();
            let position = take_u32(&mut entry).unwrap_or(0);
            let reach = if self.has_reaches { Reach::taken(&mut entry) } else { None };
            *to = At { position, reach: reach.unwrap_or_default() };
        }
        all
    }
}

/// The file. Memory: [`MAX_POSITIONS_WAITING`] positions on their way.
pub struct Offsets {
    device: Arc<dyn Device>,
    layout: OffsetLayout,
    state: Mutex<State>,
    /// Held while a block is on its way out.
    writing: Mutex<()>,
}

#[derive(Default)]
struct State {
    moment: u64,
    changed: Changed,
    waiting_to_go: HashMap<(u64, usize), (At, u64)>,
    since: Option<Instant>,
    waiting: Vec<Waker>,
    closed: bool,
}

/// Called with the positions of a set as the disk has them; `None` if it cannot be read.
pub type PositionsDone = Box<dyn FnOnce(Option<[At; WAYS]>) + Send>;

impl Offsets {
    /// The file on a device, not looked at.
    pub fn on(device: Arc<dyn Device>, layout: OffsetLayout) -> Arc<Self> {
        let state = Mutex::new(State { moment: 1, ..State::default() });
        Arc::new(Offsets { device, layout, state, writing: Mutex::new(()) })
    }

    /// Whether another position may be put here. Pending: the waker is called when there is room.
    pub fn poll_room(&self, waker: &Waker) -> Poll<Result<(), WhyNot>> {
        let mut state = self.state.lock();
        if state.waiting_to_go.len() < MAX_POSITIONS_WAITING {
            return Poll::Ready(Ok(()));
        }
        if state.since.is_some_and(|since| since.elapsed() >= WRITE_PATIENCE) {
            return Poll::Ready(Err(WhyNot::Slow));
        }
        if !state.waiting.iter().any(|other| other.will_wake(waker)) {
            state.waiting.push(waker.clone());
        }
        Poll::Pending
    }

    /// Whether another position may be put here now, for a purpose that can be left alone.
    pub fn has_room(&self) -> bool {
        self.state.lock().waiting_to_go.len() < MAX_POSITIONS_WAITING
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

    /// Keep a position. Called with the set's shard locked.
    pub fn put(&self, set: u64, way: usize, at: At) {
        let mut state = self.state.lock();
        let moment = state.moment;
        state.waiting_to_go.insert((set, way), (at, moment));
        state.since.get_or_insert_with(Instant::now);
    }

    /// A position that is not on the disk yet.
    pub fn unwritten(&self, set: u64, way: usize) -> Option<At> {
        self.state.lock().waiting_to_go.get(&(set, way)).map(|(at, _)| *at)
    }

    /// Read the positions of a set as the disk has them, in one request.
    pub fn read(&self, set: u64, done: PositionsDone) {
        let (layout, at) = (self.layout, self.layout.block_at(set));
        let finish = move |outcome: Outcome| match (outcome.result, outcome.buffer) {
            (Ok(()), Some(block)) => done(Some(layout.all(&block, set))),
            (result, _) => {
                tracing::warn!("positions of objects cannot be read: {:?}", result.err());
                done(None);
            }
        };
        let into = AlignedBuf::zeroed(ALIGN);
        self.device.submit(Op { request: Request::Read { at, into }, done: Box::new(finish) });
    }

    /// Write the file of sets in order, from the first on: all of a block's sets, and then the next block's. Errors: the
    /// device's.
    pub fn write_anew(&self, sets: &mut dyn Iterator<Item = (u64, [At; WAYS])>) -> std::io::Result<()> {
        let mut block: Option<(u64, AlignedBuf)> = None;
        let write = |(at, bytes): (u64, AlignedBuf)| blocking::write(&*self.device, at, bytes);
        for (set, all) in sets {
            let at = self.layout.block_at(set);
            if block.as_ref().is_some_and(|(before, _)| *before != at) {
                block.take().map_or(Ok(()), write)?;
            }
            let (_, bytes) = block.get_or_insert_with(|| (at, AlignedBuf::zeroed(ALIGN)));
            all.iter().enumerate().for_each(|(way, at)| self.layout.put(bytes, set, way, *at));
        }
        block.take().map_or(Ok(()), write)
    }

    /// Send what waits to the disk, block by block, and wait for it. Returns the slots whose position could not be written:
    /// they are forgotten here, and must be freed first by `free`, or the disk's older position would be taken for theirs.
    fn write_out(&self, free: &dyn Fn(u64, usize)) {
        let going: Vec<_> = {
            let state = self.state.lock();
            let mut going: Vec<_> = state.waiting_to_go.iter().map(|(slot, what)| (*slot, *what)).collect();
            going.sort_unstable();
            going
        };
        for block in going.chunk_by(|((a, _), _), ((b, _), _)| self.layout.block_at(*a) == self.layout.block_at(*b)) {
            let Some(((first, _), _)) = block.first() else { continue };
            let _writing = self.writing.lock();
            if self.state.lock().closed {
                return;
            }
            let at = self.layout.block_at(*first);
            let written = blocking::read(&*self.device, at, ALIGN).and_then(|mut bytes| {
                block.iter().for_each(|((set, way), (at, _))| self.layout.put(&mut bytes, *set, *way, *at));
                blocking::write(&*self.device, at, bytes)
            });
            if let Err(error) = written {
                tracing::error!(
                    "positions of {} objects could not be written, which are forgotten: {error}",
                    block.len()
                );
                block.iter().for_each(|((set, way), _)| free(*set, *way));
            }
            let mut state = self.state.lock();
            for (slot, what) in block {
                if state.waiting_to_go.get(slot) == Some(what) {
                    state.waiting_to_go.remove(slot);
                }
            }
            state.since = (!state.waiting_to_go.is_empty()).then(Instant::now);
            let waiting = mem::take(&mut state.waiting);
            drop(state);
            waiting.into_iter().for_each(Waker::wake);
        }
    }

    /// Send no more; what is on its way goes on.
    pub fn close(&self) {
        self.state.lock().closed = true;
    }

    /// Wait for what was on its way when [`Offsets::close`] was called: another process may open the cache then, and write a
    /// file of its own.
    pub fn ended(&self) {
        drop(self.writing.lock());
    }

    /// Start the thread that sends positions out; `free` frees a slot. It ends when the file is closed or dropped. Errors:
    /// the system has no more threads.
    pub fn start(self: &Arc<Self>, free: impl Fn(u64, usize) + Send + 'static) -> std::io::Result<()> {
        let weak = Arc::downgrade(self);
        worker::spawn("tinaja-offsets", &self.device, move || work(&weak, &free))
    }
}

fn work(offsets: &Weak<Offsets>, free: &dyn Fn(u64, usize)) {
    while let Some(offsets) = offsets.upgrade() {
        if offsets.state.lock().closed {
            return;
        }
        offsets.write_out(free);
        let stalled: Vec<_> = {
            let mut state = offsets.state.lock();
            let stalled = state.since.is_some_and(|since| since.elapsed() >= WRITE_PATIENCE);
            if stalled { mem::take(&mut state.waiting) } else { Vec::new() }
        };
        stalled.into_iter().for_each(Waker::wake);
        drop(offsets);
        std::thread::sleep(TICK);
    }
}
