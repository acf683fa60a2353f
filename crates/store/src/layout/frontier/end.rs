//! What happens by the clock, and the end: old batches go out, syncs come due, the last region is closed.

use std::cmp::Reverse;
use std::mem;
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;

use tinaja_clock::Clock;

use super::syncs::Sync;
use super::{Frontier, FrontierState};
use crate::layout::limits::{WRITE_BEHIND, WRITE_BEHIND_OF_SEVERAL};
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
            Ok(()) => frontier.sync_beside(done),
            Err(error) => done(Err(error)),
        };
        state.syncs.push(Sync { up_to, done: Some(Box::new(then)), tells: true, hurries: true, failed: None });
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

/// Of batches of these ages, by the numbers of their logs, those that are to go, the oldest first: that one, if it is older than
/// [`WRITE_BEHIND`] and `one_more` may be written, and all that must not wait any longer. A disk with an arm has a seek for each.
fn old(ages: impl Iterator<Item = (Duration, usize)>, one_more: bool) -> Vec<usize> {
    let mut ages: Vec<_> = ages.filter(|(age, _)| *age >= WRITE_BEHIND).collect();
    ages.sort_unstable_by_key(|(age, log)| (Reverse(*age), *log));
    let goes = |(nth, (age, _)): &(usize, (Duration, usize))| *age >= WRITE_BEHIND_OF_SEVERAL || *nth == 0 && one_more;
    ages.into_iter().enumerate().filter(goes).map(|(_, (_, log))| log).collect()
}

/// Send old batches to the disk, and sync now and then, until the frontier is closed or dropped.
pub(super) fn write_behind(clock: &Clock, frontier: &Weak<Frontier>, flush_every: Option<Duration>) {
    let (mut flushed, mut sealed, mut turns) = (clock.now(), clock.now(), 0);
    while let Some(frontier) = frontier.upgrade() {
        let mut ops = Vec::new();
        let mut state = frontier.state.lock();
        if state.closed {
            return;
        }
        let heads = state.heads.iter().enumerate();
        let ages = heads.filter_map(|(log, head)| Some((clock.since(head.batch_since?), log)));
        for log in old(ages, clock.since(sealed) >= WRITE_BEHIND) {
            if !frontier.seal(&mut state, &mut ops, log) {
                break;
            }
            sealed = clock.now();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_logs_one_writes_at_a_time_and_none_waits_for_more_than_half_a_second() {
        let due = |ages: &[u64], one_more| {
            let ages = ages.iter().enumerate().map(|(log, age)| (Duration::from_millis(*age), log));
            old(ages, one_more)
        };
        assert_eq!(due(&[], true), []);
        assert_eq!(due(&[99], true), [], "it is young");
        assert_eq!(due(&[100], true), [0]);
        assert_eq!(due(&[150, 300, 99, 200], true), [1]);
        assert_eq!(due(&[150, 300, 99, 200], false), [], "another has just been written");
        assert_eq!(due(&[500, 700, 499], false), [1, 0]);
        assert_eq!(due(&[500, 700, 499, 500], true), [1, 0, 3]);
    }
}
