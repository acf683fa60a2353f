//! How a backend is set up.

use std::path::PathBuf;

use tinaja_store::Clock;

use crate::limits::{ENTRIES_HELD_BYTES, ENTRIES_WRITTEN_BYTES, MAX_OPEN_ENTRIES};

/// What a backend over an engine may take. The default is in memory alone: what fits no record is refused.
#[derive(Clone, Debug)]
pub struct EngineBackendOptions {
    /// Bytes of memory for entries that are being written, all of them together. A buffer that grows may take as much again
    /// for a moment. Default [`ENTRIES_WRITTEN_BYTES`].
    pub written_bytes: usize,
    /// Bytes of memory for stored entries while they are open. Entries beyond are read from the disk for each piece. Default
    /// [`ENTRIES_HELD_BYTES`].
    pub held_bytes: usize,
    /// How often an entry may be open, all entries together. Default and most [`MAX_OPEN_ENTRIES`].
    pub open_entries: usize,
    /// Where streams go that are too long for a record of the engine's, or for the memory there is. Default: nowhere.
    pub files: Option<StreamFiles>,
    /// Where threads come from. Default the system.
    pub clock: Clock,
}

impl Default for EngineBackendOptions {
    fn default() -> Self {
        EngineBackendOptions {
            written_bytes: ENTRIES_WRITTEN_BYTES,
            held_bytes: ENTRIES_HELD_BYTES,
            open_entries: MAX_OPEN_ENTRIES,
            files: None,
            clock: Clock::system(),
        }
    }
}

/// Streams in files of their own (Log-structured cache, section 3.2: "stored as separate files on disk").
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamFiles {
    /// The directory, which is made if it is not there. Only files of this very store are touched in it.
    pub directory: PathBuf,
    /// Bytes of all of them; the oldest leave for new ones. An entry may have an eighth of it.
    pub most_bytes: u64,
}
