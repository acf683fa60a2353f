//! Bins on their way to the disk.

use std::mem;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Instant;

use tinaja_clock::Clock;

use super::{DiskTable, DiskTableState};
use crate::device::{Op, Outcome, Request};
use crate::layout::limits::{MAX_BINS_IN_FLIGHT, MAX_LOST_BINS, MAX_UNSYNCED_BINS};
use crate::memory::AlignedBuf;
use crate::terms::WhyNot;
use crate::terms::limits::WRITE_PATIENCE;

/// Failures whose numbers are kept.
const MAX_LOST_ORDERS: usize = 1024;

/// A bin that is being written, and what is to be written to it next.
pub(super) struct Flying {
    image: Arc<AlignedBuf>,
    order: u64,
    /// The first of those that this one stands for: what is to be written next may be replaced before its turn.
    oldest: u64,
    since: Instant,
    next: Option<Next>,
    /// A sync failed meanwhile, which may have been about this write.
    is_doubtful: bool,
}

/// What is to be written to a bin when the write under way has ended.
struct Next {
    image: Arc<AlignedBuf>,
    order: u64,
    oldest: u64,
}

impl Flying {
    pub(super) fn newest(&self) -> &Arc<AlignedBuf> {
        self.next.as_ref().map_or(&self.image, |next| &next.image)
    }

    /// Whether what is written of it lasts is not known any more.
    pub(super) fn doubt(&mut self) {
        self.is_doubtful = true;
    }

    /// Whether a bin given its number before `moment` is on its way here.
    pub(super) fn is_before(&self, moment: u64) -> bool {
        self.oldest < moment
    }
}

impl DiskTableState {
    /// Whether another bin may be written now. Pending: the waker is called when there is room.
    pub fn poll_room(&mut self, waker: &Waker, is_retired: bool, clock: &Clock) -> Poll<Result<(), WhyNot>> {
        let full = self.flying.len() >= MAX_BINS_IN_FLIGHT || self.unsynced.len() >= MAX_UNSYNCED_BINS;
        match () {
            _ if self.closed => Poll::Ready(Err(WhyNot::Closed)),
            _ if is_retired || self.given_up => Poll::Ready(Err(WhyNot::Device)),
            _ if full && self.is_stalled(clock.now()) => Poll::Ready(Err(WhyNot::Slow)),
            _ if full => {
                if !self.waiting.iter().any(|other| other.will_wake(waker)) {
                    self.waiting.push(waker.clone());
                }
                Poll::Pending
            }
            _ => Poll::Ready(Ok(())),
        }
    }

    fn is_stalled(&self, now: Instant) -> bool {
        let writes = self.flying.values().map(|flying| flying.since);
        let oldest = writes.chain(self.syncs.iter().map(|sync| sync.since)).min();
        oldest.is_some_and(|since| now.saturating_duration_since(since) >= WRITE_PATIENCE)
    }

    /// Those that wait for a disk that takes nothing: they are to ask once more, and are told so.
    pub fn give_up_waiting(&mut self, now: Instant) -> Vec<Waker> {
        if self.is_stalled(now) { mem::take(&mut self.waiting) } else { Vec::new() }
    }

    /// The bins from `first` on, `count` of them, of which it is not known what the disk holds.
    pub fn lost_among(&self, first: u64, count: usize) -> Vec<u64> {
        if self.lost.is_empty() {
            return Vec::new();
        }
        (first..first + count as u64).filter(|bin| self.lost.contains(bin)).collect()
    }

    /// What the disk holds of a bin is not known.
    pub(super) fn lose(&mut self, bin: u64) {
        self.lost.insert(bin);
        if self.lost.len() > MAX_LOST_BINS && !mem::replace(&mut self.given_up, true) {
            tracing::error!("over {MAX_LOST_BINS} bins of the disk table could not be written: it is given up");
        }
    }

    pub(super) fn lose_orders(&mut self, from: u64, to: u64) {
        if self.lost_orders.len() >= MAX_LOST_ORDERS {
            self.lost_orders.pop_front();
        }
        self.lost_orders.push_back((from, to));
    }
}

impl DiskTable {
    /// Write a bin: it is served from memory at once. Returns the request to submit, if this bin is not being written
    /// already, and the moment after it.
    pub fn write(self: &Arc<Self>, state: &mut DiskTableState, bin: u64, mut image: AlignedBuf) -> (Option<Op>, u64) {
        let order = state.order;
        state.order += 1;
        self.stamp.bin_ordered(&mut image, bin, order);
        state.changed.note(bin / self.layout.ways.max(1) as u64, order);
        let image = Arc::new(image);
        if let Some(flying) = state.flying.get_mut(&bin) {
            let oldest = flying.next.as_ref().map_or(order, |next| next.oldest);
            flying.next = Some(Next { image, order, oldest });
            return (None, order + 1);
        }
        let flying = Flying {
            image: image.clone(),
            order,
            oldest: order,
            since: self.device.clock().now(),
            next: None,
            is_doubtful: false,
        };
        state.flying.insert(bin, flying);
        (Some(self.op(bin, image)), order + 1)
    }

    fn op(self: &Arc<Self>, bin: u64, image: Arc<AlignedBuf>) -> Op {
        let table = self.clone();
        let done = Box::new(move |outcome: Outcome| table.written(bin, outcome.result));
        let part = 0..image.len();
        Op { request: Request::Write { at: self.layout.device_offset(bin), from: image, part }, done }
    }

    /// Hand requests to the device; outside the lock, since it may complete them at once.
    pub fn submit(&self, ops: impl IntoIterator<Item = Op>) {
        ops.into_iter().for_each(|op| self.device.submit(op));
    }

    fn written(self: &Arc<Self>, bin: u64, result: std::io::Result<()>) {
        self.frontier.wrote_beside(result.is_ok());
        let mut state = self.lock();
        let Some(mut flying) = state.flying.remove(&bin) else { return };
        let doubtful = || std::io::Error::other("a sync of the disk failed while it was being written");
        match result.and(if flying.is_doubtful { Err(doubtful()) } else { Ok(()) }) {
            Ok(()) => {
                state.lost.remove(&bin);
                state.unsynced.add(bin, flying.order);
            }
            Err(error) => {
                tracing::error!("a bin of the disk table could not be written and is empty now: {error}");
                state.lose(bin);
                state.lose_orders(flying.oldest, flying.order);
                state.note_loss(flying.order, error.to_string());
            }
        }
        let next = flying.next.take();
        let op = next.map(|Next { image, order, oldest }| {
            let flying = Flying {
                image: image.clone(),
                order,
                oldest,
                since: self.device.clock().now(),
                next: None,
                is_doubtful: false,
            };
            state.flying.insert(bin, flying);
            self.op(bin, image)
        });
        let due = self.due_syncs(&mut state);
        let waiting = mem::take(&mut state.waiting);
        drop(state);
        self.submit(op);
        due.into_iter().for_each(|sync| self.sync_disk(sync));
        waiting.into_iter().for_each(Waker::wake);
    }
}
