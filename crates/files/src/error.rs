//! Why a call on a file was refused or failed.

use tinaja_store::{ReadError, WhyNot};

use crate::handles::{Handle, NoSuch};

/// Why a call on a file was refused or failed. Nothing was changed, unless it says so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// No such object is stored.
    #[error("no such object is stored")]
    NotFound,
    /// The handle was never given out, or is another kind of handle.
    #[error("there is no open file {0}, and there never was: use a handle as it was returned by open")]
    Unknown(Handle),
    /// The handle was closed.
    #[error("file {0} was closed already: open the object again")]
    Closed(Handle),
    /// The file was opened for writing.
    #[error("file {0} is being written and cannot be read or sought in: close it, and open it for reading")]
    NotForReading(Handle),
    /// The file was opened for reading.
    #[error("file {0} was opened for reading, and a stored object does not change: create a new version of it")]
    NotForWriting(Handle),
    /// A seek led before the beginning or behind the end.
    #[error("byte {asked} lies outside the file, which has {length} bytes: seek to 0 to {length}")]
    BeyondEnd {
        /// Where to.
        asked: i128,
        /// The file's length in bytes.
        length: u64,
    },
    /// The object is being written, and its length was not announced.
    #[error("the object is still being written, and its length is not known yet: read to its end")]
    LengthUnknown,
    /// Too many files are open.
    #[error("{0} files are open, which is the limit: close some")]
    Full(usize),
    /// The file was closed, and what was written is not stored.
    #[error("it was not stored: {0}")]
    NotStored(WhyNot),
    /// The file could not be read on. Every byte read before is right.
    #[error("the rest cannot be read: {0}")]
    Read(ReadError),
}

impl From<NoSuch> for FileError {
    fn from(none: NoSuch) -> Self {
        match none {
            NoSuch::Unknown(handle) => FileError::Unknown(handle),
            NoSuch::Closed(handle) => FileError::Closed(handle),
        }
    }
}
