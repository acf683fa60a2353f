//! Checkpoints: rounds in which what was changed is made to last, of all groups or of some (section 3, `setCheckpoint`).
//!
//! A round writes the dirty pages of its groups; syncs; appends to each group's journal what changed; and syncs again. One
//! goes on at a time, beside reads and creates, which it never stops. Whoever asks meanwhile waits for the next.
//!
//! Order is what makes it hold. A journal speaks only of pages that a sync has made last. A page that was written after the
//! round began is left to the next one, for it may lack a version whose successor this round does not wait for.
//!
//! What is gone, each round says of every group, asked for or not. An object may have lain in another group before: once a
//! journal has heard of a newer version, no other journal may bring back an older one, even if the newer one is gone as well.
//! [`Voids`] says what one group's journal says on behalf of another's that has not heard yet.
//!
//! A page for which the disk has no frame while all others of its group are on their way stays out of a round, and its group with it: who asked
//! waits for the next.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use super::checkpoint::Voids;
use super::group::{JournalAt, Pending, Removal};
use super::layout::At;
use super::limits::FRAME_PATIENCE;
use super::state::{Fate, Inner, Out, Shadow, State};
use crate::device::{Op, Outcome, Request};
use crate::engine::SyncDone;
use crate::terms::Digest;

/// So many rounds leave a group out, and as long as anybody waits for a frame, before it is told that they do. Each waits for what is on its way to that group, or for the
/// engine's next turn, so the second one mostly has frames for it.
const MOST_LEFT_OUT: u32 = 100;

/// What the next round is to do.
#[derive(Default)]
pub struct Ask {
    /// Of which groups; all if it is empty and `all`.
    groups: BTreeSet<u32>,
    all: bool,
    /// Whether the cache is closed with it.
    pub(super) closing: bool,
    done: Vec<SyncDone>,
    /// Groups that the rounds before have left out.
    left_out: BTreeMap<u32, LeftOut>,
}

/// Of a group: how many rounds in a row have left it out, and since when.
#[derive(Clone, Copy)]
struct LeftOut {
    rounds: u32,
    since: Instant,
}

/// A round on its way.
pub struct Round {
    pub(super) ask: Ask,
    /// Groups that have pages for which there was no frame: nothing of them lasts with this round.
    left_out: BTreeMap<u32, LeftOut>,
    /// Whether something is on its way to each of those: when it has ended, there is a frame.
    is_waited_for: bool,
    /// Writes begun after this one are left to the next round.
    pub(super) boundary: u64,
    /// Pages on their way to the disk.
    writing: BTreeSet<At>,
    /// Blocks of journals on their way, and where each group's journal will be.
    pub(super) blocks: usize,
    pub(super) journals: Vec<(u32, JournalAt)>,
    /// Groups of which a block was not written.
    pub(super) bad: BTreeSet<u32>,
    /// How many of its removals each group's journal is told of.
    pub(super) told: Vec<(u32, usize)>,
    /// Lives that the disk has heard of, once it ends well.
    pub(super) recorded: Vec<(At, u64)>,
    pub(super) failed: Option<String>,
}

impl Ask {
    fn has(&self, group: u32) -> bool {
        self.all || self.groups.contains(&group)
    }
}

impl Round {
    /// Whether what was changed in a group lasts once it has ended well.
    pub(super) fn has(&self, group: u32) -> bool {
        self.ask.has(group) && !self.left_out.contains_key(&group)
    }
}

impl Inner {
    /// Checkpoint all groups, and tell.
    pub(super) fn sync_all(self: &Arc<Self>, closing: bool, done: SyncDone) {
        let mut out = Out::default();
        let mut state = self.state.lock();
        let ask = state.asked.get_or_insert_default();
        (ask.all, ask.closing) = (true, ask.closing || closing);
        ask.done.push(done);
        self.begin_round(&mut state, &mut out);
        drop(state);
        self.carry_out(out);
    }

    /// Checkpoint all groups some time; nobody is told.
    pub(super) fn ask_all(self: &Arc<Self>, state: &mut State, out: &mut Out) {
        state.asked.get_or_insert_default().all = true;
        self.begin_round(state, out);
    }

    /// Checkpoint one group some time; nobody is told.
    pub(super) fn ask_for(self: &Arc<Self>, state: &mut State, group: u32, out: &mut Out) {
        state.asked.get_or_insert_default().groups.insert(group);
        self.begin_round(state, out);
    }

    /// Say in the journals what is gone, some time; nobody is told.
    pub(super) fn ask_nobody(self: &Arc<Self>, state: &mut State, out: &mut Out) {
        state.asked.get_or_insert_default();
        self.begin_round(state, out);
    }

    /// Of a disk that was given up: what only memory has is lost, which is told once.
    fn let_go_of_new(&self, state: &mut State) {
        let all = state.residents.iter().flat_map(|residents| &residents.pages);
        let dirty: Vec<_> =
            all.filter(|(_, resident)| resident.is_dirty && !resident.is_writing).map(|(at, _)| *at).collect();
        dirty.into_iter().for_each(|at| self.drop_page(state, at));
        for group in &mut state.groups {
            group.pending = Pending::default();
        }
    }

    fn is_anything_new(&self, state: &State, ask: &Ask) -> bool {
        let changed = |at: &At, dirty: bool| dirty && ask.has(at.group);
        state
            .residents
            .iter()
            .flat_map(|residents| &residents.pages)
            .any(|(at, resident)| changed(at, resident.is_dirty || resident.is_writing))
            || state
                .groups
                .iter()
                .zip(0..)
                .any(|(group, n)| group.pending.is_less() || ask.has(n) && !group.pending.is_empty())
    }

    pub(super) fn begin_round(self: &Arc<Self>, state: &mut State, out: &mut Out) {
        if state.round.is_some() {
            return;
        }
        let Some(ask) = state.asked.take() else { return };
        if state.health.is_retired() || self.options.read_only {
            // What it has is served on; nothing more can be made to last.
            let is_new = self.is_anything_new(state, &ask);
            let failed =
                state.failed.take().or_else(|| is_new.then(|| "the disk was given up: it is only read".to_owned()));
            if !self.options.read_only {
                self.let_go_of_new(state);
            }
            if ask.done.is_empty() {
                // It is told to who asks next.
                state.failed = failed;
                return;
            }
            return tell(ask.done, failed.map_or(Ok(()), Err), out);
        }
        if !ask.closing && state.failed.is_none() && !self.is_anything_new(state, &ask) {
            return tell(ask.done, Ok(()), out);
        }
        self.write_dirty(state, |group| ask.has(group), out);
        let all = state.residents.iter().flat_map(|residents| &residents.pages);
        let unwritten = all.clone().filter(|(at, page)| page.is_dirty && !page.is_writing && ask.has(at.group));
        let now = self.now();
        let again = |group| {
            let before = ask.left_out.get(&group).copied().unwrap_or(LeftOut { rounds: 0, since: now });
            LeftOut { rounds: before.rounds + 1, ..before }
        };
        let left_out: BTreeMap<_, _> = unwritten.map(|(at, _)| (at.group, again(at.group))).collect();
        let writing: BTreeSet<At> =
            all.filter(|(at, resident)| resident.is_writing && ask.has(at.group)).map(|(at, _)| *at).collect();
        let boundary = state.moment;
        state.moment += 1;
        let failed = if ask.done.is_empty() { None } else { state.failed.take() };
        let is_waited_for = left_out.keys().all(|group| writing.iter().any(|at| at.group == *group));
        // Without the engine's thread nobody waits, and time may stand still.
        let is_late = |since| !self.options.threads || now.saturating_duration_since(since) >= FRAME_PATIENCE;
        let is_hopeless = left_out.values().any(|left| left.rounds > MOST_LEFT_OUT && is_late(left.since));
        let failed =
            failed.or_else(|| is_hopeless.then(|| "all frames of a group are on their way to the disk".to_owned()));
        state.round = Some(Round {
            ask,
            left_out,
            is_waited_for,
            boundary,
            writing,
            blocks: 0,
            journals: Vec::new(),
            bad: BTreeSet::new(),
            told: Vec::new(),
            recorded: Vec::new(),
            failed,
        });
        self.sync_if_written(state, out);
    }

    /// A write has ended.
    pub(super) fn round_goes_on(self: &Arc<Self>, state: &mut State, at: At, out: &mut Out) {
        let failed = state.failed.clone();
        let Some(round) = &mut state.round else { return };
        if !round.writing.remove(&at) {
            return;
        }
        if !round.ask.done.is_empty() && failed.is_some() {
            round.failed = round.failed.take().or(failed);
            state.failed = None;
        }
        self.sync_if_written(state, out);
    }

    fn sync_if_written(self: &Arc<Self>, state: &mut State, out: &mut Out) {
        if state.round.as_ref().is_none_or(|round| !round.writing.is_empty()) {
            return;
        }
        let inner = self.clone();
        let done = move |outcome: Outcome| inner.on_pages_synced(outcome);
        out.ops.push(Op { request: Request::Sync, done: Box::new(done) });
    }

    fn on_pages_synced(self: &Arc<Self>, outcome: Outcome) {
        let mut out = Out::default();
        let mut state = self.state.lock();
        state.health.sync_ended(outcome.result.is_ok());
        match outcome.result {
            Ok(()) => self.write_journals(&mut state, &mut out),
            Err(error) => {
                self.counts.sync_errors.fetch_add(1, Relaxed);
                self.distrust(&mut state);
                self.end_round(&mut state, Some(format!("pages were not synced: {error}")), &mut out);
            }
        }
        drop(state);
        self.carry_out(out);
    }

    /// A sync has failed: nobody knows which of the pages written since the last good one are on the disk. They are given up,
    /// and their frames are not used again.
    fn distrust(&self, state: &mut State) {
        for number in 0..state.groups.len() as u32 {
            let Some(group) = state.group(number) else { continue };
            let written: Vec<_> = group
                .pending
                .written
                .iter()
                .map(|written| (written.entry.page, written.entry.life, written.frame))
                .collect();
            for (page, life, frame) in written {
                let Some(group) = state.group(number) else { continue };
                group.hold(frame);
                if group.page(page).is_some_and(|page| page.is_used && page.life == life) {
                    self.drop_page(state, At { group: number, page });
                }
            }
        }
    }

    /// Say in each journal what has come to last.
    fn write_journals(self: &Arc<Self>, state: &mut State, out: &mut Out) {
        let Some(mut round) = state.round.take() else { return };
        self.void_orphans(state);
        let voids = Voids::of(&state.groups, &state.shadows, round.boundary);
        for number in 0..state.groups.len() as u32 {
            self.write_journal(state, &mut round, &voids, number, out);
        }
        let blocks = round.blocks;
        state.round = Some(round);
        if blocks == 0 {
            self.end_round(state, None, out);
        }
    }

    pub(super) fn on_block(self: &Arc<Self>, number: u32, outcome: Outcome) {
        let mut out = Out::default();
        let mut state = self.state.lock();
        state.health.write_ended(outcome.result.is_ok());
        if let Err(error) = outcome.result {
            self.counts.write_errors.fetch_add(1, Relaxed);
            if let Some(round) = &mut state.round {
                round.bad.insert(number);
                round.failed.get_or_insert_with(|| format!("a checkpoint of group {number} was not written: {error}"));
            }
        }
        if let Some(round) = &mut state.round {
            round.blocks -= 1;
            if round.blocks == 0 {
                let inner = self.clone();
                let done = move |outcome: Outcome| inner.on_journals_synced(outcome);
                out.ops.push(Op { request: Request::Sync, done: Box::new(done) });
            }
        }
        drop(state);
        self.carry_out(out);
    }

    fn on_journals_synced(self: &Arc<Self>, outcome: Outcome) {
        let mut out = Out::default();
        let mut state = self.state.lock();
        state.health.sync_ended(outcome.result.is_ok());
        let taken = state.round.as_mut().map(|round| {
            (mem::take(&mut round.journals), round.bad.clone(), round.told.iter().copied().collect::<HashMap<_, _>>())
        });
        let (journals, bad, told) = taken.unwrap_or_default();
        let failed = outcome.result.err().map(|error| {
            self.counts.sync_errors.fetch_add(1, Relaxed);
            format!("checkpoints were not synced: {error}")
        });
        for (number, at) in journals {
            let now = self.now();
            let Some(group) = state.group(number) else { continue };
            if failed.is_some() || bad.contains(&number) {
                group.journal.is_tainted = true;
                continue;
            }
            group.journal = at;
            group.checkpointed = now;
            for frame in mem::take(&mut group.superseded) {
                group.let_go(frame);
            }
            let told = told.get(&number).copied().unwrap_or(0).min(group.pending.removed.len());
            group.pending.removed.drain(..told);
        }
        self.end_round(&mut state, failed, &mut out);
        drop(state);
        self.carry_out(out);
    }

    fn end_round(self: &Arc<Self>, state: &mut State, failed: Option<String>, out: &mut Out) {
        let Some(round) = state.round.take() else { return };
        let failed = failed.or(round.failed.clone());
        if failed.is_none() {
            for (at, life) in &round.recorded {
                if let Some(page) = state.group(at.group).and_then(|group| group.page_mut(at.page)) {
                    page.floor = page.floor.max(*life);
                }
            }
            self.clear_shadows(state, &round);
        } else {
            // What was taken off the lists is in the next full checkpoint.
            for number in 0..state.groups.len() as u32 {
                let is_told = round.has(number) || round.told.iter().any(|(told, _)| *told == number);
                if let Some(group) = state.group(number).filter(|_| is_told) {
                    group.journal.is_tainted = true;
                }
            }
        }
        if state.health.is_retired() {
            // That is lost with what failed, and told with it.
            self.let_go_of_new(state);
        }
        if round.ask.all {
            state.flushed = self.now();
        }
        // What replaced a version in another group is said in the round after, and so is what was left out.
        let is_left = !round.left_out.is_empty();
        let is_open = round.ask.closing && self.is_anything_new(state, &round.ask);
        match failed.is_none() && (is_left || is_open) {
            true => {
                let ask = state.asked.get_or_insert_default();
                (ask.all, ask.closing) = (ask.all || round.ask.closing, ask.closing || round.ask.closing);
                ask.groups.extend(round.left_out.keys());
                ask.left_out.extend(round.left_out);
                ask.done.extend(round.ask.done);
            }
            false => {
                if round.ask.done.is_empty() && failed.is_some() {
                    // It is told to who asks next.
                    state.failed = state.failed.take().or(failed.clone());
                }
                tell(round.ask.done, failed.map_or(Ok(()), Err), out);
            }
        }
        for size in 0..2 {
            self.serve_wants(state, size, out);
        }
        // What is left out for pages that are being read would be left out again at once: the engine's thread begins the next one.
        if round.is_waited_for || !self.options.threads {
            self.begin_round(state, out);
        }
    }

    /// Versions that were replaced before the round began: what replaced them lasts now. With a version, all that are older are
    /// replaced, whatever replaced those.
    fn clear_shadows(&self, state: &mut State, round: &Round) {
        let lasts = |shadow: &Shadow| shadow.moment <= round.boundary && round.has(shadow.by_group);
        let mut newest: HashMap<Digest, Removal> = HashMap::new();
        for shadow in state.shadows.values().flatten().filter(|shadow| lasts(shadow)) {
            let removal = newest.entry(shadow.id).or_insert_with(|| shadow.removal());
            if removal.number < shadow.by {
                *removal = shadow.removal();
            }
        }
        state.end_shadows(|at, shadow| match newest.get(&shadow.id) {
            Some(newest) if shadow.number < newest.number => match lasts(shadow) && shadow.by_group == at.group {
                true => Fate::Told,
                false => Fate::Void(*newest),
            },
            _ => Fate::Stays,
        });
    }

    /// What replaced a version in another group may have left since, before it was on the disk: the version is void all the same, and
    /// that group's next checkpoint means it.
    fn void_orphans(&self, state: &mut State) {
        let all =
            || state.shadows.iter().flat_map(|(at, of_page)| of_page.iter().map(move |shadow| (at.group, shadow)));
        let others = || all().filter(|(group, shadow)| shadow.by_group != *group);
        // The newest that the other group has, in its table or replaced since.
        let in_table = |(_, Shadow { by_group, id, .. }): (u32, &Shadow)| {
            let spot = state.groups.get(*by_group as usize).and_then(|group| group.find(id));
            ((*by_group, *id), spot.map_or(0, |spot| spot.number))
        };
        let mut newest: HashMap<_, _> = others().map(in_table).collect();
        for (group, shadow) in all() {
            if let Some(number) = newest.get_mut(&(group, shadow.id)) {
                *number = shadow.number.max(*number);
            }
        }
        let is_orphan =
            |shadow: &Shadow| newest.get(&(shadow.by_group, shadow.id)).is_some_and(|last| *last < shadow.by);
        if others().any(|(_, shadow)| is_orphan(shadow)) {
            state.end_shadows(|at, shadow| match shadow.by_group != at.group && is_orphan(shadow) {
                true => Fate::Void(shadow.removal()),
                false => Fate::Stays,
            });
        }
    }
}

fn tell(done: Vec<SyncDone>, result: Result<(), String>, out: &mut Out) {
    if !done.is_empty() {
        out.after.push(Box::new(move || done.into_iter().for_each(|done| done(result.clone()))));
    }
}
