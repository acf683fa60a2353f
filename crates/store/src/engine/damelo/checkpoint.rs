//! What a group's journal is told in a round, and where the blocks go. [`super::rounds`] says when.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::group::{Group, JournalAt, Removal};
use super::journal::{Entries, PageEntry};
use super::layout::At;
use super::rounds::Round;
use super::state::{Inner, Out, Shadow, State};
use crate::device::{Op, Outcome, Request, blocking};
use crate::memory::AlignedBuf;
use crate::terms::Digest;

/// Versions that are void for the sake of another group's newer one, though the journal of the group that has them may not
/// have heard of it. The other group's journal says so as well, where it says that pages are gone, on which the newer one may
/// have been, and where it begins anew and forgets what it has said.
#[derive(Default)]
pub struct Voids {
    removed: Vec<(u32, Removal)>,
    replaced: Vec<Removal>,
}

impl Voids {
    /// Those of these groups; and the versions replaced before this moment, which count if what replaced them lasts.
    pub fn of(groups: &[Group], shadows: &HashMap<At, Vec<Shadow>>, boundary: u64) -> Voids {
        let of_group =
            |(group, at): (&Group, u32)| group.pending.removed.iter().map(|said| (at, *said)).collect::<Vec<_>>();
        let replaced = |(at, of_page): (&At, &Vec<Shadow>)| {
            let others = of_page.iter().filter(|shadow| shadow.by_group != at.group && shadow.moment <= boundary);
            others.map(Shadow::removal).collect::<Vec<_>>()
        };
        Voids {
            removed: groups.iter().zip(0..).flat_map(of_group).collect(),
            replaced: shadows.iter().flat_map(replaced).collect(),
        }
    }

    /// Say what is void in other groups for the sake of this one; `lasts` if all that it has replaced comes to last.
    pub fn say(&self, group: u32, lasts: bool, entries: &mut Entries) {
        let removed = self.removed.iter().filter(|(at, _)| *at != group).map(|(_, removal)| removal);
        let replaced = self.replaced.iter().filter(|_| lasts);
        for removal in removed.chain(replaced).filter(|removal| removal.by == Some(group)) {
            entries.removed(&removal.id, removal.number);
        }
    }
}

impl Inner {
    /// Say in a group's journal what has come to last: the blocks are on their way then. Of a group that is not asked for, say
    /// what is gone.
    pub(super) fn write_journal(
        self: &Arc<Self>,
        state: &mut State,
        round: &mut Round,
        voids: &Voids,
        number: u32,
        out: &mut Out,
    ) {
        let (epoch, last, boundary) = (state.epoch, state.number, round.boundary);
        let State { groups, shadows, .. } = state;
        let Some(group) = groups.get_mut(number as usize) else { return };
        let is_asked = round.has(number);
        // One of which something was not written begins anew as soon as it can.
        let is_behind = group.journal.generation > 0 && group.journal.is_tainted;
        if !(is_asked || is_behind || group.pending.is_less()) {
            return;
        }
        let mut changes = Entries::default();
        // First of all, so that no crash in the midst of it keeps only that a newer version is gone.
        group.pending.removed.iter().for_each(|removal| changes.removed(&removal.id, removal.number));
        round.told.push((number, group.pending.removed.len()));
        if !group.pending.dropped.is_empty() {
            voids.say(number, is_asked, &mut changes);
        }
        for (page, life) in mem::take(&mut group.pending.dropped) {
            // It may have been begun anew; what that has become is said behind this.
            let floor = group.page(page).map_or(life, |page| page.floor.max(life));
            let entry = PageEntry { page, life, floor, epoch, ..PageEntry::default() };
            changes.page(&entry);
            round.recorded.push((At { group: number, page }, life));
        }
        let (taken, rest): (Vec<_>, Vec<_>) = mem::take(&mut group.pending.written)
            .into_iter()
            .partition(|written| is_asked && written.moment <= boundary);
        group.pending.written = rest;
        for written in taken {
            let mut entry = written.entry;
            // What is gone since it was written was said already, perhaps in a round before, or will not be said again.
            let shadowed = shadows.get(&At { group: number, page: entry.page });
            entry.objects.retain(|(slot, number, id)| {
                let there = group.find(id).map(|spot| (spot.page, spot.slot, spot.number));
                let mut of_page = shadowed.into_iter().flatten();
                there == Some((entry.page, *slot, *number))
                    || of_page.any(|shadow| shadow.slot == *slot && shadow.number == *number)
            });
            changes.page(&entry);
            round.recorded.push((At { group: number, page: entry.page }, entry.life));
            let before = group.page_mut(entry.page).and_then(|page| page.durable.replace((written.frame, entry.slots)));
            group.superseded.extend(before.map(|(frame, _)| frame));
        }
        let replaced = |at: &At, shadow: &Shadow| {
            is_asked && at.group == number && shadow.by_group == number && shadow.moment <= boundary
        };
        for (at, of_page) in shadows.iter() {
            of_page
                .iter()
                .filter(|shadow| replaced(at, shadow))
                .for_each(|shadow| changes.removed(&shadow.id, shadow.by));
        }
        // One of which something is left out is closed in another round.
        let closes = round.ask.closing && is_asked;
        if changes.is_empty() && !closes && !is_behind {
            group.checkpointed = self.now();
            return;
        }
        if closes {
            changes.closed(last);
        }
        let stays = |page: u32| -> Vec<(u16, u64, Digest)> {
            let at = At { group: number, page };
            let of_page = shadows.get(&at).into_iter().flatten();
            let stays = of_page.filter(|shadow| !replaced(&at, shadow));
            stays.map(|shadow| (shadow.slot, shadow.number, shadow.id)).collect()
        };
        let (at, blocks) = self.blocks(group, number, changes, || {
            let mut full = group.full(epoch, stays);
            // What was removed is not in it; and where that is an older version elsewhere, that group's list has it.
            voids.say(number, is_asked, &mut full);
            full.opened(epoch, last);
            if closes {
                full.closed(last);
            }
            full
        });
        if at.used_bytes > self.options.layout.class_of(number).area_bytes {
            // It is what is said on behalf of others, who are told in this round: in the next one there is less.
            round.bad.insert(number);
            round.failed.get_or_insert_with(|| format!("a checkpoint of group {number} does not fit its place yet"));
            return;
        }
        if at.area != group.journal.area {
            // A full checkpoint tells of every page.
            let lives = group.pages.iter().zip(0..).filter(|(page, _)| page.life > 0);
            round.recorded.extend(lives.map(|(page, n)| (At { group: number, page: n }, page.life)));
        }
        round.journals.push((number, at));
        round.blocks += blocks.len();
        for (offset, block) in blocks {
            let inner = self.clone();
            let done = move |outcome: Outcome| inner.on_block(number, outcome);
            let part = 0..block.len();
            let request = Request::Write { at: offset, from: Arc::new(block), part };
            out.ops.push(Op { request, done: Box::new(done) });
        }
        self.counts.checkpoints.fetch_add(1, Relaxed);
    }

    /// The blocks with these changes, where each goes, and where the journal will be then: behind what there is, or as a new
    /// full checkpoint in the other area.
    pub(super) fn blocks(
        &self,
        group: &Group,
        number: u32,
        changes: Entries,
        full: impl FnOnce() -> Entries,
    ) -> (JournalAt, Vec<(u64, AlignedBuf)>) {
        let (layout, stamp) = (&self.options.layout, self.options.stamp);
        let area_bytes = layout.class_of(number).area_bytes;
        let now = group.journal;
        let changes = changes.blocks(stamp, number, now.generation, now.next, false);
        let bytes: usize = changes.iter().map(Vec::len).sum();
        let (from, blocks) = match !now.is_tainted && now.used_bytes + bytes as u64 <= area_bytes {
            true => (now, changes),
            false => {
                let (area, generation) = (1 - now.area.min(1), now.generation + now.skipped + 1);
                let untold =
                    (now.generation > 0 && now.used_bytes > 0).then_some((now.generation, now.next, now.used_bytes));
                let from = JournalAt { area, generation, untold, ..JournalAt::default() };
                (from, full().blocks(stamp, number, generation, 0, true))
            }
        };
        let mut offset = layout.group_at(number) + u64::from(from.area) * area_bytes + from.used_bytes;
        let bytes: usize = blocks.iter().map(Vec::len).sum();
        let next = from.next + blocks.len() as u32;
        let at = JournalAt { used_bytes: from.used_bytes + bytes as u64, next, ..from };
        let told = if from.area == now.area { self.told(&now, number) } else { None };
        let at = if told.is_some() { JournalAt { untold: None, ..at } } else { at };
        let placed = blocks.into_iter().map(|block| {
            let mut buffer = AlignedBuf::zeroed(block.len());
            buffer.copy_from_slice(&block);
            let placed = (offset, buffer);
            offset += block.len() as u64;
            placed
        });
        (at, placed.chain(told).collect())
    }

    /// What tells the other area that it is not the last any more, now that the newer one lasts: a block behind what it has.
    fn told(&self, now: &JournalAt, number: u32) -> Option<(u64, AlignedBuf)> {
        let (generation, next, used_bytes) = now.untold?;
        let (layout, stamp) = (&self.options.layout, self.options.stamp);
        let area_bytes = layout.class_of(number).area_bytes;
        let mut moved = Entries::default();
        moved.moved(now.generation);
        let block = moved.blocks(stamp, number, generation, next, false).pop()?;
        let mut buffer = AlignedBuf::zeroed(block.len());
        buffer.copy_from_slice(&block);
        let other = 1 - now.area.min(1);
        let fits = used_bytes + block.len() as u64 <= area_bytes;
        Some((layout.group_at(number) + u64::from(other) * area_bytes + used_bytes, buffer)).filter(|_| fits)
    }

    /// After the last round: the same checkpoint in the other area too, so that one damage costs nothing.
    pub(super) fn copy_checkpoints(&self) {
        let mut state = self.state.lock();
        let (epoch, last, retired) = (state.epoch, state.number, state.health.is_retired());
        if self.options.read_only || retired {
            return;
        }
        let blocks: Vec<_> = state
            .groups
            .iter_mut()
            .zip(0..)
            .flat_map(|(group, number)| {
                group.journal.is_tainted = true;
                let full = || {
                    let mut full = group.full(epoch, |_| Vec::new());
                    full.opened(epoch, last);
                    full.closed(last);
                    full
                };
                self.blocks(group, number, Entries::default(), full).1
            })
            .collect();
        drop(state);
        for (offset, block) in blocks {
            if let Err(error) = blocking::write(&*self.device, offset, block) {
                tracing::warn!("the second copy of a checkpoint was not written, and there is one: {error}");
                return;
            }
        }
        let _ = blocking::sync(&*self.device);
    }
}
