//! Batches that could not be written.
//!
//! Nothing in them is found again. But extents of objects that are still on their way to clients lie there and nowhere
//! else, and a disk fault must not break a client's download: whoever follows such a write gets them from here.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::Flying;
use crate::layout::limits::MAX_LOST_BATCHES;
use crate::memory::AlignedBuf;
use crate::terms::limits::LEASE;

/// The last batches that could not be written, oldest first, as long as a reader may take.
#[derive(Default)]
pub(super) struct Lost(VecDeque<Flying>);

impl Lost {
    /// Keep a batch; the oldest gives way. Summaries and batches without records are of no use to anybody.
    pub(super) fn keep(&mut self, batch: Flying, now: Instant) {
        if batch.is_summary || batch.len == 0 {
            return;
        }
        if self.0.len() >= MAX_LOST_BATCHES {
            self.0.pop_front();
        }
        let buffer = match batch.buffer.get(..batch.len) {
            // Not the whole of a buffer for a small part of it.
            Some(part) if part.len() < batch.buffer.len() / 2 => copy(part),
            _ => batch.buffer,
        };
        self.0.push_back(Flying { buffer, since: now, ..batch });
    }

    pub(super) fn batches(&self) -> impl Iterator<Item = &Flying> {
        self.0.iter()
    }

    /// Let go of what every reader had the time for.
    pub(super) fn let_go(&mut self, now: Instant) {
        while self.0.front().is_some_and(|oldest| now.saturating_duration_since(oldest.since) >= LEASE) {
            self.0.pop_front();
        }
    }
}

fn copy(part: &[u8]) -> Arc<AlignedBuf> {
    let mut buffer = AlignedBuf::zeroed(part.len());
    if let Some(room) = buffer.get_mut(..part.len()) {
        room.copy_from_slice(part);
    }
    Arc::new(buffer)
}
