//! An engine of this test's over the store's log: it streams long bodies and finds objects by their groups. Its superblock
//! has a section of its own length, which no other engine has.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;
use tinaja_store::engine::registry::{Ask, Cut, EngineRecord, Ground, OnDevice, Opening};
use tinaja_store::engine::{
    BodyWriter, Buffered, Capabilities, Engine, FetchDone, Fetched, Found, Kind, Limits, Place, Placement, Places,
    Probe, Record, Setting, SyncDone, Takes, WholeBodies, no_cut_to_tell, none_wrong,
};
use tinaja_store::layout::log::{LogCounters, LogFault, RawRecord};
use tinaja_store::layout::opening::{OpenedLog, open_log};
use tinaja_store::layout::record::HEADER_BYTES;
use tinaja_store::layout::{Log, LogLayout, Stamp};
use tinaja_store::{Digest, ReadError, Settings, Stats, WhyNot};

/// Lookups that were found in the group of who asked.
pub static BY_GROUP: AtomicU64 = AtomicU64::new(0);

/// A setting of its own, kept in its section.
pub static SHADE: Setting = Setting {
    name: "shade",
    takes: Takes::Number { least: 1, most: 9 },
    value_name: "N",
    help: "A number of no use (default 1)",
    lasts: true,
    made_with: "a shade of",
    unit: "of nine",
    missing: "has no shade",
    out_of_range: "{} is no shade",
    nothing: None,
};

/// The record: all that the rest of Tinaja knows of it.
pub static GROUPED: EngineRecord = EngineRecord {
    name: "test-grouped",
    about: "finds by group",
    settings: &[&SHADE],
    counts_objects: true,
    wrong: none_wrong,
    figures: &[],
    inspect: no_cut_to_tell,
    ground: Ground::Device(OnDevice { names: &[("test-grouped", &[])], made_with, cut, cut_before }),
};

fn made_with(section: &[u8]) -> Settings {
    Settings::new().with(&SHADE, section.first().copied().unwrap_or(0).into())
}

#[derive(Debug)]
struct GroupedCut {
    layout: LogLayout,
    mean_object_bytes: u64,
    stamp: Stamp,
    shade: u8,
}

fn cut(ask: &Ask<'_>) -> Option<Box<dyn Cut>> {
    let layout = LogLayout::new(ask.reserved, ask.bytes.checked_sub(ask.reserved)?, 4096)?;
    let shade = ask.settings.get(&SHADE).unwrap_or(1) as u8;
    Some(Box::new(GroupedCut { layout, mean_object_bytes: ask.mean_object_bytes, stamp: ask.stamp, shade }))
}

fn cut_before(section: &[u8], ask: &Ask<'_>) -> Option<Box<dyn Cut>> {
    let (shade, rest) = section.split_first()?;
    let &[bytes, mean_object_bytes] = rest.as_chunks::<8>().0 else { return None };
    let bytes = u64::from_le_bytes(bytes);
    let layout = LogLayout::new(ask.reserved, bytes.checked_sub(ask.reserved)?, 4096).filter(|_| bytes <= ask.bytes)?;
    let mean_object_bytes = u64::from_le_bytes(mean_object_bytes);
    Some(Box::new(GroupedCut { layout, mean_object_bytes, stamp: ask.stamp, shade: *shade }))
}

impl Cut for GroupedCut {
    fn end(&self) -> u64 {
        self.layout.base + self.layout.log_bytes()
    }

    fn mean_object_bytes(&self) -> u64 {
        self.mean_object_bytes
    }

    fn made_with(&self) -> Settings {
        Settings::new().with(&SHADE, self.shade.into())
    }

    fn section(&self) -> Vec<u8> {
        [&[self.shade][..], &self.end().to_le_bytes(), &self.mean_object_bytes.to_le_bytes()].concat()
    }

    fn open_unguarded(&self, opening: Opening) -> Result<Arc<dyn Engine>, String> {
        let Opening { device, flush_every, read_only, .. } = opening;
        let (layout, stamp) = (self.layout, self.stamp);
        let OpenedLog { frontier, found, .. } =
            open_log(&device, layout, stamp, read_only, flush_every, Place(0), None)?;
        let mut index = Index::default();
        for entry in &found.entries {
            match entry.kind {
                Kind::Whole | Kind::Large => index.put(entry.id_low, None, entry.place),
                Kind::Tombstone => index.remove(entry.id_low),
                Kind::Extent => {}
            }
        }
        let (counters, pool) = (LogCounters::default(), Arc::default());
        let log = Arc::new(Log { device, layout, stamp, frontier, counters, pool, ahead: None });
        Ok(Arc::new(Grouped(Arc::new(Inner { log, index: Mutex::new(index) }))))
    }
}

/// What lies where, by group. After a restart all are in none.
#[derive(Default)]
struct Index {
    groups: HashMap<Option<u64>, HashMap<u64, Place>>,
    puts: u64,
}

impl Index {
    fn find(&self, at: &Placement<'_>) -> Option<Place> {
        let id = at.digest.low();
        if let Some(place) = at.group.and_then(|_| self.groups.get(&at.group)?.get(&id)) {
            BY_GROUP.fetch_add(1, Relaxed);
            return Some(*place);
        }
        self.groups.values().find_map(|group| group.get(&id)).copied()
    }

    fn put(&mut self, id: u64, group: Option<u64>, place: Place) {
        self.remove(id);
        self.groups.entry(group).or_default().insert(id, place);
        self.puts += 1;
    }

    fn remove(&mut self, id: u64) {
        self.groups.values_mut().for_each(|group| {
            group.remove(&id);
        });
    }
}

/// The engine. Memory: some 40 bytes a live record.
pub struct Grouped(Arc<Inner>);

struct Inner {
    log: Arc<Log>,
    index: Mutex<Index>,
}

impl Inner {
    fn append(&self, cx: &mut Context<'_>, group: Option<u64>, record: &Record<'_>) -> Poll<Result<Place, WhyNot>> {
        let mut index = self.index.lock();
        let place = ready!(self.log.frontier.poll_append(cx, &Record { related_bytes: 0, ..*record }))?;
        match record.kind {
            Kind::Whole | Kind::Large => index.put(record.id.low(), group, place),
            Kind::Tombstone => index.remove(record.id.low()),
            Kind::Extent => {}
        }
        if index.puts.is_multiple_of(1024) {
            let frontier = &self.log.frontier;
            index.groups.values_mut().for_each(|group| group.retain(|_, place| frontier.is_live(*place)));
        }
        Poll::Ready(Ok(place))
    }
}

fn fetched(read: Result<RawRecord, LogFault>) -> Fetched {
    match read {
        Ok(RawRecord { header, payload, from_memory }) => {
            let body_at = header.name_bytes + header.head_bytes;
            Fetched::Record(Found {
                place: header.place,
                kind: header.kind,
                id: header.id,
                name: payload.slice(..header.name_bytes),
                head: payload.slice(header.name_bytes..body_at),
                body: payload.slice(body_at..),
                from_memory,
            })
        }
        Err(LogFault::Gone | LogFault::Another) => Fetched::Missing,
        Err(LogFault::Corrupt) => Fetched::Failed(ReadError::Corrupt),
        Err(LogFault::Device) => Fetched::Failed(ReadError::Device),
    }
}

impl Engine for Grouped {
    fn name(&self) -> &'static str {
        GROUPED.name
    }

    fn limits(&self) -> Limits {
        let max_record_bytes = self.0.log.layout.max_record_bytes();
        let extent_bytes = (max_record_bytes / 2).next_power_of_two().min(256 << 10);
        let max_object_bytes = self.0.log.layout.log_bytes() / 4;
        Limits { max_record_bytes, extent_bytes, inline_bytes: extent_bytes, max_object_bytes }
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities { buffered: Some(self), bodies: Some(self), ..Capabilities::default() }
    }

    fn probe(&self, at: &Placement<'_>) -> Probe {
        match self.0.index.lock().find(at) {
            Some(place) if self.0.log.frontier.is_live(place) => Probe::At(Places::newest_first(&mut [place])),
            _ => Probe::Absent,
        }
    }

    fn fetch(&self, at: &Placement<'_>, mut places: Places, done: FetchDone) {
        let Some(place) = places.pop() else { return done(Fetched::Missing) };
        self.0.log.read(place, Some(at.digest), 8192, Box::new(move |read| done(fetched(read))));
    }

    fn fetch_at(&self, id: &Digest, place: Place, body_bytes: usize, done: FetchDone) {
        let told = move |read| done(fetched(read));
        self.0.log.read_reachable(place, Some(*id), HEADER_BYTES + body_bytes, Box::new(told));
    }

    fn fetch_any(&self, place: Place, done: FetchDone) {
        self.0.log.read(place, None, 8192, Box::new(move |read| done(fetched(read))));
    }

    fn poll_append(
        &self,
        cx: &mut Context<'_>,
        at: &Placement<'_>,
        record: &Record<'_>,
    ) -> Poll<Result<Place, WhyNot>> {
        self.0.append(cx, at.group, record)
    }

    fn poll_remove(&self, cx: &mut Context<'_>, at: &Placement<'_>) -> Poll<Result<Option<Place>, WhyNot>> {
        let removed = ready!(self.0.append(cx, None, &Record::tombstone(at.digest)));
        self.0.index.lock().remove(at.digest.low());
        Poll::Ready(removed.map(Some))
    }

    fn forget(&self, at: &Placement<'_>, place: Place) {
        let mut index = self.0.index.lock();
        if index.find(at).is_some_and(|newest| newest <= place) {
            index.remove(at.digest.low());
        }
    }

    fn touch(&self, _at: &Placement<'_>, _place: Place) {}

    fn is_live(&self, place: Place) -> bool {
        self.0.log.frontier.is_live(place)
    }

    fn sync(&self, _of: Option<&Digest>, done: SyncDone) {
        self.0.log.frontier.sync(done);
    }

    fn walk(&self, cursor: u64, most: usize) -> (Vec<Place>, Option<u64>) {
        let index = self.0.index.lock();
        let mut places: Vec<_> = index.groups.values().flat_map(HashMap::values).copied().collect();
        places.retain(|place| place.0 >= cursor);
        places.sort_unstable();
        let next = places.get(most.max(1)).map(|place| place.0);
        places.truncate(most.max(1));
        (places, next)
    }

    fn stats(&self) -> Stats {
        let (index, frontier) = (self.0.index.lock(), &self.0.log.frontier);
        let live = index.groups.values().flat_map(HashMap::values).filter(|place| frontier.is_live(**place));
        Stats { live_objects: live.count() as u64, ..self.0.log.stats() }
    }

    fn refuse_appends(&self) {
        self.0.log.frontier.refuse();
    }

    fn close(&self, done: SyncDone) {
        let device = self.0.log.device.clone();
        let told = move |result| {
            // On a thread of its own: the device's are needed for its end.
            std::thread::spawn(move || {
                device.release();
                done(result);
            });
        };
        self.0.log.frontier.close(Box::new(told));
    }
}

impl Buffered for Grouped {
    fn is_in_memory(&self, place: Place) -> bool {
        self.0.log.is_in_memory(place)
    }

    fn write_out(&self) {
        self.0.log.frontier.write_out();
    }
}

impl WholeBodies for Grouped {
    fn begin(&self, at: &Placement<'_>) -> Box<dyn BodyWriter> {
        Box::new(GroupedBody { inner: self.0.clone(), id: at.digest, group: at.group })
    }
}

/// A body on its way into the log. Parts of one that is given up are found by nobody, and overwritten some day.
struct GroupedBody {
    inner: Arc<Inner>,
    id: Digest,
    group: Option<u64>,
}

impl BodyWriter for GroupedBody {
    fn poll_part(&mut self, cx: &mut Context<'_>, part: &[u8]) -> Poll<Result<Place, WhyNot>> {
        let (id, kind) = (self.id, Kind::Extent);
        let record = Record { id, kind, name: &[], head: &[], body: part, related_bytes: 0 };
        self.inner.append(cx, self.group, &record)
    }

    fn poll_end(&mut self, cx: &mut Context<'_>, record: &Record<'_>) -> Poll<Result<Place, WhyNot>> {
        self.inner.append(cx, self.group, record)
    }
}
