//! An engine that is no longer called once it is found broken: see [`crate::fuse`].

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use super::{
    Engine, FetchDone, Fetched, Hold, Limits, Part, PartsDone, Place, Places, Probe, Record, SyncDone, Together,
};
use crate::fuse::Fuse;
use crate::terms::{Digest, Stats, WhyNot};

/// Appends that are remembered to be told: twice as many as there may be open writes.
pub(crate) const MAX_WAITING_APPENDS: usize = 1024;

/// An engine behind its fuse. Blown, it answers like one that is empty and takes nothing: reads miss, appends end with
/// [`WhyNot::Device`], syncs and the close with an error that says what happened. Memory: those who wait for it now.
pub(crate) struct Fused {
    engine: Arc<dyn Engine>,
    fuse: Arc<Fuse>,
    name: &'static str,
    limits: Limits,
    waiting: Arc<Waiting>,
}

/// Who is to be told when the fuse blows, since the engine will not.
#[derive(Default)]
struct Waiting {
    appends: Mutex<Vec<Waker>>,
    syncs: Mutex<HashMap<u64, SyncDone>>,
    next_sync: AtomicU64,
}

impl Waiting {
    fn tell_all(&self, why: &str) {
        let appends = mem::take(&mut *self.appends.lock());
        appends.into_iter().for_each(Waker::wake);
        let syncs = mem::take(&mut *self.syncs.lock());
        syncs.into_values().for_each(|done| done(Err(why.into())));
    }

    fn append(&self, waker: &Waker) {
        let mut appends = self.appends.lock();
        if appends.iter().any(|other| other.will_wake(waker)) {
            return;
        }
        // Some have left without a word: those that are still there come again.
        let full = if appends.len() < MAX_WAITING_APPENDS { Vec::new() } else { mem::take(&mut *appends) };
        appends.push(waker.clone());
        drop(appends);
        full.into_iter().for_each(Waker::wake);
    }

    /// Keep what a sync is to call, and give what calls it if it has not been called yet.
    fn sync(self: &Arc<Self>, done: SyncDone) -> (u64, SyncDone) {
        let number = self.next_sync.fetch_add(1, Relaxed);
        self.syncs.lock().insert(number, done);
        let all = self.clone();
        (number, Box::new(move |result| all.end_sync(number, result)))
    }

    fn end_sync(&self, number: u64, result: Result<(), String>) {
        let done = self.syncs.lock().remove(&number);
        done.into_iter().for_each(|done| done(result.clone()));
    }
}

impl Fused {
    /// `engine`, which reads and writes through a device with the same fuse.
    pub(crate) fn over(engine: Arc<dyn Engine>, fuse: Arc<Fuse>) -> Arc<dyn Engine> {
        let waiting = Arc::<Waiting>::default();
        let (told, of) = (waiting.clone(), Arc::downgrade(&fuse));
        fuse.when_blown(move || told.tell_all(of.upgrade().as_ref().map_or("", |fuse| fuse.why())));
        let (name, limits) = (engine.name(), engine.limits());
        Arc::new(Fused { engine, fuse, name, limits, waiting })
    }

    fn call<T>(&self, work: impl FnOnce(&dyn Engine) -> T) -> Option<T> {
        self.fuse.guard(|| work(&*self.engine))
    }

    /// Run what is to tell `done`; an engine that cannot be trusted, or loses `done`, tells why.
    fn call_sync(&self, done: SyncDone, work: impl FnOnce(&dyn Engine, SyncDone)) {
        let (number, once) = self.waiting.sync(done);
        self.call(|engine| work(engine, once));
        // It may have blown before `done` was kept, too early to be told with the others.
        if self.fuse.is_blown() {
            self.waiting.end_sync(number, Err(self.fuse.why().into()));
        }
    }
}

/// Of a fetch from an engine that is not asked.
fn missing(done: FetchDone) {
    done(Fetched::Missing);
}

impl Engine for Fused {
    fn name(&self) -> &'static str {
        self.name
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn disks(&self) -> usize {
        self.call(|engine| engine.disks()).unwrap_or(1)
    }

    fn disk_of(&self, id: &Digest) -> usize {
        self.call(|engine| engine.disk_of(id)).unwrap_or(0)
    }

    fn disk_at(&self, place: Place) -> usize {
        self.call(|engine| engine.disk_at(place)).unwrap_or(0)
    }

    fn is_in_memory(&self, place: Place) -> bool {
        self.call(|engine| engine.is_in_memory(place)).unwrap_or(false)
    }

    fn probe(&self, id: &Digest) -> Probe {
        self.call(|engine| engine.probe(id)).unwrap_or(Probe::Absent)
    }

    fn fetch(&self, id: &Digest, places: Places, done: FetchDone) {
        if self.fuse.is_blown() {
            return missing(done);
        }
        self.call(|engine| engine.fetch(id, places, done));
    }

    fn fetch_at(&self, id: &Digest, place: Place, body_bytes: usize, done: FetchDone) {
        if self.fuse.is_blown() {
            return missing(done);
        }
        self.call(|engine| engine.fetch_at(id, place, body_bytes, done));
    }

    fn together(&self, parts: &[Part], most_bytes: usize) -> Together {
        let alone = Together { parts: parts.len().min(1), bytes: parts.first().map_or(0, |part| part.body_bytes) };
        self.call(|engine| engine.together(parts, most_bytes)).unwrap_or(alone)
    }

    fn fetch_together(&self, id: &Digest, parts: &[Part], done: PartsDone) {
        if self.fuse.is_blown() {
            return done(vec![Fetched::Missing]);
        }
        self.call(|engine| engine.fetch_together(id, parts, done));
    }

    fn poll_append(&self, cx: &mut Context<'_>, record: &Record<'_>) -> Poll<Result<Place, WhyNot>> {
        let appended = self.call(|engine| engine.poll_append(cx, record));
        if matches!(appended, Some(Poll::Pending)) {
            self.waiting.append(cx.waker());
        }
        match appended {
            // Looked at once more, now that the waker is kept: it may have blown in between.
            Some(appended) if !self.fuse.is_blown() => appended,
            _ => Poll::Ready(Err(WhyNot::Device)),
        }
    }

    fn reads_ahead(&self) -> bool {
        self.call(|engine| engine.reads_ahead()).unwrap_or(false)
    }

    fn log_bytes(&self, record: &Record<'_>) -> usize {
        self.call(|engine| engine.log_bytes(record)).unwrap_or(0)
    }

    fn first_bytes(&self, id: &Digest, beside_bytes: usize) -> usize {
        self.call(|engine| engine.first_bytes(id, beside_bytes)).unwrap_or(0)
    }

    fn is_newest(&self, id: &Digest, place: Place, seen: Places) -> bool {
        self.call(|engine| engine.is_newest(id, place, seen)).unwrap_or(false)
    }

    fn keeps_body_at(&self, place: Place) -> bool {
        self.call(|engine| engine.keeps_body_at(place)).unwrap_or(false)
    }

    fn forget(&self, id: &Digest, place: Place) {
        self.call(|engine| engine.forget(id, place));
    }

    fn touch(&self, id: &Digest, place: Place) {
        self.call(|engine| engine.touch(id, place));
    }

    fn hold(&self, places: &[Place]) -> Hold {
        self.call(|engine| engine.hold(places)).unwrap_or_default()
    }

    fn is_live(&self, place: Place) -> bool {
        self.call(|engine| engine.is_live(place)).unwrap_or(false)
    }

    fn sync(&self, of: Option<&Digest>, done: SyncDone) {
        self.call_sync(done, |engine, done| engine.sync(of, done));
    }

    fn write_out(&self) {
        self.call(|engine| engine.write_out());
    }

    fn walk(&self, cursor: u64, most: usize) -> (Vec<Place>, Option<u64>) {
        self.call(|engine| engine.walk(cursor, most)).unwrap_or_default()
    }

    fn fetch_any(&self, place: Place, done: FetchDone) {
        if self.fuse.is_blown() {
            return missing(done);
        }
        self.call(|engine| engine.fetch_any(place, done));
    }

    fn index_bytes(&self) -> u64 {
        self.call(|engine| engine.index_bytes()).unwrap_or(0)
    }

    fn stats(&self) -> Stats {
        let stats = self.call(|engine| engine.stats());
        let stopped = u64::from(self.fuse.is_blown());
        Stats { engine: self.name, engines_stopped: stopped, ..stats.unwrap_or_default() }
    }

    fn refuse_appends(&self) {
        self.call(|engine| engine.refuse_appends());
    }

    fn close(&self, done: SyncDone) {
        self.call_sync(done, |engine, done| engine.close(done));
    }
}
