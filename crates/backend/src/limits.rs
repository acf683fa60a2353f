//! Every limit of a backend, with its reason.

/// Entries of a backend that are open at once, counted by handle, those that are being written out
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
/// than [`MAX_READS`](tinaja_store::limits::MAX_READS) of them.
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
