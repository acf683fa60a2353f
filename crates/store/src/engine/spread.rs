//! Objects spread over several engines, each on a disk of its own.
//!
//! The digest says which disk an object belongs to, so a disk that fails takes its own objects with it and nothing
//! else: writes to it are refused one by one, and the others go on.

use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;

use super::{
    Engine, FetchDone, Fetched, Hold, Kind, Limits, Part, PartsDone, Place, Places, Probe, Record, SyncDone, Together,
};
use crate::layout::table::with_places;
use crate::terms::{DISK_SHIFT, Digest, Stats, WhyNot, inside};

/// The most disks a store may be spread over: their numbers take the top byte of a place.
pub const MAX_DISKS: usize = 64;

/// Several engines as one.
pub struct Spread {
    disks: Vec<Arc<dyn Engine>>,
}

impl Spread {
    /// Over these engines, in this order for ever: it decides where objects are. `None` for none, or more than
    /// [`MAX_DISKS`].
    pub fn over(disks: Vec<Arc<dyn Engine>>) -> Option<Self> {
        (1..=MAX_DISKS).contains(&disks.len()).then_some(Spread { disks })
    }

    fn number_of(&self, id: &Digest) -> usize {
        // From bits that choose neither a set nor a shard of the hot objects.
        ((u128::from(id.high() << 8) * self.disks.len() as u128) >> 64) as usize
    }

    fn engine_of(&self, id: &Digest) -> Option<(usize, &Arc<dyn Engine>)> {
        let number = self.number_of(id);
        self.disks.get(number).map(|disk| (number, disk))
    }

    fn engine_at(&self, place: Place) -> Option<(usize, &Arc<dyn Engine>)> {
        let number = (place.0 >> DISK_SHIFT) as usize;
        self.disks.get(number).map(|disk| (number, disk))
    }

    /// Run `each` on every disk, and tell the first error once all have answered.
    fn all(&self, done: SyncDone, each: impl Fn(&Arc<dyn Engine>, SyncDone)) {
        let state = Arc::new(Mutex::new((self.disks.len(), Ok(()), Some(done))));
        for disk in &self.disks {
            let state = state.clone();
            let one = move |result: Result<(), String>| {
                let mut state = state.lock();
                state.0 -= 1;
                if state.1.is_ok() {
                    state.1 = result;
                }
                if state.0 == 0
                    && let Some(done) = state.2.take()
                {
                    let result = state.1.clone();
                    drop(state);
                    done(result);
                }
            };
            each(disk, Box::new(one));
        }
    }
}

fn outside(number: usize, place: Place) -> Place {
    Place((number as u64) << DISK_SHIFT | inside(place).0)
}

fn each_inside(places: Places) -> Places {
    let mut all: Vec<_> = places.iter().map(inside).collect();
    Places::newest_first(&mut all)
}

fn fetched_outside(number: usize, fetched: Fetched) -> Fetched {
    match fetched {
        Fetched::Record(mut found) => {
            found.place = outside(number, found.place);
            if found.kind == Kind::Large {
                // A disk that put the body elsewhere itself knows nothing of others.
                found.body = with_places(found.body, |place| outside(number, place));
            }
            Fetched::Record(found)
        }
        other => other,
    }
}

fn told_outside(number: usize, done: FetchDone) -> FetchDone {
    Box::new(move |fetched| done(fetched_outside(number, fetched)))
}

fn parts_inside(parts: &[Part]) -> Vec<Part> {
    parts.iter().map(|part| Part { place: inside(part.place), ..*part }).collect()
}

impl Engine for Spread {
    fn name(&self) -> &'static str {
        self.disks.first().map_or("none", |disk| disk.name())
    }

    fn limits(&self) -> Limits {
        let all = || self.disks.iter().map(|disk| disk.limits());
        let least = |of: fn(&Limits) -> usize| all().map(|limits| of(&limits)).min().unwrap_or(0);
        Limits {
            max_record_bytes: least(|limits| limits.max_record_bytes),
            extent_bytes: least(|limits| limits.extent_bytes),
            inline_bytes: least(|limits| limits.inline_bytes),
            max_object_bytes: all().map(|limits| limits.max_object_bytes).min().unwrap_or(0),
        }
    }

    fn disks(&self) -> usize {
        self.disks.len()
    }

    fn disk_of(&self, id: &Digest) -> usize {
        self.number_of(id)
    }

    fn disk_at(&self, place: Place) -> usize {
        (place.0 >> DISK_SHIFT) as usize
    }

    fn is_in_memory(&self, place: Place) -> bool {
        self.engine_at(place).is_some_and(|(_, disk)| disk.is_in_memory(inside(place)))
    }

    fn probe(&self, id: &Digest) -> Probe {
        let Some((number, disk)) = self.engine_of(id) else { return Probe::Absent };
        match disk.probe(id) {
            Probe::At(places) => {
                let mut all: Vec<_> = places.iter().map(|place| outside(number, place)).collect();
                Probe::At(Places::newest_first(&mut all))
            }
            other => other,
        }
    }

    fn fetch(&self, id: &Digest, places: Places, done: FetchDone) {
        match self.engine_of(id) {
            Some((number, disk)) => disk.fetch(id, each_inside(places), told_outside(number, done)),
            None => done(Fetched::Missing),
        }
    }

    fn fetch_at(&self, id: &Digest, place: Place, body_bytes: usize, done: FetchDone) {
        match self.engine_at(place) {
            Some((number, disk)) => disk.fetch_at(id, inside(place), body_bytes, told_outside(number, done)),
            None => done(Fetched::Missing),
        }
    }

    fn together(&self, parts: &[Part], most_bytes: usize) -> Together {
        // Parts of one object lie on one disk.
        match parts.first().and_then(|first| self.engine_at(first.place)) {
            Some((_, disk)) => disk.together(&parts_inside(parts), most_bytes),
            None => Together { parts: 0, bytes: 0 },
        }
    }

    fn fetch_together(&self, id: &Digest, parts: &[Part], done: PartsDone) {
        match parts.first().and_then(|first| self.engine_at(first.place)) {
            Some((number, disk)) => {
                let told = move |all: Vec<_>| {
                    done(all.into_iter().map(|fetched| fetched_outside(number, fetched)).collect());
                };
                disk.fetch_together(id, &parts_inside(parts), Box::new(told));
            }
            None => done(vec![Fetched::Missing]),
        }
    }

    fn poll_append(&self, cx: &mut Context<'_>, record: &Record<'_>) -> Poll<Result<Place, WhyNot>> {
        match self.engine_of(&record.id) {
            Some((number, disk)) => disk.poll_append(cx, record).map_ok(|place| outside(number, place)),
            None => Poll::Ready(Err(WhyNot::Device)),
        }
    }

    fn reads_ahead(&self) -> bool {
        self.disks.iter().any(|disk| disk.reads_ahead())
    }

    fn log_bytes(&self, record: &Record<'_>) -> usize {
        self.engine_of(&record.id).map_or(0, |(_, disk)| disk.log_bytes(record))
    }

    fn first_bytes(&self, id: &Digest, beside_bytes: usize) -> usize {
        self.engine_of(id).map_or(0, |(_, disk)| disk.first_bytes(id, beside_bytes))
    }

    fn is_newest(&self, id: &Digest, place: Place, seen: Places) -> bool {
        self.engine_of(id).is_some_and(|(_, disk)| disk.is_newest(id, inside(place), each_inside(seen)))
    }

    fn keeps_body_at(&self, place: Place) -> bool {
        self.engine_at(place).is_some_and(|(_, disk)| disk.keeps_body_at(inside(place)))
    }

    fn forget(&self, id: &Digest, place: Place) {
        if let Some((_, disk)) = self.engine_of(id) {
            let everything = place == Place(u64::MAX);
            disk.forget(id, if everything { place } else { inside(place) });
        }
    }

    fn touch(&self, id: &Digest, place: Place) {
        if let Some((_, disk)) = self.engine_of(id) {
            disk.touch(id, inside(place));
        }
    }

    fn hold(&self, places: &[Place]) -> Hold {
        // Parts of one object lie on one disk.
        let Some((_, disk)) = places.first().and_then(|first| self.engine_at(*first)) else { return Hold::default() };
        disk.hold(&places.iter().copied().map(inside).collect::<Vec<_>>())
    }

    fn is_live(&self, place: Place) -> bool {
        self.engine_at(place).is_some_and(|(_, disk)| disk.is_live(inside(place)))
    }

    fn sync(&self, of: Option<&Digest>, done: SyncDone) {
        match of.and_then(|id| self.engine_of(id)) {
            Some((_, disk)) => disk.sync(of, done),
            None => self.all(done, |disk, done| disk.sync(None, done)),
        }
    }

    fn write_out(&self) {
        self.disks.iter().for_each(|disk| disk.write_out());
    }

    fn walk(&self, cursor: u64, most: usize) -> (Vec<Place>, Option<u64>) {
        let number = (cursor >> DISK_SHIFT) as usize;
        let Some(disk) = self.disks.get(number) else { return (Vec::new(), None) };
        let (places, next) = disk.walk(inside(Place(cursor)).0, most);
        let places = places.into_iter().map(|place| outside(number, place)).collect();
        let next_disk = (number + 1 < self.disks.len()).then(|| outside(number + 1, Place(0)).0);
        (places, next.map(|next| outside(number, Place(next)).0).or(next_disk))
    }

    fn fetch_any(&self, place: Place, done: FetchDone) {
        match self.engine_at(place) {
            Some((number, disk)) => disk.fetch_any(inside(place), told_outside(number, done)),
            None => done(Fetched::Missing),
        }
    }

    fn index_bytes(&self) -> u64 {
        self.disks.iter().map(|disk| disk.index_bytes()).sum()
    }

    fn stats(&self) -> Stats {
        self.disks.iter().map(|disk| disk.stats()).fold(Stats::default(), Stats::with)
    }

    fn refuse_appends(&self) {
        self.disks.iter().for_each(|disk| disk.refuse_appends());
    }

    fn close(&self, done: SyncDone) {
        self.all(done, |disk, done| disk.close(done));
    }
}
