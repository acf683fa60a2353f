//! Writing an object: bytes pushed in, readers that follow, and one decision at the end.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::SystemTime;

use bytes::Bytes;

use super::Hit;
pub use crate::terms::Reuse;
use crate::terms::{Digest, Key, Pending, Placement, WhyNot};

/// What the caller knows about an object before its bytes arrive. All of it is advice except the length.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hint {
    /// Objects of one group are likely to be asked for together (same client, page or host).
    pub group: Option<u64>,
    /// The site that it comes from, the same number for all that come from there.
    pub site: Option<u64>,
    /// The body's length if it was announced. A body of another length is never stored: the next client would take it for
    /// whole.
    pub expected_bytes: Option<u64>,
    /// Whether the object is likely to be read again.
    pub reuse: Reuse,
    /// Until when it may be served without asking its origin, by the wall clock.
    pub fresh_until: Option<SystemTime>,
    /// Whether the origin can say later that it has not changed.
    pub can_validate: Option<bool>,
    /// The object only passes through: those who follow the write get it, and nothing is kept ([`WhyNot::Passing`]). What was stored
    /// before stays. Default no.
    pub passes: bool,
}

impl Hint {
    /// What an engine is told of the object of a key, with its digest here.
    pub(crate) fn placement<'a>(&self, digest: Digest, key: &'a Key) -> Placement<'a> {
        let Hint { group, site, expected_bytes, reuse, fresh_until, can_validate, passes: _ } = *self;
        let (name, url) = (key.name(), key.url());
        Placement { digest, name, url, group, site, reuse, fresh_until, can_validate, expected_bytes }
    }
}

/// Names one unfinished write among all of a store's, for the life of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FillId(pub u64);

/// How a write ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Commit {
    /// Stored: found by lookups from now on. It survives power loss after the next [`crate::Store::flush`].
    Stored {
        /// Head and body, in bytes.
        bytes: u64,
    },
    /// Not stored. Whoever followed the write and kept up got every byte all the same, unless the bytes were not those
    /// announced ([`WhyNot::LengthMismatch`]): then followers fail with [`crate::ReadError::Aborted`]. Whoever was too
    /// slow got what had been stored before it was known, and then [`crate::ReadError::Behind`].
    NotStored(WhyNot),
}

/// What stands behind a [`Writer`], for implementations of [`crate::Store`]. Dropping it aborts the write.
pub trait Sink: Send + Sync {
    /// Take bytes from the front of `data`; ready when all are taken. Pending pushes back (a full queue, or a
    /// follower that keeps up with a write that can no longer be stored and pauses). Never fails: a disk fault makes the commit
    /// [`Commit::NotStored`], and the bytes still reach the followers.
    fn poll_write(&mut self, cx: &mut Context<'_>, data: &mut Bytes) -> Poll<()>;
    /// This write's name.
    fn id(&self) -> FillId;
    /// Read along from the first byte.
    fn follow(&self) -> Hit;
    /// Tell those who follow at once that it ends early, as [`Writer::break_off`] says. By default they hear it when it ends.
    fn break_off(&mut self) {}
    /// End the write; pending while queues are full. A future dropped before its end aborts the write.
    fn commit(self: Box<Self>) -> Pending<Commit>;
    /// End the write early, as [`Writer::commit_beginning`] says. By default nothing is kept: the write is aborted.
    fn commit_beginning(self: Box<Self>, head: Bytes) -> Pending<Commit> {
        drop((self, head));
        Box::pin(std::future::ready(Commit::NotStored(WhyNot::LengthMismatch)))
    }
}

/// An object being written. Dropped without [`Writer::commit`], it is aborted: its followers fail with
/// [`crate::ReadError::Aborted`] and the older version, if any, is served again.
pub struct Writer(Box<dyn Sink>);

impl Writer {
    /// A writer over an implementation's sink.
    pub fn new(sink: Box<dyn Sink>) -> Self {
        Writer(sink)
    }

    /// Take bytes from the front of `data`; ready when all are taken. See [`Sink::poll_write`].
    pub fn poll_write(&mut self, cx: &mut Context<'_>, data: &mut Bytes) -> Poll<()> {
        self.0.poll_write(cx, data)
    }

    /// Write all of `data`, waiting while the store pushes back. Pieces are copied and let go of, but for one that is
    /// the whole body as announced, or a whole extent: that is held until it is in the log.
    pub async fn write(&mut self, mut data: Bytes) {
        poll_fn(|cx| self.0.poll_write(cx, &mut data)).await
    }

    /// This write's name, for [`crate::Store::follow`].
    pub fn id(&self) -> FillId {
        self.0.id()
    }

    /// Read along from the first byte: what a lookup of the key finds meanwhile.
    pub fn follow(&self) -> Hit {
        self.0.follow()
    }

    /// Tell those who follow that this write ends early: they get what has come, unless it is let go of before, and fail with
    /// [`crate::ReadError::Aborted`]; lookups find the older version, if any. What has come can still be kept ([`Writer::commit_beginning`]), for which nobody who follows has to wait then. Nothing is to be
    /// written any more.
    pub fn break_off(&mut self) {
        self.0.break_off();
    }

    /// End the write: the object is whole. Of two writers of one key the last commit wins.
    pub async fn commit(self) -> Commit {
        self.0.commit().await
    }

    /// End the write before all has come, and keep what has, as an object of its own length with another head: that says
    /// what of the body this is. For those who follow the write it is an abort. Nothing is kept if another version of the object was committed
    /// since this write began ([`WhyNot::Superseded`]): a beginning never takes the place of something newer.
    pub async fn commit_beginning(self, head: Bytes) -> Commit {
        self.0.commit_beginning(head).await
    }
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Writer({:?})", self.id())
    }
}
