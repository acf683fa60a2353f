//! The small contract of an engine: where whole records lie on disk and how they are found again.
//!
//! Seventeen engines of four papers implement [`Engine`], by five types: HashCache's over a log, HashCache's with a Disk Table,
//! the log-structured cache, Dámelo's groups of pages, and files in a tree of directories; and one of our own, logs by size and
//! generation. [`crate::Cache`] does everything else once, over any of them: streams, followers, large
//! objects, memory, limits. An engine keeps whole records up to a maximum size. It owns its index and its device; it never
//! waits on the caller's thread, and its completions run on its own threads. What the rest of Tinaja knows of it is one
//! record, an [`EngineRecord`].

mod answer;
mod capabilities;
mod closing;
pub mod damelo;
pub(crate) mod epoch;
pub(crate) mod fused;
pub mod generational;
pub mod hashcache;
mod parts;
pub mod registry;
pub mod segmented;
mod segments;
mod setting;
pub mod spread;
pub mod trees;

use std::task::{Context, Poll};

use crate::terms::{Digest, Stats, WhyNot};

pub use crate::terms::{Fetched, Found, Kind, MAX_WAYS, Part, Place, Placement, Places, Record, Reuse, SyncDone};

pub use capabilities::{
    BodyWriter, Buffered, Capabilities, Disks, ExtentsTogether, FirstBytes, Hold, Holds, RelatedRuns, SavesEpochs,
    WholeBodies,
};
pub use registry::{EngineRecord, EngineRef, Registry};
pub use setting::{Setting, Settings, Takes};

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

/// Called with what the fetch of each part ended with, in order; see [`ExtentsTogether::fetch_together`].
pub type PartsDone = Box<dyn FnOnce(Vec<Fetched>) + Send>;

/// Called once, on one of the engine's threads, or on the caller's when nothing had to be read. It must not block.
pub type FetchDone = Box<dyn FnOnce(Fetched) + Send>;

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

/// An organisation of a cache disk: the core that every engine implements. What only some can do is in [`Capabilities`].
pub trait Engine: Send + Sync + 'static {
    /// The name users give it, as in `--engine hashcache-log`.
    fn name(&self) -> &'static str;

    /// The sizes it works with.
    fn limits(&self) -> Limits;

    /// What it offers beyond this. Cheap; asked for at every use. By default nothing.
    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::default()
    }

    /// Whether an object is there, from memory alone. No I/O; locks are held for a set's copy only.
    fn probe(&self, at: &Placement<'_>) -> Probe;

    /// Read the object's record among `places` (or wherever the engine keeps it, after [`Probe::AskDisk`]), newest first. A
    /// candidate that cannot be verified ends the search: an older one may be a version that it replaced, and a miss is
    /// cheaper than a stale object. The answer is one record, without its neighbours: an engine that reads those too keeps
    /// them by their places, so that they are served only if the index names them and they verify.
    fn fetch(&self, at: &Placement<'_>, places: Places, done: FetchDone);

    /// Read the record of `id` at `place`, of which `body_bytes` is the expected body length, in one request.
    fn fetch_at(&self, id: &Digest, place: Place, body_bytes: usize, done: FetchDone);

    /// Read whatever record lies at `place`, for listings.
    fn fetch_any(&self, place: Place, done: FetchDone);

    /// Keep a record: at once it is found by [`Engine::probe`] and [`Engine::fetch`], and it survives a kill of the
    /// process shortly after, power loss after [`Engine::sync`]. Pending: all buffers wait for the disk; the waker is
    /// called when there is room.
    /// Errors: [`WhyNot::Device`], [`WhyNot::Slow`], [`WhyNot::TooLarge`], [`WhyNot::Closed`].
    fn poll_append(&self, cx: &mut Context<'_>, at: &Placement<'_>, record: &Record<'_>)
    -> Poll<Result<Place, WhyNot>>;

    /// Remove every version of an object, and perhaps others of its fingerprint. Once this is ready none is found, whatever
    /// the disk does. To survive power loss it needs [`Engine::sync`], and after that [`Engine::is_live`] of the place, if
    /// there is one: something had to be written that says so. Pending as [`Engine::poll_append`]. Errors: those too; the
    /// object then stays away until a restart only.
    fn poll_remove(&self, cx: &mut Context<'_>, at: &Placement<'_>) -> Poll<Result<Option<Place>, WhyNot>>;

    /// Drop the index entry of one record that turned out to be unreadable, and older ones of its fingerprint.
    fn forget(&self, at: &Placement<'_>, place: Place);

    /// The record at `place` was asked for: what the set's replacement goes by.
    fn touch(&self, at: &Placement<'_>, place: Place);

    /// Whether no record newer than the one at `place` has come that may be a version of the object, since a probe said
    /// `seen`. An engine that asks the disk answers for itself, and says no where it cannot tell.
    fn is_newest(&self, at: &Placement<'_>, place: Place, seen: Places) -> bool {
        is_newest_by(self.probe(at), place, seen)
    }

    /// Whether the bytes at `place` are still those of the record written there.
    fn is_live(&self, place: Place) -> bool;

    /// Whether the body of the record at a place stays there while its head is replaced, so that a new head may point to
    /// it with [`Engine::fetch_at`]. Default true.
    fn keeps_body_at(&self, _place: Place) -> bool {
        true
    }

    /// Whether where a record is put depends on [`Placement::site`] or [`Placement::url`]; else neither need be said. Default true.
    fn goes_by_origin(&self) -> bool {
        true
    }

    /// Make what was appended and removed so far survive power loss: all of it, or at least that of one object. A removal
    /// names its object, and so waits for that object's disk only: a dead disk fails no removal on the others.
    fn sync(&self, of: Option<&Digest>, done: SyncDone);

    /// Some of the indexed places, from a cursor (0 at first), and the next cursor.
    fn walk(&self, cursor: u64, most: usize) -> (Vec<Place>, Option<u64>);

    /// Whether [`Engine::walk`], from 0 to its end, comes past every record that [`Engine::fetch`] could find all that time, wherever it
    /// moves meanwhile: a record that is written again, or a newer version of it, keeps its turn in the walk. And whether what [`Engine::forget`] drops by its
    /// place is not found again until the engine is opened anew. By default not.
    fn walks_all(&self) -> bool {
        false
    }

    /// The engine's and its device's counters; the store adds its own. No walk: it is asked for while others are served.
    fn stats(&self) -> Stats;

    /// Refuse every append from now on ([`WhyNot::Closed`]): the device is open for reading only.
    fn refuse_appends(&self);

    /// Write everything out and stop the engine's threads. Appends are refused from now on.
    fn close(&self, done: SyncDone);
}

/// Whether nothing newer than what lies at `place` has come between a probe that said `seen` and this one.
pub(crate) fn is_newest_by(probe: Probe, place: Place, seen: Places) -> bool {
    let Probe::At(now) = probe else { return false };
    let is_newer = |other: &Place| *other >= place;
    now.iter().take_while(is_newer).eq(seen.iter().take_while(is_newer))
}

/// Of an engine with settings of which none is wrong with the others.
pub fn none_wrong(_: &Settings, _: u64) -> Option<String> {
    None
}

/// Of an engine of whose slots there is no more to say than their number.
pub fn no_cut_to_tell(_: &Stats) -> String {
    String::new()
}
