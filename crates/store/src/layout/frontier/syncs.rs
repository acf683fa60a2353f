//! Making what was written last: one sync at a time, for all whose writes have ended.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use super::{Frontier, FrontierState};
use crate::device::{Op, Outcome, Request};
use crate::terms::SyncDone;

/// Somebody waits for all up to a turn to last.
pub(super) struct Sync {
    pub(super) up_to: u64,
    /// Who asked; nobody did if it was the clock, and then a failure is kept for the next who asks.
    pub(super) done: Option<SyncDone>,
    /// Whether a failure has been told once this one has heard of it.
    pub(super) tells: bool,
    /// Whether somebody waits for it, so that all batches go at once; else one goes after the other, and reads get in between.
    pub(super) hurries: bool,
    /// What failed while it waited for its turn, and was told to others: what it is for may be lost too.
    pub(super) failed: Option<String>,
}

impl Frontier {
    /// See [`crate::engine::Engine::sync`].
    pub fn sync(self: &Arc<Self>, done: SyncDone) {
        self.begin_sync(Sync { up_to: 0, done: Some(done), tells: true, hurries: true, failed: None }, false);
    }

    /// [`Frontier::sync`] where something else was written to the device that is to last too.
    pub fn sync_beside(self: &Arc<Self>, done: SyncDone) {
        self.begin_sync(Sync { up_to: 0, done: Some(done), tells: true, hurries: true, failed: None }, true);
    }

    /// Make all of it last, and whatever else was written to the device, for a purpose of the store's own: what the log has lost by a
    /// failure is still told to the next who calls [`Frontier::sync`], and each failure is told here once. Where nobody waits for it (`hurries` is false) the
    /// batches of several logs go to the disk one after the other.
    pub fn settle(self: &Arc<Self>, hurries: bool, done: SyncDone) {
        self.begin_sync(Sync { up_to: 0, done: Some(done), tells: false, hurries, failed: None }, true);
    }

    /// Something of the store's own begins, at whose end it will [`Frontier::settle`]: what failed before that, and was told to somebody who
    /// asked, is no matter of it.
    pub fn begin_own(&self) {
        let mut state = self.state.lock();
        if state.failed.is_none() {
            state.failed_inside = None;
        }
    }

    /// By the clock: nobody is told, so a failure is kept for the next who asks.
    pub(super) fn sync_by_clock(self: &Arc<Self>) {
        self.begin_sync(Sync { up_to: 0, done: None, tells: false, hurries: false, failed: None }, false);
    }

    /// Begin one of all that there is now.
    fn begin_sync(self: &Arc<Self>, sync: Sync, for_more: bool) {
        let mut ops = Vec::new();
        let mut state = self.state.lock();
        let up_to = state.turns;
        if !for_more && state.synced == up_to && state.flying.is_empty() && state.failed.is_none() {
            // Nothing is new since the last sync. A disk that was given up must not fail those that go on.
            drop(state);
            return sync.done.into_iter().for_each(|done| done(Ok(())));
        }
        state.syncs.push(Sync { up_to, ..sync });
        self.seal_for_syncs(&mut state, &mut ops);
        ops.extend(self.due_syncs(&mut state));
        drop(state);
        self.submit(ops);
    }

    /// Send batches to the disk that syncs wait for. Those that do not go now follow when a write has ended.
    pub(super) fn seal_for_syncs(self: &Arc<Self>, state: &mut FrontierState, ops: &mut Vec<Op>) {
        let up_to = |hurries: bool| {
            let syncs = state.syncs.iter().filter(move |sync| sync.hurries == hurries);
            syncs.map(|sync| sync.up_to).max()
        };
        let (at_once, in_turn) = (up_to(true), up_to(false));
        if let Some(turn) = at_once {
            self.seal_all(state, ops, turn);
        }
        if let Some(turn) = in_turn {
            // In the place of a write that has ended: on a busy disk others would take that again and again.
            let waiting = state.heads.iter().enumerate().filter(|(_, head)| head.waits_since(turn));
            if let Some(oldest) = waiting.min_by_key(|(_, head)| head.turn).map(|(log, _)| log) {
                self.seal(state, ops, oldest);
            }
        }
    }

    /// One sync for all those whose writes have ended.
    pub(super) fn due_syncs(self: &Arc<Self>, state: &mut FrontierState) -> Option<Op> {
        if state.syncing {
            return None;
        }
        let flying = state.flying.iter().map(|flying| flying.turn);
        let waiting = state.heads.iter().filter(|head| head.batch_len > 0).map(|head| head.turn);
        let first = flying.chain(waiting).min();
        let ended = |sync: &Sync| first.is_none_or(|turn| sync.up_to < turn);
        let (due, rest): (Vec<_>, _) = mem::take(&mut state.syncs).into_iter().partition(ended);
        state.syncs = rest;
        let up_to = due.iter().map(|sync| sync.up_to).max()?;
        state.syncing = true;
        state.syncing_since = self.now();
        let frontier = self.clone();
        let done = Box::new(move |outcome: Outcome| {
            frontier.synced(up_to, outcome.result.map_err(|error| error.to_string()), due);
        });
        Some(Op { request: Request::Sync, done })
    }

    /// A sync that failed leaves nothing written since the last good one to be trusted: the kernel may have dropped
    /// the pages and will say so only once. Where there was no such thing the log has lost nothing, and of those who [`Frontier::sync`] only
    /// those are told who waited for this one.
    fn synced(self: &Arc<Self>, up_to: u64, result: Result<(), String>, due: Vec<Sync>) {
        let mut state = self.state.lock();
        state.syncing = false;
        state.health.sync_ended(result.is_ok());
        if let Err(error) = result {
            // What was in a segment that was cleaned is elsewhere by now.
            let is_there = |region| self.segments.as_ref().is_none_or(|segments| segments.is_there(region));
            let is_lost = state.unsynced.keys().any(|region| is_there(*region) && !self.is_poisoned(*region));
            state.unsynced.keys().for_each(|region| self.poison(*region));
            self.sync_errors.fetch_add(1, Ordering::Relaxed);
            tracing::error!("what was written since the last sync is given up: {error}");
            state.failed_inside = Some(error);
            if is_lost || due.iter().any(|sync| sync.tells) {
                state.failed = state.failed_inside.clone();
            }
        }
        state.unsynced.retain(|_, turn| *turn > up_to);
        state.synced = state.synced.max(up_to);
        let hears = |tells: bool| due.iter().any(|sync| sync.tells == tells && sync.done.is_some());
        let inside = if hears(false) { state.failed_inside.take() } else { None };
        let outside = if hears(true) { state.failed.take() } else { None };
        for sync in &mut state.syncs {
            // They asked before this was known.
            let told = if sync.tells { &outside } else { &inside };
            sync.failed = sync.failed.take().or_else(|| told.clone());
        }
        if let Some(told) = outside.as_ref().or(inside.as_ref()).filter(|_| self.is_more_lost(&state)) {
            // Nor to those who will ask, of what came after this sync was asked for and is in the regions that were given up.
            state.failed_inside = Some(told.clone());
            state.failed.get_or_insert_with(|| told.clone());
        }
        let (outside, inside) = (outside.map_or(Ok(()), Err), inside.map_or(Ok(()), Err));
        let mut ops = Vec::new();
        self.write_summaries(&mut state, &mut ops, up_to);
        ops.extend(self.due_syncs(&mut state));
        ops.extend(self.sync_for_summaries(&mut state));
        let waiting = mem::take(&mut state.waiting);
        drop(state);
        self.submit(ops);
        waiting.into_iter().for_each(Waker::wake);
        for Sync { done, tells, failed, .. } in due {
            let outcome = failed.map_or_else(|| if tells { outside.clone() } else { inside.clone() }, Err);
            if let Some(done) = done {
                done(outcome);
            }
        }
    }
}

impl Frontier {
    /// Whether records that nobody was told of are in regions that were given up: on their way to the disk, or still gathered.
    fn is_more_lost(&self, state: &FrontierState) -> bool {
        let gathered = state.heads.iter().filter(|head| head.batch_len > 0).filter_map(|head| head.region);
        let on_their_way = state.unsynced.keys().copied();
        gathered.chain(on_their_way).any(|region| self.is_poisoned(region))
    }
}

#[cfg(test)]
#[path = "syncs_tests.rs"]
mod tests;
