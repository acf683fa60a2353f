//! What entries and calls of one backend share.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tinaja_store::engine::{Engine, Fetched, Found, Kind, Limits, Placement, Places};
use tinaja_store::layout::record::HEADER_BYTES;
use tinaja_store::layout::table::Table as Extents;
use tinaja_store::limits::MAX_READS;
use tinaja_store::memory::held::Held;
use tinaja_store::wait::{Turns, promise};
use tinaja_store::{Digest, Secret};

use super::gone;
use super::table::Table;
use crate::calls::Answer;
use crate::counted::{Count, Ongoing};
use crate::error::BackendError;
use crate::files::Files;
use crate::format::HEAD_BYTES;
use crate::limits::{ENTRIES_READ_BYTES, MAX_ENTRY_CALLS, MAX_OPEN_ENTRIES, MAX_SPILLING_ENTRIES};
use crate::options::EngineBackendOptions;
use crate::tasks::Tasks;

/// What entries and calls share.
pub(crate) struct Inner {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) limits: Limits,
    pub(crate) secret: Secret,
    pub(crate) options: EngineBackendOptions,
    pub(crate) table: Table,
    pub(crate) tasks: Tasks,
    pub(crate) files: Option<Arc<Files>>,
    /// Memory of what is being written.
    pub(crate) written: Held,
    /// Memory of what is open and stored.
    pub(crate) held: Held,
    pub(crate) opened: Count,
    calls: Count,
    /// What follows a last close or a doom, and has not ended.
    pub(crate) ongoing: Ongoing,
    /// Turns to read records.
    reads: Turns,
    /// Turns to rewrite an entry for which there is no memory.
    pub(crate) spilling: Turns,
    versions: AtomicU64,
    /// What was not kept and nobody has heard of.
    pub(crate) lost: Mutex<Option<String>>,
    pub(crate) stopped: AtomicBool,
    /// How the stop ended, and the turn to stop.
    pub(crate) stopping: Mutex<Option<Result<(), BackendError>>>,
    pub(crate) stop_turn: Turns,
}

impl Inner {
    /// Over an engine, with nothing open. Errors: as [`crate::EngineBackend::over`] says.
    pub(crate) fn over(
        engine: Arc<dyn Engine>,
        secret: Secret,
        options: EngineBackendOptions,
    ) -> io::Result<Arc<Self>> {
        let files =
            options.files.as_ref().map(|files| Files::open(files, &options.clock, &secret, &*engine)).transpose()?;
        let limits = engine.limits();
        let reads = (ENTRIES_READ_BYTES / limits.max_record_bytes.max(1)).clamp(2, MAX_READS);
        let open_entries = options.open_entries.min(MAX_OPEN_ENTRIES);
        let first_version = getrandom::u64().map_err(|error| io::Error::other(format!("no random number: {error}")))?;
        Ok(Arc::new(Inner {
            engine,
            limits,
            secret,
            tasks: Tasks::start(&options.clock)?,
            options,
            table: Table::default(),
            files,
            written: Held::default(),
            held: Held::default(),
            opened: Count::new(open_entries),
            calls: Count::new(MAX_ENTRY_CALLS),
            ongoing: Ongoing::default(),
            reads: Turns::new(reads),
            spilling: Turns::new(MAX_SPILLING_ENTRIES),
            versions: AtomicU64::new(first_version),
            lost: Mutex::default(),
            stopped: AtomicBool::new(false),
            stopping: Mutex::default(),
            stop_turn: Turns::new(1),
        }))
    }

    /// A call that goes on if its future is dropped once it was polled.
    pub(crate) fn call<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl Future<Output = Result<T, BackendError>> + Send + 'static,
    ) -> Answer<T> {
        let inner = self.clone();
        Box::pin(async move {
            let one = inner.calls.take().ok_or(BackendError::Full("too many calls are under way"))?;
            let work = async move {
                let _one = one;
                work.await
            };
            let answer = inner.tasks.spawn(work).await;
            answer.unwrap_or(Err(BackendError::Stopped))
        })
    }

    /// Errors: [`BackendError::Stopped`].
    pub(crate) fn is_running(&self) -> Result<(), BackendError> {
        if self.stopped.load(SeqCst) { Err(BackendError::Stopped) } else { Ok(()) }
    }

    /// A number that no other version of any entry has.
    pub(crate) fn next_version(&self) -> u64 {
        self.versions.fetch_add(1, SeqCst)
    }

    /// Bytes of streams that fit a record with such a key.
    pub(crate) fn record_room(&self, key: &[u8]) -> usize {
        self.limits.max_record_bytes.saturating_sub(HEADER_BYTES + HEAD_BYTES + key.len())
    }

    /// The most bytes an entry with such a key may have.
    pub(crate) fn most_bytes(&self, key: &[u8]) -> u64 {
        let in_record = self.record_room(key) as u64;
        self.files.as_ref().map_or(in_record, |files| files.most_entry_bytes().max(in_record))
    }

    /// Nobody hears that an entry was not kept but who flushes next.
    pub(crate) fn lose(&self, why: String) {
        *self.lost.lock() = Some(why);
    }

    /// The newest record of an entry among these places, when it is its turn. Errors: it cannot be read.
    pub(crate) async fn fetch(&self, at: &Placement<'_>, places: Places) -> Result<Option<Found>, BackendError> {
        let turn = self.reads.enter().await;
        let (done, answer) = promise();
        let finish = move |fetched| {
            drop(turn);
            done.keep(fetched);
        };
        self.engine.fetch(at, places, Box::new(finish));
        match answer.await {
            Some(Fetched::Record(found)) => Ok(Some(found)),
            Some(Fetched::Missing) => Ok(None),
            Some(Fetched::Failed(error)) => Err(BackendError::Unreadable(error.to_string())),
            None => Err(BackendError::Unreadable("the engine was stopped".into())),
        }
    }

    /// The whole body of a record, which some engines keep in parts. Errors: it cannot be read, or has left.
    pub(crate) async fn body_of(&self, id: &Digest, found: Found) -> Result<Bytes, BackendError> {
        if found.kind != Kind::Large {
            return Ok(found.body);
        }
        let damaged = || BackendError::Unreadable("the table of its parts is not as it was written".into());
        let extents = Extents::decode(&found.body).ok_or_else(damaged)?;
        let mut body = BytesMut::from(&extents.first[..]);
        for extent in extents.extents {
            let turn = self.reads.enter().await;
            let (done, answer) = promise();
            let finish = move |fetched| {
                drop(turn);
                done.keep(fetched);
            };
            self.engine.fetch_at(id, extent.place, extent.bytes as usize, Box::new(finish));
            match answer.await {
                Some(Fetched::Record(part)) if part.body.len() == extent.bytes as usize => {
                    body.extend_from_slice(&part.body);
                }
                Some(Fetched::Failed(error)) => return Err(BackendError::Unreadable(error.to_string())),
                _ => return Err(gone()),
            }
        }
        Ok(body.freeze())
    }
}
