//! Which URLs were removed lately: what was on its way then is not stored.
//!
//! A hard purge of a single URL is a removal in the store, which has nothing of a response whose head has not come from its origin. Removals are
//! numbered, and each request to an origin knows the number at which it was sent. They are not written down: nothing outlives a process on its way.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tinaja_store::Key;

/// Removals that are known by their places. With more, all that is on its way counts as removed: it is fetched once more.
const MOST: usize = 4096;

/// The last removals. Memory: 160 KiB at most.
#[derive(Debug, Default)]
pub(super) struct Removed {
    count: AtomicU64,
    places: Mutex<Places>,
}

#[derive(Debug, Default)]
struct Places {
    last: HashMap<[u8; 20], u64>,
    /// What was asked for before this one counts as removed, wherever it is to stand.
    floor: u64,
}

impl Removed {
    /// How many there have been: the number of what is asked for now.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// What is to stand here is about to be removed.
    pub fn note(&self, place: &Key) {
        let mut places = self.places.lock();
        let number = self.count.load(Ordering::Relaxed) + 1;
        if places.last.len() >= MOST {
            places.last.clear();
            places.floor = number;
        }
        places.last.insert(short(place), number);
        self.count.store(number, Ordering::Release);
    }

    /// Whether what is to stand here has been removed since so many had been.
    pub fn has(&self, place: &Key, since: u64) -> bool {
        if since >= self.count() {
            return false;
        }
        let places = self.places.lock();
        since < places.floor || places.last.get(&short(place)).is_some_and(|number| since < *number)
    }
}

/// A digest is longer than that is worth.
fn short(place: &Key) -> [u8; 20] {
    let mut short = [0; 20];
    short.iter_mut().zip(place.digest().iter()).for_each(|(to, from)| *to = *from);
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_before() {
        let removed = Removed::default();
        let place = |name: u32| Key::from_name(&name.to_le_bytes());
        let before = removed.count();
        assert!(!removed.has(&place(0), before));
        removed.note(&place(0));
        let after = removed.count();
        assert!(removed.has(&place(0), before) && !removed.has(&place(1), before) && !removed.has(&place(0), after));
        for name in 1..=u32::try_from(MOST).unwrap() {
            removed.note(&place(name));
            assert!(removed.places.lock().last.len() <= MOST);
        }
        // More than are known by their places: whatever was on its way is gone.
        assert!(removed.has(&place(0), before) && removed.has(&place(9_999_999), after));
        assert!(!removed.has(&place(0), removed.count()));
    }
}
