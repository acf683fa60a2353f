//! The parts of large objects, in engines that keep them in a log.

use std::sync::Arc;

use super::answer::{found, lying, of_part, read_error};
use super::{FetchDone, Fetched, Part, PartsDone, Place, Together};
use crate::layout::Log;
use crate::layout::log::{LogFault, RawRecord};
use crate::layout::record::HEADER_BYTES;
use crate::terms::Digest;

/// See [`super::Engine::fetch_at`].
pub(super) fn fetch_at(log: &Arc<Log>, id: &Digest, place: Place, body_bytes: usize, done: FetchDone) {
    let arrived = move |read| done(of_part(read));
    log.read_reachable(place, Some(*id), HEADER_BYTES + body_bytes, Box::new(arrived));
}

/// See [`super::Engine::together`].
pub(super) fn together(log: &Log, parts: &[Part], most_bytes: usize) -> Together {
    let (parts, bytes) = log.together(&lying(parts), most_bytes);
    Together { parts, bytes }
}

/// See [`super::Engine::fetch_together`].
pub(super) fn fetch_together(log: &Arc<Log>, id: &Digest, parts: &[Part], done: PartsDone) {
    let arrived = move |all: Vec<_>| done(all.into_iter().map(of_part).collect());
    log.read_run(lying(parts), *id, Box::new(arrived));
}

/// What tells `done` of whatever record lies at a place that was read.
pub(super) fn of_any(done: FetchDone) -> impl FnOnce(Result<RawRecord, LogFault>) {
    move |read| match read {
        Ok(record) => done(found(record)),
        Err(LogFault::Gone) => done(Fetched::Missing),
        Err(fault) => done(Fetched::Failed(read_error(fault))),
    }
}
