//! In which sets an object may be: in that of its hash alone, or in another one as well.
//!
//! With one, a set may be full while others have room: of 51,200 objects for 64,000 places 3,442 are lost. With two, a new object
//! goes where more is free, and 20 are lost (Azar, Broder, Karlin, Upfal: Balanced Allocations, 1994). A test counts both.
//!
//! The other set follows from a set and a fingerprint, and from the other one follows the first (as in Fan, Andersen, Kaminsky,
//! Mitzenmacher: Cuckoo Filter, 2014, section 3.1). So a slot tells without its object's hash in which two sets that may be, and of two
//! objects of one fingerprint either both sets are the same or none is: whoever looks for one finds one slot at the most. Both
//! lie in one shard, under one lock, and in one page of a snapshot.
//!
//! The price: a lookup compares sixteen fingerprints in the place of eight. So twice as many lookups of what is absent read for nothing,
//! and twice as many objects share a slot with another one.

use std::ops::Range;

/// In how many sets an object may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choices {
    /// In that of its hash: every false read is one of eight slots.
    One,
    /// In another one too, of the same shard.
    Two,
}

impl Choices {
    /// The other set for what has this fingerprint and may be in `set`, among the sets that lie `beside` it. It may be the same.
    #[inline]
    pub fn other(self, set: u64, fingerprint: u16, beside: impl FnOnce() -> Range<u64>) -> u64 {
        if self == Choices::One {
            return set;
        }
        let beside = beside();
        let sets = beside.end.saturating_sub(beside.start) as u32;
        if !beside.contains(&set) || sets == 0 {
            return set;
        }
        let sum = (u64::from(fingerprint).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32;
        // Whichever of two numbers with this sum is given, the other one is found.
        let (sum, number) = (sum % sets, (set - beside.start) as u32);
        let other = if sum >= number { sum - number } else { sum + sets - number };
        beside.start + u64::from(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_of_the_other_is_the_first() {
        for (start, end) in [(0, 1), (0, 2), (0, 1067), (1067, 2134), (2134, 2500)] {
            for set in start..end {
                for fingerprint in [0, 1, 77, 0xFFE, 0xFFF] {
                    let other = Choices::Two.other(set, fingerprint, || start..end);
                    assert!((start..end).contains(&other));
                    assert_eq!(Choices::Two.other(other, fingerprint, || start..end), set);
                    assert_eq!(Choices::One.other(set, fingerprint, || start..end), set);
                }
            }
        }
        assert_eq!(Choices::Two.other(9, 5, || 0..3), 9, "there is no such set");
    }

    /// As docs/formats/generational.md has it: a change is another format.
    #[test]
    fn which_set_is_the_other_does_not_change() {
        let others = [0, 1, 2, 0x123, 0xFFF].map(|fingerprint| Choices::Two.other(2000, fingerprint, || 1067..2134));
        assert_eq!(others, [1201, 1318, 1497, 1676, 1146]);
    }

    /// What has one set has nearly every other one as its second.
    #[test]
    fn the_others_of_one_set_are_spread() {
        let mut others: Vec<_> =
            (0..4096).map(|fingerprint| Choices::Two.other(500, fingerprint, || 0..1067)).collect();
        others.sort_unstable();
        others.dedup();
        assert!(others.len() > 1000, "{}", others.len());
    }
}
