//! Reading a stored body, or one that another request is fetching.

use std::any::Any;
use std::future::poll_fn;
use std::task::Poll;

use async_trait::async_trait;
use bytes::Bytes;
use pingora_cache::CacheKey;
use pingora_cache::storage::{HandleHit, HitHandler, Storage};
use pingora_cache::trace::SpanHandle;
use pingora_error::{Error, ErrorType, Result};
use tinaja_store::{Body, Hit, ReadError, State};

use crate::fault::fault;

/// How many bytes of a body are read at a time.
///
/// One read of this size costs a disk little more than one of a few KiB, and a client gets it in a few packets.
pub const READ_PIECE_BYTES: usize = 128 * 1024;

/// A mark for [`CacheKey::extensions`]: the request does not begin at the body's start, so a lookup leaves the body
/// alone. Whoever sets it calls [`prefetch`] before answering with the hit.
#[derive(Clone, Copy, Debug)]
pub struct StartsLater;

/// Read the first piece of what a request wants, which begins at `start`, before answering with the hit. False if it
/// cannot be had now: it is gone, cannot be read, or has not yet been fetched by the request that fetches the object.
/// The hit then should count as a miss. True for hits of other storages, which are left alone, and for a `start` past
/// the body's end.
pub async fn prefetch(hit: &mut HitHandler, start: u64) -> bool {
    match hit.as_any_mut().downcast_mut::<HitReader>() {
        Some(reader) => reader.prefetch(start).await,
        None => true,
    }
}

/// A found object's body.
pub(crate) struct HitReader {
    body: Body,
    state: State,
    /// Read before the hit was reported, to be handed out first, and where it begins.
    first: Option<(u64, Bytes)>,
}

impl HitReader {
    /// Take a hit over. The first piece of a stored body is read here: an object that cannot be read must become a
    /// miss, not a response that breaks off. Of a body still being fetched nothing is awaited, and of one that the
    /// request begins to read later ([`StartsLater`]) nothing is read.
    pub(crate) async fn open(hit: Hit, key: &CacheKey) -> std::result::Result<Self, ReadError> {
        let Hit { mut body, state, .. } = hit;
        let mut first = None;
        if state == State::Whole && key.extensions.get::<StartsLater>().is_none() {
            first = body.next(READ_PIECE_BYTES).await?;
            if let Some(all) = first.take_if(|piece| body.len() == Some(piece.len() as u64)) {
                // All of it is here: ranges need no second read.
                body = Body::from_bytes(all);
            }
        }
        Ok(HitReader { body, state, first: first.map(|piece| (0, piece)) })
    }

    async fn prefetch(&mut self, start: u64) -> bool {
        if self.body.len().is_some_and(|len| start >= len) {
            return true;
        }
        if self.body.seek(start..u64::MAX).is_err() {
            return false;
        }
        let state = self.state;
        let body = &mut self.body;
        let read = poll_fn(|cx| match body.poll_next(cx, READ_PIECE_BYTES) {
            // What is still to be fetched may take hours: whoever wants it now asks the origin.
            Poll::Pending if state == State::Filling => Poll::Ready(Ok(None)),
            read => read,
        });
        self.first = read.await.ok().flatten().map(|piece| (start, piece));
        self.first.is_some()
    }
}

#[async_trait]
impl HandleHit for HitReader {
    // Pingora drops this future at will: nothing is taken out before the piece is ready.
    async fn read_body(&mut self) -> Result<Option<Bytes>> {
        if let Some((_, first)) = self.first.take() {
            return Ok(Some(first));
        }
        self.body.next(READ_PIECE_BYTES).await.map_err(|error| fault("reading a cached body", error))
    }

    async fn finish(self: Box<Self>, _: &'static (dyn Storage + Sync), _: &CacheKey, _: &SpanHandle) -> Result<()> {
        Ok(())
    }

    fn can_seek(&self) -> bool {
        true
    }

    fn seek(&mut self, start: usize, end: Option<usize>) -> Result<()> {
        let (start, len) = (start as u64, self.body.len());
        if len.is_some_and(|len| start >= len) {
            let explain = format!("seek to {start} in a body of {} bytes", len.unwrap_or_default());
            return Error::e_explain(ErrorType::InternalError, explain);
        }
        // An end past the last byte is allowed and means the last byte.
        let end = end.map_or(u64::MAX, |end| (end as u64).min(len.unwrap_or(u64::MAX)));
        // What was read ahead is kept if it is the beginning of what is wanted.
        let kept = self.first.take().filter(|(at, _)| *at == start && start < end).map(|(_, mut piece)| {
            piece.truncate(usize::try_from(end - start).unwrap_or(usize::MAX));
            piece
        });
        let next = kept.as_ref().map_or(start, |piece| start + piece.len() as u64);
        self.body.seek(next..end).map_err(|error| fault("seeking in a cached body", error))?;
        self.first = kept.map(|piece| (start, piece));
        Ok(())
    }

    fn should_count_access(&self) -> bool {
        self.state == State::Whole
    }

    fn get_eviction_weight(&self) -> usize {
        self.body.len().and_then(|len| usize::try_from(len).ok()).unwrap_or_default()
    }

    fn as_any(&self) -> &(dyn Any + Send + Sync) {
        self
    }

    fn as_any_mut(&mut self) -> &mut (dyn Any + Send + Sync) {
        self
    }
}
