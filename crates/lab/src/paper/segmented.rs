//! Log-Structured Cache: Trading Hit-Rate for Storage Performance (and winning) in Mobile Devices (Aghayev, Desnoyers;
//! INFLOW 2013).

/// Figures 8 and 9: what 95 of 100 `ReadData` and `WriteData` did not exceed, in ms: "nearly 10 ms" of the existing cache, "less than a
/// millisecond" of the log-structured one.
pub const P95_MS: (f64, f64) = (10.0, 1.0);
/// The longest `ReadData`: "over 3 seconds", and 28 ms.
pub const WORST_READ_MS: (f64, f64) = (3000.0, 28.0);
/// The longest `WriteData` of the log-structured cache. That of the existing one is not given.
pub const WORST_WRITE_MS: f64 = 10.0;
/// Section 4.2: what a cache without end answers, in percent.
pub const INFINITE_PERCENT: (f64, f64) = (34.0, 45.0);
/// Figure 10: hit rates where the log-structured cache loses most: the existing cache's, and its own.
pub const WORST_HIT_RATES: (f64, f64) = (0.35, 0.32);
/// Section 4.3: the mean size of an object in bytes.
pub const OBJECT_BYTES: f64 = 4000.0;
/// Section 4.3: the speed in Mbit/s at which both caches take the same time for an operation, and that time in ms.
pub const BREAK_EVEN_MEAN: (f64, f64) = (0.94, 23.16);
/// The same for the 95th percentile.
pub const BREAK_EVEN_P95: (f64, f64) = (0.33, 65.8);
/// Section 4.3: 3G at the low end, and a phone's WiFi, in Mbit/s.
pub const NETWORKS: (f64, f64) = (1.0, 8.5);

/// Equation (1): the time of an operation in ms, by the time of a read in ms, the hit rate, and the time to fetch an object in ms.
pub fn operation_ms(read_ms: f64, hit_rate: f64, fetch_ms: f64) -> f64 {
    read_ms * hit_rate + fetch_ms * (1.0 - hit_rate)
}

/// The time to fetch an object in ms, at so many Mbit/s: 8 S / R, and a round trip where there is one.
pub fn fetch_ms(object_bytes: f64, megabits: f64, round_trip_ms: f64) -> f64 {
    8.0 * object_bytes / (megabits * 1e6) * 1e3 + round_trip_ms
}

/// The time of a read that equation (1) has with the time of an operation: what the paper used and does not print.
pub fn read_ms(operation_ms: f64, hit_rate: f64, fetch_ms: f64) -> f64 {
    (operation_ms - fetch_ms * (1.0 - hit_rate)) / hit_rate
}

/// The speed in Mbit/s above which the second cache is the faster one, each given by the time of a read in ms and its hit rate. `None` if there is
/// none: one of them is always the faster.
pub fn break_even(first: (f64, f64), second: (f64, f64), object_bytes: f64, round_trip_ms: f64) -> Option<f64> {
    // Both take as long where a fetch takes this.
    let fetch_ms = (first.0 * first.1 - second.0 * second.1) / (first.1 - second.1);
    let moved_ms = fetch_ms - round_trip_ms;
    (first.1 > second.1 && moved_ms > 0.0).then(|| 8.0 * object_bytes / (moved_ms * 1e3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equation_1_gives_the_papers_speeds_back() {
        let (rate, both) = (WORST_HIT_RATES, [BREAK_EVEN_MEAN, BREAK_EVEN_P95]);
        for (speed, time) in both {
            let fetch = fetch_ms(OBJECT_BYTES, speed, 0.0);
            let reads = (read_ms(time, rate.0, fetch), read_ms(time, rate.1, fetch));
            let even = break_even((reads.0, rate.0), (reads.1, rate.1), OBJECT_BYTES, 0.0).unwrap();
            assert!((even / speed - 1.0).abs() < 1e-6, "{even}");
            assert!((operation_ms(reads.0, rate.0, fetch) - time).abs() < 1e-6);
        }
        assert_eq!(
            break_even((3.0, 0.35), (0.0, 0.32), 4000.0, 50.0),
            None,
            "a round trip costs more than a read saves"
        );
        assert_eq!(break_even((3.0, 0.3), (0.0, 0.32), 4000.0, 0.0), None, "better in both");
        assert!((fetch_ms(4000.0, 1.0, 10.0) - 42.0).abs() < 1e-9);
    }
}
