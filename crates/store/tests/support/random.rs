//! Numbers that are the same at each run.

/// A linear congruential generator (Knuth's constants): the same numbers for the same seed.
pub struct Random(pub u64);

impl Random {
    /// A number below that.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// A number from 0 to 1, 1 excluded.
    pub fn part(&mut self) -> f64 {
        self.next() as f64 / (1_u64 << 31) as f64
    }

    /// 31 bits: the lowest bits of such a generator repeat soon.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}
