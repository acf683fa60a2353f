//! Why something could not be read, was not stored, or could not be done.

/// Why a body could not be read to its end. A body never ends short without one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The rest was evicted or overwritten while it was being read.
    #[error("the object was evicted while it was being read")]
    Gone,
    /// The write that this reader followed can no longer be stored, and goes on without it: it was more than
    /// [`crate::limits::RELAY_BYTES`] behind, or did not read for [`crate::limits::LEASE`]. All bytes before this error
    /// are right, and nothing was skipped: whoever wants the rest has to ask where the object came from, from here on.
    #[error("the write went on without this reader, for it cannot be stored and the reader was too slow")]
    Behind,
    /// The writer that this reader followed gave up.
    #[error("the write that this reader followed was aborted")]
    Aborted,
    /// The bytes on disk are not the ones that were written.
    #[error("the bytes on disk do not match their checksum")]
    Corrupt,
    /// The device failed.
    #[error("the device failed to read")]
    Device,
    /// [`crate::Body::seek`] was asked for a range outside the body.
    #[error("the range lies outside the body")]
    Range,
}

/// Why an object was not stored. The names are stable: logs and metrics use them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WhyNot {
    /// The object is larger than the store takes.
    #[error("larger than the store takes")]
    TooLarge,
    /// The body had another length than announced.
    #[error("the body had another length than announced")]
    LengthMismatch,
    /// The device failed, or its region is poisoned.
    #[error("the device failed")]
    Device,
    /// The key was removed while the object was being written.
    #[error("removed while it was being written")]
    Removed,
    /// Another version was stored meanwhile.
    #[error("another version was stored meanwhile")]
    Superseded,
    /// The device has taken nothing for [`crate::limits::WRITE_PATIENCE`].
    #[error("the device is too slow")]
    Slow,
    /// Too many writes are open at once.
    #[error("too many open writes")]
    Busy,
    /// Part of the object was evicted before the rest had arrived.
    #[error("evicted before it was whole")]
    Evicted,
    /// Whoever wrote it did not want it kept.
    #[error("not meant to be stored")]
    Passing,
    /// The store is closed.
    #[error("the store is closed")]
    Closed,
}

/// Why a store could not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The device failed; the text says which call and where.
    #[error("the device failed: {0}")]
    Device(String),
    /// The store is closed.
    #[error("the store is closed")]
    Closed,
    /// It was done here, and not by all nodes of the cluster; the text names those that have not, or may not have.
    #[error("it was done on this node, and not on: {0}")]
    Elsewhere(String),
}
