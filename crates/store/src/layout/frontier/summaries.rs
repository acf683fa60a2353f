//! Summaries wait for a sync of the records they vouch for.
//!
//! One that reached the disk before its records would, after a cut of the power, lead to records that are not there; and
//! what those were to replace, though a flush had acknowledged it, would be taken to be replaced.

use std::mem;
use std::sync::Arc;

use super::syncs::Sync;
use super::{Flying, Frontier, FrontierState};
use crate::device::Op;
use crate::layout::limits::MAX_SUMMARIES_WAITING;
use crate::layout::{Segments, region};
use crate::memory::AlignedBuf;
use crate::terms::Place;

/// The summary of a region that has ended.
pub(super) struct Summary {
    region: Place,
    /// The turn of its last batch.
    turn: u64,
    bytes: AlignedBuf,
}

impl Frontier {
    /// Summaries that may wait. On a small log fewer: they must be written before their regions are written anew.
    pub(super) fn most_summaries(&self) -> usize {
        (self.layout.regions as usize / 4).clamp(2, MAX_SUMMARIES_WAITING)
    }

    /// Encode the summary of the region that a log is writing, whose last batch is on its way.
    pub(super) fn keep_summary(&self, state: &mut FrontierState, log: usize) {
        let Some((head, region)) = state.heads.get(log).and_then(|head| Some((head, head.region?))) else { return };
        let used = head.batch_at.0 - region.0;
        let bytes = region::encode(&self.layout, self.stamp, region, used, &head.summary);
        state.summaries.push_back(Summary { region, turn: head.turn, bytes });
    }

    /// A sync nobody asked for, if half of the summaries that may wait do so and no other sync is coming.
    pub(super) fn sync_for_summaries(self: &Arc<Self>, state: &mut FrontierState) -> Option<Op> {
        let coming = state.syncing || !state.syncs.is_empty();
        if coming || state.summaries.len() * 2 < self.most_summaries() {
            return None;
        }
        let up_to = state.summaries.iter().map(|summary| summary.turn).max()?;
        state.syncs.push(Sync { up_to, done: None, tells: false, hurries: false, failed: None });
        self.due_syncs(state)
    }

    /// Everything up to the turn `synced` lasts, but for what is poisoned: write the summaries that waited for it.
    pub(super) fn write_summaries(self: &Arc<Self>, state: &mut FrontierState, ops: &mut Vec<Op>, synced: u64) {
        for summary in mem::take(&mut state.summaries) {
            let cleaned = |segments: &Arc<Segments>| !segments.is_there(summary.region);
            if self.is_poisoned(summary.region) || self.segments.as_ref().is_some_and(cleaned) {
                // No summary vouches for it.
            } else if summary.turn > synced {
                state.summaries.push_back(summary);
            } else {
                let len = summary.bytes.len();
                let at = Place(summary.region.0 + self.layout.region_bytes - len as u64);
                let buffer = Arc::new(summary.bytes);
                state.turns += 1;
                let turn = state.turns;
                self.fly(state, ops, Flying { turn, at, len, buffer, is_summary: true, since: self.now() });
            }
        }
    }
}
