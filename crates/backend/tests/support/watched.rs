//! An engine that counts what it is asked, and pushes back or finds what is not there when a test says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use tinaja_store::engine::{
    Capabilities, Engine, FetchDone, Hold, Holds, Limits, Place, Placement, Places, Probe, Record, SyncDone,
};
use tinaja_store::{Digest, Stats, WhyNot};

/// Over a sound engine.
pub struct Watched {
    below: Arc<dyn Engine>,
    /// Records appended, and the bytes of their names, heads and bodies.
    pub appends: AtomicU64,
    pub append_bytes: AtomicU64,
    pub removals: AtomicU64,
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
            removals: AtomicU64::new(0),
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

    /// Whether it takes nothing now; whoever asks is woken when it does.
    fn is_full(&self, cx: &Context<'_>) -> bool {
        let mut waiting = self.waiting.lock();
        let is_full = self.full.load(SeqCst);
        if is_full {
            waiting.push(cx.waker().clone());
        }
        is_full
    }

    /// Appends, removals and reads.
    pub fn count(&self) -> (u64, u64, u64) {
        (self.appends.load(SeqCst), self.removals.load(SeqCst), self.fetches.load(SeqCst))
    }
}

impl Engine for Watched {
    fn name(&self) -> &'static str {
        self.below.name()
    }
    fn limits(&self) -> Limits {
        self.below.limits()
    }
    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities { holds: Some(self), ..self.below.capabilities() }
    }
    fn probe(&self, at: &Placement<'_>) -> Probe {
        let digest = self.misleads.lock().unwrap_or(at.digest);
        self.below.probe(&Placement { digest, ..*at })
    }
    fn fetch(&self, at: &Placement<'_>, places: Places, done: FetchDone) {
        self.fetches.fetch_add(1, SeqCst);
        self.below.fetch(at, places, done);
    }
    fn fetch_at(&self, id: &Digest, place: Place, body_bytes: usize, done: FetchDone) {
        self.fetches.fetch_add(1, SeqCst);
        self.below.fetch_at(id, place, body_bytes, done);
    }
    fn poll_append(
        &self,
        cx: &mut Context<'_>,
        at: &Placement<'_>,
        record: &Record<'_>,
    ) -> Poll<Result<Place, WhyNot>> {
        if self.is_full(cx) {
            return Poll::Pending;
        }
        let appended = self.below.poll_append(cx, at, record);
        if appended.is_ready() {
            self.appends.fetch_add(1, SeqCst);
            let bytes = record.name.len() + record.head.len() + record.body.len();
            self.append_bytes.fetch_add(bytes as u64, SeqCst);
        }
        appended
    }
    fn poll_remove(&self, cx: &mut Context<'_>, at: &Placement<'_>) -> Poll<Result<Option<Place>, WhyNot>> {
        if self.is_full(cx) {
            return Poll::Pending;
        }
        let removed = self.below.poll_remove(cx, at);
        if removed.is_ready() {
            self.removals.fetch_add(1, SeqCst);
        }
        removed
    }
    fn forget(&self, at: &Placement<'_>, place: Place) {
        self.below.forget(at, place);
    }
    fn touch(&self, at: &Placement<'_>, place: Place) {
        self.below.touch(at, place);
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

impl Holds for Watched {
    fn hold(&self, _places: &[Place]) -> Hold {
        let holds = self.holds.clone();
        holds.fetch_add(1, SeqCst);
        Hold::ending(move || {
            holds.fetch_sub(1, SeqCst);
        })
    }
}
