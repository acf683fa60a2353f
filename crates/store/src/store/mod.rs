//! The contract: what every store promises to the programs that use it.

mod hit;
mod writer;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use tinaja_clock::Clock;

use crate::terms::{Key, Pending, Stats, StoreError, WhyNot};

pub(crate) use hit::within;
pub use hit::{Body, BodySource, Hit, Source, State};
pub use writer::{Commit, FillId, Hint, Reuse, Sink, Writer};

/// How long [`Store::find`] waits for the disk.
pub const FIND_DEADLINE: Duration = Duration::from_secs(10);

/// A cache of objects, each a head and a body under a [`Key`].
///
/// # Rules
///
/// Every implementation keeps these; the suite of the feature `contract` tests each of them.
///
/// 1. **Forgetting is allowed, lying is not.** A store may forget any object at any time. It never returns another
///    key's object, never bytes other than those written, never a body that ends short without an error.
/// 2. **Unfinished writes come first.** A lookup finds the newest unfinished write before any older, whole version.
///    So of many that ask for one new object, one fetches it and the others follow.
/// 3. **An abort undoes.** When a writer is dropped, its followers fail with [`crate::ReadError::Aborted`], and the
///    version from before is found again. A writer that ends early may say that what has come is to be kept, under a head
///    that says so ([`Writer::commit_beginning`]): then that is what is found, and followers fail all the same,
///    before that if they are told so first ([`Writer::break_off`]).
/// 4. **The last commit wins**, whichever writer began first.
/// 5. **Removal is final.** After [`Store::remove`] no version that was committed or begun before is found again,
///    not after further puts and removals, not after a restart. Readers that already hold a hit go on.
/// 6. **Eviction is an error, not a lie.** A reader overtaken by eviction gets [`crate::ReadError::Gone`]; one that a
///    write which can no longer be stored went on without gets [`crate::ReadError::Behind`], after all that was stored.
/// 7. **Nothing handed out changes.** `Bytes` from a store never change.
/// 8. **Bounded memory.** Objects of any size stream. A full queue pushes back; nothing is dropped silently.
/// 9. **Disk faults never fail a writer**: they make its commit [`crate::Commit::NotStored`]. Its followers get every
///    byte as long as they keep up with it. It waits, up to [`crate::limits::LEASE`], for those who do and pause;
///    for those who are still reading what was stored before only where there is nobody else.
/// 10. **Flush means flushed.** What was committed before [`Store::flush`] returned `Ok` survives power loss: after a
///     crash it is found, or a newer version of it, until it is evicted or a removal of it was begun. Newer versions
///     that no flush covered may be lost; they do not take the older one with them, except where a newer version is
///     written over the older one in place: there its write evicts the older one. After a crash the store opens with
///     what it can prove whole.
/// 11. **A sweep forgets what it has shown, and nothing newer.** Whatever whole object a lookup could find from the beginning of a
///     [`Store::sweep`] to its end was shown in it, unless the sweep says that it is not complete. One that is to go is not
///     found again until the store is opened anew; a version that has come since it was shown stays, and so do unfinished writes.
pub trait Store: Send + Sync + 'static {
    /// The clock of the store, by which its deadlines are. By default the system's.
    fn clock(&self) -> Clock {
        Clock::system()
    }

    /// Look an object up. Never blocks and does no I/O: what needs the disk is [`Lookup::Wait`], and that resolves
    /// to nothing once `deadline` has passed. Absent objects and hits in memory cost no allocation. `hint` is what the
    /// caller knows of the object beside its key, as the group of who asks; it may lead an engine to the object sooner.
    fn lookup_with(&self, key: &Key, hint: &Hint, deadline: Instant) -> Lookup;

    /// [`Store::lookup_with`], where nothing but the key is known.
    fn lookup(&self, key: &Key, deadline: Instant) -> Lookup {
        self.lookup_with(key, &Hint::default(), deadline)
    }

    /// Follow one given unfinished write of `key`; `None` once it has ended. Pingora needs this: it names the one write that
    /// a waiting request must read.
    fn follow(&self, key: &Key, fill: FillId) -> Option<Hit>;

    /// How many readers follow one given unfinished write at this moment; 0 once it has ended. Exact for readers that
    /// began before the call, so that a write nobody reads may be dropped. Readers that it has gone on without
    /// ([`crate::ReadError::Behind`]) are not counted: nothing that it does reaches them.
    fn followers(&self, key: &Key, fill: FillId) -> usize;

    /// The largest body that may be stored, in bytes; by default of any size. Larger ones are relayed to followers.
    fn max_object_bytes(&self) -> u64 {
        u64::MAX
    }

    /// Until when objects may have been removed without this store's hearing of it, as one of several nodes that was away; never by
    /// default. What was stored before that is to be validated before it is used.
    fn distrusted_before(&self) -> Option<SystemTime> {
        None
    }

    /// Whether where an object is put depends on where it comes from: its URL ([`Key::at_url`]) and its site ([`Hint::site`]). Nobody else
    /// need say them, which takes some time for each object. Default true.
    fn goes_by_origin(&self) -> bool {
        true
    }

    /// Begin an object. Never blocks; refusals come out at the commit ([`crate::Commit::NotStored`]).
    fn put(&self, key: &Key, head: Bytes, hint: Hint) -> Writer;

    /// Replace the head of a whole, stored object and keep its body. `edit` sees the present head and returns the
    /// new one, or `None` to leave it.
    fn update_head(&self, key: &Key, edit: HeadEdit) -> Pending<Result<Updated, StoreError>>;

    /// Remove every version of an object (rule 5). May also forget other objects with the same fingerprint.
    /// Errors: [`StoreError`] when the removal could not be made to last; it still holds until a restart.
    fn remove(&self, key: &Key) -> Pending<Result<Removed, StoreError>>;

    /// List every object that a lookup would find, `most` at a time, from where `from` left off: those of the engine, then
    /// those that memory alone still has. The listing is fuzzy: what is stored or forgotten meanwhile may be in it, or not, or
    /// twice. Worst-case memory: `most` heads and names.
    fn scan(&self, from: Cursor, most: usize) -> Pending<Result<ScanPage, StoreError>>;

    /// Show whole objects to `judge`, those of `most` places at a time, from where `from` left off, and forget those that it says are to go, each
    /// only if what is stored is still what was shown (rule 11). Nothing is written: what was forgotten may be found again once the store is opened
    /// anew, so whoever needs it gone for good keeps a record of why. `judge` is called on the store's threads or the caller's, must not block, and may
    /// be shown an object twice. What is stored meanwhile may be shown, or not. Each object that is on a disk costs one read, one after the
    /// other; bodies that do not lie with their heads are not read. Worst-case memory: one record, and 8 bytes for each place.
    ///
    /// By default, and on engines that cannot list what they have or drop one version of it, nothing is shown, and it is not complete.
    /// Errors: [`StoreError::Closed`].
    fn sweep(&self, _from: Cursor, _most: usize, _judge: Judge) -> Pending<Result<Swept, StoreError>> {
        Box::pin(std::future::ready(Ok(Swept::default())))
    }

    /// Begin an epoch behind what sweeps have forgotten; its number, which is larger than `after` and than those of all epochs before. Once
    /// [`Store::saved_epoch`] is as large, none of that is found again when the store is opened anew and tells of this epoch or a later one. That
    /// takes an hour at the most, as long as every disk takes what is written. No I/O.
    ///
    /// By default, with engines that save no index, and while a disk is away or holds something that nobody finds before it is opened anew, `None`:
    /// then nobody knows.
    fn begin_epoch(&self, _after: u64) -> Option<u64> {
        None
    }

    /// The last epoch that a saved index of each disk belongs to; when the store has just been opened, of the index that it was opened by. 0 by
    /// default, and where there is none.
    fn saved_epoch(&self) -> u64 {
        0
    }

    /// Make everything committed so far survive power loss (rule 10). Errors: [`StoreError::Device`] when something
    /// committed since the last flush was lost; each loss is told once.
    fn flush(&self) -> Pending<Result<(), StoreError>>;

    /// Counters, exact at the time of the call for each, not across them.
    fn stats(&self) -> Stats;

    /// Flush, then refuse what comes after: lookups find nothing, commits are not stored. Idempotent.
    fn close(&self) -> Pending<Result<(), StoreError>>;

    /// [`Store::lookup`] as a future, with a deadline of [`FIND_DEADLINE`].
    fn find(&self, key: &Key) -> Pending<Option<Hit>> {
        match self.lookup(key, self.clock().now() + FIND_DEADLINE) {
            Lookup::Absent => Box::pin(std::future::ready(None)),
            Lookup::Here(hit) => Box::pin(std::future::ready(Some(hit))),
            Lookup::Wait(pending) => pending,
        }
    }
}

/// What [`Store::lookup`] found out without touching the disk. An answer from memory costs no allocation and no scheduling;
/// only the disk is awaited.
#[must_use]
pub enum Lookup {
    /// No such object.
    Absent,
    /// Found in memory.
    Here(Hit),
    /// Only the disk can tell.
    Wait(Pending<Option<Hit>>),
}

/// A change of a head: sees the present one, returns the new one or `None` to leave it.
pub type HeadEdit = Box<dyn FnOnce(&Bytes) -> Option<Bytes> + Send>;

/// Says of a whole object, by its name and its head, whether it is to go.
pub type Judge = Arc<dyn Fn(&[u8], &Bytes) -> bool + Send + Sync>;

/// A part of a sweep. By default of one that shows nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Objects that were shown.
    pub shown: u64,
    /// Those of them that were to go, and are gone.
    pub forgotten: u64,
    /// Nothing of this part can have been left out.
    pub is_complete: bool,
    /// Where to go on; `None` at the end. The same place again only if something was forgotten.
    pub next: Option<Cursor>,
}

/// What became of a head update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Updated {
    /// The new head is served from now on.
    Done,
    /// The edit left the head as it was.
    Unchanged,
    /// No whole object of that key is stored.
    Absent,
    /// The new head could not be stored; the object is served with its old head, or forgotten.
    NotStored(WhyNot),
}

/// What became of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    /// There may have been such an object, and there is none now.
    Gone,
    /// There was one on another node of the cluster, whatever was here, and is none now.
    Elsewhere,
    /// There was nothing to remove.
    Absent,
}

/// Where a listing goes on; [`Cursor::default`] is the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor(pub u64);

/// A part of a listing.
#[derive(Clone, Debug, Default)]
pub struct ScanPage {
    /// The objects found.
    pub entries: Vec<ScanEntry>,
    /// Where to go on; `None` at the end. A page may be empty and not the last.
    pub next: Option<Cursor>,
}

/// One object of a listing.
#[derive(Clone, Debug)]
pub struct ScanEntry {
    /// The name its key had, empty where it had none.
    pub name: Bytes,
    /// Its head.
    pub head: Bytes,
    /// Its body's length in bytes.
    pub body_bytes: u64,
}
