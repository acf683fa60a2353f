//! The end of a circular log, where records are appended: batches, laps, summaries, poisoned regions.
//!
//! Records gather in a batch; full or old batches go to the disk in one large write each, and until they are there
//! their records are served from memory. A batch never crosses a region; a region ends with its summary.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};

use super::record::{self, Stamp};
use super::region::{self, LogLayout, SummaryEntry};
use crate::device::{Device, Op, Request};
use crate::engine::{Kind, Place, Record, SyncDone};
use crate::limits::{MAX_BATCHES_IN_FLIGHT, MAX_WRITE_FAILURES, WRITE_BEHIND};
use crate::memory::AlignedBuf;
use crate::memory::aligned::round_up;
use crate::writer::WhyNot;

/// The appending end of a log. Memory: up to [`MAX_BATCHES_IN_FLIGHT`] + 2 batches.
pub struct Frontier {
    device: Arc<dyn Device>,
    layout: LogLayout,
    stamp: Stamp,
    /// Marks what this process writes.
    opening: u32,
    state: Mutex<State>,
    /// The first place not yet given to a record.
    next: AtomicU64,
    /// The end of the region being written: what lies a whole log before it is void.
    limit: AtomicU64,
    /// For each region, one more than the place of its lap that is poisoned.
    poisoned: Box<[AtomicU64]>,
    write_errors: AtomicU64,
    stop: Condvar,
}

struct State {
    region: Place,
    batch_at: Place,
    /// Empty until the first record comes.
    batch: AlignedBuf,
    /// Buffers of batches that are on disk, to be filled again.
    spare: Vec<AlignedBuf>,
    batch_len: usize,
    batch_since: Option<Instant>,
    flying: Vec<Flying>,
    summary: Vec<SummaryEntry>,
    waiting: Vec<Waker>,
    syncs: Vec<Sync>,
    /// One sync at a time: the kernel tells of a lost page once, and that must reach all who wait.
    syncing: bool,
    /// The first region written to since the last sync that succeeded.
    unsynced: Place,
    /// What failed since then, told to the next sync.
    failed: Option<String>,
    failures: u32,
    closed: bool,
}

/// A write on its way to the disk.
struct Flying {
    at: Place,
    len: usize,
    buffer: Arc<AlignedBuf>,
}

struct Sync {
    up_to: Place,
    /// Who asked; nobody did if it was the clock, and then a failure is kept for the next who asks.
    done: Option<SyncDone>,
}

impl Frontier {
    /// A frontier that begins a fresh region at `start`. Starts the thread that writes old batches out, and syncs as
    /// often as asked. Errors: the system has no more threads.
    pub fn start(
        device: Arc<dyn Device>,
        layout: LogLayout,
        stamp: Stamp,
        start: Place,
        flush_every: Option<Duration>,
    ) -> std::io::Result<Arc<Self>> {
        let state = State {
            region: start,
            batch_at: start,
            batch: AlignedBuf::zeroed(0),
            spare: Vec::new(),
            batch_len: 0,
            batch_since: None,
            flying: Vec::new(),
            summary: Vec::new(),
            waiting: Vec::new(),
            syncs: Vec::new(),
            syncing: false,
            unsynced: start,
            failed: None,
            failures: 0,
            closed: false,
        };
        let frontier = Arc::new(Frontier {
            device,
            layout,
            stamp,
            opening: RandomState::new().build_hasher().finish() as u32,
            state: Mutex::new(state),
            next: AtomicU64::new(start.0),
            limit: AtomicU64::new(start.0 + layout.region_bytes),
            poisoned: (0..layout.regions).map(|_| AtomicU64::new(0)).collect(),
            write_errors: AtomicU64::new(0),
            stop: Condvar::new(),
        });
        let weak = Arc::downgrade(&frontier);
        std::thread::Builder::new().name("tinaja-behind".into()).spawn(move || write_behind(&weak, flush_every))?;
        Ok(frontier)
    }

    /// Whether the record written at this place is still there: not overwritten, not about to be, not poisoned.
    pub fn is_live(&self, place: Place) -> bool {
        self.is_reachable(place) && !self.is_poisoned(self.layout.region_of(place))
    }

    /// Whether a place lies in the lap that is being written or before it in the one before, poisoned or not.
    pub fn is_reachable(&self, place: Place) -> bool {
        place.0 < self.next.load(Ordering::Acquire)
            && place.0 + self.layout.log_bytes() >= self.limit.load(Ordering::Acquire)
    }

    /// The first place not yet given to a record.
    pub fn next(&self) -> Place {
        Place(self.next.load(Ordering::Acquire))
    }

    /// Writes that the device failed.
    pub fn write_errors(&self) -> u64 {
        self.write_errors.load(Ordering::Relaxed)
    }

    /// Append a record: a copy into the batch, no I/O. See [`crate::engine::Engine::poll_append`].
    pub fn poll_append(self: &Arc<Self>, cx: &mut Context<'_>, record: &Record<'_>) -> Poll<Result<Place, WhyNot>> {
        let fits = record::record_bytes(record).filter(|&bytes| bytes <= self.layout.max_record_bytes());
        let Some(bytes) = fits else {
            return Poll::Ready(Err(WhyNot::TooLarge));
        };
        let sum = self.stamp.payload_sum(record);
        let mut ops = Vec::new();
        let mut state = self.state.lock();
        let outcome = self.append(&mut state, &mut ops, record, bytes, sum);
        if outcome.is_pending() && !state.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            state.waiting.push(cx.waker().clone());
        }
        drop(state);
        self.submit(ops);
        outcome
    }

    fn append(
        self: &Arc<Self>,
        state: &mut State,
        ops: &mut Vec<Op>,
        record: &Record<'_>,
        bytes: usize,
        sum: u64,
    ) -> Poll<Result<Place, WhyNot>> {
        loop {
            if state.closed {
                return Poll::Ready(Err(WhyNot::Closed));
            }
            if state.failures >= MAX_WRITE_FAILURES {
                return Poll::Ready(Err(WhyNot::Device));
            }
            let offset = round_up(state.batch_len as u64, self.layout.unit) as usize;
            let place = Place(state.batch_at.0 + offset as u64);
            let end = place.0 + bytes as u64 - state.region.0;
            let summary = self.layout.summary_bytes(state.summary.len() + 1);
            if round_up(end, self.layout.align) + summary > self.layout.region_bytes || self.is_poisoned(state.region) {
                if !self.end_region(state, ops) {
                    return Poll::Pending;
                }
            } else if offset + bytes > self.layout.max_record_bytes() {
                if !self.seal(state, ops) {
                    return Poll::Pending;
                }
            } else {
                if state.batch.is_empty() {
                    let spare = state.spare.pop();
                    state.batch = spare.unwrap_or_else(|| AlignedBuf::zeroed(self.layout.batch_bytes()));
                }
                let gap = state.batch_len..offset;
                state.batch.get_mut(gap).unwrap_or_default().fill(0);
                let room = state.batch.get_mut(offset..offset + bytes).unwrap_or_default();
                self.stamp.write(record, place, self.opening, sum, room);
                state.batch_len = offset + bytes;
                state.batch_since.get_or_insert_with(Instant::now);
                if record.kind != Kind::Extent {
                    state.summary.push(SummaryEntry { id_low: record.id.low(), place, kind: record.kind });
                }
                self.next.store(place.0 + bytes as u64, Ordering::Release);
                return Poll::Ready(Ok(place));
            }
        }
    }

    /// Send the batch to the disk; false if too many are on their way.
    fn seal(self: &Arc<Self>, state: &mut State, ops: &mut Vec<Op>) -> bool {
        if state.batch_len == 0 {
            return true;
        }
        if state.flying.len() >= MAX_BATCHES_IN_FLIGHT {
            return false;
        }
        self.seal_now(state, ops);
        true
    }

    fn seal_now(self: &Arc<Self>, state: &mut State, ops: &mut Vec<Op>) {
        if state.batch_len == 0 {
            return;
        }
        let len = round_up(state.batch_len as u64, self.layout.align) as usize;
        let padding = state.batch_len..len;
        state.batch.get_mut(padding).unwrap_or_default().fill(0);
        let full = mem::replace(&mut state.batch, AlignedBuf::zeroed(0));
        self.fly(state, ops, state.batch_at, len, full);
        state.batch_at = Place(state.batch_at.0 + len as u64);
        state.batch_len = 0;
        state.batch_since = None;
        self.next.store(state.batch_at.0, Ordering::Release);
    }

    fn fly(self: &Arc<Self>, state: &mut State, ops: &mut Vec<Op>, at: Place, len: usize, buffer: AlignedBuf) {
        let from = Arc::new(buffer);
        state.flying.push(Flying { at, len, buffer: from.clone() });
        let frontier = self.clone();
        let done = Box::new(move |outcome: crate::device::Outcome| frontier.written(at, outcome.result));
        let request = Request::Write { at: self.layout.device_offset(at), from, part: 0..len };
        ops.push(Op { request, done });
    }

    /// Close the region with its summary and begin the next; false if too many writes are on their way.
    fn end_region(self: &Arc<Self>, state: &mut State, ops: &mut Vec<Op>) -> bool {
        if self.is_poisoned(state.region) {
            // Nothing of it is trusted, so nothing more of it is written and no summary vouches for it.
            state.batch_len = 0;
            state.batch_since = None;
        } else if !self.seal(state, ops) || state.flying.len() >= MAX_BATCHES_IN_FLIGHT {
            return false;
        } else {
            let used = state.batch_at.0 - state.region.0;
            let summary = region::encode(&self.layout, self.stamp, state.region, used, &state.summary);
            let at = Place(state.region.0 + self.layout.region_bytes - summary.len() as u64);
            let len = summary.len();
            self.fly(state, ops, at, len, summary);
        }
        state.summary.clear();
        state.region = Place(state.region.0 + self.layout.region_bytes);
        state.batch_at = state.region;
        self.next.store(state.region.0, Ordering::Release);
        self.limit.store(state.region.0 + self.layout.region_bytes, Ordering::Release);
        true
    }

    /// The bytes of a record that is not on disk yet, copied; `None` if it is, or never was.
    pub fn peek(&self, place: Place) -> Option<Bytes> {
        let state = self.state.lock();
        let copy = |buffer: &AlignedBuf, at: Place, len: usize| {
            let offset = usize::try_from(place.0.checked_sub(at.0)?).ok()?;
            let bytes = buffer.get(offset..len)?;
            let header = self.stamp.header(bytes, place)?;
            Some(Bytes::copy_from_slice(bytes.get(..header.record_bytes())?))
        };
        let within = |at: Place, len: usize| place >= at && place.0 < at.0 + len as u64;
        if within(state.batch_at, state.batch_len) {
            return copy(&state.batch, state.batch_at, state.batch_len);
        }
        let flying = state.flying.iter().find(|flying| within(flying.at, flying.len))?;
        copy(&flying.buffer, flying.at, flying.len)
    }

    /// Whether the region that begins at this place was given up.
    pub fn is_poisoned(&self, region: Place) -> bool {
        let mark = self.poisoned.get(self.layout.region_number(region));
        mark.is_some_and(|mark| mark.load(Ordering::Acquire) == region.0 + 1)
    }

    fn poison(&self, region: Place) {
        if let Some(mark) = self.poisoned.get(self.layout.region_number(region)) {
            mark.store(region.0 + 1, Ordering::Release);
        }
    }

    /// A write ended: its records are on disk from now on, or its region is poisoned.
    fn written(self: &Arc<Self>, at: Place, result: std::io::Result<()>) {
        let mut state = self.state.lock();
        if let Some(landed) = state.flying.iter().position(|flying| flying.at == at) {
            // Buffers of summaries are smaller, and of no further use.
            let buffer = Arc::into_inner(state.flying.swap_remove(landed).buffer);
            let keeps = state.spare.len() < MAX_BATCHES_IN_FLIGHT;
            state.spare.extend(buffer.filter(|buffer| keeps && buffer.len() == self.layout.batch_bytes()));
        }
        match result {
            Ok(()) => state.failures = 0,
            Err(error) => {
                self.write_errors.fetch_add(1, Ordering::Relaxed);
                self.poison(self.layout.region_of(at));
                state.failures += 1;
                tracing::error!("a region of the cache is given up: {error}");
                state.failed = Some(error.to_string());
            }
        }
        let mut ops = Vec::new();
        if state.syncs.iter().any(|sync| sync.up_to > state.batch_at) {
            self.seal(&mut state, &mut ops);
        }
        let waiting = mem::take(&mut state.waiting);
        ops.extend(self.due_syncs(&mut state));
        drop(state);
        self.submit(ops);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// See [`crate::engine::Engine::sync`].
    pub fn sync(self: &Arc<Self>, done: SyncDone) {
        self.begin_sync(Some(done));
    }

    fn begin_sync(self: &Arc<Self>, done: Option<SyncDone>) {
        let mut ops = Vec::new();
        let mut state = self.state.lock();
        // If too many are on their way already, the batch follows when one of them has ended.
        self.seal(&mut state, &mut ops);
        let up_to = Place(state.batch_at.0 + state.batch_len as u64);
        if state.unsynced == up_to && state.flying.is_empty() && state.failed.is_none() {
            // Nothing is new since the last sync. A disk that was given up must not fail those that go on.
            drop(state);
            return done.into_iter().for_each(|done| done(Ok(())));
        }
        state.syncs.push(Sync { up_to, done });
        ops.extend(self.due_syncs(&mut state));
        drop(state);
        self.submit(ops);
    }

    /// One sync for all those whose writes have ended.
    fn due_syncs(self: &Arc<Self>, state: &mut State) -> Option<Op> {
        if state.syncing {
            return None;
        }
        let first = state.flying.iter().map(|flying| flying.at).min();
        let sealed = if state.batch_len == 0 { None } else { Some(state.batch_at) };
        let ended = |sync: &Sync| first.is_none_or(|at| sync.up_to <= at) && sealed.is_none_or(|at| sync.up_to <= at);
        let (due, rest): (Vec<_>, _) = mem::take(&mut state.syncs).into_iter().partition(ended);
        state.syncs = rest;
        let up_to = due.iter().map(|sync| sync.up_to).max()?;
        state.syncing = true;
        let frontier = self.clone();
        let done = Box::new(move |outcome: crate::device::Outcome| {
            frontier.synced(up_to, outcome.result.map_err(|error| error.to_string()), due);
        });
        Some(Op { request: Request::Sync, done })
    }

    /// A sync that failed leaves nothing written since the last good one to be trusted: the kernel may have dropped
    /// the pages and will say so only once.
    fn synced(self: &Arc<Self>, up_to: Place, result: Result<(), String>, due: Vec<Sync>) {
        let mut state = self.state.lock();
        state.syncing = false;
        if let Err(error) = result {
            let mut region = self.layout.region_of(state.unsynced);
            let written = up_to.max(state.batch_at);
            while region < written {
                self.poison(region);
                region = Place(region.0 + self.layout.region_bytes);
            }
            state.failures += 1;
            tracing::error!("what was written since the last sync is given up: {error}");
            state.failed = Some(error);
        }
        state.unsynced = state.unsynced.max(up_to);
        let asked = due.iter().any(|sync| sync.done.is_some());
        let outcome = if asked { state.failed.take().map_or(Ok(()), Err) } else { Ok(()) };
        let next = self.due_syncs(&mut state);
        drop(state);
        self.submit(next);
        due.into_iter().filter_map(|sync| sync.done).for_each(|done| done(outcome.clone()));
    }

    /// Whether appends are refused.
    pub fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Refuse appends without writing anything.
    pub fn refuse(&self) {
        self.state.lock().closed = true;
        self.stop.notify_all();
    }

    /// Close the region with its summary, refuse what comes, make all of it last, then tell.
    pub fn close(self: &Arc<Self>, done: SyncDone) {
        let mut ops = Vec::new();
        let mut state = self.state.lock();
        let was_closed = mem::replace(&mut state.closed, true);
        if !was_closed {
            self.seal_now(&mut state, &mut ops);
            if state.batch_at > state.region && !self.is_poisoned(state.region) {
                let used = state.batch_at.0 - state.region.0;
                let summary = region::encode(&self.layout, self.stamp, state.region, used, &state.summary);
                let at = Place(state.region.0 + self.layout.region_bytes - summary.len() as u64);
                let len = summary.len();
                self.fly(&mut state, &mut ops, at, len, summary);
            }
        }
        let up_to = Place(state.region.0 + self.layout.region_bytes);
        state.syncs.push(Sync { up_to, done: Some(done) });
        ops.extend(self.due_syncs(&mut state));
        let waiting = mem::take(&mut state.waiting);
        drop(state);
        self.stop.notify_all();
        self.submit(ops);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Outside the lock, since a device may complete a request at once.
    fn submit(&self, ops: impl IntoIterator<Item = Op>) {
        ops.into_iter().for_each(|op| self.device.submit(op));
    }
}

/// Send batches to the disk that are older than [`WRITE_BEHIND`], and sync now and then, until the frontier is closed or
/// dropped.
fn write_behind(frontier: &Weak<Frontier>, flush_every: Option<Duration>) {
    let mut flushed = Instant::now();
    while let Some(frontier) = frontier.upgrade() {
        let mut ops = Vec::new();
        let mut state = frontier.state.lock();
        if state.closed {
            return;
        }
        if state.batch_since.is_some_and(|since| since.elapsed() >= WRITE_BEHIND) {
            frontier.seal(&mut state, &mut ops);
        }
        if ops.is_empty() {
            frontier.stop.wait_for(&mut state, WRITE_BEHIND / 2);
        }
        drop(state);
        frontier.submit(ops);
        if flush_every.is_some_and(|every| flushed.elapsed() >= every) {
            flushed = Instant::now();
            frontier.begin_sync(None);
        }
    }
}
