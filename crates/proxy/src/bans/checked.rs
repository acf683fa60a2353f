//! Objects that were compared with all bans already, so that each is looked up once for each new ban, however often it is asked for.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use tinaja_store::Key;

use super::{Stamp, Tags};

/// Objects that are remembered, at most: each has one place, which others may take.
const SLOTS: usize = 32_768;

/// What was found to count. Memory: 256 KiB.
///
/// An object is remembered by 64 bits of a hash under a random key, of all that decides whether it counts: where it stands, its stamp and tags, and the
/// newest ban. Nobody can bring about that two are taken for each other, and by chance that happens once in 2^64 lookups.
pub(super) struct Checked {
    hasher: RandomState,
    slots: Box<[AtomicU64]>,
}

/// One object at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark(u64);

impl Default for Checked {
    fn default() -> Checked {
        Checked { hasher: RandomState::new(), slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Checked {
    /// An object that stands there, while `now` is the newest ban.
    pub fn mark(&self, place: &Key, stamp: Stamp, tags: &Tags, now: Stamp) -> Mark {
        let hash = self.hasher.hash_one((place.digest(), stamp.0, now.0, tags.unlisted, &tags.bytes()[..]));
        // 0 is nobody.
        Mark(hash.max(1))
    }

    /// Whether it was found to count.
    pub fn counts(&self, mark: Mark) -> bool {
        self.slot(mark).is_some_and(|slot| slot.load(Ordering::Relaxed) == mark.0)
    }

    /// It does.
    pub fn note(&self, mark: Mark) {
        self.slot(mark).inspect(|slot| slot.store(mark.0, Ordering::Relaxed));
    }

    fn slot(&self, mark: Mark) -> Option<&AtomicU64> {
        self.slots.get(usize::try_from(mark.0).unwrap_or_default() % SLOTS)
    }
}
