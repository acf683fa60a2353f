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
        let mut state = self.state.lock();
        self.seal_all(&mut state, &mut ops, u64::MAX);
        drop(state);
        self.submit(ops);
    }

    /// Send the batches to the disk that were begun no later than at a turn, if not too many are on their way.
    pub(super) fn seal_all(self: &Arc<Self>, state: &mut FrontierState, ops: &mut Vec<Op>, turn: u64) {
        for log in 0..state.heads.len() {
            if state.heads.get(log).is_some_and(|head| head.waits_since(turn)) {
                self.seal(state, ops, log);
            }
        }
    }

    /// Send the batch of a log to the disk; false if too many are on their way.
    pub(super) fn seal(self: &Arc<Self>, state: &mut FrontierState, ops: &mut Vec<Op>, log: usize) -> bool {
        if state.heads.get(log).is_none_or(|head| head.batch_len == 0) {
            return true;
        }
        if state.flying.len() >= MAX_BATCHES_IN_FLIGHT {
            return false;
        }
        self.seal_now(state, ops, log);
        true
    }

    pub(super) fn seal_now(self: &Arc<Self>, state: &mut FrontierState, ops: &mut Vec<Op>, log: usize) {
        let Some(head) = state.heads.get_mut(log).filter(|head| head.batch_len > 0) else { return };
        let len = round_up(head.batch_len as u64, self.layout.align) as usize;
        let padding = head.batch_len..len;
        head.batch.get_mut(padding).unwrap_or_default().fill(0);
        let full = mem::replace(&mut head.batch, AlignedBuf::zeroed(0));
        let (at, turn) = (head.batch_at, head.turn);
        head.batch_at = Place(at.0 + len as u64);
        head.batch_len = 0;
        head.batch_since = None;
        self.next.fetch_max(head.batch_at.0, Ordering::AcqRel);
        state.unsynced.insert(self.layout.region_of(at), turn);
        self.fly(state, ops, Flying { turn, at, len, buffer: Arc::new(full), is_summary: false, since: self.now() });
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

    /// Close the region of a log, if it is at one, and begin the next; false if too many writes or summaries are on their way,
    /// or no segment is free. A segment is closed even then, so that it may be the one that is cleaned.
    pub(super) fn end_region(self: &Arc<Self>, state: &mut FrontierState, ops: &mut Vec<Op>, log: usize) -> bool {
        if !self.close_region(state, ops, log) {
            return false;
        }
        let Some(next) = self.next_region(state.newest) else { return false };
        if let Some(head) = state.heads.get_mut(log) {
            head.begin(next);
        }
        state.newest = next;
        if let Some(segments) = &self.segments {
            segments.begin(log, next);
        }
        self.next.fetch_max(next.0, Ordering::AcqRel);
        self.limit.store(next.0 + self.layout.region_bytes, Ordering::Release);
        ops.extend(self.sync_for_summaries(state));
        true
    }

    fn close_region(self: &Arc<Self>, state: &mut FrontierState, ops: &mut Vec<Op>, log: usize) -> bool {
        let Some(region) = state.heads.get(log).and_then(|head| head.region) else { return true };
        if self.is_poisoned(region) {
            // Nothing of it is trusted, so nothing more of it is written and no summary vouches for it.
            self.lose_batch(state, log);
        } else if !self.seal(state, ops, log) || state.summaries.len() >= self.most_summaries() {
            return false;
        } else {
            self.keep_summary(state, log);
        }
        if let Some(head) = state.heads.get_mut(log) {
            head.end();
        }
        if let Some(segments) = &self.segments {
            segments.end(region);
        }
        true
    }

    fn lose_batch(&self, state: &mut FrontierState, log: usize) {
        let Some(head) = state.heads.get_mut(log) else { return };
        let (turn, at, len, now) = (head.turn, head.batch_at, head.batch_len, self.now());
        let buffer = Arc::new(mem::replace(&mut head.batch, AlignedBuf::zeroed(0)));
        head.batch_len = 0;
        head.batch_since = None;
        if len > 0 {
            // Whoever asks for a sync of it is to be told, though others have been by then.
            state.unsynced.insert(self.layout.region_of(at), turn);
        }
        state.lost.keep(Flying { turn, at, len, buffer, is_summary: false, since: now }, now);
    }

    fn next_region(&self, newest: Place) -> Option<Place> {
        match &self.segments {
            None => Some(Place(newest.0 + self.layout.region_bytes)),
            Some(segments) => segments.next_after(newest),
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
                state.failed_inside = state.failed.clone();
            }
        }
        let mut ops = Vec::new();
        self.seal_for_syncs(&mut state, &mut ops);
        let waiting = mem::take(&mut state.waiting);
        ops.extend(self.due_syncs(&mut state));
        drop(state);
        self.submit(ops);
        waiting.into_iter().for_each(Waker::wake);
    }
}
