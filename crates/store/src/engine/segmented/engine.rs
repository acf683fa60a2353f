//! The engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use parking_lot::RwLock;

use super::clean;
use super::figures::{CLEANED_SEGMENTS, EVICTED_OBJECTS, KEPT_BYTES, PASSED_OVER_SEGMENTS};
use super::format::WAYS;
use super::index::Index;
use super::keep::{Budget, RESERVE};
use super::options::SegmentedOptions;
use super::recover::{self, Opened};
use crate::device::Device;
use crate::engine::answer::{found, limits, read_error};
use crate::engine::{
    Capabilities, Engine, FetchDone, Fetched, Hold, Holds, Kind, Limits, Place, Placement, Places, Probe, Record,
    SyncDone,
};
use crate::engine::{closing, parts};
use crate::layout::log::{LogCounters, LogFault, RawRecord};
use crate::layout::record::HEADER_BYTES;
use crate::layout::{Log, Segments};
use crate::memory::aligned::ALIGN;
use crate::terms::{Digest, EngineFigures, Stats, WhyNot};

/// The log-structured cache. Memory: its index, the frontier's buffers, and one segment while one is cleaned whose best
/// objects are kept.
pub struct Segmented(Arc<Inner>);

pub(super) struct Inner {
    pub(super) options: SegmentedOptions,
    pub(super) index: Index,
    pub(super) log: Arc<Log>,
    pub(super) segments: Arc<Segments>,
    /// The number of the header that says that the cache is open.
    opened: u64,
    damaged_at_open: u64,
    first_read_bytes: usize,
    false_reads: AtomicU64,
    pub(super) cleaned: AtomicU64,
    pub(super) evicted: AtomicU64,
    /// What may be written once more.
    pub(super) budget: Budget,
    /// Read while a record is appended and entered; written where nothing else may be.
    pub(super) publishing: RwLock<()>,
}

impl Segmented {
    /// Open what is on the device, and begin a fresh segment. A device that holds nothing yet opens empty. Errors: the
    /// device's, as text.
    pub fn open(device: Arc<dyn Device>, options: &SegmentedOptions) -> Result<Self, String> {
        let Opened { index, frontier, number, damaged, was_clean } = recover::open(&device, options)?;
        tracing::debug!(was_clean, damaged, "the index of the segments is there");
        let segments = frontier.segments().cloned().ok_or("the log has no segments")?;
        let (layout, stamp) = (options.layout, options.stamp);
        let (counters, pool) = (LogCounters::default(), Arc::default());
        let log = Arc::new(Log { device, layout, stamp, frontier, counters, pool, ahead: None });
        let mean = options.mean_object_bytes as usize;
        let first_read_bytes = mean.saturating_add((mean / 2).min(ALIGN));
        let inner = Arc::new(Inner {
            options: *options,
            index,
            log,
            segments,
            opened: number,
            damaged_at_open: damaged,
            first_read_bytes: first_read_bytes.clamp(HEADER_BYTES, layout.max_record_bytes()),
            false_reads: AtomicU64::new(0),
            cleaned: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
            budget: Budget::of(options.keep_percent),
            publishing: RwLock::new(()),
        });
        if options.keep_percent > 0 {
            inner.segments.reserve(RESERVE);
        }
        if !options.read_only {
            clean::start(&inner).map_err(|error| error.to_string())?;
        }
        Ok(Segmented(inner))
    }
}

impl Inner {
    /// Append a record and enter it. Nothing else may come in between: `publishing` is held.
    pub(super) fn append(&self, cx: &mut Context<'_>, record: &Record<'_>) -> Poll<Result<Place, WhyNot>> {
        let place = ready!(self.log.frontier.poll_append(cx, record))?;
        match record.kind {
            Kind::Whole | Kind::Large => self.index.insert_low(record.id.low(), place),
            Kind::Tombstone => self.index.remove_low(record.id.low()),
            Kind::Extent => {}
        }
        Poll::Ready(Ok(place))
    }

    /// Append a record and enter it, beside others that do so. What it takes may be written once more.
    fn append_alone(&self, cx: &mut Context<'_>, record: &Record<'_>) -> Poll<Result<Place, WhyNot>> {
        let _publishing = self.publishing.read();
        let place = ready!(self.append(cx, record));
        if place.is_ok() {
            self.budget.earn(self.log.layout.bytes_of(record) as u64);
        }
        Poll::Ready(place)
    }
}

impl Engine for Segmented {
    fn name(&self) -> &'static str {
        "segmented"
    }

    fn limits(&self) -> Limits {
        limits(&self.0.log.layout)
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            buffered: Some(&self.0.log),
            together: Some(&self.0.log),
            holds: Some(self),
            ..Capabilities::default()
        }
    }

    fn probe(&self, at: &Placement<'_>) -> Probe {
        match self.0.index.find(at.digest.low()) {
            Some(place) if self.0.log.frontier.is_live(place) => Probe::At(Places::newest_first(&mut [place])),
            _ => Probe::Absent,
        }
    }

    fn fetch(&self, at: &Placement<'_>, mut places: Places, done: FetchDone) {
        let Some(place) = places.pop() else { return done(Fetched::Missing) };
        let (inner, id) = (self.0.clone(), at.digest);
        let arrived = move |read: Result<RawRecord, LogFault>| match read {
            Ok(record) if record.header.kind.is_indexed() => done(found(record)),
            Ok(_) | Err(LogFault::Another) => {
                inner.false_reads.fetch_add(1, Relaxed);
                done(Fetched::Missing);
            }
            Err(LogFault::Gone) => done(Fetched::Missing),
            Err(fault) => {
                inner.index.remove_to(id.low(), place);
                done(Fetched::Failed(read_error(fault)));
            }
        };
        self.0.log.read(place, Some(id), self.0.first_read_bytes, Box::new(arrived));
    }

    fn fetch_at(&self, id: &Digest, place: Place, body_bytes: usize, done: FetchDone) {
        parts::fetch_at(&self.0.log, id, place, body_bytes, done);
    }

    fn poll_append(
        &self,
        cx: &mut Context<'_>,
        _at: &Placement<'_>,
        record: &Record<'_>,
    ) -> Poll<Result<Place, WhyNot>> {
        // What lies behind it is nothing to this engine.
        self.0.append_alone(cx, &Record { related_bytes: 0, ..*record })
    }

    fn poll_remove(&self, cx: &mut Context<'_>, at: &Placement<'_>) -> Poll<Result<Option<Place>, WhyNot>> {
        let removed = ready!(self.0.append_alone(cx, &Record::tombstone(at.digest)));
        if removed.is_err() {
            // It could not be written down; until a restart the index alone keeps the object away.
            self.0.index.remove_low(at.digest.low());
        }
        Poll::Ready(removed.map(Some))
    }

    fn keeps_body_at(&self, _place: Place) -> bool {
        // It would be gone with its segment, long before the new head: a new version is written whole (3.2.5).
        false
    }

    fn forget(&self, at: &Placement<'_>, place: Place) {
        self.0.index.remove_to(at.digest.low(), place);
    }

    fn touch(&self, at: &Placement<'_>, place: Place) {
        // Who leaves depends on nothing else.
        if self.0.options.keep_percent > 0 {
            self.0.index.touch(at.digest.low(), place);
        }
    }

    fn is_live(&self, place: Place) -> bool {
        self.0.log.frontier.is_live(place)
    }

    fn sync(&self, _of: Option<&Digest>, done: SyncDone) {
        self.0.log.frontier.sync(done);
    }

    fn walk(&self, cursor: u64, most: usize) -> (Vec<Place>, Option<u64>) {
        let (mut found, mut set, sets) = (Vec::new(), cursor, self.0.index.slots().len());
        while set < sets && found.len() + WAYS <= most.max(WAYS) {
            found.extend(self.0.index.places(set));
            set += 1;
        }
        (found, (set < sets).then_some(set))
    }

    fn fetch_any(&self, place: Place, done: FetchDone) {
        self.0.log.read(place, None, self.0.first_read_bytes, Box::new(parts::of_any(done)));
    }

    fn stats(&self) -> Stats {
        let inner = &self.0;
        Stats {
            slots: inner.index.slots().len() * WAYS as u64,
            mean_object_bytes: inner.options.mean_object_bytes,
            live_objects: inner.index.live(),
            lost_to_full_sets: inner.index.lost(),
            index_bytes: inner.index.slots().allocated_bytes(),
            false_reads: inner.false_reads.load(Relaxed),
            damaged_at_open: inner.damaged_at_open,
            of_engine: EngineFigures::default()
                .with(&CLEANED_SEGMENTS, inner.cleaned.load(Relaxed))
                .with(&PASSED_OVER_SEGMENTS, inner.segments.passed_over())
                .with(&EVICTED_OBJECTS, inner.evicted.load(Relaxed))
                .with(&KEPT_BYTES, inner.budget.spent()),
            ..inner.log.stats()
        }
    }

    fn refuse_appends(&self) {
        self.0.log.frontier.refuse();
    }

    fn close(&self, done: SyncDone) {
        let (inner, device) = (self.0.clone(), self.0.log.device.clone());
        let begin = |told| self.0.log.frontier.close(told);
        let save = move || {
            // Nobody is between appending a record and entering it.
            let _alone = inner.publishing.write();
            recover::save(&*inner.log.device, &inner.options, inner.opened, &inner.index, &inner.log.frontier);
        };
        closing::close(device, None, begin, save, done);
    }
}

impl Holds for Segmented {
    fn hold(&self, places: &[Place]) -> Hold {
        let mut regions: Vec<_> = places.iter().map(|place| self.0.log.layout.region_of(*place)).collect();
        regions.sort_unstable();
        regions.dedup();
        regions.retain(|region| self.0.segments.hold(*region));
        if regions.is_empty() {
            return Hold::default();
        }
        let segments = self.0.segments.clone();
        Hold::ending(move || regions.into_iter().for_each(|region| segments.release(region)))
    }
}
