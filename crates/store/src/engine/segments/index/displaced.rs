//! In which sets something was displaced that a snapshot may lead to still.
//!
//! Objects come and go with their segments, and a segment that leaves says so of all its objects at once. What leaves otherwise is
//! displaced: by a newer version, by a removal, by another object where the set is full, or since it could not be read. Only
//! then may an older record lie in a segment that is there, and come back after a crash once the newer one is gone.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const BITS: u64 = u64::BITS as u64;

/// A bit for each set, twice: since the newest snapshot was begun, and between the one before and that. Memory: a quarter of a byte a set.
pub struct Displaced {
    since: Box<[AtomicU64]>,
    before: Box<[AtomicU64]>,
}

impl Displaced {
    /// Nothing is known of what snapshots that are there lead to, so any set may be one of these.
    pub fn unknown(sets: u64) -> Self {
        let words = |bits: u64| (0..sets.div_ceil(BITS)).map(|_| AtomicU64::new(bits)).collect();
        Displaced { since: words(u64::MAX), before: words(0) }
    }

    /// Something was displaced from this set. Call it while the set is locked: a snapshot that is begun in between is to have both
    /// or neither.
    pub fn note(&self, set: u64) {
        if let Some(word) = self.since.get((set / BITS) as usize) {
            word.fetch_or(1 << (set % BITS), Relaxed);
        }
    }

    /// Whether something may have been displaced from this set that one of the two snapshots leads to.
    pub fn is_in(&self, set: u64) -> bool {
        let words = [&self.since, &self.before].map(|words| words.get((set / BITS) as usize));
        words.into_iter().flatten().any(|word| word.load(Relaxed) >> (set % BITS) & 1 == 1)
    }

    /// A snapshot is begun, in the place of the older one of two: what that one led to matters no longer.
    pub fn snapshot_begins(&self) {
        for (since, before) in self.since.iter().zip(&self.before) {
            before.store(since.swap(0, Relaxed), Relaxed);
        }
    }

    /// Nobody knows any more: the snapshot was not written, or a segment does not say that what it held has left.
    pub fn suspect_all(&self) {
        self.since.iter().for_each(|word| word.store(u64::MAX, Relaxed));
    }

    /// Bytes allocated.
    pub fn allocated_bytes(&self) -> u64 {
        (size_of_val(&*self.since) + size_of_val(&*self.before)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_displaced_is_known_until_both_snapshots_are_newer() {
        let displaced = Displaced::unknown(130);
        displaced.snapshot_begins();
        assert!((0..130).all(|set| displaced.is_in(set)), "of the other snapshot nothing is known");
        displaced.snapshot_begins();
        assert!((0..130).all(|set| !displaced.is_in(set)));
        displaced.note(64);
        displaced.note(129);
        displaced.snapshot_begins();
        displaced.note(3);
        let there = |displaced: &Displaced| (0..130).filter(|set| displaced.is_in(*set)).collect::<Vec<_>>();
        assert_eq!(there(&displaced), [3, 64, 129]);
        displaced.snapshot_begins();
        assert_eq!(there(&displaced), [3]);
        displaced.suspect_all();
        assert_eq!(there(&displaced).len(), 130);
        assert_eq!(displaced.allocated_bytes(), 48);
        displaced.note(1 << 40);
        assert!(!displaced.is_in(1 << 40), "there is no such set");
    }
}
