//! Frames: who leaves memory, and how pages get to the disk.
//!
//! A page that was changed is written to another frame of its group than the one a checkpoint names, so that a write which
//! a crash cuts short damages nothing that was kept. The frame of the older version is free once a checkpoint names the
//! newer one. So the paper's map from logical pages to frames (section 4) is also what makes checkpoints hold.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::group::Written;
use super::journal::PageEntry;
use super::layout::At;
use super::page;
use super::state::{Inner, Out, Shadow, State};
use crate::device::{Op, Outcome, Request};
use crate::memory::AlignedBuf;

/// When a frame is wanted and the pages whose turn it is are dirty, one part in so many of all frames is on its way to the disk
/// at once: more would be pages that are not full yet, and are written once more.
const WRITTEN_SHARE: usize = 16;

/// And not more than this: enough for the elevator to put in order.
const MOST_WRITTEN: usize = 64;

/// So many pages that are dirty or being written are looked at, at most, for one that can leave. Behind those others are
/// younger. Everybody who waits looks again whenever a frame is free: with thousands of frames that was most of the work.
const LOOKED_AT: usize = 256;

impl Inner {
    /// A frame of this size for the caller alone: a free one, or that of the page whose turn it is to leave. `None` if it
    /// has to be written first, or all are being read.
    pub(super) fn frame_for(self: &Arc<Self>, state: &mut State, size: usize, out: &mut Out) -> Option<AlignedBuf> {
        if let Some(free) = self.pool(size).take() {
            return Some(free);
        }
        let retired = state.health.is_retired();
        let residents = state.residents(size);
        let (mut victim, mut dirty) = (None, Vec::new());
        let mut writing = residents.writing;
        let most_writing = (residents.pages.len() / WRITTEN_SHARE).clamp(1, MOST_WRITTEN);
        let mut busy = 0;
        for (_, at) in residents.order.oldest_first() {
            let Some(resident) = residents.pages.get(at) else { continue };
            let alone = resident.frame.as_ref().is_some_and(|frame| Arc::strong_count(frame) == 1);
            if !resident.is_writing && alone && (!resident.is_dirty || retired) {
                victim = Some((*at, resident.is_dirty));
                break;
            }
            // Pages that are only read do not count: what waits for their readers must not be waited for.
            busy += usize::from(resident.is_writing || resident.is_dirty);
            if busy >= LOOKED_AT && writing > 0 {
                break;
            }
            if !resident.is_writing && alone && writing < most_writing {
                writing += 1;
                dirty.push(*at);
            }
        }
        for at in dirty {
            self.begin_write(state, at, out);
        }
        if let Some((at, is_dirty)) = victim {
            let frame = self.unload(state, at);
            if is_dirty {
                // The disk takes nothing any more.
                self.drop_page(state, at);
            }
            match frame.map(Arc::try_unwrap) {
                Some(Ok(frame)) => return Some(frame),
                Some(Err(read)) => self.pool(size).retire(read),
                None => {}
            }
        }
        // What was deleted whole on the way may have left its frame; and who lets go of one now tells.
        self.pool(size).want();
        let free = self.pool(size).take();
        if free.is_none() {
            let now = self.now();
            state.residents(size).starved.get_or_insert(now);
        }
        free
    }

    /// Take a page out of memory. Returns its frame.
    fn unload(&self, state: &mut State, at: At) -> Option<Arc<AlignedBuf>> {
        let residents = state.residents(self.size_of(at.group));
        let resident = residents.pages.remove(&at)?;
        resident.order.map(|order| residents.order.remove(order));
        if let Some(group) = state.group(at.group) {
            group.open.retain(|open| *open != at.page);
            group.filling = group.filling.filter(|filling| *filling != at.page);
        }
        resident.frame
    }

    /// Evict a page from memory and disk, with all that lies there. One that is being written or read stays in memory until
    /// that has ended.
    pub(super) fn drop_page(&self, state: &mut State, at: At) {
        let size = self.size_of(at.group);
        let is_busy = state.residents(size).pages.get(&at).is_some_and(|resident| resident.frame.is_none());
        if is_busy {
            return;
        }
        if let Some(frame) = self.unload(state, at) {
            self.pool(size).retire(frame);
        }
        let shadows = state.shadows.remove(&at).unwrap_or_default();
        state.shadow_count -= shadows.len();
        if let Some(group) = state.group(at.group) {
            group.drop_page(at.page);
            // The disk has them until it has heard of that. Other groups' journals must not forget earlier that they are void.
            let others = shadows.iter().filter(|shadow| shadow.by_group != at.group);
            group.pending.removed.extend(others.map(Shadow::removal));
        }
    }

    /// Make room in a group by evicting the page that was used longest ago; not `except`, and none that is on its way from
    /// or to the disk. Whether one left.
    pub(super) fn evict(&self, state: &mut State, group: u32, except: Option<u32>) -> bool {
        let size = self.size_of(group);
        let Some(pages) = state.groups.get(group as usize) else { return false };
        let [ordinary, large] = &state.residents;
        let residents = if size == 0 { ordinary } else { large };
        let is_busy = |page: u32| {
            residents
                .pages
                .get(&At { group, page })
                .is_some_and(|resident| resident.is_writing || resident.frame.is_none())
        };
        let oldest = pages.oldest_first().find(|page| Some(*page) != except && !is_busy(*page));
        let Some(page) = oldest else { return false };
        self.drop_page(state, At { group, page });
        self.counts.evicted_pages.fetch_add(1, Relaxed);
        true
    }

    /// Delete what is to be deleted from a page of which the caller has the frame alone. Whether anything was.
    pub(super) fn apply_deletes(&self, state: &mut State, at: At, frame: &mut AlignedBuf) -> bool {
        let Some(dead) = state.group(at.group).and_then(|group| group.deletes.remove(&at.page)) else { return false };
        let copied = page::delete(frame, self.options.stamp, &dead);
        self.counts.compacted_pages.fetch_add(1, Relaxed);
        self.counts.compacted_bytes.fetch_add(copied as u64, Relaxed);
        true
    }

    /// Whether nothing on a page is wanted any more.
    pub(super) fn is_void(&self, state: &mut State, at: At) -> bool {
        let shadowed = state.shadows.contains_key(&at);
        let page = state.group(at.group).and_then(|group| group.page(at.page));
        page.is_some_and(|page| page.is_used && page.live == 0 && page.extents == 0) && !shadowed
    }

    /// Write a page that was changed. Its deletes are applied first: in its own frame if nobody reads it, else in another
    /// one, if one is free.
    pub(super) fn begin_write(self: &Arc<Self>, state: &mut State, at: At, out: &mut Out) {
        let size = self.size_of(at.group);
        if self.is_void(state, at) {
            return self.drop_page(state, at);
        }
        let Some(mut resident) = state.residents(size).pages.remove(&at) else { return };
        if let Some(mut frame) = resident.frame.take() {
            if state.group(at.group).is_some_and(|group| group.deletes.contains_key(&at.page)) {
                if let Some(own) = Arc::get_mut(&mut frame) {
                    self.apply_deletes(state, at, own);
                } else if let Some(mut second) = self.pool(size).take() {
                    second.copy_from_slice(&frame);
                    self.apply_deletes(state, at, &mut second);
                    self.pool(size).retire(std::mem::replace(&mut frame, Arc::new(second)));
                }
            }
            if let Some(to) = self.frame_on_disk(state, at) {
                resident.is_dirty = false;
                resident.is_writing = true;
                state.residents(size).writing += 1;
                state.moment += 1;
                let written = self.said_of(state, at, &frame, to);
                let inner = self.clone();
                let done = move |outcome: Outcome| inner.on_written(at, written, outcome);
                let part = 0..frame.len();
                let request = Request::Write { at: self.frame_at(at.group, to), from: frame.clone(), part };
                out.ops.push(Op { request, done: Box::new(done) });
            }
            resident.frame = Some(frame);
        }
        state.residents(size).pages.insert(at, resident);
    }

    /// A frame on the disk that nobody wants, if need be that of the page used longest ago.
    fn frame_on_disk(self: &Arc<Self>, state: &mut State, at: At) -> Option<u32> {
        loop {
            let group = state.group(at.group)?;
            if let Some(frame) = group.take_frame() {
                return Some(frame);
            }
            if !self.evict(state, at.group, Some(at.page)) {
                // The only page: over itself.
                let group = state.group(at.group)?;
                let own = group.page(at.page)?.frame?;
                group.hold(own);
                return Some(own);
            }
        }
    }

    /// What a checkpoint will say of a page as it is in this frame: the objects that lookups find there, and those that
    /// were replaced by one that may not last yet.
    fn said_of(&self, state: &mut State, at: At, frame: &AlignedBuf, to: u32) -> Written {
        let (moment, epoch) = (state.moment, state.epoch);
        let shadows = state.shadows.get(&at).into_iter().flatten();
        let mut objects: Vec<_> = shadows
            .filter(|shadow| page::offset(frame, shadow.slot).is_some())
            .map(|shadow| (shadow.slot, shadow.number, shadow.id))
            .collect();
        let slots = page::slots(frame);
        let (mut life, mut floor, mut extents) = (0, 0, 0);
        if let Some(group) = state.group(at.group) {
            let ids = (0..slots as u16).filter_map(|slot| {
                let (_, id) = page::whose(frame, slot)?;
                let spot = group.find(&id)?;
                ((spot.page, spot.slot) == (at.page, slot)).then_some((slot, spot.number, id))
            });
            objects.extend(ids);
            if let Some(page) = group.page_mut(at.page) {
                page.sent = slots;
                (life, floor, extents) = (page.life, page.floor.max(page.life), page.extents);
            }
        }
        let entry = PageEntry { page: at.page, life, floor, epoch, frame: Some(to), slots, extents, objects };
        Written { moment, entry, frame: to }
    }

    fn on_written(self: &Arc<Self>, at: At, written: Written, outcome: Outcome) {
        let size = self.size_of(at.group);
        let mut out = Out::default();
        let mut state = self.state.lock();
        state.health.write_ended(outcome.result.is_ok());
        let residents = state.residents(size);
        residents.writing = residents.writing.saturating_sub(1);
        if let Some(resident) = residents.pages.get_mut(&at) {
            resident.is_writing = false;
        }
        match outcome.result {
            Ok(()) => {
                self.counts.pages_written.fetch_add(1, Relaxed);
                if let Some(group) = state.group(at.group) {
                    let to = written.frame;
                    group.hold(to);
                    let before = group.page_mut(at.page).and_then(|page| page.frame.replace(to));
                    before.into_iter().for_each(|before| group.let_go(before));
                    group.pending.written.push(written);
                }
            }
            Err(error) => {
                // Nobody knows what the frame holds now: it is never let go of. What only memory has is lost with the page,
                // as it would be a moment later.
                self.counts.write_errors.fetch_add(1, Relaxed);
                state.failed.get_or_insert_with(|| format!("a page was not written: {error}"));
                self.drop_page(&mut state, at);
            }
        }
        self.round_goes_on(&mut state, at, &mut out);
        if state.group(at.group).is_some_and(|group| group.wants_checkpoint()) {
            self.ask_for(&mut state, at.group, &mut out);
        }
        self.serve_wants(&mut state, size, &mut out);
        drop(state);
        self.carry_out(out);
    }

    /// Forget all pages in memory that are on the disk as they are and that nobody reads.
    pub(super) fn empty_pools(&self) {
        let mut state = self.state.lock();
        for size in 0..2 {
            let clean: Vec<_> = state
                .residents(size)
                .pages
                .iter()
                .filter(|(_, resident)| !resident.is_dirty && !resident.is_writing && resident.frame.is_some())
                .map(|(at, _)| *at)
                .collect();
            for at in clean {
                if let Some(frame) = self.unload(&mut state, at) {
                    self.pool(size).retire(frame);
                }
            }
        }
    }

    /// Pages of which something is to be deleted.
    pub(super) fn with_deletes(&self) -> Vec<At> {
        let state = self.state.lock();
        let of = |(group, number): (&super::group::Group, u32)| {
            group.deletes.keys().map(|page| At { group: number, page: *page }).collect::<Vec<_>>()
        };
        state.groups.iter().zip(0..).flat_map(of).collect()
    }

    /// Have a page that is in memory written out, with what is to be deleted taken out of it.
    pub(super) fn mark_dirty(&self, at: At) {
        let mut state = self.state.lock();
        if let Some(resident) = state.residents(self.size_of(at.group)).pages.get_mut(&at) {
            resident.is_dirty |= resident.frame.is_some();
        }
    }

    /// Write all pages that were changed, of these groups.
    pub(super) fn write_dirty(self: &Arc<Self>, state: &mut State, of: impl Fn(u32) -> bool, out: &mut Out) {
        let mut dirty: Vec<_> = state
            .residents
            .iter()
            .flat_map(|residents| &residents.pages)
            .filter(|(at, resident)| resident.is_dirty && !resident.is_writing && of(at.group))
            .map(|(at, _)| *at)
            .collect();
        // In their order they are given frames beside each other, and the same ones each time.
        dirty.sort_unstable();
        dirty.into_iter().for_each(|at| self.begin_write(state, at, out));
    }
}
