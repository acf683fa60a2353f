//! Records of one object that lie next to each other, read in one request.
//!
//! The parts of a large body are appended one after the other. Where nothing else was written between, they lie in a
//! row, but for the padding between two batches, and what a region leaves free because the next part did not fit. A disk
//! reads such a row in little more time than one of them. Each record is verified by itself.

use std::sync::Arc;

use super::log::{Log, LogFault, RawRecord, Wanted};
use crate::device::{Op, Outcome, Request};
use crate::memory::Pool;
use crate::memory::aligned::{round_down, round_up};
use crate::terms::{Digest, Place};

/// A record to be read: its place, and its length in bytes.
pub type Lying = (Place, usize);

/// Called with what was read: the first record or why not, and those behind it up to one that did not verify.
pub type RunDone = Box<dyn FnOnce(Vec<Result<RawRecord, LogFault>>) + Send>;

impl Log {
    /// How many of these records, from the first on, one request of at most `most_bytes` reads, and the memory that
    /// takes. One record if those behind it lie elsewhere, were overwritten, or need no disk.
    pub fn together(&self, records: &[Lying], most_bytes: usize) -> (usize, usize) {
        let Some(first) = records.first() else { return (0, 0) };
        let (mut count, mut bytes) = (1, self.request_bytes(first, first));
        if self.frontier.is_kept(first.0) {
            return (count, Pool::taken_by(bytes));
        }
        for (before, next) in records.iter().zip(records.iter().skip(1)) {
            // Behind the one before, or there is no request from the first to it: where several logs share the disk, parts of an object
            // may lie in two.
            if !self.adjoin(before, next) {
                break;
            }
            let longer = self.request_bytes(first, next);
            if longer > most_bytes || !self.frontier.is_reachable(next.0) || self.frontier.is_kept(next.0) {
                break;
            }
            (count, bytes) = (count + 1, longer);
        }
        (count, Pool::taken_by(bytes))
    }

    /// Read records that [`Log::together`] said lie together, whose object this is; poisoned or not, as
    /// [`Log::read_reachable`]. Memory: what [`Log::together`] said.
    pub fn read_run(self: &Arc<Self>, records: Vec<Lying>, of: Digest, done: RunDone) {
        let (Some(first), Some(last)) = (records.first().copied(), records.last().copied()) else {
            return done(Vec::new());
        };
        if !self.frontier.is_reachable(first.0) {
            return done(vec![Err(LogFault::Gone)]);
        }
        let start = round_down(self.layout.device_offset(first.0), self.device.geometry().block_bytes);
        let into = self.pool.take(self.request_bytes(&first, &last));
        let log = self.clone();
        let finish = move |outcome: Outcome| log.run_arrived(&records, of, start, outcome, done);
        self.device.submit(Op { request: Request::Read { at: start, into }, done: Box::new(finish) });
    }

    fn run_arrived(self: &Arc<Self>, records: &[Lying], of: Digest, start: u64, outcome: Outcome, done: RunDone) {
        let wanted = |place| Wanted { place, of: Some(of), may_grow: false, alone_bytes: 0, ahead: None };
        let Some(buffer) = self.lent(outcome) else {
            // Perhaps only what lies behind the first cannot be read.
            let Some((place, bytes)) = records.first() else { return done(Vec::new()) };
            return self.read_disk(wanted(*place), *bytes, Box::new(move |read| done(vec![read])));
        };
        let mut read = Vec::with_capacity(records.len());
        for (place, _) in records {
            let skip = (self.layout.device_offset(*place) - start) as usize;
            match self.parse(&wanted(*place), &buffer, skip, false) {
                Ok(record) => read.push(Ok(record)),
                Err(unparsed) if read.is_empty() => {
                    read.push(Err(self.fault(&wanted(*place), &unparsed)));
                    break;
                }
                // Whoever wants it asks for it, and is told then.
                Err(_) => break,
            }
        }
        done(read);
    }

    /// Whether a record lies right behind another.
    fn adjoin(&self, before: &Lying, next: &Lying) -> bool {
        let layout = &self.layout;
        let Some(gap) = next.0.0.checked_sub(before.0.0 + before.1 as u64) else { return false };
        let (region, next_region) = (layout.region_of(before.0), layout.region_of(next.0));
        if region == next_region {
            return gap < layout.align;
        }
        // The disk goes on where the region ends, but for the last of the log.
        let follows = next_region.0 == region.0 + layout.region_bytes && layout.region_number(next_region) > 0;
        follows && gap <= before.1 as u64
    }

    /// Bytes of the request that reads from one record to another, which does not lie before it.
    fn request_bytes(&self, first: &Lying, last: &Lying) -> usize {
        let block = self.device.geometry().block_bytes;
        let at = self.layout.device_offset(first.0);
        let end = at + (last.0.0 - first.0.0) + last.1 as u64;
        (round_up(end, block) - round_down(at, block)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Device, Medium, Memory};
    use crate::layout::log::LogCounters;
    use crate::layout::{Frontier, LogLayout, Stamp};

    /// Parts of an object once lay in two logs of one disk, the second before the first: what a request from one to the other
    /// would take was computed all the same, and the reader panicked.
    #[test]
    fn what_lies_before_is_not_read_together() {
        let device: Arc<dyn Device> = Arc::new(Memory::over(&Medium::zeroed(4 << 20)));
        let (layout, stamp) = (LogLayout::new(4096, 2 << 20, 4096).unwrap(), Stamp { seed: 7 });
        let region = layout.region_bytes;
        let start = Place(layout.log_bytes() + 3 * region);
        let frontier = Frontier::start(device.clone(), layout, stamp, start, None, None).unwrap();
        let log = Log {
            device,
            layout,
            stamp,
            frontier,
            counters: LogCounters::default(),
            pool: Arc::default(),
            ahead: None,
        };
        let at = |regions: u64, offset: u64| (Place(layout.log_bytes() + regions * region + offset), 4096);
        let together = |records: &[Lying]| log.together(records, 1 << 20).0;
        assert_eq!(together(&[at(1, 0), at(1, 4096), at(1, 8192)]), 3);
        assert_eq!(together(&[at(2, 0), at(1, 0)]), 1);
        assert_eq!(together(&[at(1, 4096), at(1, 8192), at(1, 0), at(2, 0)]), 2);
    }
}
