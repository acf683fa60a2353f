//! What lookups, writes and changes of one cache share.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use tinaja_clock::Clock;

use super::gather::Gather;
use super::groups;
use super::limits::MAX_HEAD_BYTES;
use super::list::Fills;
use crate::device::limits::reads;
use crate::engine::{Engine, Limits, Place, Placement, Places};
use crate::extents::ExtentReader;
use crate::hot::HotObjects;
use crate::memory::held::Held;
use crate::reuse::ReuseSample;
use crate::store::Source;
use crate::terms::{Digest, Key};
use crate::wait::{Alarm, Turns};

/// An engine with all that stands before it: hot objects, unfinished writes, objects that wait for their group, turns.
pub(crate) struct Objects {
    pub(crate) clock: Clock,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) limits: Limits,
    pub(crate) hot: HotObjects,
    pub(crate) reuse: ReuseSample,
    pub(crate) fills: Fills,
    pub(crate) alarm: Arc<Alarm>,
    pub(crate) counters: Counters,
    /// Turns to read, for each disk: one that stalls keeps its own.
    pub(crate) turns: Arc<[Turns]>,
    held: Held,
    /// What unfinished writes hold.
    pub(crate) written: Held,
    /// Objects that wait for their group, for each disk; none where related objects are not read together.
    pub(crate) gathers: Arc<[Gather]>,
    /// Publishing a version, updating a head and removing an object exclude each other, object by object.
    stripes: [Mutex<()>; 64],
}

/// What the store counts beside its engine.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) hits_memory: AtomicU64,
    pub(crate) hits_disk: AtomicU64,
    pub(crate) hits_fill: AtomicU64,
    pub(crate) misses: AtomicU64,
    pub(crate) stored: AtomicU64,
    pub(crate) stored_bytes: AtomicU64,
    pub(crate) not_stored: AtomicU64,
    pub(crate) timeouts: AtomicU64,
}

pub(crate) fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

impl Counters {
    /// An object was found.
    pub(crate) fn found(&self, source: Source) {
        add(if source == Source::Memory { &self.hits_memory } else { &self.hits_disk }, 1);
    }

    /// An object was not found.
    pub(crate) fn missed(&self) {
        add(&self.misses, 1);
    }

    /// A write ended, with so many bytes stored or none.
    pub(crate) fn ended(&self, bytes: Option<u64>) {
        match bytes {
            Some(bytes) => {
                add(&self.stored, 1);
                add(&self.stored_bytes, bytes);
            }
            None => add(&self.not_stored, 1),
        }
    }
}

impl Objects {
    /// Over an engine, with nothing under way. Errors: the system has no more threads.
    pub(crate) fn over(engine: Arc<dyn Engine>, hot: HotObjects, clock: Clock) -> std::io::Result<Arc<Self>> {
        let turns: Arc<[Turns]> = (0..engine.disks()).map(|_| Turns::new(reads())).collect();
        let ticking = turns.clone();
        let gathers = groups::gathers(&*engine, &clock);
        let objects = Arc::new(Objects {
            clock: clock.clone(),
            limits: engine.limits(),
            reuse: ReuseSample::new(engine.stats().capacity_bytes.saturating_mul(2)),
            engine,
            hot,
            fills: Fills::default(),
            alarm: Alarm::start(&clock, move || ticking.iter().for_each(Turns::tick))?,
            counters: Counters::default(),
            turns,
            held: Held::default(),
            written: Held::default(),
            gathers,
            stripes: [const { Mutex::new(()) }; 64],
        });
        groups::start(&objects)?;
        Ok(objects)
    }

    /// Lock the order of changes to an object. Held for memory work only.
    pub(crate) fn stripe(&self, digest: &Digest) -> Option<MutexGuard<'_, ()>> {
        self.stripes.get((digest.high() % 64) as usize).map(Mutex::lock)
    }

    /// The longest head that is stored, in bytes.
    pub(crate) fn most_head_bytes(&self) -> usize {
        MAX_HEAD_BYTES.min(self.limits.max_record_bytes / 2)
    }

    /// Turns to read from the disk of this number.
    pub(crate) fn turns_of(&self, disk: usize) -> Turns {
        let turns = self.turns.get(disk).or(self.turns.first());
        turns.cloned().unwrap_or_else(|| Turns::new(reads()))
    }

    pub(crate) fn extent_reader(&self, digest: Digest) -> ExtentReader {
        ExtentReader::new(self.engine.clone(), self.turns_of(self.engine.disk_of(&digest)), self.held.clone(), digest)
    }

    /// Keep a whole object in memory if the record at `place` is its newest.
    pub(crate) fn keep_hot(&self, key: &Key, digest: &Digest, head: &[u8], body: Cow<'_, [u8]>, place: Place) {
        let at = Placement::of(*digest).named(key.name());
        let newest = || self.engine.is_newest(&at, place, Places::newest_first(&mut [place]));
        self.hot.insert(digest, key, head, body, place, newest);
    }
}
