//! An engine that is no longer called once it is found broken: see [`crate::fuse`].

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use super::{
    BodyWriter, Buffered, Capabilities, Disks, Engine, ExtentsTogether, FetchDone, Fetched, FirstBytes, Hold, Holds,
    Limits, Part, PartsDone, Place, Placement, Places, Probe, Record, RelatedRuns, SavesEpochs, SyncDone, Together,
    WholeBodies,
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
    offers: Offers,
    waiting: Arc<Waiting>,
}

/// What the engine offers: asked once, since one that is broken is asked nothing.
#[derive(Clone, Copy)]
struct Offers {
    disks: bool,
    buffered: bool,
    related: bool,
    together: bool,
    holds: bool,
    first_bytes: bool,
    bodies: bool,
    epochs: bool,
}

impl Offers {
    fn of(engine: &dyn Engine) -> Self {
        let Capabilities { disks, buffered, related, together, holds, first_bytes, bodies, epochs } =
            engine.capabilities();
        Offers {
            disks: disks.is_some(),
            buffered: buffered.is_some(),
            related: related.is_some(),
            together: together.is_some(),
            holds: holds.is_some(),
            first_bytes: first_bytes.is_some(),
            bodies: bodies.is_some(),
            epochs: epochs.is_some(),
        }
    }
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
        let (name, limits, offers) = (engine.name(), engine.limits(), Offers::of(&*engine));
        Arc::new(Fused { engine, fuse, name, limits, offers, waiting })
    }

    fn call<T>(&self, work: impl FnOnce(&dyn Engine) -> T) -> Option<T> {
        self.fuse.guard(|| work(&*self.engine))
    }

    /// What an append ended with, of an engine that may be broken since.
    fn appended<T>(&self, cx: &Context<'_>, appended: Option<Poll<Result<T, WhyNot>>>) -> Poll<Result<T, WhyNot>> {
        appended_behind(&self.fuse, &self.waiting, cx, appended)
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

/// What an append ended with behind a fuse. Whoever waits is told should it blow.
fn appended_behind<T>(
    fuse: &Fuse,
    waiting: &Waiting,
    cx: &Context<'_>,
    appended: Option<Poll<Result<T, WhyNot>>>,
) -> Poll<Result<T, WhyNot>> {
    if matches!(appended, Some(Poll::Pending)) {
        waiting.append(cx.waker());
    }
    match appended {
        // Looked at once more, now that the waker is kept: it may have blown in between.
        Some(appended) if !fuse.is_blown() => appended,
        _ => Poll::Ready(Err(WhyNot::Device)),
    }
}

/// A body behind the fuse of its engine.
struct FusedBody {
    /// `None` where the engine did not even begin it.
    body: Option<Box<dyn BodyWriter>>,
    fuse: Arc<Fuse>,
    waiting: Arc<Waiting>,
}

impl FusedBody {
    fn call<T>(
        &mut self,
        cx: &mut Context<'_>,
        work: impl FnOnce(&mut dyn BodyWriter, &mut Context<'_>) -> Poll<Result<T, WhyNot>>,
    ) -> Poll<Result<T, WhyNot>> {
        let Some(body) = &mut self.body else { return Poll::Ready(Err(WhyNot::Device)) };
        let done = self.fuse.guard(|| work(&mut **body, cx));
        appended_behind(&self.fuse, &self.waiting, cx, done)
    }
}

impl BodyWriter for FusedBody {
    fn poll_part(&mut self, cx: &mut Context<'_>, part: &[u8]) -> Poll<Result<Place, WhyNot>> {
        self.call(cx, |body, cx| body.poll_part(cx, part))
    }

    fn poll_end(&mut self, cx: &mut Context<'_>, record: &Record<'_>) -> Poll<Result<Place, WhyNot>> {
        self.call(cx, |body, cx| body.poll_end(cx, record))
    }
}

impl Drop for FusedBody {
    fn drop(&mut self) {
        let body = self.body.take();
        self.fuse.guard(|| drop(body));
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

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            disks: self.offers.disks.then_some(self),
            buffered: self.offers.buffered.then_some(self),
            related: self.offers.related.then_some(self),
            together: self.offers.together.then_some(self),
            holds: self.offers.holds.then_some(self),
            first_bytes: self.offers.first_bytes.then_some(self),
            bodies: self.offers.bodies.then_some(self),
            epochs: self.offers.epochs.then_some(self),
        }
    }

    fn probe(&self, at: &Placement<'_>) -> Probe {
        self.call(|engine| engine.probe(at)).unwrap_or(Probe::Absent)
    }

    fn fetch(&self, at: &Placement<'_>, places: Places, done: FetchDone) {
        if self.fuse.is_blown() {
            return missing(done);
        }
        self.call(|engine| engine.fetch(at, places, done));
    }

    fn fetch_at(&self, id: &Digest, place: Place, body_bytes: usize, done: FetchDone) {
        if self.fuse.is_blown() {
            return missing(done);
        }
        self.call(|engine| engine.fetch_at(id, place, body_bytes, done));
    }

    fn fetch_any(&self, place: Place, done: FetchDone) {
        if self.fuse.is_blown() {
            return missing(done);
        }
        self.call(|engine| engine.fetch_any(place, done));
    }

    fn poll_append(
        &self,
        cx: &mut Context<'_>,
        at: &Placement<'_>,
        record: &Record<'_>,
    ) -> Poll<Result<Place, WhyNot>> {
        let appended = self.call(|engine| engine.poll_append(cx, at, record));
        self.appended(cx, appended)
    }

    fn poll_remove(&self, cx: &mut Context<'_>, at: &Placement<'_>) -> Poll<Result<Option<Place>, WhyNot>> {
        let removed = self.call(|engine| engine.poll_remove(cx, at));
        self.appended(cx, removed)
    }

    fn forget(&self, at: &Placement<'_>, place: Place) {
        self.call(|engine| engine.forget(at, place));
    }

    fn touch(&self, at: &Placement<'_>, place: Place) {
        self.call(|engine| engine.touch(at, place));
    }

    fn is_newest(&self, at: &Placement<'_>, place: Place, seen: Places) -> bool {
        self.call(|engine| engine.is_newest(at, place, seen)).unwrap_or(false)
    }

    fn is_live(&self, place: Place) -> bool {
        self.call(|engine| engine.is_live(place)).unwrap_or(false)
    }

    fn keeps_body_at(&self, place: Place) -> bool {
        self.call(|engine| engine.keeps_body_at(place)).unwrap_or(false)
    }

    fn goes_by_origin(&self) -> bool {
        self.call(|engine| engine.goes_by_origin()).unwrap_or(false)
    }

    fn sync(&self, of: Option<&Digest>, done: SyncDone) {
        self.call_sync(done, |engine, done| engine.sync(of, done));
    }

    fn walk(&self, cursor: u64, most: usize) -> (Vec<Place>, Option<u64>) {
        self.call(|engine| engine.walk(cursor, most)).unwrap_or_default()
    }

    fn walks_all(&self) -> bool {
        self.call(|engine| engine.walks_all()).unwrap_or(false)
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

impl Disks for Fused {
    fn disks(&self) -> usize {
        self.call(|engine| Some(engine.capabilities().disks?.disks())).flatten().unwrap_or(1)
    }

    fn disk_of(&self, id: &Digest) -> usize {
        self.call(|engine| Some(engine.capabilities().disks?.disk_of(id))).flatten().unwrap_or(0)
    }

    fn disk_at(&self, place: Place) -> usize {
        self.call(|engine| Some(engine.capabilities().disks?.disk_at(place))).flatten().unwrap_or(0)
    }
}

impl Buffered for Fused {
    fn is_in_memory(&self, place: Place) -> bool {
        self.call(|engine| Some(engine.capabilities().buffered?.is_in_memory(place))).flatten().unwrap_or(false)
    }

    fn write_out(&self) {
        self.call(|engine| engine.capabilities().buffered.into_iter().for_each(Buffered::write_out));
    }
}

impl RelatedRuns for Fused {
    fn log_bytes(&self, record: &Record<'_>) -> usize {
        self.call(|engine| Some(engine.capabilities().related?.log_bytes(record))).flatten().unwrap_or(0)
    }
}

impl ExtentsTogether for Fused {
    fn together(&self, parts: &[Part], most_bytes: usize) -> Together {
        let alone = Together { parts: parts.len().min(1), bytes: parts.first().map_or(0, |part| part.body_bytes) };
        let together = |engine: &dyn Engine| Some(engine.capabilities().together?.together(parts, most_bytes));
        self.call(together).flatten().unwrap_or(alone)
    }

    fn fetch_together(&self, id: &Digest, parts: &[Part], done: PartsDone) {
        if self.fuse.is_blown() {
            return done(vec![Fetched::Missing]);
        }
        self.call(|engine| match engine.capabilities().together {
            Some(together) => together.fetch_together(id, parts, done),
            None => done(vec![Fetched::Missing]),
        });
    }
}

impl Holds for Fused {
    fn hold(&self, places: &[Place]) -> Hold {
        self.call(|engine| Some(engine.capabilities().holds?.hold(places))).flatten().unwrap_or_default()
    }
}

impl FirstBytes for Fused {
    fn first_bytes(&self, id: &Digest, beside_bytes: usize) -> usize {
        let first = |engine: &dyn Engine| Some(engine.capabilities().first_bytes?.first_bytes(id, beside_bytes));
        self.call(first).flatten().unwrap_or(0)
    }
}

impl SavesEpochs for Fused {
    fn may_begin_epoch(&self) -> bool {
        self.call(|engine| Some(engine.capabilities().epochs?.may_begin_epoch())).flatten().unwrap_or(false)
    }

    fn begin_epoch(&self, number: u64) {
        self.call(|engine| engine.capabilities().epochs.into_iter().for_each(|epochs| epochs.begin_epoch(number)));
    }

    fn epochs(&self) -> (u64, u64) {
        self.call(|engine| Some(engine.capabilities().epochs?.epochs())).flatten().unwrap_or_default()
    }
}

impl WholeBodies for Fused {
    fn begin(&self, at: &Placement<'_>) -> Box<dyn BodyWriter> {
        let body = self.call(|engine| Some(engine.capabilities().bodies?.begin(at))).flatten();
        Box::new(FusedBody { body, fuse: self.fuse.clone(), waiting: self.waiting.clone() })
    }
}
