//! The papers' disks, as models.

use std::time::Duration;

use tinaja_store::device::wrap::Model;

/// The SATA disk of Table 6, 7200 turns a minute: 76 random reads of 8 KiB a second.
pub fn sata_7200() -> Model {
    Model::sata_7200()
}

/// The USB disks of section 5.4: 7200 turns a minute and 67 to 70 random reads a second; here 68.5.
pub fn usb_7200() -> Model {
    turning(7200.0, 68.5)
}

/// The SCSI disks of section 5.3: 10,000 turns a minute and 90 to 95 random reads a second; here 92.5.
pub fn scsi_10000() -> Model {
    turning(10_000.0, 92.5)
}

/// A disk of 15,000 turns a minute. The paper says nothing of its seeks: Table 7 rates it 85/40 of the first disk, and so
/// does this model: 161.5 random reads a second.
pub fn scsi_15000() -> Model {
    turning(15_000.0, 76.0 * 85.0 / 40.0)
}

/// Bytes of the disk of Dámelo's section 5.2.
pub const SCSI_9LZX_BYTES: u64 = 9_100_000_000;

/// The SCSI disk of Dámelo's section 5.2, IBM's 9LZX. The paper says its size and that it streams 180 to 240 Mbit/s: here 210.
/// What it does not say is chosen as such disks were: 10,000 turns a minute, 0.7 ms to the next track and 5 ms for the mean
/// seek. One arm; the order of requests is left to whoever asks.
pub fn scsi_9lzx() -> Model {
    let (shortest_seek, mean) = (Duration::from_micros(700), Duration::from_micros(5000));
    let (bytes_per_second, turns) = (210_000_000 / 8, 10_000.0);
    let half_turn = Duration::from_secs_f64(30.0 / turns);
    Model {
        shortest_seek,
        longest_seek: shortest_seek + (mean - shortest_seek).mul_f64(15.0 / 8.0),
        half_turn,
        // Of all sizes the bytes alone.
        transfer: Vec::new(),
        stream_bytes_per_second: bytes_per_second,
        sync: half_turn * 2,
        lanes: 1,
        queue_depth: 1,
    }
}

/// A disk of so many turns a minute and so many random reads of 8 KiB a second. Half a turn follows from the turns, the
/// transfers of Table 6 go with them, and what is left of a request's time is put into the arm.
fn turning(turns: f64, reads: f64) -> Model {
    let sata = Model::sata_7200();
    let faster = 7200.0 / turns;
    let scale = |time: Duration, by: f64| Duration::from_secs_f64(time.as_secs_f64() * by);
    let half_turn = Duration::from_secs_f64(30.0 / turns);
    let transfer: Vec<_> = sata.transfer.iter().map(|(bytes, time)| (*bytes, scale(*time, faster))).collect();
    let eight = transfer.iter().find(|(bytes, _)| *bytes == 8 << 10).map_or(Duration::ZERO, |(_, time)| *time);
    let arm = Duration::from_secs_f64(1.0 / reads).saturating_sub(half_turn + eight);
    let mean_arm = |model: &Model| mean_seek(model.shortest_seek, model.longest_seek);
    let by = arm.as_secs_f64() / mean_arm(&sata).as_secs_f64();
    Model {
        shortest_seek: scale(sata.shortest_seek, by),
        longest_seek: scale(sata.longest_seek, by),
        half_turn,
        transfer,
        stream_bytes_per_second: (sata.stream_bytes_per_second as f64 / faster) as u64,
        sync: half_turn * 2,
        ..sata
    }
}

/// Between two random points, the root of whose distance is 8/15 of the whole on average.
fn mean_seek(shortest: Duration, longest: Duration) -> Duration {
    shortest + longest.saturating_sub(shortest).mul_f64(8.0 / 15.0)
}

/// Random reads of so many bytes that a disk carries out in a second: the paper's `t`.
pub fn random_reads_a_second(model: &Model, bytes: u64) -> f64 {
    let arm = mean_seek(model.shortest_seek, model.longest_seek);
    // A request to the next block takes the shortest seek, half a turn and its bytes.
    let rest = model.time(1, bytes, u64::MAX).saturating_sub(model.shortest_seek);
    1.0 / (arm + rest).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Random reads over the whole disk take what the paper says, by the formula and by drawing places.
    #[test]
    fn random_reads_are_the_papers() {
        for (model, bytes, wanted) in [
            (sata_7200(), 8 << 10, 76.0),
            (sata_7200(), 64 << 10, 70.0),
            (sata_7200(), 1 << 10, 78.0),
            (usb_7200(), 8 << 10, 68.5),
            (scsi_10000(), 8 << 10, 92.5),
            (scsi_15000(), 8 << 10, 161.5),
            // 5 ms of seek, 3 of half a turn, 10 of 256 KiB.
            (scsi_9lzx(), 256 << 10, 55.6),
        ] {
            let reads = random_reads_a_second(&model, bytes);
            assert!((reads / wanted - 1.0).abs() < 0.03, "{reads} reads of {bytes} bytes, not {wanted}");
            let (mut random, mut at, mut time) = (Random::new(3), 0_u64, Duration::ZERO);
            for _ in 0..20_000 {
                let to = random.below(1 << 40);
                time += model.time(at.abs_diff(to), bytes, 1 << 40);
                at = to;
            }
            let drawn = 20_000.0 / time.as_secs_f64();
            assert!((drawn / reads - 1.0).abs() < 0.01, "{drawn} drawn, {reads} by the formula");
        }
    }
}
