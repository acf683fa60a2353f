//! A circular log that can be read, one record at a time by its place.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;

use super::frontier::Frontier;
use super::record::{HEADER_BYTES, Header, Stamp};
use super::region::LogLayout;
use crate::device::{Device, Op, Outcome, Request};
use crate::engine::Place;
use crate::memory::AlignedBuf;
use crate::memory::aligned::{round_down, round_up};

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

/// Why a record could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFault {
    /// It was overwritten, or its region was given up.
    Gone,
    /// The bytes are not those that were written.
    Corrupt,
    /// The device failed.
    Device,
}

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
}

impl Log {
    /// Read the record at `place`; `guess` is its likely size in bytes. One request if the guess was large enough
    /// (or no request, while the record is still in memory), two otherwise. Memory: the record, or the guess.
    pub fn read(self: &Arc<Self>, place: Place, guess: usize, done: ReadDone) {
        if !self.frontier.is_live(place) {
            return done(Err(LogFault::Gone));
        }
        if let Some(bytes) = self.frontier.peek(place) {
            let outcome = self.parse(place, &bytes, 0, true).map_err(|_| LogFault::Corrupt);
            return done(outcome);
        }
        self.read_disk(place, guess.max(HEADER_BYTES), true, done);
    }

    fn read_disk(self: &Arc<Self>, place: Place, bytes: usize, may_grow: bool, done: ReadDone) {
        let block = self.device.geometry().block_bytes;
        let at = self.layout.device_offset(place);
        let region_end = at - place.0 % self.layout.region_bytes + self.layout.region_bytes;
        let start = round_down(at, block);
        let end = round_up(at + bytes as u64, block).min(region_end);
        let log = self.clone();
        let finish = move |outcome: Outcome| log.arrived(place, (at - start) as usize, outcome, may_grow, done);
        let into = AlignedBuf::zeroed((end - start) as usize);
        self.device.submit(Op { request: Request::Read { at: start, into }, done: Box::new(finish) });
    }

    fn arrived(self: &Arc<Self>, place: Place, skip: usize, outcome: Outcome, may_grow: bool, done: ReadDone) {
        let buffer = match (outcome.result, outcome.buffer) {
            (Ok(()), Some(buffer)) => Bytes::from_owner(buffer),
            (result, _) => {
                self.counters.read_errors.fetch_add(1, Relaxed);
                tracing::warn!("a record cannot be read: {:?}", result.err());
                return done(Err(LogFault::Device));
            }
        };
        match self.parse(place, &buffer, skip, false) {
            Ok(record) => done(Ok(record)),
            Err(Some(whole)) if may_grow => self.read_disk(place, whole, false, done),
            // What was overwritten while it was being read is no fault of the disk.
            Err(_) if !self.frontier.is_live(place) => done(Err(LogFault::Gone)),
            Err(_) => {
                self.counters.corrupt.fetch_add(1, Relaxed);
                done(Err(LogFault::Corrupt));
            }
        }
    }

    /// The record `skip` bytes into `bytes`; its size if there is more of it than that; `None` if there is none.
    fn parse(&self, place: Place, bytes: &Bytes, skip: usize, from_memory: bool) -> Result<RawRecord, Option<usize>> {
        let header = bytes.get(skip..).and_then(|bytes| self.stamp.header(bytes, place)).ok_or(None)?;
        if header.record_bytes() > self.layout.max_record_bytes() {
            return Err(None);
        }
        if bytes.len() - skip < header.record_bytes() {
            return Err(Some(header.record_bytes()));
        }
        let payload = bytes.slice(skip + HEADER_BYTES..skip + header.record_bytes());
        if !self.stamp.verifies(&header, &payload) {
            return Err(None);
        }
        Ok(RawRecord { header, payload, from_memory })
    }
}
