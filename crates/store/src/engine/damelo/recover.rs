//! Opening: what the last checkpoints say, and what of it can be.
//!
//! Pages are not read. What a checkpoint says of them is a hint, and is verified when they are. Where two pages claim a frame,
//! or two groups an object, the newer one has it. After a crash nothing more is put on the pages that there are: which of
//! their slots were given out is not known, and no place may mean two records. And each page's life goes on beyond all that
//! it can have had since.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use super::group::{Group, JournalAt, Page};
use super::journal::{Entries, Replayed};
use super::layout::DameloLayout;
use super::limits::UNRECORDED_LIVES;
use super::options::DameloOptions;
use crate::device::{Device, blocking};
use crate::memory::aligned::{ALIGN, round_up};

/// How much of a journal is read at once.
const READ_BYTES: usize = 1 << 20;

/// What was found.
pub struct Opened {
    pub groups: Vec<Group>,
    pub number: u64,
    pub epoch: u32,
    /// Checkpoints that did not verify to their end, and did not end well.
    pub damaged: u64,
}

/// Read all checkpoints. Errors: the device's.
pub fn read(device: &Arc<dyn Device>, options: &DameloOptions, now: Instant) -> Result<Opened, String> {
    let layout = &options.layout;
    let mut found = Vec::new();
    for group in 0..layout.groups() {
        found.push(last(device, options, group).map_err(|error| format!("checkpoint of group {group}: {error}"))?);
    }
    let is_new = found.iter().all(|(_, replayed)| replayed.generation == 0);
    let is_clean = is_new || found.iter().all(|(_, replayed)| replayed.closed);
    let before = found.iter().map(|(_, replayed)| replayed.epoch).max().unwrap_or(0);
    let epoch = before + u32::from(!is_clean);
    let mut opened = Opened { groups: Vec::new(), number: 0, epoch, damaged: u64::from(!is_clean && !is_new) };
    for (number, (area, replayed)) in found.into_iter().enumerate() {
        opened.number = opened.number.max(replayed.number);
        let group = restore(layout, number as u32, area, replayed, epoch, is_clean, now);
        opened.groups.push(group);
    }
    newest_alone(&mut opened.groups);
    // What was changed and not kept since may have had these numbers.
    opened.number += if is_clean { 0 } else { 1 << 32 };
    Ok(opened)
}

/// The newer of a group's two areas that has a whole full checkpoint.
fn last(device: &Arc<dyn Device>, options: &DameloOptions, group: u32) -> io::Result<(u32, Replayed)> {
    let first = area(device, options, group, 0)?;
    let second = area(device, options, group, 1)?;
    let mut all = [(0, first), (1, second)].into_iter().filter(|(_, replayed)| replayed.is_whole());
    let newest = all.by_ref().max_by_key(|(_, replayed)| replayed.generation);
    Ok(newest.unwrap_or((1, Replayed::default())))
}

fn area(device: &Arc<dyn Device>, options: &DameloOptions, group: u32, area: u64) -> io::Result<Replayed> {
    let bytes = options.layout.class_of(group).area_bytes;
    let begins = options.layout.group_at(group) + area * bytes;
    let mut replayed = Replayed::default();
    // What was read and not taken yet, and where it begins.
    let (mut window, mut at, mut need) = (Vec::new(), 0_usize, ALIGN);
    loop {
        let rest = window.get(at..).unwrap_or_default();
        match replayed.block(rest, options.stamp, group, &mut need) {
            Some(taken) => at += taken,
            None if rest.len() < need => {
                let read = replayed.used_bytes + rest.len() as u64;
                let more = (bytes - read.min(bytes)).min(round_up(READ_BYTES.max(need) as u64, ALIGN as u64));
                if more == 0 {
                    return Ok(replayed);
                }
                window.drain(..at);
                at = 0;
                window.extend_from_slice(&blocking::read(&**device, begins + read, more as usize)?);
            }
            None => return Ok(replayed),
        }
        need = ALIGN;
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
        group.journal = JournalAt { area, generation, used_bytes, next, is_tainted: false };
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
            for other in others.iter_mut() {
                match other.find(id) {
                    Some(there) if there.number > spot.number => older.push(*id),
                    Some(there) => {
                        other.forget(id);
                        other.delete(there.page, there.slot);
                        other.pending.removed.push((*id, spot.number));
                    }
                    None => {}
                }
            }
        }
        for id in older {
            if let Some(spot) = group.forget(&id) {
                group.delete(spot.page, spot.slot);
                group.pending.removed.push((id, spot.number + 1));
            }
        }
    }
}

/// Say in every journal that the cache is open, so that places that are given out from now on mean nothing else after a
/// crash. Errors: the device's.
pub fn say_open(
    device: &Arc<dyn Device>,
    inner: &super::state::Inner,
    groups: &mut [Group],
    (epoch, number): (u32, u64),
) -> Result<(), String> {
    for (n, group) in groups.iter_mut().enumerate() {
        let mut changes = Entries::default();
        changes.opened(epoch, number);
        let (at, blocks) = inner.blocks(group, n as u32, changes, || {
            let mut full = group.full(epoch, |_| Vec::new());
            full.opened(epoch, number);
            full
        });
        for (offset, block) in blocks {
            blocking::write(&**device, offset, block).map_err(|error| format!("group {n}: {error}"))?;
        }
        group.journal = at;
    }
    blocking::sync(&**device).map_err(|error| error.to_string())
}
