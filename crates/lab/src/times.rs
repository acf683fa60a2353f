//! How long calls took, and what part of them took longer.

use std::time::Duration;

/// Times of calls of one kind. Memory: 8 bytes a call.
#[derive(Clone, Debug, Default)]
pub struct Times {
    nanos: Vec<u64>,
    is_sorted: bool,
}

impl Times {
    /// One more.
    pub fn add(&mut self, time: Duration) {
        self.nanos.push(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        self.is_sorted = false;
    }

    /// Others as well.
    pub fn extend(&mut self, others: Times) {
        self.nanos.extend(others.nanos);
        self.is_sorted = false;
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.nanos.len() as u64
    }

    /// The time that this share of the calls, from 0 to 1, did not exceed: the nearest rank. Nothing without calls.
    pub fn percentile(&mut self, share: f64) -> Option<Duration> {
        if !self.is_sorted {
            self.nanos.sort_unstable();
            self.is_sorted = true;
        }
        let rank = (self.nanos.len() as f64 * share).ceil().max(1.0) as usize;
        self.nanos.get(rank.min(self.nanos.len()).checked_sub(1)?).copied().map(Duration::from_nanos)
    }

    /// The mean. Nothing without calls.
    pub fn mean(&self) -> Option<Duration> {
        let sum: u128 = self.nanos.iter().map(|nanos| u128::from(*nanos)).sum();
        let mean = sum.checked_div(self.nanos.len() as u128)?;
        Some(Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_by_the_nearest_rank() {
        let mut times = Times::default();
        assert_eq!((times.percentile(0.5), times.mean()), (None, None));
        (1..=100).rev().for_each(|number| times.add(Duration::from_millis(number)));
        let of = [0.0, 0.01, 0.5, 0.95, 0.951, 1.0].map(|share| times.percentile(share).unwrap().as_millis());
        assert_eq!(of, [1, 1, 50, 95, 96, 100]);
        times.add(Duration::from_secs(1000));
        assert_eq!((times.percentile(1.0), times.count()), (Some(Duration::from_secs(1000)), 101));
        assert_eq!(times.mean(), Some(Duration::from_nanos(9_950_990_099)));
        let mut both = Times::default();
        both.add(Duration::from_secs(2000));
        assert_eq!(both.percentile(0.0), Some(Duration::from_secs(2000)));
        both.extend(times);
        assert_eq!((both.count(), both.percentile(0.0)), (102, Some(Duration::from_millis(1))));
    }
}
