//! Where a record lies.

use std::fmt;

/// Where a record lies, in terms only its engine understands. Never reused for other bytes during the life of a
/// formatted store, so a place that outlived its record is recognised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(pub u64);

/// The most records of one fingerprint that a probe may return.
pub const MAX_WAYS: usize = 8;

/// Up to [`MAX_WAYS`] places, newest record first.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Places {
    places: [Option<Place>; MAX_WAYS],
}

impl Places {
    /// The places in `found` other than 0, put in order; what does not fit is dropped from the old end.
    pub fn newest_first(found: &mut [Place]) -> Self {
        found.sort_unstable_by(|a, b| b.cmp(a));
        let mut places = [None; MAX_WAYS];
        for (to, from) in places.iter_mut().zip(found.iter().filter(|place| place.0 != 0)) {
            *to = Some(*from);
        }
        Places { places }
    }

    /// Newest first.
    pub fn iter(&self) -> impl Iterator<Item = Place> + '_ {
        self.places.iter().copied().flatten()
    }

    /// Take the newest off the list.
    pub fn pop(&mut self) -> Option<Place> {
        let first = self.places.first_mut()?.take();
        self.places.rotate_left(1);
        first
    }
}

impl fmt::Debug for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The number of a disk takes the byte of a place above these bits, where a store has several: see
/// [`crate::engine::spread`].
pub(crate) const DISK_SHIFT: u32 = 56;

/// A place without the number of its disk.
pub(crate) fn inside(place: Place) -> Place {
    Place(place.0 & ((1 << DISK_SHIFT) - 1))
}
