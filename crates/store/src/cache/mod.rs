//! [`Cache`]: the contract, implemented once over any engine.

mod asked;
mod body;
mod change;
mod extents;
mod find;
mod gather;
mod groups;
mod on_disk;
mod open;
mod options;
mod over;
mod plan;
mod positions;
mod raw;
mod tuning;
mod wanted;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};

pub(crate) use crate::layout::table::{Extent, Table};
pub(crate) use extents::ExtentReader;
use gather::Gather;
pub use on_disk::NameOnDisk;
pub use options::{CacheOptions, DEFAULT_DISK_BYTES, EngineName, OpenError};
pub use plan::Plan;
pub use tuning::Tuning;
pub(crate) use wanted::Wanted;

use crate::engine::{Engine, Limits, Place, Places, Probe};
use crate::external::Index;
use crate::limits::{self, MAX_HEAD_BYTES, MAX_OPEN_WRITES, UNTOLD_EXTENTS};
use crate::memory::HotObjects;
use crate::memory::held::Held;
use crate::store::{
    Body, Cursor, FillId, HeadEdit, Hint, Hit, Lookup, Removed, ScanPage, Source, State, Store, Updated, Writer,
};
use crate::terms::{Digest, Key, Pending, Secret, Stats, StoreError, WhyNot};
use crate::wait::{Alarm, Gate, Promise, block_on, promise};
use crate::write::{Fill, FillSink, Fills};

/// A store on disk. Memory: the engine's index and buffers, the hot objects' budget, one extent for each open write
/// and up to one request for each open reader of a large object, bounded as [`crate::limits`] says.
///
/// Dropped without [`Store::close`], it closes itself and waits for the disk.
pub struct Cache(Arc<Inner>);

/// What a cache's futures, writers and readers share.
pub(crate) struct Inner {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) limits: Limits,
    pub(crate) hot: HotObjects,
    pub(crate) fills: Fills,
    pub(crate) alarm: Arc<Alarm>,
    pub(crate) counters: Counters,
    pub(crate) secret: Secret,
    hot_budget_bytes: u64,
    /// Turns to read, for each disk: one that stalls keeps its own.
    gates: Arc<[Gate]>,
    held: Held,
    /// What unfinished writes hold.
    written: Held,
    /// Reads left to programs that read the disk themselves.
    pub(crate) handed_out: AtomicUsize,
    /// Objects that wait for their group, for each disk; none where related objects are not read together.
    gathers: Arc<[Gather]>,
    /// Publishing a version, updating a head and removing an object exclude each other, object by object.
    stripes: [Mutex<()>; 64],
    next_fill: AtomicU64,
    closed: AtomicBool,
    closing: Mutex<Closing>,
}

/// Who waits for the close, or how it ended.
#[derive(Default)]
pub(crate) struct Closing {
    waiting: Vec<Promise<Result<(), String>>>,
    ended: Option<Result<(), String>>,
}

/// What the store counts beside its engine.
#[derive(Default)]
pub(crate) struct Counters {
    hits_memory: AtomicU64,
    hits_disk: AtomicU64,
    hits_fill: AtomicU64,
    misses: AtomicU64,
    stored: AtomicU64,
    stored_bytes: AtomicU64,
    not_stored: AtomicU64,
    timeouts: AtomicU64,
}

fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

impl Counters {
    /// An object was found.
    pub(crate) fn found(&self, source: Source) {
        add(if source == Source::Memory { &self.hits_memory } else { &self.hits_disk }, 1);
    }

    /// An object was not found.
    pub(crate) fn missed(&self) {
        add(&self.misses, 1);
    }

    /// A write ended, with so many bytes stored or none.
    pub(crate) fn ended(&self, bytes: Option<u64>) {
        match bytes {
            Some(bytes) => {
                add(&self.stored, 1);
                add(&self.stored_bytes, bytes);
            }
            None => add(&self.not_stored, 1),
        }
    }
}

impl Cache {
    /// Where objects lie, for a program that reads the disk itself: see [`crate::external`].
    pub fn external(&self) -> Index {
        Index::over(self.0.clone())
    }
}

impl Inner {
    /// Lock the order of changes to an object. Held for memory work only.
    pub(crate) fn stripe(&self, digest: &Digest) -> Option<MutexGuard<'_, ()>> {
        self.stripes.get((digest.high() % 64) as usize).map(Mutex::lock)
    }

    /// Turns to read from the disk of this number.
    fn gate(&self, disk: usize) -> Gate {
        let gate = self.gates.get(disk).or(self.gates.first());
        gate.cloned().unwrap_or_else(|| Gate::new(limits::reads()))
    }

    pub(crate) fn extent_reader(&self, digest: Digest) -> ExtentReader {
        ExtentReader::new(self.engine.clone(), self.gate(self.engine.disk_of(&digest)), self.held.clone(), digest)
    }

    /// The bytes of the parts that a long body is cut into, and how much of its beginning goes with its head instead.
    fn parts_of(&self, digest: &Digest, key: &Key, head: &Bytes, hint: &Hint) -> (usize, usize) {
        let extent_bytes = self.limits.extent_bytes;
        let extents = hint.expected_bytes.map_or(UNTOLD_EXTENTS as u64, |bytes| bytes.div_ceil(extent_bytes as u64));
        let table_bytes = Table::bytes_for(usize::try_from(extents).unwrap_or(usize::MAX));
        let beside_bytes = (key.name().len() + head.len()).saturating_add(table_bytes);
        (extent_bytes, self.engine.first_bytes(digest, beside_bytes))
    }

    /// Keep a whole object in memory if the record at `place` is its newest.
    pub(crate) fn keep_hot(&self, key: &Key, digest: &Digest, head: &[u8], body: &[u8], place: Place) {
        let newest = || self.engine.is_newest(digest, place, Places::newest_first(&mut [place]));
        self.hot.insert(digest, key, head, body, place, newest);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Why this object will not be stored, as far as can be said before it begins.
    fn refusal(&self, head: &Bytes, hint: &Hint) -> Option<WhyNot> {
        match () {
            _ if self.is_closed() => Some(WhyNot::Closed),
            _ if self.fills.count() >= MAX_OPEN_WRITES => Some(WhyNot::Busy),
            _ if head.len() > MAX_HEAD_BYTES.min(self.limits.max_record_bytes / 2) => Some(WhyNot::TooLarge),
            _ if hint.expected_bytes.is_some_and(|bytes| bytes > self.limits.max_object_bytes) => {
                Some(WhyNot::TooLarge)
            }
            _ => None,
        }
    }
}

impl Store for Cache {
    fn lookup(&self, key: &Key, deadline: Instant) -> Lookup {
        let store = &self.0;
        if store.is_closed() {
            return Lookup::Absent;
        }
        let digest = store.secret.digest(key);
        if let Some((fill, follower)) = store.fills.newest(&digest, key) {
            add(&store.counters.hits_fill, 1);
            return Lookup::Here(fill.follow_as(follower, store.extent_reader(digest)));
        }
        if let Some(hit) = store.find_gathered(&digest, key) {
            return Lookup::Here(hit);
        }
        if let Some((head, body, place)) = store.hot.get(&digest, key) {
            add(&store.counters.hits_memory, 1);
            store.engine.touch(&digest, place);
            let body = Body::from_bytes(body);
            return Lookup::Here(Hit { head, state: State::Whole, source: Source::Memory, body });
        }
        match store.engine.probe(&digest) {
            Probe::Absent => {
                add(&store.counters.misses, 1);
                Lookup::Absent
            }
            Probe::At(places) => Lookup::Wait(Box::pin(store.clone().find(key.clone(), digest, places, deadline))),
            Probe::AskDisk => {
                Lookup::Wait(Box::pin(store.clone().find(key.clone(), digest, Places::default(), deadline)))
            }
        }
    }

    fn follow(&self, key: &Key, fill: FillId) -> Option<Hit> {
        let digest = self.0.secret.digest(key);
        let (fill, follower) = self.0.fills.by_id(&digest, key, fill)?;
        Some(fill.follow_as(follower, self.0.extent_reader(digest)))
    }

    fn followers(&self, key: &Key, fill: FillId) -> usize {
        self.0.fills.followers(&self.0.secret.digest(key), key, fill)
    }

    fn max_object_bytes(&self) -> u64 {
        self.0.limits.max_object_bytes
    }

    fn put(&self, key: &Key, head: Bytes, hint: Hint) -> Writer {
        let digest = self.0.secret.digest(key);
        let id = FillId(self.0.next_fill.fetch_add(1, Ordering::Relaxed));
        let refusal = self.0.refusal(&head, &hint);
        let parts = self.0.parts_of(&digest, key, &head, &hint);
        let fill = Arc::new(Fill::new(id, key.clone(), digest, head, hint, parts).among(&self.0.written));
        if let Some(why) = refusal {
            fill.give_up(why);
        }
        self.0.fills.add(fill.clone());
        Writer::new(Box::new(FillSink::new(self.0.clone(), fill)))
    }

    fn update_head(&self, key: &Key, edit: HeadEdit) -> Pending<Result<Updated, StoreError>> {
        Box::pin(self.0.clone().update_head(key.clone(), self.0.secret.digest(key), edit))
    }

    fn remove(&self, key: &Key) -> Pending<Result<Removed, StoreError>> {
        Box::pin(self.0.clone().remove(key.clone(), self.0.secret.digest(key)))
    }

    fn scan(&self, from: Cursor, most: usize) -> Pending<Result<ScanPage, StoreError>> {
        Box::pin(self.0.clone().scan(from, most))
    }

    fn flush(&self) -> Pending<Result<(), StoreError>> {
        let store = self.0.clone();
        Box::pin(async move { if store.is_closed() { Err(StoreError::Closed) } else { store.sync(None).await } })
    }

    fn stats(&self) -> Stats {
        let counters = &self.0.counters;
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            engine: self.0.engine.name(),
            hot_bytes: self.0.hot.bytes(),
            hot_budget_bytes: self.0.hot_budget_bytes,
            hits_memory: get(&counters.hits_memory),
            hits_disk: get(&counters.hits_disk),
            hits_fill: get(&counters.hits_fill),
            misses: get(&counters.misses),
            stored: get(&counters.stored),
            stored_bytes: get(&counters.stored_bytes),
            not_stored: get(&counters.not_stored),
            timeouts: get(&counters.timeouts),
            hot_taken: self.0.hot.taken(),
            turns_waiting: self.0.gates.iter().map(|gate| gate.waiting() as u64).sum(),
            gathered_bytes: self.0.gathers.iter().map(Gather::bytes).sum(),
            ..self.0.engine.stats()
        }
    }

    fn close(&self) -> Pending<Result<(), StoreError>> {
        let store = self.0.clone();
        Box::pin(async move {
            let (done, answer) = promise();
            {
                let mut closing = store.closing.lock();
                match closing.ended.clone() {
                    Some(result) => done.keep(result),
                    None => closing.waiting.push(done),
                }
            }
            if !store.closed.swap(true, Ordering::AcqRel) {
                store.gathers.iter().for_each(Gather::close);
                let written = store.write_gathered().await;
                let all = store.clone();
                store.engine.close(Box::new(move |result| {
                    let result = written.and(result);
                    let mut closing = all.closing.lock();
                    closing.ended = Some(result.clone());
                    let waiting = std::mem::take(&mut closing.waiting);
                    drop(closing);
                    waiting.into_iter().for_each(|done| done.keep(result.clone()));
                }));
            }
            answer.await.unwrap_or_else(|| Err("it was not closed".into())).map_err(StoreError::Device)
        })
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        if let Err(error) = block_on(self.close()) {
            tracing::error!("the cache was not closed cleanly: {error}");
        }
    }
}
