//! What all who have an entry open share: its streams, wherever they are, and what becomes of them.

mod inner;
mod table;

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tinaja_store::Digest;
use tinaja_store::engine::{Hold, Place, Placement, Places, Probe};
use tinaja_store::memory::held::Share;
use tinaja_store::wait::Turns;

use crate::error::{BackendError, STREAMS};
use crate::files::{FileFault, StreamFile};
use crate::format::EntryHead;
pub(crate) use inner::Inner;
pub(crate) use table::{Claim, Claimed};

/// An entry that is open, or that is being written out.
pub(crate) struct Shared {
    pub(crate) inner: Arc<Inner>,
    pub(crate) key: Arc<[u8]>,
    pub(crate) id: Digest,
    /// Writes, and what follows the last close, take turns.
    pub(crate) turn: Turns,
    state: Mutex<EntryState>,
}

/// What changes.
pub(crate) struct EntryState {
    /// How many have it open.
    pub(crate) handles: usize,
    /// It is found no more, and never will be.
    pub(crate) doomed: bool,
    /// It was written to, or made, since it was stored.
    pub(crate) changed: bool,
    /// Why it cannot be kept.
    pub(crate) broken: Option<BackendError>,
    pub(crate) streams: [Stream; STREAMS],
    /// The share in the memory for what is being written.
    pub(crate) memory: Option<Share>,
    /// The version on disk.
    pub(crate) stored: Option<Stored>,
    /// There may be a version on disk that could not be read.
    pub(crate) may_be_stored: bool,
}

/// The version of an entry that is on disk.
pub(crate) struct Stored {
    pub(crate) place: Place,
    /// Its record's head: with its version number it differs from that of every other record.
    pub(crate) head: Bytes,
    /// The files that its record speaks of.
    pub(crate) files: Vec<Arc<StreamFile>>,
    /// Keeps its segment from being cleaned.
    pub(crate) _hold: Hold,
}

/// Where a stream is.
#[derive(Clone)]
pub(crate) enum Stream {
    /// In memory, written here.
    Own(Vec<u8>),
    /// In memory, as it was or will be stored.
    Kept(Bytes),
    /// In the stored record's body, to be read from the disk.
    InRecord(Range<u64>),
    /// In a file of its own.
    File(Arc<StreamFile>),
}

impl Stream {
    /// Its bytes.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Stream::Own(bytes) => bytes.len() as u64,
            Stream::Kept(bytes) => bytes.len() as u64,
            Stream::InRecord(range) => range.end - range.start,
            Stream::File(file) => file.bytes(),
        }
    }

    /// Bytes that it has in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Stream::Own(bytes) => bytes.len(),
            Stream::Kept(bytes) => bytes.len(),
            Stream::InRecord(_) | Stream::File(_) => 0,
        }
    }

    fn file(&self) -> Option<&Arc<StreamFile>> {
        if let Stream::File(file) = self { Some(file) } else { None }
    }
}

/// The streams of an entry but those in files: in memory if the record's body is, else to be read from it.
pub(crate) fn in_record(head: &EntryHead, body: Option<&Bytes>) -> [Stream; STREAMS] {
    head.ranges().map(|range| match body {
        _ if range.is_empty() => Stream::Kept(Bytes::new()),
        Some(body) => Stream::Kept(body.slice(range.start as usize..range.end as usize)),
        None => Stream::InRecord(range),
    })
}

impl EntryState {
    /// A new, empty entry.
    pub(crate) fn empty() -> Self {
        EntryState {
            handles: 1,
            doomed: false,
            changed: true,
            broken: None,
            streams: std::array::from_fn(|_| Stream::Kept(Bytes::new())),
            memory: None,
            stored: None,
            may_be_stored: false,
        }
    }

    /// Files that the stored record speaks of and the streams do not.
    pub(crate) fn files_left_behind(&self) -> Vec<Arc<StreamFile>> {
        let is_used = |file: &Arc<StreamFile>| {
            self.streams.iter().any(|stream| stream.file().is_some_and(|own| Arc::ptr_eq(own, file)))
        };
        let stored = self.stored.iter().flat_map(|stored| &stored.files);
        stored.filter(|file| !is_used(file)).cloned().collect()
    }

    /// The files of its streams.
    pub(crate) fn files(&self) -> Vec<Arc<StreamFile>> {
        self.streams.iter().filter_map(Stream::file).cloned().collect()
    }
}

/// Where to read on, once the state is not locked any more.
enum From {
    Memory(Bytes),
    Record(Place, Bytes, Range<u64>),
    File(Arc<StreamFile>),
}

impl Shared {
    pub(crate) fn new(inner: &Arc<Inner>, key: Arc<[u8]>, id: Digest, state: EntryState) -> Arc<Self> {
        Arc::new(Shared { inner: inner.clone(), key, id, turn: Turns::new(1), state: Mutex::new(state) })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, EntryState> {
        self.state.lock()
    }

    /// What the engine is told of it.
    pub(crate) fn placement(&self) -> Placement<'_> {
        Placement::of(self.id).named(&self.key)
    }

    /// Up to `most` bytes of a stream from `offset` on.
    pub(crate) async fn read(&self, stream: usize, offset: u64, most: usize) -> Result<Bytes, BackendError> {
        let from = {
            let state = self.lock();
            let stream = state.streams.get(stream).ok_or(BackendError::NoSuchStream(stream))?;
            let start = offset.min(stream.bytes());
            let end = start.saturating_add(most as u64).min(stream.bytes());
            let memory = start as usize..end as usize;
            match (stream, &state.stored) {
                _ if start == end => From::Memory(Bytes::new()),
                (Stream::Own(bytes), _) => From::Memory(Bytes::copy_from_slice(bytes.get(memory).unwrap_or_default())),
                (Stream::Kept(bytes), _) => From::Memory(bytes.slice(memory)),
                (Stream::File(file), _) => From::File(file.clone()),
                (Stream::InRecord(range), Some(Stored { place, head, .. })) => {
                    From::Record(*place, head.clone(), range.start + start..range.start + end)
                }
                (Stream::InRecord(_), None) => return Err(gone()),
            }
        };
        match from {
            From::Memory(bytes) => Ok(bytes),
            From::Record(place, head, range) => {
                let body = self.stored_body(place, &head).await?;
                let piece = body.get(range.start as usize..range.end as usize).ok_or_else(gone)?;
                // A piece would keep all of the record in memory.
                Ok(Bytes::copy_from_slice(piece))
            }
            From::File(file) => {
                let files = self.inner.files.as_ref().ok_or_else(gone)?;
                files.run(move || file.read(offset, most)).await?.map_err(unreadable)
            }
        }
    }

    /// The body of the very record that was opened, read again: where it was, or where it has been moved to since. Another
    /// record has another version number in its head, and is an error: nobody gets the bytes of another entry or version.
    pub(crate) async fn stored_body(&self, place: Place, head: &Bytes) -> Result<Bytes, BackendError> {
        let there = Places::newest_first(&mut [place]);
        let mut found = self.inner.fetch(&self.placement(), there).await?;
        if found.is_none()
            && let Probe::At(places) = self.inner.engine.probe(&self.placement())
            && places != there
        {
            found = self.inner.fetch(&self.placement(), places).await?;
        }
        let found = found.filter(|found| found.name[..] == self.key[..] && found.head == head);
        self.inner.body_of(&self.id, found.ok_or_else(gone)?).await
    }
}

/// An entry whose record has left meanwhile.
pub(crate) fn gone() -> BackendError {
    BackendError::Unreadable("it was evicted while it was open: open it again".into())
}

/// What a file's fault means to who reads.
pub(crate) fn unreadable(fault: FileFault) -> BackendError {
    BackendError::Unreadable(fault.to_string())
}

/// What a file's fault means to who writes.
pub(crate) fn not_written(fault: FileFault) -> BackendError {
    match fault {
        FileFault::Full => BackendError::Full("files of streams take all the room they may"),
        FileFault::Missing | FileFault::Damaged => BackendError::Unreadable(fault.to_string()),
        FileFault::Io(what) => BackendError::NotKept(what),
    }
}
