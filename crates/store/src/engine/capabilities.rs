//! What an engine may offer beyond the core. The store asks once a call, and does without what is not there.

use std::fmt;
use std::task::{Context, Poll};

use super::{Engine, Part, PartsDone, Place, Placement, Record, Together};
use crate::terms::{Digest, WhyNot};

/// What an engine offers. By default nothing.
#[derive(Clone, Copy, Default)]
pub struct Capabilities<'a> {
    /// Objects on several disks.
    pub disks: Option<&'a dyn Disks>,
    /// What was appended waits in memory for a while.
    pub buffered: Option<&'a dyn Buffered>,
    /// Related records are written and read together.
    pub related: Option<&'a dyn RelatedRuns>,
    /// Several parts of a large object are read in one request.
    pub together: Option<&'a dyn ExtentsTogether>,
    /// What somebody has open is not written over.
    pub holds: Option<&'a dyn Holds>,
    /// The beginning of a long body lies with its head.
    pub first_bytes: Option<&'a dyn FirstBytes>,
    /// A long body is one stream, not records among others.
    pub bodies: Option<&'a dyn WholeBodies>,
    /// Its saved index says what was forgotten before it.
    pub epochs: Option<&'a dyn SavesEpochs>,
}

/// Objects on several disks, numbered from 0: each disk is given turns to read of its own.
pub trait Disks: Sync {
    /// How many there are.
    fn disks(&self) -> usize;

    /// The number of the disk that an object belongs to.
    fn disk_of(&self, id: &Digest) -> usize;

    /// The number of the disk that a place is on.
    fn disk_at(&self, place: Place) -> usize;
}

/// Engines that gather what was appended in memory and write it in larger pieces.
pub trait Buffered: Sync {
    /// Whether the record at a place is in memory still, so that reading it waits for no disk.
    fn is_in_memory(&self, place: Place) -> bool;

    /// Send what was appended to the disk now, not some moments later; what has arrived need not last yet. For whoever
    /// keeps a clock of its own.
    fn write_out(&self);
}

/// Related records are appended one right behind the other and read together (HashCache, section 3.5).
pub trait RelatedRuns: Sync {
    /// Bytes that a record takes where related records lie together: 0 if it lies elsewhere.
    fn log_bytes(&self, record: &Record<'_>) -> usize;
}

/// Parts of one object that lie in a row are read in one request.
pub trait ExtentsTogether: Sync {
    /// How many of these parts, from the first on, one request of at most `most_bytes` can read; from memory alone. At
    /// least one, however long.
    fn together(&self, parts: &[Part], most_bytes: usize) -> Together;

    /// Read the records of `id` that [`ExtentsTogether::together`] named, each verified by itself. The answer tells of the
    /// first, and of those behind it up to one that cannot be read: whoever wants that one asks for it, and is told why.
    fn fetch_together(&self, id: &Digest, parts: &[Part], done: PartsDone);
}

/// Engines that can make room elsewhere while somebody reads.
pub trait Holds: Sync {
    /// Somebody has what lies at these places open, and will read it once more: the engine makes room elsewhere if it can.
    /// Cheap; no I/O.
    fn hold(&self, places: &[Place]) -> Hold;
}

/// The beginning of a long body lies in the record that lookups read.
pub trait FirstBytes: Sync {
    /// How much of the beginning of a body that is too long for one record lies best with its head, for an object whose
    /// name, head and table of parts take `beside_bytes` there.
    fn first_bytes(&self, id: &Digest, beside_bytes: usize) -> usize;
}

/// Engines that want a long body as one stream, as into one file.
pub trait WholeBodies: Sync {
    /// Begin a body. It is found by nobody before [`BodyWriter::poll_end`].
    fn begin(&self, at: &Placement<'_>) -> Box<dyn BodyWriter>;
}

/// Engines whose index is saved, and says which epoch it belongs to.
pub trait SavesEpochs: Sync {
    /// Whether an epoch may begin now: nothing is on the disk that nobody finds before the engine is opened anew.
    fn may_begin_epoch(&self) -> bool;

    /// Begin an epoch of this number, if that is larger than the last. Where [`SavesEpochs::may_begin_epoch`], what [`Engine::forget`] has dropped by
    /// its place before is in no index of this epoch, nor in what is found by one when the engine is opened anew. It is saved an hour later at the
    /// most, as long as the disk takes it. No I/O.
    fn begin_epoch(&self, number: u64);

    /// The last epoch that has begun, and the last one that a saved index belongs to. When the engine has just been opened, both are that of the
    /// index it was opened by: 0 where there was none, or it did not say.
    fn epochs(&self) -> (u64, u64);
}

/// A body being written, part by part and in order. Dropped before its end, all of it is forgotten.
pub trait BodyWriter: Send + Sync {
    /// Keep the next part. The place is where [`super::Engine::fetch_at`] reads it back from now on. Pending and errors
    /// as [`super::Engine::poll_append`].
    fn poll_part(&mut self, cx: &mut Context<'_>, part: &[u8]) -> Poll<Result<Place, WhyNot>>;

    /// The body is whole. From now on lookups find `record`, whose body is the table of the parts.
    fn poll_end(&mut self, cx: &mut Context<'_>, record: &Record<'_>) -> Poll<Result<Place, WhyNot>>;
}

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

impl dyn Engine {
    /// [`ExtentsTogether::together`]; one part for an engine that keeps parts of an object apart.
    pub fn together(&self, parts: &[Part], most_bytes: usize) -> Together {
        match self.capabilities().together {
            Some(all) => all.together(parts, most_bytes),
            None => Together { parts: parts.len().min(1), bytes: parts.first().map_or(0, |part| part.body_bytes) },
        }
    }

    /// [`ExtentsTogether::fetch_together`]; the first part alone for an engine that keeps them apart.
    pub fn fetch_together(&self, id: &Digest, parts: &[Part], done: PartsDone) {
        match (self.capabilities().together, parts.first()) {
            (Some(all), _) => all.fetch_together(id, parts, done),
            (None, Some(part)) => {
                self.fetch_at(id, part.place, part.body_bytes, Box::new(move |only| done(vec![only])));
            }
            (None, None) => done(Vec::new()),
        }
    }

    /// [`Holds::hold`]; holds nothing in engines that write over what is oldest, whatever is open.
    pub fn hold(&self, places: &[Place]) -> Hold {
        self.capabilities().holds.map_or_else(Hold::default, |holds| holds.hold(places))
    }

    /// [`Buffered::is_in_memory`]; false in engines that keep nothing back.
    pub fn is_in_memory(&self, place: Place) -> bool {
        self.capabilities().buffered.is_some_and(|buffered| buffered.is_in_memory(place))
    }

    /// [`Disks::disk_of`]; 0 where there is one disk.
    pub fn disk_of(&self, id: &Digest) -> usize {
        self.capabilities().disks.map_or(0, |disks| disks.disk_of(id))
    }

    /// [`Disks::disk_at`]; 0 where there is one disk.
    pub fn disk_at(&self, place: Place) -> usize {
        self.capabilities().disks.map_or(0, |disks| disks.disk_at(place))
    }

    /// [`Disks::disks`]; 1 where it does not say.
    pub fn disks(&self) -> usize {
        self.capabilities().disks.map_or(1, Disks::disks)
    }
}
