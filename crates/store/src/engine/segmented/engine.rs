//! The engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use parking_lot::RwLock;

use super::keep::Budget;
use super::options::SegmentedOptions;
use super::recover::{self, Opened};
use crate::device::Device;
use crate::engine::answer::limits;
use crate::engine::segments::figures::{CLEANED_SEGMENTS, EVICTED_OBJECTS, KEPT_BYTES, PASSED_OVER_SEGMENTS};
use crate::engine::segments::{Finds, Indexed, cleaner};
use crate::engine::{
    Capabilities, Engine, FetchDone, Hold, Holds, Limits, Place, Placement, Places, Probe, Record, SyncDone, closing,
    parts,
};
use crate::layout::Log;
use crate::layout::log::LogCounters;
use crate::terms::{Digest, EngineFigures, Stats, WhyNot};

/// The log-structured cache. Memory: its index, the frontier's buffers, and one segment while one is cleaned whose best
/// objects are kept.
pub struct Segmented(Arc<Inner>);

pub(super) struct Inner {
    pub(super) options: SegmentedOptions,
    pub(super) indexed: Arc<Indexed>,
    /// The number of the header that says that the cache is open.
    opened: u64,
    damaged_at_open: u64,
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
        let indexed = Arc::new(Indexed::new(index, log, segments, options.mean_object_bytes, Box::new(|_| None)));
        let inner = Arc::new(Inner {
            options: *options,
            indexed,
            opened: number,
            damaged_at_open: damaged,
            cleaned: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
            budget: Budget::of(options.keep_percent),
            publishing: RwLock::new(()),
        });
        if options.keep_percent > 0 {
            cleaner::reserve(&inner.indexed.segments);
        }
        if !options.read_only {
            cleaner::start(&inner).map_err(|error| error.to_string())?;
        }
        Ok(Segmented(inner))
    }
}

impl Inner {
    /// Append a record and enter it. Nothing else may come in between: `publishing` is held.
    pub(super) fn append(&self, cx: &mut Context<'_>, record: &Record<'_>) -> Poll<Result<Place, WhyNot>> {
        let place = ready!(self.indexed.log.frontier.poll_append(cx, record))?;
        self.indexed.index.enter(record.kind, record.id.low(), place);
        Poll::Ready(Ok(place))
    }

    /// Append a record and enter it, beside others that do so. What it takes may be written once more.
    fn append_alone(&self, cx: &mut Context<'_>, record: &Record<'_>) -> Poll<Result<Place, WhyNot>> {
        let _publishing = self.publishing.read();
        let place = ready!(self.append(cx, record));
        if place.is_ok() {
            self.budget.earn(self.indexed.log.layout.bytes_of(record) as u64);
        }
        Poll::Ready(place)
    }
}

impl Engine for Segmented {
    fn name(&self) -> &'static str {
        "segmented"
    }

    fn limits(&self) -> Limits {
        limits(&self.0.indexed.log.layout)
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            buffered: Some(&self.0.indexed.log),
            together: Some(&self.0.indexed.log),
            holds: Some(self),
            ..Capabilities::default()
        }
    }

    fn probe(&self, at: &Placement<'_>) -> Probe {
        self.0.indexed.probe(&at.digest)
    }

    fn fetch(&self, at: &Placement<'_>, places: Places, done: FetchDone) {
        self.0.indexed.fetch(at.digest, places, done);
    }

    fn fetch_at(&self, id: &Digest, place: Place, body_bytes: usize, done: FetchDone) {
        parts::fetch_at(&self.0.indexed.log, id, place, body_bytes, done);
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
            self.0.indexed.index.remove_low(at.digest.low());
        }
        Poll::Ready(removed.map(Some))
    }

    fn keeps_body_at(&self, _place: Place) -> bool {
        // It would be gone with its segment, long before the new head: a new version is written whole (3.2.5).
        false
    }

    fn goes_by_origin(&self) -> bool {
        false
    }

    fn forget(&self, at: &Placement<'_>, place: Place) {
        self.0.indexed.index.forget(at.digest.low(), place);
    }

    fn touch(&self, at: &Placement<'_>, place: Place) {
        // Who leaves depends on nothing else.
        if self.0.options.keep_percent > 0 {
            self.0.indexed.index.touch(at.digest.low(), place);
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
        true
    }

    fn fetch_any(&self, place: Place, done: FetchDone) {
        self.0.indexed.fetch_any(place, done);
    }

    fn stats(&self) -> Stats {
        let inner = &self.0;
        Stats {
            damaged_at_open: inner.damaged_at_open,
            of_engine: EngineFigures::default()
                .with(&CLEANED_SEGMENTS, inner.cleaned.load(Relaxed))
                .with(&PASSED_OVER_SEGMENTS, inner.indexed.segments.passed_over())
                .with(&EVICTED_OBJECTS, inner.evicted.load(Relaxed))
                .with(&KEPT_BYTES, inner.budget.spent()),
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
            // Nobody is between appending a record and entering it.
            let _alone = inner.publishing.write();
            recover::save(
                &*inner.indexed.log.device,
                &inner.options,
                inner.opened,
                &inner.indexed.index,
                &inner.indexed.log.frontier,
            );
        };
        closing::close(device, None, begin, save, done);
    }
}

impl Holds for Segmented {
    fn hold(&self, places: &[Place]) -> Hold {
        self.0.indexed.hold(places)
    }
}
