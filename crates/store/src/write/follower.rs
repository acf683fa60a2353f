//! A reader that follows an unfinished write.

use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;

use super::fill::{Fill, Phase};
use crate::extents::{ExtentReader, Wanted};
use crate::store::{Body, BodySource, Hit, Source, State};
use crate::terms::ReadError;

impl Fill {
    /// Read along from the first byte.
    pub(crate) fn follow(self: &Arc<Self>, reader: ExtentReader) -> Hit {
        self.follow_as(self.join(), reader)
    }

    /// Read along as the follower of this number, which has joined.
    pub(crate) fn follow_as(self: &Arc<Self>, number: u64, reader: ExtentReader) -> Hit {
        let follower = Follower { fill: self.clone(), reader, number, wanted: Wanted::all(u64::MAX), failed: None };
        let body = Body::from_source(Box::new(follower));
        Hit { head: self.head.clone(), state: State::Filling, source: Source::Fill, body }
    }
}

struct Follower {
    fill: Arc<Fill>,
    reader: ExtentReader,
    number: u64,
    wanted: Wanted,
    failed: Option<ReadError>,
}

impl Follower {
    fn poll_piece(&mut self, cx: &mut Context<'_>, max: usize) -> Poll<Result<Option<Bytes>, ReadError>> {
        let mut state = self.fill.lock();
        let left_behind = state.left_behind(self.number);
        if state.phase == Phase::Aborted && !left_behind {
            return Poll::Ready(Err(ReadError::Aborted));
        }
        let at = self.wanted.at();
        let want = self.wanted.bytes(max);
        if want == 0 {
            return Poll::Ready(Ok(None));
        }
        if let Some(skip) = at.checked_sub(state.base).filter(|_| !left_behind) {
            let skip = usize::try_from(skip).unwrap_or(usize::MAX);
            let whole_bytes = self.fill.hint.expected_bytes.filter(|_| at == 0);
            let piece = state.tail.piece(skip, want, whole_bytes);
            if !piece.is_empty() {
                self.wanted.took(piece.len());
                self.fill.read_to(&mut state, self.number, self.wanted.at());
                return Poll::Ready(Ok(Some(piece)));
            }
            if state.broken_off {
                return Poll::Ready(Err(ReadError::Aborted));
            }
            if state.phase == Phase::Whole {
                return Poll::Ready(Ok(None));
            }
            self.fill.wait(&mut state, cx);
            return Poll::Pending;
        }
        let first_bytes = state.first.len() as u64;
        if let Some(piece) =
            usize::try_from(at).ok().and_then(|at| state.first.get(at..)).filter(|left| !left.is_empty())
        {
            let piece = Bytes::copy_from_slice(piece.get(..want).unwrap_or(piece));
            self.wanted.took(piece.len());
            self.fill.read_to(&mut state, self.number, self.wanted.at());
            return Poll::Ready(Ok(Some(piece)));
        }
        let extent_bytes = self.fill.extent_bytes as u64;
        let numbers = self.wanted.extents(first_bytes, extent_bytes);
        let Some(&extent) = state.extents.get(numbers.start) else {
            return Poll::Ready(Err(ReadError::Behind));
        };
        drop(state);
        let fill = &self.fill;
        let others = || fill.lock().extents.iter().take(numbers.end).skip(numbers.start + 1).copied().collect();
        let read =
            ready!(self.reader.poll_piece(cx, extent, others, ((at - first_bytes) % extent_bytes) as usize, want));
        let piece = read.map_err(|error| self.fill.lock().told(error))?;
        if piece.is_empty() {
            return Poll::Ready(Err(ReadError::Corrupt));
        }
        self.wanted.took(piece.len());
        self.fill.read_to(&mut self.fill.lock(), self.number, self.wanted.at());
        Poll::Ready(Ok(Some(piece)))
    }
}

impl BodySource for Follower {
    fn length(&self) -> Option<u64> {
        let state = self.fill.lock();
        if state.phase == Phase::Whole { Some(state.arrived()) } else { self.fill.hint.expected_bytes }
    }

    fn seek(&mut self, range: Range<u64>) -> Result<(), ReadError> {
        self.wanted.seek(range, self.length())?;
        // A writer that must wait for its readers need not wait for what this one skips.
        self.fill.read_to(&mut self.fill.lock(), self.number, self.wanted.at());
        Ok(())
    }

    fn poll_next(&mut self, cx: &mut Context<'_>, max: usize) -> Poll<Result<Option<Bytes>, ReadError>> {
        if let Some(error) = self.failed {
            return Poll::Ready(Err(error));
        }
        let piece = ready!(self.poll_piece(cx, max));
        self.failed = piece.as_ref().err().copied();
        Poll::Ready(piece)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.fill.leave(self.number);
    }
}
