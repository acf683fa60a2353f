//! How many slots lead into each region of a log, counted as slots change: nobody walks an index to know what it holds.
//!
//! A count goes with the lap in which its region was written. The slots of a region that was overwritten are not taken away
//! one by one: nobody asks for its count any more, and the first record of the next lap begins it anew.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::laps::LAPS;
use crate::engine::Place;
use crate::layout::LogLayout;

/// Bits of a count. A region of 8 MiB has no more places than they tell apart.
const COUNT_BITS: u32 = 24;
const COUNT: u64 = (1 << COUNT_BITS) - 1;

/// The counts. Memory: 8 bytes a region, which no index counts among its own: there are as many beside the log, for regions
/// that were given up.
pub(super) struct SlotsByRegion {
    /// The lap, and in the low bits the slots that lead to places of it.
    counts: Box<[AtomicU64]>,
    layout: LogLayout,
}

impl SlotsByRegion {
    /// No slot leads anywhere yet.
    pub(super) fn none(layout: LogLayout) -> Self {
        SlotsByRegion { counts: (0..layout.regions).map(|_| AtomicU64::new(0)).collect(), layout }
    }

    /// A slot is about to lead to this place. To be called before it does, or whoever clears it may be counted first.
    pub(super) fn add(&self, place: Place) {
        let begun = self.layout.lap(place) << COUNT_BITS;
        // Of two laps the newer one counts: the other was overwritten.
        let added = |now: u64| (now >> COUNT_BITS <= begun >> COUNT_BITS).then(|| now.max(begun) + 1);
        self.change(self.layout.region_number(place), added);
    }

    /// A slot that led to this position, written in such a lap, does so no more.
    pub(super) fn take(&self, (position, lap): (u32, u8)) {
        let number = u64::from(position) * self.layout.unit / self.layout.region_bytes;
        // No slot lives for sixteen laps, so four bits tell whether it was counted in this one.
        let is_counted = |now: u64| now & COUNT > 0 && (now >> COUNT_BITS) % LAPS == u64::from(lap);
        self.change(number as usize, |now| is_counted(now).then(|| now - 1));
    }

    fn change(&self, region: usize, to: impl FnMut(u64) -> Option<u64>) {
        if let Some(count) = self.counts.get(region) {
            let _ = count.fetch_update(Relaxed, Relaxed, to);
        }
    }

    /// Slots that lead into regions of which `is_there` says that they are still what they were: exact while none changes.
    pub(super) fn sum(&self, is_there: impl Fn(Place) -> bool) -> u64 {
        let LogLayout { region_bytes, .. } = self.layout;
        let each = (0_u64..).zip(&self.counts).map(|(number, count)| {
            let now = count.load(Relaxed);
            let region = Place((now >> COUNT_BITS) * self.layout.log_bytes() + number * region_bytes);
            if now & COUNT > 0 && is_there(region) { now & COUNT } else { 0 }
        });
        each.sum()
    }
}

#[cfg(test)]
pub(super) mod testing;

#[cfg(test)]
mod tests {
    use super::*;

    fn place(lap: u64, region: u64, at: u64) -> Place {
        let layout = testing::layout();
        Place(lap * layout.log_bytes() + region * layout.region_bytes + at)
    }

    #[test]
    fn a_region_counts_its_newest_lap_only() {
        let layout = testing::layout();
        let slots = SlotsByRegion::none(layout);
        let slot = |place| super::super::laps::slot_place(&layout, place);
        assert_eq!((layout.regions, slots.sum(|_| true)), (8, 0));
        (0..5).for_each(|n| slots.add(place(3, 2, n)));
        slots.add(place(3, 7, layout.region_bytes - 1));
        assert_eq!((slots.sum(|_| true), slots.sum(|region| region == place(3, 2, 0))), (6, 5));
        slots.take(slot(place(3, 2, 4)));
        slots.take(slot(place(2, 2, 4)));
        assert_eq!(slots.sum(|_| true), 5, "of the lap before there was none");
        slots.add(place(4, 2, 9));
        slots.add(place(3, 2, 8));
        slots.take(slot(place(3, 2, 1)));
        assert_eq!(slots.sum(|region| region == place(4, 2, 0)), 1, "what came late was overwritten already");
        (0..3).for_each(|_| slots.take(slot(place(4, 2, 9))));
        assert_eq!(slots.sum(|_| true), 1, "never less than none");
        slots.add(place(20, 2, 0));
        slots.add(place(1 << 35, 2, 0));
        assert_eq!(slots.sum(|region| region == place(1 << 35, 2, 0)), 1, "laps are told apart whole");
    }
}
