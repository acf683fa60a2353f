//! Cached objects as files, with calls as POSIX has them: open, read, write, seek, close (HashCache, section 4).
//!
//! For programs that would rather have descriptors than streams, and for languages that have nothing else: `crates/capi`
//! offers these calls to C. A file is an object: its name is a [`Key`], and what was written becomes the object when it
//! is closed. Where a cache cannot do what a file system does, the call is refused and says so: a file is written once,
//! from front to back; it is as long as it was written; nobody can seek beyond its end. And it may be gone when it is
//! next opened, as everything in a cache may.
//!
//! [`Handle`]s are integers, and each is given out once: its upper bits count how often its seat in the table was used. So a handle
//! that was closed is known as closed, and never names what somebody else has opened since. Calls on one handle take
//! turns; calls on different ones do not meet. Every call blocks: not for threads of an async runtime.
//!
//! ```
//! use std::io::SeekFrom;
//! use std::sync::Arc;
//! use tinaja_files::{FileError, Files};
//! use tinaja_store::{Hint, Key, Reference, Store};
//!
//! let store: Arc<dyn Store> = Arc::new(Reference::new());
//! let (files, key) = (Files::default(), Key::from_name(b"chunk 1"));
//! let file = files.create(&store, &key, b"head", Hint { group: Some(7), ..Hint::default() })?;
//! files.write(file, b"the rain it keeps")?;
//! files.close(file)?;
//! assert_eq!(files.write(file, b"more"), Err(FileError::Closed(file)));
//!
//! let file = files.open(&store, &key)?;
//! files.seek(file, SeekFrom::Start(9))?;
//! let mut bytes = [0; 100];
//! assert_eq!(files.read(file, &mut bytes)?, 8);
//! assert_eq!(&bytes[..8], b"it keeps");
//! files.close(file)?;
//! # Ok::<(), FileError>(())
//! ```
#![forbid(unsafe_code)]

mod error;
pub mod handles;
mod open;

use std::io::SeekFrom;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tinaja_store::{Commit, Hint, Key, Store, block_on};

pub use error::FileError;
pub use handles::Handle;
use handles::Handles;
use open::{Open, Reading, Writing};

/// Files open at once. Each is some hundred bytes and what the store holds for a reader or a writer, which it bounds itself;
/// this is four times the usual limit of a process's files, and finds the program that forgets to close them.
pub const MAX_OPEN_FILES: usize = 4096;

/// The kind of handles that files have.
const FILES: u8 = 1;

/// Open files, of any stores. Memory: some hundred bytes for each, and what its store holds for a reader or a writer.
pub struct Files(Handles<Mutex<Option<Open>>>);

impl Default for Files {
    /// Up to [`MAX_OPEN_FILES`] of them.
    fn default() -> Self {
        Files(Handles::new(FILES, MAX_OPEN_FILES))
    }
}

impl Files {
    /// Room for so many open files, [`MAX_OPEN_FILES`] at most.
    pub fn with_room_for(files: usize) -> Self {
        Files(Handles::new(FILES, files.min(MAX_OPEN_FILES)))
    }

    /// Open an object for reading, from its first byte on. One that is being written is read along. Errors:
    /// [`FileError::NotFound`], [`FileError::Full`].
    pub fn open(&self, store: &Arc<dyn Store>, key: &Key) -> Result<Handle, FileError> {
        let hit = block_on(store.find(key)).ok_or(FileError::NotFound)?;
        self.add(Open::Reading(Reading::of(hit)))
    }

    /// Open a new object for writing, in place of what is there. The hint says what the program knows of it: its length, and of
    /// another length it is not stored; its group, whose objects a cache that prefetches writes and reads together (section
    /// 3.5). Others find it at once, and read along. Errors: [`FileError::Full`].
    pub fn create(&self, store: &Arc<dyn Store>, key: &Key, head: &[u8], hint: Hint) -> Result<Handle, FileError> {
        let head = Bytes::copy_from_slice(head);
        self.add(Open::Writing(Writing::to(store.put(key, head.clone(), hint), head)))
    }

    fn add(&self, open: Open) -> Result<Handle, FileError> {
        self.0.add(Mutex::new(Some(open))).ok_or(FileError::Full(self.0.most()))
    }

    /// Bytes from where the file stands, into the front of `into`; 0 at the end, or where `into` is empty. May be fewer
    /// than there is room for. Errors: [`FileError::NotForReading`], [`FileError::Read`], those of the handle.
    pub fn read(&self, handle: Handle, into: &mut [u8]) -> Result<usize, FileError> {
        self.with(handle, |open| match open {
            Open::Reading(reading) => reading.read(into),
            Open::Writing(_) => Err(FileError::NotForReading(handle)),
        })
    }

    /// Write all of `bytes` behind what was written. Waits while the store pushes back. What cannot be stored is told
    /// when the file is closed. Errors: [`FileError::NotForWriting`], those of the handle.
    pub fn write(&self, handle: Handle, bytes: &[u8]) -> Result<usize, FileError> {
        self.with(handle, |open| match open {
            Open::Writing(writing) => Ok(writing.write(bytes)),
            Open::Reading(_) => Err(FileError::NotForWriting(handle)),
        })
    }

    /// Read on from another byte; returns which. A file that is written stands at its end, and can only be asked where
    /// that is. Errors: [`FileError::BeyondEnd`], also before the first byte; [`FileError::NotForReading`]; those of the handle.
    pub fn seek(&self, handle: Handle, to: SeekFrom) -> Result<u64, FileError> {
        self.with(handle, |open| match open {
            Open::Reading(reading) => reading.seek(to),
            Open::Writing(writing) if matches!(to, SeekFrom::Current(0) | SeekFrom::End(0)) => Ok(writing.bytes()),
            Open::Writing(_) => Err(FileError::NotForReading(handle)),
        })
    }

    /// The file's length in bytes: so far, of one that is being written. Errors: those of the handle;
    /// [`FileError::LengthUnknown`].
    pub fn length(&self, handle: Handle) -> Result<u64, FileError> {
        self.with(handle, |open| match open {
            Open::Reading(reading) => reading.length().ok_or(FileError::LengthUnknown),
            Open::Writing(writing) => Ok(writing.bytes()),
        })
    }

    /// The object's head. Errors: those of the handle.
    pub fn head(&self, handle: Handle) -> Result<Bytes, FileError> {
        self.with(handle, |open| match open {
            Open::Reading(reading) => Ok(reading.head().clone()),
            Open::Writing(writing) => Ok(writing.head().clone()),
        })
    }

    /// Close a file. What was written becomes the object now; returns the bytes stored, head included, 0 for a file that
    /// was read. The handle is closed whatever comes of it. Errors: [`FileError::NotStored`]; those of the handle.
    pub fn close(&self, handle: Handle) -> Result<u64, FileError> {
        match self.take(handle)? {
            Open::Reading(_) => Ok(0),
            Open::Writing(writing) => match block_on(writing.writer.commit()) {
                Commit::Stored { bytes } => Ok(bytes),
                Commit::NotStored(why) => Err(FileError::NotStored(why)),
            },
        }
    }

    /// Close a file and forget what was written to it: the object is as it was before. Errors: those of the handle.
    pub fn discard(&self, handle: Handle) -> Result<(), FileError> {
        self.take(handle).map(drop)
    }

    /// How many are open.
    pub fn count(&self) -> usize {
        self.0.count()
    }

    fn take(&self, handle: Handle) -> Result<Open, FileError> {
        let open = self.0.take(handle)?;
        // A call that is under way on it ends first.
        let open = open.lock().take();
        open.ok_or(FileError::Closed(handle))
    }

    fn with<T>(&self, handle: Handle, work: impl FnOnce(&mut Open) -> Result<T, FileError>) -> Result<T, FileError> {
        let open = self.0.get(handle)?;
        let mut open = open.lock();
        work(open.as_mut().ok_or(FileError::Closed(handle))?)
    }
}
