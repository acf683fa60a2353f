//! Batches and summaries on their way to the disk.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use super::{Flying, Frontier, FrontierState};
use crate::device::{Op, Outcome, Request};
use crate::layout::limits::MAX_BATCHES_IN_FLIGHT;
use crate::memory::AlignedBuf;
use crate::memory::aligned::round_up;
use crate::terms::Place;

impl Frontier {
    /// Send what has gathered to the disk now, if not too much is on its way there.
    pub fn write_out(self: &Arc<Self>) {
        let mut ops = Vec::new();
        self.seal(&mut self.state.lock(), &mut ops);
        self.submit(ops);
    }

    /// Send the batch to the disk; false if too many are on their way.
    pub(super) fn seal(self: &Arc<Self>, state: &mut FrontierState, ops: &mut Vec<Op>) -> bool {
        if state.batch_len == 0 {
            return true;
        }
        if state.flying.len() >= MAX_BATCHES_IN_FLIGHT {
            return false;
        }
        self.seal_now(state, ops);
        true
    }

    pub(super) fn seal_now(self: &Arc<Self>, state: &mut FrontierState, ops: &mut Vec<Op>) {
        if state.batch_len == 0 {
            return;
        }
        let len = round_up(state.batch_len as u64, self.layout.align) as usize;
        let padding = state.batch_len..len;
        state.batch.get_mut(padding).unwrap_or_default().fill(0);
        let full = mem::replace(&mut state.batch, AlignedBuf::zeroed(0));
        let at = state.batch_at;
        self.fly(state, ops, Flying { at, len, buffer: Arc::new(full), is_summary: false, since: self.now() });
        state.batch_at = Place(state.batch_at.0 + len as u64);
        state.batch_len = 0;
        state.batch_since = None;
        self.next.store(state.batch_at.0, Ordering::Release);
    }

    pub(super) fn fly(self: &Arc<Self>, state: &mut FrontierState, ops: &mut Vec<Op>, flying: Flying) {
        let Flying { at, len, is_summary, .. } = flying;
        let from = flying.buffer.clone();
        state.flying.push(flying);
        let frontier = self.clone();
        let done = Box::new(move |outcome: Outcome| frontier.written(at, is_summary, outcome.result));
        let request = Request::Write { at: self.layout.device_offset(at), from, part: 0..len };
        ops.push(Op { request, done });
    }

    /// Close the region and begin the next; false if too many writes or summaries are on their way, or no segment is free.
    pub(super) fn end_region(self: &Arc<Self>, state: &mut FrontierState, ops: &mut Vec<Op>) -> bool {
        let Some(next) = self.next_region(state.region) else { return false };
        if self.is_poisoned(state.region) {
            // Nothing of it is trusted, so nothing more of it is written and no summary vouches for it.
            let (at, len) = (state.batch_at, state.batch_len);
            let unwritten = Arc::new(mem::replace(&mut state.batch, AlignedBuf::zeroed(0)));
            state.lost.keep(Flying { at, len, buffer: unwritten, is_summary: false, since: self.now() }, self.now());
            state.batch_len = 0;
            state.batch_since = None;
        } else if !self.seal(state, ops) || state.summaries.len() >= self.most_summaries() {
            return false;
        } else {
            self.keep_summary(state);
        }
        state.summary.clear();
        state.region = next;
        state.batch_at = next;
        if let Some(segments) = &self.segments {
            segments.begin(next);
        }
        self.next.store(state.region.0, Ordering::Release);
        self.limit.store(state.region.0 + self.layout.region_bytes, Ordering::Release);
        ops.extend(self.sync_for_summaries(state));
        true
    }

    fn next_region(&self, region: Place) -> Option<Place> {
        match &self.segments {
            None => Some(Place(region.0 + self.layout.region_bytes)),
            Some(segments) => segments.next_after(region),
        }
    }

    /// A segment was cleaned: those who wait for one may go on.
    pub fn room_was_made(&self) {
        let waiting = mem::take(&mut self.state.lock().waiting);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// A write ended: its records are on disk from now on, or its region is poisoned. A region whose summary could not
    /// be written is none the worse: it is walked when the store is opened.
    fn written(self: &Arc<Self>, at: Place, is_summary: bool, result: std::io::Result<()>) {
        let mut state = self.state.lock();
        if let Some(landed) = state.flying.iter().position(|flying| flying.at == at) {
            let landed = state.flying.swap_remove(landed);
            if result.is_err() {
                state.lost.keep(landed, self.now());
            } else {
                // Buffers of summaries are smaller, and of no further use.
                let buffer = Arc::into_inner(landed.buffer);
                let keeps = state.spare.len() < MAX_BATCHES_IN_FLIGHT;
                state.spare.extend(buffer.filter(|buffer| keeps && buffer.len() == self.layout.batch_bytes()));
            }
        }
        state.health.write_ended(result.is_ok());
        if let Err(error) = result {
            self.write_errors.fetch_add(1, Ordering::Relaxed);
            if is_summary {
                tracing::error!("a region's summary could not be written: {error}");
            } else {
                self.poison(self.layout.region_of(at));
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
}
