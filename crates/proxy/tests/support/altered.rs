//! A store that does one thing otherwise than it should, and all else as the reference store does.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use tinaja_store::{
    Body, BodySource, Cursor, FillId, HeadEdit, Hint, Hit, Key, Lookup, Pending, ReadError, Reference, Removed,
    ScanPage, State, Stats, Store, StoreError, Updated, Writer,
};
use tinaja_testkit::wait::eventually;

type OnLookup = Box<dyn Fn(&Reference, &Key, Instant) -> Lookup + Send + Sync>;
type OnFind = Box<dyn Fn(&Reference, &Key) -> Pending<Option<Hit>> + Send + Sync>;
type OnUpdate = Box<dyn Fn() -> Option<Pending<Result<Updated, StoreError>>> + Send + Sync>;
type OnPut = Box<dyn Fn(&Bytes) + Send + Sync>;

pub struct Altered {
    inner: Reference,
    on_lookup: OnLookup,
    on_find: OnFind,
    on_put: OnPut,
    on_update: OnUpdate,
}

/// Where a thread stands still once, so that more comes meanwhile than it could deal with.
#[derive(Clone, Default)]
pub struct Standstill(Arc<(AtomicBool, AtomicBool)>);

impl Standstill {
    /// The next thread that comes here stands still.
    pub fn close(&self) {
        self.0.0.store(true, SeqCst);
    }

    /// Returns when it does.
    pub fn is_reached(&self) {
        eventually("the thread stands still", || self.0.1.load(SeqCst));
    }

    /// It goes on.
    pub fn open(&self) {
        self.0.1.store(false, SeqCst);
    }

    fn pass(&self) {
        let Standstill(both) = self;
        let (closed, reached) = &**both;
        if closed.swap(false, SeqCst) {
            reached.store(true, SeqCst);
            eventually("it goes on", || !reached.load(SeqCst));
        }
    }
}

impl Altered {
    fn new() -> Altered {
        Altered {
            inner: Reference::new(),
            on_lookup: Box::new(|store, key, deadline| store.lookup(key, deadline)),
            on_find: Box::new(|store, key| store.find(key)),
            on_put: Box::new(|_| {}),
            on_update: Box::new(|| None),
        }
    }

    /// Finds as this says.
    pub fn finding(find: impl Fn(&Reference, &Key) -> Pending<Option<Hit>> + Clone + Send + Sync + 'static) -> Altered {
        let looks = find.clone();
        let on_lookup: OnLookup = Box::new(move |store, key, _| Lookup::Wait(looks(store, key)));
        Altered { on_lookup, on_find: Box::new(find), ..Altered::new() }
    }

    /// Looks up as this says, of which the number is how many lookups there were before.
    pub fn looking(look: impl Fn(u64) -> Option<Pending<Option<Hit>>> + Send + Sync + 'static) -> Altered {
        let calls = AtomicU64::new(0);
        let on_lookup: OnLookup = Box::new(move |store, key, deadline| match look(calls.fetch_add(1, SeqCst)) {
            Some(pending) => Lookup::Wait(pending),
            None => store.lookup(key, deadline),
        });
        Altered { on_lookup, ..Altered::new() }
    }

    /// Stops the next thread that looks something up, once it is told to.
    pub fn standing() -> (Altered, Standstill) {
        let standstill = Standstill::default();
        let here = standstill.clone();
        let altered = Altered::looking(move |_| {
            here.pass();
            None
        });
        (altered, standstill)
    }

    /// Loses the bodies of encoded forms, as a disk that is overwritten does: so many bytes of each come, and no more.
    pub fn losing_forms(kept: usize) -> Altered {
        Altered::losing(4, kept, ReadError::Gone, true)
    }

    /// The same of bodies that are stored as they came, once they were found a first time.
    pub fn losing_wholes(kept: usize) -> Altered {
        Altered::losing(0, kept, ReadError::Gone, true)
    }

    /// The same as if they were still being stored, and nobody knew how long they are.
    pub fn losing_unknown(kept: usize) -> Altered {
        Altered::losing(0, kept, ReadError::Gone, false)
    }

    /// The same as on a disk that is damaged: such bytes of a body can be read, as often as it is tried.
    pub fn damaging_wholes(kept: usize) -> Altered {
        Altered::losing(0, kept, ReadError::Corrupt, true)
    }

    fn losing(kind: u8, kept: usize, error: ReadError, is_known: bool) -> Altered {
        Altered::finding(move |store, key| {
            let pending = store.find(key);
            Box::pin(async move {
                let mut hit = pending.await?;
                // The second byte of a head is the kind.
                if hit.head[1] != kind {
                    return Some(hit);
                }
                let length = Some(hit.body.len()?).filter(|_| is_known);
                let all = hit.body.collect(1 << 20).await.ok()?;
                let left = (kept > 0).then(|| all.slice(..kept));
                let state = if is_known { hit.state } else { State::Filling };
                Some(Hit { body: Body::from_source(Box::new(Lost { left, length, error })), state, ..hit })
            })
        })
    }

    /// Finds as this says where it is asked without a deadline, as by whoever works behind requests; lookups go well.
    pub fn finding_behind(find: impl Fn(&Reference, &Key) -> Pending<Option<Hit>> + Send + Sync + 'static) -> Altered {
        Altered { on_find: Box::new(find), ..Altered::new() }
    }

    /// Never comes back from a find without a deadline, as on a disk that stalls; lookups go well.
    pub fn stuck() -> Altered {
        Altered { on_find: Box::new(|_, _| Box::pin(std::future::pending())), ..Altered::new() }
    }

    /// Changes heads, and says which there are, as this says.
    pub fn updating(
        update: impl Fn() -> Option<Pending<Result<Updated, StoreError>>> + Send + Sync + 'static,
    ) -> Altered {
        Altered { on_update: Box::new(update), ..Altered::new() }
    }

    /// Panics when it is to keep an object whose head has `x-panic` in it, as if one of its invariants did not hold.
    pub fn broken() -> Arc<dyn Store> {
        let on_put: OnPut = Box::new(|head| {
            let named = head.to_ascii_lowercase().windows(7).any(|window| window == b"x-panic");
            assert!(!named, "the test asks for it");
        });
        Arc::new(Altered { on_put, ..Altered::new() })
    }
}

/// A body of which some bytes are left.
struct Lost {
    left: Option<Bytes>,
    length: Option<u64>,
    error: ReadError,
}

impl BodySource for Lost {
    fn length(&self) -> Option<u64> {
        self.length
    }

    fn seek(&mut self, _: Range<u64>) -> Result<(), ReadError> {
        Ok(())
    }

    fn poll_next(&mut self, _: &mut Context<'_>, _: usize) -> Poll<Result<Option<Bytes>, ReadError>> {
        Poll::Ready(self.left.take().map(Some).ok_or(self.error))
    }
}

impl Store for Altered {
    fn lookup_with(&self, key: &Key, _: &Hint, deadline: Instant) -> Lookup {
        (self.on_lookup)(&self.inner, key, deadline)
    }

    fn find(&self, key: &Key) -> Pending<Option<Hit>> {
        (self.on_find)(&self.inner, key)
    }

    fn follow(&self, key: &Key, fill: FillId) -> Option<Hit> {
        self.inner.follow(key, fill)
    }

    fn followers(&self, key: &Key, fill: FillId) -> usize {
        self.inner.followers(key, fill)
    }

    fn put(&self, key: &Key, head: Bytes, hint: Hint) -> Writer {
        (self.on_put)(&head);
        self.inner.put(key, head, hint)
    }

    fn update_head(&self, key: &Key, edit: HeadEdit) -> Pending<Result<Updated, StoreError>> {
        (self.on_update)().unwrap_or_else(|| self.inner.update_head(key, edit))
    }

    fn remove(&self, key: &Key) -> Pending<Result<Removed, StoreError>> {
        self.inner.remove(key)
    }

    fn scan(&self, from: Cursor, most: usize) -> Pending<Result<ScanPage, StoreError>> {
        self.inner.scan(from, most)
    }

    fn flush(&self) -> Pending<Result<(), StoreError>> {
        self.inner.flush()
    }

    fn stats(&self) -> Stats {
        self.inner.stats()
    }

    fn close(&self) -> Pending<Result<(), StoreError>> {
        self.inner.close()
    }
}
