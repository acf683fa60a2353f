//! The small contract of an engine: where whole records lie on disk and how they are found again.
//!
//! Fifteen published organisations implement this trait; [`crate::Cache`] does everything else once, over any of
//! them: streams, followers, large objects, memory, limits. An engine keeps whole records up to a maximum size. It
//! owns its index and its device; it never waits on the caller's thread, and its completions run on its own threads.

mod answer;
mod closing;
pub(crate) mod fused;
pub mod hashcache;
mod parts;
pub mod segmented;
pub mod spread;

use std::fmt;
use std::task::{Context, Poll};

use crate::terms::{Digest, Stats, WhyNot};

pub use crate::terms::{Fetched, Found, Kind, MAX_WAYS, Part, Place, Places, Record, SyncDone};

/// How an engine answers from memory whether it has an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// It has not.
    Absent,
    /// Records with this fingerprint lie at these places; at most one of them is the object.
    At(Places),
    /// The index does not say; the disk must be asked.
    AskDisk,
}

/// Parts of one object that one request reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Together {
    /// How many, from the first on.
    pub parts: usize,
    /// Bytes of memory that the request takes.
    pub bytes: usize,
}

/// Called with what the fetch of each part ended with, in order; see [`Engine::fetch_together`].
pub type PartsDone = Box<dyn FnOnce(Vec<Fetched>) + Send>;

/// Called once, on one of the engine's threads, or on the caller's when nothing had to be read. It must not block.
pub type FetchDone = Box<dyn FnOnce(Fetched) + Send>;

/// Keeps what lies at a place from being overwritten to make room, until dropped: but never longer than
/// [`crate::limits::LEASE`], and never at the price of nothing being stored any more. A place that is held may be gone.
#[derive(Default)]
pub struct Hold(Option<Box<dyn FnOnce() + Send + Sync>>);

impl Hold {
    /// A hold that ends with a call.
    pub fn ending(with: impl FnOnce() + Send + Sync + 'static) -> Self {
        Hold(Some(Box::new(with)))
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(end) = self.0.take() {
            end();
        }
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hold({})", if self.0.is_some() { "something" } else { "nothing" })
    }
}

/// The sizes an engine works with, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The largest record: name, head and body together.
    pub max_record_bytes: usize,
    /// The part of a large body that goes into one [`Kind::Extent`].
    pub extent_bytes: usize,
    /// The largest body that goes into one [`Kind::Whole`].
    pub inline_bytes: usize,
    /// The largest object that can be kept without overwriting its own beginning.
    pub max_object_bytes: u64,
}

/// An organisation of a cache disk.
pub trait Engine: Send + Sync + 'static {
    /// The name users give it, as in `--engine hashcache-log`.
    fn name(&self) -> &'static str;

    /// The sizes it works with.
    fn limits(&self) -> Limits;

    /// How many disks it keeps objects on, numbered from 0: each is given turns to read of its own. Default 1.
    fn disks(&self) -> usize {
        1
    }

    /// The number of the disk that an object belongs to. Default 0.
    fn disk_of(&self, _id: &Digest) -> usize {
        0
    }

    /// The number of the disk that a place is on. Default 0.
    fn disk_at(&self, _place: Place) -> usize {
        0
    }

    /// Whether the record at a place is in memory still, so that reading it waits for no disk. Default false.
    fn is_in_memory(&self, _place: Place) -> bool {
        false
    }

    /// Whether an object is there, from memory alone. No I/O; locks are held for a set's copy only.
    fn probe(&self, id: &Digest) -> Probe;

    /// Read the record of `id` among `places` (or wherever the engine keeps it, after [`Probe::AskDisk`]), newest
    /// first. A candidate that cannot be verified ends the search: an older one may be a version that it replaced.
    fn fetch(&self, id: &Digest, places: Places, done: FetchDone);

    /// Read the record of `id` at `place`, of which `body_bytes` is the expected body length, in one request.
    fn fetch_at(&self, id: &Digest, place: Place, body_bytes: usize, done: FetchDone);

    /// How many of these parts of one object, from the first on, one request of at most `most_bytes` can read; from memory
    /// alone. At least one, however long. Default: one, for engines that keep parts of an object apart.
    fn together(&self, parts: &[Part], _most_bytes: usize) -> Together {
        Together { parts: parts.len().min(1), bytes: parts.first().map_or(0, |part| part.body_bytes) }
    }

    /// Read the records of `id` that [`Engine::together`] named, each verified by itself. The answer tells of the first,
    /// and of those behind it up to one that cannot be read: whoever wants that one asks for it, and is told why.
    fn fetch_together(&self, id: &Digest, parts: &[Part], done: PartsDone) {
        match parts.first() {
            Some(part) => self.fetch_at(id, part.place, part.body_bytes, Box::new(move |only| done(vec![only]))),
            None => done(Vec::new()),
        }
    }

    /// Keep a record: at once it is found by [`Engine::probe`] and [`Engine::fetch`], and it survives a kill of the
    /// process shortly after, power loss after [`Engine::sync`]. Pending: all buffers wait for the disk; the waker is
    /// called when there is room. A [`Kind::Tombstone`] removes every candidate of its fingerprint.
    /// Errors: [`WhyNot::Device`], [`WhyNot::Slow`], [`WhyNot::TooLarge`], [`WhyNot::Closed`].
    fn poll_append(&self, cx: &mut Context<'_>, record: &Record<'_>) -> Poll<Result<Place, WhyNot>>;

    /// Whether related records should be appended one right behind the other, to be read together. Default false.
    fn reads_ahead(&self) -> bool {
        false
    }

    /// Bytes that a record takes where related records lie together: 0 if it lies elsewhere. Default 0.
    fn log_bytes(&self, _record: &Record<'_>) -> usize {
        0
    }

    /// How much of the beginning of a body that is too long for one record lies best with its head, in the record that
    /// lookups read, of an object whose name, head and table take `beside_bytes` there. Default 0: all of it lies in extents.
    fn first_bytes(&self, _id: &Digest, _beside_bytes: usize) -> usize {
        0
    }

    /// Whether no record newer than the one at `place` has come that may be a version of `id`, since a probe said `seen`.
    /// An engine that asks the disk answers for itself, and says no where it cannot tell.
    fn is_newest(&self, id: &Digest, place: Place, seen: Places) -> bool {
        let newer = |places: Places| places.iter().take_while(|other| *other >= place).collect::<Vec<_>>();
        matches!(self.probe(id), Probe::At(now) if newer(now) == newer(seen))
    }

    /// Whether the body of the record at a place stays there while its head is replaced, so that a new head may point to
    /// it with [`Engine::fetch_at`]. Default true.
    fn keeps_body_at(&self, _place: Place) -> bool {
        true
    }

    /// Drop the index entry of one record that turned out to be unreadable, and older ones of its fingerprint.
    fn forget(&self, id: &Digest, place: Place);

    /// The record at `place` was asked for: what the set's replacement goes by.
    fn touch(&self, id: &Digest, place: Place);

    /// Somebody has what lies at these places open, and will read it once more: the engine makes room elsewhere if it can.
    /// Cheap; no I/O. Default: nothing is held, in engines that overwrite in an order of their own.
    fn hold(&self, _places: &[Place]) -> Hold {
        Hold::default()
    }

    /// Whether the bytes at `place` are still those of the record written there.
    fn is_live(&self, place: Place) -> bool;

    /// Make records appended so far survive power loss: all of them, or at least those of one object.
    fn sync(&self, of: Option<&Digest>, done: SyncDone);

    /// Send what was appended to the disk now, not some moments later; what has arrived need not last yet. For whoever keeps a
    /// clock of its own. Default: nothing, in engines that hold nothing back.
    fn write_out(&self) {}

    /// Some of the indexed places, from a cursor (0 at first), and the next cursor.
    fn walk(&self, cursor: u64, most: usize) -> (Vec<Place>, Option<u64>);

    /// Read whatever record lies at `place`, for listings.
    fn fetch_any(&self, place: Place, done: FetchDone);

    /// Memory allocated for the index, in bytes, summed from the allocations: locks, padding and all.
    fn index_bytes(&self) -> u64;

    /// The engine's and its device's counters; the store adds its own.
    fn stats(&self) -> Stats;

    /// Refuse every append from now on ([`WhyNot::Closed`]): the device is open for reading only.
    fn refuse_appends(&self);

    /// Write everything out and stop the engine's threads. Appends are refused from now on.
    fn close(&self, done: SyncDone);
}
