//! Reading a record, and learning what lies behind it in the same request.

use std::iter;
use std::sync::Arc;

use bytes::Bytes;

use super::log::{Log, ReadDone, Unparsed, Wanted};
use super::record::Header;
use crate::device::Outcome;
use crate::memory::aligned::round_up;
use crate::terms::{Digest, Place};

/// Of the records behind one, so many are told of: who reads is not to wait for hundreds of small ones.
const MOST_BEHIND: usize = 32;

impl Log {
    /// [`Log::read`], and the same request reads so many bytes `more`: before `done` is told, `behind` is told the headers of the records
    /// that lie there, 32 at the most, of which nothing but the header was checked. Memory: those bytes, and the record or the guess.
    pub fn read_along(
        self: &Arc<Self>,
        place: Place,
        of: Digest,
        (guess, more): (usize, usize),
        done: ReadDone,
        mut behind: impl FnMut(Place, &Header) + Send + 'static,
    ) {
        if !self.frontier.is_live(place) || self.is_in_memory(place) {
            return self.read(place, Some(of), guess, done);
        }
        let wanted = Wanted { place, of: Some(of), may_grow: true, alone_bytes: guess, ahead: None };
        let log = self.clone();
        let arrived = move |skip: usize, outcome: Outcome| {
            let Some(buffer) = outcome.buffer.filter(|_| outcome.result.is_ok()) else {
                // Perhaps only what lies behind it cannot be read.
                return log.read_disk(wanted, guess, done);
            };
            let buffer = log.pool.lend(buffer);
            match log.parse(&wanted, &buffer, skip, false) {
                Ok(record) => {
                    let bytes = record.header.record_bytes();
                    for (place, _, header) in log.behind(&buffer, place, skip, bytes).take(MOST_BEHIND) {
                        behind(place, &header);
                    }
                    done(Ok(record.alone()));
                }
                Err(Unparsed::Longer(whole)) => {
                    log.read_disk(Wanted { may_grow: false, ..wanted }, whole, done);
                }
                Err(unparsed) => done(Err(log.fault(&wanted, &unparsed))),
            }
        };
        self.request(place, guess.saturating_add(more), arrived);
    }

    /// The records behind one of so many bytes, which lies `at` so many bytes into a buffer: their places, where in the buffer they
    /// begin, and their headers. The last may end beyond it.
    pub(super) fn behind<'a>(
        &'a self,
        buffer: &'a Bytes,
        place: Place,
        at: usize,
        bytes: usize,
    ) -> impl Iterator<Item = (Place, usize, Header)> + 'a {
        let from = place;
        let mut place = Place(round_up(from.0 + bytes as u64, self.layout.unit));
        iter::from_fn(move || {
            loop {
                let at = at + (place.0 - from.0) as usize;
                let bytes = buffer.get(at..).filter(|bytes| bytes.len() >= self.layout.header_bytes())?;
                match self.stamp.header(bytes, place) {
                    Some(header) => {
                        let found = (place, at, header);
                        place = Place(round_up(place.0 + header.record_bytes() as u64, self.layout.unit));
                        return Some(found);
                    }
                    // The next batch begins on a block.
                    None if place.0.is_multiple_of(self.layout.align) => return None,
                    None => place = Place(round_up(place.0, self.layout.align)),
                }
            }
        })
    }
}
