//! How small a cache, and how large a table of extents, may be.

/// Parts for whose places there is room beside a body's beginning where nobody said how long the body is: 16 MiB. The
/// head of a longer one moves into the log, with the beginning.
pub const UNTOLD_EXTENTS: usize = 64;

/// The smallest cache. Below this the regions are too few to evict by.
pub const MIN_DISK_BYTES: u64 = 4 << 20;
