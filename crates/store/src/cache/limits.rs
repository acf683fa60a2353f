//! How small a cache, and how large a table of extents, may be; what making a cache anew holds.

/// Parts for whose places there is room beside a body's beginning where nobody said how long the body is: 16 MiB. The
/// head of a longer one moves into the log, with the beginning.
pub const UNTOLD_EXTENTS: usize = 64;

/// The smallest cache. Below this the regions are too few to evict by.
pub const MIN_DISK_BYTES: u64 = 4 << 20;

/// Places of objects that are sorted at once where a cache is made anew: 32 MiB of them. With more objects the index is listed
/// once for each so many.
pub const MAX_PLACES_SORTED: usize = 4 << 20;

/// Objects that are copied at the same time there, so that a disk has some to choose from.
pub const OBJECTS_COPIED_AT_ONCE: usize = 16;
