//! What a place means where not every place is one in the log: a moment, a bin or slot, or a place in the log.
//!
//! A bin is written over and over, so its number alone does not say which of its records is meant. A record of the
//! table has the moment as its place at which it was the object's newest; nothing is ever read at such a place. It tells its
//! holder whether the set was written since.

use crate::engine::Place;
use crate::layout::region::PLACES;

const TABLE: u64 = PLACES >> 1;
const BIN: u64 = PLACES >> 2;

/// What a place means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    /// The record of an object as of this moment.
    Moment(u64),
    /// Whatever lies in this bin, or is said by this slot.
    Bin(u64),
    /// In the log.
    Log(Place),
}

pub(super) fn at_moment(moment: u64) -> Place {
    Place(TABLE | (moment & (BIN - 1)))
}

pub(super) fn at_bin(bin: u64) -> Place {
    Place(TABLE | BIN | (bin & (BIN - 1)))
}

pub(super) fn meaning(place: Place) -> Where {
    match (place.0 & TABLE != 0, place.0 & BIN != 0) {
        (true, true) => Where::Bin(place.0 & (BIN - 1)),
        (true, false) => Where::Moment(place.0 & (BIN - 1)),
        (false, _) => Where::Log(place),
    }
}
