//! What readers of large objects hold.

use crate::device::limits::reads;
use crate::memory::limits::share;
use crate::memory::machine::memory_bytes;

/// Bytes of extents that readers hold between two pieces. Beyond that a reader gives out copies and reads the extent
/// again for the next piece: ten thousand clients that have stopped reading then hold a piece each and no more. Several
/// parts are read in one request only while less than half of this is held; such a request counts until the last piece of
/// it is let go of, wherever that is.
pub const MAX_HELD_BYTES: usize = 64 << 20;

/// The least that [`held_bytes`] may be: one request for several parts for each of two readers.
pub const MIN_HELD_BYTES: usize = 4 << 20;

/// [`MAX_HELD_BYTES`], or a [`MEMORY_SHARE`](crate::limits::MEMORY_SHARE) of the memory that there is, should that be less:
/// 8 MiB with 128 MiB, all with 1 GiB. At least [`MIN_HELD_BYTES`].
pub fn held_bytes() -> usize {
    held_bytes_with(memory_bytes())
}

fn held_bytes_with(memory_bytes: u64) -> usize {
    share(memory_bytes, MIN_HELD_BYTES, MAX_HELD_BYTES)
}

/// Turns that are left for others by readers that take several for one request: half. A busy disk is asked for one part
/// at a time, in the order in which readers came.
pub fn read_turns_kept() -> usize {
    reads() / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_memory_makes_readers_hold_little() {
        let with = |mib: u64| held_bytes_with(mib << 20) >> 20;
        assert_eq!([1, 64, 128, 256, 512, 1024].map(with), [4, 4, 8, 16, 32, 64]);
        assert_eq!(held_bytes_with(u64::MAX), MAX_HELD_BYTES);
    }
}
