//! Where in the table an object belongs.

use std::ops::Range;

use super::super::format::Format;
use crate::engine::segments::{Choices, fingerprint};
use crate::index::Shape;
use crate::index::hash::scatter;

/// A pair of sets, by the one of the two that stands for both, and a fingerprint: of objects with the same, the table holds one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spot {
    /// The set that stands for both.
    pub pair: u64,
    /// Twelve bits of the digest.
    pub fingerprint: u16,
}

impl Spot {
    /// A number for it that is spread evenly.
    #[inline]
    pub fn mixed(&self) -> u64 {
        scatter(self.pair << 12 | u64::from(self.fingerprint))
    }
}

/// How the table is cut: a page for each shard that an index in memory would have.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// Its sets and pages.
    pub shape: Shape,
    /// In how many sets an object may be.
    pub choices: Choices,
}

impl Cut {
    /// Of so many sets.
    pub fn of(sets: u64, format: Format) -> Self {
        Cut { shape: format.shape(sets), choices: format.choices() }
    }

    /// Where the object of this hash belongs.
    pub fn spot(&self, id_low: u64) -> Spot {
        self.spot_in(self.shape.set_of(id_low), fingerprint(id_low))
    }

    /// Where what has this fingerprint and is in this set belongs.
    pub fn spot_in(&self, set: u64, fingerprint: u16) -> Spot {
        self.spot_among(&self.shape.beside(set), set, fingerprint)
    }

    /// The same where it is known which sets lie in one page with it.
    #[inline]
    pub fn spot_among(&self, beside: &Range<u64>, set: u64, fingerprint: u16) -> Spot {
        let other = self.choices.other(set, fingerprint, || beside.clone());
        // As in the index in memory: so that all sets stand for as many.
        let pair = if fingerprint & 1 == 0 { set.min(other) } else { set.max(other) };
        Spot { pair, fingerprint }
    }

    /// The other set for what has this fingerprint.
    pub fn other(&self, set: u64, fingerprint: u16) -> u64 {
        self.choices.other(set, fingerprint, || self.shape.beside(set))
    }

    /// The page of a spot.
    pub fn page(&self, spot: Spot) -> u64 {
        self.shape.shard_of(spot.pair)
    }
}
