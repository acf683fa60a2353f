//! A circular log that can be read, one record at a time by its place.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;

use super::ahead::Ahead;
use super::frontier::Frontier;
use super::record::{Header, Stamp};
use super::region::LogLayout;
use crate::device::{Device, Op, Outcome, Request};
use crate::memory::Pool;
use crate::memory::aligned::{round_down, round_up};
use crate::terms::{Digest, Place, Stats};

/// A record as it was written, verified.
#[derive(Clone, Debug)]
pub struct RawRecord {
    /// Its header.
    pub header: Header,
    /// Name, head and body.
    pub payload: Bytes,
    /// Whether it was still in memory.
    pub from_memory: bool,
}

impl RawRecord {
    /// A copy that holds nothing of what was read with it: who reads an object slowly would keep all of a request of 1 MiB.
    pub(super) fn alone(self) -> RawRecord {
        RawRecord { payload: Bytes::copy_from_slice(&self.payload), ..self }
    }
}

/// Why a record could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFault {
    /// It was overwritten, or its region was given up.
    Gone,
    /// The bytes are not those that were written.
    Corrupt,
    /// The device failed.
    Device,
    /// It is another object's. Its header is sound; the rest of it was not looked at.
    Another,
}

/// So many bytes beside a record are kept as long as the record is: to copy it costs more.
const MOST_BESIDE: usize = 16 << 10;

/// Called with what was read.
pub type ReadDone = Box<dyn FnOnce(Result<RawRecord, LogFault>) + Send>;

/// Counters of what went wrong.
#[derive(Default)]
pub struct LogCounters {
    /// Records that did not verify.
    pub corrupt: AtomicU64,
    /// Reads that the device failed.
    pub read_errors: AtomicU64,
}

/// A circular log.
pub struct Log {
    /// Where it lies.
    pub device: Arc<dyn Device>,
    /// How it is cut.
    pub layout: LogLayout,
    /// How its records are stamped.
    pub stamp: Stamp,
    /// Where it grows.
    pub frontier: Arc<Frontier>,
    /// What went wrong.
    pub counters: LogCounters,
    /// Buffers to read into.
    pub pool: Arc<Pool>,
    /// What was read ahead; `None` where nothing is.
    pub ahead: Option<Ahead>,
}

/// What is to be read.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub(super) place: Place,
    /// Whose record, if only that of one object is of use.
    pub(super) of: Option<Digest>,
    /// Whether a second request may fetch more than was guessed.
    pub(super) may_grow: bool,
    /// Its likely size.
    pub(super) alone_bytes: usize,
    /// The number under which what lies behind it is read along.
    pub(super) ahead: Option<u64>,
}

/// Why bytes are not the wanted record.
pub(super) enum Unparsed {
    /// The record has so many bytes, and there are fewer.
    Longer(usize),
    /// See [`LogFault::Another`].
    Another,
    /// See [`LogFault::Corrupt`].
    Damaged,
}

impl Log {
    /// What the log and its device count; an engine adds its own.
    pub fn stats(&self) -> Stats {
        let next = self.frontier.next();
        let ahead = self.ahead.as_ref().map(Ahead::bytes).unwrap_or_default();
        Stats {
            capacity_bytes: self.layout.log_bytes(),
            frontier_bytes: next.0 % self.layout.log_bytes(),
            lap: self.layout.lap(next),
            corrupt: self.counters.corrupt.load(Relaxed),
            read_errors: self.counters.read_errors.load(Relaxed),
            write_errors: self.frontier.write_errors(),
            sync_errors: self.frontier.sync_errors(),
            disks_retired: u64::from(self.frontier.is_retired()),
            ahead_bytes: ahead.read,
            ahead_used_bytes: ahead.used,
            ahead_wasted_bytes: ahead.wasted,
            ..Stats::of_device(self.device.counters())
        }
    }

    /// Read the record at `place`, if it is that of `of`; `guess` is its likely size in bytes. One request if the guess
    /// was large enough (or no request, while the record is still in memory), two otherwise; of another object's record
    /// only the header is looked at. Memory: the record, or the guess.
    pub fn read(self: &Arc<Self>, place: Place, of: Option<Digest>, guess: usize, done: ReadDone) {
        if !self.frontier.is_live(place) {
            return done(Err(LogFault::Gone));
        }
        self.read_reachable(place, of, guess, done);
    }

    /// [`Log::read`], poisoned or not: for parts of an object that the caller knows to belong together. What could not be
    /// written is there for a while; what is read from the disk is verified like all else.
    pub fn read_reachable(self: &Arc<Self>, place: Place, of: Option<Digest>, guess: usize, done: ReadDone) {
        if !self.frontier.is_reachable(place) {
            return done(Err(LogFault::Gone));
        }
        let bytes = guess.max(self.layout.header_bytes());
        let wanted = Wanted { place, of, may_grow: true, alone_bytes: bytes, ahead: None };
        if let Some(bytes) = self.frontier.peek(place) {
            return done(self.parse(&wanted, &bytes, 0, true).map_err(|unparsed| match unparsed {
                Unparsed::Another => LogFault::Another,
                Unparsed::Longer(_) | Unparsed::Damaged => LogFault::Corrupt,
            }));
        }
        if let Some(done) = self.read_before(&wanted, bytes, done) {
            self.read_disk(wanted, bytes, done);
        }
    }

    pub(super) fn read_disk(self: &Arc<Self>, wanted: Wanted, bytes: usize, done: ReadDone) {
        let log = self.clone();
        self.request(wanted.place, bytes, move |skip, outcome| {
            log.arrived(wanted, skip, outcome, done);
            log.ahead_ended(wanted.ahead);
        });
    }

    /// Read so many bytes from a place on, or as many as its region has. `done` is told how many bytes into the buffer the place is.
    pub(super) fn request(&self, place: Place, bytes: usize, done: impl FnOnce(usize, Outcome) + Send + 'static) {
        let block = self.device.geometry().block_bytes;
        let at = self.layout.device_offset(place);
        let region_end = at - place.0 % self.layout.region_bytes + self.layout.region_bytes;
        let start = round_down(at, block);
        let end = round_up(at + bytes as u64, block).min(region_end);
        let into = self.pool.take((end - start) as usize);
        let done = move |outcome| done((at - start) as usize, outcome);
        self.device.submit(Op { request: Request::Read { at: start, into }, done: Box::new(done) });
    }

    fn arrived(self: &Arc<Self>, wanted: Wanted, skip: usize, outcome: Outcome, done: ReadDone) {
        let Some(buffer) = self.lent(outcome) else {
            if wanted.ahead.is_none() {
                return done(Err(LogFault::Device));
            }
            // Perhaps only what lies behind it cannot be read.
            return self.read_disk(Wanted { ahead: None, ..wanted }, wanted.alone_bytes, done);
        };
        match self.parse(&wanted, &buffer, skip, false) {
            Ok(record) => {
                self.keep_ahead(&wanted, &record, &buffer, skip);
                let is_alone = wanted.ahead.is_none() && buffer.len() <= record.header.record_bytes() + MOST_BESIDE;
                done(Ok(if is_alone { record } else { record.alone() }));
            }
            Err(Unparsed::Longer(whole)) if wanted.may_grow => {
                self.read_disk(Wanted { may_grow: false, ahead: None, ..wanted }, whole, done);
            }
            Err(unparsed) => done(Err(self.fault(&wanted, &unparsed))),
        }
    }

    /// What a request read; `None`, counted, if the device failed.
    pub(super) fn lent(&self, outcome: Outcome) -> Option<Bytes> {
        match (outcome.result, outcome.buffer) {
            (Ok(()), Some(buffer)) => Some(self.pool.lend(buffer)),
            (result, _) => {
                self.counters.read_errors.fetch_add(1, Relaxed);
                tracing::warn!("a record cannot be read: {:?}", result.err());
                None
            }
        }
    }

    /// What to say of bytes that are not the wanted record.
    pub(super) fn fault(&self, wanted: &Wanted, unparsed: &Unparsed) -> LogFault {
        match unparsed {
            Unparsed::Another => LogFault::Another,
            // What was overwritten while it was being read is no fault of the disk.
            _ if !self.frontier.is_live(wanted.place) => LogFault::Gone,
            _ => {
                self.counters.corrupt.fetch_add(1, Relaxed);
                LogFault::Corrupt
            }
        }
    }

    /// The wanted record, `skip` bytes into `bytes`.
    pub(super) fn parse(
        &self,
        wanted: &Wanted,
        bytes: &Bytes,
        skip: usize,
        from_memory: bool,
    ) -> Result<RawRecord, Unparsed> {
        let header = bytes.get(skip..).and_then(|bytes| self.stamp.header(bytes, wanted.place));
        let header = header.ok_or(Unparsed::Damaged)?;
        if wanted.of.is_some_and(|of| of != header.id) {
            return Err(Unparsed::Another);
        }
        if header.record_bytes() > self.layout.max_record_bytes() {
            return Err(Unparsed::Damaged);
        }
        if bytes.len() - skip < header.record_bytes() {
            return Err(Unparsed::Longer(header.record_bytes()));
        }
        let payload = bytes.slice(skip + header.header_bytes..skip + header.record_bytes());
        if !self.stamp.verifies(&header, &payload) {
            return Err(Unparsed::Damaged);
        }
        Ok(RawRecord { header, payload, from_memory })
    }
}
