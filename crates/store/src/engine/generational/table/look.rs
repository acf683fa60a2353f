//! Reading an object: by what memory knows, and else by its page of the table.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::page::{self, Said, say};
use super::spot::Spot;
use super::{Current, Known, Table};
use crate::engine::answer::{found, read_error};
use crate::engine::segments::{Finds, Indexed};
use crate::engine::{FetchDone, Fetched, Place, Places};
use crate::layout::log::{LogFault, RawRecord};
use crate::terms::Digest;

/// Turns of a lookup at the most: one more whenever what it went by was replaced meanwhile.
const MOST_TURNS: u8 = 8;

/// Bytes that are read on behind a record that the table led to: found by simulation, `docs/lab/policies-memory.md`.
const ALONG: usize = 32 << 10;

/// A lookup on its way.
struct Lookup<I> {
    table: Arc<Table>,
    /// The records.
    reading: Arc<Indexed<I>>,
    id: Digest,
    spot: Spot,
    /// Where it was looked for last.
    tried: Option<Place>,
    /// What was wrong there, if the disk was: it may be another object's place, of a copy.
    fault: Option<LogFault>,
    turns: u8,
    done: FetchDone,
}

/// See [`crate::engine::Engine::fetch`]: of `places` the newest is tried first, if there is one.
pub fn fetch<I: Finds>(table: &Arc<Table>, reading: &Arc<Indexed<I>>, id: Digest, mut places: Places, done: FetchDone) {
    let spot = table.cut.spot(id.low());
    let (table, reading) = (table.clone(), reading.clone());
    let lookup = Lookup { table, reading, id, spot, tried: None, fault: None, turns: 0, done };
    match places.pop() {
        Some(place) => lookup.read(place, None),
        None => lookup.look(),
    }
}

impl<I: Finds> Lookup<I> {
    /// Read the record at a place, and learn what lies behind it if the table had to be read for this one.
    fn read(self, place: Place, by: Option<Arc<Current>>) {
        let (log, id, bytes) = (self.reading.log.clone(), self.id, self.reading.first_read(place));
        let (table, is_by_table) = (self.table.clone(), by.is_some());
        let arrived = move |read: Result<RawRecord, LogFault>| match read {
            Ok(record) if record.header.kind.is_indexed() => {
                if let Some(current) = by {
                    // What lies behind it may have pushed out its own copy, by which others tell that it is the newest.
                    self.table.keep_copy(self.spot, place, &current);
                }
                (self.done)(found(record));
            }
            Ok(_) | Err(LogFault::Another) => {
                self.reading.false_reads.fetch_add(1, Relaxed);
                Lookup { tried: Some(place), fault: None, ..self }.look();
            }
            Err(LogFault::Gone) => Lookup { tried: Some(place), fault: None, ..self }.look(),
            Err(fault) => Lookup { tried: Some(place), fault: Some(fault), ..self }.look(),
        };
        if !is_by_table {
            return log.read(place, Some(id), bytes, Box::new(arrived));
        }
        log.read_along(place, id, (bytes, ALONG), Box::new(arrived), move |place, header| {
            if header.kind.is_indexed() {
                table.keep_neighbour(header.id.low(), place);
            }
        });
    }

    /// Find out where it lies, without copies.
    fn look(mut self) {
        self.turns = self.turns.saturating_add(1);
        if self.turns > MOST_TURNS + 1 {
            return (self.done)(Fetched::Missing);
        }
        match self.table.known(self.spot) {
            Known::At(place) if self.may_try(place) => return self.read(place, None),
            Known::At(place) => return self.end(Some(place)),
            Known::Absent => return self.end(None),
            Known::Ask => {}
        }
        let current = self.table.current();
        let Some(number) = current.number.filter(|_| self.turns <= MOST_TURNS) else {
            return self.end(None);
        };
        let (log, saved) = (self.reading.log.clone(), self.table.plan.saved);
        let page = (number, self.table.cut.page(self.spot));
        self.table.reads.fetch_add(1, Relaxed);
        page::read(&log, saved, page, move |content| self.arrived(current, content));
    }

    fn may_try(&self, place: Place) -> bool {
        self.tried != Some(place) && self.turns <= MOST_TURNS
    }

    /// A page was read.
    fn arrived(self, current: Arc<Current>, content: Result<&[u8], LogFault>) {
        let (table, log) = (self.table.clone(), &self.reading.log);
        let content = match content {
            Ok(content) => content,
            // It was written over while it was being read.
            Err(LogFault::Corrupt) if table.current().number != current.number => return self.look(),
            Err(fault) => {
                let counted = if fault == LogFault::Device { &log.counters.read_errors } else { &log.counters.corrupt };
                counted.fetch_add(1, Relaxed);
                return (self.done)(Fetched::Failed(read_error(fault)));
            }
        };
        match say(&table.cut, content, self.spot, |slot| table.place_of(&current, slot)) {
            Said::At(place) if !table.keep_copy(self.spot, place, &current) => self.look(),
            Said::At(place) if self.may_try(place) => self.read(place, Some(current)),
            // It was stored, or written once more, while the page was being read.
            _ if table.changes.get(self.spot).is_some() => self.look(),
            Said::At(place) => self.end(Some(place)),
            Said::HasLeft => {
                table.note_returning(self.spot);
                self.end(None);
            }
            Said::Nothing => self.end(None),
        }
    }

    /// It was not found; the index leads there all the same, or nowhere.
    fn end(self, place: Option<Place>) {
        match (self.fault, self.tried) {
            (Some(fault), Some(tried)) if place == Some(tried) => {
                self.table.forget(self.id.low(), tried);
                (self.done)(Fetched::Failed(read_error(fault)));
            }
            _ => (self.done)(Fetched::Missing),
        }
    }
}
