//! HashCache-LogLRU's index: of every slot fingerprint, rank and lap in memory, the position of the `k` used last of each
//! set too, and of the others in a file ([`Offsets`]).
//!
//! A lookup of a slot whose position is on disk reads it there first, and then the object. The slot is then the one used
//! last: its position comes into memory, and another goes out. What was read of the file is used only if its set has not
//! changed meanwhile, so that no slot is ever given another's position.

mod counts;
mod locate;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::offsets::{OffsetLayout, Offsets};
use super::set::{At, Demoted, LruSet, Used, WAYS};
use crate::device::Device;
use crate::engine::Place;
use crate::engine::hashcache::laps::{full_lap, slot_place, written_at};
use crate::engine::hashcache::places::at_bin;
use crate::index::row::Put;
use crate::index::{Row, Sets};
use crate::layout::reach::Reach;
use crate::layout::{Frontier, LogLayout, SummaryEntry};
use counts::Counts;

/// What memory says of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// Not there.
    Absent,
    /// At most here.
    At(Place),
    /// The position is on disk.
    OnDisk,
}

/// The index. Memory: 15 + 4k bytes a set of eight, 15 + 5k with reaches, and what [`Offsets`] takes.
pub struct LruIndex {
    sets: Sets,
    /// Positions of each set in memory, and bits of hash in a slot.
    cut: (usize, u8),
    has_reaches: bool,
    pub offsets: Arc<Offsets>,
    frontier: Arc<Frontier>,
    layout: LogLayout,
    live: Counts,
    lost: AtomicU64,
}

impl LruIndex {
    /// An empty index of these sets, with `kept` positions of each in memory and so many bits of hash. Allocates all of it now.
    pub fn new(
        device: Option<Arc<dyn Device>>,
        file: OffsetLayout,
        (kept, hash_bits): (usize, u8),
        frontier: Arc<Frontier>,
        layout: LogLayout,
    ) -> Arc<Self> {
        let cut = (kept.clamp(1, WAYS), hash_bits);
        let has_reaches = file.has_reaches;
        let sets = Sets::new(file.sets, &LruSet::empty(cut, has_reaches));
        let (offsets, live, lost) = (Offsets::on(device, file), Counts::none(layout), AtomicU64::new(0));
        Arc::new(LruIndex { sets, cut, has_reaches, offsets, frontier, layout, live, lost })
    }

    /// Begin to send positions out. Errors: the system has no more threads.
    pub fn start(self: &Arc<Self>) -> std::io::Result<()> {
        let weak = Arc::downgrade(self);
        self.offsets.start(move |set, way| {
            if let Some(index) = weak.upgrade() {
                index.with(set, |set| {
                    if set.position(way).is_none() {
                        index.free(set, way);
                    }
                });
            }
        })
    }

    /// Fill an empty index with what a log held, oldest first, and write the file. `removes` says of an entry that it
    /// removes its object. Errors: the device's.
    pub fn fill(&self, mut entries: Vec<SummaryEntry>, removes: impl Fn(&SummaryEntry) -> bool) -> std::io::Result<()> {
        entries.sort_by_key(|entry| (self.sets.set_of(entry.id_low), entry.place));
        let mut of_sets = entries.chunk_by(|a, b| self.sets.set_of(a.id_low) == self.sets.set_of(b.id_low));
        let mut next = || {
            let entries = of_sets.next()?;
            let number = self.sets.set_of(entries.first()?.id_low);
            let mut whole = LruSet::empty((WAYS, self.cut.1), self.has_reaches);
            let mut all = LruSet::over(&mut whole, (WAYS, self.cut.1));
            for entry in entries {
                let fingerprint = self.fingerprint(entry.id_low);
                let (position, lap) = slot_place(&self.layout, entry.place);
                if removes(entry) {
                    all.way_of(fingerprint).into_iter().for_each(|way| all.clear(way));
                } else if all.insert(fingerprint, lap, At { position, reach: entry.reach }, |_, _| false).put
                    == Put::Replaced
                {
                    self.lost.fetch_add(1, Relaxed);
                }
            }
            let mut positions = [At::default(); WAYS];
            positions.iter_mut().enumerate().for_each(|(way, to)| *to = all.at(way).unwrap_or_default());
            self.with(number, |set| {
                set.take_from(&all);
                self.count(set);
            });
            Some((number, positions))
        };
        self.offsets.write_anew(&mut std::iter::from_fn(&mut next))
    }

    fn with<T>(&self, set: u64, work: impl FnOnce(&mut LruSet<'_>) -> T) -> Option<T> {
        self.sets.with(set, |bytes| work(&mut LruSet::over(bytes, self.cut)))
    }

    /// As in a Disk Table's rows, 0 means that a slot is free.
    fn fingerprint(&self, id_low: u64) -> u16 {
        Row::fingerprint(id_low, self.cut.1)
    }

    fn place(&self, position: u32, lap: u8) -> Option<Place> {
        let place = written_at(&self.layout, &self.frontier, position, lap);
        place.filter(|place| self.frontier.is_live(*place))
    }

    /// Where a slot's record lies, if memory has it: in the set, or on its way to the disk.
    fn known(&self, number: u64, set: &LruSet<'_>, way: usize) -> Option<At> {
        set.at(way).or_else(|| self.offsets.unwritten(number, way))
    }

    /// What memory says of an object.
    pub fn say(&self, id_low: u64) -> Said {
        let number = self.sets.set_of(id_low);
        let said = self.with(number, |set| {
            let Some(way) = set.way_of(self.fingerprint(id_low)) else { return Said::Absent };
            match self.known(number, set, way) {
                Some(at) => self.place(at.position, set.lap(way)).map_or(Said::Absent, Said::At),
                None if self.is_dead(set, way) => Said::Absent,
                None => Said::OnDisk,
            }
        });
        said.unwrap_or(Said::Absent)
    }

    /// How far the record at a place reaches, where memory says so.
    pub fn reach(&self, id_low: u64, place: Place) -> Reach {
        let number = self.sets.set_of(id_low);
        let reach = self.with(number, |set| {
            let way = set.way_of(self.fingerprint(id_low))?;
            let (position, lap) = slot_place(&self.layout, place);
            let at = self.known(number, set, way)?;
            (at.position == position && set.lap(way) == lap).then_some(at.reach)
        });
        reach.flatten().unwrap_or_default()
    }

    /// Let the disk have a position that memory has no room for any more. If it does not take it, the object is forgotten.
    fn keep(&self, number: u64, set: &mut LruSet<'_>, demoted: Option<Demoted>) {
        let Some(Demoted { way, at }) = demoted else { return };
        let lap = set.lap(way);
        self.live.take(Used { lap, position: Some(at.position) });
        match self.offsets.put(number, way, at) {
            true => self.live.add_on_disk(lap),
            false => set.clear(way),
        }
    }

    /// The record of an object was found at a place, as of a moment: it becomes the one used last, and its position comes
    /// into memory. Nothing happens if the set has changed since, or positions wait for the disk already.
    pub fn promote(&self, id_low: u64, (place, reach): (Place, Reach), moment: u64) {
        let number = self.sets.set_of(id_low);
        if !self.offsets.has_room() {
            return;
        }
        self.with(number, |set| {
            let way = set.way_of(self.fingerprint(id_low));
            if let Some(way) = way.filter(|_| !self.offsets.changed_since(number, moment)) {
                self.offsets.note(number);
                let (position, _) = slot_place(&self.layout, place);
                self.live.add(place);
                set.used_as(way).into_iter().for_each(|left| self.live.take(left));
                let demoted = set.promote(way, At { position, reach });
                self.keep(number, set, demoted);
            }
        });
        self.offsets.write_if_due();
    }

    /// Make the slot of this place the most recently used of its set, if its position is in memory.
    pub fn touch(&self, id_low: u64, place: Place) {
        let number = self.sets.set_of(id_low);
        self.with(number, |set| {
            let Some(way) = set.way_of(self.fingerprint(id_low)) else { return };
            let at = set.at(way).filter(|at| (at.position, set.lap(way)) == slot_place(&self.layout, place));
            if let Some(at) = at {
                // No position leaves memory, and none on disk is another's than before.
                set.promote(way, at);
            }
        });
    }

    /// Enter a record by the low half of its digest.
    pub fn insert_low(&self, id_low: u64, place: Place, reach: Reach) {
        let number = self.sets.set_of(id_low);
        let (position, lap) = slot_place(&self.layout, place);
        self.live.add(place);
        let put = self.with(number, |set| {
            self.offsets.note(number);
            let is_dead = |set: &LruSet<'_>, way: usize| self.is_dead(set, way);
            let inserted = set.insert(self.fingerprint(id_low), lap, At { position, reach }, is_dead);
            inserted.left.into_iter().for_each(|left| self.live.take(left));
            self.keep(number, set, inserted.demoted);
            inserted.put
        });
        if put == Some(Put::Replaced) {
            self.lost.fetch_add(1, Relaxed);
        }
    }

    /// Whether the record of a slot is known to be overwritten, or nobody knows any more where it is.
    fn is_dead(&self, set: &LruSet<'_>, way: usize) -> bool {
        let lap = set.lap(way);
        match set.position(way) {
            Some(position) => written_at(&self.layout, &self.frontier, position, lap).is_none(),
            // What four bits of lap say suffices to see that it is long overwritten.
            None => full_lap(&self.layout, &self.frontier, lap).is_none() || self.offsets.is_lost(),
        }
    }

    /// Drop the slot of this fingerprint if `and` says so of its place, which may not be known.
    fn remove_if(&self, id_low: u64, and: impl Fn(Option<Place>) -> bool) {
        let number = self.sets.set_of(id_low);
        self.with(number, |set| {
            let Some(way) = set.way_of(self.fingerprint(id_low)) else { return };
            let at = self.known(number, set, way);
            let place = at.and_then(|at| written_at(&self.layout, &self.frontier, at.position, set.lap(way)));
            if and(place) {
                self.offsets.note(number);
                self.free(set, way);
            }
        });
    }

    /// Drop the candidate of this fingerprint.
    pub fn remove_low(&self, id_low: u64) {
        self.remove_if(id_low, |_| true);
    }

    /// Drop it if it is not newer than `place`, as far as is known.
    pub fn remove_to(&self, id_low: u64, place: Place) {
        self.remove_if(id_low, |at| at.is_none_or(|at| at <= place));
    }

    /// Empty the dead slots of one region's share of the sets.
    pub fn sweep(&self, region: u64) {
        let share = |n: u64| (u128::from(n) * u128::from(self.sets.len()) / u128::from(self.layout.regions)) as u64;
        let number = region % self.layout.regions;
        for number in share(number)..share(number + 1) {
            self.with(number, |set| {
                let dead: Vec<_> = set.used().filter(|way| self.is_dead(set, *way)).collect();
                dead.into_iter().for_each(|way| self.free(set, way));
            });
        }
    }

    /// The slots in use of one set, as places to be asked for with [`LruIndex::locate_slot`].
    pub fn places(&self, number: u64) -> Vec<Place> {
        let slot = |way: usize| at_bin(number * WAYS as u64 + way as u64);
        let used = |set: &mut LruSet<'_>| set.used().filter(|way| !self.is_dead(set, *way)).map(slot).collect();
        self.with(number, used).unwrap_or_default()
    }

    /// Sets of the index.
    pub fn sets(&self) -> u64 {
        self.sets.len()
    }

    /// Objects dropped because their set was full.
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    /// Memory allocated, in bytes: slots, positions, those that may wait to go out, locks and pointers, but not what is counted
    /// of each region.
    pub fn allocated_bytes(&self) -> u64 {
        self.sets.allocated_bytes() + self.offsets.memory_bytes() + size_of::<Self>() as u64
    }
}
