//! Making bins last: when their writes have ended the log syncs the disk, for both.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::time::Instant;

use super::writes::Flying;
use super::{DiskTable, DiskTableState};
use crate::layout::limits::MAX_UNSYNCED_BINS;
use crate::terms::SyncDone;

/// Bins written since the last sync that succeeded, with the numbers they were given, in the order in which their
/// writes ended.
#[derive(Default)]
pub(super) struct Unsynced {
    bins: VecDeque<(u64, u64)>,
    /// Bins that were taken off the front.
    before: u64,
}

impl Unsynced {
    pub(super) fn len(&self) -> usize {
        self.bins.len()
    }

    pub(super) fn add(&mut self, bin: u64, order: u64) {
        self.bins.push_back((bin, order));
    }

    fn ended(&self) -> u64 {
        self.before + self.bins.len() as u64
    }

    /// All that had ended when [`Unsynced::ended`] said this number last now.
    fn lasts(&mut self, ended: u64) {
        while self.before < ended && self.bins.pop_front().is_some() {
            self.before += 1;
        }
    }
}

/// Somebody waits for all bins before a moment to last.
pub(super) struct TableSync {
    moment: u64,
    pub(super) since: Instant,
    /// Nobody is told if it was the clock: then a failure is kept for the next who asks.
    done: Option<SyncDone>,
    started: bool,
    number: u64,
    /// What failed while it waited for its turn, and was told to others: what it is for may be lost too.
    failed: Option<String>,
}

impl DiskTableState {
    /// A sync of the disk failed that others asked for: the kernel may have dropped what was written, and will not say
    /// so twice.
    pub(super) fn notice_failed_syncs(&mut self, errors: u64) {
        if mem::replace(&mut self.sync_errors, errors) == errors {
            return;
        }
        let unsynced = mem::take(&mut self.unsynced.bins);
        self.unsynced.before += unsynced.len() as u64;
        // Nor will it say so of what was on its way.
        self.flying.values_mut().for_each(Flying::doubt);
        let orders = unsynced.iter().map(|(_, order)| *order);
        if let (Some(from), Some(to)) = (orders.clone().min(), orders.max()) {
            // The log may have lost nothing by it, and then tells nobody.
            let why = "a sync of the disk failed, and what was written before it is given up";
            self.note_loss(to, why.to_owned());
            self.lose_orders(from, to);
        }
        unsynced.into_iter().for_each(|(bin, _)| self.lose(bin));
    }

    /// Bins up to this number were lost, as whoever waits for them is to be told.
    pub(super) fn note_loss(&mut self, order: u64, why: String) {
        self.lost_order = self.lost_order.max(order);
        self.failed = Some(why);
    }

    /// What a sync tells of bins before a moment, by how it ended. What is lost of bins behind that is told once more.
    fn tell(&mut self, moment: u64, result: Result<(), String>) -> Option<String> {
        // Whoever hears that a sync failed has heard of all that failed before.
        let before = self.failed.take();
        let told = result.err().or(before);
        if self.lost_order >= moment {
            self.failed = told.clone();
        }
        // They asked before this was known.
        self.syncs.iter_mut().for_each(|sync| sync.failed = sync.failed.take().or_else(|| told.clone()));
        told
    }
}

impl DiskTable {
    /// Make what was written so far last, in the table and in the log.
    pub fn sync(self: &Arc<Self>, done: SyncDone) {
        self.begin_sync(Some(done));
    }

    /// The same by the clock, if there is anything new; a failure is told to the next who asks.
    pub fn sync_by_clock(self: &Arc<Self>) {
        self.begin_sync(None);
    }

    fn begin_sync(self: &Arc<Self>, done: Option<SyncDone>) {
        let mut state = self.lock();
        let (moment, number) = (state.moment(), state.syncs.iter().map(|sync| sync.number + 1).max().unwrap_or(0));
        let since = self.device.clock().now();
        state.syncs.push(TableSync { moment, since, done, started: false, number, failed: None });
        let due = self.due_syncs(&mut state);
        drop(state);
        due.into_iter().for_each(|sync| self.sync_disk(sync));
    }

    /// The syncs whose writes have ended, as their numbers; and one that nobody asked for, where many bins wait for one.
    pub(super) fn due_syncs(&self, state: &mut DiskTableState) -> Vec<u64> {
        if state.unsynced.len() * 2 >= MAX_UNSYNCED_BINS && state.syncs.is_empty() {
            let moment = 0;
            state.syncs.push(TableSync {
                moment,
                since: self.device.clock().now(),
                done: None,
                started: false,
                number: 0,
                failed: None,
            });
        }
        let flying = &state.flying;
        let due = state
            .syncs
            .iter_mut()
            .filter(|sync| !sync.started && !flying.values().any(|flying| flying.is_before(sync.moment)));
        due.map(|sync| {
            sync.started = true;
            sync.number
        })
        .collect()
    }

    pub(super) fn sync_disk(self: &Arc<Self>, number: u64) {
        let (ended, anything) = {
            let state = self.lock();
            (state.unsynced.ended(), state.unsynced.len() > 0)
        };
        let table = self.clone();
        let then = move |result: Result<(), String>| table.synced(number, ended, result);
        match anything {
            true => self.frontier.sync_beside(Box::new(then)),
            // Nothing is new in the table; the log knows whether anything is in it.
            false => self.frontier.sync(Box::new(then)),
        }
    }

    fn synced(self: &Arc<Self>, number: u64, ended: u64, result: Result<(), String>) {
        let mut state = self.lock();
        if result.is_ok() {
            state.unsynced.lasts(ended);
        }
        let at = state.syncs.iter().position(|sync| sync.number == number && sync.started);
        let Some(sync) = at.map(|at| state.syncs.swap_remove(at)) else { return };
        let outcome = match (&sync.done, result) {
            (Some(_), result) => state.tell(sync.moment, result).or(sync.failed).map_or(Ok(()), Err),
            (None, Err(error)) => {
                state.failed = Some(error);
                Ok(())
            }
            (None, Ok(())) => Ok(()),
        };
        let due = self.due_syncs(&mut state);
        let waiting = mem::take(&mut state.waiting);
        drop(state);
        due.into_iter().for_each(|sync| self.sync_disk(sync));
        waiting.into_iter().for_each(std::task::Waker::wake);
        if let Some(done) = sync.done {
            done(outcome);
        }
    }
}

#[cfg(test)]
#[path = "syncs_tests.rs"]
mod tests;
