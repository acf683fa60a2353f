//! Creates and removals: memory work, until a frame is wanted.

use std::sync::Arc;
use std::task::{Context, Poll};

use super::group::Removal;
use super::layout::{At, Slot};
use super::limits::MAX_SHADOWS;
use super::page;
use super::state::{Fate, Inner, Out, Resident, Shadow, State};
use super::table::Spot;
use crate::engine::{Kind, Place, Placement, Record};
use crate::layout::record::record_bytes;
use crate::memory::AlignedBuf;
use crate::terms::{Digest, WhyNot};

/// A page in memory with fewer bytes free is not looked at any more.
const FULL: usize = 256;

/// Where an object lay that was replaced or removed.
struct Old {
    at: At,
    spot: Spot,
}

impl Inner {
    /// What says which group an object belongs to: its site or what it is related to, as the options have it; else its digest.
    pub(super) fn said_of_group(&self, at: &Placement<'_>) -> u64 {
        let said = if self.options.by_site { at.site.or(at.group) } else { at.group.or(at.site) };
        said.unwrap_or_else(|| at.digest.high())
    }

    /// The group that an object belongs to, of those whose frames it fits. Numbers are taken as they are, modulo the number
    /// of groups.
    pub(super) fn group_of(&self, at: &Placement<'_>, record: &Record<'_>, bytes: usize) -> Option<u32> {
        let layout = &self.options.layout;
        let said = self.said_of_group(at);
        let is_large = layout.large.groups > 0 && record.kind == Kind::Extent;
        if bytes <= layout.ordinary.max_record_bytes() && !is_large {
            return Some((said % u64::from(layout.ordinary.groups)) as u32);
        }
        let fits = layout.large.groups > 0 && bytes <= layout.large.max_record_bytes();
        fits.then(|| layout.ordinary.groups + (said % u64::from(layout.large.groups)) as u32)
    }

    /// Put a record into a group. See [`crate::engine::Engine::poll_append`].
    pub(super) fn poll_create(
        self: &Arc<Self>,
        cx: &mut Context<'_>,
        at: &Placement<'_>,
        record: &Record<'_>,
    ) -> Poll<Result<Place, WhyNot>> {
        let Some(bytes) = record_bytes(record) else { return Poll::Ready(Err(WhyNot::TooLarge)) };
        let Some(group) = self.group_of(at, record, bytes) else { return Poll::Ready(Err(WhyNot::TooLarge)) };
        let sum = self.options.stamp.payload_sum(record);
        let size = self.size_of(group);
        let mut out = Out::default();
        let mut state = self.state.lock();
        let outcome = if state.closed {
            Poll::Ready(Err(WhyNot::Closed))
        } else if state.health.is_retired() {
            Poll::Ready(Err(WhyNot::Device))
        } else {
            match self.create(&mut state, group, record, bytes, sum, &mut out) {
                Some(slot) => Poll::Ready(Ok(self.options.layout.place(&slot))),
                None if state.residents(size).is_starved(self.now()) => Poll::Ready(Err(WhyNot::Slow)),
                None => {
                    let appends = &mut state.residents(size).appends;
                    if !appends.iter().any(|waker| waker.will_wake(cx.waker())) {
                        appends.push(cx.waker().clone());
                    }
                    Poll::Pending
                }
            }
        };
        drop(state);
        self.carry_out(out);
        outcome
    }

    fn create(
        self: &Arc<Self>,
        state: &mut State,
        group: u32,
        record: &Record<'_>,
        bytes: usize,
        sum: u64,
        out: &mut Out,
    ) -> Option<Slot> {
        let size = self.size_of(group);
        if record.kind.is_indexed() {
            while !state.group(group)?.has_room(false) {
                if !self.evict(state, group, None) && !state.group(group)?.has_room(true) {
                    return None;
                }
            }
        }
        let slot = match self.fill(state, group, record, bytes, sum) {
            Some(slot) => slot,
            None => {
                self.begin_page(state, group, out)?;
                self.fill(state, group, record, bytes, sum)?
            }
        };
        self.note_use(state, group, true);
        state.filled(size, slot.at);
        state.number += 1;
        if record.kind.is_indexed() {
            self.enter(state, &slot, record.id);
        } else if let Some(page) = state.group(group).and_then(|group| group.page_mut(slot.at.page)) {
            page.extents += 1;
        }
        if state.shadow_count > MAX_SHADOWS {
            self.ask_all(state, out);
        }
        Some(slot)
    }

    /// Put a record on a page in memory that has room and that nobody reads (section 4: the page is used exclusively).
    fn fill(&self, state: &mut State, group: u32, record: &Record<'_>, bytes: usize, sum: u64) -> Option<Slot> {
        let (size, stamp, layout) = (self.size_of(group), self.options.stamp, self.options.layout);
        let open = state.group(group)?.open.clone();
        for page in open.into_iter().rev() {
            let at = At { group, page };
            let life = state.group(group)?.page(page)?.life;
            let Some(resident) = state.residents(size).pages.get_mut(&at) else { continue };
            let Some(frame) = resident.frame.as_mut().filter(|_| !resident.is_writing) else { continue };
            let free = page::free_bytes(frame);
            let Some(own) = Arc::get_mut(frame).filter(|own| page::fits(own, bytes)) else {
                if free < FULL {
                    state.group(group)?.open.retain(|open| *open != page);
                }
                continue;
            };
            let slot = page::append(own, stamp, record, sum, |slot| layout.place(&Slot { at, slot, life }))?;
            resident.is_dirty = true;
            return Some(Slot { at, slot, life });
        }
        None
    }

    /// Begin a page of a group, in a frame in memory.
    fn begin_page(self: &Arc<Self>, state: &mut State, group: u32, out: &mut Out) -> Option<()> {
        let size = self.size_of(group);
        let mut frame = self.frame_for(state, size, out)?;
        let page = match state.group(group)?.begin() {
            Some(page) => Some(page),
            None if self.evict(state, group, None) => state.group(group)?.begin(),
            None => None,
        };
        let Some(page) = page else {
            self.pool(size).give(frame);
            // The disk is to hear of the lives that pages have had.
            self.ask_all(state, out);
            return None;
        };
        let at = At { group, page };
        let life = state.group(group)?.page(page)?.life;
        page::begin(&mut frame, self.options.stamp, at, life);
        let residents = state.residents(size);
        let order = Some(residents.order.insert(at));
        residents.pages.insert(at, Resident { frame: Some(Arc::new(frame)), order, ..Resident::default() });
        residents.fed();
        state.group(group)?.opened(page);
        Some(())
    }

    /// Lookups find the new version from now on. What it replaces is deleted some time, in whatever group it is (section 3:
    /// what maps objects to groups may change).
    fn enter(&self, state: &mut State, slot: &Slot, id: Digest) {
        let number = state.number;
        let spot = Spot { page: slot.at.page, slot: slot.slot, life: slot.life as u16, number };
        let mut old = Vec::new();
        for (other, group) in state.groups.iter_mut().enumerate() {
            let other = other as u32;
            let before = if other == slot.at.group { group.enter(id, spot) } else { group.forget(&id) };
            old.extend(before.map(|spot| Old { at: At { group: other, page: spot.page }, spot }));
        }
        for old in old {
            self.replaced(state, old, id, slot.at.group);
        }
    }

    /// A version was replaced. One that the disk has, or will have, must not be taken off its page before the newer one lasts.
    fn replaced(&self, state: &mut State, Old { at, spot }: Old, id: Digest, by: u32) {
        let (moment, number) = (state.moment, state.number);
        let Some(group) = state.group(at.group) else { return };
        let may_last = group.page(at.page).is_some_and(|page| u32::from(spot.slot) < page.sent);
        // In another group it stays even if the disk has not got it yet: the disk may have one before it, which the next checkpoint of
        // its group gives up for it.
        let is_other = at.group != by;
        if !is_other {
            group.delete(at.page, spot.slot);
        }
        if may_last || is_other {
            let shadow = Shadow { id, slot: spot.slot, number: spot.number, moment, by: number, by_group: by };
            state.shadows.entry(at).or_default().push(shadow);
            state.shadow_count += 1;
        }
    }

    /// Remove an object from all groups. Nothing is read or written: its bytes leave their page with the next deletes that
    /// are applied to it, and a checkpoint says that it is gone.
    pub(super) fn remove(&self, state: &mut State, id: &Digest) -> bool {
        state.number += 1;
        let number = state.number;
        let mut was_there = false;
        for group in &mut state.groups {
            if let Some(spot) = group.forget(id) {
                group.delete(spot.page, spot.slot);
                group.pending.removed.push(Removal { id: *id, number, by: None });
                was_there = true;
            }
        }
        if state.shadow_count > 0 {
            // What the disk still has of older versions must not come back either.
            state.end_shadows(|_, shadow| match shadow.id == *id {
                true => Fate::Void(Removal { number, ..shadow.removal() }),
                false => Fate::Stays,
            });
        }
        if was_there {
            self.signal.set();
        }
        was_there
    }

    /// The frame of a page in memory, for tests and for the paper's interface.
    pub(super) fn frame_in_memory(&self, at: At) -> Option<Arc<AlignedBuf>> {
        let mut state = self.state.lock();
        state.residents(self.size_of(at.group)).pages.get(&at)?.frame.clone()
    }
}
