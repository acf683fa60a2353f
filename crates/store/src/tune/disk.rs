//! How long a disk takes for a read: Table 6 of the HashCache paper, for any disk.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use tinaja_clock::Clock;

use super::paper;
use super::scratch::Scratch;
use crate::device::{Device, OpenDiskError, blocking};

/// Sizes that are read, in bytes. Those that the disk cannot read past the page cache are left out.
const SIZES: [u64; 9] = [1 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10];

/// The smallest bin, in bytes.
const LEAST_BIN_BYTES: u64 = 4096;

/// Reads of one size are no more: the mean does not change any more.
const MOST_READS: u64 = 500;

/// How far the ratio of two sizes may be off at least, as a share of it, if that leads to the paper's set: on a machine with
/// sixteen others at work a read of 32 KiB took 1.35 to 1.56 times as long as one of 4 in twelve runs of a second, by the
/// quickest tenth of some thousand reads each (by the middle ones 1.33 to 1.83). This is twice as far from their mean.
const DOUBT_TO_THE_PAPER: f64 = 1.0 / 3.0;

/// The same if it leads beyond it. So a moment's load does not decide how a cache is cut, except on a disk whose ratio is
/// near 1.67, or near 1.09 beyond 64 KiB: somewhere there is a line.
const DOUBT_BEYOND_THE_PAPER: f64 = 0.15;

/// Reads of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadSpeed {
    /// Bytes of each.
    pub bytes: u64,
    /// How many there were; 0 where the paper says it.
    pub reads: u64,
    /// How long each took, on average, in milliseconds.
    pub latency_ms: f64,
    /// How long a quick one took, slower than a tenth of them: what is chosen by. Whoever else keeps the disk or the processor
    /// busy adds to most reads, and hides by that how they compare, but hardly to these.
    pub quick_ms: f64,
    /// How far off that may be, as a share of it, for there were so few reads: it is nearer nineteen times of twenty. 1, which is
    /// all of it, where there were hardly any; 0 where the paper says it.
    pub doubt: f64,
}

impl ReadSpeed {
    /// Seeks a second, one read at a time.
    pub fn per_second(&self) -> f64 {
        if self.latency_ms > 0.0 { 1000.0 / self.latency_ms } else { 0.0 }
    }

    /// Whether this takes at most so many times as long as the first, if what is not certain leads to the paper's set. What the
    /// paper prints is taken as it is.
    fn counts_as_quick(&self, first: &ReadSpeed, most_longer: f64) -> bool {
        let is_the_papers = self.bytes <= paper::SET_BYTES;
        let least = if is_the_papers { DOUBT_TO_THE_PAPER } else { DOUBT_BEYOND_THE_PAPER };
        let doubt = match (self.reads, first.reads) {
            (0, 0) => 0.0,
            _ if self == first => 0.0,
            _ if self.doubt >= 1.0 || first.doubt >= 1.0 => f64::INFINITY,
            _ => (self.doubt + first.doubt).max(least),
        };
        let longer = self.quick_ms / first.quick_ms;
        if is_the_papers { longer / (1.0 + doubt) <= most_longer } else { longer * (1.0 + doubt) <= most_longer }
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
    #[error("there are {free} bytes free in {dir}, but measuring needs {needed} for a while: free some space")]
    Full {
        /// Where.
        dir: String,
        /// How many bytes are free.
        free: u64,
        /// How many there should be.
        needed: u64,
    },
    /// What was read came from memory.
    #[error("{0} cannot be read without the page cache, so its disk cannot be measured")]
    Cached(String),
    /// The disk failed, or was so slow that not all sizes were read.
    #[error("{0}")]
    Failed(String),
}

impl DiskSpeed {
    /// The paper's disks.
    pub fn of_the_paper() -> Self {
        let speed = |row: &paper::Table6| ReadSpeed {
            bytes: row.kib << 10,
            reads: 0,
            latency_ms: row.latency_ms,
            quick_ms: row.latency_ms,
            doubt: 0.0,
        };
        let reads = paper::TABLE_6.iter().map(speed).collect();
        DiskSpeed { reads, of: "three SATA disks of the HashCache paper".into() }
    }

    /// Measure the disk under a directory: random reads past the page cache, one at a time, of each size in turn, in a
    /// file that is written first and removed at the end. Takes `budget`, and one read more; of that a third for writing.
    /// The file has up to 256 MiB, so of a disk that turns only short seeks are seen: how sizes compare is what counts.
    /// Errors: [`TuneError`]; nothing is left behind.
    pub fn measure(clock: &Clock, dir: &Path, budget: Duration) -> Result<Self, TuneError> {
        let began = clock.now();
        let scratch = Scratch::make(clock, dir, budget / 3)?;
        let of = format!("{}, random reads within {} MiB", dir.display(), scratch.bytes() >> 20);
        let left = budget.saturating_sub(clock.since(began));
        let speed = DiskSpeed::of_device(scratch.device()?, scratch.bytes(), left, || clock.since(began))?;
        Ok(DiskSpeed { of, ..speed })
    }

    /// [`DiskSpeed::measure`], or the paper's disks where that cannot be done, which is then said instead.
    pub fn measured_or_the_papers(clock: &Clock, dir: &Path, budget: Duration) -> Self {
        DiskSpeed::measure(clock, dir, budget).unwrap_or_else(|why| DiskSpeed::of_the_paper_since(&why))
    }

    /// The paper's disks, and why others were not measured.
    pub fn of_the_paper_since(why: &TuneError) -> Self {
        let paper = DiskSpeed::of_the_paper();
        DiskSpeed { of: format!("{}, since {why}", paper.of), ..paper }
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
                quick_ms: times.get(times.len() / 10).copied().map_or(0.0, milliseconds),
                doubt: doubt(&times),
            }
        };
        match taken.is_empty() {
            true => Err(TuneError::Failed(format!("{bytes} bytes are too few to measure any read size"))),
            false => Ok(DiskSpeed { reads: taken.into_iter().map(speed).collect(), of: "a device".into() }),
        }
    }

    /// The latency that others are compared with: that of the smallest bin. Smaller reads are slower on disks that write
    /// sectors of 4 KiB.
    fn first(&self) -> Option<&ReadSpeed> {
        self.reads.iter().find(|speed| speed.quick_ms > 0.0 && speed.bytes >= LEAST_BIN_BYTES)
    }

    /// Bytes of the read that others are compared with.
    pub(super) fn smallest_bytes(&self) -> u64 {
        self.first().map_or(0, |speed| speed.bytes)
    }

    /// The largest read that takes at most so many times as long as the smallest, all smaller ones included; the paper's 64
    /// KiB where nothing is known. Where what was measured is not certain enough to say whether a read does, the paper is
    /// followed: up to 64 KiB it is taken to do, and beyond that not.
    pub(super) fn knee_bytes(&self, most_longer: f64) -> u64 {
        let Some(first) = self.first() else { return paper::SET_BYTES };
        let quick = self.reads.iter().skip_while(|speed| *speed != first);
        let quick = quick.take_while(|speed| speed.counts_as_quick(first, most_longer));
        quick.last().map_or(first.bytes, |speed| speed.bytes)
    }

    /// The reads that are judged otherwise than they were measured, since that is not certain enough.
    pub(super) fn in_doubt(&self, most_longer: f64) -> impl Iterator<Item = u64> + '_ {
        let first = self.first();
        let is_in_doubt = move |speed: &&ReadSpeed| {
            let measured = |first: &ReadSpeed| speed.quick_ms <= first.quick_ms * most_longer;
            speed.bytes >= LEAST_BIN_BYTES
                && first.is_some_and(|first| measured(first) != speed.counts_as_quick(first, most_longer))
        };
        self.reads.iter().filter(is_in_doubt).map(|speed| speed.bytes)
    }

    /// How many times longer than the smallest a read takes; and the next larger one, with its size.
    pub(super) fn slowdown(&self, bytes: u64) -> Option<(f64, Option<(u64, f64)>)> {
        let first = self.first()?.quick_ms;
        let at = self.reads.iter().position(|speed| speed.bytes == bytes)?;
        let next = self.reads.get(at + 1).map(|speed| (speed.bytes, speed.quick_ms / first));
        Some((self.reads.get(at)?.quick_ms / first, next))
    }
}

impl fmt::Display for DiskSpeed {
    /// What was measured, and beside it what the paper prints.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "The disk: {}. For comparison: Table 6 of the HashCache paper", self.of)?;
        writeln!(
            f,
            "      read size   seeks a second   latency, ms   quick, ms    +-   reads | Table 6: seeks a second, ms"
        )?;
        for speed in &self.reads {
            write!(f, "  {:>9} KiB   ", speed.bytes >> 10)?;
            if speed.reads > 0 {
                let (rate, mean, quick) = (speed.per_second(), speed.latency_ms, speed.quick_ms);
                let doubt = format!("{:.0} %", 100.0 * speed.doubt);
                write!(f, "{rate:>14.0}   {mean:>11.3}   {quick:>9.3}   {doubt:>5}  {:>5}", speed.reads)?;
            } else {
                write!(f, "{:>14}   {:>11}   {:>9}   {:>5}  {:>5}", "-", "-", "-", "-", "-")?;
            }
            match paper::table_6(speed.bytes) {
                Some(row) => writeln!(f, " | {:>23}  {:>4.1}", row.per_second, row.latency_ms)?,
                None => writeln!(f, " | {:>23}  {:>4}", "-", "-")?,
            }
        }
        Ok(())
    }
}

/// See [`ReadSpeed::doubt`], of times in their order: how many of so many reads are quicker than the tenth that is chosen by is
/// itself uncertain, by 0.6 times the root of their number to either side.
fn doubt(times: &[Duration]) -> f64 {
    let (quick, off) = (times.len() / 10, (times.len() as f64).sqrt() * 0.6);
    let around = quick.checked_sub(off as usize).filter(|low| *low > 0).and_then(|low| times.get(low));
    match (around, times.get(quick), times.get(quick + off as usize)) {
        (Some(low), Some(quick), Some(high)) if !quick.is_zero() => {
            (high.saturating_sub(*low)).as_secs_f64() / 2.0 / quick.as_secs_f64()
        }
        _ => 1.0,
    }
}

/// The next number of a sequence that is always the same (SplitMix64).
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
