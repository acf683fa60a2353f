//! Shares of the memory that there is, and what of it is kept for later.

/// On a small machine, or in a control group with little memory, what is under way may take one part in so many of the memory
/// that there is: see [`crate::limits::reads`] and [`crate::limits::held_bytes`].
pub const MEMORY_SHARE: u64 = 16;

/// A share of this, within bounds.
pub(crate) fn share(all: u64, least: usize, most: usize) -> usize {
    usize::try_from(all / MEMORY_SHARE).unwrap_or(most).clamp(least, most)
}

/// Bytes of read buffers that are kept for the next reads of one disk: those of some fifty reads of 64 KiB, or three
/// hundred of 8 KiB. More would be memory for nothing when the load is over; while readers hold more than twice as much, half of that.
pub const MAX_SPARE_BYTES: usize = 4 << 20;
