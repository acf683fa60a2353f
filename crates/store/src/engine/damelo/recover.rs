//! Opening: what the last checkpoints say, and what of it can be.
//!
//! Pages are not read. What a checkpoint says of them is a hint, and is verified when they are. Where two pages claim a frame,
//! or two groups an object, the newer one has it. After a crash nothing more is put on the pages that there are: which of
//! their slots were given out is not known, and no place may mean two records. And each page's life goes on beyond all that
//! it can have had since.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use super::checkpoint::Voids;
use super::group::{Group, JournalAt, Page, Removal};
use super::journal::{Entries, Replayed};
use super::layout::DameloLayout;
use super::limits::UNRECORDED_LIVES;
use super::options::DameloOptions;
use super::table::Spot;
use crate::device::{Device, blocking};
use crate::memory::aligned::{ALIGN, round_up};

/// How much of a journal is read at once.
const READ_BYTES: usize = 1 << 20;

/// Generations passed over where one may be there that cannot be read.
const SKIPPED: u64 = 1 << 32;

/// What was found.
pub struct Opened {
    pub groups: Vec<Group>,
    pub number: u64,
    pub epoch: u32,
    /// Checkpoints that did not verify to their end, and did not end well.
    pub damaged: u64,
}

/// Read all checkpoints. One that cannot be read is as one that is damaged: its group is empty.
pub fn read(device: &Arc<dyn Device>, options: &DameloOptions, now: Instant) -> Opened {
    let layout = &options.layout;
    let mut found = Vec::new();
    for group in 0..layout.groups() {
        found.push(last(device, options, group));
    }
    let is_new = found.iter().all(|(_, last, _)| !last.is_something());
    let is_clean = is_new || found.iter().all(|(_, last, _)| last.closed && !last.damaged);
    let before = found.iter().map(|(_, last, _)| last.epoch).max().unwrap_or(0);
    let epoch = before + u32::from(!is_clean);
    let damaged = found.iter().filter(|(_, last, _)| last.damaged).count() as u64;
    let mut opened = Opened { groups: Vec::new(), number: 0, epoch, damaged };
    let mut removed = Vec::new();
    for (number, (area, mut last, other)) in found.into_iter().enumerate() {
        opened.number = opened.number.max(last.number);
        removed.extend(std::mem::take(&mut last.removed).into_iter().map(|said| (number as u32, said)));
        let mut group = restore(layout, number as u32, area, last, epoch, is_clean, now);
        if other.is_whole() {
            group.journal.untold = Some((other.generation, other.next, other.used_bytes));
        }
        if other.damaged {
            // Should it be read again one day, it must not be taken for the newer one.
            (group.journal.skipped, group.journal.is_tainted) = (SKIPPED, true);
        }
        opened.groups.push(group);
    }
    newest_alone(&mut opened.groups);
    for (by, (id, number)) in removed {
        gone(&mut opened.groups, &Removal { id, number, by: Some(by) });
    }
    // What was changed and not kept since may have had these numbers.
    opened.number += if is_clean { 0 } else { 1 << 32 };
    opened
}

/// The last checkpoint of a group, in which area it is, and what the other one has. Where both are lost, though there was
/// something once, the group is empty, and [`Replayed::damaged`].
fn last(device: &Arc<dyn Device>, options: &DameloOptions, group: u32) -> (u32, Replayed, Replayed) {
    let first = area(device, options, group, 0);
    let second = area(device, options, group, 1);
    let newest = match (first.is_whole(), second.is_whole()) {
        (true, true) => u32::from(second.generation > first.generation),
        (_, is_whole) => u32::from(is_whole),
    };
    // One that is not told that it is the last no more is: what is in the other one did not come to last, or both hold the same.
    let (last, other) = if newest == 0 { (first, second) } else { (second, first) };
    if last.is_whole() {
        return (newest, last, other);
    }
    let damaged = last.is_something() || other.is_something();
    let generation = last.generation.max(other.generation);
    (newest, Replayed::lost(damaged, generation), Replayed::default())
}

/// What an area says. Bytes that cannot be read are damaged.
fn area(device: &Arc<dyn Device>, options: &DameloOptions, group: u32, area: u64) -> Replayed {
    let bytes = options.layout.class_of(group).area_bytes;
    let begins = options.layout.group_at(group) + area * bytes;
    let mut replayed = Replayed::default();
    // What was read and not taken yet, and where it begins.
    let (mut window, mut at, mut read, mut need) = (Vec::new(), 0_usize, 0, ALIGN);
    let mut is_taking = true;
    loop {
        let rest = window.get(at..).unwrap_or_default();
        if rest.len() < need && read < bytes {
            let more = (bytes - read).min(round_up(READ_BYTES.max(need) as u64, ALIGN as u64));
            window.drain(..at);
            at = 0;
            match blocking::read(&**device, begins + read, more as usize) {
                Ok(found) => window.extend_from_slice(&found),
                Err(_) => {
                    replayed.damaged = true;
                    return replayed;
                }
            }
            read += more;
            continue;
        }
        if rest.is_empty() {
            return replayed;
        }
        let before = need;
        need = ALIGN;
        let taken = if is_taking { replayed.block(rest, options.stamp, group, &mut need) } else { None };
        if let Some(taken) = taken {
            at += taken;
            continue;
        }
        if need > before && need as u64 <= bytes {
            // The block goes on behind what was read.
            continue;
        }
        need = ALIGN;
        if is_taking && replayed.generation == 0 && rest.iter().take(ALIGN).any(|byte| *byte != 0) {
            replayed.damaged = true;
            return replayed;
        }
        // Nothing follows here. Nor may it further on.
        if replayed.generation > 0 && replayed.is_later(rest, options.stamp, group) {
            replayed.damaged = true;
            return replayed;
        }
        is_taking = false;
        at += ALIGN.min(rest.len());
    }
}

fn restore(
    layout: &DameloLayout,
    number: u32,
    area: u32,
    replayed: Replayed,
    epoch: u32,
    is_clean: bool,
    now: Instant,
) -> Group {
    let mut group = Group::new(layout.class_of(number), layout.last_life(), now);
    if replayed.is_whole() {
        let Replayed { generation, used_bytes, next, .. } = replayed;
        group.journal = JournalAt { area, generation, used_bytes, next, ..JournalAt::default() };
    }
    if replayed.damaged {
        // What its pages have been through is not known. It begins anew, far from all that, and with a checkpoint that is newer
        // than any that may be there.
        group.journal = JournalAt {
            area,
            generation: replayed.generation,
            skipped: SKIPPED,
            is_tainted: true,
            ..JournalAt::default()
        };
        let floor = layout.last_life() / 2 + u64::from(epoch) * UNRECORDED_LIVES;
        group.pages.iter_mut().for_each(|page| page.floor = floor);
    }
    // The greatest number on a page tells which of two was written later.
    let mut claims: HashMap<u32, (u64, u32)> = HashMap::new();
    for entry in replayed.pages.values() {
        if let Some(frame) = entry.frame {
            let newest = entry.objects.iter().map(|(_, number, _)| *number).max().unwrap_or(0);
            let claim = claims.entry(frame).or_insert((newest, entry.page));
            if claim.0 < newest {
                *claim = (newest, entry.page);
            }
        }
    }
    for entry in replayed.pages.values() {
        let crashes = u64::from(epoch.saturating_sub(entry.epoch));
        let frame = entry.frame.filter(|frame| claims.get(frame).is_some_and(|(_, page)| *page == entry.page));
        let is_used = frame.is_some() && entry.frame < Some(layout.class_of(number).frames);
        let page = Page {
            life: entry.life,
            floor: entry.floor.max(entry.life) + crashes * UNRECORDED_LIVES,
            is_used,
            is_sealed: !is_clean,
            is_restored: true,
            frame: frame.filter(|_| is_used),
            durable: frame.filter(|_| is_used).map(|frame| (frame, entry.slots)),
            sent: entry.slots,
            extents: entry.extents,
            ..Page::default()
        };
        group.restore(entry.page, page);
    }
    group.restored();
    for (id, spot) in replayed.objects {
        if group.is_current(&spot) && group.has_room(true) {
            group.enter(id, spot);
        }
    }
    group
}

/// Of an object that several groups have, keep the newest.
fn newest_alone(groups: &mut [Group]) {
    for number in 0..groups.len() {
        let Some((group, others)) = groups.get_mut(..=number).and_then(|upto| upto.split_last_mut()) else { continue };
        let mut older = Vec::new();
        for (_, id, spot) in group.table.from(0) {
            for (other, by) in others.iter_mut().zip(0..) {
                match other.find(id) {
                    Some(there) if there.number > spot.number => {
                        older.push(Removal { id: *id, number: there.number, by: Some(by) });
                    }
                    Some(there) => {
                        forget(other, there, Removal { id: *id, number: spot.number, by: Some(number as u32) });
                    }
                    None => {}
                }
            }
        }
        for removal in older {
            if let Some(spot) = group.find(&removal.id) {
                forget(group, spot, removal);
            }
        }
    }
}

/// Forget what any group has of an object from before this number: it was removed, or replaced, and one group's journal says so.
/// A group that had an older version, from when the object was in that one, may not have been checkpointed since.
fn gone(groups: &mut [Group], removal: &Removal) {
    for group in groups {
        if let Some(spot) = group.find(&removal.id).filter(|spot| spot.number < removal.number) {
            forget(group, spot, *removal);
        }
    }
}

fn forget(group: &mut Group, spot: Spot, removal: Removal) {
    group.forget(&removal.id);
    group.delete(spot.page, spot.slot);
    group.pending.removed.push(removal);
}

/// Say in every journal that the cache is open, so that places that are given out from now on mean nothing else after a
/// crash. Errors: the device's.
pub fn say_open(
    device: &Arc<dyn Device>,
    inner: &super::state::Inner,
    groups: &mut [Group],
    (epoch, number): (u32, u64),
) -> Result<(), String> {
    let voids = Voids::of(groups, &HashMap::new(), 0);
    for (n, group) in groups.iter_mut().enumerate() {
        let mut changes = Entries::default();
        changes.opened(epoch, number);
        let say = |changes, voids: &Voids| {
            inner.blocks(group, n as u32, changes, || {
                let mut full = group.full(epoch, |_| Vec::new());
                voids.say(n as u32, false, &mut full);
                full.opened(epoch, number);
                full
            })
        };
        let (mut at, mut blocks) = say(changes, &voids);
        if at.used_bytes > inner.options.layout.class_of(n as u32).area_bytes {
            // Without what it says on behalf of others it fits, and it must be said that the cache is open.
            let mut changes = Entries::default();
            changes.opened(epoch, number);
            (at, blocks) = say(changes, &Voids::default());
        }
        for (offset, block) in blocks {
            blocking::write(&**device, offset, block).map_err(|error| format!("group {n}: {error}"))?;
        }
        group.journal = at;
    }
    blocking::sync(&**device).map_err(|error| error.to_string())
}
