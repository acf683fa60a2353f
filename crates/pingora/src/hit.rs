//! Reading a stored body, or one that another request is fetching.

use std::any::Any;

use async_trait::async_trait;
use bytes::Bytes;
use pingora_cache::CacheKey;
use pingora_cache::storage::{HandleHit, Storage};
use pingora_cache::trace::SpanHandle;
use pingora_error::{Error, ErrorType, Result};
use tinaja_store::{Body, Hit, ReadError, State};

use crate::fault;

/// How many bytes of a body are read at a time.
///
/// One read of this size costs a disk little more than one of a few KiB, and a client gets it in a few packets.
pub const READ_PIECE_BYTES: usize = 128 * 1024;

/// A found object's body.
pub(crate) struct HitReader {
    body: Body,
    state: State,
    /// Read before the hit was reported, to be handed out first.
    first: Option<Bytes>,
}

impl HitReader {
    /// Take a hit over. The first piece of a stored body is read here: an object that cannot be read must become a
    /// miss, not a response that breaks off. Of a body still being fetched nothing is awaited.
    pub(crate) async fn open(hit: Hit) -> std::result::Result<Self, ReadError> {
        let Hit { mut body, state, .. } = hit;
        let mut first = None;
        if state == State::Whole {
            first = body.next(READ_PIECE_BYTES).await?;
            if let Some(all) = first.take_if(|piece| body.len() == Some(piece.len() as u64)) {
                // All of it is here: ranges need no second read.
                body = Body::from_bytes(all);
            }
        }
        Ok(HitReader { body, state, first })
    }
}

#[async_trait]
impl HandleHit for HitReader {
    // Pingora drops this future at will: nothing is taken out before the piece is ready.
    async fn read_body(&mut self) -> Result<Option<Bytes>> {
        if let Some(first) = self.first.take() {
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
        self.body.seek(start..end).map_err(|error| fault("seeking in a cached body", error))?;
        self.first = None;
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
