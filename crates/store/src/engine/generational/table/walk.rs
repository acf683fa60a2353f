//! Listing what the index on the disk leads to, page after page: what the table says and has not changed, and what has. A listing knows
//! objects by their turns, and reads what each leads to when it comes.

use std::sync::Arc;

use super::changes::Change;
use super::look::fetch;
use super::page::{self, Merge};
use super::{Current, Table};
use crate::engine::segments::{Finds, Indexed, WAYS};
use crate::engine::{FetchDone, Fetched, Place, Places};

/// The page that a listing is at. Memory: four bytes an object.
pub struct Walked {
    /// Of the table that it is of.
    number: Option<u64>,
    page: u64,
    positions: Vec<u32>,
}

/// Turns that a page has: for as many objects as it has slots for, and as many that are new.
fn turns(table: &Table) -> u64 {
    table.cut.shape.sets_per_shard() * WAYS as u64 * 2
}

/// See [`crate::engine::Engine::walk`]: turns in the place of places.
pub fn walk(table: &Table, cursor: u64, most: usize) -> (Vec<Place>, Option<u64>) {
    let (turns, pages) = (turns(table), table.cut.shape.shards());
    let page = cursor / turns;
    // Before its first turn, nobody knows how many objects there are.
    let walked = table.walked.lock().as_ref().filter(|walked| walked.page == page).map(|walked| walked.positions.len());
    let known = walked.filter(|_| !cursor.is_multiple_of(turns)).map_or(turns, |known| (known as u64).min(turns));
    let end = page * turns + known;
    let to = cursor.saturating_add(most.max(1) as u64).min(end.max(cursor));
    let next = if to < end { to } else { (page + 1) * turns };
    ((cursor..to).map(Place).collect(), (next < pages * turns).then_some(next))
}

/// See [`crate::engine::Engine::fetch_any`]: by a turn. Whoever comes first to a page reads it.
pub fn fetch_any<I: Finds>(table: &Arc<Table>, reading: &Arc<Indexed<I>>, turn: Place, done: FetchDone) {
    let (page, nth) = (turn.0 / turns(table), (turn.0 % turns(table)) as usize);
    let current = table.current();
    let of_kept = |walked: &Walked| (walked.positions.get(nth).copied(), walked.number == current.number);
    let kept = table.walked.lock().as_ref().filter(|walked| walked.page == page && nth > 0).map(of_kept);
    if let Some((position, is_of_current)) = kept {
        return if is_of_current {
            read(table, reading, position, done)
        } else {
            confirm(table, reading, position, done)
        };
    }
    let Some(number) = current.number else {
        return keep(table, reading, Walked { number: None, page, positions: changed(table, page) }, nth, done);
    };
    let (table, reading, log) = (table.clone(), reading.clone(), reading.log.clone());
    page::read(&log, table.plan.saved, (number, page), move |content| {
        let mut positions = content.map(|content| unchanged(&table, &current, page, content)).unwrap_or_default();
        positions.extend(changed(&table, page));
        if table.current().number != Some(number) {
            // What has been merged meanwhile is in neither of the two.
            return fetch_any(&table, &reading, turn, done);
        }
        keep(&table, &reading, Walked { number: Some(number), page, positions }, nth, done);
    });
}

/// Where the slots of a page lead of which nothing has changed.
fn unchanged(table: &Table, current: &Current, page: u64, content: &[u8]) -> Vec<u32> {
    let (mut content, mut positions) = (content.to_vec(), Vec::new());
    let leads = |position| table.is_same(current, table.segment_at(position));
    Merge::new(&table.cut, page, &mut content).each(leads, |position, spot| {
        positions.extend(table.changes.get(spot).is_none().then_some(position));
    });
    positions
}

/// Where what has changed leads, of the sets of a page.
fn changed(table: &Table, page: u64) -> Vec<u32> {
    let changes = table.changes.in_sets(&table.cut.shape.sets_in(page)).into_iter();
    let there = |(_, change)| match change {
        Change::There { position, .. } => Some(position),
        Change::Removed | Change::Left => None,
    };
    changes.filter_map(there).collect()
}

fn keep<I: Finds>(table: &Table, reading: &Arc<Indexed<I>>, walked: Walked, nth: usize, done: FetchDone) {
    let position = walked.positions.get(nth).copied();
    *table.walked.lock() = Some(walked);
    read(table, reading, position, done);
}

/// Read what lay at a position when the page was read, if the table that has come since leads there still.
fn confirm<I: Finds>(table: &Arc<Table>, reading: &Arc<Indexed<I>>, position: Option<u32>, done: FetchDone) {
    let (looks, reads) = (table.clone(), reading.clone());
    let found = move |fetched: Fetched| {
        let Fetched::Record(found) = fetched else { return done(fetched) };
        let place = found.place;
        let is_it = move |again: Fetched| match again {
            Fetched::Record(found) if found.place == place => done(Fetched::Record(found)),
            Fetched::Record(_) => done(Fetched::Missing),
            other => done(other),
        };
        fetch(&looks, &reads, found.id, Places::default(), Box::new(is_it));
    };
    read(table, reading, position, Box::new(found));
}

fn read<I: Finds>(table: &Table, reading: &Arc<Indexed<I>>, position: Option<u32>, done: FetchDone) {
    match position.and_then(|position| table.place(position)) {
        Some(place) => reading.fetch_any(place, done),
        None => done(Fetched::Missing),
    }
}
