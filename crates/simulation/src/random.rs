//! Numbers by a seed.

use std::ops::Range;
use std::time::Duration;

/// A generator (splitmix64): small, and good enough to decide by.
#[derive(Clone, Debug)]
pub struct Random(u64);

/// A well-mixed function of a number.
pub fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Random {
    /// What this seed begins with.
    pub fn new(seed: u64) -> Random {
        Random(mixed(seed))
    }

    /// A generator of its own, for somebody else. What either draws has no influence on the other.
    pub fn fork(&mut self) -> Random {
        Random(mixed(self.next()))
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mixed(self.0)
    }

    /// A number below `limit`; 0 where that is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        if limit == 0 { 0 } else { self.next() % limit }
    }

    /// A number of a range that is not empty.
    pub fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.below(range.end - range.start)
    }

    /// Whether something happens that happens so often in a thousand times.
    pub fn per_mille(&mut self, times: u64) -> bool {
        self.below(1000) < times
    }

    /// A time of a range, in milliseconds.
    pub fn millis(&mut self, range: Range<u64>) -> Duration {
        Duration::from_millis(self.within(range))
    }

    /// A time around a mean in milliseconds, mostly less and now and then much more.
    pub fn around(&mut self, mean: u64) -> Duration {
        let part = (self.below(1 << 20) + 1) as f64 / (1 << 20) as f64;
        Duration::from_millis((-(part.ln()) * mean as f64) as u64)
    }

    /// One of these, of which there is at least one.
    pub fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }
}
