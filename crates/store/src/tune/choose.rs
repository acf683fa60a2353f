//! From the two tables to the parameters.

use std::fmt;

use super::{DiskSpeed, Sizes};
use crate::engine::Settings;
use crate::engine::hashcache::settings::{BIN_SIZE, WAYS};
use crate::index::hash::MOST_HASH_BITS;

/// A set may be as large as the largest read that takes so much longer than one of 4 KiB, and no longer. The paper speaks of
/// a "sharp degradation" without a number. Its disks take 1.09 times as long for 64 KiB and 1.49 times for 128, so with this
/// number its own choice comes out of its tables. Where the measurement does not tell, the paper's set stands.
const MOST_LONGER: f64 = 1.25;
/// So many objects should fit a bin whole; the paper is content with three quarters, 74.8 %.
const MOST_OBJECTS: f64 = 0.7;
/// With fewer bins in a set too many objects leave because their set is full.
const LEAST_WAYS: u64 = 4;
/// What a row in memory has room for.
const MOST_WAYS: u64 = 8;
/// So many of the lookups of what is not there may read for nothing where nothing else is said: the paper's 8 bits and 8 ways
/// have 3.1 %.
const MOST_FALSE_READS: f64 = 0.04;
const LEAST_BIN_BYTES: u64 = 4096;
const MOST_BIN_BYTES: u64 = 64 << 10;
/// The largest mean size that a disk is cut for: beyond that there would be hardly any bins.
const MOST_MEAN_BYTES: u64 = 1 << 20;

/// The parameters, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Bytes of a bin.
    pub bin_bytes: u64,
    /// Bins of a set, for all engines with a Disk Table but Basic, which has one.
    pub ways: usize,
    /// Bits of each object's hash in memory, 8 to 16: see [`Choice::false_reads`].
    pub hash_bits: u8,
    /// The mean object size: what engines with a log alone count their slots by.
    pub mean_object_bytes: u64,
    /// Of how many lookups of absent objects the hash, in a full set, leads to a read for nothing.
    pub false_reads: f64,
    /// Why each was chosen, a sentence each.
    pub why: Vec<String>,
}

impl Choice {
    /// What a new cache with a Disk Table is made with; of Basic, whose sets are of one bin, the size of a bin alone.
    pub fn settings(&self, is_basic: bool) -> Settings {
        let size = Settings::new().with(&BIN_SIZE, self.bin_bytes);
        if is_basic { size } else { size.with(&WAYS, self.ways as u64) }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.why {
            writeln!(f, "  {line}")?;
        }
        Ok(())
    }
}

/// Choose from what a disk does and how large objects are. Whatever the tables say, what is chosen is a geometry that a
/// cache can be made with.
pub fn choose(disk: &DiskSpeed, sizes: &Sizes) -> Choice {
    choose_for(disk, sizes, MOST_FALSE_READS)
}

/// [`choose`], with as few bits of hash as let at most this share of the lookups of what is not there read the disk for
/// nothing, 0 to 1; 16 bits where none do.
pub fn choose_for(disk: &DiskSpeed, sizes: &Sizes, most_false_reads: f64) -> Choice {
    let knee = disk.knee_bytes(MOST_LONGER);
    let fits = |bytes: u64| sizes.below(bytes);
    let bins = || (LEAST_BIN_BYTES.ilog2()..=MOST_BIN_BYTES.ilog2()).map(|log| 1_u64 << log);
    // A set of the fewest bins must be read in one seek; of what is left the smallest bin that holds most.
    let largest = (knee / LEAST_WAYS).clamp(LEAST_BIN_BYTES, MOST_BIN_BYTES);
    let holds_most = bins().find(|bytes| fits(*bytes) >= MOST_OBJECTS).unwrap_or(MOST_BIN_BYTES);
    let bin_bytes = 1 << largest.min(holds_most).ilog2();
    let ways = bins_in(knee, bin_bytes);
    let mean_object_bytes = sizes.mean().clamp(LEAST_BIN_BYTES / 8, MOST_MEAN_BYTES);
    let enough = MOST_HASH_BITS.into_iter().find(|bits| false_reads(ways, *bits) <= most_false_reads);
    let hash_bits = enough.unwrap_or(*MOST_HASH_BITS.end());
    let most_bits = *MOST_HASH_BITS.end();
    let false_reads = |bits| false_reads(ways, bits);

    let kib = |bytes: u64| format!("{} KiB", bytes >> 10);
    let assumed = if sizes.is_assumed(bin_bytes) { ", an assumed share" } else { "" };
    let held = format!("{:.1} %{assumed}", 100.0 * fits(bin_bytes));
    let mut why = Vec::new();
    why.push(match disk.slowdown(knee) {
        Some((slower, beyond)) => format!(
            "a read of {} takes {slower:.2} times as long as one of {}{}: a set may be this large",
            kib(knee),
            kib(disk.smallest_bytes()),
            beyond.map_or(String::new(), |(next, beyond)| format!(", and one of {} {beyond:.2} times", kib(next))),
        ),
        None => format!("nothing is known about the disk: a set may have {}", kib(knee)),
    });
    let doubted: Vec<_> = disk.in_doubt(MOST_LONGER).map(kib).collect();
    if !doubted.is_empty() {
        why.push(format!(
            "the measurements leave it open whether reads of {} take more than {MOST_LONGER} times as long. This counts in favour \
             of sizes up to the 64 KiB of the paper's sets and against larger ones, so that two runs on one disk choose the same",
            doubted.join(" and ")
        ));
    }
    why.push(if bin_bytes == holds_most {
        format!("bins of {}: the smallest that hold most objects completely ({held})", kib(bin_bytes))
    } else {
        format!(
            "bins of {}: larger ones would hold more objects completely ({held} fit these), but fewer than {LEAST_WAYS} of \
             them would fit a set",
            kib(bin_bytes)
        )
    });
    if fits(bin_bytes) < 0.5 {
        let fewer = "most objects still take a second read, from the log: hashcache-log has no bins, and takes one read for each";
        why.push(fewer.to_owned());
    }
    why.push(format!(
        "sets of {ways} bins, {}: {}",
        kib(bin_bytes * ways as u64),
        if ways as u64 == MOST_WAYS {
            "the most that a row in memory has room for"
        } else {
            "the most that fit this size"
        },
    ));
    why.push(format!(
        "{hash_bits} bits of hash per object: {:.2} % of the lookups of absent objects read the disk in vain{}; each extra bit \
         costs one bit per object and halves that, to {:.3} % with {most_bits}",
        100.0 * false_reads(hash_bits),
        if enough.is_some() { "" } else { ", which is more than requested" },
        100.0 * false_reads(most_bits)
    ));
    why.push(format!(
        "objects of {mean_object_bytes} bytes on average: the number of slots of a log follows from this"
    ));
    Choice { bin_bytes, ways, hash_bits, mean_object_bytes, false_reads: false_reads(hash_bits), why }
}

fn bins_in(set_bytes: u64, bin_bytes: u64) -> usize {
    let ways = (set_bytes / bin_bytes.max(1)).clamp(LEAST_WAYS, MOST_WAYS);
    1 << ways.ilog2()
}

/// With 8 bits one in 255 of each way's hashes is the one that is looked for, since 0 means that the way is free.
fn false_reads(ways: usize, hash_bits: u8) -> f64 {
    let one = 1.0 / ((1_u64 << hash_bits) - 1) as f64;
    1.0 - (1.0 - one).powi(ways as i32)
}

#[cfg(test)]
mod tests {
    use super::super::ReadSpeed;
    use super::*;
    use crate::engines;
    use proptest::prelude::*;

    fn disk(latencies_ms: &[(u64, f64)]) -> DiskSpeed {
        let speed = |&(kib, latency_ms): &(u64, f64)| ReadSpeed {
            bytes: kib << 10,
            reads: 10,
            latency_ms,
            quick_ms: latency_ms,
            doubt: 0.01,
        };
        DiskSpeed { reads: latencies_ms.iter().map(speed).collect(), ..DiskSpeed::of_the_paper() }
    }

    #[test]
    fn the_papers_tables_lead_to_the_papers_choice() {
        let choice = choose(&DiskSpeed::of_the_paper(), &Sizes::of_the_paper());
        assert_eq!((choice.bin_bytes, choice.ways, choice.hash_bits), (8192, 8, 8));
        assert!((choice.false_reads - 0.031).abs() < 0.001, "{}", choice.false_reads);
        let text = choice.to_string();
        for words in [
            "64 KiB takes 1.09 times as long as one of 4 KiB, and one of 128 KiB 1.49 times",
            "74.8 %",
            "sets of 8 bins, 64 KiB",
            "3.09 %",
        ] {
            assert!(text.contains(words), "{words} in {text}");
        }
    }

    #[test]
    fn as_many_bits_of_hash_as_the_false_reads_allow() {
        let (disk, sizes) = (DiskSpeed::of_the_paper(), Sizes::of_the_paper());
        for (most, bits) in
            [(1.0, 8), (0.04, 8), (0.02, 9), (0.01, 10), (0.001, 13), (0.000_2, 16), (0.0, 16), (-1.0, 16)]
        {
            let choice = choose_for(&disk, &sizes, most);
            assert_eq!(choice.hash_bits, bits, "{choice}");
            assert_eq!(choice.to_string().contains("more than requested"), most < 0.000_1);
            assert!(choice.false_reads <= most || bits == 16);
        }
        assert_eq!(choose_for(&disk, &sizes, f64::NAN).hash_bits, 16);
    }

    #[test]
    fn a_disk_that_pays_for_every_byte_gets_small_sets() {
        let flash = disk(&[(4, 0.06), (8, 0.07), (16, 0.09), (32, 0.13), (64, 0.2)]);
        let choice = choose(&flash, &Sizes::of_the_paper());
        assert_eq!((choice.bin_bytes, choice.ways), (4096, 4), "{choice}");
        // One that moves bytes for nothing gets large ones, if objects need them.
        let fast = disk(&[(4, 10.0), (64, 10.1), (256, 10.4), (512, 10.9)]);
        let large = Sizes::from_bytes((0..100).map(|n| 20_000 + n * 100));
        let choice = choose(&fast, &large);
        assert_eq!((choice.bin_bytes, choice.ways), (32 << 10, 8), "{choice}");
        let choice = choose(&disk(&[(4, 10.0), (64, 10.1), (128, 20.0)]), &large);
        assert_eq!((choice.bin_bytes, choice.ways), (16 << 10, 4), "{choice}");
        assert!(choice.to_string().contains("would fit a set"), "{choice}");
    }

    /// Found where four runs of one to two seconds on one disk chose 4 KiB x 4 three times and 8 KiB x 4 once: as others were at
    /// work, a read of 32 KiB took 1.29 to 1.55 times as long as one of 4.
    #[test]
    fn measurements_that_differ_a_little_lead_to_one_choice() {
        let chosen = |longer: &[(u64, f64)]| {
            let reads: Vec<_> = longer.iter().map(|(kib, times)| (*kib, times * 0.1)).collect();
            let choice = choose(&disk(&reads), &Sizes::of_the_paper());
            (choice.bin_bytes, choice.ways, choice.to_string().contains("leave it open"))
        };
        for of_32 in [1.12, 1.24, 1.26, 1.33, 1.42, 1.48, 1.55, 1.64] {
            let all = [(4, 1.0), (8, 1.02), (16, 1.08), (32, of_32), (64, 1.75), (128, 2.3)];
            assert_eq!(chosen(&all), (8192, 4, of_32 > MOST_LONGER), "{of_32}");
            // The same of 64 KiB is the paper's set, and of 128 nothing: there it counts against them.
            let all = [(4, 1.0), (8, 1.01), (16, 1.02), (32, 1.04), (64, of_32), (128, of_32)];
            assert_eq!(chosen(&all), (8192, 8, true), "{of_32}");
        }
        // What is certain is gone by.
        assert_eq!(chosen(&[(4, 1.0), (8, 1.01), (16, 1.7), (32, 1.8), (64, 2.0)]), (4096, 4, false));
        assert_eq!(chosen(&[(4, 1.0), (64, 0.9), (128, 1.05), (256, 3.0)]), (8192, 8, false));
        // Too few reads to know anything by.
        let mut few = disk(&[(4, 1.0), (16, 2.0), (32, 2.5), (64, 3.0), (128, 1.0)]);
        few.reads.iter_mut().for_each(|speed| speed.doubt = 1.0);
        let choice = choose(&few, &Sizes::of_the_paper());
        assert_eq!((choice.bin_bytes, choice.ways), (8192, 8), "{choice}");
    }

    #[test]
    fn small_objects_get_small_bins_and_huge_ones_the_largest() {
        let paper = DiskSpeed::of_the_paper();
        let small = choose(&paper, &Sizes::from_bytes([500; 50]));
        assert_eq!((small.bin_bytes, small.ways, small.mean_object_bytes), (4096, 8, 512), "{small}");
        let huge = choose(&paper, &Sizes::from_bytes([50 << 20; 50]));
        assert_eq!((huge.bin_bytes, huge.ways, huge.mean_object_bytes), (16 << 10, 4, 1 << 20), "{huge}");
        assert!(huge.to_string().contains("hashcache-log has no bins") && !small.to_string().contains("hashcache-log"));
    }

    proptest! {
        /// Whatever is measured, a cache can be made with what is chosen, and the same is chosen again.
        #[test]
        fn what_is_chosen_can_be_made(
            latencies in proptest::collection::vec((0..2000_u64, prop_oneof![Just(0.0), Just(f64::NAN), 0.001..1e9]), 0..10),
            sizes in proptest::collection::vec(any::<u64>(), 0..20),
        ) {
            let (disk, sizes) = (disk(&latencies), Sizes::from_bytes(sizes));
            let choice = choose(&disk, &sizes);
            for (engine, is_basic) in [(engines::HASHCACHE_SET, false), (engines::HASHCACHE_BASIC, true)] {
                prop_assert_eq!(engines::built_in().wrong(engine, &choice.settings(is_basic), 4 << 20), None);
            }
            prop_assert!(choice.mean_object_bytes >= 512 && choice.mean_object_bytes <= 1 << 20);
            prop_assert_eq!(choose(&disk, &sizes), choice);
        }
    }
}
