//! SIEVE (Zhang and others, NSDI 2024): a hand goes from the oldest to the newest, spares what was used since it passed, and takes
//! the first that was not.

use super::ordered::{Counts, Ordered};
use super::{Asked, Policy};

/// See the module.
pub struct Sieve {
    capacity_bytes: u64,
    objects: Ordered,
    used: Counts,
    hand: Option<u32>,
}

impl Sieve {
    /// Empty, with room for so many bytes.
    pub fn new(capacity_bytes: u64) -> Sieve {
        Sieve { capacity_bytes, objects: Ordered::default(), used: Counts::default(), hand: None }
    }

    fn evict(&mut self) -> Option<u64> {
        let mut at = self.hand.or(self.objects.oldest())?;
        while self.used.of(at) > 0 {
            self.used.set(at, 0);
            at = self.objects.newer(at).or(self.objects.oldest())?;
        }
        self.hand = self.objects.newer(at);
        self.objects.take(at)
    }
}

impl Policy for Sieve {
    fn ask(&mut self, asked: &Asked) -> bool {
        if self.objects.has(asked.object) {
            self.used.set(asked.object, 1);
            return true;
        }
        if asked.bytes <= self.capacity_bytes {
            while self.objects.bytes() + asked.bytes > self.capacity_bytes && self.evict().is_some() {}
            self.used.set(asked.object, 0);
            self.objects.push(asked.object, asked.bytes);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::Sequence;
    use super::*;

    #[test]
    fn the_hand_spares_what_was_used_and_does_not_move_it() {
        let asked = Sequence::of(&[(1, 30), (2, 30), (3, 30), (1, 30), (4, 30), (1, 30), (3, 30), (2, 30), (1, 30)]);
        // 4 comes: 1 is spared, 2 leaves, the hand is at 3. 1 and 3 are used. 2 comes: 3 is spared, 4 leaves.
        let found = [false, false, false, true, false, true, true, false, true];
        assert_eq!(asked.found(&mut Sieve::new(100)), found);
    }
}
