//! [`Cache`]: the contract, implemented once over any engine.

mod asked;
mod by_memory;
mod change;
mod find;
pub(crate) mod limits;
mod open;
mod options;
mod over;
mod positions;
mod raw;
mod remake;
mod sweep;

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Instant, UNIX_EPOCH};

use bytes::Bytes;
use parking_lot::Mutex;
use tinaja_clock::Clock;

pub use by_memory::{Within, within};
pub use options::{CacheOptions, DEFAULT_DISK_BYTES, DEFAULT_MEAN_BYTES, OpenError};
pub use remake::Remade;

use crate::cache::limits::UNTOLD_EXTENTS;
use crate::engine::{Places, Probe};
use crate::layout::table::Table;
use crate::store::{
    Body, Cursor, FillId, HeadEdit, Hint, Hit, Judge, Lookup, Removed, ScanPage, Source, State, Store, Swept, Updated,
    Writer,
};
use crate::terms::{Digest, Key, Pending, Secret, Stats, StoreError, WhyNot};
use crate::wait::{Promise, block_on, promise};
use crate::write::limits::MAX_OPEN_WRITES;
use crate::write::{Fill, FillSink, Gather, Objects, add};

/// A store on disk. Memory: the engine's index and buffers, the hot objects' budget, one extent for each open write
/// and up to one request for each open reader of a large object, bounded as [`crate::limits`] says.
///
/// Dropped without [`Store::close`], it closes itself and waits for the disk.
pub struct Cache(pub(crate) Arc<Inner>);

/// What a cache's futures and readers share.
pub(crate) struct Inner {
    objects: Arc<Objects>,
    pub(crate) secret: Secret,
    hot_budget_bytes: u64,
    /// Reads left to programs that read the disk themselves.
    pub(crate) handed_out: AtomicUsize,
    next_fill: AtomicU64,
    closed: AtomicBool,
    closing: Mutex<Closing>,
}

/// What it shares with writers is its own.
impl Deref for Inner {
    type Target = Objects;

    fn deref(&self) -> &Objects {
        &self.objects
    }
}

/// Who waits for the close, or how it ended.
#[derive(Default)]
pub(crate) struct Closing {
    waiting: Vec<Promise<Result<(), String>>>,
    ended: Option<Result<(), String>>,
}

impl Cache {
    /// Say that no more objects of a group ([`Hint::group`]) will come: those that wait for it are written now. Nobody need
    /// say so: without it they are written half a second after the last has come. For programs that know better, or whose
    /// clock is not the wall's.
    ///
    /// [`Hint::group`]: crate::Hint::group
    pub fn end_group(&self, group: u64) -> Pending<()> {
        let objects = self.0.objects.clone();
        Box::pin(async move { objects.end_group(group).await })
    }
}

impl Inner {
    /// The bytes of the parts that a long body is cut into, and how much of its beginning goes with its head instead.
    fn parts_of(&self, digest: &Digest, key: &Key, head: &Bytes, hint: &Hint) -> (usize, usize) {
        let extent_bytes = self.limits.extent_bytes;
        let extents = hint.expected_bytes.map_or(UNTOLD_EXTENTS as u64, |bytes| bytes.div_ceil(extent_bytes as u64));
        let table_bytes = Table::bytes_for(usize::try_from(extents).unwrap_or(usize::MAX));
        let beside_bytes = (key.name().len() + head.len()).saturating_add(table_bytes);
        let first = self.engine.capabilities().first_bytes;
        (extent_bytes, first.map_or(0, |first| first.first_bytes(digest, beside_bytes)))
    }

    /// Begin an object whose digest is known.
    fn put_as(&self, digest: Digest, key: &Key, head: Bytes, hint: Hint) -> Writer {
        let id = FillId(self.next_fill.fetch_add(1, Ordering::Relaxed));
        let refusal = self.refusal(&head, &hint);
        let parts = self.parts_of(&digest, key, &head, &hint);
        let fill = Arc::new(Fill::new(id, key.clone(), digest, head, hint, parts).among(&self.written));
        if let Some(why) = refusal {
            fill.give_up(why);
        }
        self.fills.add(fill.clone());
        Writer::new(Box::new(FillSink::new(self.objects.clone(), fill)))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Why this object will not be stored, as far as can be said before it begins.
    fn refusal(&self, head: &Bytes, hint: &Hint) -> Option<WhyNot> {
        match () {
            _ if self.is_closed() => Some(WhyNot::Closed),
            _ if hint.passes => Some(WhyNot::Passing),
            _ if self.fills.count() >= MAX_OPEN_WRITES => Some(WhyNot::Busy),
            _ if head.len() > self.most_head_bytes() => Some(WhyNot::TooLarge),
            _ if hint.expected_bytes.is_some_and(|bytes| bytes > self.limits.max_object_bytes) => {
                Some(WhyNot::TooLarge)
            }
            _ => None,
        }
    }
}

impl Store for Cache {
    fn clock(&self) -> Clock {
        self.0.clock.clone()
    }

    fn lookup_with(&self, key: &Key, hint: &Hint, deadline: Instant) -> Lookup {
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
            store.reuse.found(&digest, (head.len() + body.len()) as u64);
            store.engine.touch(&hint.placement(digest, key), place);
            let body = Body::from_bytes(body);
            return Lookup::Here(Hit { head, state: State::Whole, source: Source::Memory, body });
        }
        let places = match store.engine.probe(&hint.placement(digest, key)) {
            Probe::Absent => {
                store.counters.missed();
                store.reuse.missed(&digest);
                return Lookup::Absent;
            }
            Probe::At(places) => places,
            Probe::AskDisk => Places::default(),
        };
        Lookup::Wait(Box::pin(store.clone().find(key.clone(), digest, *hint, places, deadline)))
    }

    fn follow(&self, key: &Key, fill: FillId) -> Option<Hit> {
        let digest = self.0.secret.digest(key);
        let (fill, follower) = self.0.fills.by_id(&digest, key, fill)?;
        Some(fill.follow_as(follower, self.0.extent_reader(digest)))
    }

    fn followers(&self, key: &Key, fill: FillId) -> usize {
        self.0.fills.followers(&self.0.secret.digest(key), key, fill)
    }

    fn goes_by_origin(&self) -> bool {
        self.0.engine.goes_by_origin()
    }

    fn max_object_bytes(&self) -> u64 {
        self.0.limits.max_object_bytes
    }

    fn put(&self, key: &Key, head: Bytes, hint: Hint) -> Writer {
        self.0.put_as(self.0.secret.digest(key), key, head, hint)
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

    fn sweep(&self, from: Cursor, most: usize, judge: Judge) -> Pending<Result<Swept, StoreError>> {
        Box::pin(self.0.clone().sweep(from, most, judge))
    }

    fn begin_epoch(&self, after: u64) -> Option<u64> {
        let epochs = self.0.engine.capabilities().epochs.filter(|epochs| epochs.may_begin_epoch())?;
        // The time too, so that one of a disk that was away, and of which nobody here knows, is not taken for a later one.
        let seconds = self.0.clock.wall().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let number = after.max(epochs.epochs().0).checked_add(1)?.max(seconds);
        epochs.begin_epoch(number);
        Some(number)
    }

    fn saved_epoch(&self) -> u64 {
        self.0.engine.capabilities().epochs.map_or(0, |epochs| epochs.epochs().1)
    }

    fn flush(&self) -> Pending<Result<(), StoreError>> {
        let store = self.0.clone();
        Box::pin(async move { if store.is_closed() { Err(StoreError::Closed) } else { store.sync(None).await } })
    }

    fn stats(&self) -> Stats {
        let counters = &self.0.counters;
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let engine = self.0.engine.stats();
        Stats {
            engine: self.0.engine.name(),
            larger: self.0.reuse.larger(self.0.hot_budget_bytes, engine.capacity_bytes),
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
            turns_waiting: self.0.turns.iter().map(|turns| turns.waiting() as u64).sum(),
            gathered_bytes: self.0.gathers.iter().map(Gather::bytes).sum(),
            ..engine
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
