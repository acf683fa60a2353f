//! The engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard, RwLock};

use super::index::AnyIndex;
use super::options::GenerationalOptions;
use super::recover::{self, Opened};
use super::snapshot::{self, Covered};
use super::storing::Storing;
use super::tally::{Appended, Tally};
use crate::device::Device;
use crate::engine::answer::{limits, table_bytes};
use crate::engine::epoch::Epochs;
use crate::engine::segments::figures::{
    CLEANED_SEGMENTS, EVICTED_OBJECTS, INDEX_DISK_BYTES, INDEX_READS, KEPT_BYTES, PASSED_OVER_SEGMENTS,
    RETURNED_OBJECTS, SNAPSHOT_BYTES,
};
use crate::engine::segments::{Finds, Indexed, Recalled, cleaner};
use crate::engine::{
    Capabilities, Engine, FetchDone, Hold, Holds, Kind, Limits, Place, Placement, Places, Probe, Record, SavesEpochs,
    SyncDone, closing, is_newest_by, parts,
};
use crate::layout::Log;
use crate::layout::log::LogCounters;
use crate::layout::record::HEADER_BYTES;
use crate::layout::table::Table;
use crate::replace::Generations;
use crate::replace::generations::Log as LogNumber;
use crate::terms::{Digest, EngineFigures, Stats, WhyNot};

/// Segments that are free, or being cleaned.
const FREE: u64 = 2;

/// Logs by class of size and generation. Memory: its index, a batch for each log in use, the policy's tables (2.5 KiB a log),
/// and a request's bytes while a segment is cleaned.
pub struct Generational(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) options: GenerationalOptions,
    pub(super) indexed: Arc<Indexed<AnyIndex>>,
    pub(super) policy: Generations,
    pub(super) tally: Arc<Tally>,
    pub(super) storing: Storing,
    /// The policy's time up to which what has left was aged.
    pub(super) aged_at: AtomicU64,
    pub(super) covered: Mutex<Covered>,
    pub(super) epochs: Epochs,
    /// Held while a segment is cleaned, and while the last snapshot is taken.
    pub(super) cleaning: Mutex<()>,
    /// Failed syncs of which it is known what they may have taken.
    pub(super) syncs_failed: AtomicU64,
    damaged_at_open: u64,
    stored: AtomicU64,
    pub(super) rewritten: AtomicU64,
    /// Bytes of marks of removal beside those that clients asked for, and of what segments say that have left.
    pub(super) marks: AtomicU64,
    pub(super) snapshot_bytes: AtomicU64,
    pub(super) cleaned: AtomicU64,
    pub(super) evicted: AtomicU64,
    returned: AtomicU64,
    /// Read while a record is appended and entered; written where nothing else may be.
    pub(super) publishing: RwLock<()>,
}

impl Generational {
    /// Open what is on the device. A device that holds nothing yet opens empty. Errors: the device's, as text.
    pub fn open(device: Arc<dyn Device>, options: &GenerationalOptions) -> Result<Self, String> {
        let Opened { index, frontier, policy, tally, covered, epoch, damaged, is_void, lacks_snapshot } =
            recover::open(&device, options)?;
        let segments = frontier.segments().cloned().ok_or("the log has no segments")?;
        let (layout, stamp) = (options.layout, options.stamp);
        let (counters, pool) = (LogCounters::default(), Arc::default());
        let log = Arc::new(Log { device, layout, stamp, frontier, counters, pool, ahead: None });
        let tally = Arc::new(tally);
        let likely = {
            let (tally, shape) = (tally.clone(), policy.shape());
            Box::new(move |place| tally.likely_bytes(place, shape))
        };
        let inner = Arc::new(Inner {
            options: *options,
            indexed: Arc::new(Indexed::new(index, log, segments, options.mean_object_bytes, likely)),
            aged_at: AtomicU64::new(policy.now()),
            policy,
            tally,
            storing: Storing::default(),
            covered,
            epochs: Epochs::opened(epoch),
            cleaning: Mutex::new(()),
            syncs_failed: AtomicU64::new(0),
            damaged_at_open: damaged,
            stored: AtomicU64::new(0),
            rewritten: AtomicU64::new(0),
            marks: AtomicU64::new(0),
            snapshot_bytes: AtomicU64::new(0),
            cleaned: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
            returned: AtomicU64::new(0),
            publishing: RwLock::new(()),
        });
        cleaner::reserve(&inner.indexed.segments);
        if !options.read_only {
            if is_void {
                // What lies on the disk is to mean nothing from now on, whatever is found of it later.
                let void = snapshot::take(&inner, false) && snapshot::take(&inner, false);
                void.then_some(()).ok_or("the disk takes no snapshot of the index")?;
            } else if lacks_snapshot {
                // Segments that were begun before and are empty come into use once the log has gone round, though nothing was written
                // over: the next opening could not tell. If the disk does not take it, nothing is cleaned before it does.
                snapshot::take(&inner, false);
            }
            cleaner::start(&inner).map_err(|error| error.to_string())?;
        }
        Ok(Generational(inner))
    }
}

impl Inner {
    /// Append a record to a log; where it lies, and the bytes it takes. It is not entered.
    pub(super) fn append(
        &self,
        cx: &mut Context<'_>,
        log: u8,
        record: &Record<'_>,
    ) -> Poll<Result<(Place, u64), WhyNot>> {
        self.append_summed(cx, log, record, self.indexed.log.stamp.payload_sum(record))
    }

    /// The same of a record whose checksum is known.
    pub(super) fn append_summed(
        &self,
        cx: &mut Context<'_>,
        log: u8,
        record: &Record<'_>,
        sum: u64,
    ) -> Poll<Result<(Place, u64), WhyNot>> {
        let (place, number) = ready!(self.indexed.log.frontier.poll_append_summed(log.into(), cx, record, sum))?;
        let bytes = self.indexed.log.layout.bytes_of(record) as u64;
        self.tally.appended(&Appended {
            log,
            place,
            bytes,
            entry: (record.kind != Kind::Extent).then_some(number),
            is_object: record.kind.is_indexed(),
            now: self.policy.now(),
        });
        Poll::Ready(Ok((place, bytes)))
    }

    /// Append a client's record and enter it, beside others that do so.
    fn append_new(&self, cx: &mut Context<'_>, at: &Placement<'_>, record: &Record<'_>) -> Poll<Result<Place, WhyNot>> {
        let _publishing = self.publishing.read();
        ready!(self.poll_room(cx, record))?;
        let log = self.log_of(at, record);
        let (place, bytes) = ready!(self.append(cx, log, record))?;
        self.indexed.index.enter(record.kind, record.id.low(), place, |hits, place| self.worth(hits, place));
        let now = self.policy.stored(bytes);
        self.stored.fetch_add(bytes, Relaxed);
        match record.kind {
            Kind::Extent => self.storing.part(&record.id, log, place, now),
            Kind::Large => {
                let table = Table::decode(&Bytes::copy_from_slice(record.body));
                let first = table.as_ref().and_then(|table| table.extents.first()).map(|extent| extent.place);
                self.storing.stored(&record.id, first, now);
                self.policy.stored_in(LogNumber(log), table.map_or(0, |table| table.body_bytes()));
            }
            Kind::Tombstone => self.storing.removed(&record.id),
            Kind::Whole => self.policy.stored_in(LogNumber(log), bytes),
        }
        Poll::Ready(Ok(place))
    }

    /// Ready when the index takes what a record says. A removal it takes always, and what is to be told that there is no disk any more.
    fn poll_room(&self, cx: &mut Context<'_>, record: &Record<'_>) -> Poll<Result<(), WhyNot>> {
        let frontier = &self.indexed.log.frontier;
        let has_room =
            || !matches!(record.kind, Kind::Whole | Kind::Large) || self.indexed.index.has_room(record.id.low());
        if has_room() {
            return Poll::Ready(Ok(()));
        }
        self.indexed.segments.call();
        let waits = frontier.wait(cx.waker());
        match waits {
            _ if frontier.is_closed() || frontier.is_retired() => Poll::Ready(Ok(())),
            false => Poll::Ready(Err(WhyNot::Slow)),
            // A merge may have ended in between.
            true if has_room() => Poll::Ready(Ok(())),
            true => Poll::Pending,
        }
    }

    fn log_of(&self, at: &Placement<'_>, record: &Record<'_>) -> u8 {
        let of_parts = || self.storing.log_of(&record.id).map(LogNumber);
        let log = match record.kind {
            Kind::Whole => self.log_of_whole(record.id.low(), self.indexed.log.layout.bytes_of(record) as u64),
            Kind::Large => {
                let bytes = Table::decode(&Bytes::copy_from_slice(record.body)).map_or(0, |table| table.body_bytes());
                of_parts().unwrap_or_else(|| self.policy.log_of_large(Some(bytes), self.is_wanted(record.id.low())))
            }
            Kind::Extent => of_parts()
                .unwrap_or_else(|| self.policy.log_of_large(at.expected_bytes, self.is_wanted(record.id.low()))),
            Kind::Tombstone => self.policy.log_of_new(0, false),
        };
        log.0
    }

    /// A newer version of an object has shown already how popular it is.
    fn log_of_whole(&self, id_low: u64, bytes: u64) -> LogNumber {
        match self.indexed.index.recall(id_low) {
            Recalled::There(before, hits) => {
                let known = self.tally.known(self.indexed.log.layout.region_number(before));
                self.policy.log_of_kept(LogNumber(known.log), bytes, hits)
            }
            Recalled::HasLeft => {
                self.returned.fetch_add(1, Relaxed);
                self.policy.log_of_new(bytes, true)
            }
            Recalled::Unknown => self.policy.log_of_new(bytes, false),
        }
    }

    /// Whether an object was asked for before: it has left not long ago, or the version before it was found.
    fn is_wanted(&self, id_low: u64) -> bool {
        match self.indexed.index.recall(id_low) {
            Recalled::There(_, hits) => hits > 0,
            recalled => recalled == Recalled::HasLeft,
        }
    }

    /// What an object at a place with so many hits is worth to the index, as a number that keeps the order.
    pub(super) fn worth(&self, hits: u8, place: Place) -> u64 {
        let known = self.tally.known(self.indexed.log.layout.region_number(place));
        self.policy.worth_of_one(&known.segment(known.objects), hits).max(0.0).to_bits()
    }

    /// What snapshots cover. It is kept while one is written, so others wait by the clock.
    pub(super) fn covered(&self) -> MutexGuard<'_, Covered> {
        self.indexed.log.device.clock().lock(&self.covered)
    }

    /// Bytes of records written so far, new and again.
    pub(super) fn written(&self) -> u64 {
        self.stored.load(Relaxed) + self.rewritten.load(Relaxed) + self.marks.load(Relaxed)
    }
}

impl Engine for Generational {
    fn name(&self) -> &'static str {
        "generational"
    }

    fn limits(&self) -> Limits {
        // An object goes into its class, and is written again, if it is one record: parts are as large as a record can be, up to
        // 256 KiB.
        let (layout, most) = (&self.0.indexed.log.layout, limits(&self.0.indexed.log.layout));
        let extent_bytes = (most.max_record_bytes - layout.header_bytes()).min(256 << 10);
        // The store counts with the usual header; this engine's is longer.
        let max_record_bytes = most.max_record_bytes - (layout.header_bytes() - HEADER_BYTES);
        // A large object may push out most of what is there, but never itself; what is being filled or is free is no room for it.
        let room = layout.regions.saturating_sub(self.0.policy.logs() as u64 + FREE) * layout.region_bytes / 10 * 9;
        let most_of_disk = room.min(layout.log_bytes() / 5 * 3).max(most.max_object_bytes);
        let max_object_bytes = table_bytes(max_record_bytes, extent_bytes).min(most_of_disk);
        Limits { max_record_bytes, extent_bytes, inline_bytes: extent_bytes, max_object_bytes }
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            buffered: Some(&self.0.indexed.log),
            together: Some(&self.0.indexed.log),
            holds: Some(self),
            epochs: Some(self),
            ..Capabilities::default()
        }
    }

    fn probe(&self, at: &Placement<'_>) -> Probe {
        AnyIndex::probe(&self.0.indexed, &at.digest)
    }

    fn fetch(&self, at: &Placement<'_>, places: Places, done: FetchDone) {
        AnyIndex::fetch(&self.0.indexed, at.digest, places, done);
    }

    fn fetch_at(&self, id: &Digest, place: Place, body_bytes: usize, done: FetchDone) {
        parts::fetch_at(&self.0.indexed.log, id, place, body_bytes, done);
    }

    fn poll_append(
        &self,
        cx: &mut Context<'_>,
        at: &Placement<'_>,
        record: &Record<'_>,
    ) -> Poll<Result<Place, WhyNot>> {
        // What lies behind it is nothing to this engine.
        self.0.append_new(cx, at, &Record { related_bytes: 0, ..*record })
    }

    fn poll_remove(&self, cx: &mut Context<'_>, at: &Placement<'_>) -> Poll<Result<Option<Place>, WhyNot>> {
        let removed = ready!(self.0.append_new(cx, at, &Record::tombstone(at.digest)));
        if removed.is_err() {
            // It could not be written down; until a restart the index alone keeps the object away.
            self.0.indexed.index.remove_low(at.digest.low());
        }
        Poll::Ready(removed.map(Some))
    }

    fn keeps_body_at(&self, _place: Place) -> bool {
        // It would be gone with its segment, long before the new head: a new version is written whole.
        false
    }

    fn goes_by_origin(&self) -> bool {
        false
    }

    fn forget(&self, at: &Placement<'_>, place: Place) {
        self.0.indexed.index.forget(at.digest.low(), place);
    }

    fn touch(&self, at: &Placement<'_>, place: Place) {
        // Wherever it lies by now: whoever has a copy in memory need not know that it was written again.
        let Some(place) = self.0.indexed.index.hit(at.digest.low(), place) else { return };
        let known = self.0.tally.known(self.0.indexed.log.layout.region_number(place));
        let segment = known.segment(0);
        self.0.policy.hit(segment.log, self.0.policy.now().saturating_sub(segment.born));
    }

    fn is_newest(&self, at: &Placement<'_>, place: Place, seen: Places) -> bool {
        match self.0.indexed.index.table() {
            Some(table) => table.leads_to(at.digest.low(), place),
            None => is_newest_by(self.probe(at), place, seen),
        }
    }

    fn is_live(&self, place: Place) -> bool {
        self.0.indexed.log.frontier.is_live(place)
    }

    fn sync(&self, _of: Option<&Digest>, done: SyncDone) {
        self.0.indexed.log.frontier.sync(done);
    }

    fn walk(&self, cursor: u64, most: usize) -> (Vec<Place>, Option<u64>) {
        self.0.indexed.index.walk(cursor, most)
    }

    /// A record that the cleaner writes again keeps its slot, and so does a newer version.
    fn walks_all(&self) -> bool {
        self.0.indexed.index.table().is_none()
    }

    fn fetch_any(&self, place: Place, done: FetchDone) {
        AnyIndex::fetch_any(&self.0.indexed, place, done);
    }

    fn stats(&self) -> Stats {
        let inner = &self.0;
        let (disk_bytes, reads) = inner.indexed.index.table().map_or((0, 0), |table| table.on_disk());
        Stats {
            damaged_at_open: inner.damaged_at_open,
            of_engine: EngineFigures::default()
                .with(&CLEANED_SEGMENTS, inner.cleaned.load(Relaxed))
                .with(&PASSED_OVER_SEGMENTS, inner.indexed.segments.passed_over())
                .with(&EVICTED_OBJECTS, inner.evicted.load(Relaxed))
                .with(&RETURNED_OBJECTS, inner.returned.load(Relaxed))
                .with(&KEPT_BYTES, inner.rewritten.load(Relaxed))
                .with(&SNAPSHOT_BYTES, inner.snapshot_bytes.load(Relaxed))
                .with(&INDEX_DISK_BYTES, disk_bytes)
                .with(&INDEX_READS, reads),
            ..inner.indexed.stats()
        }
    }

    fn refuse_appends(&self) {
        self.0.indexed.log.frontier.refuse();
    }

    fn close(&self, done: SyncDone) {
        let (inner, device) = (self.0.clone(), self.0.indexed.log.device.clone());
        let begin = |told| self.0.indexed.log.frontier.close(told);
        let save = move || {
            let _alone = inner.indexed.log.device.clock().lock(&inner.cleaning);
            snapshot::take(&inner, true);
        };
        closing::close(device, None, begin, save, done);
    }
}

impl SavesEpochs for Generational {
    fn may_begin_epoch(&self) -> bool {
        // Nobody finds what a segment holds of which a write has failed, until the cache is opened anew.
        !self.0.options.read_only && !self.0.indexed.log.frontier.is_any_poisoned()
    }

    fn begin_epoch(&self, number: u64) {
        self.0.epochs.begin(number);
    }

    fn epochs(&self) -> (u64, u64) {
        (self.0.epochs.begun(), self.0.epochs.saved())
    }
}

impl Holds for Generational {
    fn hold(&self, places: &[Place]) -> Hold {
        self.0.indexed.hold(places)
    }
}
