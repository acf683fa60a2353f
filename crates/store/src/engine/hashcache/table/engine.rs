//! The engine's contract, over table, log and rows.

use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker, ready};

use super::figures::{BIN_BYTES, SET_BINS};
use super::open::state;
use super::{HashCacheTable, Inner};
use crate::device::blocking;
use crate::engine::answer::limits;
use crate::engine::closing;
use crate::engine::hashcache::places::{Where, at_bin, meaning};
use crate::engine::parts;
use crate::engine::{
    Buffered, Capabilities, Engine, FetchDone, Fetched, FirstBytes, Limits, Place, Placement, Places, Probe, Record,
    RelatedRuns, SyncDone,
};
use crate::index::ranks;
use crate::layout::Snapshots;
use crate::terms::{Digest, EngineFigures, Stats, WhyNot};

impl Engine for HashCacheTable {
    fn name(&self) -> &'static str {
        self.0.options.policy.name()
    }

    fn limits(&self) -> Limits {
        limits(&self.0.log.layout)
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            buffered: Some(self),
            related: self.0.log.ahead.is_some().then_some(self as &dyn RelatedRuns),
            together: Some(&self.0.log),
            first_bytes: Some(self),
            ..Capabilities::default()
        }
    }

    fn probe(&self, at: &Placement<'_>) -> Probe {
        let (engine, id) = (&self.0, &at.digest);
        let is_there = || {
            let (set, fingerprint) = (engine.set_of(id.low()), engine.fingerprint(id.low()));
            engine.rows.update(set, |row| row.way_of(fingerprint).is_some())
        };
        let absent = engine.banned.has(id) || (engine.rows.is_index() && is_there() == Some(false));
        if absent { Probe::Absent } else { Probe::AskDisk }
    }

    fn fetch(&self, at: &Placement<'_>, _places: Places, done: FetchDone) {
        self.0.fetch(&at.digest, done);
    }

    fn fetch_at(&self, id: &Digest, place: Place, body_bytes: usize, done: FetchDone) {
        let Where::Log(place) = meaning(place) else { return done(Fetched::Missing) };
        parts::fetch_at(&self.0.log, id, place, body_bytes, done);
    }

    fn poll_append(
        &self,
        cx: &mut Context<'_>,
        _at: &Placement<'_>,
        record: &Record<'_>,
    ) -> Poll<Result<Place, WhyNot>> {
        self.0.poll_append(cx, record)
    }

    fn poll_remove(&self, cx: &mut Context<'_>, at: &Placement<'_>) -> Poll<Result<Option<Place>, WhyNot>> {
        let removed = ready!(self.0.poll_append(cx, &Record::tombstone(at.digest)));
        if removed.is_err() {
            self.0.banned.add(&at.digest);
        }
        Poll::Ready(removed.map(Some))
    }

    fn is_newest(&self, at: &Placement<'_>, place: Place, _seen: Places) -> bool {
        let (Where::Moment(moment), id) = (meaning(place), &at.digest) else { return false };
        !self.0.banned.has(id)
            && !self.0.table.lock().changed_since(self.0.set_of(id.low()), self.0.first_order + moment)
    }

    fn keeps_body_at(&self, place: Place) -> bool {
        matches!(meaning(place), Where::Log(_))
    }

    fn goes_by_origin(&self) -> bool {
        false
    }

    /// A record that cannot be read stays in its bin, so that its next version takes its place.
    fn forget(&self, _at: &Placement<'_>, _place: Place) {}

    fn touch(&self, at: &Placement<'_>, _place: Place) {
        let id = &at.digest;
        let fingerprint = self.0.fingerprint(id.low());
        self.0.rows.update(self.0.set_of(id.low()), |row| {
            if let Some(way) = row.way_of(fingerprint) {
                ranks::touch(row, way);
            }
        });
    }

    fn is_live(&self, place: Place) -> bool {
        match meaning(place) {
            Where::Log(place) => self.0.log.frontier.is_live(place) && self.0.survivors.has(place),
            Where::Moment(moment) => self.0.table.lock().lasted(self.0.first_order + moment),
            Where::Bin(_) => true,
        }
    }

    fn sync(&self, _of: Option<&Digest>, done: SyncDone) {
        self.0.table.sync(done);
    }

    fn walk(&self, cursor: u64, most: usize) -> (Vec<Place>, Option<u64>) {
        let (engine, ways) = (&self.0, self.0.ways() as u64);
        let bins = engine.options.table.bins();
        let is_used = |bin: u64| {
            let row =
                engine.rows.is_index().then(|| engine.rows.update(bin / ways, |row| row.get((bin % ways) as usize)));
            row.flatten() != Some(0)
        };
        let (mut found, mut bin) = (Vec::new(), cursor);
        while bin < bins && found.len() < most.max(1) {
            found.extend(Some(at_bin(bin)).filter(|_| is_used(bin)));
            bin += 1;
        }
        (found, (bin < bins).then_some(bin))
    }

    fn fetch_any(&self, place: Place, done: FetchDone) {
        match meaning(place) {
            Where::Bin(bin) if bin < self.0.options.table.bins() => self.0.fetch_bin(bin, done),
            _ => done(Fetched::Missing),
        }
    }

    fn stats(&self) -> Stats {
        let Inner { log, table, options, .. } = &*self.0;
        let of_log = log.stats();
        Stats {
            slots: options.table.bins(),
            mean_object_bytes: options.mean_object_bytes,
            of_engine: EngineFigures::default()
                .with(&BIN_BYTES, options.table.block_bytes)
                .with(&SET_BINS, options.table.ways as u64),
            live_objects: self.0.rows.live(),
            lost_to_full_sets: self.0.lost_to_full_sets.load(Relaxed),
            capacity_bytes: options.table.bytes() + of_log.capacity_bytes,
            index_bytes: self.0.rows.index_bytes(),
            false_reads: self.0.false_reads.load(Relaxed),
            damaged_at_open: self.0.damaged_at_open,
            corrupt: of_log.corrupt + table.damaged.load(Relaxed),
            read_errors: of_log.read_errors + table.read_errors.load(Relaxed),
            ..of_log
        }
    }

    fn refuse_appends(&self) {
        self.0.table.lock().close().into_iter().for_each(Waker::wake);
        self.0.log.frontier.refuse();
    }

    fn close(&self, done: SyncDone) {
        let waiting = self.0.table.lock().close();
        waiting.into_iter().for_each(Waker::wake);
        let (engine, log) = (self.0.clone(), self.0.log.clone());
        let begin = |told: SyncDone| {
            self.0.table.sync(Box::new(move |table: Result<(), String>| {
                log.frontier.close(Box::new(move |log| told(table.and(log))));
            }));
        };
        closing::close(self.0.log.device.clone(), None, begin, move || engine.say_clean(), done);
    }
}

impl Buffered for HashCacheTable {
    fn is_in_memory(&self, place: Place) -> bool {
        matches!(meaning(place), Where::Log(place) if self.0.log.is_in_memory(place))
    }

    fn write_out(&self) {
        self.0.log.frontier.write_out();
    }
}

impl RelatedRuns for HashCacheTable {
    fn log_bytes(&self, record: &Record<'_>) -> usize {
        self.0.log_bytes(record)
    }
}

impl FirstBytes for HashCacheTable {
    fn first_bytes(&self, _id: &Digest, beside_bytes: usize) -> usize {
        self.0.first_bytes(beside_bytes)
    }
}

impl Inner {
    /// Write down that the table was closed cleanly, and the rows if all are in memory. A failure is logged: the next
    /// opening then takes the table to have been killed.
    fn say_clean(&self) {
        if self.options.read_only || self.log.frontier.is_retired() {
            return;
        }
        let device = &*self.log.device;
        let mut newest = self.snapshot.lock();
        let header = state(newest.number + 1, &self.log.layout, self.log.frontier.next(), true);
        let snapshots = Snapshots { device, layout: self.options.snapshots, stamp: self.options.stamp };
        match snapshots.write(header, |page| self.rows.page(page), || blocking::sync(device)) {
            Ok(()) => *newest = header,
            Err(error) => tracing::warn!("the index could not be written down, and will be read again: {error}"),
        }
    }
}
