//! Reading the body of a large object, one extent at a time.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use parking_lot::Mutex;

use super::table::{Extent, Table};
use crate::engine::{Engine, Fetched};
use crate::hit::{BodySource, ReadError};
use crate::key::Digest;
use crate::wait::{Gate, promise};

/// Reads extents of one object, and holds the last one read. Memory: one extent.
pub(crate) struct ExtentReader {
    engine: Arc<dyn Engine>,
    gate: Gate,
    id: Digest,
    held: Option<(Extent, Bytes)>,
    /// In a mutex only so that readers can be shared between threads; it is never contended.
    reading: Mutex<Option<(Extent, Reading)>>,
}

type Reading = Pin<Box<dyn Future<Output = Result<Bytes, ReadError>> + Send>>;

impl ExtentReader {
    pub(crate) fn new(engine: Arc<dyn Engine>, gate: Gate, id: Digest) -> Self {
        ExtentReader { engine, gate, id, held: None, reading: Mutex::new(None) }
    }

    /// The bytes of an extent, verified.
    pub(crate) fn poll_extent(&mut self, cx: &mut Context<'_>, extent: Extent) -> Poll<Result<Bytes, ReadError>> {
        if let Some((_, bytes)) = self.held.as_ref().filter(|(held, _)| *held == extent) {
            return Poll::Ready(Ok(bytes.clone()));
        }
        self.held = None;
        let reading = self.reading.get_mut();
        if reading.as_ref().is_none_or(|(other, _)| *other != extent) {
            let read = read(self.engine.clone(), self.gate.clone(), self.id, extent);
            *reading = Some((extent, Box::pin(read)));
        }
        let Some((_, future)) = reading else {
            return Poll::Ready(Err(ReadError::Device));
        };
        let bytes = ready!(future.as_mut().poll(cx));
        *reading = None;
        if let Ok(bytes) = &bytes {
            self.held = Some((extent, bytes.clone()));
        }
        Poll::Ready(bytes)
    }
}

async fn read(engine: Arc<dyn Engine>, gate: Gate, id: Digest, extent: Extent) -> Result<Bytes, ReadError> {
    let _turn = gate.enter().await;
    let (done, answer) = promise();
    engine.fetch_at(&id, extent.place, extent.bytes as usize, Box::new(move |fetched| done.keep(fetched)));
    match answer.await {
        Some(Fetched::Record(found)) if found.body.len() == extent.bytes as usize => Ok(found.body),
        Some(Fetched::Record(_)) => Err(ReadError::Corrupt),
        Some(Fetched::Missing) => Err(ReadError::Gone),
        Some(Fetched::Failed(error)) => Err(error),
        None => Err(ReadError::Device),
    }
}

/// The body of a stored large object.
pub(super) struct LargeBody {
    table: Table,
    reader: ExtentReader,
    left: Range<u64>,
    failed: Option<ReadError>,
}

impl LargeBody {
    pub(super) fn new(table: Table, reader: ExtentReader) -> Self {
        let left = 0..table.body_bytes;
        LargeBody { table, reader, left, failed: None }
    }

    /// Read the first extent, so that an object whose body is gone is a miss and not a broken answer.
    pub(super) async fn read_ahead(&mut self) -> Result<(), ReadError> {
        let Some(&first) = self.table.extents.first() else {
            return Ok(());
        };
        std::future::poll_fn(|cx| self.reader.poll_extent(cx, first)).await.map(drop)
    }
}

impl BodySource for LargeBody {
    fn length(&self) -> Option<u64> {
        Some(self.table.body_bytes)
    }

    fn seek(&mut self, range: Range<u64>) -> Result<(), ReadError> {
        let len = self.table.body_bytes;
        let end = if range.end == u64::MAX { len } else { range.end };
        if range.start > end || end > len {
            return Err(ReadError::Range);
        }
        self.left = range.start..end;
        Ok(())
    }

    fn poll_next(&mut self, cx: &mut Context<'_>, max: usize) -> Poll<Result<Option<Bytes>, ReadError>> {
        if let Some(error) = self.failed {
            return Poll::Ready(Err(error));
        }
        if self.left.is_empty() {
            return Poll::Ready(Ok(None));
        }
        let extent_bytes = u64::from(self.table.extent_bytes);
        let number = (self.left.start / extent_bytes) as usize;
        let Some(&extent) = self.table.extents.get(number) else {
            return Poll::Ready(Err(ReadError::Corrupt));
        };
        let read = ready!(self.reader.poll_extent(cx, extent)).map(|bytes| {
            let start = (self.left.start % extent_bytes) as usize;
            let want = usize::try_from(self.left.end - self.left.start).unwrap_or(usize::MAX).min(max);
            let piece = bytes.slice(start.min(bytes.len())..start.saturating_add(want).min(bytes.len()));
            self.left.start += piece.len() as u64;
            piece
        });
        self.failed = read.as_ref().err().copied();
        Poll::Ready(read.map(Some))
    }
}
