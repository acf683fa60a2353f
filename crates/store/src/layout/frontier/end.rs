//! What happens by the clock, and the end: old batches go out, syncs come due, the last region is closed.

use std::mem;
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;

use tinaja_clock::Clock;

use super::syncs::Sync;
use super::{Frontier, FrontierState};
use crate::layout::limits::WRITE_BEHIND;
use crate::terms::SyncDone;
use crate::terms::limits::WRITE_PATIENCE;

impl Frontier {
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
        for log in 0..if was_closed { 0 } else { state.heads.len() } {
            self.seal_now(&mut state, &mut ops, log);
            let region = state.heads.get(log).and_then(|head| head.region.filter(|region| head.batch_at > *region));
            if region.is_some_and(|region| !self.is_poisoned(region)) {
                self.keep_summary(&mut state, log);
            }
        }
        let up_to = state.turns;
        let frontier = self.clone();
        // The first sync is for the records, the second for the summaries that waited for it.
        let then = move |result: Result<(), String>| match result {
            Ok(()) => frontier.settle(done),
            Err(error) => done(Err(error)),
        };
        state.syncs.push(Sync { up_to, done: Some(Box::new(then)), tells: true });
        ops.extend(self.due_syncs(&mut state));
        let waiting = mem::take(&mut state.waiting);
        drop(state);
        self.stop.notify_all();
        self.submit(ops);
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl Frontier {
    /// Those that wait for a disk that stalls: they are to ask once more, and are told so.
    fn give_up_waiting(&self, state: &mut FrontierState) -> Vec<Waker> {
        let stalled = self.is_stalled(state);
        if stalled != mem::replace(&mut state.said_stalled, stalled) {
            let seconds = WRITE_PATIENCE.as_secs();
            match stalled {
                true => {
                    tracing::warn!("a disk has taken nothing for {seconds} s: objects are not stored until it does")
                }
                false => tracing::warn!("the disk that took nothing goes on: objects are stored again"),
            }
        }
        if stalled { mem::take(&mut state.waiting) } else { Vec::new() }
    }
}

/// Send batches to the disk that are older than [`WRITE_BEHIND`], and sync now and then, until the frontier is closed or
/// dropped.
pub(super) fn write_behind(clock: &Clock, frontier: &Weak<Frontier>, flush_every: Option<Duration>) {
    let (mut flushed, mut turns) = (clock.now(), 0);
    while let Some(frontier) = frontier.upgrade() {
        let mut ops = Vec::new();
        let mut state = frontier.state.lock();
        if state.closed {
            return;
        }
        for log in 0..state.heads.len() {
            let since = state.heads.get(log).and_then(|head| head.batch_since);
            if since.is_some_and(|since| clock.since(since) >= WRITE_BEHIND) {
                frontier.seal(&mut state, &mut ops, log);
            }
        }
        state.lost.let_go(clock.now());
        let is_quiet = mem::replace(&mut turns, state.turns) == state.turns;
        if is_quiet && state.flying.is_empty() && state.heads.iter().all(|head| head.batch_since.is_none()) {
            // The load is over, and it is not just the moment after a flush: the next batch needs no more than one.
            state.spare.truncate(1);
        }
        let waiting = frontier.give_up_waiting(&mut state);
        if ops.is_empty() && waiting.is_empty() {
            clock.wait_for(&frontier.stop, &mut state, WRITE_BEHIND / 2);
        }
        drop(state);
        frontier.submit(ops);
        waiting.into_iter().for_each(Waker::wake);
        if flush_every.is_some_and(|every| clock.since(flushed) >= every) {
            flushed = clock.now();
            frontier.sync_by_clock();
        }
    }
}
