//! How many requests a disk is given.

use crate::memory::limits::share;
use crate::memory::machine::memory_bytes;

/// Reads under way at once on each disk; lookups beyond wait their turn. Each holds a buffer of up to one record (256 KiB and its
/// head), so this bounds them to about 40 MiB, and keeps any disk busy. A request for several parts of a large object
/// takes a turn for each part's worth of bytes.
pub const MAX_READS: usize = 128;

/// The fewest [`reads`] there may be: enough to keep a disk that turns, or a flash card, busy.
pub const MIN_READS: usize = 16;

/// [`MAX_READS`], or as many as take a [`MEMORY_SHARE`](crate::limits::MEMORY_SHARE) of the memory that there is with 256 KiB
/// each, should that be fewer: 32 with 128 MiB, all with 512. At least [`MIN_READS`].
pub fn reads() -> usize {
    reads_with(memory_bytes())
}

fn reads_with(memory_bytes: u64) -> usize {
    share(memory_bytes >> 18, MIN_READS, MAX_READS)
}

/// Requests a device may have waiting. Reads and region writes are bounded above; this guards against a mistake.
pub const MAX_QUEUED_REQUESTS: usize = 4096;

/// Requests of one disk that io_uring works on at once: all the reads there may be, which any disk is kept busy by.
pub const MAX_IN_FLIGHT: usize = MAX_READS;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_memory_makes_few_reads() {
        let with = |mib: u64| reads_with(mib << 20);
        assert_eq!([1, 64, 128, 256, 512, 1024].map(with), [16, 16, 32, 64, 128, 128]);
        assert_eq!(reads_with(u64::MAX), MAX_READS);
    }
}
