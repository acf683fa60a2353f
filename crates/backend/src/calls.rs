//! What programs call: a backend and its entries.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;

use crate::error::BackendError;

/// What a call answers later. Nothing is begun before it is first polled; from then on it goes on to its end, even if it is
/// dropped.
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

    /// Make everything closed so far survive a cut of the power. Errors: [`BackendError::NotKept`], also if what was dropped
    /// instead of closed could not be kept; [`BackendError::Stopped`].
    fn flush(&self) -> Answer<()>;

    /// Write everything out and stop; entries still open keep what they have in memory, and what they write is not kept.
    /// Errors: [`BackendError::NotKept`].
    fn stop(&self) -> Answer<()>;
}

/// An entry that somebody has open. Dropped without [`Entry::close`], it is closed; how that ended the next flush tells, if not
/// well.
///
/// All who open an entry at the same time see each other's writes, as in a browser's cache, and the last one to close it writes
/// it out.
pub trait Entry: Send + Sync {
    /// The key it was opened by.
    fn key(&self) -> &[u8];

    /// Bytes of a stream. Errors: [`BackendError::NoSuchStream`], [`BackendError::Closed`].
    fn data_bytes(&self, stream: usize) -> Result<u64, BackendError>;

    /// Up to `most_bytes` of a stream from `offset` on: fewer at its end, none behind it, and never more than
    /// [`crate::limits::MAX_ENTRY_READ_BYTES`] at once. Errors: [`BackendError::NoSuchStream`], [`BackendError::Unreadable`],
    /// [`BackendError::Closed`], [`BackendError::Full`] while too much is under way.
    fn read_data(&self, stream: usize, offset: u64, most_bytes: usize) -> Answer<Bytes>;

    /// Write into a stream at `offset`, past its end too (what lies between is zeros); with `truncate` the stream ends
    /// behind what is written. Nothing written at all changes a stream only with `truncate`, which then ends it at `offset`.
    /// Errors: [`BackendError::NoSuchStream`], [`BackendError::OutOfRange`] for what lies beyond what an entry may have,
    /// [`BackendError::Doomed`], [`BackendError::Closed`], [`BackendError::Unreadable`] if what is to be kept of the older
    /// version cannot be read, [`BackendError::Full`] while too much is being written, [`BackendError::NotKept`] if a disk
    /// failed (whether the entry is kept without this its close says), [`BackendError::Stopped`].
    fn write_data(&self, stream: usize, offset: u64, data: Bytes, truncate: bool) -> Answer<()>;

    /// The entry is to be dropped: it is found no more, and what was never closed never reaches the disk (3.2.4). Those
    /// who have it open may read on what is in memory, and what is on disk as long as it is there: where removing writes over
    /// it in place, that is [`BackendError::Unreadable`] at once. A cut of the power before the next flush may bring back what
    /// was stored. Twice is the same as once, and by who has closed it nothing.
    fn doom(&self);

    /// Close it. When all have, and it was written to, the whole of it is appended to the cache (3.2.2, 3.2.5), whether or
    /// not the future is polled to its end. Errors: [`BackendError::Closed`]; and, which only the last one to close hears,
    /// [`BackendError::NotKept`]: then the version before is gone too.
    fn close(self: Arc<Self>) -> Answer<()>;
}
