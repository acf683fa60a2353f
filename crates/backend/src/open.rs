//! Making an entry, and opening one (Log-structured cache, sections 3.2.2 and 3.2.3).

use std::sync::Arc;

use bytes::Bytes;
use tinaja_store::engine::{Found, Kind, Placement, Places, Probe};
use tinaja_store::layout::table::Table as Extents;
use tinaja_store::memory::held::counted;
use tinaja_store::{Digest, Key, MAX_NAME_BYTES};

use super::calls::Entry;
use super::counted::One;
use super::entry::Handle;
use super::error::{BackendError, STREAMS};
use super::files::{FileFault, StreamFile};
use super::format::EntryHead;
use super::shared::{Claim, Claimed, EntryState, Inner, Shared, Stored, Stream, in_record, unreadable};

/// An entry just opened.
type Opened = Result<Arc<dyn Entry>, BackendError>;

impl Inner {
    /// See [`super::calls::Backend::create_entry`].
    pub(super) async fn create(self: Arc<Self>, key: Arc<[u8]>) -> Opened {
        let one = self.may_open()?;
        let Claimed::Mine(claim) = self.table.claim(&key, false).await else { return Err(BackendError::Exists) };
        let id = self.digest(&key);
        let may_be_stored = match self.look(&key, &id).await {
            Ok(None) => false,
            Ok(Some(_)) => return Err(BackendError::Exists),
            // What cannot be read now must not be found again once this one is doomed.
            Err(_) => true,
        };
        Ok(Handle::first(one, self.put(claim, key, id, EntryState { may_be_stored, ..EntryState::empty() })))
    }

    /// See [`super::calls::Backend::open_entry`].
    pub(super) async fn open(self: Arc<Self>, key: Arc<[u8]>) -> Opened {
        let one = self.may_open()?;
        match self.table.claim(&key, true).await {
            Claimed::Open(shared) => Ok(Handle::first(one, shared)),
            Claimed::Mine(claim) => {
                let id = self.digest(&key);
                let state = self.look(&key, &id).await?.ok_or(BackendError::NotFound)?;
                Ok(Handle::first(one, self.put(claim, key, id, state)))
            }
        }
    }

    fn put(self: &Arc<Self>, claim: Claim, key: Arc<[u8]>, id: Digest, state: EntryState) -> Arc<Shared> {
        let shared = Shared::new(self, key, id, state);
        claim.put(&shared);
        shared
    }

    fn may_open(&self) -> Result<One, BackendError> {
        self.is_running()?;
        self.opened.take().ok_or(BackendError::Full("too many entries are open"))
    }

    /// A copy of a key, unless it is too long.
    pub(super) fn checked(&self, key: &[u8]) -> Result<Arc<[u8]>, BackendError> {
        let most = MAX_NAME_BYTES.min(self.limits.max_record_bytes / 2);
        if key.len() > most {
            return Err(BackendError::KeyTooLong { asked: key.len(), most });
        }
        Ok(key.into())
    }

    fn digest(&self, key: &[u8]) -> Digest {
        self.secret.digest(&Key::from_name(key))
    }

    /// What is on disk under a key, if anything is. Errors: it cannot be read.
    async fn look(&self, key: &[u8], id: &Digest) -> Result<Option<EntryState>, BackendError> {
        let at = Placement::of(*id).named(key);
        let places = match self.engine.probe(&at) {
            Probe::Absent => return Ok(None),
            Probe::At(places) => places,
            Probe::AskDisk => Places::default(),
        };
        let Some(found) = self.fetch(&at, places).await? else { return Ok(None) };
        if found.name[..] != *key {
            return Ok(None);
        }
        let place = found.place;
        // From here on nothing makes room where it lies, unless that was under way.
        let hold = self.engine.hold(&[place]);
        let body_bytes = match found.kind {
            Kind::Large => Extents::decode(&found.body).map(|table| table.body_bytes()),
            _ => Some(found.body.len() as u64),
        };
        let head = body_bytes.and_then(|bytes| EntryHead::decode(&found.head, bytes));
        let head = head.ok_or_else(|| BackendError::Unreadable("what is stored under its key is no entry".into()))?;
        let files = match self.open_files(*id, &head).await {
            Ok(files) => files,
            // The system has no descriptors left, or a read failed: it may be whole all the same.
            Err(fault @ FileFault::Io(_)) => return Err(unreadable(fault)),
            Err(fault) => {
                self.engine.forget(&at, place);
                return if fault == FileFault::Missing { Ok(None) } else { Err(unreadable(fault)) };
            }
        };
        self.engine.touch(&at, place);
        let stored_files = files.iter().flatten().cloned().collect();
        let stored = Stored { place, head: found.head.clone(), files: stored_files, _hold: hold };
        let streams = with_files(in_record(&head, self.held_body(id, found).await?.as_ref()), files);
        Ok(Some(EntryState { changed: false, streams, stored: Some(stored), ..EntryState::empty() }))
    }

    /// The whole body of a record just found, if there is room for it in memory: a record verifies only as a whole, so without
    /// room all of it is read for each piece. Errors: a part of it cannot be read.
    async fn held_body(&self, id: &Digest, found: Found) -> Result<Option<Bytes>, BackendError> {
        if found.kind != Kind::Large {
            return Ok(self.hold(found.body));
        }
        // Kept in parts: read once now, or else once for each piece.
        let bytes = Extents::decode(&found.body).map_or(0, |table| table.body_bytes()) as usize;
        let Some(share) = self.held.hold(bytes, self.options.held_bytes) else { return Ok(None) };
        Ok(Some(counted(self.body_of(id, found).await?, &Arc::new(share))))
    }

    /// The body of a record that is open, if there is room for it in memory: as long as anybody has a piece of it.
    pub(super) fn hold(&self, body: Bytes) -> Option<Bytes> {
        let share = self.held.hold(body.len(), self.options.held_bytes)?;
        Some(counted(body, &Arc::new(share)))
    }

    /// The files that a record speaks of. Errors: one is missing or damaged.
    async fn open_files(&self, id: Digest, head: &EntryHead) -> Result<[Option<Arc<StreamFile>>; STREAMS], FileFault> {
        let mut opened = [const { None }; STREAMS];
        if head.streams.iter().all(|stream| stream.file.is_none()) {
            return Ok(opened);
        }
        // Opened without a directory of files, such entries are not whole.
        let files = self.files.as_ref().ok_or(FileFault::Missing)?;
        let (all, streams) = (files.clone(), head.streams);
        let open = move || {
            for (stream, opened) in streams.iter().zip(&mut opened) {
                if let Some(at) = stream.file {
                    *opened = Some(Arc::new(StreamFile::open(&all, id, at, stream.bytes)?));
                }
            }
            Ok(opened)
        };
        files.run(open).await.unwrap_or_else(|error| Err(FileFault::Io(error.to_string())))
    }
}

fn with_files(mut streams: [Stream; STREAMS], files: [Option<Arc<StreamFile>>; STREAMS]) -> [Stream; STREAMS] {
    for (stream, file) in streams.iter_mut().zip(files) {
        if let Some(file) = file {
            *stream = Stream::File(file);
        }
    }
    streams
}
