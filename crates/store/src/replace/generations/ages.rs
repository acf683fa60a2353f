//! Ages in buckets: four in each doubling, from a thousandth of a lap to 64 laps.

/// Units of the finest buckets in a lap.
const UNITS: f64 = 1024.0;
/// Buckets: four of a unit each, then four in each doubling.
pub(super) const BUCKETS: usize = 60;

/// The bucket of an age in laps. The last has all that is older.
pub(super) fn bucket(laps: f64) -> usize {
    let units = (laps * UNITS).clamp(0.0, 1e15) as u64;
    if units < 4 {
        return units as usize;
    }
    let doubling = units.ilog2();
    let quarter = units >> (doubling - 2) & 3;
    ((doubling as usize - 1) * 4 + quarter as usize).min(BUCKETS - 1)
}

/// Where a bucket begins, in units.
const fn begins_units(bucket: usize) -> u64 {
    if bucket < 4 { bucket as u64 } else { (4 + bucket as u64 % 4) << (bucket / 4 - 1) }
}

/// Where a bucket begins, in laps; of the one behind the last: where that would end.
pub(super) fn begins(bucket: usize) -> f64 {
    begins_units(bucket) as f64 / UNITS
}

/// How long a bucket is, in laps.
pub(super) fn length(bucket: usize) -> f64 {
    begins(bucket + 1) - begins(bucket)
}

/// The buckets between two ages, with how long each of them was there. What is beyond the last bucket counts as in it.
pub(super) fn between(from: f64, to: f64) -> impl Iterator<Item = (usize, f64)> {
    let (first, last) = (bucket(from), bucket(to));
    (first..=last).map(move |bucket| {
        let end = if bucket == BUCKETS - 1 { f64::INFINITY } else { begins(bucket + 1) };
        (bucket, (to.min(end) - from.max(begins(bucket))).max(0.0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_without_gaps() {
        for number in 0..BUCKETS {
            assert!(length(number) > 0.0);
            assert_eq!(bucket(begins(number)), number);
            assert_eq!(bucket(begins(number) + length(number) * 0.999), number);
        }
        assert_eq!([bucket(-1.0), bucket(f64::NAN), bucket(1e30)], [0, 0, BUCKETS - 1]);
    }

    #[test]
    fn a_span_is_shared_out_and_nothing_is_lost() {
        for (from, to) in [(0.0, 0.0), (0.0, 0.01), (0.3, 0.9), (50.0, 300.0), (100.0, 101.0)] {
            let sum: f64 = between(from, to).map(|(_, laps)| laps).sum();
            assert!((sum - (to - from)).abs() < 1e-9, "{from} to {to}: {sum}");
        }
    }
}
