//! Records that are not on disk: not yet, or since their write failed.

use bytes::Bytes;

use super::head::Head;
use super::{Flying, Frontier, FrontierState};
use crate::memory::AlignedBuf;
use crate::terms::Place;

impl Flying {
    fn has(&self, place: Place) -> bool {
        lies_within(place, self.at, self.len)
    }
}

fn lies_within(place: Place, at: Place, len: usize) -> bool {
    place >= at && place.0 < at.0 + len as u64
}

impl FrontierState {
    /// The batch being filled in which a place lies.
    fn batch_of(&self, place: Place) -> Option<&Head> {
        self.heads.iter().find(|head| lies_within(place, head.batch_at, head.batch_len))
    }
}

impl Frontier {
    /// Whether the record at a place is not on disk yet.
    pub fn is_in_memory(&self, place: Place) -> bool {
        let state = self.state.lock();
        state.batch_of(place).is_some() || state.flying.iter().any(|flying| flying.has(place))
    }

    /// Whether [`Frontier::peek`] has the record at a place: it is not on disk yet, or lately could not be written.
    pub fn is_kept(&self, place: Place) -> bool {
        let state = self.state.lock();
        state.batch_of(place).is_some() || state.flying.iter().chain(state.lost.batches()).any(|batch| batch.has(place))
    }

    /// The bytes of a record that is not on disk yet, or lately could not be written, copied; `None` if it is there, or
    /// never was.
    pub fn peek(&self, place: Place) -> Option<Bytes> {
        let state = self.state.lock();
        let copy = |buffer: &AlignedBuf, at: Place, len: usize| {
            let offset = usize::try_from(place.0.checked_sub(at.0)?).ok()?;
            let bytes = buffer.get(offset..len)?;
            let header = self.stamp.header(bytes, place)?;
            Some(Bytes::copy_from_slice(bytes.get(..header.record_bytes())?))
        };
        if let Some(head) = state.batch_of(place) {
            return copy(&head.batch, head.batch_at, head.batch_len);
        }
        let flying = state.flying.iter().chain(state.lost.batches()).find(|flying| flying.has(place))?;
        copy(&flying.buffer, flying.at, flying.len)
    }
}
