//! The engine's contract, over index and log; how it is planned and opened.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use parking_lot::{Mutex, RwLock};

use super::format::{Cut, WAYS};
use super::index::Index;
use super::options::HashCacheLogOptions;
use super::positions::Positions;
use super::recover::{self, Opened};
use super::{HashCacheLog, Inner, snapshot};
use crate::device::Device;
use crate::engine::answer::limits;
use crate::engine::epoch::Epochs;
use crate::engine::hashcache::places::{Where, meaning};
use crate::engine::{
    Capabilities, Engine, FetchDone, Kind, Limits, Place, Placement, Places, Probe, Record, RelatedRuns, SavesEpochs,
    SyncDone, closing, parts,
};
use crate::index::hash::HASH_BITS;
use crate::index::limits::MAX_SLOTS;
use crate::layout::ahead::Ahead;
use crate::layout::limits::MAX_AHEAD_BYTES;
use crate::layout::log::{LogCounters, LogFault};
use crate::layout::reach::Reach;
use crate::layout::record::HEADER_BYTES;
use crate::layout::{Log, LogLayout, SnapshotHeader, Stamp};
use crate::memory::aligned::ALIGN;
use crate::terms::{Digest, Stats, WhyNot};

impl HashCacheLog {
    /// How a disk of `bytes`, of which the first `reserved` are taken, is shared between snapshots and log for objects
    /// of such a mean size. The stamp is the caller's. `None` if the disk is too small.
    pub fn plan(
        bytes: u64,
        reserved: u64,
        block: u64,
        mean_object_bytes: u64,
        stamp: Stamp,
        reads_ahead: bool,
    ) -> Option<HashCacheLogOptions> {
        Self::plan_cut(bytes, reserved, block, mean_object_bytes, stamp, (HASH_BITS, reads_ahead))
    }

    /// [`HashCacheLog::plan`], with so many bits of hash.
    pub(crate) fn plan_cut(
        bytes: u64,
        reserved: u64,
        block: u64,
        mean_object_bytes: u64,
        stamp: Stamp,
        (hash_bits, has_reaches): (u8, bool),
    ) -> Option<HashCacheLogOptions> {
        let slots = (bytes / mean_object_bytes.max(1)).clamp(1, MAX_SLOTS);
        let snapshots = Index::snapshot_layout(slots, Cut { hash_bits, has_reaches }, reserved);
        let base = reserved.checked_add(snapshots.area_bytes().checked_mul(2)?)?;
        let layout = LogLayout::new(base, bytes.checked_sub(base)?, block)?;
        HashCacheLogOptions::of(layout, slots, reserved, mean_object_bytes, stamp, (hash_bits, has_reaches))
    }

    /// Open what is on the device: the newest snapshot, and the log from there on; then begin a fresh region. A device
    /// that holds nothing yet opens empty. Errors: the device's, as text.
    pub fn open(device: Arc<dyn Device>, options: &HashCacheLogOptions) -> Result<Self, String> {
        Self::open_beside(device, None, options)
    }

    /// [`HashCacheLog::open`], for LogLRU with the device of its positions where that is not the log's. Errors: it is
    /// missing, or fails.
    pub fn open_beside(
        device: Arc<dyn Device>,
        positions: Option<Arc<dyn Device>>,
        options: &HashCacheLogOptions,
    ) -> Result<Self, String> {
        let HashCacheLogOptions { layout, stamp, .. } = *options;
        let Opened { index, frontier, snapshot, damaged } = recover::open(&device, positions, options)?;
        let ahead = options.reads_ahead.then(|| Ahead::of(MAX_AHEAD_BYTES));
        let (counters, pool) = (LogCounters::default(), Arc::default());
        let log = Arc::new(Log { device, layout, stamp, frontier, counters, pool, ahead });
        // Half as much again as the mean reads most small objects whole; of large ones a block more than the mean does.
        let mean = options.mean_object_bytes as usize;
        let first_read_bytes = mean.saturating_add((mean / 2).min(ALIGN));
        let inner = Arc::new(Inner {
            name: options.name,
            index,
            damaged_at_open: damaged,
            mean_object_bytes: options.mean_object_bytes,
            first_read_bytes: first_read_bytes.clamp(HEADER_BYTES, layout.max_record_bytes()),
            false_reads: AtomicU64::new(0),
            regions_swept: AtomicU64::new(log.frontier.next().0 / layout.region_bytes),
            publishing: RwLock::new(()),
            snapshots: options.snapshots.filter(|_| !options.read_only),
            epochs: Epochs::opened(snapshot.map_or(0, |snapshot| snapshot.epoch)),
            snapshot: Mutex::new(snapshot.unwrap_or(SnapshotHeader { number: 0, up_to: Place(0), epoch: 0 })),
            log,
        });
        if inner.snapshots.is_some() {
            snapshot::start(&inner).map_err(|error| error.to_string())?;
        }
        Ok(HashCacheLog(inner))
    }
}

impl Inner {
    /// Append a record and enter it.
    fn append(&self, cx: &mut Context<'_>, record: &Record<'_>) -> Poll<Result<Place, WhyNot>> {
        // A record that nothing is known to be related to is read by its own length.
        let related_bytes = self.log.related_bytes(record);
        let record = &Record { related_bytes, ..*record };
        let _publishing = self.publishing.read();
        let place = ready!(self.log.frontier.poll_append(cx, record));
        if let Ok(place) = place {
            match record.kind {
                Kind::Whole | Kind::Large => {
                    self.index.insert_low(record.id.low(), place, Reach::of_record(place, record));
                }
                Kind::Tombstone => self.index.remove_low(record.id.low()),
                Kind::Extent => {}
            }
            self.sweep();
        }
        Poll::Ready(place)
    }

    /// Sweep for every region begun since the last time. Whoever appends pays for its share: a few dozen sets.
    fn sweep(&self) {
        let now = self.log.frontier.next().0 / self.log.layout.region_bytes;
        let before = self.regions_swept.fetch_max(now, Relaxed);
        (before..now).for_each(|region| self.index.sweep(region));
    }
}

impl Engine for HashCacheLog {
    fn name(&self) -> &'static str {
        self.0.name
    }

    fn limits(&self) -> Limits {
        limits(&self.0.log.layout)
    }

    fn capabilities(&self) -> Capabilities<'_> {
        let related = self.0.log.ahead.is_some().then_some(self as &dyn RelatedRuns);
        let epochs = matches!(self.0.index, Positions::All(_)).then_some(self as &dyn SavesEpochs);
        let (buffered, together) = (Some(&self.0.log as _), Some(&self.0.log as _));
        Capabilities { buffered, related, together, epochs, ..Capabilities::default() }
    }

    fn probe(&self, at: &Placement<'_>) -> Probe {
        self.0.index.probe(at.digest.low())
    }

    fn fetch(&self, at: &Placement<'_>, places: Places, done: FetchDone) {
        match &self.0.index {
            Positions::Some(index) if places == Places::default() => self.0.locate(index, at.digest, done),
            _ => self.0.try_next(at.digest, places, done),
        }
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
        if record.kind.is_indexed() {
            ready!(self.0.index.poll_room(cx.waker()));
        }
        self.0.append(cx, record)
    }

    fn poll_remove(&self, cx: &mut Context<'_>, at: &Placement<'_>) -> Poll<Result<Option<Place>, WhyNot>> {
        let removed = ready!(self.0.append(cx, &Record::tombstone(at.digest)));
        if removed.is_err() {
            // It could not be written down; until a restart the index alone keeps the object away.
            self.0.index.remove_low(at.digest.low());
        }
        Poll::Ready(removed.map(Some))
    }

    fn is_newest(&self, at: &Placement<'_>, place: Place, seen: Places) -> bool {
        let newer = |places: Places| places.iter().take_while(|other| *other >= place).collect::<Vec<_>>();
        match self.probe(at) {
            // Before it was read, its position may not have been known.
            Probe::At(now) if matches!(self.0.index, Positions::Some(_)) => newer(now) == [place],
            Probe::At(now) => newer(now) == newer(seen),
            Probe::Absent | Probe::AskDisk => false,
        }
    }

    fn goes_by_origin(&self) -> bool {
        false
    }

    fn forget(&self, at: &Placement<'_>, place: Place) {
        self.0.index.remove_to(at.digest.low(), place);
    }

    fn touch(&self, at: &Placement<'_>, place: Place) {
        self.0.index.touch(at.digest.low(), place);
    }

    fn is_live(&self, place: Place) -> bool {
        self.0.log.frontier.is_live(place)
    }

    fn sync(&self, _of: Option<&Digest>, done: SyncDone) {
        self.0.log.frontier.sync(done);
    }

    fn walk(&self, cursor: u64, most: usize) -> (Vec<Place>, Option<u64>) {
        let mut found = Vec::new();
        let mut set = cursor;
        while set < self.0.index.sets() && found.len() + WAYS <= most.max(WAYS) {
            found.extend(self.0.index.places(set));
            set += 1;
        }
        (found, (set < self.0.index.sets()).then_some(set))
    }

    /// An object has its set. Slots whose positions are on disk are known by their numbers, which others may have meanwhile.
    fn walks_all(&self) -> bool {
        matches!(self.0.index, Positions::All(_))
    }

    fn fetch_any(&self, place: Place, done: FetchDone) {
        let arrived = parts::of_any(done);
        let (log, bytes) = (self.0.log.clone(), self.0.first_read_bytes);
        match (&self.0.index, meaning(place)) {
            (Positions::Some(index), Where::Bin(slot)) => index.locate_slot(
                slot,
                Box::new(move |located| match located {
                    Some((place, ..)) => log.read(place, None, bytes, Box::new(arrived)),
                    None => arrived(Err(LogFault::Gone)),
                }),
            ),
            _ => log.read(place, None, bytes, Box::new(arrived)),
        }
    }

    fn stats(&self) -> Stats {
        Stats {
            slots: self.0.index.sets() * WAYS as u64,
            mean_object_bytes: self.0.mean_object_bytes,
            live_objects: self.0.index.live(),
            lost_to_full_sets: self.0.index.lost(),
            index_bytes: self.0.index.allocated_bytes(),
            false_reads: self.0.false_reads.load(Relaxed),
            damaged_at_open: self.0.damaged_at_open,
            ..self.0.log.stats().with(self.0.index.stats())
        }
    }

    fn refuse_appends(&self) {
        self.0.log.frontier.refuse();
    }

    fn close(&self, done: SyncDone) {
        let (engine, device) = (self.0.clone(), self.0.log.device.clone());
        self.0.index.close();
        let begin = |told| self.0.log.frontier.close(told);
        let last = move || {
            engine.index.ended();
            snapshot::take(&engine);
        };
        closing::close(device, self.0.index.device_apart(), begin, last, done);
    }
}

impl SavesEpochs for HashCacheLog {
    fn may_begin_epoch(&self) -> bool {
        // Nobody finds what a region holds of which a write has failed. Opened anew, its records may be sound, and the index leads there.
        self.0.snapshots.is_some() && !self.0.log.frontier.is_any_poisoned()
    }

    fn begin_epoch(&self, number: u64) {
        self.0.epochs.begin(number);
    }

    fn epochs(&self) -> (u64, u64) {
        (self.0.epochs.begun(), self.0.epochs.saved())
    }
}

impl RelatedRuns for HashCacheLog {
    fn log_bytes(&self, record: &Record<'_>) -> usize {
        self.0.log.layout.bytes_of(record)
    }
}
