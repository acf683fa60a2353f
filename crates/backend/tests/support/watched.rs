//! An engine that counts what it is asked, and pushes back or finds what is not there when a test says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use tinaja_store::engine::{Engine, FetchDone, Hold, Kind, Limits, Place, Places, Probe, Record, SyncDone};
use tinaja_store::{Digest, Stats, WhyNot};

/// Over a sound engine.
pub struct Watched {
    below: Arc<dyn Engine>,
    /// Records appended, and the bytes of their names, heads and bodies.
    pub appends: AtomicU64,
    pub append_bytes: AtomicU64,
    pub tombstones: AtomicU64,
    pub fetches: AtomicU64,
    /// Places held now.
    pub holds: Arc<AtomicUsize>,
    /// Finds every object where this one is.
    pub misleads: Mutex<Option<Digest>>,
    full: AtomicBool,
    waiting: Mutex<Vec<Waker>>,
}

impl Watched {
    pub fn over(below: Arc<dyn Engine>) -> Arc<Self> {
        Arc::new(Watched {
            below,
            appends: AtomicU64::new(0),
            append_bytes: AtomicU64::new(0),
            tombstones: AtomicU64::new(0),
            fetches: AtomicU64::new(0),
            holds: Arc::default(),
            misleads: Mutex::default(),
            full: AtomicBool::new(false),
            waiting: Mutex::default(),
        })
    }

    /// Take no records, or take them again.
    pub fn push_back(&self, full: bool) {
        self.full.store(full, SeqCst);
        let waiting = std::mem::take(&mut *self.waiting.lock());
        waiting.into_iter().for_each(Waker::wake);
    }

    pub fn count(&self) -> (u64, u64, u64) {
        (self.appends.load(SeqCst), self.tombstones.load(SeqCst), self.fetches.load(SeqCst))
    }
}

impl Engine for Watched {
    fn name(&self) -> &'static str {
        self.below.name()
    }
    fn limits(&self) -> Limits {
        self.below.limits()
    }
    fn probe(&self, id: &Digest) -> Probe {
        let id = self.misleads.lock().unwrap_or(*id);
        self.below.probe(&id)
    }
    fn fetch(&self, id: &Digest, places: Places, done: FetchDone) {
        self.fetches.fetch_add(1, SeqCst);
        self.below.fetch(id, places, done);
    }
    fn fetch_at(&self, id: &Digest, place: Place, body_bytes: usize, done: FetchDone) {
        self.fetches.fetch_add(1, SeqCst);
        self.below.fetch_at(id, place, body_bytes, done);
    }
    fn poll_append(&self, cx: &mut Context<'_>, record: &Record<'_>) -> Poll<Result<Place, WhyNot>> {
        let mut waiting = self.waiting.lock();
        if self.full.load(SeqCst) {
            waiting.push(cx.waker().clone());
            return Poll::Pending;
        }
        drop(waiting);
        let appended = self.below.poll_append(cx, record);
        if appended.is_ready() {
            let counter = if record.kind == Kind::Tombstone { &self.tombstones } else { &self.appends };
            counter.fetch_add(1, SeqCst);
            let bytes = record.name.len() + record.head.len() + record.body.len();
            self.append_bytes.fetch_add(bytes as u64, SeqCst);
        }
        appended
    }
    fn forget(&self, id: &Digest, place: Place) {
        self.below.forget(id, place);
    }
    fn touch(&self, id: &Digest, place: Place) {
        self.below.touch(id, place);
    }
    fn hold(&self, _places: &[Place]) -> Hold {
        let holds = self.holds.clone();
        holds.fetch_add(1, SeqCst);
        Hold::ending(move || {
            holds.fetch_sub(1, SeqCst);
        })
    }
    fn is_live(&self, place: Place) -> bool {
        self.below.is_live(place)
    }
    fn sync(&self, of: Option<&Digest>, done: SyncDone) {
        self.below.sync(of, done);
    }
    fn walk(&self, cursor: u64, most: usize) -> (Vec<Place>, Option<u64>) {
        self.below.walk(cursor, most)
    }
    fn fetch_any(&self, place: Place, done: FetchDone) {
        self.below.fetch_any(place, done);
    }
    fn index_bytes(&self) -> u64 {
        self.below.index_bytes()
    }
    fn stats(&self) -> Stats {
        self.below.stats()
    }
    fn refuse_appends(&self) {
        self.below.refuse_appends();
    }
    fn close(&self, done: SyncDone) {
        self.below.close(done);
    }
}
