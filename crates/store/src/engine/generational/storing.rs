//! Which large objects are being stored.
//!
//! Their parts lie in the log of large objects before anything leads to them. An object may be larger than all that the log had
//! before: its first parts are then the oldest there, and would leave while the last are still to come.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::terms::{Digest, Place};

/// So many objects at a time are remembered; more are stored all the same.
const MOST: usize = 64;

/// See the module. Memory: below 8 KiB.
#[derive(Default)]
pub struct Storing(Mutex<BTreeMap<[u8; 16], Parts>>);

#[derive(Clone, Copy)]
struct Parts {
    /// Where the first lies.
    first: Place,
    /// The policy's time when the last one came.
    last: u64,
}

impl Storing {
    /// A part of an object was appended.
    pub fn part(&self, id: &Digest, place: Place, now: u64) {
        let mut all = self.0.lock();
        if let Some(parts) = all.get_mut(&id.0) {
            parts.last = now;
        } else if all.len() < MOST {
            all.insert(id.0, Parts { first: place, last: now });
        }
    }

    /// The object is stored, or removed: nothing of it is still to come.
    pub fn ended(&self, id: &Digest) {
        let mut all = self.0.lock();
        if !all.is_empty() {
            all.remove(&id.0);
        }
    }

    /// Where the oldest part of an object that is being stored lies. One of which no part came for `patience` of the policy's time
    /// was given up: nobody says so.
    pub fn since(&self, now: u64, patience: u64) -> Option<Place> {
        let mut all = self.0.lock();
        all.retain(|_, parts| now.saturating_sub(parts.last) <= patience);
        all.values().map(|parts| parts.first).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_being_stored_is_known_until_it_is_stored_or_given_up() {
        let storing = Storing::default();
        let id = |n: u8| Digest([n; 16]);
        storing.part(&id(1), Place(500), 0);
        storing.part(&id(2), Place(300), 10);
        storing.part(&id(1), Place(700), 90);
        assert_eq!(storing.since(100, 100), Some(Place(300)));
        storing.ended(&id(3));
        assert_eq!(storing.since(111, 100), Some(Place(500)), "nothing came of the other for so long");
        storing.ended(&id(1));
        assert_eq!(storing.since(111, 100), None);
        (0..200).for_each(|n| storing.part(&id(n), Place(n.into()), 111));
        assert_eq!(storing.0.lock().len(), MOST);
        assert_eq!(storing.since(111, 0), Some(Place(0)));
    }
}
