//! How long requests to a device took, counted in classes.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Upper ends of the classes of times, in microseconds; the last class has all that took longer. From a fast SSD's read
/// to a disk that is about to be given up.
pub const TIME_BOUNDS_US: [u64; 13] =
    [50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 1_000_000, 5_000_000];

/// How long requests took, from when they were handed in to when they ended, well or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// How many took up to each of [`TIME_BOUNDS_US`] and longer than the one before; the last took longer than any.
    pub counts: [u64; TIME_BOUNDS_US.len() + 1],
    /// What all of them took together, in microseconds.
    pub total_us: u64,
}

impl Times {
    /// Both together.
    pub fn with(mut self, other: Times) -> Times {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        self.total_us += other.total_us;
        self
    }
}

/// The same, counted by many threads. 112 bytes, two additions a request.
#[derive(Default)]
pub(super) struct SharedTimes {
    counts: [AtomicU64; TIME_BOUNDS_US.len() + 1],
    total_us: AtomicU64,
}

impl SharedTimes {
    pub(super) fn add(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let class = TIME_BOUNDS_US.partition_point(|&bound| bound < us);
        if let Some(count) = self.counts.get(class) {
            count.fetch_add(1, Relaxed);
        }
        self.total_us.fetch_add(us, Relaxed);
    }

    pub(super) fn get(&self) -> Times {
        let mut times = Times { total_us: self.total_us.load(Relaxed), ..Times::default() };
        for (to, from) in times.counts.iter_mut().zip(&self.counts) {
            *to = from.load(Relaxed);
        }
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_is_in_its_class() {
        let times = SharedTimes::default();
        for us in [0, 50, 51, 5_000_000, 5_000_001] {
            times.add(Duration::from_micros(us));
        }
        let got = times.get();
        assert_eq!((got.counts[0], got.counts[1], got.counts[12], got.counts[13]), (2, 1, 1, 1));
        assert_eq!(got.total_us, 10_000_102);
        let both = got.with(got);
        assert_eq!((both.counts.iter().sum::<u64>(), both.total_us), (10, 20_000_204));
    }
}
