//! The end of one log: the region that it grows in, and the batch that gathers for it.

use std::time::Instant;

use crate::layout::region::SummaryEntry;
use crate::memory::AlignedBuf;
use crate::terms::Place;

/// Where one log grows.
pub(super) struct Head {
    /// `None` until its first record comes, where it is one of several, and while no other is free.
    pub(super) region: Option<Place>,
    pub(super) batch_at: Place,
    /// Empty until the first record comes.
    pub(super) batch: AlignedBuf,
    pub(super) batch_len: usize,
    pub(super) batch_since: Option<Instant>,
    /// The turn of the batch; while that is empty, of the one before.
    pub(super) turn: u64,
    pub(super) summary: Vec<SummaryEntry>,
}

impl Default for Head {
    fn default() -> Self {
        Head {
            region: None,
            batch_at: Place(0),
            batch: AlignedBuf::zeroed(0),
            batch_len: 0,
            batch_since: None,
            turn: 0,
            summary: Vec::new(),
        }
    }
}

impl Head {
    /// One that begins a region.
    pub(super) fn at(region: Place) -> Self {
        Head { region: Some(region), batch_at: region, ..Head::default() }
    }

    /// It goes on in this region.
    pub(super) fn begin(&mut self, region: Place) {
        (self.region, self.batch_at) = (Some(region), region);
    }

    /// Its region is full.
    pub(super) fn end(&mut self) {
        self.region = None;
        self.summary.clear();
    }

    /// Whether a batch waits that was begun no later than at this turn.
    pub(super) fn waits_since(&self, turn: u64) -> bool {
        self.batch_len > 0 && self.turn <= turn
    }
}
