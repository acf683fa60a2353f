//! Finding out where a record lies whose position may be on disk.

use std::sync::Arc;

use super::LruIndex;
use crate::engine::Place;
use crate::engine::hashcache::loglru::set::{At, LruSet, WAYS};
use crate::layout::reach::Reach;

/// Times that a set is read again because it changed meanwhile.
const MOST_READS: u32 = 8;

/// Called with where a record is, how far it reaches, and the moment as of which that is so; `None` where there is none or
/// it cannot be read.
pub type LocateDone = Box<dyn FnOnce(Option<(Place, Reach, u64)>) + Send>;

impl LruIndex {
    /// Find out where an object's record is, on the disk if memory does not say.
    pub fn locate(self: &Arc<Self>, id_low: u64, done: LocateDone) {
        let (number, fingerprint) = (self.sets.set_of(id_low), self.fingerprint(id_low));
        self.locate_in(number, move |set| set.way_of(fingerprint), 1, done);
    }

    /// The same of a slot, by the number that [`LruIndex::places`] gave it.
    pub fn locate_slot(self: &Arc<Self>, slot: u64, done: LocateDone) {
        let way = (slot % WAYS as u64) as usize;
        let used = move |set: &LruSet<'_>| Some(way).filter(|way| set.fingerprint(*way) != 0);
        self.locate_in(slot / WAYS as u64, used, 1, done);
    }

    fn locate_in(
        self: &Arc<Self>,
        number: u64,
        pick: impl Fn(&LruSet<'_>) -> Option<usize> + Send + 'static,
        reads: u32,
        done: LocateDone,
    ) {
        let said = self.with(number, |set| {
            let moment = self.offsets.moment();
            let way = pick(set)?;
            let place =
                self.known(number, set, way).map(|at| self.place(at.position, set.lap(way)).map(|to| (to, at.reach)));
            Some((place, moment))
        });
        let moment = match said.flatten() {
            Some((Some(Some((place, reach))), moment)) => return done(Some((place, reach, moment))),
            Some((None, moment)) if reads <= MOST_READS => moment,
            _ => return done(None),
        };
        let index = self.clone();
        let arrived = move |positions: Option<[At; WAYS]>| {
            let Some(positions) = positions else { return done(None) };
            let place = index.with(number, |set| {
                if index.offsets.changed_since(number, moment) {
                    return Err(());
                }
                let way = pick(set).ok_or(());
                let at = |way: usize| positions.get(way).copied();
                Ok(way.ok().and_then(|way| Some((index.place(at(way)?.position, set.lap(way))?, at(way)?.reach))))
            });
            match place {
                Some(Ok(place)) => done(place.map(|(place, reach)| (place, reach, moment))),
                Some(Err(())) => index.locate_in(number, pick, reads + 1, done),
                None => done(None),
            }
        };
        self.offsets.read(number, Box::new(arrived));
    }
}
