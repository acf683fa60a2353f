//! The body of a stored large object.

use std::ops::Range;
use std::task::{Context, Poll, ready};

use bytes::Bytes;

use super::extents::ExtentReader;
use super::wanted::Wanted;
use crate::engine::{Engine, Hold};
use crate::hit::{BodySource, ReadError};
use crate::layout::table::Table;

/// A body in extents.
pub(super) struct LargeBody {
    table: Table,
    reader: ExtentReader,
    wanted: Wanted,
    failed: Option<ReadError>,
    _hold: Hold,
}

impl LargeBody {
    /// A body that nobody has begun to read; `engine` holds what it can of it from here on.
    pub(super) fn new(table: Table, reader: ExtentReader, engine: &dyn Engine) -> Self {
        let wanted = Wanted::all(table.body_bytes);
        let places: Vec<_> = table.extents.iter().map(|extent| extent.place).collect();
        LargeBody { table, reader, wanted, failed: None, _hold: engine.hold(&places) }
    }

    /// The body, if it is one extent: an object whose body is gone must be a miss and not a broken answer. Of longer
    /// ones nothing is read here, since whoever wants their end should not pay for their beginning.
    pub(super) async fn only_piece(&mut self) -> Result<Option<Bytes>, ReadError> {
        let &[only] = &self.table.extents[..] else { return Ok(None) };
        std::future::poll_fn(|cx| self.reader.poll_extent(cx, only, Vec::new)).await.map(Some)
    }

    /// Whether part of it has been overwritten or could not be written, as far as is known without the disk: better a
    /// miss than an answer that breaks off.
    pub(super) fn has_left(&self, engine: &dyn Engine) -> bool {
        self.table.extents.iter().any(|extent| !engine.is_live(extent.place))
    }
}

impl BodySource for LargeBody {
    fn length(&self) -> Option<u64> {
        Some(self.table.body_bytes)
    }

    fn seek(&mut self, range: Range<u64>) -> Result<(), ReadError> {
        self.wanted.seek(range, self.length())
    }

    fn poll_next(&mut self, cx: &mut Context<'_>, max: usize) -> Poll<Result<Option<Bytes>, ReadError>> {
        if let Some(error) = self.failed {
            return Poll::Ready(Err(error));
        }
        let want = self.wanted.bytes(max);
        if want == 0 {
            return Poll::Ready(Ok(None));
        }
        let extent_bytes = u64::from(self.table.extent_bytes);
        let numbers = self.wanted.extents(extent_bytes);
        let Some((&extent, others)) = self.table.extents.get(numbers).and_then(<[_]>::split_first) else {
            return Poll::Ready(Err(ReadError::Corrupt));
        };
        let skip = (self.wanted.at() % extent_bytes) as usize;
        let piece = ready!(self.reader.poll_piece(cx, extent, || others.to_vec(), skip, want));
        match &piece {
            Ok(piece) => self.wanted.took(piece.len()),
            Err(error) => self.failed = Some(*error),
        }
        Poll::Ready(piece.map(Some))
    }
}
