//! Lookups that need the disk, and listings.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::Inner;
use crate::engine::{FetchDone, Fetched, Found, Kind, Place, Placement, Places, Probe};
use crate::extents::{LargeBody, WhenRead, turn};
use crate::hot::Listed;
use crate::layout::table::Table;
use crate::store::{Body, BodySource, Cursor, Hint, Hit, ScanEntry, ScanPage, Source, State};
use crate::terms::{DISK_SHIFT, Digest, Key, ReadError, StoreError};
use crate::wait::{Turn, promise};
use crate::write::add;

/// Listings go on here when the engine has listed all it has: the top byte says which of the disks it is, and there are not
/// so many.
pub(super) const OF_HOT: u64 = 0xFF << DISK_SHIFT;
const _: () = assert!(crate::engine::spread::MAX_DISKS < 0xFF);

impl Inner {
    /// Finish a lookup on the disk, or give it up at the deadline: then the caller asks the origin.
    pub(super) async fn find(
        self: Arc<Self>,
        key: Key,
        digest: Digest,
        hint: Hint,
        places: Places,
        deadline: Instant,
    ) -> Option<Hit> {
        let alarm = self.alarm.clone();
        let hit = alarm.within(deadline, self.hit(&key, &digest, &hint, places)).await;
        if hit.is_none() {
            add(&self.counters.timeouts, 1);
        }
        let hit = hit.flatten();
        match &hit {
            None => {
                self.counters.missed();
                self.reuse.missed(&digest);
            }
            Some(hit) => {
                self.counters.found(hit.source);
                self.reuse.found(&digest, hit.head.len() as u64 + hit.body.len().unwrap_or(0));
            }
        }
        hit
    }

    async fn hit(self: &Arc<Self>, key: &Key, digest: &Digest, hint: &Hint, places: Places) -> Option<Hit> {
        let found = self.fetch(key, digest, hint, places).await?;
        self.engine.touch(&hint.placement(*digest, key), found.place);
        let source = if found.from_memory { Source::Memory } else { Source::Disk };
        let body = match found.kind {
            Kind::Whole => {
                self.keep_hot(key, digest, &found.head, (&found.body[..]).into(), found.place);
                Body::from_bytes(found.body)
            }
            _ => self.large_body(key, digest, &found).await?,
        };
        Some(Hit { head: found.head, state: State::Whole, source, body })
    }

    /// The body of an object of which this is the head's record; `None` if part of it is gone.
    pub(super) async fn large_body(self: &Arc<Self>, key: &Key, digest: &Digest, found: &Found) -> Option<Body> {
        let mut body = LargeBody::new(Table::decode(&found.body)?, self.extent_reader(*digest), &*self.engine);
        let only = match body.has_left(&*self.engine) {
            true => Err(ReadError::Gone),
            // Whoever wants no more than what came with the head pays for no other read.
            false if !body.begins_in_extents() => Ok(None),
            false => body.only_piece().await,
        };
        let Ok(only) = only else {
            self.engine.forget(&Placement::of(*digest).named(key.name()), found.place);
            return None;
        };
        Some(match only.filter(|only| body.length() == Some(only.len() as u64)) {
            // A body of one piece, apart from its head since that was updated.
            Some(whole) => {
                self.keep_hot(key, digest, &found.head, (&whole[..]).into(), found.place);
                Body::from_bytes(whole)
            }
            None => Body::from_source(Box::new(self.to_be_hot(body, key, digest, found))),
        })
    }

    /// A body that is kept in memory too when all of it has been read, if there is room for it.
    fn to_be_hot(self: &Arc<Self>, body: LargeBody, key: &Key, digest: &Digest, found: &Found) -> LargeBody {
        let body_bytes = body.length().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(usize::MAX);
        let bytes = body_bytes.saturating_add(key.name().len() + found.head.len());
        if body.is_in_one_extent() {
            return if self.hot.takes(bytes) {
                body.telling(self.keeps_hot_when_read(key, digest, found))
            } else {
                body
            };
        }
        match self.hot.collects(digest, bytes) {
            Some(share) => body.collecting(share, self.keeps_hot_when_read(key, digest, found)),
            None => body,
        }
    }

    /// Keeps an object in memory; told once all of its body has been read.
    fn keeps_hot_when_read(self: &Arc<Self>, key: &Key, digest: &Digest, found: &Found) -> WhenRead {
        let (store, key, digest) = (Arc::downgrade(self), key.clone(), *digest);
        let (head, place) = (found.head.clone(), found.place);
        Box::new(move |whole| {
            if let Some(store) = store.upgrade() {
                store.keep_hot(&key, &digest, &head, whole.into(), place);
            }
        })
    }

    /// The record of a key, with its whole name compared.
    pub(super) async fn fetch(&self, key: &Key, digest: &Digest, hint: &Hint, places: Places) -> Option<Found> {
        let newest = places.iter().next();
        let read = |done| self.engine.fetch(&hint.placement(*digest, key), places, done);
        let fetched = self.in_turn(self.engine.disk_of(digest), newest, read).await;
        fetched.filter(|found| found.name == key.name())
    }

    /// Read a record when it is its turn on that disk. The turn is given back when who asked has come for the answer: many that
    /// nobody has come for would take memory without bound, and they did where hundreds of clients came at once. Whoever sleeps
    /// keeps it no longer than two ticks; one that was given up still keeps the disk busy.
    async fn in_turn(&self, disk: usize, newest: Option<Place>, read: impl FnOnce(FetchDone)) -> Option<Found> {
        match self.fetched_in_turn(disk, newest, read).await? {
            Fetched::Record(found) => Some(found),
            _ => None,
        }
    }

    async fn fetched_in_turn(
        &self,
        disk: usize,
        newest: Option<Place>,
        read: impl FnOnce(FetchDone),
    ) -> Option<Fetched> {
        let in_memory = || newest.is_some_and(|place| self.engine.is_in_memory(place));
        let turn = turn(&self.turns_of(disk), in_memory).await;
        let (done, answer) = promise();
        read(Box::new(move |fetched| done.keep((fetched, turn.map(Turn::until_taken)))));
        answer.await.map(|(fetched, _)| fetched)
    }

    pub(super) async fn scan(self: Arc<Self>, from: Cursor, most: usize) -> Result<ScanPage, StoreError> {
        if self.is_closed() {
            return Err(StoreError::Closed);
        }
        if from == Cursor::default() {
            // What could not be written the next flush tells.
            self.write_waiting().await;
        }
        if let Some(number) = from.0.checked_sub(OF_HOT) {
            return Ok(self.scan_hot(number, most).await);
        }
        let (places, next) = self.engine.walk(from.0, most);
        let mut entries = Vec::new();
        for place in places {
            if let Some(found) = self.current(place).await {
                let table = (found.kind == Kind::Large).then(|| Table::decode(&found.body)).flatten();
                let body_bytes = table.map_or(found.body.len() as u64, |table| table.body_bytes());
                entries.push(ScanEntry { name: found.name, head: found.head, body_bytes });
            }
        }
        let hot = (self.hot.bytes() > 0).then_some(OF_HOT);
        Ok(ScanPage { entries, next: next.or(hot).map(Cursor) })
    }

    /// Hot objects that the engine has none of any more: they are found all the same. One that knows only from its disk what it
    /// has costs a read for each hot object.
    async fn scan_hot(&self, from: u64, most: usize) -> ScanPage {
        let (listed, next) = self.hot.page(from, most);
        let mut entries = Vec::new();
        for Listed { id, key, head, body_bytes, place } in listed {
            let at = Placement::of(id).named(key.name());
            let of_engine = match self.engine.probe(&at) {
                Probe::Absent => false,
                Probe::At(places) if places.iter().next() == Some(place) && self.engine.is_live(place) => true,
                Probe::At(places) => self.fetch(&key, &id, &Hint::default(), places).await.is_some(),
                Probe::AskDisk => self.fetch(&key, &id, &Hint::default(), Places::default()).await.is_some(),
            };
            if !of_engine {
                entries.push(ScanEntry { name: Bytes::copy_from_slice(key.name()), head, body_bytes });
            }
        }
        ScanPage { entries, next: next.map(|next| Cursor(OF_HOT + next)) }
    }

    /// The record at a place, if a lookup of its object would find it and no newer one.
    async fn current(&self, place: Place) -> Option<Found> {
        let found = self.any(place).await?;
        self.is_current(&found).await.then_some(found)
    }

    /// The record at a place.
    pub(super) async fn any(&self, place: Place) -> Option<Found> {
        match self.any_or_why(place).await? {
            Fetched::Record(found) => Some(found),
            _ => None,
        }
    }

    /// The same, or why there is none; `None` if the disk was stopped.
    pub(super) async fn any_or_why(&self, place: Place) -> Option<Fetched> {
        let disk = self.engine.disk_at(place);
        self.fetched_in_turn(disk, Some(place), |done| self.engine.fetch_any(place, done)).await
    }

    /// Whether a lookup of a record's object would find it, and no newer one.
    pub(super) async fn is_current(&self, found: &Found) -> bool {
        let at = Placement::of(found.id).named(&found.name);
        let places = match self.engine.probe(&at) {
            Probe::Absent => return false,
            // Such an engine keeps one version of an object.
            Probe::AskDisk => return true,
            Probe::At(places) => places,
        };
        if places.iter().next() == Some(found.place) {
            return true;
        }
        let disk = self.engine.disk_at(found.place);
        let newest = self.in_turn(disk, places.iter().next(), |done| self.engine.fetch(&at, places, done)).await;
        newest.is_some_and(|newest| newest.place == found.place)
    }
}
