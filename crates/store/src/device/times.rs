//! Counting how long requests to a device take, on many threads.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::terms::{TIME_BOUNDS_US, Times};

/// [`Times`], counted by many threads. 112 bytes, two additions a request.
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
