//! A cache's backend as a browser uses one: entries made of numbered streams, opened by key (Log-structured cache,
//! section 3.1, Figure 2).
//!
//! Where [`crate::Store`] keeps objects that are written once from front to back, a backend keeps *entries*: each has a
//! few streams that are read and written anywhere, and one stream may be rewritten alone, as a browser does with an
//! answer's head when it has asked the server whether its body is still right. Every call is asynchronous, and several
//! readers may have the same entry open.
//!
//! The traits are what programs, and the laboratory's replay, are written against.

mod error;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;

pub use error::BackendError;

/// Streams of an entry, numbered from 0: a browser's cache uses two or three (section 3.1).
pub const STREAMS: usize = 3;

/// What a call answers later.
pub type Answer<T> = Pin<Box<dyn Future<Output = Result<T, BackendError>> + Send>>;

/// A cache of entries.
pub trait Backend: Send + Sync {
    /// Make an entry that is not there, empty, and open it. It is found by [`Backend::open_entry`] at once, and kept when
    /// all who opened it have closed it (section 3.2.2). Errors: [`BackendError::Exists`], [`BackendError::Full`] while too
    /// many are open, [`BackendError::KeyTooLong`], [`BackendError::Stopped`].
    fn create_entry(&self, key: &[u8]) -> Answer<Arc<dyn Entry>>;

    /// Open an entry that is there (3.2.3). Errors: [`BackendError::NotFound`], [`BackendError::Full`],
    /// [`BackendError::Unreadable`], [`BackendError::Stopped`].
    fn open_entry(&self, key: &[u8]) -> Answer<Arc<dyn Entry>>;

    /// Make everything closed so far survive a cut of the power. Errors: [`BackendError::NotKept`].
    fn flush(&self) -> Answer<()>;

    /// Write everything out and stop; entries still open keep what they have in memory, and what they write is not kept.
    /// Errors: [`BackendError::NotKept`].
    fn stop(&self) -> Answer<()>;
}

/// An entry that somebody has open. Dropped without [`Entry::close`], it is closed, and nobody hears how that ended.
///
/// All who open an entry at the same time see each other's writes.
pub trait Entry: Send + Sync {
    /// The key it was opened by.
    fn key(&self) -> &[u8];

    /// Bytes of a stream. Errors: [`BackendError::NoSuchStream`].
    fn data_bytes(&self, stream: usize) -> Result<u64, BackendError>;

    /// Up to `most_bytes` of a stream from `offset` on: fewer at its end, none behind it. Errors:
    /// [`BackendError::NoSuchStream`], [`BackendError::Unreadable`].
    fn read_data(&self, stream: usize, offset: u64, most_bytes: usize) -> Answer<Bytes>;

    /// Write into a stream at `offset`, past its end too (what lies between is zeros); with `truncate` the stream ends
    /// behind what is written. Errors: [`BackendError::NoSuchStream`], [`BackendError::OutOfRange`] for an offset beyond
    /// what an entry may have, [`BackendError::Doomed`], [`BackendError::Unreadable`] if what is to be kept of the older version cannot be read,
    /// [`BackendError::Full`] while too much is being written, [`BackendError::Stopped`].
    fn write_data(&self, stream: usize, offset: u64, data: Bytes, truncate: bool) -> Answer<()>;

    /// The entry is to be dropped: it is found no more, and what was never closed never reaches the disk (3.2.4). Those
    /// who have it open may read on. Twice is the same as once.
    fn doom(&self);

    /// Close it. When all have, and it was written to, the whole of it is appended to the cache (3.2.2, 3.2.5). Errors, which only the last one
    /// to close hears: [`BackendError::NotKept`], and then the version before is gone too.
    fn close(self: Arc<Self>) -> Answer<()>;
}
