//! Every limit of the store, with its reason. Each stands beside what it limits; this page lists them all.
//!
//! | where | what it limits |
//! |---|---|
//! | `terms` | what several rooms keep to: leases, patience, the longest request |
//! | `memory` | shares of the memory that there is; spare buffers |
//! | `index` | slots |
//! | `device` | reads under way, requests in queues |
//! | `layout` | batches, bins, summaries, failures, changes that are remembered |
//! | `engine/hashcache/log` | how often `hashcache-log` writes its index |
//! | `engine/hashcache/loglru` | positions of `hashcache-loglru` on their way to its file |
//! | `engine/hashcache/table` | what the engines with a Disk Table remember |
//! | `hot` | hot objects |
//! | `extents` | what readers of large objects hold |
//! | `write` | unfinished writes, heads, objects that wait for their group |
//! | `cache` | the smallest cache, the table of a body of unknown length |
//! | `external` | reads handed out |
//! | `tune` | objects that are measured |
//! | here | files and entries, which stand above |

pub use crate::cache::limits::{MIN_DISK_BYTES, UNTOLD_EXTENTS};
pub use crate::device::limits::{MAX_IN_FLIGHT, MAX_QUEUED_REQUESTS, MAX_READS, MIN_READS, reads};
pub use crate::engine::hashcache::log::limits::SNAPSHOT_SHARE;
pub use crate::engine::hashcache::loglru::limits::MAX_POSITIONS_WAITING;
pub use crate::engine::hashcache::table::limits::{MAX_SETS_AT_HAND, MAX_SETS_LEARNED, MAX_UNWRITTEN_REMOVALS};
pub use crate::extents::limits::{MAX_HELD_BYTES, MIN_HELD_BYTES, held_bytes, read_turns_kept};
pub use crate::external::index::MAX_TICKETS;
pub use crate::hot::{HOT_OBJECT_SHARE, HOT_SHARDS};
pub use crate::index::limits::MAX_SLOTS;
pub use crate::layout::limits::{
    MAX_AHEAD_BYTES, MAX_BATCHES_IN_FLIGHT, MAX_BINS_IN_FLIGHT, MAX_CHANGED_SETS, MAX_LOST_BATCHES, MAX_LOST_BINS,
    MAX_SUMMARIES_WAITING, MAX_UNSYNCED_BINS, MAX_WRITE_FAILURES, WRITE_BEHIND,
};
pub use crate::memory::limits::{MAX_SPARE_BYTES, MEMORY_SHARE};
pub use crate::terms::limits::{LEASE, MAX_REQUEST_BYTES, TOGETHER_BYTES, WRITE_PATIENCE};
pub use crate::tune::sizes::MAX_MEASURED_OBJECTS;
pub use crate::write::limits::{
    GROUP_HOLD, GROUP_QUIET, GROUP_WINDOW, MAX_GATHERED_BYTES, MAX_GATHERED_OBJECT, MAX_GROUP_OBJECTS, MAX_GROUPS,
    MAX_HEAD_BYTES, MAX_OPEN_WRITES, MAX_WRITTEN_BYTES, MIN_WRITTEN_BYTES, RELAY_BYTES, SHORT_RELAY_BYTES,
    written_bytes,
};

/// Files open at once through calls as POSIX has them. Each is some hundred bytes and what the store holds for a reader or
/// a writer, which it bounds itself; this is four times the usual limit of a process's files, and finds the program that
/// forgets to close them.
pub const MAX_OPEN_FILES: usize = 4096;

/// Entries of a [`backend`](crate::backend) that are open at once, counted by handle, those that are being written out
/// included. A browser has some hundred open; each takes a few hundred bytes beside what it has in memory, and up to three
/// descriptors if it has streams in files of their own.
pub const MAX_OPEN_ENTRIES: usize = 1024;

/// Calls on a backend and its entries under way at once, those whose future was dropped included. Each is some hundred bytes
/// and the bytes it writes.
pub const MAX_ENTRY_CALLS: usize = 4096;

/// Bytes of entries that are being written, by default. Beyond, the longest stream of whoever writes goes into a file: a
/// page's worth of a few dozen tabs stays in memory.
pub const ENTRIES_WRITTEN_BYTES: usize = 64 << 20;

/// Bytes of stored entries that are kept in memory while they are open, by default, so that each is read from the disk
/// once. Entries beyond are read again for each piece.
pub const ENTRIES_HELD_BYTES: usize = 64 << 20;

/// Bytes of records of entries that are being read from the disk at once, by default; at least two records, and never more
/// than [`MAX_READS`] of them.
pub const ENTRIES_READ_BYTES: usize = 64 << 20;

/// Entries that are rewritten at once while there is no memory for them: each holds a record until its longest stream is in
/// a file. As many as there are threads for files.
pub const MAX_SPILLING_ENTRIES: usize = FILE_THREADS;

/// The most that one read of an entry's stream gives. An entry may be larger than memory; whoever wants all of it asks
/// again.
pub const MAX_ENTRY_READ_BYTES: usize = 16 << 20;

/// Threads that read and write streams in files of their own. Each works on one file at a time, mostly in the system's
/// page cache.
pub const FILE_THREADS: usize = 2;

/// Pieces of work on files that wait for a thread; others wait in their futures.
pub const MAX_FILE_JOBS: usize = 64;

/// Streams in files of their own; the oldest leaves for one more. Opening reads the end of each and its entry's record.
pub const MAX_STREAM_FILES: usize = 16_384;

/// Files that were written since the last sync; one more is synced by whoever finished it.
pub const MAX_UNSYNCED_FILES: usize = 1024;

/// An entry may take one part in so many of the bytes that files of streams may take, or a few would push out all the rest.
pub const ENTRY_FILES_SHARE: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::fused::MAX_WAITING_APPENDS;

    #[test]
    fn every_open_write_may_wait_for_a_broken_engine() {
        assert!(MAX_WAITING_APPENDS >= 2 * MAX_OPEN_WRITES);
    }
}
