//! How long a disk takes for a read: Table 6 of the HashCache paper, for any disk.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::scratch::Scratch;
use crate::device::{Device, OpenDiskError, blocking};

/// Sizes that are read, in bytes. Those that the disk cannot read past the page cache are left out.
const SIZES: [u64; 9] = [1 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10];

/// The paper's Table 6: the mean of three SATA disks. Reads of so many KiB, and milliseconds for each.
const SATA: [(u64, f64); 7] = [(1, 12.5), (4, 12.9), (8, 13.1), (16, 13.3), (32, 13.7), (64, 14.1), (128, 19.2)];

/// The smallest bin, in bytes.
const LEAST_BIN_BYTES: u64 = 4096;

/// Reads of one size are no more: the mean does not change any more.
const MOST_READS: u64 = 500;

/// Reads of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadSpeed {
    /// Bytes of each.
    pub bytes: u64,
    /// How many there were; 0 where the paper says it.
    pub reads: u64,
    /// How long each took, on average, in milliseconds.
    pub latency_ms: f64,
    /// How long the middle one of them took: what is chosen by, since others may keep the disk busy for a moment.
    pub median_ms: f64,
}

impl ReadSpeed {
    /// Seeks a second, one read at a time.
    pub fn per_second(&self) -> f64 {
        if self.latency_ms > 0.0 { 1000.0 / self.latency_ms } else { 0.0 }
    }
}

/// What a disk does, by size of read, the smallest first.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskSpeed {
    /// By size.
    pub reads: Vec<ReadSpeed>,
    /// What was measured, and how.
    pub of: String,
}

/// Why a disk could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// A file to read could not be made there.
    #[error(transparent)]
    Scratch(#[from] OpenDiskError),
    /// There is little room.
    #[error("there are {free} bytes free in {dir}, and measuring takes {needed} for a while: make room")]
    Full {
        /// Where.
        dir: String,
        /// How many bytes are free.
        free: u64,
        /// How many there should be.
        needed: u64,
    },
    /// What was read came from memory.
    #[error("{0} cannot be read past the page cache, so its disk cannot be measured")]
    Cached(String),
    /// The disk failed, or was so slow that not all sizes were read.
    #[error("{0}")]
    Failed(String),
}

impl DiskSpeed {
    /// The paper's disks.
    pub fn of_the_paper() -> Self {
        let speed = |(kib, latency_ms)| ReadSpeed { bytes: kib << 10, reads: 0, latency_ms, median_ms: latency_ms };
        DiskSpeed { reads: SATA.map(speed).into(), of: "three SATA disks of the HashCache paper".into() }
    }

    /// Measure the disk under a directory: random reads past the page cache, one at a time, of each size in turn, in a
    /// file that is written first and removed at the end. Takes `budget`, and one read more; of that a third for writing.
    /// The file has up to 256 MiB, so of a disk that turns only short seeks are seen: how sizes compare is what counts.
    /// Errors: [`TuneError`]; nothing is left behind.
    pub fn measure(dir: &Path, budget: Duration) -> Result<Self, TuneError> {
        let began = Instant::now();
        let scratch = Scratch::make(dir, budget / 3)?;
        let of = format!("{}, random reads within {} MiB", dir.display(), scratch.bytes() >> 20);
        let left = budget.saturating_sub(began.elapsed());
        let speed = DiskSpeed::of_device(scratch.device()?, scratch.bytes(), left, || began.elapsed())?;
        Ok(DiskSpeed { of, ..speed })
    }

    /// [`DiskSpeed::measure`], or the paper's disks where that cannot be done, which is then said instead.
    pub fn measured_or_the_papers(dir: &Path, budget: Duration) -> Self {
        DiskSpeed::measure(dir, budget).unwrap_or_else(|why| {
            let paper = DiskSpeed::of_the_paper();
            DiskSpeed { of: format!("{}, since {why}", paper.of), ..paper }
        })
    }

    /// Measure a device of which the first `bytes` were written, for so long by a clock, which tells the time since some
    /// moment. Errors: [`TuneError::Failed`].
    pub fn of_device(
        device: &dyn Device,
        bytes: u64,
        budget: Duration,
        clock: impl Fn() -> Duration,
    ) -> Result<Self, TuneError> {
        let until = clock() + budget;
        let block = device.geometry().block_bytes.max(1);
        let fits = |size: &u64| size.is_multiple_of(block) && *size <= bytes;
        let mut taken: Vec<_> = SIZES.into_iter().filter(fits).map(|size| (size, Vec::new())).collect();
        let mut state = 0x7469_6e61_6a61_u64;
        for round in 0..MOST_READS {
            for (size, times) in &mut taken {
                if round > 0 && clock() >= until {
                    break;
                }
                let at = random(&mut state) % (bytes / *size) * *size;
                let began = clock();
                let read = blocking::read(device, at, *size as usize);
                read.map_err(|error| TuneError::Failed(format!("the disk failed while it was measured: {error}")))?;
                times.push(clock().saturating_sub(began));
            }
            // Once all sizes were read there is something to choose by.
            if clock() >= until {
                break;
            }
        }
        let speed = |(bytes, mut times): (u64, Vec<Duration>)| {
            times.sort_unstable();
            let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
            let all: Duration = times.iter().sum();
            ReadSpeed {
                bytes,
                reads: times.len() as u64,
                latency_ms: milliseconds(all) / times.len().max(1) as f64,
                median_ms: times.get(times.len() / 2).copied().map_or(0.0, milliseconds),
            }
        };
        match taken.is_empty() {
            true => Err(TuneError::Failed(format!("{bytes} bytes are too few to read any size from"))),
            false => Ok(DiskSpeed { reads: taken.into_iter().map(speed).collect(), of: "a device".into() }),
        }
    }

    /// The latency that others are compared with: that of the smallest bin. Smaller reads are slower on disks that write
    /// sectors of 4 KiB.
    fn first(&self) -> Option<&ReadSpeed> {
        self.reads.iter().find(|speed| speed.median_ms > 0.0 && speed.bytes >= LEAST_BIN_BYTES)
    }

    /// Bytes of the read that others are compared with.
    pub(super) fn smallest_bytes(&self) -> u64 {
        self.first().map_or(0, |speed| speed.bytes)
    }

    /// The largest read that takes at most so many times as long as the smallest, all smaller ones included; 64 KiB where
    /// nothing is known.
    pub(super) fn knee_bytes(&self, most_longer: f64) -> u64 {
        let Some(first) = self.first() else { return 64 << 10 };
        let quick = self.reads.iter().skip_while(|speed| *speed != first);
        let quick = quick.take_while(|speed| speed.median_ms <= first.median_ms * most_longer);
        quick.last().map_or(first.bytes, |speed| speed.bytes)
    }

    /// How many times longer than the smallest a read takes; and the next larger one, with its size.
    pub(super) fn slowdown(&self, bytes: u64) -> Option<(f64, Option<(u64, f64)>)> {
        let first = self.first()?.median_ms;
        let at = self.reads.iter().position(|speed| speed.bytes == bytes)?;
        let next = self.reads.get(at + 1).map(|speed| (speed.bytes, speed.median_ms / first));
        Some((self.reads.get(at)?.median_ms / first, next))
    }
}

impl fmt::Display for DiskSpeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "The disk (HashCache, Table 6): {}", self.of)?;
        writeln!(f, "      read size   seeks a second   latency, ms   median, ms   reads")?;
        for speed in &self.reads {
            let reads = if speed.reads > 0 { speed.reads.to_string() } else { "-".into() };
            let (rate, mean, median) = (speed.per_second(), speed.latency_ms, speed.median_ms);
            writeln!(f, "  {:>9} KiB   {rate:>14.0}   {mean:>11.3}   {median:>10.3}   {reads:>5}", speed.bytes >> 10)?;
        }
        Ok(())
    }
}

/// The next number of a sequence that is always the same (SplitMix64).
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
