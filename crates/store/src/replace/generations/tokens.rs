//! What may be written again: a bucket of bytes.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A bucket of tokens. A token is a byte that may be written beside those that clients store.
#[derive(Debug)]
pub(super) struct Tokens {
    /// In it now, in thousandths of a byte. Never above `most`.
    left: AtomicU64,
    most: u64,
    /// Thousandths of a token that a stored byte earns.
    earned_a_byte: u64,
    spent: AtomicU64,
    /// Bytes that had to be written though the bucket was empty. What is earned pays them first.
    owed: AtomicU64,
}

impl Tokens {
    /// A bucket that holds so many bytes, half full.
    pub fn new(most_bytes: u64, share: f64) -> Tokens {
        let most = most_bytes.max(1).saturating_mul(1000);
        let earned_a_byte = (share.clamp(0.0, 1.0) * 1000.0) as u64;
        let (spent, owed) = (AtomicU64::new(0), AtomicU64::new(0));
        Tokens { left: AtomicU64::new(if earned_a_byte > 0 { most / 2 } else { 0 }), most, earned_a_byte, spent, owed }
    }

    pub fn earn(&self, stored_bytes: u64) {
        let earned = stored_bytes.saturating_mul(self.earned_a_byte);
        let owed = self.owed.load(Relaxed);
        let paid = owed.min(earned);
        self.owed.fetch_sub(paid, Relaxed);
        let add = |left: u64| Some(left.saturating_add(earned - paid).min(self.most));
        let _ = self.left.fetch_update(Relaxed, Relaxed, add);
    }

    /// Take so many bytes, if they are there.
    pub fn take(&self, bytes: u64) -> bool {
        let cost = bytes.saturating_mul(1000);
        let taken = self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(cost)).is_ok();
        if taken {
            self.spent.fetch_add(bytes, Relaxed);
        }
        taken
    }

    /// Take so many bytes, whether they are there or not: what is missing is owed, up to what the bucket holds.
    pub fn pay(&self, bytes: u64) {
        let cost = bytes.saturating_mul(1000);
        let before = self.left.fetch_update(Relaxed, Relaxed, |left| Some(left.saturating_sub(cost))).unwrap_or(0);
        let missing = cost.saturating_sub(before);
        let _ = self.owed.fetch_update(Relaxed, Relaxed, |owed| Some(owed.saturating_add(missing).min(self.most)));
        self.spent.fetch_add(bytes, Relaxed);
    }

    /// How scarce they are: 1 with a full bucket, twice as much with half of one, a million at most.
    pub fn scarcity(&self) -> f64 {
        self.most as f64 / self.left.load(Relaxed).max(self.most / 1_000_000).max(1) as f64
    }

    /// Bytes taken so far.
    pub fn spent(&self) -> u64 {
        self.spent.load(Relaxed)
    }
}
