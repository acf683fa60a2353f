//! Which large objects are being stored, or were just now.
//!
//! Their parts lie in a log of large objects before anything leads to them. An object may be larger than all that the log had
//! before: its first parts are then the oldest there, and would leave while the last are still to come, or with the next segment that
//! is cleaned once it is whole, before anybody can ask for it.

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
    /// In which log they all are: what is known of the object changes while it comes.
    log: u8,
    /// The policy's time when the last one came.
    last: u64,
    /// Whether the object is whole.
    is_whole: bool,
}

impl Storing {
    /// A part of an object was appended.
    pub fn part(&self, id: &Digest, log: u8, place: Place, now: u64) {
        let mut all = self.0.lock();
        if let Some(parts) = all.get_mut(&id.0).filter(|parts| !parts.is_whole) {
            parts.last = now;
            return;
        }
        if all.len() >= MOST && !all.contains_key(&id.0) {
            all.retain(|_, parts| !parts.is_whole);
        }
        if all.len() < MOST || all.contains_key(&id.0) {
            all.insert(id.0, Parts { first: place, log, last: now, is_whole: false });
        }
    }

    /// The log that parts of an object are in which is being stored.
    pub fn log_of(&self, id: &Digest) -> Option<u8> {
        self.0.lock().get(&id.0).filter(|parts| !parts.is_whole).map(|parts| parts.log)
    }

    /// An object is whole whose parts begin so. If it is another version than the one that is coming, that one goes on.
    pub fn stored(&self, id: &Digest, first: Option<Place>, now: u64) {
        if let Some(parts) = self.0.lock().get_mut(&id.0).filter(|parts| !parts.is_whole && Some(parts.first) == first)
        {
            (parts.last, parts.is_whole) = (now, true);
        }
    }

    /// The object is removed.
    pub fn removed(&self, id: &Digest) {
        let mut all = self.0.lock();
        if !all.is_empty() {
            all.remove(&id.0);
        }
    }

    /// From where on the parts in each log are of objects that are being stored, or were less than `grace` of the policy's time ago.
    /// One of which no part came for `patience` was given up: nobody says so.
    pub fn since(&self, now: u64, patience: u64, grace: u64) -> BTreeMap<u8, Place> {
        let mut all = self.0.lock();
        all.retain(|_, parts| now.saturating_sub(parts.last) <= if parts.is_whole { grace } else { patience });
        let mut since = BTreeMap::new();
        for parts in all.values() {
            since
                .entry(parts.log)
                .and_modify(|first: &mut Place| *first = parts.first.min(*first))
                .or_insert(parts.first);
        }
        since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_being_stored_is_known_until_it_is_stored_or_given_up() {
        let storing = Storing::default();
        let id = |n: u8| Digest([n; 16]);
        let since = |now, patience, grace| storing.since(now, patience, grace).into_iter().collect::<Vec<_>>();
        storing.part(&id(1), 8, Place(500), 0);
        storing.part(&id(2), 9, Place(300), 10);
        storing.part(&id(1), 8, Place(700), 90);
        assert_eq!(since(100, 100, 0), [(8, Place(500)), (9, Place(300))]);
        assert_eq!([1, 2, 3].map(|n| storing.log_of(&id(n))), [Some(8), Some(9), None]);
        storing.removed(&id(3));
        assert_eq!(since(111, 100, 0), [(8, Place(500))], "nothing came of the other for so long");
        storing.stored(&id(1), Some(Place(100)), 115);
        assert_eq!(storing.log_of(&id(1)), Some(8), "the version before was told to be fresh");
        storing.stored(&id(1), Some(Place(500)), 120);
        storing.stored(&id(1), Some(Place(500)), 125);
        assert_eq!(since(130, 100, 10), [(8, Place(500))], "just now");
        assert_eq!(storing.log_of(&id(1)), None, "the next version may go elsewhere");
        assert_eq!(since(131, 100, 10), [], "however often it is told to be fresh");
        storing.part(&id(1), 7, Place(600), 140);
        assert_eq!((since(140, 100, 100), storing.log_of(&id(1))), (vec![(7, Place(600))], Some(7)));
        storing.removed(&id(1));
        assert_eq!(since(140, 100, 100), []);
        (0..200).for_each(|n| storing.part(&id(n), 8, Place(n.into()), 111));
        assert_eq!(storing.0.lock().len(), MOST);
        assert_eq!(since(111, 0, 0), [(8, Place(0))]);
        (0..200).for_each(|n| storing.stored(&id(n), Some(Place(n.into())), 111));
        storing.part(&id(201), 8, Place(999), 111);
        assert_eq!(since(111, 0, 0), [(8, Place(999))], "what is being stored goes before what was");
    }
}
