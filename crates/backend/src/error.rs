//! Why a call on a backend or an entry was refused or failed.

/// Streams of an entry, numbered from 0: a browser's cache uses two or three (section 3.1).
pub const STREAMS: usize = 3;

/// Why a call was refused or failed. Nothing was changed, unless it says so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// There is no such entry.
    #[error("there is no such entry: create it")]
    NotFound,
    /// There is such an entry already.
    #[error("there is such an entry already: open it, or doom it first")]
    Exists,
    /// An entry has no stream of this number.
    #[error("an entry has no stream {0}: they are numbered 0 to {last}", last = STREAMS - 1)]
    NoSuchStream(usize),
    /// The entry would be larger than one may be.
    #[error("byte {asked} lies beyond what an entry may have, which is {most} bytes")]
    OutOfRange {
        /// The end of what was to be written.
        asked: u64,
        /// The most bytes a stream may have.
        most: u64,
    },
    /// The key is longer than keys may be.
    #[error("the key has {asked} bytes, and may have {most}")]
    KeyTooLong {
        /// The key's bytes.
        asked: usize,
        /// The most it may have.
        most: usize,
    },
    /// The entry was doomed, so nothing more is written to it.
    #[error("the entry was doomed: create it anew")]
    Doomed,
    /// It was closed by this handle.
    #[error("the entry was closed by this handle: open it again")]
    Closed,
    /// Too many entries are open, or too much of them is in memory.
    #[error("{0}: close some entries, and try again")]
    Full(&'static str),
    /// What is there cannot be read, or is not what was written.
    #[error("the entry cannot be read: {0}")]
    Unreadable(String),
    /// It could not be kept.
    #[error("the entry was not kept: {0}")]
    NotKept(String),
    /// The backend was stopped.
    #[error("the cache was stopped")]
    Stopped,
}
