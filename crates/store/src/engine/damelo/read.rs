//! Reads: from a page in memory, or once that has been read.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;

use super::layout::{At, Slot};
use super::options::Cleaning;
use super::page::{self, Is};
use super::pool::{Pin, Pool};
use super::state::{Inner, Out, Resident, State, Waiting, Wanted};
use crate::device::{Op, Outcome, Request, lending};
use crate::engine::answer::found;
use crate::engine::{FetchDone, Fetched};
use crate::layout::log::RawRecord;
use crate::layout::record::HEADER_BYTES;
use crate::memory::AlignedBuf;
use crate::terms::ReadError;

/// A page with so many bytes free is worth being filled.
const WORTH_FILLING: usize = 1024;

/// A part of a frame that a reader holds.
pub struct Slice {
    pin: Pin<AlignedBuf>,
    from: usize,
    to: usize,
}

impl AsRef<[u8]> for Slice {
    fn as_ref(&self) -> &[u8] {
        self.pin.as_ref().get(self.from..self.to).unwrap_or_default()
    }
}

impl Inner {
    /// Read the record in a slot.
    pub(super) fn read(self: &Arc<Self>, slot: Slot, wanted: Wanted, done: FetchDone) {
        let (at, size) = (slot.at, self.size_of(slot.at.group));
        let mut out = Out::default();
        let mut state = self.state.lock();
        let there = state.group(at.group).is_some_and(|group| {
            group.page(at.page).is_some_and(|page| page.is_used && page.life == slot.life)
                && (wanted.even_deleted || !group.is_deleted(at.page, slot.slot))
        });
        if !there {
            drop(state);
            return done(Fetched::Missing);
        }
        self.note_use(&mut state, at.group, false);
        state.used(size, at);
        let waiting = Waiting { slot, wanted, done };
        match state.residents(size).pages.get_mut(&at) {
            Some(Resident { frame: Some(frame), .. }) => {
                let frame = frame.clone();
                drop(state);
                return self.answer(&frame, waiting, true);
            }
            // Somebody else carries this read out, or never does: nobody is made to wait for it.
            _ if lending::is_wanted() => self.read_apart(&mut state, waiting, &mut out),
            Some(resident) => resident.waiting.push(waiting),
            None => {
                let resident = Resident { waiting: vec![waiting], since: Some(self.now()), ..Resident::default() };
                state.residents(size).pages.insert(at, resident);
                self.load(&mut state, at, &mut out);
            }
        }
        drop(state);
        self.carry_out(out);
    }

    /// Read a page for one who asks, and not into the pool.
    fn read_apart(self: &Arc<Self>, state: &mut State, waiting: Waiting, out: &mut Out) {
        let (at, life) = (waiting.slot.at, waiting.slot.life);
        let frame = state.group(at.group).and_then(|group| group.page(at.page)?.frame);
        let Some(frame) = frame else {
            return out.after.push(Box::new(move || (waiting.done)(Fetched::Missing)));
        };
        let inner = self.clone();
        let done = move |outcome: Outcome| match outcome.buffer.filter(|_| outcome.result.is_ok()) {
            Some(frame) if page::is(&frame, inner.options.stamp, at, life) == Is::It => {
                inner.answer(&Arc::new(frame), waiting, false);
            }
            Some(_) => {
                inner.counts.corrupt.fetch_add(1, Relaxed);
                inner.forget(waiting.slot, waiting.wanted.id.as_ref());
                (waiting.done)(Fetched::Failed(ReadError::Corrupt));
            }
            None => (waiting.done)(Fetched::Failed(ReadError::Device)),
        };
        let into = AlignedBuf::with_own_pages(self.options.layout.class_of(at.group).frame_bytes as usize);
        out.ops.push(Op { request: Request::Read { at: self.frame_at(at.group, frame), into }, done: Box::new(done) });
    }

    /// Read a page that somebody waits for, or have it wait for a frame.
    pub(super) fn load(self: &Arc<Self>, state: &mut State, at: At, out: &mut Out) {
        let size = self.size_of(at.group);
        let of_page = state.group(at.group).and_then(|group| group.page(at.page).map(|page| (page.frame, page.life)));
        let Some((Some(frame), life)) = of_page else {
            // Never written, and not in memory: it cannot be.
            return self.loaded(state, at, Err(Fetched::Missing), out);
        };
        let Some(into) = self.frame_for(state, size, out) else {
            return state.residents(size).wants.push_back(at);
        };
        let inner = self.clone();
        let done = move |outcome: Outcome| inner.on_read(at, life, outcome);
        out.ops.push(Op { request: Request::Read { at: self.frame_at(at.group, frame), into }, done: Box::new(done) });
    }

    fn on_read(self: &Arc<Self>, at: At, life: u64, outcome: Outcome) {
        let size = self.size_of(at.group);
        let frame_bytes = self.options.layout.class_of(at.group).frame_bytes as usize;
        // A device that kept the buffer costs no frame.
        let frame = outcome.buffer.unwrap_or_else(|| AlignedBuf::with_own_pages(frame_bytes));
        let is = match outcome.result {
            Err(_) => Err(Fetched::Failed(ReadError::Device)),
            Ok(()) => match page::is(&frame, self.options.stamp, at, life) {
                Is::It => Ok(()),
                Is::Another => Err(Fetched::Missing),
                Is::Damaged => Err(Fetched::Failed(ReadError::Corrupt)),
            },
        };
        let mut out = Out::default();
        let mut state = self.state.lock();
        match is {
            Ok(()) => {
                self.counts.pages_read.fetch_add(1, Relaxed);
                self.loaded(&mut state, at, Ok(frame), &mut out);
            }
            Err(why) => {
                let counter = match why {
                    Fetched::Failed(ReadError::Device) => Some(&self.counts.read_errors),
                    Fetched::Failed(_) => Some(&self.counts.corrupt),
                    _ => None,
                };
                counter.map(|counter| counter.fetch_add(1, Relaxed));
                let keeps_page = matches!(why, Fetched::Failed(ReadError::Device));
                self.pool(size).give(frame);
                self.loaded(&mut state, at, Err(why), &mut out);
                if !keeps_page {
                    // Nothing on it can be found any more, whatever the tables say.
                    self.drop_page(&mut state, at);
                }
            }
        }
        self.serve_wants(&mut state, size, &mut out);
        drop(state);
        self.carry_out(out);
    }

    /// Tell all who wait for a page.
    pub(super) fn loaded(
        self: &Arc<Self>,
        state: &mut State,
        at: At,
        read: Result<AlignedBuf, Fetched>,
        out: &mut Out,
    ) {
        let size = self.size_of(at.group);
        let Some(mut resident) = state.residents(size).pages.remove(&at) else {
            if let Ok(frame) = read {
                self.pool(size).give(frame);
            }
            return;
        };
        let waiting = std::mem::take(&mut resident.waiting);
        let mut frame = match read {
            Ok(frame) => frame,
            Err(why) => {
                let tell = move || waiting.into_iter().for_each(|waiting| (waiting.done)(why.clone()));
                return out.after.push(Box::new(tell));
            }
        };
        self.find_dead(state, at, &frame);
        let has_deletes = state.group(at.group).is_some_and(|group| group.deletes.contains_key(&at.page));
        if has_deletes && self.options.cleaning == Cleaning::WithRequests {
            self.counts.compaction_waits.fetch_add(waiting.len() as u64, Relaxed);
            resident.is_dirty = self.apply_deletes(state, at, &mut frame);
        }
        let fillable = page::free_bytes(&frame) >= WORTH_FILLING;
        let frame = Arc::new(frame);
        resident.frame = Some(frame.clone());
        resident.since = None;
        let residents = state.residents(size);
        resident.order = Some(residents.order.insert(at));
        residents.pages.insert(at, resident);
        residents.fed();
        state.used(size, at);
        if let Some(group) = state.group(at.group).filter(|_| fillable) {
            group.opened(at.page);
        }
        let size_appends = &mut state.residents(size).appends;
        out.wake(size_appends);
        let inner = self.clone();
        let tell = move || waiting.into_iter().for_each(|waiting| inner.answer(&frame, waiting, false));
        out.after.push(Box::new(tell));
        if has_deletes {
            self.signal.set();
        }
    }

    /// Of a page that an earlier process filled: records that no table leads to are to be deleted. They were, and nothing says
    /// so but this.
    fn find_dead(&self, state: &mut State, at: At, frame: &AlignedBuf) {
        let shadowed: Vec<u16> = state.shadows.get(&at).into_iter().flatten().map(|shadow| shadow.slot).collect();
        let Some(group) = state.group(at.group) else { return };
        if !group.page_mut(at.page).is_some_and(|page| std::mem::take(&mut page.is_restored)) {
            return;
        }
        for slot in 0..page::slots(frame) as u16 {
            let Some((kind, id)) = page::whose(frame, slot) else { continue };
            let found = group.find(&id).is_some_and(|spot| (spot.page, spot.slot) == (at.page, slot));
            if kind.is_indexed() && !found && !shadowed.contains(&slot) && !group.is_deleted(at.page, slot) {
                group.delete(at.page, slot);
            }
        }
    }

    /// Tell somebody of a record in a frame. No lock is held.
    fn answer(&self, frame: &Arc<AlignedBuf>, waiting: Waiting, from_memory: bool) {
        let Waiting { slot, wanted, done } = waiting;
        let fetched = self.record(frame, slot, wanted, from_memory);
        if matches!(fetched, Fetched::Failed(ReadError::Corrupt)) {
            self.counts.corrupt.fetch_add(1, Relaxed);
            self.forget(slot, wanted.id.as_ref());
        }
        done(fetched);
    }

    /// The record in a slot of a frame, with every byte verified.
    fn record(&self, frame: &Arc<AlignedBuf>, slot: Slot, wanted: Wanted, from_memory: bool) -> Fetched {
        let place = self.options.layout.place(&slot);
        let Some(at) = page::offset(frame, slot.slot) else { return Fetched::Missing };
        let stamp = self.options.stamp;
        let header = frame.get(at..).and_then(|record| stamp.header(record, place));
        let range = header.map(|header| at + HEADER_BYTES..at + header.record_bytes());
        let payload = range.clone().and_then(|range| frame.get(range));
        let (Some(header), Some(range), Some(bytes)) = (header, range, payload) else {
            return Fetched::Failed(ReadError::Corrupt);
        };
        if !stamp.verifies(&header, bytes) {
            return Fetched::Failed(ReadError::Corrupt);
        }
        if wanted.id.is_some_and(|id| id != header.id) || (wanted.indexed && !header.kind.is_indexed()) {
            self.counts.false_reads.fetch_add(1, Relaxed);
            return Fetched::Missing;
        }
        let payload = match Pool::pin(self.pool(self.size_of(slot.at.group)), frame) {
            Some(pin) => Bytes::from_owner(Slice { pin, from: range.start, to: range.end }),
            None => {
                self.counts.copied_reads.fetch_add(1, Relaxed);
                Bytes::copy_from_slice(bytes)
            }
        };
        found(RawRecord { header, payload, from_memory })
    }

    /// Forget an object whose record cannot be read, if it still lies there.
    pub(super) fn forget(&self, slot: Slot, id: Option<&crate::terms::Digest>) {
        let mut state = self.state.lock();
        let Some(group) = state.group(slot.at.group) else { return };
        let lies_there = |spot: super::table::Spot| (spot.page, spot.slot) == (slot.at.page, slot.slot);
        if let Some(id) = id.filter(|id| group.find(id).is_some_and(lies_there)) {
            group.forget(id);
            group.delete(slot.at.page, slot.slot);
        }
    }

    /// Read the pages that wait for a frame, as far as there are frames.
    pub(super) fn serve_wants(self: &Arc<Self>, state: &mut State, size: usize, out: &mut Out) {
        while let Some(at) = state.residents(size).wants.pop_front() {
            let waits = state.residents(size).wants.len();
            self.load(state, at, out);
            if state.residents(size).wants.len() > waits {
                // It waits again, behind the others: there is no frame.
                state.residents(size).wants.rotate_right(1);
                break;
            }
        }
        let residents = state.residents(size);
        if !residents.appends.is_empty() {
            out.wake(&mut residents.appends);
        }
    }
}
