//! Devices: where bytes are kept. Small, so that wrappers (counted, limited, faulty) compose without async.

pub(crate) mod block;
pub mod blocking;
pub mod elevator;
mod engine;
mod fence;
pub mod file;
pub(crate) mod fused;
pub mod lending;
pub(crate) mod limits;
pub mod mapped;
mod memory;
mod progress;
mod tally;
mod threads;
mod times;
pub mod tree;
mod uring;
pub(crate) mod worker;
pub mod wrap;

use std::io;
use std::ops::Range;
use std::sync::Arc;

use tinaja_clock::Clock;

use crate::memory::AlignedBuf;

pub use crate::terms::{Counters, TIME_BOUNDS_US, Times};
pub use block::is_block_device;
pub use engine::{Io, IoEngine};
pub use file::{Access, Disk, OpenDiskError};
pub use memory::{Medium, Memory};

/// What a device looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Its size in bytes.
    pub bytes: u64,
    /// What offsets and lengths of requests must be multiples of: 512 or 4096.
    pub block_bytes: u64,
    /// Whether requests bypass the page cache.
    pub direct: bool,
}

/// A request. Offsets and lengths are multiples of the geometry's block.
pub struct Op {
    /// What to do.
    pub request: Request,
    /// Called once with the outcome, on one of the device's threads. It must not block.
    pub done: Box<dyn FnOnce(Outcome) + Send>,
}

/// What to do.
pub enum Request {
    /// Fill the buffer from the device, from offset `at`.
    Read {
        /// Where on the device, in bytes.
        at: u64,
        /// To be filled whole.
        into: AlignedBuf,
    },
    /// Write a part of a buffer to offset `at`.
    Write {
        /// Where on the device, in bytes.
        at: u64,
        /// Shared with readers that are served from it meanwhile.
        from: Arc<AlignedBuf>,
        /// Which part of it.
        part: Range<usize>,
    },
    /// Make what was written survive power loss.
    Sync,
}

/// The three kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// [`Request::Read`].
    Read,
    /// [`Request::Write`].
    Write,
    /// [`Request::Sync`].
    Sync,
}

impl Request {
    /// Which of the three it is.
    pub fn kind(&self) -> Kind {
        match self {
            Request::Read { .. } => Kind::Read,
            Request::Write { .. } => Kind::Write,
            Request::Sync => Kind::Sync,
        }
    }

    /// Where it begins and how many bytes it moves; `None` for a sync.
    pub fn extent(&self) -> Option<(u64, u64)> {
        match self {
            Request::Read { at, into } => Some((*at, into.len() as u64)),
            Request::Write { at, part, .. } => Some((*at, part.len() as u64)),
            Request::Sync => None,
        }
    }
}

impl Op {
    /// End the request without carrying it out.
    pub fn fail(self, error: io::Error) {
        (self.done)(Outcome { buffer: None, result: Err(error) });
    }
}

/// How a request ended.
pub struct Outcome {
    /// The buffer of a read, with valid contents only if `result` is `Ok`.
    pub buffer: Option<AlignedBuf>,
    /// The error says what failed and where. A read past the end of a file that was cut is an error, not a short read.
    pub result: io::Result<()>,
}

/// A block device. Requests complete in any order.
pub trait Device: Send + Sync + 'static {
    /// Its size and block.
    fn geometry(&self) -> Geometry;

    /// The time by which it works, and whoever uses it.
    fn clock(&self) -> &Clock;

    /// Begin a request. Never blocks; when [`crate::limits::MAX_QUEUED_REQUESTS`] wait already, or after
    /// [`Device::stop`], it ends at once with an error.
    fn submit(&self, op: Op);

    /// What was asked of the device so far.
    fn counters(&self) -> Counters;

    /// Finish what waits and end the threads. Idempotent.
    fn stop(&self);

    /// Whoever uses the device has found itself broken, on a thread of its own; the text says what it found. Default:
    /// nothing. The device that a store puts under its engine is left alone from then on.
    fn give_up(&self, _found: &str) {}

    /// Let another process have it: from now on nothing is written and no lock held, while those who still read may read to
    /// their end. An upgrade must not cut off a download of an hour; what the other process overwrites fails its checksum. By
    /// default as [`Device::stop`]. Idempotent.
    fn release(&self) {
        self.stop();
    }
}
