//! What the engines with a Disk Table remember.

/// Sets without an index in memory of which it is remembered what lies in them after they were read: an object is stored
/// after it was looked for, and then the set need not be read again. 20 bytes each, however large the disk.
pub const MAX_SETS_AT_HAND: u64 = 1024;

/// Sets that are read at once because they are to be written to and nothing is known of them; further writes wait. Lookups have
/// [`crate::limits::MAX_READS`] beside. With sets of 64 KiB this is 4 MiB, and as much as a disk works on at a time.
pub const MAX_SETS_LEARNED: usize = 64;

/// Removals that could not be written down, kept in memory until a restart; 16 bytes each. A disk that failed more of
/// them is not read any more.
pub const MAX_UNWRITTEN_REMOVALS: usize = 65_536;
