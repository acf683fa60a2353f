//! [`EngineBackend`]: the interface over any engine.

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
use tinaja_store::{Digest, Secret, block_on};

use super::calls::{Answer, Backend, Entry};
use super::counted::{Count, Ongoing};
use super::error::BackendError;
use super::files::Files;
use super::format::HEAD_BYTES;
use super::options::EngineBackendOptions;
use super::table::Table;
use super::tasks::Tasks;
use crate::limits::{ENTRIES_READ_BYTES, MAX_ENTRY_CALLS, MAX_OPEN_ENTRIES, MAX_SPILLING_ENTRIES};

/// A [`Backend`] that keeps each entry as one record of an engine, and what fits none in files of its own. Memory: the
/// engine's, and what [`EngineBackendOptions`] and [`crate::limits`] say: entries being written, entries held, records being
/// read.
///
/// Dropped without [`Backend::stop`], it stops itself and waits for the disk.
pub struct EngineBackend(Arc<Inner>);

/// What entries and calls share.
pub(super) struct Inner {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) limits: Limits,
    pub(super) secret: Secret,
    pub(super) options: EngineBackendOptions,
    pub(super) table: Table,
    pub(super) tasks: Tasks,
    pub(super) files: Option<Arc<Files>>,
    /// Memory of what is being written.
    pub(super) written: Held,
    /// Memory of what is open and stored.
    pub(super) held: Held,
    pub(super) opened: Count,
    calls: Count,
    /// What follows a last close or a doom, and has not ended.
    pub(super) ongoing: Ongoing,
    /// Turns to read records.
    reads: Turns,
    /// Turns to rewrite an entry for which there is no memory.
    pub(super) spilling: Turns,
    versions: AtomicU64,
    /// What was not kept and nobody has heard of.
    lost: Mutex<Option<String>>,
    stopped: AtomicBool,
    /// How the stop ended, and the turn to stop.
    stopping: Mutex<Option<Result<(), BackendError>>>,
    stop_turn: Turns,
}

impl EngineBackend {
    /// A backend over an engine of the caller's, which keeps nothing but this backend's entries. The secret must be the one
    /// with which its records were written. Where streams may go into files this looks at all of them, and blocks meanwhile.
    /// Errors: the directory of files cannot be used, or the system has no more threads.
    pub fn over(engine: Arc<dyn Engine>, secret: Secret, options: EngineBackendOptions) -> io::Result<Self> {
        let files =
            options.files.as_ref().map(|files| Files::open(files, &options.clock, &secret, &*engine)).transpose()?;
        let limits = engine.limits();
        let reads = (ENTRIES_READ_BYTES / limits.max_record_bytes.max(1)).clamp(2, MAX_READS);
        let open_entries = options.open_entries.min(MAX_OPEN_ENTRIES);
        let first_version = getrandom::u64().map_err(|error| io::Error::other(format!("no random number: {error}")))?;
        Ok(EngineBackend(Arc::new(Inner {
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
        })))
    }
}

impl Inner {
    /// A call that goes on if its future is dropped once it was polled.
    pub(super) fn call<T: Send + 'static>(
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
    pub(super) fn is_running(&self) -> Result<(), BackendError> {
        if self.stopped.load(SeqCst) { Err(BackendError::Stopped) } else { Ok(()) }
    }

    /// A number that no other version of any entry has.
    pub(super) fn next_version(&self) -> u64 {
        self.versions.fetch_add(1, SeqCst)
    }

    /// Bytes of streams that fit a record with such a key.
    pub(super) fn record_room(&self, key: &[u8]) -> usize {
        self.limits.max_record_bytes.saturating_sub(HEADER_BYTES + HEAD_BYTES + key.len())
    }

    /// The most bytes an entry with such a key may have.
    pub(super) fn most_bytes(&self, key: &[u8]) -> u64 {
        let in_record = self.record_room(key) as u64;
        self.files.as_ref().map_or(in_record, |files| files.most_entry_bytes().max(in_record))
    }

    /// Nobody hears that an entry was not kept but who flushes next.
    pub(super) fn lose(&self, why: String) {
        *self.lost.lock() = Some(why);
    }

    /// The newest record of an entry among these places, when it is its turn. Errors: it cannot be read.
    pub(super) async fn fetch(&self, at: &Placement<'_>, places: Places) -> Result<Option<Found>, BackendError> {
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
    pub(super) async fn body_of(&self, id: &Digest, found: Found) -> Result<Bytes, BackendError> {
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
                _ => return Err(super::shared::gone()),
            }
        }
        Ok(body.freeze())
    }

    async fn flush(self: Arc<Self>) -> Result<(), BackendError> {
        self.ongoing.wait().await;
        let mut synced = Ok(());
        let mut leaving = Vec::new();
        if let Some(files) = &self.files {
            files.have_left().await;
            leaving = files.leaving();
            let all = files.clone();
            synced = files.run(move || all.sync()).await?.map_err(|fault| fault.to_string());
        }
        let (done, answer) = promise();
        self.engine.sync(None, Box::new(move |result| done.keep(result)));
        let records = answer.await.unwrap_or_else(|| Err("the engine was stopped".into()));
        if let (Some(files), true) = (&self.files, records.is_ok() && !leaving.is_empty()) {
            let all = files.clone();
            files.run(move || leaving.into_iter().for_each(|file| all.remove(file))).await?;
        }
        let lost = self.lost.lock().take();
        records.and(synced).and(lost.map_or(Ok(()), Err)).map_err(BackendError::NotKept)
    }

    async fn stop(self: Arc<Self>) -> Result<(), BackendError> {
        self.stopped.store(true, SeqCst);
        let _turn = self.stop_turn.enter().await;
        if let Some(ended) = self.stopping.lock().clone() {
            return ended;
        }
        let flushed = self.clone().flush().await;
        let (done, answer) = promise();
        self.engine.close(Box::new(move |result| done.keep(result)));
        let closed = answer.await.unwrap_or_else(|| Err("the engine was stopped".into()));
        let ended = flushed.and(closed.map_err(BackendError::NotKept));
        *self.stopping.lock() = Some(ended.clone());
        ended
    }
}

impl Backend for EngineBackend {
    fn create_entry(&self, key: &[u8]) -> Answer<Arc<dyn Entry>> {
        let (inner, key) = (self.0.clone(), self.0.checked(key));
        self.0.call(async move { inner.create(key?).await })
    }

    fn open_entry(&self, key: &[u8]) -> Answer<Arc<dyn Entry>> {
        let (inner, key) = (self.0.clone(), self.0.checked(key));
        self.0.call(async move { inner.open(key?).await })
    }

    fn flush(&self) -> Answer<()> {
        let inner = self.0.clone();
        self.0.call(async move {
            inner.is_running()?;
            inner.flush().await
        })
    }

    fn stop(&self) -> Answer<()> {
        let inner = self.0.clone();
        Box::pin(async move {
            let stopping = inner.clone().stop();
            inner.tasks.spawn(stopping).await.unwrap_or(Err(BackendError::Stopped))
        })
    }
}

impl Drop for EngineBackend {
    fn drop(&mut self) {
        if !self.0.stopped.load(SeqCst)
            && let Err(error) = block_on(self.stop())
        {
            tracing::warn!("a cache was dropped, and {error}");
        }
    }
}
