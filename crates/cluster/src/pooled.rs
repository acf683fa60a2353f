//! A store over a store, whose memory is that of all nodes of a cluster.
//!
//! What is written goes below and, if it is small enough, into the cluster's memory. What is looked for is looked for in the memory below, then in the cluster's,
//! then on the disk below.
//!
//! The rules of [`Store`] hold for what one node does, and removals hold on all nodes: [`Store::remove`] is an error if a node has not heard of it. A version that
//! another node has replaced is in nobody's shared memory from then on, but may still be found by a node that has it in its own store, as with caches that know
//! nothing of each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::{Instant, SystemTime};

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tinaja_store::{
    Body, Clock, Commit, Cursor, FillId, HeadEdit, Hint, Hit, Key, Lookup, Pending, Removed, ScanEntry, ScanPage, Sink,
    Source, State, Stats, Store, StoreError, Updated, WhyNot, Writer,
};
use tokio::sync::oneshot;

use crate::comers::Comers;
use crate::disks::Disks;
use crate::error::JoinError;
use crate::joined::Joined;
use crate::joining::Joining;
use crate::limits::MAX_COPIED_BYTES;
use crate::node::{Answer, Ticket};
use crate::packed::{pack, unpack, unpack_any};
use crate::slots::SlotKey;

/// Where a listing goes on with what this node's shared memory has: the numbers of stores below are less.
const OF_POOL: u64 = 0xFFFF << 48;
/// Objects of the shared memory in one part of a listing.
const MOST_LISTED: usize = 16;
/// How often nodes are asked to forget an older version.
const TRIES: u32 = 3;

/// See the module. Cheap to clone. Memory beside the store's: what the node lends, what [`crate::limits`] says, and a copy of each small object that is being written
/// ([`MAX_COPIED_BYTES`]).
#[derive(Clone)]
pub struct Pooled(Arc<Inner>);

struct Inner {
    below: Arc<dyn Store>,
    joined: Joined,
    /// Bytes of objects that are being written.
    copied: AtomicUsize,
}

impl Pooled {
    /// Join a cluster with the objects of a store; `comers` are who answers what else other nodes want. Errors: as [`Joined::join`].
    pub fn join(below: Arc<dyn Store>, joining: Joining, comers: Comers) -> Result<Pooled, JoinError> {
        let joined = Joined::join(joining, below.clone(), comers)?;
        Ok(Pooled(Arc::new(Inner { below, joined, copied: AtomicUsize::new(0) })))
    }

    /// The node.
    pub fn node(&self) -> &Joined {
        &self.0.joined
    }

    /// This node's own store.
    pub fn below(&self) -> Arc<dyn Store> {
        self.0.below.clone()
    }
}

impl Inner {
    async fn find(self: Arc<Self>, key: Key, below: Option<Pending<Option<Hit>>>, deadline: Instant) -> Option<Hit> {
        let slot_key = self.joined.slot_key(&key);
        // What a disk has does not come into the shared memory: it may be older than what another node has on its own disk, or have been removed while this node was away.
        if let Answer::Found { payload, from } = self.joined.fetch(slot_key).await
            && let Some((head, body)) = unpack(payload, &key)
        {
            let source = if from.is_some() { Source::Peer } else { Source::Memory };
            return Some(Hit { head, state: State::Whole, source, body: Body::from_bytes(body) });
        }
        if self.clock().now() >= deadline {
            return None;
        }
        below?.await
    }

    fn clock(&self) -> Clock {
        self.below.clock()
    }

    /// Whether objects lie on the disks of their homes.
    fn has_homes(&self) -> bool {
        self.joined.joining().disks != Disks::Own
    }

    async fn remove(self: Arc<Self>, key: Key) -> Result<Removed, StoreError> {
        // Whether there is one is asked of the list alone: nothing is read, and nothing moves.
        let listed = answer(self.joined.ticket(self.joined.slot_key(&key))).await;
        let removed = self.below.remove(&key).await;
        let elsewhere = self.joined.remove(&key).await;
        let removed = removed?;
        let elsewhere = elsewhere.map_err(StoreError::Elsewhere)?;
        if self.has_homes() {
            // A home whose disk was quicker may have fetched it again from one that was slower.
            self.below.remove(&key).await?;
            self.joined.remove(&key).await.map_err(StoreError::Elsewhere)?;
        }
        Ok(match listed {
            _ if elsewhere => Removed::Elsewhere,
            Some(Answer::Older(_)) => Removed::Gone,
            _ => removed,
        })
    }

    /// What is below, and then what this node's shared memory alone still has.
    async fn scan(self: Arc<Self>, from: Cursor, most: usize) -> Result<ScanPage, StoreError> {
        let Some(slot) = from.0.checked_sub(OF_POOL) else {
            let page = self.below.scan(from, most).await?;
            return Ok(ScanPage { next: page.next.or(Some(Cursor(OF_POOL))), ..page });
        };
        // Each comes with its body.
        let most = most.min(MOST_LISTED);
        let (payloads, next) = self.joined.page(u32::try_from(slot).unwrap_or(u32::MAX), most).await;
        let mut entries = Vec::new();
        for (key, head, body) in payloads.into_iter().filter_map(unpack_any) {
            if self.below.find(&key).await.is_none() && self.joined.is_valid(self.joined.slot_key(&key)).await {
                let name = Bytes::copy_from_slice(key.name());
                entries.push(ScanEntry { name, head, body_bytes: body.len() as u64 });
            }
        }
        Ok(ScanPage { entries, next: next.map(|slot| Cursor(OF_POOL + u64::from(slot))) })
    }

    async fn update_head(self: Arc<Self>, key: Key, deadline: Instant, edit: HeadEdit) -> Result<Updated, StoreError> {
        let slot_key = self.joined.slot_key(&key);
        let before = answer(self.joined.ticket(slot_key)).await;
        let in_memory = matches!(self.below.lookup(&key, deadline), Lookup::Here(_));
        let pooled = match self.joined.fetch(slot_key).await {
            Answer::Found { payload, .. } => unpack(payload, &key),
            _ => None,
        };
        let Some((old, body)) = pooled else { return self.below.update_head(&key, edit).await };
        // What a lookup finds is what is changed, and then whatever else has the same head.
        if in_memory {
            let changed: Arc<Mutex<Option<(Bytes, Bytes)>>> = Arc::default();
            let to = changed.clone();
            let edit: HeadEdit = Box::new(move |head| {
                let new = edit(head)?;
                *to.lock() = Some((head.clone(), new.clone()));
                Some(new)
            });
            let updated = self.below.update_head(&key, edit).await?;
            let changed = changed.lock().take();
            if let Some((_, new)) = changed.filter(|(from, _)| updated == Updated::Done && *from == old) {
                self.keep(&key, slot_key, &new, &body, before).await;
            }
            return Ok(updated);
        }
        let Some(new) = edit(&old) else { return Ok(Updated::Unchanged) };
        self.keep(&key, slot_key, &new, &body, before).await;
        let below: HeadEdit = Box::new(move |head| (*head == old).then_some(new));
        // The cluster's memory has it, whatever becomes of it below.
        let _ = self.below.update_head(&key, below).await;
        Ok(Updated::Done)
    }

    /// A version was written below, and is to be in the cluster's memory too, if it is small. `before` is what was said when it began to come.
    async fn written(&self, slot_key: SlotKey, before: Option<Answer>, payload: Option<Vec<u8>>) {
        match (before, answer(self.joined.ticket(slot_key)).await, payload) {
            // If it was removed since it began to come, the ticket of then says so.
            (Some(Answer::Absent(before)), Some(Answer::Absent(_)), Some(payload)) => {
                self.share(slot_key, payload, before).await;
            }
            (_, Some(Answer::Absent(_)), _) => {}
            // It came through its homes, and each of them stores it at the same time.
            (Some(Answer::Absent(_)), Some(Answer::Older(_)), _) if self.has_homes() => {}
            // Of an older version nobody is to find anything from now on. The new one is not shared: it may have been removed meanwhile, and who could tell?
            _ => self.forget_older(slot_key).await,
        }
    }

    /// Put a version into the cluster's memory. Until its home lists it others may find an older one, of which the home heard late.
    async fn share(&self, slot_key: SlotKey, payload: Vec<u8>, ticket: Ticket) {
        if !self.joined.store(slot_key, payload, ticket).await {
            self.forget_older(slot_key).await;
        }
    }

    /// Make sure that nobody finds a version in the cluster's memory any more.
    async fn forget_older(&self, slot_key: SlotKey) {
        for _ in 0..TRIES {
            if self.joined.invalidate(slot_key).await {
                return;
            }
        }
        tracing::warn!(
            "nodes of the cluster do not answer: they may find an older version of an object until it is stale"
        );
    }

    /// Put a version into the cluster's memory in the place of what is there, if nothing has happened to it since the ticket.
    async fn keep(&self, key: &Key, slot_key: SlotKey, head: &Bytes, body: &Bytes, before: Option<Answer>) {
        let now = answer(self.joined.ticket(slot_key)).await;
        let fits = self.joined.joining().fits(key, head, body.len() as u64);
        match (now, pack(key, head, body).filter(|_| fits)) {
            (Some(Answer::Older(ticket)), Some(payload)) if before == Some(Answer::Older(ticket)) => {
                self.share(slot_key, payload, ticket).await;
            }
            // The old one must not be found any more, and the new one is found below.
            _ => self.forget_older(slot_key).await,
        }
    }
}

impl Store for Pooled {
    fn clock(&self) -> Clock {
        self.0.clock()
    }

    fn lookup_with(&self, key: &Key, hint: &Hint, deadline: Instant) -> Lookup {
        let below = match self.0.below.lookup_with(key, hint, deadline) {
            Lookup::Here(hit) => return Lookup::Here(hit),
            of_old if self.0.joined.has_left() => return of_old,
            Lookup::Absent => None,
            Lookup::Wait(pending) => Some(pending),
        };
        Lookup::Wait(Box::pin(self.0.clone().find(key.clone(), below, deadline)))
    }

    fn follow(&self, key: &Key, fill: FillId) -> Option<Hit> {
        self.0.below.follow(key, fill)
    }

    fn followers(&self, key: &Key, fill: FillId) -> usize {
        self.0.below.followers(key, fill)
    }

    fn max_object_bytes(&self) -> u64 {
        self.0.below.max_object_bytes()
    }

    fn distrusted_before(&self) -> Option<SystemTime> {
        Some(self.0.joined.distrusted_before()).max(self.0.below.distrusted_before())
    }

    fn put(&self, key: &Key, head: Bytes, hint: Hint) -> Writer {
        let slot_key = self.0.joined.slot_key(key);
        let joining = self.0.joined.joining();
        let fits = joining.fits(key, &head, hint.expected_bytes.unwrap_or_default());
        let writing = Writing {
            below: self.0.below.put(key, head.clone(), hint),
            ticket: self.0.joined.ticket(slot_key),
            inner: self.0.clone(),
            key: key.clone(),
            slot_key,
            head,
            copy: fits.then(|| Copy { bytes: BytesMut::new(), inner: self.0.clone() }),
        };
        Writer::new(Box::new(writing))
    }

    fn update_head(&self, key: &Key, edit: HeadEdit) -> Pending<Result<Updated, StoreError>> {
        let deadline = self.clock().now() + tinaja_store::FIND_DEADLINE;
        Box::pin(self.0.clone().update_head(key.clone(), deadline, edit))
    }

    fn remove(&self, key: &Key) -> Pending<Result<Removed, StoreError>> {
        Box::pin(self.0.clone().remove(key.clone()))
    }

    fn scan(&self, from: Cursor, most: usize) -> Pending<Result<ScanPage, StoreError>> {
        Box::pin(self.0.clone().scan(from, most))
    }

    fn flush(&self) -> Pending<Result<(), StoreError>> {
        self.0.below.flush()
    }

    fn stats(&self) -> Stats {
        self.0.below.stats()
    }

    fn close(&self) -> Pending<Result<(), StoreError>> {
        let inner = self.0.clone();
        Box::pin(async move {
            let (told, left) = oneshot::channel();
            let leaving = inner.clone();
            // It waits for threads, which whoever closes should not.
            let thread = inner.clock().spawn("leaving the cluster", move || {
                leaving.joined.leave();
                let _ = told.send(());
            });
            if thread.is_ok() {
                let _ = left.await;
            }
            inner.below.close().await
        })
    }
}

/// An object being written: below, and a copy for the cluster's memory.
struct Writing {
    below: Writer,
    ticket: Option<oneshot::Receiver<Answer>>,
    inner: Arc<Inner>,
    key: Key,
    slot_key: SlotKey,
    head: Bytes,
    copy: Option<Copy>,
}

/// What was written so far, on the account of all copies.
struct Copy {
    bytes: BytesMut,
    inner: Arc<Inner>,
}

impl Copy {
    /// With so much more, if there is room for it.
    fn with(mut self, key: &Key, head: &[u8], more: &[u8]) -> Option<Copy> {
        let joining = self.inner.joined.joining();
        if !joining.fits(key, head, (self.bytes.len() + more.len()) as u64) {
            return None;
        }
        let before = self.inner.copied.fetch_add(more.len(), Relaxed);
        self.bytes.extend_from_slice(more);
        (before + more.len() <= MAX_COPIED_BYTES).then_some(self)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        self.inner.copied.fetch_sub(self.bytes.len(), Relaxed);
    }
}

impl Sink for Writing {
    fn poll_write(&mut self, cx: &mut Context<'_>, data: &mut Bytes) -> Poll<()> {
        let all = data.clone();
        let polled = self.below.poll_write(cx, data);
        let taken = all.get(..all.len() - data.len()).unwrap_or_default();
        self.copy = self.copy.take().and_then(|copy| copy.with(&self.key, &self.head, taken));
        polled
    }

    fn id(&self) -> FillId {
        self.below.id()
    }

    fn follow(&self) -> Hit {
        self.below.follow()
    }

    fn break_off(&mut self) {
        self.below.break_off();
    }

    fn commit(self: Box<Self>) -> Pending<Commit> {
        Box::pin(async move {
            let Writing { below, ticket, inner, key, slot_key, head, copy } = *self;
            let commit = below.commit().await;
            // What only passes by this node's disk is for the memory of all the same.
            if matches!(commit, Commit::Stored { .. } | Commit::NotStored(WhyNot::Passing)) {
                let payload = copy.and_then(|copy| pack(&key, &head, &copy.bytes));
                let answer = answer(ticket).await;
                inner.written(slot_key, answer, payload).await;
            }
            commit
        })
    }

    /// What is not whole is for this node's disk alone.
    fn commit_beginning(self: Box<Self>, head: Bytes) -> Pending<Commit> {
        Box::pin(async move {
            let Writing { below, ticket, inner, slot_key, .. } = *self;
            let commit = below.commit_beginning(head).await;
            if matches!(commit, Commit::Stored { .. }) {
                let answer = answer(ticket).await;
                inner.written(slot_key, answer, None).await;
            }
            commit
        })
    }
}

/// What was asked for, if anybody answers.
async fn answer(asked: Option<oneshot::Receiver<Answer>>) -> Option<Answer> {
    asked?.await.ok()
}
