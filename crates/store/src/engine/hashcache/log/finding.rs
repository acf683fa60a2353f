//! Reading the record of an object, or of whatever lies where its fingerprint leads.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::Inner;
use crate::engine::answer::{found, read_error};
use crate::engine::hashcache::loglru::LruIndex;
use crate::engine::{FetchDone, Fetched, Place, Places};
use crate::layout::log::{LogFault, RawRecord};
use crate::layout::reach::Reach;
use crate::terms::Digest;

impl Inner {
    /// Find out where a record is, and read it; its position is in memory then.
    pub(super) fn locate(self: &Arc<Self>, index: &Arc<LruIndex>, id: Digest, done: FetchDone) {
        let (engine, all) = (self.clone(), index.clone());
        let located = move |located| {
            let Some((place, reach, moment)) = located else { return done(Fetched::Missing) };
            let read = move |fetched| {
                if matches!(fetched, Fetched::Record(_)) {
                    all.promote(id.low(), (place, reach), moment);
                }
                done(fetched);
            };
            engine.read_one(id, place, reach, Places::default(), Box::new(read));
        };
        index.locate(id.low(), Box::new(located));
    }

    /// Read the newest of these that is the object's.
    pub(super) fn try_next(self: &Arc<Self>, id: Digest, mut places: Places, done: FetchDone) {
        let Some(place) = places.pop() else {
            return done(Fetched::Missing);
        };
        let reach = if self.log.ahead.is_some() { self.index.reach(id.low(), place) } else { Reach::default() };
        self.read_one(id, place, reach, places, done);
    }

    /// Read the record at a place, or of the places behind it.
    fn read_one(self: &Arc<Self>, id: Digest, place: Place, reach: Reach, places: Places, done: FetchDone) {
        let engine = self.clone();
        let bytes = self.first_read_bytes;
        let arrived = move |read: Result<RawRecord, LogFault>| match read {
            Ok(record) if record.header.kind.is_indexed() => done(found(record)),
            Ok(_) | Err(LogFault::Another) => {
                engine.false_reads.fetch_add(1, Relaxed);
                engine.try_next(id, places, done);
            }
            // An entry whose record was overwritten says nothing, and all older ones are gone with it.
            Err(LogFault::Gone) => done(Fetched::Missing),
            Err(fault) => {
                engine.index.remove_to(id.low(), place);
                done(Fetched::Failed(read_error(fault)));
            }
        };
        self.log.read_related(place, Some(id), bytes, reach, Box::new(arrived));
    }
}
