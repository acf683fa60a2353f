//! Reading the parts of a large body: one at a time, or several that lie together in one request.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::engine::{Engine, Fetched, Part, Together};
use crate::extents::limits::{held_bytes, read_turns_kept};
use crate::layout::table::Extent;
use crate::memory::held::{Held, Share, counted};
use crate::terms::limits::MAX_REQUEST_BYTES;
use crate::terms::{Digest, ReadError};
use crate::wait::{Turn, Turns, promise};

/// Reads extents of one object, and holds those that it read last and that were not taken yet. Memory: one request,
/// within [`held_bytes`] for all.
pub(crate) struct ExtentReader {
    disk: Disk,
    held: VecDeque<HeldExtent>,
    /// What is being read. In a mutex only so that readers can be shared between threads; it is never contended.
    reading: Mutex<Option<(Vec<Extent>, Reading)>>,
}

/// What a read needs.
#[derive(Clone)]
struct Disk {
    engine: Arc<dyn Engine>,
    turns: Turns,
    id: Digest,
    all: Held,
}

struct HeldExtent {
    extent: Extent,
    bytes: Bytes,
    /// That of several read together is in their bytes.
    _share: Option<Share>,
}

type Reading = Pin<Box<dyn Future<Output = Result<Vec<Bytes>, ReadError>> + Send>>;

impl ExtentReader {
    pub(crate) fn new(engine: Arc<dyn Engine>, turns: Turns, all: Held, id: Digest) -> Self {
        let disk = Disk { engine, turns, id, all };
        ExtentReader { disk, held: VecDeque::new(), reading: Mutex::new(None) }
    }

    /// What is held was taken to its end.
    pub(super) fn has_given_all(&mut self) {
        self.held.clear();
    }

    /// Up to `max` bytes of an extent, from `skip` on. It is held for the next piece if it may be, and so are those of
    /// `others`, the extents behind it, that were read with it.
    pub(crate) fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        extent: Extent,
        others: impl FnOnce() -> Vec<Extent>,
        skip: usize,
        max: usize,
    ) -> Poll<Result<Bytes, ReadError>> {
        let bytes = ready!(self.poll_extent(cx, extent, others))?;
        let piece = bytes.slice(skip.min(bytes.len())..skip.saturating_add(max).min(bytes.len()));
        let whole = !self.held.is_empty() || piece.len() == bytes.len();
        Poll::Ready(Ok(if whole { piece } else { Bytes::copy_from_slice(&piece) }))
    }

    /// The bytes of an extent, verified.
    pub(super) fn poll_extent(
        &mut self,
        cx: &mut Context<'_>,
        extent: Extent,
        others: impl FnOnce() -> Vec<Extent>,
    ) -> Poll<Result<Bytes, ReadError>> {
        let held = self.held.iter().position(|held| held.extent == extent);
        self.held.drain(..held.unwrap_or(self.held.len()));
        if let Some(held) = self.held.front() {
            return Poll::Ready(Ok(held.bytes.clone()));
        }
        let reading = self.reading.get_mut();
        if reading.as_ref().is_none_or(|(extents, _)| extents.first() != Some(&extent)) {
            let extents = [vec![extent], others()].concat();
            *reading = Some((extents.clone(), Box::pin(self.disk.clone().read(extents))));
        }
        let Some((extents, future)) = reading else {
            return Poll::Ready(Err(ReadError::Device));
        };
        let read = ready!(future.as_mut().poll(cx));
        let extents = std::mem::take(extents);
        *reading = None;
        let all = read?;
        let first = all.first().cloned().ok_or(ReadError::Device)?;
        if all.len() > 1 {
            let held = |(extent, bytes)| HeldExtent { extent, bytes, _share: None };
            self.held.extend(extents.into_iter().zip(all).map(held));
        } else if let Some(share) = self.disk.all.hold(first.len(), held_bytes()) {
            self.held.push_back(HeldExtent { extent, bytes: first.clone(), _share: Some(share) });
        }
        Poll::Ready(Ok(first))
    }
}

/// What several parts read at once take: more turns, and a share of what readers may hold.
struct Several {
    together: Together,
    turns: Vec<Turn>,
    share: Arc<Share>,
}

impl Disk {
    /// The bytes of the first of these extents, and of those behind it that were read with it.
    async fn read(self, extents: Vec<Extent>) -> Result<Vec<Bytes>, ReadError> {
        let part = |extent: &Extent| Part { place: extent.place, body_bytes: extent.bytes as usize };
        let parts: Vec<_> = extents.iter().map(part).collect();
        let Some(first) = parts.first() else { return Ok(Vec::new()) };
        let turn = turn(&self.turns, || self.engine.is_in_memory(first.place)).await;
        match turn.is_some().then(|| self.several(&parts)).flatten() {
            Some(several) => self.read_several(&parts, turn, several).await,
            None => self.read_one(first, turn).await.map(|body| vec![body]),
        }
    }

    async fn read_one(&self, part: &Part, turn: Option<Turn>) -> Result<Bytes, ReadError> {
        let (done, answer) = promise();
        // One that was given up still keeps the disk busy.
        let finish = move |fetched| done.keep((fetched, turn.map(Turn::until_taken)));
        self.engine.fetch_at(&self.id, part.place, part.body_bytes, Box::new(finish));
        body_of(part, answer.await.map(|(fetched, _)| fetched))
    }

    async fn read_several(
        &self,
        parts: &[Part],
        turn: Option<Turn>,
        Several { together, turns, share }: Several,
    ) -> Result<Vec<Bytes>, ReadError> {
        let (done, answer) = promise();
        let finish = move |fetched| {
            let turns: Vec<_> = turn.into_iter().chain(turns).map(Turn::until_taken).collect();
            done.keep((fetched, turns));
        };
        let parts = parts.get(..together.parts).unwrap_or_default();
        self.engine.fetch_together(&self.id, parts, Box::new(finish));
        let (all, _) = answer.await.ok_or(ReadError::Device)?;
        let bodies = parts.iter().zip(all).map(|(part, fetched)| body_of(part, Some(fetched)));
        let mut read = Vec::with_capacity(parts.len());
        for body in bodies {
            match body {
                Ok(body) => read.push(counted(body, &share)),
                Err(error) if read.is_empty() => return Err(error),
                // Whoever wants this one asks for it by itself.
                Err(_) => break,
            }
        }
        Ok(read)
    }

    /// What it takes to read several of these parts at once, if they lie together and there is plenty of all that.
    fn several(&self, parts: &[Part]) -> Option<Several> {
        let one_bytes = parts.first()?.body_bytes.max(1);
        let together = (parts.len() > 1).then(|| self.engine.together(parts, MAX_REQUEST_BYTES))?;
        if together.parts < 2 {
            return None;
        }
        let share = Arc::new(self.all.hold(together.bytes, held_bytes() / 2)?);
        let turns = self.turns.try_enter_more(together.bytes.div_ceil(one_bytes) - 1, read_turns_kept())?;
        Some(Several { together, turns, share })
    }
}

/// A turn to read. What is in memory needs none, but is asked for only when turns are short.
pub(crate) async fn turn(turns: &Turns, is_in_memory: impl FnOnce() -> bool) -> Option<Turn> {
    match turns.try_enter() {
        None if is_in_memory() => None,
        None => Some(turns.enter().await),
        turn => turn,
    }
}

fn body_of(part: &Part, fetched: Option<Fetched>) -> Result<Bytes, ReadError> {
    match fetched {
        Some(Fetched::Record(found)) if found.body.len() == part.body_bytes => Ok(found.body),
        Some(Fetched::Record(_)) => Err(ReadError::Corrupt),
        Some(Fetched::Missing) => Err(ReadError::Gone),
        Some(Fetched::Failed(error)) => Err(error),
        None => Err(ReadError::Device),
    }
}
