//! What engines over a log have in common: the parts of large objects, and what still waits in memory.

use std::sync::Arc;

use super::answer::{found, lying, of_part, read_error};
use super::{Buffered, ExtentsTogether, FetchDone, Fetched, Part, PartsDone, Place, Together};
use crate::layout::Log;
use crate::layout::log::{LogFault, RawRecord};
use crate::terms::Digest;

/// See [`super::Engine::fetch_at`].
pub(super) fn fetch_at(log: &Arc<Log>, id: &Digest, place: Place, body_bytes: usize, done: FetchDone) {
    let arrived = move |read| done(of_part(read));
    log.read_reachable(place, Some(*id), log.layout.header_bytes() + body_bytes, Box::new(arrived));
}

/// What every engine over a log offers of it.
impl ExtentsTogether for Arc<Log> {
    fn together(&self, parts: &[Part], most_bytes: usize) -> Together {
        let (parts, bytes) = Log::together(self, &lying(&self.layout, parts), most_bytes);
        Together { parts, bytes }
    }

    fn fetch_together(&self, id: &Digest, parts: &[Part], done: PartsDone) {
        let arrived = move |all: Vec<_>| done(all.into_iter().map(of_part).collect());
        self.read_run(lying(&self.layout, parts), *id, Box::new(arrived));
    }
}

/// What an engine offers whose places are all in its log.
impl Buffered for Arc<Log> {
    fn is_in_memory(&self, place: Place) -> bool {
        Log::is_in_memory(self, place)
    }

    fn write_out(&self) {
        self.frontier.write_out();
    }
}

/// What tells `done` of whatever record lies at a place that was read.
pub(super) fn of_any(done: FetchDone) -> impl FnOnce(Result<RawRecord, LogFault>) {
    move |read| match read {
        Ok(record) => done(found(record)),
        Err(LogFault::Gone) => done(Fetched::Missing),
        Err(fault) => done(Fetched::Failed(read_error(fault))),
    }
}
