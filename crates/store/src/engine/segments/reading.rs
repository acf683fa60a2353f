//! Finding and reading records by the index.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::index::Index;
use crate::engine::answer::{found, read_error};
use crate::engine::{FetchDone, Fetched, Hold, Place, Places, Probe, parts};
use crate::layout::log::{LogFault, RawRecord};
use crate::layout::{Log, Segments};
use crate::memory::aligned::ALIGN;
use crate::terms::{Digest, Stats};

/// What tells from memory where the object of a hash may lie.
pub trait Finds: Send + Sync + 'static {
    /// Where that is.
    fn find(&self, id_low: u64) -> Option<Place>;

    /// Drop what leads to exactly this place, whose segment stays.
    fn forget(&self, id_low: u64, place: Place);

    /// How many slots it has.
    fn slot_count(&self) -> u64;

    /// Slots that lead to a record, as they were counted.
    fn live(&self) -> u64;

    /// Objects dropped because their set was full.
    fn lost(&self) -> u64;

    /// Bytes of memory.
    fn allocated_bytes(&self) -> u64;
}

/// A log in segments, and the index that leads into it.
pub struct Indexed<I = Index> {
    /// What lies where.
    pub index: I,
    /// The records.
    pub log: Arc<Log>,
    /// Of its frontier.
    pub segments: Arc<Segments>,
    mean_object_bytes: u64,
    likely: Likely,
    /// Records that were read and were another object's.
    pub false_reads: AtomicU64,
}

/// How many bytes the record at a place likely takes; `None` where nothing is known.
pub type Likely = Box<dyn Fn(Place) -> Option<u64> + Send + Sync>;

impl<I: Finds> Indexed<I> {
    /// Of records about which `likely` says nothing, the first read is half as long again as the mean object, by 4 KiB at most.
    pub fn new(index: I, log: Arc<Log>, segments: Arc<Segments>, mean_object_bytes: u64, likely: Likely) -> Self {
        Indexed { index, log, segments, mean_object_bytes, likely, false_reads: AtomicU64::new(0) }
    }

    /// Bytes of the first read of the record at a place.
    pub fn first_read(&self, place: Place) -> usize {
        let mean = self.mean_object_bytes;
        let bytes = (self.likely)(place).unwrap_or(mean.saturating_add((mean / 2).min(ALIGN as u64)));
        (bytes as usize).clamp(self.log.layout.header_bytes(), self.log.layout.max_record_bytes())
    }

    /// See [`crate::engine::Engine::probe`].
    pub fn probe(&self, id: &Digest) -> Probe {
        match self.index.find(id.low()) {
            Some(place) if self.log.frontier.is_live(place) => Probe::At(Places::newest_first(&mut [place])),
            _ => Probe::Absent,
        }
    }

    /// See [`crate::engine::Engine::fetch`].
    pub fn fetch(self: &Arc<Self>, id: Digest, mut places: Places, done: FetchDone) {
        let Some(place) = places.pop() else { return done(Fetched::Missing) };
        let indexed = self.clone();
        let arrived = move |read: Result<RawRecord, LogFault>| match read {
            Ok(record) if record.header.kind.is_indexed() => done(found(record)),
            Ok(_) | Err(LogFault::Another) => {
                indexed.false_reads.fetch_add(1, Relaxed);
                done(Fetched::Missing);
            }
            Err(LogFault::Gone) => done(Fetched::Missing),
            Err(fault) => {
                indexed.index.forget(id.low(), place);
                done(Fetched::Failed(read_error(fault)));
            }
        };
        self.log.read(place, Some(id), self.first_read(place), Box::new(arrived));
    }

    /// See [`crate::engine::Engine::fetch_any`].
    pub fn fetch_any(&self, place: Place, done: FetchDone) {
        self.log.read(place, None, self.first_read(place), Box::new(parts::of_any(done)));
    }

    /// See [`crate::engine::Holds::hold`].
    pub fn hold(&self, places: &[Place]) -> Hold {
        let mut regions: Vec<_> = places.iter().map(|place| self.log.layout.region_of(*place)).collect();
        regions.sort_unstable();
        regions.dedup();
        regions.retain(|region| self.segments.hold(*region));
        if regions.is_empty() {
            return Hold::default();
        }
        let segments = self.segments.clone();
        Hold::ending(move || regions.into_iter().for_each(|region| segments.release(region)))
    }

    /// What index and log count; an engine adds its own.
    pub fn stats(&self) -> Stats {
        Stats {
            slots: self.index.slot_count(),
            mean_object_bytes: self.mean_object_bytes,
            live_objects: self.index.live(),
            lost_to_full_sets: self.index.lost(),
            index_bytes: self.index.allocated_bytes(),
            false_reads: self.false_reads.load(Relaxed),
            ..self.log.stats()
        }
    }
}
