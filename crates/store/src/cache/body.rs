//! Reading the body of a large object, one extent at a time.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::engine::{Engine, Fetched};
use crate::hit::{BodySource, ReadError, within};
use crate::key::Digest;
use crate::layout::table::{Extent, Table};
use crate::limits::MAX_HELD_BYTES;
use crate::wait::{Gate, Turn, promise};

/// Bytes of extents that all readers of a store hold.
#[derive(Clone, Default)]
pub(crate) struct Held(Arc<AtomicUsize>);

/// One reader's share of them.
struct HeldExtent {
    extent: Extent,
    bytes: Bytes,
    all: Held,
}

impl Held {
    /// Hold an extent, unless readers hold too much already.
    fn hold(&self, extent: Extent, bytes: &Bytes) -> Option<HeldExtent> {
        let before = self.0.fetch_add(bytes.len(), Relaxed);
        let held = HeldExtent { extent, bytes: bytes.clone(), all: self.clone() };
        (before + bytes.len() <= MAX_HELD_BYTES).then_some(held)
    }
}

impl Drop for HeldExtent {
    fn drop(&mut self) {
        self.all.0.fetch_sub(self.bytes.len(), Relaxed);
    }
}

/// Reads extents of one object, and holds the last one read. Memory: one extent, within [`MAX_HELD_BYTES`] for all.
pub(crate) struct ExtentReader {
    engine: Arc<dyn Engine>,
    gate: Gate,
    id: Digest,
    all: Held,
    held: Option<HeldExtent>,
    /// In a mutex only so that readers can be shared between threads; it is never contended.
    reading: Mutex<Option<(Extent, Reading)>>,
}

type Reading = Pin<Box<dyn Future<Output = Result<Bytes, ReadError>> + Send>>;

impl ExtentReader {
    pub(crate) fn new(engine: Arc<dyn Engine>, gate: Gate, all: Held, id: Digest) -> Self {
        ExtentReader { engine, gate, id, all, held: None, reading: Mutex::new(None) }
    }

    /// Up to `max` bytes of an extent, from `skip` on; the extent is held for the next piece if it may be.
    pub(crate) fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        extent: Extent,
        skip: usize,
        max: usize,
    ) -> Poll<Result<Bytes, ReadError>> {
        let bytes = ready!(self.poll_extent(cx, extent))?;
        let piece = bytes.slice(skip.min(bytes.len())..skip.saturating_add(max).min(bytes.len()));
        let whole = self.held.is_some() || piece.len() == bytes.len();
        Poll::Ready(Ok(if whole { piece } else { Bytes::copy_from_slice(&piece) }))
    }

    /// The bytes of an extent, verified.
    pub(crate) fn poll_extent(&mut self, cx: &mut Context<'_>, extent: Extent) -> Poll<Result<Bytes, ReadError>> {
        if let Some(held) = self.held.as_ref().filter(|held| held.extent == extent) {
            return Poll::Ready(Ok(held.bytes.clone()));
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
            self.held = self.all.hold(extent, bytes);
        }
        Poll::Ready(bytes)
    }
}

/// A turn to read. What is in memory needs none, but is asked for only when turns are short.
pub(super) async fn turn(gate: &Gate, is_in_memory: impl FnOnce() -> bool) -> Option<Turn> {
    match gate.try_enter() {
        None if is_in_memory() => None,
        None => Some(gate.enter().await),
        turn => turn,
    }
}

async fn read(engine: Arc<dyn Engine>, gate: Gate, id: Digest, extent: Extent) -> Result<Bytes, ReadError> {
    // Given back when the disk has answered: a reader may sleep, and one that was given up still keeps the disk busy.
    let turn = turn(&gate, || engine.is_in_memory(extent.place)).await;
    let (done, answer) = promise();
    let finish = move |fetched| {
        drop(turn);
        done.keep(fetched);
    };
    engine.fetch_at(&id, extent.place, extent.bytes as usize, Box::new(finish));
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

    /// The body, if it is one extent: an object whose body is gone must be a miss and not a broken answer. Of longer
    /// ones nothing is read here, since whoever wants their end should not pay for their beginning.
    pub(super) async fn only_piece(&mut self) -> Result<Option<Bytes>, ReadError> {
        let &[only] = &self.table.extents[..] else { return Ok(None) };
        std::future::poll_fn(|cx| self.reader.poll_extent(cx, only)).await.map(Some)
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
        self.left = within(range, self.length())?;
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
        let skip = (self.left.start % extent_bytes) as usize;
        let want = usize::try_from(self.left.end - self.left.start).unwrap_or(usize::MAX).min(max);
        let piece = ready!(self.reader.poll_piece(cx, extent, skip, want));
        match &piece {
            Ok(piece) => self.left.start += piece.len() as u64,
            Err(error) => self.failed = Some(*error),
        }
        Poll::Ready(piece.map(Some))
    }
}
