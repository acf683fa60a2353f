//! What the trees are limited to.

use crate::memory::limits::share;
use crate::memory::machine::memory_bytes;

/// Bytes that wait to be written at most, by the memory that there is: enough to keep a disk busy that takes 100 MB a
/// second for a tenth of one. Appends beyond wait.
pub(super) fn waiting_bytes() -> usize {
    share(memory_bytes(), 2 << 20, 16 << 20)
}

/// Older versions stay until the newer ones last. When they take one part in so many of the cache, a sync is made for it.
pub const MAX_SUPERSEDED_SHARE: u64 = 16;

/// Files that are written and not synced at most: then a sync is made for it. 8 bytes each are remembered.
pub const MAX_UNSYNCED_FILES: usize = 1 << 16;

/// Objects that are let go of, for one segment, when those who make room are being read: then the object becomes a file.
pub(super) const MAX_TRIED_SEGMENTS: u32 = 4;

/// Bytes of heads that were replaced, behind a long body, at most: a quarter of the body and so many more. An object whose
/// head is replaced more often is fetched again some day.
pub(super) const MAX_OLD_HEADS_BYTES: u64 = 1 << 20;

/// What a file of so many bytes takes: file systems give out blocks of 4 KiB, and its name and its inode take some bytes more,
/// which are not counted.
pub(super) fn block_bytes(bytes: u64) -> u64 {
    bytes.next_multiple_of(4096)
}

/// Components of a URL that are directories of their own at most, with the scheme; the rest is one name. With names as long as they may be, a path
/// stays below the 4096 bytes that the system takes.
pub(super) const MAX_COMPONENTS: usize = 12;

/// A component that would be longer ends in its hash. File systems take 255 bytes.
pub(super) const MAX_COMPONENT_BYTES: usize = 200;

/// Files that a directory by URL has at most, since each store writes its whole list; more go into one beside it.
pub(super) const MAX_LISTED: usize = 1000;

/// Bytes of a list at most: so many files with names as long as they may be.
pub(super) const MAX_LIST_BYTES: usize = MAX_LISTED * 300;
