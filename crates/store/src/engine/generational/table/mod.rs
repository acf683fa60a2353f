//! The index on the disk, and as much of it in memory as a budget allows.
//!
//! On the disk it is the snapshot of the index that an index in memory would have there. So a cache is opened with either,
//! from one start to the next. Here it is what lookups go by: sets of slots in checked pages, made anew in sequence
//! whenever enough has changed. In memory are
//!
//! - what has changed since ([`changes`]): nothing of that may be dropped;
//! - a [`Filter`] for each page, of what it holds;
//! - [`Resident`] copies of slots, with what memory is left. Those may be dropped at any time.
//!
//! A lookup asks in this order, and reads the page if none of them knows ([`look`]). What is new goes into the changes. A merge reads
//! each page, enters its changes, and writes it to the other area; when all of it is on the disk, lookups go by that one, and
//! changes from before it began become copies.
//!
//! Whoever had to read the table for an object reads on behind its record, and what lies there is copied too: what was stored together is
//! asked for together. Only where all records of a part of the segment count: which do, the table says, and not the log ([`superseded`]).
//!
//! A slot of the table leads somewhere as long as its segment is the one that was there when the table was written: so what leaves
//! with its segment costs no change.
//!
//! Invariants:
//! - A change goes before a copy, and a copy before the table. While a change of a spot is there, no copy of it is made.
//! - A copy is made of what the newest table says, and no other: else one that was read slowly would outlive a newer version.
//! - A record whose segment stays, and to which no change and no slot of the table leads any more, is superseded before the change that
//!   said so is dropped. What is not, and may be in the table by its filter, is where the table leads.

mod budget;
mod changes;
mod entering;
mod look;
mod merge;
mod page;
mod spot;
mod superseded;
mod walk;

#[cfg(test)]
mod tests;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use parking_lot::{Mutex, RwLock};

pub use self::look::fetch;
pub use self::walk::{fetch_any, walk};

use self::budget::Division;
use self::changes::{Change, Changes};
use self::page::Said;
use self::spot::{Cut, Spot};
use self::superseded::Superseded;
use super::format::Format;
use crate::device::{Device, blocking};
use crate::engine::segments::{Displaced, Finds, MOST_HITS, Recalled, Slot, WAYS};
use crate::engine::{Place, Places, Probe};
use crate::index::{Filter, Resident, SlotBits};
use crate::layout::{LogLayout, Segments, SnapshotLayout, Snapshots, Stamp};
use crate::memory::Pool;

/// Bits of hash of a copy: one lookup in 128 of what has none, in a full set, finds another object's, and reads for nothing.
const COPY_HASH_BITS: u8 = 10;
/// Copies that there are at the least: what was just looked up is known for a moment.
const LEAST_COPIES: u64 = 256;
/// What was looked up and had left not long ago, of which so much is known until it is stored again.
const RETURNING: usize = 256;

/// Bytes of memory for each segment beside what is known of its records: how many slots lead into it, and where it began.
const SEGMENT_BYTES: u64 = (size_of::<AtomicU32>() + size_of::<u64>()) as u64;
/// What is known of segments is in the budget as far as it is no more than this part of it.
const SEGMENTS_SHARE: u64 = 8;

/// How the table is planned.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Where it lies.
    pub saved: SnapshotLayout,
    /// Slots.
    pub slots: u64,
    /// How it lies there.
    pub format: Format,
    /// Bytes of memory, for all of it.
    pub memory_bytes: u64,
    /// The likely size of an object.
    pub mean_object_bytes: u64,
    /// Of the log.
    pub layout: LogLayout,
    /// Seeds the checksums.
    pub stamp: Stamp,
}

/// See the module. Memory: the budget, of which changes may take more for a moment (see [`Changes`]); 20 to 44 bytes a segment; a run of pages while they are
/// merged, and one while they are written, 1 MiB each; and a page for each lookup that reads one.
pub struct Table {
    plan: Plan,
    cut: Cut,
    /// Places of a segment: as many units.
    units_each: NonZeroU32,
    /// Those of the log, once it is known which there are.
    segments: Option<Arc<Segments>>,
    changes: Changes,
    filter: Filter,
    copies: Resident,
    displaced: Displaced,
    superseded: Superseded,
    current: RwLock<Arc<Current>>,
    live_in: Box<[AtomicU32]>,
    merging: Mutex<merge::Merging>,
    /// One more than the number of the segment that is being cleaned.
    leaving: AtomicU64,
    returning: Box<[AtomicU32]>,
    lost: AtomicU64,
    /// Lookups that read a page.
    reads: AtomicU64,
    /// Somebody waits for a merge.
    is_pressed: AtomicBool,
    /// The newest merge could not be written.
    has_failed: AtomicBool,
    walked: Mutex<Option<walk::Walked>>,
}

/// The table that lookups go by.
struct Current {
    /// Of its snapshot; `None` while there is none.
    number: Option<u64>,
    /// For each segment, one more than where it began when the table was written.
    homes: Box<[u64]>,
}

/// Where pages are read that somebody waits for, and with what buffers.
pub type Reading<'a> = (&'a dyn Device, &'a Arc<Pool>);

/// What memory knows of a spot.
enum Known {
    At(Place),
    Absent,
    /// The page says it.
    Ask,
}

impl Table {
    /// An empty one, to load pages into. Allocates what it needs.
    pub fn new(plan: &Plan) -> Self {
        let Plan { saved, slots, format, memory_bytes, mean_object_bytes, layout, .. } = *plan;
        let sets = slots.div_ceil(WAYS as u64).max(1);
        let cut = Cut::of(sets, format);
        let objects = (layout.log_bytes() / mean_object_bytes.max(1)).clamp(1, sets * WAYS as u64);
        let (displaced, superseded) = (Displaced::unknown(sets), Superseded::new(&layout));
        let of_segments = superseded.allocated_bytes() + layout.regions * SEGMENT_BYTES;
        // Where that is much of the budget, on small disks, it comes on top: nothing else would be left.
        let of_segments = if of_segments <= memory_bytes / SEGMENTS_SHARE { of_segments } else { 0 };
        let left = memory_bytes.saturating_sub(displaced.allocated_bytes() + of_segments);
        let bits = left as f64 * 8.0 / objects as f64;
        let division = Division::of(bits, saved.area_bytes() as f64 / (objects * mean_object_bytes.max(1)) as f64);
        let of = |bits: f64| (objects as f64 * bits / 8.0) as u64;
        let merged_at = (objects as f64 * division.changes) as u64;
        let changes = Changes::within(merged_at, sets, cut.shape.sets_per_shard());
        let filter = Filter::within(cut.shape.shards(), objects, of(division.filter_bits));
        let left = left.saturating_sub(changes.allocated_bytes() + filter.allocated_bytes());
        // Positions below the highest, which stands for an empty slot.
        let position_bits = (layout.log_bytes() / layout.unit).ilog2() + 1;
        let copy = SlotBits { hash: COPY_HASH_BITS, position: position_bits as u8 };
        let least = LEAST_COPIES * copy.all() as u64 / WAYS as u64;
        let regions = layout.regions as usize;
        Table {
            plan: *plan,
            cut,
            units_each: NonZeroU32::new((layout.region_bytes / layout.unit) as u32).unwrap_or(NonZeroU32::MIN),
            segments: None,
            changes,
            filter,
            copies: Resident::within(left.max(least), copy),
            displaced,
            superseded,
            current: RwLock::new(Arc::new(Current { number: None, homes: Box::default() })),
            live_in: (0..regions).map(|_| AtomicU32::new(0)).collect(),
            merging: Mutex::default(),
            leaving: AtomicU64::new(0),
            returning: (0..RETURNING).map(|_| AtomicU32::new(0)).collect(),
            lost: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            is_pressed: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            walked: Mutex::default(),
        }
    }

    fn position(&self, place: Place) -> u32 {
        (place.0 % self.plan.layout.log_bytes() / self.plan.layout.unit) as u32
    }

    #[inline]
    fn segment_at(&self, position: u32) -> usize {
        (position / self.units_each) as usize
    }

    fn home(&self, number: usize) -> Option<Place> {
        self.segments.as_ref()?.home(number)
    }

    /// Where a record at a position was written, unless its segment is free.
    fn place(&self, position: u32) -> Option<Place> {
        let home = self.home(self.segment_at(position))?;
        Some(Place(home.0 + u64::from(position) * self.plan.layout.unit % self.plan.layout.region_bytes))
    }

    /// Where a slot of that table leads, if its segment is the same still.
    fn place_of(&self, current: &Current, slot: &Slot) -> Option<Place> {
        let position = slot.position?;
        let place = self.place(position)?;
        let home = current.homes.get(self.segment_at(position)).copied()?;
        (home == self.plan.layout.region_of(place).0 + 1).then_some(place)
    }

    /// Whether a segment is there still that was when that table was written.
    fn is_same(&self, current: &Current, number: usize) -> bool {
        self.home(number).is_some_and(|home| current.homes.get(number) == Some(&(home.0 + 1)))
    }

    fn current(&self) -> Arc<Current> {
        self.current.read().clone()
    }

    fn may_hold(&self, spot: Spot) -> bool {
        self.filter.may_page_hold(self.cut.page(spot), spot.mixed())
    }

    /// What is known without copies, which may be another object's.
    fn known(&self, spot: Spot) -> Known {
        match self.changes.get(spot) {
            Some(Change::There { position, .. }) => self.place(position).map_or(Known::Absent, Known::At),
            Some(Change::Removed | Change::Left) => Known::Absent,
            None if self.may_hold(spot) => Known::Ask,
            None => Known::Absent,
        }
    }

    fn copy(&self, spot: Spot) -> Option<(Place, u8)> {
        let entry = self.copies.find(spot.mixed())?;
        Some((self.place(entry.position as u32)?, entry.hits))
    }

    /// What memory says of an object.
    pub fn probe(&self, id_low: u64) -> Probe {
        let spot = self.cut.spot(id_low);
        let place = match self.known(spot) {
            Known::At(place) => Some(place),
            Known::Absent => return Probe::Absent,
            Known::Ask => self.copy(spot).map(|(place, _)| place),
        };
        place.map_or(Probe::AskDisk, |place| Probe::At(Places::newest_first(&mut [place])))
    }

    /// Whether memory says that the newest record of an object lies there.
    pub fn leads_to(&self, id_low: u64, place: Place) -> bool {
        let spot = self.cut.spot(id_low);
        match self.known(spot) {
            Known::At(newest) => newest == place,
            Known::Absent => false,
            Known::Ask => self.copy(spot).is_some_and(|(copy, _)| copy == place),
        }
    }

    /// What is known of an object that is to be stored. Of those that have left, what a lookup found out a moment ago.
    pub fn recall(&self, id_low: u64) -> Recalled {
        let spot = self.cut.spot(id_low);
        match self.changes.get(spot) {
            Some(Change::There { position, hits }) => {
                return self.place(position).map_or(Recalled::Unknown, |place| Recalled::There(place, hits));
            }
            Some(Change::Left) => return Recalled::HasLeft,
            Some(Change::Removed) => return Recalled::Unknown,
            None => {}
        }
        if self.returns(spot) {
            return Recalled::HasLeft;
        }
        let copy = if self.may_hold(spot) { self.copy(spot) } else { None };
        copy.map_or(Recalled::Unknown, |(place, hits)| Recalled::There(place, hits))
    }

    fn returning(&self, spot: Spot) -> Option<(&AtomicU32, u32)> {
        let mixed = spot.mixed();
        Some((self.returning.get(mixed as usize % RETURNING)?, (mixed >> 32) as u32 | 1))
    }

    fn returns(&self, spot: Spot) -> bool {
        self.returning(spot).is_some_and(|(at, tag)| at.load(Relaxed) == tag)
    }

    fn note_returning(&self, spot: Spot) {
        if let Some((at, tag)) = self.returning(spot) {
            at.store(tag, Relaxed);
        }
    }

    /// Whether a change of this object may be said now. If not, a merge is due. While none can be written all may be said: the disk is
    /// judged by that soon, and there are no more changes than records on it.
    pub fn has_room(&self, id_low: u64) -> bool {
        let has_room = self.has_failed.load(SeqCst) || self.changes.has_room(self.cut.spot(id_low));
        if !has_room {
            self.is_pressed.store(true, SeqCst);
        }
        has_room
    }

    /// Whether somebody waits for the table to be made anew.
    pub fn is_pressed(&self) -> bool {
        self.is_pressed.load(SeqCst)
    }

    /// Whether it is time to make the table anew.
    pub fn is_due(&self) -> bool {
        self.changes.is_due() || self.is_pressed()
    }

    /// An object was asked for, whose record was last seen there: where it is by now, as far as is known.
    pub fn hit(&self, id_low: u64, place: Place) -> Option<Place> {
        let spot = self.cut.spot(id_low);
        let at = self.changes.at(spot)?;
        match at.get() {
            Some(Change::There { position, .. }) => {
                at.count_hit(MOST_HITS);
                self.place(position)
            }
            Some(Change::Removed | Change::Left) => None,
            None => {
                self.copies.hit(spot.mixed(), self.position(place).into());
                Some(place)
            }
        }
    }

    /// How often the record at a place was asked for; `None` if memory does not lead to it.
    pub fn hits(&self, id_low: u64, place: Place) -> Option<u8> {
        let (spot, position) = (self.cut.spot(id_low), self.position(place));
        match self.changes.get(spot) {
            Some(Change::There { position: there, hits }) => (there == position).then_some(hits),
            Some(Change::Removed | Change::Left) => None,
            None => self.copies.hits(spot.mixed(), position.into()),
        }
    }

    /// See [`crate::engine::segments::Index::may_displace`].
    pub fn may_displace(&self, id_low: u64) -> bool {
        self.displaced.is_in(self.cut.spot(id_low).pair)
    }

    /// What was displaced.
    pub fn displaced(&self) -> &Displaced {
        &self.displaced
    }

    /// Whether a change leads anywhere.
    pub fn is_new(&self, id_low: u64) -> bool {
        matches!(self.changes.get(self.cut.spot(id_low)), Some(Change::There { .. }))
    }

    /// Whether the index leads anywhere but into this segment. Reads a page if it has to and so many `reads` are left, and waits for it;
    /// `None` if it is not known.
    pub fn leads_past(&self, read: Reading<'_>, id_low: u64, region: Place, reads: &mut u32) -> Option<bool> {
        let spot = self.cut.spot(id_low);
        let is_past = |place: Place| self.plan.layout.region_of(place) != region;
        match self.known(spot) {
            Known::At(place) => return Some(is_past(place)),
            Known::Absent => return Some(false),
            Known::Ask => {}
        }
        let current = self.current();
        let Some(number) = current.number else { return Some(false) };
        *reads = reads.checked_sub(1)?;
        let (saved, page) = (self.plan.saved, self.cut.page(spot));
        let (device, pool) = read;
        let into = pool.take(saved.page_bytes() as usize);
        let bytes = pool.lend(blocking::read_into(device, saved.page_at(number, page), into).ok()?);
        let content = saved.content(self.plan.stamp, number, page, &bytes)?;
        match page::say(&self.cut, content, spot, |slot| self.place_of(&current, slot)) {
            Said::At(place) => Some(is_past(place)),
            Said::HasLeft | Said::Nothing => Some(false),
        }
    }

    fn snapshots<'a>(&self, device: &'a dyn Device) -> Snapshots<'a> {
        Snapshots { device, layout: self.plan.saved, stamp: self.plan.stamp }
    }

    /// Bytes of the table, and how often lookups have read one of its pages.
    pub fn on_disk(&self) -> (u64, u64) {
        (self.cut.shape.shards() * self.plan.saved.page_bytes(), self.reads.load(Relaxed))
    }

    /// What is known of records that count no more, to be saved with the table.
    pub fn superseded(&self) -> Vec<u64> {
        self.superseded.save()
    }

    /// Slots that lead into the segment of this number: as the table was, and as was said since.
    pub fn live_in(&self, number: usize) -> u32 {
        self.live_in.get(number).map_or(0, |live| live.load(Relaxed))
    }
}

impl Finds for Table {
    fn find(&self, id_low: u64) -> Option<Place> {
        match self.probe(id_low) {
            Probe::At(places) => places.iter().next(),
            Probe::Absent | Probe::AskDisk => None,
        }
    }

    fn forget(&self, id_low: u64, place: Place) {
        let (spot, position) = (self.cut.spot(id_low), self.position(place));
        let gone = |before| match before {
            Some(Change::There { position: there, .. }) => (there == position).then_some(Change::Removed),
            Some(Change::Removed | Change::Left) => None,
            // Of what the newest table leads to there is a copy, if it was read a moment ago; another place may be an older version's.
            None => self.copies.hits(spot.mixed(), position.into()).map(|_| Change::Removed),
        };
        self.change(id_low, gone);
    }

    fn slot_count(&self) -> u64 {
        self.cut.shape.sets() * WAYS as u64
    }

    fn live(&self) -> u64 {
        self.live_in.iter().map(|live| u64::from(live.load(Relaxed))).sum()
    }

    fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    fn allocated_bytes(&self) -> u64 {
        let fixed = size_of::<Self>() + RETURNING * size_of::<AtomicU32>();
        let fixed = fixed as u64 + self.live_in.len() as u64 * SEGMENT_BYTES;
        let parts = [self.changes.allocated_bytes(), self.filter.allocated_bytes(), self.copies.allocated_bytes()];
        let noted = self.displaced.allocated_bytes() + self.superseded.allocated_bytes();
        parts.iter().sum::<u64>() + noted + fixed
    }
}
