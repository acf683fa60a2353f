//! The body of a stored large object.

use std::ops::Range;
use std::task::{Context, Poll, ready};

use bytes::Bytes;

use super::collect::{Collected, WhenRead};
use super::reader::ExtentReader;
use super::wanted::Wanted;
use crate::engine::{Engine, Hold};
use crate::layout::table::{Extent, Table};
use crate::memory::held::Share;
use crate::store::BodySource;
use crate::terms::ReadError;

/// A body of at most so many bytes is given in one piece: copying its two parts together costs less than sending them apart.
const JOINED_BYTES: u64 = 16 << 10;

/// A body in extents, but for its beginning where that came with the head.
pub(crate) struct LargeBody {
    table: Table,
    reader: ExtentReader,
    wanted: Wanted,
    failed: Option<ReadError>,
    /// Who is to have the whole of a body of one extent as soon as that is read.
    told: Option<WhenRead>,
    /// A longer one is put together from the pieces that its reader is given.
    collected: Option<Collected>,
    _hold: Hold,
}

impl LargeBody {
    /// A body that nobody has begun to read; `engine` holds what it can of it from here on.
    pub(crate) fn new(table: Table, reader: ExtentReader, engine: &dyn Engine) -> Self {
        let wanted = Wanted::all(table.body_bytes());
        let places: Vec<_> = table.extents.iter().map(|extent| extent.place).collect();
        LargeBody { table, reader, wanted, failed: None, told: None, collected: None, _hold: engine.hold(&places) }
    }

    /// Whether nothing of it came with the head.
    pub(crate) fn begins_in_extents(&self) -> bool {
        self.table.first.is_empty()
    }

    /// Whether what does not come with the head is one extent.
    pub(crate) fn is_in_one_extent(&self) -> bool {
        self.table.extents.len() == 1
    }

    /// Tell when the extent of a body that has one has been read.
    pub(crate) fn telling(mut self, told: WhenRead) -> Self {
        self.told = Some(told);
        self
    }

    /// Tell when the reader has been given all of it, in order; it is put together meanwhile, within that share.
    pub(crate) fn collecting(mut self, share: Share, told: WhenRead) -> Self {
        let bytes = usize::try_from(self.table.body_bytes()).unwrap_or(usize::MAX);
        self.collected = Some(Collected::new(bytes, share, told));
        self
    }

    /// The body, if it is one extent: an object whose body is gone must be a miss and not a broken answer. Of longer
    /// ones nothing is read here, since whoever wants their end should not pay for their beginning.
    pub(crate) async fn only_piece(&mut self) -> Result<Option<Bytes>, ReadError> {
        let &[only] = &self.table.extents[..] else { return Ok(None) };
        std::future::poll_fn(|cx| self.reader.poll_extent(cx, only, Vec::new)).await.map(Some)
    }

    /// Whether part of it has been overwritten or could not be written, as far as is known without the disk: better a
    /// miss than an answer that breaks off.
    pub(crate) fn has_left(&self, engine: &dyn Engine) -> bool {
        self.table.extents.iter().any(|extent| !engine.is_live(extent.place))
    }

    /// A piece of the beginning. Whoever wants more than that of a body of one extent more is given it only when the rest
    /// has been read too: an object that has lost its rest is noticed before an answer begins. A short body is given whole.
    fn poll_beginning(&mut self, cx: &mut Context<'_>, from: Bytes, want: usize) -> Poll<Result<Bytes, ReadError>> {
        if want > from.len()
            && let &[only] = &self.table.extents[..]
        {
            let rest = ready!(self.poll_only(cx, only))?;
            if self.table.body_bytes() <= JOINED_BYTES {
                let wanted = rest.get(..want - from.len()).unwrap_or(&rest);
                if wanted.len() == rest.len() {
                    self.reader.has_given_all();
                }
                return Poll::Ready(Ok([&from[..], wanted].concat().into()));
            }
        }
        Poll::Ready(Ok(from.slice(..want.min(from.len()))))
    }

    /// All that lies behind the beginning of a body of one extent.
    fn poll_only(&mut self, cx: &mut Context<'_>, only: Extent) -> Poll<Result<Bytes, ReadError>> {
        let bytes = ready!(self.reader.poll_extent(cx, only, Vec::new))?;
        if let Some(told) = self.told.take() {
            told([&self.table.first[..], &bytes].concat());
        }
        Poll::Ready(Ok(bytes))
    }

    fn poll_rest(&mut self, cx: &mut Context<'_>, want: usize) -> Poll<Result<Bytes, ReadError>> {
        let (first_bytes, extent_bytes) = (self.table.first.len() as u64, u64::from(self.table.extent_bytes));
        let numbers = self.wanted.extents(first_bytes, extent_bytes);
        if self.told.is_some()
            && let &[only] = &self.table.extents[..]
        {
            ready!(self.poll_only(cx, only))?;
        }
        let Some((&extent, others)) = self.table.extents.get(numbers).and_then(<[_]>::split_first) else {
            return Poll::Ready(Err(ReadError::Corrupt));
        };
        let skip = (self.wanted.at().saturating_sub(first_bytes) % extent_bytes) as usize;
        self.reader.poll_piece(cx, extent, || others.to_vec(), skip, want)
    }
}

impl BodySource for LargeBody {
    fn length(&self) -> Option<u64> {
        Some(self.table.body_bytes())
    }

    fn seek(&mut self, range: Range<u64>) -> Result<(), ReadError> {
        self.wanted.seek(range, self.length())?;
        let (begin, bytes) = (self.wanted.at(), self.wanted.bytes(usize::MAX));
        self.collected.take_if(|collected| !collected.goes_on(begin, bytes));
        Ok(())
    }

    fn poll_next(&mut self, cx: &mut Context<'_>, max: usize) -> Poll<Result<Option<Bytes>, ReadError>> {
        if let Some(error) = self.failed {
            return Poll::Ready(Err(error));
        }
        let want = self.wanted.bytes(max);
        if want == 0 {
            return Poll::Ready(Ok(None));
        }
        let at = usize::try_from(self.wanted.at()).unwrap_or(usize::MAX);
        let piece = ready!(match at < self.table.first.len() {
            true => self.poll_beginning(cx, self.table.first.slice(at..), want),
            false => self.poll_rest(cx, want),
        });
        match &piece {
            Ok(piece) => {
                self.collected = self.collected.take().and_then(|collected| collected.with(self.wanted.at(), piece));
                self.wanted.took(piece.len());
            }
            Err(error) => self.failed = Some(*error),
        }
        Poll::Ready(piece.map(Some))
    }
}
