//! The index in memory: sets of packed slots, and which of them still mean something.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::format::{Cut, Set, Slot, WAYS};
use super::policy::{self, Inserted};
use crate::engine::hashcache::laps::{slot_place, written_at};
use crate::engine::hashcache::live::SlotsByRegion;
use crate::engine::{Place, Places};
use crate::index::hash::hash;
use crate::index::{Sets, ranks};
use crate::layout::reach::Reach;
use crate::layout::{Frontier, LogLayout, SnapshotLayout};

/// No record lies here: the first lap is lap 1.
const NOWHERE: Place = Place(0);

/// The set-associative array of slots. Memory: 47 bytes a set of eight, 55 with reaches, one more for each bit of hash beyond
/// eight, and 24 bytes a thousand sets.
pub struct Index {
    sets: Sets,
    cut: Cut,
    frontier: Arc<Frontier>,
    layout: LogLayout,
    live: SlotsByRegion,
    lost: AtomicU64,
}

fn sets_for(slots: u64) -> u64 {
    slots.div_ceil(WAYS as u64).max(1)
}

impl Index {
    /// Sets with room for `slots` entries cut so, rounded up to whole sets. Allocates all of it now.
    pub fn room(slots: u64, cut: Cut) -> Sets {
        Sets::new(sets_for(slots), &Set::empty(cut))
    }

    /// Where snapshots of such an index lie, if they begin at `base`.
    pub fn snapshot_layout(slots: u64, cut: Cut, base: u64) -> SnapshotLayout {
        let (pages, page_content_bytes) = Sets::shards_for(sets_for(slots), cut.slot_bits());
        SnapshotLayout { base, page_content_bytes, pages }
    }

    /// An index over such sets. Of those that hold something [`Index::keep_between`] is to say first what counts.
    pub fn over(sets: Sets, cut: Cut, frontier: Arc<Frontier>, layout: LogLayout) -> Self {
        Index { sets, cut, frontier, layout, live: SlotsByRegion::none(layout), lost: AtomicU64::new(0) }
    }

    fn set<'a>(&self, bytes: &'a mut [u8]) -> Set<'a> {
        Set::over(bytes, self.cut)
    }

    fn fingerprint(&self, id_low: u64) -> u16 {
        hash(id_low, self.cut.hash_bits)
    }

    /// Drop every slot of a snapshot but those that lead to places from `floor` up to `covered`, and count these.
    pub fn keep_between(&self, floor: Place, covered: Place) {
        let kept = |slot: &Slot| self.place(slot).filter(|place| *place >= floor && *place < covered);
        for set in 0..self.sets.len() {
            self.sets.with(set, |bytes| {
                let dropped = |slot: &Slot| kept(slot).inspect(|place| self.live.add(*place)).is_none();
                policy::clear(&mut self.set(bytes), dropped, |_| ());
            });
        }
    }

    /// A copy of one page of a snapshot.
    pub fn page(&self, page: u64) -> Vec<u8> {
        self.sets.copy_shard(page)
    }

    /// Sets of the index.
    pub fn sets(&self) -> u64 {
        self.sets.len()
    }

    /// Memory allocated, in bytes: slots, locks and pointers, but not what is counted of each region.
    pub fn allocated_bytes(&self) -> u64 {
        self.sets.allocated_bytes()
    }

    /// Objects dropped because their set was full, since the index was made; after rebuilding, those in the log that
    /// found no slot.
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    /// Where a slot's record lies, unless it was overwritten or its region given up.
    fn place(&self, slot: &Slot) -> Option<Place> {
        self.reachable(slot).filter(|place| self.frontier.is_live(*place))
    }

    /// Where a slot's record was written, unless that was overwritten since.
    fn reachable(&self, slot: &Slot) -> Option<Place> {
        let (position, lap) = slot.place?;
        written_at(&self.layout, &self.frontier, position, lap)
    }

    fn is_poisoned(&self, place: Place) -> bool {
        self.frontier.is_poisoned(self.layout.region_of(place))
    }

    fn slot_place(&self, place: Place) -> (u32, u8) {
        slot_place(&self.layout, place)
    }

    /// The places of an object's fingerprint, newest first.
    pub fn candidates(&self, id_low: u64) -> Places {
        let mut found = [NOWHERE; WAYS];
        let mut count = 0;
        self.sets.with(self.sets.set_of(id_low), |bytes| {
            for (_, slot) in self.set(bytes).slots().filter(|(_, slot)| slot.fingerprint == self.fingerprint(id_low)) {
                if let (Some(place), Some(to)) = (self.reachable(&slot), found.get_mut(count)) {
                    *to = place;
                    count += 1;
                }
            }
        });
        let found = found.get_mut(..count).unwrap_or_default();
        // What a lost record may have replaced must not be found in its place.
        let lost = found.iter().copied().filter(|place| self.is_poisoned(*place)).max();
        found.iter_mut().filter(|place| Some(**place) <= lost).for_each(|place| *place = NOWHERE);
        Places::newest_first(found)
    }

    /// How far the record at a place reaches with those related to it; nothing where that is not known.
    pub fn reach(&self, id_low: u64, place: Place) -> Reach {
        let wanted = Some(self.slot_place(place));
        let reach = self.sets.with(self.sets.set_of(id_low), |bytes| {
            self.set(bytes).slots().find(|(_, slot)| slot.place == wanted).map(|(_, slot)| slot.reach)
        });
        reach.flatten().unwrap_or_default()
    }

    /// Enter a record by the low half of its digest.
    pub fn insert_low(&self, id_low: u64, place: Place, reach: Reach) {
        let now = self.frontier.next().0;
        let age = |slot: &Slot| self.reachable(slot).map_or(u64::MAX, |place| now - place.0.min(now));
        self.live.add(place);
        let inserted = self.sets.with(self.sets.set_of(id_low), |bytes| {
            // A lost record's slot is not free: it keeps what it replaced from coming to light.
            let is_live = |slot: &Slot| self.reachable(slot).is_some();
            policy::insert(
                &mut self.set(bytes),
                self.fingerprint(id_low),
                (self.slot_place(place), reach),
                is_live,
                age,
            )
        });
        let Some((inserted @ (Inserted::Updated | Inserted::Replaced), left)) = inserted else { return };
        left.place.into_iter().for_each(|left| self.live.take(left));
        self.lost.fetch_add(u64::from(inserted == Inserted::Replaced), Relaxed);
    }

    /// Drop every candidate of this fingerprint.
    pub fn remove_low(&self, id_low: u64) {
        self.sets.with(self.sets.set_of(id_low), |bytes| {
            let ours = |slot: &Slot| slot.fingerprint == self.fingerprint(id_low);
            policy::clear(&mut self.set(bytes), ours, |left| self.live.take(left));
        });
    }

    /// Drop the candidates of this fingerprint that are not newer than `place`.
    pub fn remove_to(&self, id_low: u64, place: Place) {
        self.sets.with(self.sets.set_of(id_low), |bytes| {
            let old = |slot: &Slot| {
                slot.fingerprint == self.fingerprint(id_low) && self.reachable(slot).is_none_or(|at| at <= place)
            };
            policy::clear(&mut self.set(bytes), old, |left| self.live.take(left));
        });
    }

    /// Make the slot of this place the most recently used of its set.
    pub fn touch(&self, id_low: u64, place: Place) {
        let wanted = Some(self.slot_place(place));
        self.sets.with(self.sets.set_of(id_low), |bytes| {
            let mut set = self.set(bytes);
            let Some((way, touched)) = set.slots().find(|(_, slot)| slot.place == wanted) else { return };
            ranks::touch(&mut set, way);
            // What may be a later version of it must not leave before it: the order of use follows that of writing.
            let mut newer = [(NOWHERE, 0); WAYS];
            for ((way, slot), to) in set.slots().zip(&mut newer) {
                let at = self.reachable(&slot).filter(|at| *at > place && slot.fingerprint == touched.fingerprint);
                *to = (at.unwrap_or(NOWHERE), way);
            }
            newer.sort_unstable();
            newer.iter().filter(|(at, _)| *at != NOWHERE).for_each(|(_, way)| ranks::touch(&mut set, *way));
        });
    }

    /// Empty the dead slots of one region's share of the sets. Nobody counts them any more.
    pub fn sweep(&self, region: u64) {
        let share = |n: u64| (u128::from(n) * u128::from(self.sets.len()) / u128::from(self.layout.regions)) as u64;
        let number = region % self.layout.regions;
        for set in share(number)..share(number + 1) {
            self.sets.with(set, |bytes| {
                policy::clear(&mut self.set(bytes), |slot| self.reachable(slot).is_none(), |_| ());
            });
        }
    }

    /// The live places of one set.
    pub fn places(&self, set: u64) -> Vec<Place> {
        self.sets
            .with(set, |bytes| self.set(bytes).slots().filter_map(|(_, slot)| self.place(&slot)).collect())
            .unwrap_or_default()
    }

    /// Slots that lead to a record, as they were counted: a few steps for each region, and no set is locked.
    pub fn live(&self) -> u64 {
        self.live.sum(|region| self.frontier.is_live(region))
    }
}

#[cfg(test)]
mod tests;
