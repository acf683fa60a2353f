//! Sizes of web objects as CoDeeN saw them: Table 5 of the HashCache paper.

use crate::paper::hashcache::TABLE_5;
use crate::random::Random;

/// The smallest and the largest object; the paper gives neither.
const ENDS: (f64, f64) = (256.0, (1 << 20) as f64);

/// A body's size in bytes, distributed as in Table 5; within one of its classes the logarithm of the size is uniform.
pub fn codeen_bytes(random: &mut Random) -> u64 {
    let share = random.unit() * 100.0;
    let mut from = ENDS.0;
    for (kibibytes, below) in TABLE_5 {
        let to = kibibytes as f64 * 1024.0;
        if share < below {
            return between(from, to, random);
        }
        from = to;
    }
    between(from, ENDS.1, random)
}

fn between(from: f64, to: f64, random: &mut Random) -> u64 {
    (from.ln() + (to / from).ln() * random.unit()).exp() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_table() {
        let mut random = Random::new(1);
        let sizes: Vec<_> = (0..100_000).map(|_| codeen_bytes(&mut random)).collect();
        for (kibibytes, percent) in TABLE_5 {
            let below = sizes.iter().filter(|bytes| **bytes < kibibytes << 10).count() as f64 / 1000.0;
            assert!((below - percent).abs() < 0.5, "{below} % are below {kibibytes} KiB, not {percent}");
        }
    }
}
