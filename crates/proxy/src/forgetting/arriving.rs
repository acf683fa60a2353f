//! The store, into which nothing comes that was asked for before a purge which is forgotten, or is about to be.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use parking_lot::Mutex;
use tinaja_store::{
    Clock, Commit, Cursor, FillId, HeadEdit, Hint, Hit, Judge, Key, Lookup, Pending, Removed, ScanPage, Sink, Stats,
    Store, StoreError, Swept, Updated, Writer,
};

use crate::bans::{Arriving, Bans, Stamp};
use crate::storage::{Nothing, Storage};
use crate::stored::{Kind, StoredHead};

/// The same store for those who put answers into it. What comes too late is not stored, nor found while it comes: as where the cache is another
/// process's.
pub(crate) fn only_what_may_come(store: Storage, bans: Arc<Bans>) -> Storage {
    Arc::new(Gated { store, bans })
}

struct Gated {
    store: Storage,
    bans: Arc<Bans>,
}

/// When what has this head was asked for; `None` for what counts only as far as what it is found by.
fn stamp_of(head: &Bytes) -> Option<Stamp> {
    match StoredHead::stamp_of(head)? {
        (Kind::Family | Kind::Form, _) => None,
        (Kind::Whole | Kind::Pieces | Kind::Piece, stamp) => Some(stamp),
    }
}

impl Store for Gated {
    fn clock(&self) -> Clock {
        self.store.clock()
    }

    fn lookup_with(&self, key: &Key, hint: &Hint, deadline: Instant) -> Lookup {
        self.store.lookup_with(key, hint, deadline)
    }

    fn find(&self, key: &Key) -> Pending<Option<Hit>> {
        self.store.find(key)
    }

    fn follow(&self, key: &Key, fill: FillId) -> Option<Hit> {
        self.store.follow(key, fill)
    }

    fn followers(&self, key: &Key, fill: FillId) -> usize {
        self.store.followers(key, fill)
    }

    fn goes_by_origin(&self) -> bool {
        self.store.goes_by_origin()
    }

    fn max_object_bytes(&self) -> u64 {
        self.store.max_object_bytes()
    }

    fn distrusted_before(&self) -> Option<SystemTime> {
        self.store.distrusted_before()
    }

    fn put(&self, key: &Key, head: Bytes, hint: Hint) -> Writer {
        let Some(stamp) = stamp_of(&head) else { return self.store.put(key, head, hint) };
        // Before it can be found.
        match self.bans.arrive(stamp) {
            Some(arriving) => Writer::new(Box::new(Coming { writer: self.store.put(key, head, hint), arriving })),
            None => Nothing(self.store.clock()).put(key, head, hint),
        }
    }

    /// Also where its stamp stays what it is: in an index, a new head may stand where a walk has been already, and the old one where it comes yet.
    fn update_head(&self, key: &Key, edit: HeadEdit) -> Pending<Result<Updated, StoreError>> {
        let (bans, coming) = (self.bans.clone(), Arc::new(Mutex::new(None)));
        let to = coming.clone();
        let edit = move |present: &Bytes| {
            let new = edit(present)?;
            if let Some(stamp) = stamp_of(&new) {
                *to.lock() = Some(bans.arrive(stamp)?);
            }
            Some(new)
        };
        let updating = self.store.update_head(key, Box::new(edit));
        Box::pin(async move {
            let updated = updating.await;
            drop(coming);
            updated
        })
    }

    fn remove(&self, key: &Key) -> Pending<Result<Removed, StoreError>> {
        self.store.remove(key)
    }

    fn scan(&self, from: Cursor, most: usize) -> Pending<Result<ScanPage, StoreError>> {
        self.store.scan(from, most)
    }

    fn sweep(&self, from: Cursor, most: usize, judge: Judge) -> Pending<Result<Swept, StoreError>> {
        self.store.sweep(from, most, judge)
    }

    fn begin_epoch(&self, after: u64) -> Option<u64> {
        self.store.begin_epoch(after)
    }

    fn saved_epoch(&self) -> u64 {
        self.store.saved_epoch()
    }

    fn flush(&self) -> Pending<Result<(), StoreError>> {
        self.store.flush()
    }

    fn stats(&self) -> Stats {
        self.store.stats()
    }

    fn close(&self) -> Pending<Result<(), StoreError>> {
        self.store.close()
    }
}

/// A write that may come, and is known of until it has ended.
struct Coming {
    /// Dropped first.
    writer: Writer,
    arriving: Arriving,
}

impl Sink for Coming {
    fn poll_write(&mut self, cx: &mut Context<'_>, data: &mut Bytes) -> Poll<()> {
        self.writer.poll_write(cx, data)
    }

    fn id(&self) -> FillId {
        self.writer.id()
    }

    fn follow(&self) -> Hit {
        self.writer.follow()
    }

    fn break_off(&mut self) {
        self.writer.break_off();
    }

    fn commit(self: Box<Self>) -> Pending<Commit> {
        let Coming { writer, arriving } = *self;
        Box::pin(async move {
            let commit = writer.commit().await;
            drop(arriving);
            commit
        })
    }

    fn commit_beginning(self: Box<Self>, head: Bytes) -> Pending<Commit> {
        let Coming { writer, arriving } = *self;
        Box::pin(async move {
            let commit = writer.commit_beginning(head).await;
            drop(arriving);
            commit
        })
    }
}
