//! Listing what the table leads to. A listing knows slots by their numbers, and reads what each leads to when its turn comes: first those
//! of the table, in order, then those of what has changed.

use std::sync::Arc;

use super::changes::Change;
use super::{Current, Table};
use crate::device::{Op, Outcome, Request};
use crate::engine::segments::{Finds, Indexed, Set, WAYS};
use crate::engine::{FetchDone, Fetched, Place};
use crate::memory::AlignedBuf;

/// The page that a listing is at.
pub struct Walked {
    number: u64,
    page: u64,
    content: Arc<Vec<u8>>,
}

/// See [`crate::engine::Engine::walk`]: numbers of slots in the place of places.
pub fn walk(table: &Table, cursor: u64, most: usize) -> (Vec<Place>, Option<u64>) {
    let slots = table.slot_count();
    let last = slots + table.changes.cells();
    let to = cursor.saturating_add(most.max(1) as u64).min(last);
    // Of changes it is known which cells are empty.
    let is_there = |number: &u64| *number < slots || table.changes.nth(number - slots).is_some();
    ((cursor..to).filter(is_there).map(Place).collect(), (to < last).then_some(to))
}

/// See [`crate::engine::Engine::fetch_any`]: by the number of a slot. The last page that was read is kept, for the next ones.
pub fn fetch_any<I: Finds>(table: &Arc<Table>, reading: &Arc<Indexed<I>>, slot: Place, done: FetchDone) {
    if let Some(cell) = slot.0.checked_sub(table.slot_count()) {
        let place = match table.changes.nth(cell) {
            Some(Change::There { position, .. }) => table.place(position),
            _ => None,
        };
        return read(reading, place, done);
    }
    let (current, page) = (table.current(), table.cut.shape.shard_of(slot.0 / WAYS as u64));
    let Some(number) = current.number else { return done(Fetched::Missing) };
    let is_it = |walked: &&Walked| (walked.number, walked.page) == (number, page);
    let kept = table.walked.lock().as_ref().filter(is_it).map(|walked| walked.content.clone());
    if let Some(content) = kept {
        return read(reading, place_in(table, &current, slot, &content), done);
    }
    let (table, reading, saved) = (table.clone(), reading.clone(), table.plan.saved);
    let device = reading.log.device.clone();
    let arrived = move |outcome: Outcome| {
        let bytes = outcome.result.ok().and(outcome.buffer);
        let content = bytes.as_ref().and_then(|bytes| saved.content(table.plan.stamp, number, page, bytes));
        let Some(content) = content.map(|content| Arc::new(content.to_vec())) else { return done(Fetched::Missing) };
        *table.walked.lock() = Some(Walked { number, page, content: content.clone() });
        read(&reading, place_in(&table, &current, slot, &content), done);
    };
    let into = AlignedBuf::zeroed(saved.page_bytes() as usize);
    device.submit(Op { request: Request::Read { at: saved.page_at(number, page), into }, done: Box::new(arrived) });
}

/// Where a slot of a page leads, unless something has changed there: that has its own turn.
fn place_in(table: &Table, current: &Current, slot: Place, content: &[u8]) -> Option<Place> {
    let (set, way) = (slot.0 / WAYS as u64, (slot.0 % WAYS as u64) as usize);
    let mut bytes = content.get(table.cut.shape.bytes_of(set))?.to_vec();
    let slot = Set(&mut bytes).get(way);
    let has_changed = table.changes.get(table.cut.spot_in(set, slot.fingerprint)).is_some();
    table.place_of(current, &slot).filter(|_| !has_changed)
}

fn read<I: Finds>(reading: &Arc<Indexed<I>>, place: Option<Place>, done: FetchDone) {
    match place {
        Some(place) => reading.fetch_any(place, done),
        None => done(Fetched::Missing),
    }
}
