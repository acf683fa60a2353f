//! Reading a record.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;

use super::Inner;
use crate::engine::answer::{found, read_error};
use crate::engine::hashcache::places::at_moment;
use crate::engine::{FetchDone, Fetched, Found, Kind, Place};
use crate::layout::bin::{BIN_HEADER_BYTES, BinHeader, Content, Seen, read_pointer};
use crate::layout::disk_table::{Slot, View};
use crate::layout::log::{LogFault, RawRecord};
use crate::layout::reach::Reach;
use crate::layout::record::HEADER_BYTES;
use crate::layout::table::{Extent, Table};
use crate::terms::{Digest, ReadError};

impl Inner {
    /// See [`crate::engine::Engine::fetch`].
    pub(super) fn fetch(self: &Arc<Self>, id: &Digest, done: FetchDone) {
        if self.banned.has(id) {
            return done(Fetched::Missing);
        }
        if let Some((slot, moment)) = self.table.unwritten(id) {
            return self.answer(slot, moment, done);
        }
        let (id, set, fingerprint) = (*id, self.set_of(id.low()), self.fingerprint(id.low()));
        let row = if self.rows.is_index() { self.rows.update(set, |row| row.way_of(fingerprint)) } else { None };
        let (first, count) = match row {
            Some(None) => return done(Fetched::Missing),
            Some(Some(way)) => (self.first_bin(set) + way as u64, 1),
            None => (self.first_bin(set), self.ways()),
        };
        let engine = self.clone();
        let arrived = move |view: Option<View>| {
            let Some(view) = view else { return done(Fetched::Failed(ReadError::Device)) };
            if row.is_none() {
                engine.learn(set, &view);
            }
            match view.slot_of(&engine.table, &id) {
                Some(slot) => engine.answer(slot, view.moment, done),
                None => done(engine.not_there(row.is_some(), &view)),
            }
        };
        self.table.view(first, count, Box::new(arrived));
    }

    /// Why an object was not in the bin that the index named, or in its set.
    fn not_there(&self, was_named: bool, view: &View) -> Fetched {
        match view.seen(&self.table).first() {
            Some(Seen::Damaged) if was_named => return Fetched::Failed(ReadError::Corrupt),
            Some(Seen::Bin(_)) if was_named => drop(self.false_reads.fetch_add(1, Relaxed)),
            _ => {}
        }
        Fetched::Missing
    }

    /// Read whatever lies in a bin, for listings.
    pub(super) fn fetch_bin(self: &Arc<Self>, bin: u64, done: FetchDone) {
        let engine = self.clone();
        let arrived = move |view: Option<View>| {
            let Some(view) = view else { return done(Fetched::Failed(ReadError::Device)) };
            let id = match view.seen(&engine.table).first() {
                Some(Seen::Bin(header)) => header.id,
                _ => return done(Fetched::Missing),
            };
            match view.slot_of(&engine.table, &id) {
                Some(slot) => engine.answer(slot, view.moment, done),
                None => done(Fetched::Missing),
            }
        };
        self.table.view(bin, 1, Box::new(arrived));
    }

    fn answer(self: &Arc<Self>, slot: Slot, moment: u64, done: FetchDone) {
        let Slot { header, bytes, from_memory } = slot;
        let Some(payload) = self.table.stamp().bin_payload(&header, &bytes) else {
            self.table.damaged.fetch_add(1, Relaxed);
            return done(Fetched::Failed(ReadError::Corrupt));
        };
        let place = at_moment(moment.saturating_sub(self.first_order));
        match header.content {
            Content::Record(kind) => {
                let head_at = BIN_HEADER_BYTES + header.name_bytes;
                let body_at = head_at + header.head_bytes;
                let body = bytes.slice(body_at..body_at + header.body_bytes);
                let found = Fetched::Record(Found {
                    place,
                    kind,
                    id: header.id,
                    name: bytes.slice(BIN_HEADER_BYTES..head_at),
                    head: bytes.slice(head_at..body_at),
                    body: body.clone(),
                    from_memory,
                });
                match self.related(&header, &body) {
                    Some((at, bytes)) => {
                        // Its body is wanted next, and what is related to it soon: one request brings both.
                        let arrived = move |_: Result<RawRecord, LogFault>| done(found);
                        self.log.read_related(at, Some(header.id), bytes, header.reach, Box::new(arrived));
                    }
                    None => done(found),
                }
            }
            Content::Elsewhere => {
                let Some((at, bytes)) = read_pointer(payload) else {
                    return done(Fetched::Failed(ReadError::Corrupt));
                };
                let bytes = bytes.min(self.log.layout.max_record_bytes());
                let arrived = move |read: Result<RawRecord, LogFault>| {
                    done(match read.map(found) {
                        Ok(Fetched::Record(found)) if found.kind.is_indexed() => {
                            Fetched::Record(Found { place, from_memory: found.from_memory && from_memory, ..found })
                        }
                        Ok(_) | Err(LogFault::Gone | LogFault::Another) => Fetched::Missing,
                        Err(fault) => Fetched::Failed(read_error(fault)),
                    });
                };
                self.log.read_related(at, Some(header.id), bytes, header.reach, Box::new(arrived));
            }
        }
    }

    /// Where the body of a bin's object lies in the log, and its record's length, if what lies behind it is related to it.
    fn related(&self, header: &BinHeader, body: &Bytes) -> Option<(Place, usize)> {
        if self.log.ahead.is_none() || header.content != Content::Record(Kind::Large) || header.reach == Reach(0) {
            return None;
        }
        let &[Extent { place, bytes }] = &Table::decode(body)?.extents[..] else { return None };
        let own = HEADER_BYTES + bytes as usize;
        (header.reach.0 > Reach::of(place, own).0 && !self.log.is_in_memory(place)).then_some((place, own))
    }
}
