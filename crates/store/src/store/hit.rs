//! What a lookup finds: a head, and a body that is read in pieces.

use std::future::poll_fn;
use std::ops::Range;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};

use crate::terms::ReadError;

/// A found object. The head is already in memory and verified; the body is read through [`Body`].
#[derive(Debug)]
pub struct Hit {
    /// The head exactly as given to [`crate::Store::put`] or the last update of it.
    pub head: Bytes,
    /// Whether the object is stored whole or still being written.
    pub state: State,
    /// Where the first bytes came from.
    pub source: Source,
    /// The body. Memory: what one request read from disk at most (see [`BodySource`]).
    pub body: Body,
}

/// Whether an object is stored whole or is still being written by somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Committed.
    Whole,
    /// A [`crate::Writer`] is still at work; the body ends when it commits, and fails when it aborts.
    Filling,
}

/// Where a hit came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The hot objects in memory, or buffers not yet written to disk.
    Memory,
    /// The disk.
    Disk,
    /// An unfinished write.
    Fill,
    /// Another node's memory.
    Peer,
}

/// Where the pieces of a body come from, for implementations of [`crate::Store`].
pub trait BodySource: Send + Sync {
    /// The length of the whole body in bytes; `None` while a write of unknown length goes on.
    fn length(&self) -> Option<u64>;

    /// Go on reading at `range.start` and end at `range.end`. May be called at any time, several times.
    /// Errors: [`ReadError::Range`] when the range ends before it starts or lies outside a known length.
    fn seek(&mut self, range: Range<u64>) -> Result<(), ReadError>;

    /// The next piece, at most `max` bytes (`max` of 0 counts as 1); `None` at the end. Worst-case memory: what one
    /// request read, held by the reader: one part of the body, or [`crate::limits::MAX_REQUEST_BYTES`]; of a short body that is being
    /// written, the buffer that its writer cut it from; of one in two parts, a copy of up to 16 KiB. After an error
    /// every further call gives the same error.
    fn poll_next(&mut self, cx: &mut Context<'_>, max: usize) -> Poll<Result<Option<Bytes>, ReadError>>;
}

/// A range of a body of such a length, if known; an end of `u64::MAX` means the body's. Errors: [`ReadError::Range`].
pub(crate) fn within(range: Range<u64>, length: Option<u64>) -> Result<Range<u64>, ReadError> {
    let end = if range.end == u64::MAX { length.unwrap_or(u64::MAX) } else { range.end };
    let fits = range.start <= end && length.is_none_or(|length| end <= length);
    if fits { Ok(range.start..end) } else { Err(ReadError::Range) }
}

/// A body to be read in pieces; a body that is in memory whole costs no allocation.
pub struct Body(Inner);

enum Inner {
    Memory { bytes: Bytes, left: Range<usize> },
    Stream(Box<dyn BodySource>),
}

impl Body {
    /// A body that is in memory whole.
    pub fn from_bytes(bytes: Bytes) -> Self {
        let left = 0..bytes.len();
        Body(Inner::Memory { bytes, left })
    }

    /// A body that comes piece by piece.
    pub fn from_source(source: Box<dyn BodySource>) -> Self {
        Body(Inner::Stream(source))
    }

    /// Whether the body is in memory whole: its pieces are parts of it, of any size, and cost nothing.
    pub fn is_in_memory(&self) -> bool {
        matches!(self.0, Inner::Memory { .. })
    }

    /// The length of the whole body in bytes, whatever was read or sought; `None` if not known yet.
    pub fn len(&self) -> Option<u64> {
        match &self.0 {
            Inner::Memory { bytes, .. } => Some(bytes.len() as u64),
            Inner::Stream(source) => source.length(),
        }
    }

    /// Whether the body is known to be empty.
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }

    /// Read `range` (end excluded) from now on. `seek(0..u64::MAX)` reads from the start to the end, however long. A
    /// range with an end says that all of it is wanted: parts of it that lie together are read at once. Without one, the
    /// first read fetches one part of a long body.
    /// Errors: [`ReadError::Range`].
    pub fn seek(&mut self, range: Range<u64>) -> Result<(), ReadError> {
        match &mut self.0 {
            Inner::Stream(source) => source.seek(range),
            Inner::Memory { bytes, left } => {
                let range = within(range, Some(bytes.len() as u64))?;
                // Both fit in usize: they are at most the length of a slice.
                *left = range.start as usize..range.end as usize;
                Ok(())
            }
        }
    }

    /// The next piece, at most `max` bytes; `None` at the end. See [`BodySource::poll_next`].
    pub fn poll_next(&mut self, cx: &mut Context<'_>, max: usize) -> Poll<Result<Option<Bytes>, ReadError>> {
        match &mut self.0 {
            Inner::Stream(source) => source.poll_next(cx, max.max(1)),
            Inner::Memory { left, .. } if left.start >= left.end => Poll::Ready(Ok(None)),
            Inner::Memory { bytes, left } => {
                let end = left.end.min(left.start.saturating_add(max.max(1)));
                let piece = bytes.slice(left.start..end);
                left.start = end;
                Poll::Ready(Ok(Some(piece)))
            }
        }
    }

    /// [`Body::poll_next`] as a future.
    pub async fn next(&mut self, max: usize) -> Result<Option<Bytes>, ReadError> {
        poll_fn(|cx| self.poll_next(cx, max)).await
    }

    /// All that is left, refusing to hold more than `limit_bytes`.
    /// Errors: those of [`Body::next`]; [`ReadError::Range`] when there is more than the limit.
    pub async fn collect(&mut self, limit_bytes: usize) -> Result<Bytes, ReadError> {
        let mut all = BytesMut::new();
        while let Some(piece) = self.next(limit_bytes.max(1)).await? {
            if all.len() + piece.len() > limit_bytes {
                return Err(ReadError::Range);
            }
            all.extend_from_slice(&piece);
        }
        Ok(all.freeze())
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Body({:?} bytes)", self.len())
    }
}
