//! The end of a circular log, where records are appended: batches, laps, summaries, poisoned regions.
//!
//! Several logs may share the regions of a disk, each region of one log alone. Each then has an end here, a *head*, and what
//! is the disk's they have together: writes on their way, syncs, faults. Places do not tell then which of two records is
//! newer, so records have numbers.
//!
//! Records gather in a batch; full or old batches go to the disk in one large write each, and until they are there
//! their records are served from memory. A batch never crosses a region; a region ends with its summary, which is written
//! once a sync has made last what it vouches for.

mod batches;
mod end;
mod head;
mod lost;
mod summaries;
mod syncs;
mod unwritten;

use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::health::Health;
use super::reach::Reach;
use super::record::Stamp;
use super::region::{LogLayout, SummaryEntry};
use super::segments::Segments;
use crate::device::{Device, Op, worker};
use crate::memory::AlignedBuf;
use crate::memory::aligned::round_up;
use crate::terms::limits::WRITE_PATIENCE;
use crate::terms::{Kind, Place, Record, WhyNot};
use head::Head;
use lost::Lost;
use summaries::Summary;
use syncs::Sync;

/// Where a log goes on.
#[derive(Clone, Copy, Debug)]
pub struct Begin {
    /// The region that is begun. Of several logs: the newest that was, by any of them.
    pub at: Place,
    /// Logs that share the regions.
    pub logs: usize,
    /// The number of the first record, where they have numbers.
    pub number: u64,
}

impl From<Place> for Begin {
    /// One log that begins a region here.
    fn from(at: Place) -> Self {
        Begin { at, logs: 1, number: 0 }
    }
}

/// The appending end of a log. Memory: up to [`crate::limits::MAX_BATCHES_IN_FLIGHT`] + 2 batches, and one more for each
/// log beyond the first, after writes that failed [`crate::limits::MAX_LOST_BATCHES`] more for a while, and
/// [`crate::limits::MAX_SUMMARIES_WAITING`] summaries of 12 bytes a record.
pub struct Frontier {
    device: Arc<dyn Device>,
    layout: LogLayout,
    stamp: Stamp,
    /// Marks what this process writes.
    opening: u32,
    state: Mutex<FrontierState>,
    /// The first place not yet given to a record.
    next: AtomicU64,
    /// The end of the region being written: what lies a whole log before it is void.
    limit: AtomicU64,
    /// Which regions may be written anew, in a log whose regions are cleaned first.
    segments: Option<Arc<Segments>>,
    /// For each region, one more than the place of its lap that is poisoned.
    poisoned: Box<[AtomicU64]>,
    write_errors: AtomicU64,
    sync_errors: AtomicU64,
    stop: Condvar,
}

struct FrontierState {
    heads: Vec<Head>,
    /// The region that was begun last, by any log.
    newest: Place,
    /// The number of the next record.
    next_number: u64,
    /// Buffers of batches that are on disk, to be filled again.
    spare: Vec<AlignedBuf>,
    flying: Vec<Flying>,
    /// Batches that were begun so far, and summaries that were written: each has its number.
    turns: u64,
    /// The last of these that a sync has been told of, well or not.
    synced: u64,
    lost: Lost,
    /// Summaries of regions that have ended, oldest first, until a sync has made last what they vouch for.
    summaries: VecDeque<Summary>,
    waiting: Vec<Waker>,
    syncs: Vec<Sync>,
    /// One sync at a time: the kernel tells of a lost page once, and that must reach all who wait.
    syncing: bool,
    /// When the sync under way began.
    syncing_since: Instant,
    /// Whether it was said that the disk takes nothing.
    said_stalled: bool,
    /// Regions written to since the last sync that succeeded, each with the turn of the last batch.
    unsynced: BTreeMap<Place, u64>,
    /// What failed since then, told to the next sync.
    failed: Option<String>,
    /// The same for purposes of the store's own, which are told once too: what comes after does not lead to what was lost.
    failed_inside: Option<String>,
    health: Health,
    closed: bool,
}

/// A write on its way to the disk.
struct Flying {
    turn: u64,
    at: Place,
    len: usize,
    buffer: Arc<AlignedBuf>,
    is_summary: bool,
    since: Instant,
}

impl FrontierState {
    /// Whether the disk has been at a write or a sync for so long that nobody should wait for it.
    fn is_stalled(&self, now: Instant) -> bool {
        let syncs = self.syncing.then_some(self.syncing_since);
        let oldest = self.flying.iter().map(|flying| flying.since).chain(syncs).min();
        oldest.is_some_and(|since| now.saturating_duration_since(since) >= WRITE_PATIENCE)
    }
}

impl Frontier {
    /// A frontier that goes on at `begin`; of `segments`, if there are any, that is the current one. Several logs need
    /// segments, and begin none before their first record. Starts the thread that writes old batches out, and syncs as often
    /// as asked. Errors: the system has no more threads.
    pub fn start(
        device: Arc<dyn Device>,
        layout: LogLayout,
        stamp: Stamp,
        begin: impl Into<Begin>,
        flush_every: Option<Duration>,
        segments: Option<Arc<Segments>>,
    ) -> std::io::Result<Arc<Self>> {
        let Begin { at, logs, number } = begin.into();
        let heads = if logs == 1 { vec![Head::at(at)] } else { (0..logs).map(|_| Head::default()).collect() };
        let next = at.0 + if logs == 1 { 0 } else { layout.region_bytes };
        let state = FrontierState {
            heads,
            newest: at,
            next_number: number,
            spare: Vec::new(),
            flying: Vec::new(),
            turns: 0,
            synced: 0,
            lost: Lost::default(),
            summaries: VecDeque::new(),
            waiting: Vec::new(),
            syncs: Vec::new(),
            syncing: false,
            syncing_since: device.clock().now(),
            said_stalled: false,
            unsynced: BTreeMap::new(),
            failed: None,
            failed_inside: None,
            health: Health::default(),
            closed: false,
        };
        let frontier = Arc::new(Frontier {
            device,
            layout,
            stamp,
            opening: RandomState::new().build_hasher().finish() as u32,
            state: Mutex::new(state),
            next: AtomicU64::new(next),
            limit: AtomicU64::new(at.0 + layout.region_bytes),
            segments,
            poisoned: (0..layout.regions).map(|_| AtomicU64::new(0)).collect(),
            write_errors: AtomicU64::new(0),
            sync_errors: AtomicU64::new(0),
            stop: Condvar::new(),
        });
        let weak = Arc::downgrade(&frontier);
        worker::spawn("tinaja-behind", &frontier.device, move |clock| end::write_behind(clock, &weak, flush_every))?;
        Ok(frontier)
    }

    fn now(&self) -> Instant {
        self.device.clock().now()
    }

    /// Whether the record written at this place is still there: not overwritten, not about to be, not poisoned.
    pub fn is_live(&self, place: Place) -> bool {
        self.is_reachable(place) && !self.is_poisoned(self.layout.region_of(place))
    }

    /// Whether nothing was written over a place yet, poisoned or not: it lies in the lap that is being written or before
    /// it in the one before, or its segment was not cleaned.
    pub fn is_reachable(&self, place: Place) -> bool {
        place.0 < self.next.load(Ordering::Acquire)
            && match &self.segments {
                None => place.0 + self.layout.log_bytes() >= self.limit.load(Ordering::Acquire),
                Some(segments) => segments.is_there(self.layout.region_of(place)),
            }
    }

    /// The segments of a log whose regions are cleaned before they are written anew.
    pub fn segments(&self) -> Option<&Arc<Segments>> {
        self.segments.as_ref()
    }

    /// The first place not yet given to a record, by any log.
    pub fn next(&self) -> Place {
        Place(self.next.load(Ordering::Acquire))
    }

    /// The number of the next record, and the region begun last.
    pub fn next_number(&self) -> (u64, Place) {
        let state = self.state.lock();
        (state.next_number, state.newest)
    }

    /// Writes that the device failed.
    pub fn write_errors(&self) -> u64 {
        self.write_errors.load(Ordering::Relaxed)
    }

    /// Syncs that the device failed.
    pub fn sync_errors(&self) -> u64 {
        self.sync_errors.load(Ordering::Relaxed)
    }

    /// Whether so many writes or syncs in a row have failed that nothing more is written.
    pub fn is_retired(&self) -> bool {
        self.state.lock().health.is_retired()
    }

    /// A write to another part of the same device ended: the device is judged by all of them.
    pub fn wrote_beside(&self, well: bool) {
        self.state.lock().health.write_beside_ended(well);
        if !well {
            self.write_errors.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The same of a write as large as those of the log.
    pub fn wrote_much_beside(&self, well: bool) {
        self.state.lock().health.write_ended(well);
        if !well {
            self.write_errors.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Append a record: a copy into the batch, no I/O. See [`crate::engine::Engine::poll_append`].
    pub fn poll_append(self: &Arc<Self>, cx: &mut Context<'_>, record: &Record<'_>) -> Poll<Result<Place, WhyNot>> {
        self.poll_append_summed(0, cx, record, self.stamp.payload_sum(record)).map_ok(|(place, _)| place)
    }

    /// The same to the log of this number, of a record whose checksum is known ([`Stamp::payload_sum`]): that of one which was read goes with
    /// it to its new place. Returns the record's own number too. Logs beyond the last mean the last.
    pub fn poll_append_summed(
        self: &Arc<Self>,
        log: usize,
        cx: &mut Context<'_>,
        record: &Record<'_>,
        sum: u64,
    ) -> Poll<Result<(Place, u64), WhyNot>> {
        let fits = self.layout.record_bytes(record).filter(|&bytes| bytes <= self.layout.max_record_bytes());
        let Some(bytes) = fits else {
            return Poll::Ready(Err(WhyNot::TooLarge));
        };
        let mut ops = Vec::new();
        let mut state = self.state.lock();
        let log = log.min(state.heads.len().saturating_sub(1));
        let mut outcome = self.append(&mut state, &mut ops, log, record, (bytes, sum));
        if outcome.is_pending() && self.is_stalled(&state) {
            outcome = Poll::Ready(Err(WhyNot::Slow));
        }
        if outcome.is_pending() && !state.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            state.waiting.push(cx.waker().clone());
        }
        drop(state);
        self.submit(ops);
        outcome
    }

    /// Whoever finds no room elsewhere waits with those who wait for a buffer, until [`Frontier::room_was_made`]. False if nobody is to
    /// wait: it is closed, or has made no room for so long.
    pub fn wait(&self, waker: &Waker) -> bool {
        let mut state = self.state.lock();
        if state.closed || self.is_stalled(&state) {
            return false;
        }
        if !state.waiting.iter().any(|other| other.will_wake(waker)) {
            state.waiting.push(waker.clone());
        }
        true
    }

    fn append(
        self: &Arc<Self>,
        state: &mut FrontierState,
        ops: &mut Vec<Op>,
        log: usize,
        record: &Record<'_>,
        (bytes, sum): (usize, u64),
    ) -> Poll<Result<(Place, u64), WhyNot>> {
        loop {
            if state.closed {
                return Poll::Ready(Err(WhyNot::Closed));
            }
            if state.health.is_retired() {
                return Poll::Ready(Err(WhyNot::Device));
            }
            let Some(head) = state.heads.get_mut(log) else { return Poll::Ready(Err(WhyNot::Closed)) };
            let offset = round_up(head.batch_len as u64, self.layout.unit) as usize;
            let place = Place(head.batch_at.0 + offset as u64);
            if self.must_end(head, place, bytes) {
                if !self.end_region(state, ops, log) {
                    return Poll::Pending;
                }
            } else if offset + bytes > self.layout.max_record_bytes() {
                if !self.seal(state, ops, log) {
                    return Poll::Pending;
                }
            } else {
                if head.batch.is_empty() {
                    let spare = state.spare.pop();
                    head.batch = spare.unwrap_or_else(|| AlignedBuf::zeroed(self.layout.batch_bytes()));
                }
                if head.batch_len == 0 {
                    state.turns += 1;
                    head.turn = state.turns;
                }
                let number = state.next_number;
                state.next_number += 1;
                let written = self.layout.is_numbered.then_some(number);
                let gap = head.batch_len..offset;
                head.batch.get_mut(gap).unwrap_or_default().fill(0);
                let room = head.batch.get_mut(offset..offset + bytes).unwrap_or_default();
                self.stamp.write(record, place, (self.opening, written), sum, room);
                head.batch_len = offset + bytes;
                head.batch_since.get_or_insert_with(|| self.now());
                if record.kind != Kind::Extent {
                    let (id_low, kind, number) = (record.id.low(), record.kind, written.unwrap_or(0));
                    let reach = Reach::of_record(place, record);
                    head.summary.push(SummaryEntry { id_low, place, kind, reach, number });
                }
                self.next.fetch_max(place.0 + bytes as u64, Ordering::AcqRel);
                return Poll::Ready(Ok((place, number)));
            }
        }
    }

    /// Whether a record of so many bytes has to go into another region.
    fn must_end(&self, head: &Head, place: Place, bytes: usize) -> bool {
        let Some(region) = head.region else { return true };
        let end = place.0 + bytes as u64 - region.0;
        let entries = head.summary.len();
        round_up(end, self.layout.align) + self.layout.summary_bytes(entries + 1) > self.layout.region_bytes
            || self.segments.as_ref().is_some_and(|segments| entries >= segments.most_entries())
            || self.is_poisoned(region)
    }

    /// Whether the region that begins at this place was given up.
    pub fn is_poisoned(&self, region: Place) -> bool {
        let mark = self.poisoned.get(self.layout.region_number(region));
        mark.is_some_and(|mark| mark.load(Ordering::Acquire) == region.0 + 1)
    }

    /// Whether anything of what was given up is still on the disk: not found, but there once the log is opened anew.
    pub fn is_any_poisoned(&self) -> bool {
        let marks = self.poisoned.iter().filter_map(|mark| mark.load(Ordering::Acquire).checked_sub(1));
        marks.into_iter().any(|region| self.is_reachable(Place(region)))
    }

    /// What segments were passed over on the way to has another place, and is no worse for it.
    fn poison(&self, region: Place) {
        if self.segments.as_ref().is_some_and(|segments| !segments.is_there(region)) {
            return;
        }
        if let Some(mark) = self.poisoned.get(self.layout.region_number(region)) {
            mark.store(region.0 + 1, Ordering::Release);
        }
    }

    /// Whether nobody should wait for the disk, or for a segment to be cleaned.
    fn is_stalled(&self, state: &FrontierState) -> bool {
        state.is_stalled(self.now()) || self.segments.as_ref().is_some_and(|segments| segments.is_starved())
    }

    /// Outside the lock, since a device may complete a request at once.
    fn submit(&self, ops: impl IntoIterator<Item = Op>) {
        ops.into_iter().for_each(|op| self.device.submit(op));
    }
}
