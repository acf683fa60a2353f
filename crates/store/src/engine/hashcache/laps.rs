//! The lap of a slot: four bits, which say of a position in which round of the log it was written.

use crate::engine::Place;
use crate::layout::{Frontier, LogLayout};

/// Laps that a slot can tell apart.
pub(super) const LAPS: u64 = 16;

/// The laps that four bits may mean: this one or the one before; anything else is long overwritten.
pub(super) fn full_lap(layout: &LogLayout, frontier: &Frontier, lap: u8) -> Option<u64> {
    let now = layout.lap(frontier.next());
    [now, now.saturating_sub(1)].into_iter().find(|full| full % LAPS == u64::from(lap))
}

/// Where a record of this position and lap was written, unless that was overwritten since.
pub(super) fn written_at(layout: &LogLayout, frontier: &Frontier, position: u32, lap: u8) -> Option<Place> {
    let full = full_lap(layout, frontier, lap)?;
    let place = Place(full * layout.log_bytes() + u64::from(position) * layout.unit);
    frontier.is_reachable(place).then_some(place)
}

/// The position and the lap that a slot keeps of a place.
pub(super) fn slot_place(layout: &LogLayout, place: Place) -> (u32, u8) {
    let position = place.0 % layout.log_bytes() / layout.unit;
    (position as u32, (layout.lap(place) % LAPS) as u8)
}
