//! A part of a disk that several engines keep their positions on (HashCache, section 5.4).

use std::sync::Arc;

use tinaja_store::device::wrap::Limited;
use tinaja_store::device::{Counters, Device, Geometry, Op, Outcome, Request};

/// Bytes of a read that a lookup waits for: one block of positions. Others keep the file in step, and nobody waits.
const LOOKUP_BYTES: u64 = 4096;

/// So many bytes of a device, from an offset on. A lookup reads its position there before it reads the log on another disk,
/// whose clocks are therefore let reach the time at which it has it.
pub struct Apart {
    below: Arc<dyn Device>,
    at: u64,
    bytes: u64,
    /// This disk's clocks and the log's, one of each for each model.
    clocks: Arc<[(Arc<Limited>, Arc<Limited>)]>,
}

impl Apart {
    /// The part of `below` from `at` on, for an engine whose log lies on a disk with the second of these clocks.
    pub fn new(
        below: Arc<dyn Device>,
        at: u64,
        bytes: u64,
        clocks: impl Iterator<Item = (Arc<Limited>, Arc<Limited>)>,
    ) -> Self {
        Apart { below, at, bytes, clocks: clocks.collect() }
    }

    fn fits(&self, extent: Option<(u64, u64)>) -> bool {
        extent.is_none_or(|(at, bytes)| at.checked_add(bytes).is_some_and(|end| end <= self.bytes))
    }
}

impl Device for Apart {
    fn geometry(&self) -> Geometry {
        Geometry { bytes: self.bytes, ..self.below.geometry() }
    }

    fn clock(&self) -> &tinaja_store::Clock {
        self.below.clock()
    }

    fn submit(&self, op: Op) {
        if !self.fits(op.request.extent()) {
            return op.fail(std::io::Error::other("the request ends behind the part of the disk"));
        }
        let done = op.done;
        match op.request {
            Request::Read { at, into } => {
                let clocks = Some(self.clocks.clone()).filter(|_| into.len() as u64 == LOOKUP_BYTES);
                let read = move |outcome: Outcome| {
                    clocks.iter().flat_map(|clocks| clocks.iter()).for_each(|(ours, log)| log.idle_until(ours.now()));
                    done(outcome);
                };
                self.below.submit(Op { request: Request::Read { at: self.at + at, into }, done: Box::new(read) });
            }
            Request::Write { at, from, part } => {
                self.below.submit(Op { request: Request::Write { at: self.at + at, from, part }, done });
            }
            Request::Sync => self.below.submit(Op { request: Request::Sync, done }),
        }
    }

    fn counters(&self) -> Counters {
        self.below.counters()
    }

    fn stop(&self) {
        self.below.stop();
    }
}
