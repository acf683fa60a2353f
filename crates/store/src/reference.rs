//! The contract in its simplest form: a map in memory. Tests hold every other store against this one.

use std::collections::HashMap;
use std::future::ready;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tinaja_clock::Clock;

use crate::store::{
    Body, BodySource, Commit, Cursor, FillId, HeadEdit, Hint, Hit, Judge, Lookup, Removed, ScanEntry, ScanPage, Sink,
    Source, State, Store, Swept, Updated, Writer, within,
};
use crate::terms::{Key, Pending, ReadError, Stats, StoreError, WhyNot};

/// A [`Store`] that keeps everything in memory, without limit: for tests and examples, not for service.
#[derive(Default)]
pub struct Reference {
    inner: Arc<Mutex<Inner>>,
    clock: Clock,
}

#[derive(Default)]
struct Inner {
    whole: HashMap<Key, (Bytes, Bytes)>,
    fills: HashMap<Key, Vec<Arc<Fill>>>,
    next_fill: u64,
    stats: Stats,
    closed: bool,
    /// The epoch that has begun, and the one that was flushed.
    begun: u64,
    saved: u64,
}

impl Reference {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty store, by whose clock goes whatever is built on it.
    pub fn by(clock: Clock) -> Self {
        Reference { clock, ..Self::default() }
    }
}

impl Store for Reference {
    fn clock(&self) -> Clock {
        self.clock.clone()
    }

    fn lookup_with(&self, key: &Key, _hint: &Hint, _deadline: Instant) -> Lookup {
        let mut inner = self.inner.lock();
        if inner.closed {
            return Lookup::Absent;
        }
        if let Some(fill) = newest(&inner, key) {
            inner.stats.hits_fill += 1;
            return Lookup::Here(Fill::follow(&fill));
        }
        if let Some((head, body)) = inner.whole.get(key).cloned() {
            inner.stats.hits_memory += 1;
            let body = Body::from_bytes(body);
            return Lookup::Here(Hit { head, state: State::Whole, source: Source::Memory, body });
        }
        inner.stats.misses += 1;
        Lookup::Absent
    }

    fn follow(&self, key: &Key, id: FillId) -> Option<Hit> {
        let inner = self.inner.lock();
        inner.fills.get(key)?.iter().find(|fill| fill.id == id && fill.goes_on()).map(Fill::follow)
    }

    fn followers(&self, key: &Key, id: FillId) -> usize {
        let inner = self.inner.lock();
        let fill = inner.fills.get(key).and_then(|fills| fills.iter().find(|fill| fill.id == id));
        fill.map_or(0, |fill| fill.shared.lock().followers)
    }

    fn put(&self, key: &Key, head: Bytes, hint: Hint) -> Writer {
        let mut inner = self.inner.lock();
        inner.next_fill += 1;
        let id = FillId(inner.next_fill);
        let fill = Arc::new(Fill { id, head, hint, shared: Mutex::default() });
        inner.fills.entry(key.clone()).or_default().push(fill.clone());
        Writer::new(Box::new(Open { store: self.inner.clone(), key: key.clone(), fill }))
    }

    fn update_head(&self, key: &Key, edit: HeadEdit) -> Pending<Result<Updated, StoreError>> {
        let mut inner = self.inner.lock();
        let updated = match inner.whole.get_mut(key) {
            None => Updated::Absent,
            Some((head, _)) => edit(head).map_or(Updated::Unchanged, |new| {
                *head = new;
                Updated::Done
            }),
        };
        Box::pin(ready(Ok(updated)))
    }

    fn remove(&self, key: &Key) -> Pending<Result<Removed, StoreError>> {
        let mut inner = self.inner.lock();
        let fills = inner.fills.remove(key);
        let gone = inner.whole.remove(key).is_some() || fills.is_some();
        Box::pin(ready(Ok(if gone { Removed::Gone } else { Removed::Absent })))
    }

    fn scan(&self, from: Cursor, most: usize) -> Pending<Result<ScanPage, StoreError>> {
        let inner = self.inner.lock();
        let mut all: Vec<_> = inner.whole.iter().collect();
        all.sort_by_key(|(key, _)| (*key.digest(), key.name().to_vec()));
        let start = from.0 as usize;
        let entry = |(key, (head, body)): &(&Key, &(Bytes, Bytes))| ScanEntry {
            name: Bytes::copy_from_slice(key.name()),
            head: head.clone(),
            body_bytes: body.len() as u64,
        };
        let entries: Vec<_> = all.iter().skip(start).take(most.max(1)).map(entry).collect();
        let end = start + entries.len();
        let next = (end < all.len()).then_some(Cursor(end as u64));
        Box::pin(ready(Ok(ScanPage { entries, next })))
    }

    fn sweep(&self, _from: Cursor, _most: usize, judge: Judge) -> Pending<Result<Swept, StoreError>> {
        let all: Vec<_> = {
            let inner = self.inner.lock();
            if inner.closed {
                return Box::pin(ready(Err(StoreError::Closed)));
            }
            inner.whole.iter().map(|(key, version)| (key.clone(), version.clone())).collect()
        };
        let mut swept = Swept { shown: all.len() as u64, is_complete: true, ..Swept::default() };
        for (key, version) in all.into_iter().filter(|(key, (head, _))| judge(key.name(), head)) {
            let mut inner = self.inner.lock();
            if inner.whole.get(&key) == Some(&version) {
                inner.whole.remove(&key);
                swept.forgotten += 1;
            }
        }
        Box::pin(ready(Ok(swept)))
    }

    fn begin_epoch(&self, after: u64) -> Option<u64> {
        let mut inner = self.inner.lock();
        inner.begun = inner.begun.max(after) + 1;
        Some(inner.begun)
    }

    fn saved_epoch(&self) -> u64 {
        self.inner.lock().saved
    }

    fn flush(&self) -> Pending<Result<(), StoreError>> {
        let mut inner = self.inner.lock();
        inner.saved = inner.begun;
        Box::pin(ready(if inner.closed { Err(StoreError::Closed) } else { Ok(()) }))
    }

    fn stats(&self) -> Stats {
        let inner = self.inner.lock();
        Stats { live_objects: inner.whole.len() as u64, ..inner.stats }
    }

    fn close(&self) -> Pending<Result<(), StoreError>> {
        self.inner.lock().closed = true;
        Box::pin(ready(Ok(())))
    }
}

/// An unfinished write, shared by its writer and its followers.
struct Fill {
    id: FillId,
    head: Bytes,
    hint: Hint,
    shared: Mutex<Shared>,
}

#[derive(Default)]
struct Shared {
    body: BytesMut,
    /// Another version was committed since this write began.
    overtaken: bool,
    whole: bool,
    aborted: bool,
    /// Those who follow are told so already.
    broken_off: bool,
    followers: usize,
    waiting: Vec<Waker>,
}

impl Fill {
    fn follow(fill: &Arc<Fill>) -> Hit {
        fill.shared.lock().followers += 1;
        let body = Body::from_source(Box::new(Follower { fill: fill.clone(), left: 0..u64::MAX }));
        Hit { head: fill.head.clone(), state: State::Filling, source: Source::Fill, body }
    }

    fn goes_on(&self) -> bool {
        !self.shared.lock().broken_off
    }

    fn change(&self, change: impl FnOnce(&mut Shared)) {
        let mut shared = self.shared.lock();
        change(&mut shared);
        let waiting = std::mem::take(&mut shared.waiting);
        drop(shared);
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// The newest write of an object that goes on.
fn newest(inner: &Inner, key: &Key) -> Option<Arc<Fill>> {
    inner.fills.get(key)?.iter().rev().find(|fill| fill.goes_on()).cloned()
}

struct Follower {
    fill: Arc<Fill>,
    left: Range<u64>,
}

impl BodySource for Follower {
    fn length(&self) -> Option<u64> {
        let shared = self.fill.shared.lock();
        if shared.whole { Some(shared.body.len() as u64) } else { self.fill.hint.expected_bytes }
    }

    fn seek(&mut self, range: Range<u64>) -> Result<(), ReadError> {
        self.left = within(range, self.length())?;
        Ok(())
    }

    fn poll_next(&mut self, cx: &mut Context<'_>, max: usize) -> Poll<Result<Option<Bytes>, ReadError>> {
        let mut shared = self.fill.shared.lock();
        if shared.aborted {
            return Poll::Ready(Err(ReadError::Aborted));
        }
        let start = usize::try_from(self.left.start).unwrap_or(usize::MAX);
        let wanted = usize::try_from(self.left.end).unwrap_or(usize::MAX).min(start.saturating_add(max.max(1)));
        if let Some(piece) = shared.body.get(start..wanted.min(shared.body.len())).filter(|piece| !piece.is_empty()) {
            self.left.start += piece.len() as u64;
            return Poll::Ready(Ok(Some(Bytes::copy_from_slice(piece))));
        }
        if shared.broken_off && self.left.start < self.left.end {
            return Poll::Ready(Err(ReadError::Aborted));
        }
        if shared.whole || self.left.start >= self.left.end {
            return Poll::Ready(Ok(None));
        }
        shared.waiting.push(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.fill.shared.lock().followers -= 1;
    }
}

/// The writing end of a [`Fill`].
struct Open {
    store: Arc<Mutex<Inner>>,
    key: Key,
    fill: Arc<Fill>,
}

impl Open {
    /// Take this write off the list of unfinished ones; false if a removal has done so.
    fn leave(&self, inner: &mut Inner) -> bool {
        let Some(fills) = inner.fills.get_mut(&self.key) else {
            return false;
        };
        let before = fills.len();
        fills.retain(|fill| !Arc::ptr_eq(fill, &self.fill));
        let found = fills.len() < before;
        if fills.is_empty() {
            inner.fills.remove(&self.key);
        }
        found
    }

    /// End the write: with all that was announced, or, where there is a head for that, with what has come.
    fn end(&self, of_beginning: Option<Bytes>) -> Commit {
        let (body, overtaken) = {
            let shared = self.fill.shared.lock();
            (shared.body.clone().freeze(), shared.overtaken)
        };
        let mut inner = self.store.lock();
        let listed = self.leave(&mut inner);
        let short = self.fill.hint.expected_bytes.is_some_and(|expected| expected != body.len() as u64);
        let why = match () {
            _ if inner.closed => Some(WhyNot::Closed),
            _ if !listed => Some(WhyNot::Removed),
            _ if short && of_beginning.is_none() => Some(WhyNot::LengthMismatch),
            _ if overtaken && of_beginning.is_some() => Some(WhyNot::Superseded),
            _ if self.fill.hint.passes => Some(WhyNot::Passing),
            _ => None,
        };
        let aborted = short || of_beginning.is_some();
        let head = of_beginning.unwrap_or_else(|| self.fill.head.clone());
        let bytes = (head.len() + body.len()) as u64;
        if why.is_none() {
            inner.whole.insert(self.key.clone(), (head, body));
            inner.stats.stored += 1;
            inner.stats.stored_bytes += bytes;
            let others = inner.fills.get(&self.key).into_iter().flatten();
            others.for_each(|other| other.shared.lock().overtaken = true);
        } else {
            inner.stats.not_stored += 1;
        }
        drop(inner);
        self.fill.change(|shared| if aborted { shared.aborted = true } else { shared.whole = true });
        why.map_or(Commit::Stored { bytes }, Commit::NotStored)
    }
}

impl Sink for Open {
    fn poll_write(&mut self, _cx: &mut Context<'_>, data: &mut Bytes) -> Poll<()> {
        self.fill.change(|shared| shared.body.extend_from_slice(data));
        data.clear();
        Poll::Ready(())
    }

    fn id(&self) -> FillId {
        self.fill.id
    }

    fn follow(&self) -> Hit {
        Fill::follow(&self.fill)
    }

    fn break_off(&mut self) {
        self.fill.change(|shared| shared.broken_off = true);
    }

    fn commit(self: Box<Self>) -> Pending<Commit> {
        Box::pin(ready(self.end(None)))
    }

    fn commit_beginning(self: Box<Self>, head: Bytes) -> Pending<Commit> {
        Box::pin(ready(self.end(Some(head))))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let ended = {
            let shared = self.fill.shared.lock();
            shared.whole || shared.aborted
        };
        if !ended {
            let mut inner = self.store.lock();
            self.leave(&mut inner);
            self.fill.change(|shared| shared.aborted = true);
            inner.stats.not_stored += 1;
        }
    }
}
