//! Objects spread over several engines, each on a disk of its own.
//!
//! The digest says which disk an object belongs to, so a disk that fails takes its own objects with it and nothing
//! else: writes to it are refused one by one, and the others go on.

use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;

use super::{
    BodyWriter, Buffered, Capabilities, Disks, Engine, ExtentsTogether, FetchDone, Fetched, FirstBytes, Hold, Holds,
    Kind, Limits, Part, PartsDone, Place, Placement, Places, Probe, Record, RelatedRuns, SavesEpochs, SyncDone,
    Together, WholeBodies,
};
use crate::layout::table::with_places;
use crate::terms::{DISK_SHIFT, Digest, Stats, WhyNot, inside};

/// The most disks a store may be spread over: their numbers take the top byte of a place.
pub const MAX_DISKS: usize = 64;

/// Several engines as one.
pub struct Spread {
    /// By number. Of one that is not there nothing is found, and nothing is kept.
    disks: Vec<Option<Arc<dyn Engine>>>,
}

impl Spread {
    /// Over these engines, in this order for ever: it decides where objects are. `None` for none, or more than
    /// [`MAX_DISKS`].
    pub fn over(disks: Vec<Arc<dyn Engine>>) -> Option<Self> {
        Spread::with_gaps(disks.into_iter().map(Some).collect())
    }

    /// The same, where some of the disks are not there any more.
    pub fn with_gaps(disks: Vec<Option<Arc<dyn Engine>>>) -> Option<Self> {
        (1..=MAX_DISKS).contains(&disks.len()).then_some(Spread { disks })
    }

    fn number_of(&self, id: &Digest) -> usize {
        // From bits that choose neither a set nor a shard of the hot objects.
        ((u128::from(id.high() << 8) * self.disks.len() as u128) >> 64) as usize
    }

    fn engine_of(&self, id: &Digest) -> Option<(usize, &Arc<dyn Engine>)> {
        let number = self.number_of(id);
        self.disks.get(number)?.as_ref().map(|disk| (number, disk))
    }

    /// Those that are there.
    fn there(&self) -> impl Iterator<Item = &Arc<dyn Engine>> {
        self.disks.iter().flatten()
    }

    fn engine_at(&self, place: Place) -> Option<(usize, &Arc<dyn Engine>)> {
        let number = (place.0 >> DISK_SHIFT) as usize;
        self.disks.get(number)?.as_ref().map(|disk| (number, disk))
    }

    /// Itself, if any of its disks offers something.
    fn offer(&self, is_offered: impl Fn(Capabilities<'_>) -> bool) -> Option<&Self> {
        self.there().any(|disk| is_offered(disk.capabilities())).then_some(self)
    }

    /// Run `each` on every disk, and tell the first error once all have answered.
    fn all(&self, done: SyncDone, each: impl Fn(&Arc<dyn Engine>, SyncDone)) {
        let state = Arc::new(Mutex::new((self.there().count(), Ok(()), Some(done))));
        for disk in self.there() {
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
        self.there().next().map_or("none", |disk| disk.name())
    }

    fn limits(&self) -> Limits {
        let all = || self.there().map(|disk| disk.limits());
        let least = |of: fn(&Limits) -> usize| all().map(|limits| of(&limits)).min().unwrap_or(0);
        Limits {
            max_record_bytes: least(|limits| limits.max_record_bytes),
            extent_bytes: least(|limits| limits.extent_bytes),
            inline_bytes: least(|limits| limits.inline_bytes),
            max_object_bytes: all().map(|limits| limits.max_object_bytes).min().unwrap_or(0),
        }
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            disks: Some(self),
            buffered: self.offer(|all| all.buffered.is_some()).map(|all| all as _),
            related: self.offer(|all| all.related.is_some()).map(|all| all as _),
            together: self.offer(|all| all.together.is_some()).map(|all| all as _),
            holds: self.offer(|all| all.holds.is_some()).map(|all| all as _),
            first_bytes: self.offer(|all| all.first_bytes.is_some()).map(|all| all as _),
            bodies: self.offer(|all| all.bodies.is_some()).map(|all| all as _),
            epochs: self.offer(|all| all.epochs.is_some()).map(|all| all as _),
        }
    }

    fn probe(&self, at: &Placement<'_>) -> Probe {
        let Some((number, disk)) = self.engine_of(&at.digest) else { return Probe::Absent };
        match disk.probe(at) {
            Probe::At(places) => {
                let mut all: Vec<_> = places.iter().map(|place| outside(number, place)).collect();
                Probe::At(Places::newest_first(&mut all))
            }
            other => other,
        }
    }

    fn fetch(&self, at: &Placement<'_>, places: Places, done: FetchDone) {
        match self.engine_of(&at.digest) {
            Some((number, disk)) => disk.fetch(at, each_inside(places), told_outside(number, done)),
            None => done(Fetched::Missing),
        }
    }

    fn fetch_at(&self, id: &Digest, place: Place, body_bytes: usize, done: FetchDone) {
        match self.engine_at(place) {
            Some((number, disk)) => disk.fetch_at(id, inside(place), body_bytes, told_outside(number, done)),
            None => done(Fetched::Missing),
        }
    }

    fn fetch_any(&self, place: Place, done: FetchDone) {
        match self.engine_at(place) {
            Some((number, disk)) => disk.fetch_any(inside(place), told_outside(number, done)),
            None => done(Fetched::Missing),
        }
    }

    fn poll_append(
        &self,
        cx: &mut Context<'_>,
        at: &Placement<'_>,
        record: &Record<'_>,
    ) -> Poll<Result<Place, WhyNot>> {
        match self.engine_of(&at.digest) {
            Some((number, disk)) => disk.poll_append(cx, at, record).map_ok(|place| outside(number, place)),
            None => Poll::Ready(Err(WhyNot::Device)),
        }
    }

    fn poll_remove(&self, cx: &mut Context<'_>, at: &Placement<'_>) -> Poll<Result<Option<Place>, WhyNot>> {
        match self.engine_of(&at.digest) {
            Some((number, disk)) => disk.poll_remove(cx, at).map_ok(|place| place.map(|place| outside(number, place))),
            None => Poll::Ready(Err(WhyNot::Device)),
        }
    }

    fn forget(&self, at: &Placement<'_>, place: Place) {
        if let Some((_, disk)) = self.engine_of(&at.digest) {
            disk.forget(at, inside(place));
        }
    }

    fn touch(&self, at: &Placement<'_>, place: Place) {
        if let Some((_, disk)) = self.engine_of(&at.digest) {
            disk.touch(at, inside(place));
        }
    }

    fn is_newest(&self, at: &Placement<'_>, place: Place, seen: Places) -> bool {
        self.engine_of(&at.digest).is_some_and(|(_, disk)| disk.is_newest(at, inside(place), each_inside(seen)))
    }

    fn is_live(&self, place: Place) -> bool {
        self.engine_at(place).is_some_and(|(_, disk)| disk.is_live(inside(place)))
    }

    fn keeps_body_at(&self, place: Place) -> bool {
        self.engine_at(place).is_some_and(|(_, disk)| disk.keeps_body_at(inside(place)))
    }

    fn goes_by_origin(&self) -> bool {
        self.there().any(|disk| disk.goes_by_origin())
    }

    fn sync(&self, of: Option<&Digest>, done: SyncDone) {
        match of.and_then(|id| self.engine_of(id)) {
            Some((_, disk)) => disk.sync(of, done),
            None => self.all(done, |disk, done| disk.sync(None, done)),
        }
    }

    fn walk(&self, cursor: u64, most: usize) -> (Vec<Place>, Option<u64>) {
        let number = (cursor >> DISK_SHIFT) as usize;
        let next_disk = (number + 1 < self.disks.len()).then(|| outside(number + 1, Place(0)).0);
        let Some(Some(disk)) = self.disks.get(number) else { return (Vec::new(), next_disk) };
        let (places, next) = disk.walk(inside(Place(cursor)).0, most);
        let places = places.into_iter().map(|place| outside(number, place)).collect();
        (places, next.map(|next| outside(number, Place(next)).0).or(next_disk))
    }

    fn walks_all(&self) -> bool {
        self.there().all(|disk| disk.walks_all())
    }

    fn stats(&self) -> Stats {
        self.there().map(|disk| disk.stats()).fold(Stats::default(), Stats::with)
    }

    fn refuse_appends(&self) {
        self.there().for_each(|disk| disk.refuse_appends());
    }

    fn close(&self, done: SyncDone) {
        self.all(done, |disk, done| disk.close(done));
    }
}

impl Disks for Spread {
    fn disks(&self) -> usize {
        self.disks.len()
    }

    fn disk_of(&self, id: &Digest) -> usize {
        self.number_of(id)
    }

    fn disk_at(&self, place: Place) -> usize {
        (place.0 >> DISK_SHIFT) as usize
    }
}

impl Buffered for Spread {
    fn is_in_memory(&self, place: Place) -> bool {
        let Some((_, disk)) = self.engine_at(place) else { return false };
        disk.capabilities().buffered.is_some_and(|buffered| buffered.is_in_memory(inside(place)))
    }

    fn write_out(&self) {
        self.there().filter_map(|disk| disk.capabilities().buffered).for_each(Buffered::write_out);
    }
}

impl RelatedRuns for Spread {
    fn log_bytes(&self, record: &Record<'_>) -> usize {
        let Some((_, disk)) = self.engine_of(&record.id) else { return 0 };
        disk.capabilities().related.map_or(0, |related| related.log_bytes(record))
    }
}

/// Parts of one object lie on one disk.
impl ExtentsTogether for Spread {
    fn together(&self, parts: &[Part], most_bytes: usize) -> Together {
        let disk = parts.first().and_then(|first| self.engine_at(first.place));
        match disk.and_then(|(_, disk)| disk.capabilities().together) {
            Some(together) => together.together(&parts_inside(parts), most_bytes),
            None => Together { parts: 0, bytes: 0 },
        }
    }

    fn fetch_together(&self, id: &Digest, parts: &[Part], done: PartsDone) {
        let disk = parts.first().and_then(|first| self.engine_at(first.place));
        match disk.and_then(|(number, disk)| Some((number, disk.capabilities().together?))) {
            Some((number, together)) => {
                let told = move |all: Vec<_>| {
                    done(all.into_iter().map(|fetched| fetched_outside(number, fetched)).collect());
                };
                together.fetch_together(id, &parts_inside(parts), Box::new(told));
            }
            None => done(vec![Fetched::Missing]),
        }
    }
}

impl Holds for Spread {
    fn hold(&self, places: &[Place]) -> Hold {
        // Parts of one object lie on one disk.
        let disk = places.first().and_then(|first| self.engine_at(*first));
        let Some(holds) = disk.and_then(|(_, disk)| disk.capabilities().holds) else { return Hold::default() };
        holds.hold(&places.iter().copied().map(inside).collect::<Vec<_>>())
    }
}

impl FirstBytes for Spread {
    fn first_bytes(&self, id: &Digest, beside_bytes: usize) -> usize {
        let first = self.engine_of(id).and_then(|(_, disk)| disk.capabilities().first_bytes);
        first.map_or(0, |first| first.first_bytes(id, beside_bytes))
    }
}

/// An epoch has begun, and is saved, once it is on every disk. One that is away may come back with an older index.
impl SavesEpochs for Spread {
    fn may_begin_epoch(&self) -> bool {
        let may = |disk: &Option<Arc<dyn Engine>>| Some(disk.as_ref()?.capabilities().epochs?.may_begin_epoch());
        self.disks.iter().all(|disk| may(disk) == Some(true))
    }

    fn begin_epoch(&self, number: u64) {
        self.there().filter_map(|disk| disk.capabilities().epochs).for_each(|epochs| epochs.begin_epoch(number));
    }

    fn epochs(&self) -> (u64, u64) {
        let of = |disk: &Option<Arc<dyn Engine>>| Some(disk.as_ref()?.capabilities().epochs?.epochs());
        let all: Vec<_> = self.disks.iter().map(|disk| of(disk).unwrap_or_default()).collect();
        let begun = all.iter().map(|(begun, _)| *begun).max();
        (begun.unwrap_or(0), all.iter().map(|(_, saved)| *saved).min().unwrap_or(0))
    }
}

impl WholeBodies for Spread {
    fn begin(&self, at: &Placement<'_>) -> Box<dyn BodyWriter> {
        let disk = self.engine_of(&at.digest);
        let body = disk.and_then(|(number, disk)| Some((number, disk.capabilities().bodies?.begin(at))));
        Box::new(SpreadBody(body))
    }
}

/// A body on one of the disks, by its number; `None` where no disk takes it.
struct SpreadBody(Option<(usize, Box<dyn BodyWriter>)>);

impl BodyWriter for SpreadBody {
    fn poll_part(&mut self, cx: &mut Context<'_>, part: &[u8]) -> Poll<Result<Place, WhyNot>> {
        let Some((number, body)) = &mut self.0 else { return Poll::Ready(Err(WhyNot::Device)) };
        body.poll_part(cx, part).map_ok(|place| outside(*number, place))
    }

    fn poll_end(&mut self, cx: &mut Context<'_>, record: &Record<'_>) -> Poll<Result<Place, WhyNot>> {
        let Some((number, body)) = &mut self.0 else { return Poll::Ready(Err(WhyNot::Device)) };
        body.poll_end(cx, record).map_ok(|place| outside(*number, place))
    }
}
