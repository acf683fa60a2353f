//! Random numbers that begin from a seed, and the distributions that the loads need.

use std::f64::consts::TAU;

/// A source of random numbers (SplitMix64). The same seed gives the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Numbers that begin from a seed.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// From 0 to 1, 1 excluded.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Below `end`; 0 if that is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u64
    }

    /// Whether something of this probability happens.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Exponentially distributed.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// Normally distributed, with mean 0 and deviation 1.
    pub fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.unit()).ln()).sqrt() * (TAU * self.unit()).cos()
    }

    /// Log-normally distributed, by the mean and the deviation of the numbers themselves.
    pub fn log_normal(&mut self, mean: f64, deviation: f64) -> f64 {
        let spread = (1.0 + (deviation / mean).powi(2)).ln();
        (mean.ln() - spread / 2.0 + spread.sqrt() * self.normal()).exp()
    }
}

/// The bits of a number, mixed: another number each time, evenly spread.
pub fn mix(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// Ranks from 1 on, where rank `r` is `1 / r` as likely as rank 1, or `1 / r^alpha`.
#[derive(Clone, Debug)]
pub struct Zipf(Vec<f64>);

impl Zipf {
    /// So many ranks, at least one. Memory: 8 bytes each.
    pub fn new(ranks: usize) -> Self {
        Zipf::with(ranks, 1.0)
    }

    /// The same, as steep as `alpha` says: 1 is Zipf's law, 0 makes all as likely.
    pub fn with(ranks: usize, alpha: f64) -> Self {
        let mut sum = 0.0;
        Zipf(
            (1..=ranks.max(1))
                .map(|rank| {
                    sum += (rank as f64).powf(-alpha);
                    sum
                })
                .collect(),
        )
    }

    /// One of the ranks.
    pub fn rank(&self, random: &mut Random) -> usize {
        let at = random.unit() * self.0.last().copied().unwrap_or_default();
        self.0.partition_point(|sum| *sum <= at) + 1
    }

    /// The mean rank.
    pub fn mean(&self) -> f64 {
        let before = std::iter::once(0.0).chain(self.0.iter().copied());
        let ranks = self.0.iter().zip(before).zip(1_u32..);
        let sum: f64 = ranks.map(|((sum, before), rank)| (sum - before) * f64::from(rank)).sum();
        sum / self.0.last().copied().unwrap_or(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(mut number: impl FnMut(&mut Random) -> f64) -> (f64, f64) {
        let mut random = Random::new(1);
        let numbers: Vec<_> = (0..200_000).map(|_| number(&mut random)).collect();
        let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
        let spread = numbers.iter().map(|number| (number - mean).powi(2)).sum::<f64>() / numbers.len() as f64;
        (mean, spread.sqrt())
    }

    #[test]
    fn distributions_have_their_means_and_deviations() {
        let close = |(mean, spread): (f64, f64), wanted: (f64, f64)| {
            assert!((mean / wanted.0 - 1.0).abs() < 0.02 && (spread / wanted.1 - 1.0).abs() < 0.05, "{mean} {spread}");
        };
        close(mean(|random| random.exponential(4.5)), (4.5, 4.5));
        close(mean(|random| random.log_normal(25.0, 10.0)), (25.0, 10.0));
        close(mean(|random| random.log_normal(300.0, 300.0)), (300.0, 300.0));
        let zipf = Zipf::new(13);
        assert!((mean(|random| zipf.rank(random) as f64).0 - zipf.mean()).abs() < 0.05);
    }

    #[test]
    fn a_seed_gives_the_same_numbers_again() {
        let numbers = |seed| (0..4).map(|_| Random::new(seed).bits()).collect::<Vec<_>>();
        assert_eq!(numbers(5), numbers(5));
        assert_ne!(numbers(5), numbers(6));
        assert_eq!(Random::new(1).below(0), 0);
    }
}
