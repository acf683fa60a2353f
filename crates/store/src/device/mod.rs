//! Devices: where bytes are kept. Small, so that wrappers (counted, limited, faulty) compose without async.

pub mod blocking;
pub mod file;
mod threads;

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::memory::AlignedBuf;

pub use file::{Access, Disk, OpenDiskError};

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

    /// Begin a request. Never blocks; when [`crate::limits::MAX_QUEUED_REQUESTS`] wait already, or after
    /// [`Device::stop`], it ends at once with an error.
    fn submit(&self, op: Op);

    /// What was asked of the device so far.
    fn counters(&self) -> Counters;

    /// Finish what waits and end the threads. Idempotent.
    fn stop(&self);
}

/// Requests, bytes and seeks since the device was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Read requests that succeeded.
    pub reads: u64,
    /// Their bytes.
    pub read_bytes: u64,
    /// Write requests that succeeded.
    pub writes: u64,
    /// Their bytes.
    pub write_bytes: u64,
    /// Requests that did not begin where the one before, in order of submission, ended.
    pub seeks: u64,
}

/// [`Counters`] that threads share.
#[derive(Default)]
struct Shared {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    write_bytes: AtomicU64,
    seeks: AtomicU64,
    head_at: AtomicU64,
}

impl Shared {
    fn placed(&self, at: u64, bytes: u64) {
        if self.head_at.swap(at + bytes, Relaxed) != at {
            self.seeks.fetch_add(1, Relaxed);
        }
    }

    fn read(&self, bytes: u64) {
        self.reads.fetch_add(1, Relaxed);
        self.read_bytes.fetch_add(bytes, Relaxed);
    }

    fn wrote(&self, bytes: u64) {
        self.writes.fetch_add(1, Relaxed);
        self.write_bytes.fetch_add(bytes, Relaxed);
    }

    fn get(&self) -> Counters {
        Counters {
            reads: self.reads.load(Relaxed),
            read_bytes: self.read_bytes.load(Relaxed),
            writes: self.writes.load(Relaxed),
            write_bytes: self.write_bytes.load(Relaxed),
            seeks: self.seeks.load(Relaxed),
        }
    }
}
