//! What the engine knows of its files, and what happens to it: no I/O, no clock. Each change returns the calls that are to be
//! made once the lock is let go of.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;
use std::{iter, mem};

use bytes::Bytes;

use super::format::{self, END_BYTES, Within};
use super::limits::{MAX_SUPERSEDED_SHARE, MAX_TRIED_SEGMENTS, MAX_UNSYNCED_FILES, block_bytes};
use super::naming::{Home, Naming, Numbers, Scheme, Spot};
use super::segments::{Mapped, Segments};
use super::urls::{Address, Urls};
use crate::device::mapped::Segment;
use crate::layout::limits::MAX_WRITE_FAILURES;
use crate::replace::Lru;
use crate::terms::{Digest, Place, SyncDone, WhyNot};

/// A call to be made, with what it is about.
pub(super) enum Task {
    Write {
        job: u64,
        file: u64,
        place: Place,
        spot: Spot,
        at: u64,
        bytes: Bytes,
    },
    /// With the object of which it is an older version, if it is one.
    Remove {
        job: u64,
        older_of: Option<Digest>,
        spot: Spot,
    },
    Sync(Covered),
}

/// What a sync is about.
pub(super) struct Covered {
    /// Files that last once it has succeeded.
    written: Vec<u64>,
    /// Removals that last then.
    settled: Vec<(Digest, Lingering)>,
    /// Files that may go then, since what replaces them lasts.
    superseded: Vec<u64>,
    /// Files that could not be removed and are tried again.
    pub undeleted: Vec<Spot>,
    /// Those of them that are gone now.
    pub deleted: Vec<Spot>,
    asked: Vec<Asked>,
}

/// Somebody waits for all jobs up to one to last.
struct Asked {
    up_to: u64,
    /// Nobody is told if it is for the cache's own sake.
    done: Option<SyncDone>,
    /// What failed while it waited for its turn, and was told to others: what it is for may be lost too.
    failed: Option<String>,
}

/// Files were lost of which nobody was told yet.
struct Loss {
    why: String,
    /// The last job that it may be about.
    job: u64,
}

/// Whether there is a segment.
enum Room {
    At(Segment),
    /// Once a write that is under way has ended.
    Later,
    /// The object becomes a file.
    Never,
}

/// How a removal has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Removal {
    /// The file is not there.
    Gone,
    /// Somebody else has put something in its place: the file is not there, and its number is of no use.
    Stranded,
    /// It may be there still.
    Failed,
}

/// What is known of where an object comes from.
#[derive(Clone, Debug, Default)]
pub(super) struct Whence {
    /// Where that says it belongs.
    pub home: Option<Home>,
    /// When it expires, in seconds since 1970 by the wall clock; 0 where nobody said.
    pub expires: u64,
}

/// A file, or one that is being written.
pub(super) struct Entry {
    pub digest: Digest,
    pub spot: Spot,
    /// Its bytes once all that was begun is written.
    pub size: u64,
    pub parts_bytes: u64,
    /// The object's record; `None` while a body is on its way.
    pub record: Option<Lies>,
    order: Option<u32>,
    writes: u32,
    /// Of these, those whose bytes are not in the file yet.
    unwritten: u32,
    /// Whether something of it is written, or about to be.
    begun: bool,
    /// A newer version is there.
    superseded: bool,
    gone: bool,
    /// It is removed without regard to older versions: a newer one lasts.
    at_once: bool,
}

/// Where a record lies in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lies {
    pub version: u64,
    pub at: u64,
    pub bytes: u32,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Lingering {
    /// Removals under way. When there are none any more, the next sync makes them last.
    open: u32,
    /// How many there were.
    all: u32,
}

struct Held {
    count: u32,
    until: Instant,
}

/// Memory: 72 bytes a file, 32 more in the map by digest and 24 in the order of use; what waits to be written.
pub(super) struct Files {
    pub naming: Naming,
    numbers: Numbers,
    /// Where each file lies, in a tree by URL.
    pub urls: Urls,
    mapped: Option<Mapped>,
    /// Those of the mapped file, if there is one.
    segments: Option<Segments>,
    all: BTreeMap<u64, Entry>,
    newest: HashMap<Digest, u64>,
    /// Versions that are still there and not to be found: a newer one does not last yet, or they are read or written. They go before
    /// a newer one of their object does, whoever reads them: what is left after a kill must not be an older version.
    older: HashMap<Digest, Vec<u64>>,
    /// Objects of which older versions were removed, and may be there again after a cut of the power: no newer one is removed
    /// before a sync has made that last.
    lingering: HashMap<Digest, Lingering>,
    /// Files whose removal waits for that, each with the job that it will be.
    put_off: BTreeMap<u64, u64>,
    order: Lru<u64>,
    next: u64,
    /// Counts records as they are published: of two the one that came later counts, whichever was begun first.
    serial: u64,
    /// What all files take, in whole blocks.
    pub bytes: u64,
    pub capacity: u64,
    /// Records and parts whose writes have not ended.
    waiting: HashMap<Place, Bytes>,
    pub waiting_bytes: usize,
    pub wakers: Vec<Waker>,
    jobs: Jobs,
    /// How many of the jobs are removals.
    removing: usize,
    /// Files that are to go when the last of their writes has ended.
    leaving: usize,
    /// When a job ended last, or the first one of those that are open was begun.
    pub progress: Option<Instant>,
    syncs: Vec<Asked>,
    loss: Option<Loss>,
    syncing: bool,
    unsynced: Vec<u64>,
    /// Older versions, each with the file that replaces it.
    superseded: Vec<(u64, u64)>,
    superseded_bytes: u64,
    undeleted: Vec<Spot>,
    held: HashMap<u64, Held>,
    /// Writes, and syncs, that failed in a row.
    failures: (u32, u32),
    pub closed: bool,
    /// No file is removed any more: another process may have the directory.
    pub frozen: bool,
    pub evicted: u64,
    /// Objects in segments that made room for others.
    pub replaced: u64,
    pub write_errors: u64,
    pub sync_errors: u64,
}

/// Writes and removals under way.
#[derive(Default)]
struct Jobs {
    next: u64,
    open: BTreeSet<u64>,
}

impl Jobs {
    fn begin(&mut self) -> u64 {
        self.next += 1;
        self.open.insert(self.next);
        self.next
    }
}

impl Files {
    /// None yet.
    pub fn new(naming: Naming, capacity: u64, mapped: Option<Mapped>) -> Files {
        Files {
            naming,
            numbers: Numbers::new(naming),
            urls: Urls::default(),
            mapped,
            segments: mapped.map(|mapped| Segments::with(mapped, iter::empty())),
            all: BTreeMap::new(),
            newest: HashMap::new(),
            older: HashMap::new(),
            lingering: HashMap::new(),
            put_off: BTreeMap::new(),
            order: Lru::default(),
            next: 1,
            serial: 0,
            bytes: 0,
            capacity,
            waiting: HashMap::new(),
            waiting_bytes: 0,
            wakers: Vec::new(),
            jobs: Jobs::default(),
            removing: 0,
            leaving: 0,
            progress: None,
            syncs: Vec::new(),
            loss: None,
            syncing: false,
            unsynced: Vec::new(),
            superseded: Vec::new(),
            superseded_bytes: 0,
            undeleted: Vec::new(),
            held: HashMap::new(),
            failures: (0, 0),
            closed: false,
            frozen: false,
            evicted: 0,
            replaced: 0,
            write_errors: 0,
            sync_errors: 0,
        }
    }

    /// Those that were found when the cache was opened, the oldest first, each the newest of its object and alone with its
    /// number; spots that are taken by what could not be read; where they lie in a tree by URL; and the last serial number.
    pub fn recovered(&mut self, found: Vec<(u64, Entry)>, unread: &[Spot], urls: Urls, serial: u64) {
        self.urls = urls;
        let spots = || found.iter().map(|(_, entry)| entry.spot).chain(unread.iter().copied());
        let files = spots().filter_map(|spot| if let Spot::File(spot) = spot { Some(spot) } else { None });
        let segments = spots().filter_map(|spot| if let Spot::Segment(segment) = spot { Some(segment) } else { None });
        self.numbers = Numbers::with(self.naming, files);
        self.segments = self.mapped.map(|mapped| Segments::with(mapped, segments));
        self.serial = serial;
        for (file, entry) in found {
            self.next = self.next.max(file.saturating_add(1));
            self.bytes += entry.charged();
            self.newest.insert(entry.digest, file);
            let order = Some(self.enter(entry.spot, file));
            self.all.insert(file, Entry { order, ..entry });
        }
    }

    /// The object's record.
    pub fn newest(&self, digest: &Digest) -> Option<Place> {
        let file = *self.newest.get(digest)?;
        format::place(file, Within::Record(self.all.get(&file)?.record?.version))
    }

    /// A file, with what it is.
    pub fn get(&self, file: u64) -> Option<&Entry> {
        self.all.get(&file)
    }

    /// What lies at a place, if it is not written yet.
    pub fn waiting(&self, place: Place) -> Option<Bytes> {
        self.waiting.get(&place).cloned()
    }

    /// Whether all writes to a file that were begun have ended.
    pub fn is_written(&self, file: u64) -> bool {
        self.all.get(&file).is_none_or(|entry| entry.writes == 0)
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.jobs.open.is_empty() && !self.syncing
    }

    /// Whether so much has failed in a row that nothing is written any more.
    pub fn is_retired(&self) -> bool {
        self.failures.0.max(self.failures.1) >= MAX_WRITE_FAILURES
    }

    /// The first objects of a listing from a file on, and where it goes on.
    pub fn walk(&self, from: u64, most: usize) -> (Vec<Place>, Option<u64>) {
        let mut places = Vec::new();
        for (file, entry) in self.all.range(from..).filter(|(file, entry)| self.newest.get(&entry.digest) == Some(file))
        {
            if places.len() >= most.max(1) {
                return (places, Some(*file));
            }
            let place = entry.record.and_then(|record| format::place(*file, Within::Record(record.version)));
            places.extend(place);
        }
        (places, None)
    }

    /// The number of the record that is published next.
    pub fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// Objects that lookups find.
    pub fn objects(&self) -> u64 {
        self.newest.len() as u64
    }

    /// Memory that the index takes, in bytes; of the maps what is in use and their usual slack.
    pub fn index_bytes(&self) -> u64 {
        let entries = self.all.len() * (size_of::<Entry>() + 8) * 4 / 3;
        let digests = self.newest.capacity() * (size_of::<Digest>() + 8 + 1);
        let order = self.order.numbers() * (size_of::<Option<u64>>() + 8);
        let names = self.numbers.bytes() + self.urls.bytes();
        (entries + digests + order) as u64 + names + self.segments.as_ref().map_or(0, Segments::bytes)
    }

    /// Begin a file. `None` while no number is free; what is asked for least goes then, and whoever waits is woken.
    ///
    /// An object of which nobody says whence it comes goes where its file is, as with a new head, or by its digest. One whose
    /// bytes are known and few enough goes into the mapped file where there is one.
    pub fn begin(
        &mut self,
        digest: Digest,
        whence: &Whence,
        bytes: Option<usize>,
        tasks: &mut Vec<Task>,
    ) -> Option<u64> {
        match bytes.map(|bytes| self.segment_for(bytes, tasks)) {
            Some(Room::At(segment)) => return Some(self.add(digest, Spot::Segment(segment))),
            Some(Room::Later) => return None,
            Some(Room::Never) | None => {}
        }
        let home = whence.home.clone().or_else(|| self.home_before(&digest));
        let by_digest = || match self.naming.scheme {
            Scheme::Cern => Home::Url(Address::of_digest(&digest)),
            _ => Home::Host(digest.low()),
        };
        let home = home.unwrap_or_else(by_digest);
        let Some(spot) = self.numbers.take(&home) else {
            // One at a time: its number comes free when it is removed. Older versions go with a sync.
            if self.removing + self.leaving == 0 && (self.superseded.is_empty() || !self.evict_superseded(tasks)) {
                self.evict_oldest(tasks);
            }
            return None;
        };
        if let Home::Url(address) = home {
            self.urls.add(spot.file, address, whence.expires);
        }
        Some(self.add(digest, Spot::File(spot)))
    }

    /// A new head of a file's object says when it expires.
    pub fn expires(&mut self, file: u64, expires: u64) {
        if let Some(Spot::File(spot)) = self.all.get(&file).map(|entry| entry.spot) {
            self.urls.expires(spot.file, expires);
        }
    }

    /// A write to a file is carried out now: whether it is the first one.
    pub fn begins(&mut self, file: u64) -> bool {
        self.all.get_mut(&file).is_some_and(|entry| !std::mem::replace(&mut entry.begun, true))
    }

    /// A write has put its bytes into a file. If these were the last that the object has, its directory and when it expires.
    pub fn ends(&mut self, file: u64) -> Option<(Arc<str>, u64)> {
        let entry = self.all.get_mut(&file)?;
        entry.unwritten = entry.unwritten.saturating_sub(1);
        let is_whole = entry.record.is_some() && entry.unwritten == 0;
        let Spot::File(spot) = entry.spot else { return None };
        self.urls.get(spot.file).filter(|_| is_whole).map(|named| (named.directory.clone(), named.expires))
    }

    /// The names of a directory's objects, with when they expire; none if it has one at most, which whoever asks has just written.
    pub fn names_in(&self, directory: &str) -> BTreeMap<String, u64> {
        // Each new directory asks, and to look through all files for each would take longer the more there are.
        if self.urls.count_in(directory) <= 1 {
            return BTreeMap::new();
        }
        let there = self.all.values().filter(|entry| entry.record.is_some() && !entry.gone).filter_map(|entry| {
            let Spot::File(spot) = entry.spot else { return None };
            let named = self.urls.get(spot.file).filter(|named| *named.directory == *directory)?;
            Some((named.file_name(spot.file), named.expires))
        });
        there.collect()
    }

    /// Where the object's file is now.
    fn home_before(&self, digest: &Digest) -> Option<Home> {
        let Spot::File(spot) = self.all.get(self.newest.get(digest)?)?.spot else { return None };
        Some(match self.naming.scheme {
            Scheme::Cern => Home::Url(self.urls.get(spot.file)?.address()),
            _ => Home::Directory(spot.directory),
        })
    }

    fn add(&mut self, digest: Digest, spot: Spot) -> u64 {
        let file = self.next;
        self.next += 1;
        let entry = Entry {
            digest,
            spot,
            size: 0,
            parts_bytes: 0,
            record: None,
            order: None,
            writes: 0,
            unwritten: 0,
            begun: false,
            superseded: false,
            gone: false,
            at_once: false,
        };
        self.all.insert(file, entry);
        file
    }

    /// A segment for so many bytes: one that is free, else that of an object which makes room, of the next larger size where
    /// there is none of this.
    fn segment_for(&mut self, bytes: usize, tasks: &mut Vec<Task>) -> Room {
        let Some(segments) = &mut self.segments else { return Room::Never };
        for class in segments.classes_for(bytes) {
            for _ in 0..MAX_TRIED_SEGMENTS {
                let Some(segments) = &mut self.segments else { return Room::Never };
                if let Some(segment) = segments.take(class) {
                    return Room::At(segment);
                }
                let Some(file) = segments.victim(class) else { break };
                match self.replace(file, tasks) {
                    Room::Never => {}
                    room => return room,
                }
            }
        }
        Room::Never
    }

    /// An object leaves, and its segment is written over as it is: it costs no I/O of its own. Later if it is being written. Never if
    /// somebody has it: then it is removed when they are done.
    fn replace(&mut self, file: u64, tasks: &mut Vec<Task>) -> Room {
        let Some((digest, spot, writes)) = self.all.get(&file).map(|entry| (entry.digest, entry.spot, entry.writes))
        else {
            return Room::Never;
        };
        let order = if writes > 0 { Some(self.enter(spot, file)) } else { None };
        self.all.get_mut(&file).into_iter().for_each(|entry| entry.order = order);
        if writes > 0 {
            return Room::Later;
        }
        self.replaced += 1;
        // Nor is there an order in which the kernel writes what is written over and what was removed before.
        let is_last = !self.older.contains_key(&digest) && !self.lingering.contains_key(&digest);
        let (Spot::Segment(segment), true) = (spot, is_last && !self.frozen && !self.held.contains_key(&file)) else {
            self.drop_file(file, tasks);
            return Room::Never;
        };
        self.newest.remove(&digest);
        self.all.remove(&file);
        Room::At(segment)
    }

    fn enter(&mut self, spot: Spot, file: u64) -> u32 {
        match (spot, &mut self.segments) {
            (Spot::Segment(segment), Some(segments)) => segments.enter(segment, file),
            _ => self.order.insert(file),
        }
    }

    fn touch_order(&mut self, spot: Spot, order: u32) {
        match (spot, &mut self.segments) {
            (Spot::Segment(segment), Some(segments)) => segments.touch(segment, order),
            _ => self.order.touch(order),
        }
    }

    fn leave(&mut self, spot: Spot, order: u32) {
        match (spot, &mut self.segments) {
            (Spot::Segment(segment), Some(segments)) => segments.leave(segment, order),
            _ => drop(self.order.remove(order)),
        }
    }

    fn give_back(&mut self, spot: Spot) {
        match (spot, &mut self.segments) {
            (Spot::Segment(segment), Some(segments)) => segments.give_back(segment),
            (Spot::Segment(_), None) => {}
            (Spot::File(spot), _) => {
                self.urls.remove(spot.file);
                self.numbers.give_back(spot);
            }
        }
    }

    /// The next part of a file's body. `None` if the file is gone.
    pub fn part(&mut self, file: u64, place: Place, bytes: Bytes, tasks: &mut Vec<Task>) -> Option<()> {
        let at = self.all.get(&file).filter(|entry| !entry.gone)?.size;
        self.grow(file, place, at, bytes, tasks)?;
        if let Some(entry) = self.all.get_mut(&file) {
            entry.parts_bytes = entry.size;
        }
        Some(())
    }

    /// A file's record, with its end: from now on lookups find it. `None` if the file is gone.
    pub fn publish(&mut self, file: u64, place: Place, bytes: Bytes, tasks: &mut Vec<Task>) -> Option<()> {
        let entry = self.all.get(&file).filter(|entry| !entry.gone)?;
        let (digest, at) = (entry.digest, entry.size);
        let (_, Within::Record(version)) = format::within(place) else { return None };
        let record = Lies { version, at, bytes: bytes.len().saturating_sub(END_BYTES) as u32 };
        self.grow(file, place, at, bytes, tasks)?;
        // To make room for a new head its own file may have been the one to go.
        let entry = self.all.get(&file).filter(|entry| !entry.gone)?;
        let (spot, order) = (entry.spot, entry.order);
        let order = match order {
            None => self.enter(spot, file),
            Some(order) => {
                self.touch_order(spot, order);
                order
            }
        };
        let entry = self.all.get_mut(&file)?;
        (entry.record, entry.order) = (Some(record), Some(order));
        self.unsynced.push(file);
        match self.newest.insert(digest, file) {
            Some(older) if older != file => self.supersede(older, file),
            _ => {}
        }
        while self.bytes > self.capacity && self.evict_oldest(tasks) {}
        let is_much = self.superseded_bytes > self.capacity / MAX_SUPERSEDED_SHARE;
        if (is_much || self.unsynced.len() >= MAX_UNSYNCED_FILES) && self.syncs.is_empty() {
            self.sync(None, tasks);
        }
        Some(())
    }

    fn grow(&mut self, file: u64, place: Place, at: u64, bytes: Bytes, tasks: &mut Vec<Task>) -> Option<()> {
        let entry = self.all.get_mut(&file)?;
        let before = entry.charged();
        entry.size = at + bytes.len() as u64;
        entry.writes += 1;
        entry.unwritten += 1;
        self.bytes += entry.charged() - before;
        self.waiting_bytes += bytes.len();
        self.waiting.insert(place, bytes.clone());
        let job = self.jobs.begin();
        let is_published = entry.record.is_some();
        tasks.push(Task::Write { job, file, place, spot: entry.spot, at, bytes });
        while self.bytes > self.capacity && self.evict_oldest(tasks) {}
        if self.bytes > self.capacity && !is_published {
            // Bodies that are on their way fill the cache: nothing else can make room.
            self.drop_file(file, tasks);
            return None;
        }
        Some(())
    }

    /// It stays until what replaces it lasts: a cut of the power then leaves one of the two.
    fn supersede(&mut self, older: u64, newer: u64) {
        let Some(entry) = self.all.get_mut(&older) else { return };
        entry.superseded = true;
        self.superseded_bytes += entry.charged();
        self.superseded.push((older, newer));
        self.older.entry(entry.digest).or_default().push(older);
        if let Some((spot, order)) = entry.order.take().map(|order| (entry.spot, order)) {
            self.leave(spot, order);
        }
    }

    /// Have a sync made, so that older versions may go; whether one is under way now.
    fn evict_superseded(&mut self, tasks: &mut Vec<Task>) -> bool {
        if self.syncs.is_empty() && !self.syncing {
            self.sync(None, tasks);
        }
        self.syncing || !self.syncs.is_empty()
    }

    /// Whether there was one.
    fn evict_oldest(&mut self, tasks: &mut Vec<Task>) -> bool {
        let Some(file) = self.order.pop_oldest() else { return false };
        if let Some(entry) = self.all.get_mut(&file) {
            entry.order = None;
        }
        self.evicted += 1;
        self.drop_file(file, tasks);
        true
    }

    /// The object was asked for.
    pub fn touch(&mut self, file: u64) {
        if let Some((spot, order)) = self.all.get(&file).and_then(|entry| Some((entry.spot, entry.order?))) {
            self.touch_order(spot, order);
        }
    }

    /// Lookups find it no more, and it is removed once nothing writes it and nobody has it open.
    pub fn drop_file(&mut self, file: u64, tasks: &mut Vec<Task>) {
        let Some(entry) = self.all.get_mut(&file).filter(|entry| !entry.gone) else { return };
        entry.gone = true;
        self.leaving += usize::from(entry.is_leaving());
        self.bytes = self.bytes.saturating_sub(entry.charged());
        if entry.superseded {
            self.superseded_bytes = self.superseded_bytes.saturating_sub(entry.charged());
        }
        let (digest, spot) = (entry.digest, entry.spot);
        if let Some(order) = entry.order.take() {
            self.leave(spot, order);
        }
        if self.newest.get(&digest) == Some(&file) {
            self.newest.remove(&digest);
            self.older.entry(digest).or_default().push(file);
            self.drop_older(&digest, file, tasks);
        }
        self.remove_if_done(file, tasks);
    }

    /// Versions before this one go, whoever has them open.
    fn drop_older(&mut self, digest: &Digest, newer: u64, tasks: &mut Vec<Task>) {
        let all = self.older.get(digest).cloned().unwrap_or_default();
        for file in all.into_iter().filter(|file| *file != newer) {
            self.held.remove(&file);
            self.drop_file(file, tasks);
            self.remove_if_done(file, tasks);
        }
    }

    fn remove_if_done(&mut self, file: u64, tasks: &mut Vec<Task>) {
        self.remove_as(file, None, tasks);
    }

    /// Remove a file that is to go, if nothing writes it and nobody has it open: as this job, which is open, or as a new one. It is put
    /// off while an older version may still be there after a cut of the power.
    fn remove_as(&mut self, file: u64, job: Option<u64>, tasks: &mut Vec<Task>) {
        let entry = self.all.get(&file).filter(|entry| entry.gone && entry.writes == 0);
        let Some(entry) = entry.filter(|_| !self.held.contains_key(&file)) else {
            if let Some(job) = job {
                self.jobs.open.remove(&job);
            }
            return;
        };
        let is_put_off = self.put_off.contains_key(&file);
        match (self.may_go(file, entry), job) {
            (true, job) => {
                let job = job.unwrap_or_else(|| self.jobs.begin());
                self.remove_now(file, job, tasks);
            }
            (false, Some(job)) if is_put_off => {
                self.jobs.open.remove(&job);
            }
            (false, None) if is_put_off => {}
            (false, job) => {
                let job = job.unwrap_or_else(|| self.jobs.begin());
                self.put_off.insert(file, job);
                self.sync_for_put_off(tasks);
            }
        }
    }

    /// Whether no older version would be there without it after a cut of the power, or nobody can tell any more.
    fn may_go(&self, file: u64, entry: &Entry) -> bool {
        let Some(older) = self.older.get(&entry.digest).filter(|older| older.contains(&file)) else { return true };
        let is_oldest = older.first() == Some(&file) && !self.lingering.contains_key(&entry.digest);
        is_oldest || entry.at_once || self.is_retired() || self.frozen
    }

    /// Remove what was put off and needs to wait no more.
    pub fn look_at_put_off(&mut self, tasks: &mut Vec<Task>) {
        let may_go = |(file, _): &(&u64, &u64)| self.all.get(file).is_none_or(|entry| self.may_go(**file, entry));
        let ready: Vec<_> = self.put_off.iter().filter(may_go).map(|(file, job)| (*file, *job)).collect();
        for (file, job) in ready {
            self.put_off.remove(&file);
            self.remove_as(file, Some(job), tasks);
        }
        self.sync_for_put_off(tasks);
    }

    /// The removal of a file, as this job.
    fn remove_now(&mut self, file: u64, job: u64, tasks: &mut Vec<Task>) {
        let Some(entry) = self.all.remove(&file) else {
            self.jobs.open.remove(&job);
            return;
        };
        if let Some(older) = self.older.get_mut(&entry.digest) {
            older.retain(|older| *older != file);
            if older.is_empty() {
                self.older.remove(&entry.digest);
            }
        }
        if self.frozen {
            self.jobs.open.remove(&job);
            return;
        }
        let has_newer = self.newest.contains_key(&entry.digest) || self.older.contains_key(&entry.digest);
        let older_of = Some(entry.digest).filter(|_| entry.record.is_some() && has_newer);
        if let Some(digest) = older_of {
            let one = self.lingering.entry(digest).or_default();
            (one.open, one.all) = (one.open + 1, one.all.wrapping_add(1));
        }
        self.removing += 1;
        tasks.push(Task::Remove { job, older_of, spot: entry.spot });
    }

    /// All versions of an object go, whoever has them open: one that stayed might come back after a cut of the power.
    pub fn remove(&mut self, digest: &Digest, tasks: &mut Vec<Task>) {
        let older = self.older.get(digest).into_iter().flatten().copied();
        for file in older.chain(self.newest.get(digest).copied()).collect::<Vec<_>>() {
            self.held.remove(&file);
            self.drop_file(file, tasks);
            self.remove_if_done(file, tasks);
        }
    }

    /// Somebody has a file open. False if it is gone.
    pub fn hold(&mut self, file: u64, until: Instant) -> bool {
        if self.all.get(&file).is_none_or(|entry| entry.gone) {
            return false;
        }
        let held = self.held.entry(file).or_insert(Held { count: 0, until });
        (held.count, held.until) = (held.count.saturating_add(1), until);
        true
    }

    /// Whoever had it open has closed it.
    pub fn release(&mut self, file: u64, tasks: &mut Vec<Task>) {
        let Some(held) = self.held.get_mut(&file) else { return };
        held.count = held.count.saturating_sub(1);
        if held.count == 0 {
            self.held.remove(&file);
            self.remove_if_done(file, tasks);
        }
    }

    /// Nobody holds a file for longer than was said.
    pub fn end_leases(&mut self, now: Instant, tasks: &mut Vec<Task>) {
        let over: Vec<_> = self.held.iter().filter(|(_, held)| held.until <= now).map(|(file, _)| *file).collect();
        for file in over {
            self.held.remove(&file);
            self.remove_if_done(file, tasks);
        }
    }

    /// A write has ended. A file of which one failed is gone: nobody knows what of it is there.
    pub fn written(&mut self, job: u64, file: u64, place: Place, ok: Result<(), bool>, tasks: &mut Vec<Task>) {
        let bytes = self.waiting.remove(&place).map_or(0, |bytes| bytes.len());
        self.waiting_bytes = self.waiting_bytes.saturating_sub(bytes);
        if let Some(entry) = self.all.get_mut(&file) {
            let was_leaving = entry.is_leaving();
            entry.writes = entry.writes.saturating_sub(1);
            self.leaving -= usize::from(was_leaving && !entry.is_leaving());
        }
        match ok {
            Ok(()) => self.failures.0 = 0,
            Err(is_full) => {
                self.write_errors += 1;
                if self.is_found(file) {
                    self.loss = Some(Loss { why: "a file could not be written, and is given up".into(), job });
                }
                self.drop_file(file, tasks);
                if is_full {
                    // Others have filled the file system: what was asked for least makes room for the next.
                    let enough = self.bytes.saturating_sub(2 * block_bytes(bytes as u64));
                    while self.bytes > enough && self.evict_oldest(tasks) {}
                } else {
                    self.failures.0 += 1;
                    if self.is_retired() {
                        self.look_at_put_off(tasks);
                    }
                }
            }
        }
        // A file that went meanwhile is removed by the same job: whoever syncs after the file went waits for that too.
        self.remove_as(file, Some(job), tasks);
        self.ready_sync(tasks);
    }

    /// A removal has ended.
    pub fn removed(&mut self, job: u64, older_of: Option<Digest>, spot: Spot, how: Removal, tasks: &mut Vec<Task>) {
        self.jobs.open.remove(&job);
        self.removing = self.removing.saturating_sub(1);
        // One that failed does not hold up others: whoever asked for it is told, and it is tried again.
        if let Some(one) = older_of.and_then(|digest| self.lingering.get_mut(&digest)) {
            one.open = one.open.saturating_sub(1);
        }
        match how {
            Removal::Gone => self.give_back(spot),
            Removal::Stranded => {
                if let Spot::File(spot) = spot {
                    self.urls.remove(spot.file);
                }
            }
            Removal::Failed => {
                self.write_errors += 1;
                self.undeleted.push(spot);
            }
        }
        self.sync_for_put_off(tasks);
        self.ready_sync(tasks);
    }

    /// Make all that was begun last, then tell, if anybody is to be told.
    pub fn sync(&mut self, done: Option<SyncDone>, tasks: &mut Vec<Task>) {
        self.syncs.push(Asked { up_to: self.jobs.next, done, failed: None });
        self.ready_sync(tasks);
    }

    /// Whether a sync would have something to do.
    pub fn is_unsynced(&self) -> bool {
        !self.unsynced.is_empty() || !self.superseded.is_empty() || !self.undeleted.is_empty()
    }

    /// A sync for removals that wait for one. It waits for no job: they are jobs themselves.
    fn sync_for_put_off(&mut self, tasks: &mut Vec<Task>) {
        let is_asked_for = self.syncs.iter().any(|asked| asked.up_to == 0);
        if self.put_off.is_empty() || is_asked_for || self.is_retired() {
            return;
        }
        let would_help = self.lingering.values().any(|one| one.open == 0)
            || self.superseded.iter().any(|(_, newer)| self.is_written(*newer));
        if would_help {
            self.syncs.push(Asked { up_to: 0, done: None, failed: None });
            self.ready_sync(tasks);
        }
    }

    /// One sync at a time, once all that it is for has ended.
    fn ready_sync(&mut self, tasks: &mut Vec<Task>) {
        let first_open = self.jobs.open.first().copied().unwrap_or(u64::MAX);
        if self.syncing || !self.syncs.iter().any(|asked| asked.up_to < first_open) {
            return;
        }
        self.syncing = true;
        let (asked, later) = mem::take(&mut self.syncs).into_iter().partition(|asked| asked.up_to < first_open);
        self.syncs = later;
        let (written, unsynced) =
            mem::take(&mut self.unsynced).into_iter().partition(|file: &u64| self.is_written(*file));
        // They stay on the list until they go: a removal of their object takes them at once.
        let superseded = self.superseded.iter().filter(|(_, newer)| self.is_written(*newer)).map(|(older, _)| *older);
        let mut superseded: Vec<u64> = superseded.collect();
        superseded.sort_unstable();
        self.unsynced = unsynced;
        let settled =
            self.lingering.iter().filter(|(_, one)| one.open == 0).map(|(digest, one)| (*digest, *one)).collect();
        tasks.push(Task::Sync(Covered {
            written,
            settled,
            superseded,
            undeleted: mem::take(&mut self.undeleted),
            deleted: Vec::new(),
            asked,
        }));
    }

    /// A sync has ended, well or for a reason. What it was for is not trusted if it failed: nobody knows what of it is there. Returns who
    /// waited for it, each with what else was lost.
    pub fn synced(
        &mut self,
        covered: Covered,
        error: Option<&str>,
        tasks: &mut Vec<Task>,
    ) -> Vec<(SyncDone, Option<String>)> {
        self.syncing = false;
        let Covered { written, settled, superseded, undeleted, deleted, asked } = covered;
        let ok = error.is_none();
        deleted.into_iter().for_each(|spot| self.give_back(spot));
        self.undeleted.extend(undeleted);
        self.superseded.retain(|(older, _)| superseded.binary_search(older).is_err());
        for (digest, one) in settled.into_iter().filter(|_| ok) {
            if self.lingering.get(&digest) == Some(&one) {
                self.lingering.remove(&digest);
            }
        }
        for older in superseded {
            self.all.get_mut(&older).into_iter().for_each(|entry| entry.at_once = ok);
            self.drop_file(older, tasks);
        }
        if let Some(error) = error {
            (self.sync_errors, self.failures.1) = (self.sync_errors + 1, self.failures.1 + 1);
            if written.iter().chain(&self.unsynced).any(|file| self.is_found(*file)) {
                self.loss = Some(Loss { why: error.to_owned(), job: self.jobs.next });
            }
            // The system tells of a write that came to nothing once: what was being written meanwhile may be it.
            let unfinished = self.all.iter().filter(|(_, entry)| entry.record.is_none()).map(|(file, _)| *file);
            let untrusted: Vec<_> =
                written.into_iter().chain(mem::take(&mut self.unsynced)).chain(unfinished).collect();
            untrusted.into_iter().for_each(|file| self.drop_file(file, tasks));
        } else {
            self.failures.1 = 0;
        }
        let told = self.tell(&asked);
        self.look_at_put_off(tasks);
        self.ready_sync(tasks);
        let waited = asked.into_iter().filter_map(|asked| Some((asked.done?, asked.failed)));
        waited.map(|(done, failed)| (done, failed.or_else(|| told.clone()))).collect()
    }

    /// What those who asked are told of, if anybody is. What is lost of later jobs is told once more.
    fn tell(&mut self, asked: &[Asked]) -> Option<String> {
        let up_to = asked.iter().filter(|asked| asked.done.is_some()).map(|asked| asked.up_to).max()?;
        let loss = self.loss.take()?;
        let told = loss.why.clone();
        // They asked before this was known.
        self.syncs.iter_mut().for_each(|asked| asked.failed = asked.failed.take().or_else(|| Some(told.clone())));
        self.loss = Some(loss).filter(|loss| loss.job > up_to);
        Some(told)
    }

    /// Whether lookups find a file.
    fn is_found(&self, file: u64) -> bool {
        self.all.get(&file).is_some_and(|entry| entry.record.is_some() && entry.is_newest())
    }

    /// Why nothing may be appended now.
    pub fn refusal(&self) -> Option<WhyNot> {
        if self.closed {
            return Some(WhyNot::Closed);
        }
        self.is_retired().then_some(WhyNot::Device)
    }
}

impl Entry {
    /// One that was found when the cache was opened.
    pub fn found(digest: Digest, spot: Spot, size: u64, parts_bytes: u64, record: Lies) -> Entry {
        Entry {
            digest,
            spot,
            size,
            parts_bytes,
            record: Some(record),
            order: None,
            writes: 0,
            unwritten: 0,
            begun: true,
            superseded: false,
            gone: false,
            at_once: false,
        }
    }

    /// What it takes of the space for files: the mapped file is there anyway.
    fn charged(&self) -> u64 {
        match self.spot {
            Spot::File(_) => block_bytes(self.size),
            Spot::Segment(_) => 0,
        }
    }

    /// Whether it is what lookups find of its object.
    pub fn is_newest(&self) -> bool {
        !self.gone && !self.superseded
    }

    /// Whether it is a file that goes once it is written.
    fn is_leaving(&self) -> bool {
        self.gone && self.writes > 0 && matches!(self.spot, Spot::File(_))
    }

    /// Whether it is on its way out.
    pub fn is_gone(&self) -> bool {
        self.gone
    }
}
