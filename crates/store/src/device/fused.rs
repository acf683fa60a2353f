//! A device that is left alone once its engine is found broken.

use std::sync::Arc;

use tinaja_clock::Clock;

use super::{Counters, Device, Geometry, Op};
use crate::fuse::Fuse;

/// Between an engine and its device: see [`crate::fuse`]. Engines do much of their work when a request ends, on the
/// device's threads: a panic there blows the fuse and harms neither the thread nor other requests. Costs one small
/// allocation a request.
pub(crate) struct FusedDevice {
    below: Arc<dyn Device>,
    fuse: Arc<Fuse>,
}

impl FusedDevice {
    pub(crate) fn over(below: Arc<dyn Device>, fuse: Arc<Fuse>) -> Arc<dyn Device> {
        Arc::new(FusedDevice { below, fuse })
    }
}

impl Device for FusedDevice {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn clock(&self) -> &Clock {
        self.below.clock()
    }

    /// Once the fuse is blown a request is dropped with its completion: that is the engine's code too. Whoever waits for
    /// it sees it dropped.
    fn submit(&self, op: Op) {
        if self.fuse.is_blown() {
            return;
        }
        let (fuse, done) = (self.fuse.clone(), op.done);
        let done = move |outcome| {
            fuse.guard(|| done(outcome));
        };
        self.below.submit(Op { request: op.request, done: Box::new(done) });
    }

    fn counters(&self) -> Counters {
        self.below.counters()
    }

    fn stop(&self) {
        self.below.stop();
    }

    fn release(&self) {
        self.below.release();
    }

    fn give_up(&self, found: &str) {
        self.fuse.blow(found);
    }
}
