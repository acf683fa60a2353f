//! What the engine does by itself: deletes in the background, checkpoints when they are due, requests that waited too long.

use std::io;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::layout::At;
use super::limits::{FRAME_PATIENCE, MAX_SHADOWS, TICK};
use super::options::Cleaning;
use super::page;
use super::state::{Inner, Out, State};
use crate::device::worker;
use crate::engine::Fetched;
use crate::memory::AlignedBuf;
use crate::terms::ReadError;

/// Pages cleaned in one go; then the rest is looked after.
const CLEANED_AT_ONCE: usize = 16;

/// A page is cleaned once one in so many of its records is to be deleted. Fewer wait until it is written out.
const DEAD_SHARE: usize = 4;

/// A page that is being cleaned.
struct Cleaned {
    at: At,
    from: Arc<AlignedBuf>,
    into: AlignedBuf,
    dead: Vec<u16>,
}

/// Start the engine's thread. Errors: the system has no more threads.
pub fn start(inner: &Arc<Inner>) -> io::Result<()> {
    let (weak, signal) = (Arc::downgrade(inner), inner.signal.clone());
    worker::spawn("tinaja-damelo", &inner.device, move |clock| {
        loop {
            let mut is_set = signal.is_set.lock();
            if !mem::take(&mut *is_set) {
                clock.wait_for(&signal.changed, &mut is_set, TICK);
                *is_set = false;
            }
            drop(is_set);
            let Some(inner) = weak.upgrade() else { return };
            inner.work();
        }
    })
}

impl Inner {
    /// Do what is due.
    pub(super) fn work(self: &Arc<Self>) {
        let mut out = Out::default();
        let mut state = self.state.lock();
        let now = self.now();
        for size in 0..2 {
            self.give_up_waiting(&mut state, size, &mut out);
            self.serve_wants(&mut state, size, &mut out);
        }
        if !self.options.read_only && !state.closed {
            let every = self.options.flush_every;
            if every.is_some_and(|every| now.saturating_duration_since(state.flushed) >= every) {
                state.flushed = now;
                self.ask_all(&mut state, &mut out);
            }
            let is_due = |group: &super::group::Group| {
                let period = group.period.filter(|period| !period.is_zero());
                period.is_some_and(|period| now.saturating_duration_since(group.checkpointed) >= period)
            };
            let due: Vec<_> =
                state.groups.iter().zip(0..).filter(|(group, _)| is_due(group)).map(|(_, number)| number).collect();
            if state.groups.iter().any(|group| group.pending.removed.len() > MAX_SHADOWS) {
                self.ask_nobody(&mut state, &mut out);
            }
            for number in due {
                if let Some(group) = state.group(number) {
                    group.checkpointed = now;
                }
                self.ask_for(&mut state, number, &mut out);
            }
        }
        // One that was put off.
        self.begin_round(&mut state, &mut out);
        drop(state);
        self.carry_out(out);
        if self.options.cleaning == Cleaning::Background {
            let cleaned = (0..CLEANED_AT_ONCE).take_while(|_| self.clean_one()).count();
            if cleaned == CLEANED_AT_ONCE {
                self.signal.set();
            }
        }
    }

    /// Tell those who have waited too long for a frame.
    fn give_up_waiting(self: &Arc<Self>, state: &mut State, size: usize, out: &mut Out) {
        let now = self.now();
        let residents = state.residents(size);
        let is_late = |at: &At| {
            let since = residents.pages.get(at).and_then(|resident| resident.since);
            since.is_some_and(|since| now.saturating_duration_since(since) >= FRAME_PATIENCE)
        };
        let (late, rest) = mem::take(&mut residents.wants).into_iter().partition::<Vec<_>, _>(is_late);
        residents.wants = rest.into();
        if residents.is_starved(now) {
            // They are told that the disk is too slow.
            out.wake(&mut residents.appends);
        }
        for at in late {
            self.loaded(state, at, Err(Fetched::Failed(ReadError::Device)), out);
        }
    }

    /// Delete what is to be deleted from one page in memory, into a second frame that then takes the place of the first. Who
    /// reads the first reads on. Whether there was one.
    fn clean_one(&self) -> bool {
        let Some(Cleaned { at, from, mut into, dead }) = self.to_clean() else { return false };
        into.copy_from_slice(&from);
        let copied = page::delete(&mut into, self.options.stamp, &dead);
        let size = self.size_of(at.group);
        let mut state = self.state.lock();
        let resident = state.residents(size).pages.get_mut(&at);
        let same = resident.filter(|resident| resident.frame.as_ref().is_some_and(|frame| Arc::ptr_eq(frame, &from)));
        let Some(resident) = same else {
            drop(state);
            self.pool(size).give(into);
            self.pool(size).retire(from);
            return true;
        };
        let old = resident.frame.replace(Arc::new(into));
        resident.is_dirty = true;
        if let Some(group) = state.group(at.group) {
            if let Some(left) = group.deletes.get_mut(&at.page) {
                left.retain(|slot| !dead.contains(slot));
                if left.is_empty() {
                    group.deletes.remove(&at.page);
                }
            }
            group.opened(at.page);
        }
        if self.is_void(&mut state, at) {
            self.drop_page(&mut state, at);
        }
        drop(state);
        drop(from);
        old.into_iter().for_each(|old| self.pool(size).retire(old));
        self.counts.compacted_pages.fetch_add(1, Relaxed);
        self.counts.compacted_bytes.fetch_add(copied as u64, Relaxed);
        true
    }

    /// A page in memory with much to delete, and a frame to clean it into.
    fn to_clean(&self) -> Option<Cleaned> {
        let mut state = self.state.lock();
        let State { groups, residents, .. } = &mut *state;
        let [ordinary, large] = residents;
        for (number, group) in groups.iter().enumerate() {
            let group_number = number as u32;
            let size = self.size_of(group_number);
            let residents = if size == 0 { &*ordinary } else { &*large };
            for (page, dead) in &group.deletes {
                let at = At { group: group_number, page: *page };
                let Some(resident) = residents.pages.get(&at).filter(|resident| !resident.is_writing) else { continue };
                let live = group.page(*page).map_or(0, |page| page.live + page.extents) as usize;
                let Some(from) = resident.frame.as_ref().filter(|_| dead.len() * DEAD_SHARE >= live + dead.len())
                else {
                    continue;
                };
                let into = self.pool(size).take()?;
                return Some(Cleaned { at, from: from.clone(), into, dead: dead.clone() });
            }
        }
        None
    }
}
