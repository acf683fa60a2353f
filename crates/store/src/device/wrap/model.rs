//! How long a disk takes: a model, not a measurement.

use std::time::Duration;

/// How long requests take. A request that begins where the one before ended takes its bytes at
/// [`Model::stream_bytes_per_second`]; any other takes a seek by its distance, half a turn, and the time of its size.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// The seek to the next track.
    pub shortest_seek: Duration,
    /// The seek across the whole device. In between it grows with the square root of the distance.
    pub longest_seek: Duration,
    /// Half a turn of the platter: the mean wait for the first byte after a seek.
    pub half_turn: Duration,
    /// Times of request sizes in bytes, after the seek, ascending; between them linear, before them from zero, beyond
    /// them at the streaming rate.
    pub transfer: Vec<(u64, Duration)>,
    /// Bytes a second of contiguous requests. Not 0; 0 is taken for 1.
    pub stream_bytes_per_second: u64,
    /// A sync's time.
    pub sync: Duration,
    /// Requests carried out at the same time, each in its own time: 1 for a disk with one arm, more for flash and for
    /// arrays. 0 is taken for 1.
    pub lanes: usize,
    /// Of so many requests that wait longest, the nearest goes next (in real time only). 1: in order of arrival.
    pub queue_depth: usize,
}

impl Model {
    /// A SATA disk of 7200 turns a minute with one request at a time, shaped by Table 6 of the HashCache paper:
    /// random reads of 1 to 128 KiB take 12.5 to 19.2 ms on average over the whole device.
    ///
    /// What the paper does not say is chosen: 1 ms to the next track, 4.17 ms half a turn, the rest of the 12.4 ms
    /// that positioning takes put into the seek's growth with distance, and 60 MB/s streaming.
    pub fn sata_7200() -> Self {
        let transfer = [(1, 0.1), (4, 0.5), (8, 0.7), (16, 0.9), (32, 1.3), (64, 1.7), (128, 6.8)];
        Model {
            shortest_seek: milliseconds(1.0),
            // Two random points lie such that the root of their distance is 8/15 on average: 12.4 - 4.17 - 1 = 7.23.
            longest_seek: milliseconds(1.0 + 7.23 * 15.0 / 8.0),
            half_turn: milliseconds(4.17),
            transfer: transfer.map(|(kibibytes, time)| (kibibytes << 10, milliseconds(time))).to_vec(),
            stream_bytes_per_second: 60_000_000,
            sync: milliseconds(8.3),
            lanes: 1,
            queue_depth: 1,
        }
    }

    /// A flash disk as in a small server: 32 requests at a time, each 4 KiB in about 100 us, no seeks. Chosen, not
    /// measured.
    pub fn flash() -> Self {
        Model {
            shortest_seek: Duration::ZERO,
            longest_seek: Duration::ZERO,
            half_turn: Duration::ZERO,
            transfer: vec![(512, milliseconds(0.08)), (4 << 10, milliseconds(0.1)), (64 << 10, milliseconds(0.3))],
            stream_bytes_per_second: 500_000_000,
            sync: milliseconds(0.5),
            lanes: 32,
            queue_depth: 1,
        }
    }

    /// The same model with the nearest of `depth` waiting requests going first.
    pub fn with_queue_depth(self, depth: usize) -> Self {
        Model { queue_depth: depth.max(1), ..self }
    }

    /// The time of a request of `bytes` that begins `distance` bytes from where the last ended, on a device of so
    /// many.
    pub fn time(&self, distance: u64, bytes: u64, device_bytes: u64) -> Duration {
        if distance == 0 {
            return self.stream(bytes);
        }
        let share = (distance as f64 / device_bytes.max(1) as f64).min(1.0).sqrt();
        let growth = self.longest_seek.saturating_sub(self.shortest_seek);
        self.shortest_seek + growth.mul_f64(share) + self.half_turn + self.transfer_time(bytes)
    }

    fn transfer_time(&self, bytes: u64) -> Duration {
        let mut before = (0, Duration::ZERO);
        for &(size, time) in &self.transfer {
            if bytes <= size {
                let share = (bytes - before.0) as f64 / (size - before.0).max(1) as f64;
                return before.1 + time.saturating_sub(before.1).mul_f64(share);
            }
            before = (size, time);
        }
        before.1 + self.stream(bytes - before.0)
    }

    fn stream(&self, bytes: u64) -> Duration {
        Duration::from_secs_f64(bytes as f64 / self.stream_bytes_per_second.max(1) as f64)
    }
}

fn milliseconds(time: f64) -> Duration {
    Duration::from_secs_f64(time / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_grow_with_distance_and_size() {
        let model = Model::sata_7200();
        let device = 1 << 40;
        let mut before = Duration::ZERO;
        for distance in [1, 1 << 20, 1 << 30, 1 << 39, 1 << 40] {
            let time = model.time(distance, 4096, device);
            assert!(time > before, "{distance}");
            before = time;
        }
        for bytes in [512, 1 << 10, 3000, 64 << 10, 100_000, 1 << 20] {
            assert!(model.time(1 << 30, bytes + 512, device) > model.time(1 << 30, bytes, device), "{bytes}");
        }
        assert_eq!(model.time(0, 60_000_000, device), Duration::from_secs(1), "contiguous: the streaming rate alone");
        assert_eq!(model.time(1, 4096, 0), model.time(5, 4096, 0), "a device of no size is no reason to panic");
    }
}
