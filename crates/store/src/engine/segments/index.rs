//! The index in memory: what hash lies where in the log (section 3.2.1), and how often it was asked for.

mod choices;
mod displaced;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

pub use self::choices::Choices;
pub use self::displaced::Displaced;
use super::format::{self, MOST_HITS, Set, Slot, WAYS, fingerprint};
use super::reading::Finds;
use crate::engine::{Kind, Place};
use crate::index::Sets;
use crate::index::sets::SHARD_BYTES;
use crate::layout::{LogLayout, Segments};

/// Sets of eight slots. Memory: 46 bytes a set, and 24 bytes a thousand sets; 4 bytes a segment; where it is known what was
/// displaced, a quarter of a byte a set.
pub struct Index {
    sets: Sets,
    choices: Choices,
    segments: Arc<Segments>,
    layout: LogLayout,
    /// Slots that lead somewhere: a segment becomes free only when none leads to it, so all of these lead to a record.
    live: AtomicU64,
    /// The same for each segment.
    live_in: Box<[AtomicU32]>,
    lost: AtomicU64,
    displaced: Option<Displaced>,
}

/// What the index knows of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recalled {
    /// It may lie there, and was asked for so often since it was written.
    There(Place, u8),
    /// It was evicted not long ago.
    HasLeft,
    /// Nothing.
    Unknown,
}

impl Index {
    /// Sets with room for so many entries, rounded up to whole sets. Allocates all of it now.
    pub fn room(slots: u64) -> Sets {
        Self::room_in_shards(slots, SHARD_BYTES)
    }

    /// The same in shards of so many bytes at the most.
    pub fn room_in_shards(slots: u64, shard_bytes: usize) -> Sets {
        Sets::in_shards(Self::sets_for(slots), &Set::empty(), shard_bytes)
    }

    /// How many sets that is.
    pub fn sets_for(slots: u64) -> u64 {
        slots.div_ceil(WAYS as u64).max(1)
    }

    /// An index over such sets. Of those that hold something [`Index::drop_homeless`] is to say first what counts.
    pub fn over(sets: Sets, segments: Arc<Segments>, layout: LogLayout) -> Self {
        let live_in = (0..layout.regions).map(|_| AtomicU32::new(0)).collect();
        let (choices, live, lost) = (Choices::One, AtomicU64::new(0), AtomicU64::new(0));
        Index { sets, choices, segments, layout, live, live_in, lost, displaced: None }
    }

    /// The same, in which an object may be in so many sets. What it holds already was entered with as many, or with one.
    pub fn with_choices(self, choices: Choices) -> Self {
        Index { choices, ..self }
    }

    /// The same, which knows what was displaced.
    pub fn knows_displaced(self) -> Self {
        let displaced = Some(Displaced::unknown(self.sets.len()));
        Index { displaced, ..self }
    }

    /// What was displaced, if that is known.
    pub fn displaced(&self) -> Option<&Displaced> {
        self.displaced.as_ref()
    }

    /// Whether something may have been displaced where an object of this hash belongs.
    pub fn may_displace(&self, id_low: u64) -> bool {
        let pair = || self.pair(self.sets.set_of(id_low), fingerprint(id_low));
        self.displaced.as_ref().is_none_or(|displaced| displaced.is_in(pair()))
    }

    /// What had this fingerprint and lay in that set, or belongs there, is displaced. Its shard is locked.
    fn note_displaced(&self, set: u64, fingerprint: u16) {
        if let Some(displaced) = &self.displaced {
            displaced.note(self.pair(set, fingerprint));
        }
    }

    fn other(&self, set: u64, fingerprint: u16) -> u64 {
        self.choices.other(set, fingerprint, || self.sets.shape().beside(set))
    }

    /// The one of the two sets that stands for both. Which it is follows from the fingerprint, so that all sets stand for as many.
    fn pair(&self, set: u64, fingerprint: u16) -> u64 {
        let other = self.other(set, fingerprint);
        if fingerprint & 1 == 0 { set.min(other) } else { set.max(other) }
    }

    /// The sets themselves.
    pub fn sets(&self) -> &Sets {
        &self.sets
    }

    fn position(&self, place: Place) -> Option<u32> {
        Some((place.0 % self.layout.log_bytes() / self.layout.unit) as u32)
    }

    /// A slot led to one position, and leads to another from now on.
    fn moved(&self, from: Option<u32>, to: Option<u32>) {
        let of = |position: u32| self.live_in.get(self.segment_at(position));
        if let Some(live) = from.and_then(of) {
            live.fetch_sub(1, Relaxed);
        }
        if let Some(live) = to.and_then(of) {
            live.fetch_add(1, Relaxed);
        }
        self.live.fetch_sub(u64::from(from.is_some()), Relaxed);
        self.live.fetch_add(u64::from(to.is_some()), Relaxed);
    }

    /// The number of the segment that a position lies in.
    fn segment_at(&self, position: u32) -> usize {
        (u64::from(position) * self.layout.unit / self.layout.region_bytes) as usize
    }

    /// Where a slot's record was written, unless its segment is free.
    fn place(&self, slot: &Slot) -> Option<Place> {
        let at = u64::from(slot.position?) * self.layout.unit;
        let number = (at / self.layout.region_bytes) as usize;
        let home = self.segments.home(number)?;
        Some(Place(home.0 + at % self.layout.region_bytes))
    }

    fn with<T>(&self, id_low: u64, work: impl FnOnce(&mut format::Sets<'_>) -> T) -> Option<T> {
        let set = self.sets.set_of(id_low);
        let other = self.other(set, fingerprint(id_low));
        self.sets.with_two(set, other, |set, other| work(&mut format::Sets(Set(set), Set(other))))
    }

    /// Where the object of this hash may lie and how often it was asked for there. Else whether one of this fingerprint was evicted,
    /// no other one has taken its slot since, and less than three rounds of [`Index::age`] have passed. Of objects never seen, one in
    /// 4,096 for each slot that remembers is taken for one that was.
    pub fn recall(&self, id_low: u64) -> Recalled {
        let wanted = fingerprint(id_low);
        let recalled = self.with(id_low, |set| {
            let ours = set.of(wanted);
            let there = ours.clone().find_map(|(_, slot)| Some(Recalled::There(self.place(&slot)?, slot.hits)));
            let has_left = || ours.clone().any(|(_, slot)| slot.remembers(wanted));
            there.unwrap_or_else(|| if has_left() { Recalled::HasLeft } else { Recalled::Unknown })
        });
        recalled.unwrap_or(Recalled::Unknown)
    }

    /// What a record says: an object is entered, a removal removes what has its fingerprint, a part of an object is found by its
    /// place alone. Where a set is full, the oldest record that nobody asked for leaves it, or the oldest.
    pub fn enter(&self, kind: Kind, id_low: u64, place: Place) {
        self.enter_by(kind, id_low, place, |hits, place| (hits > 0, place));
    }

    /// The same; from a full set leaves what is worth least, by its hits and its place.
    pub fn enter_by<W: Ord>(&self, kind: Kind, id_low: u64, place: Place, worth: impl Fn(u8, Place) -> W) {
        match kind {
            Kind::Whole | Kind::Large => self.insert_low(id_low, place, worth),
            Kind::Tombstone => self.remove_low(id_low),
            Kind::Extent => {}
        }
    }

    /// Enter an object by the low half of its digest: see [`format::Sets::room_for`].
    fn insert_low<W: Ord>(&self, id_low: u64, place: Place, worth: impl Fn(u8, Place) -> W) {
        let wanted = fingerprint(id_low);
        let lost = self.with(id_low, |set| {
            let (victim, lost) = set.room_for(wanted, |slot| self.place(slot).map(|place| worth(slot.hits, place)));
            if let Some((way, before)) = victim {
                let position = self.position(place);
                self.moved(before.position, position);
                if before.position.is_some() {
                    let home = self.sets.set_of(id_low);
                    let of = if way < WAYS { home } else { self.other(home, wanted) };
                    self.note_displaced(of, before.fingerprint);
                }
                set.put(way, Slot { fingerprint: wanted, hits: 0, position });
            }
            lost
        });
        self.lost.fetch_add(u64::from(lost == Some(true)), Relaxed);
    }

    /// Change the slot of a fingerprint, if `which` says yes to it; what it was before if so.
    fn change(&self, id_low: u64, which: impl Fn(&Slot) -> bool, into: impl Fn(Slot) -> Slot) -> Option<Slot> {
        let wanted = fingerprint(id_low);
        self.with(id_low, |set| {
            let found = set.of(wanted).find(|(_, slot)| slot.position.is_some() && which(slot));
            if let Some((way, slot)) = found {
                let into = into(slot);
                self.moved(slot.position, into.position);
                set.put(way, into);
            }
            found.map(|(_, slot)| slot)
        })
        .flatten()
    }

    /// Drop whatever has this fingerprint, and what an empty slot remembers of it.
    pub fn remove_low(&self, id_low: u64) {
        let wanted = fingerprint(id_low);
        let removed = |slot: Slot| {
            self.note_displaced(self.sets.set_of(id_low), wanted);
            slot.removed()
        };
        self.change(id_low, |_| true, removed);
        self.with(id_low, |set| {
            while let Some((way, slot)) = { set.of(wanted).find(|(_, slot)| slot.remembers(wanted)) } {
                set.put(way, slot.removed());
            }
        });
    }

    /// What empty slots of a set remember is a round older: after three it is forgotten.
    pub fn age(&self, set: u64) {
        self.sets.with(set, |bytes| Set(bytes).age());
    }

    /// Drop the slot that leads to exactly this place, which leaves with its segment; whether there was one.
    pub fn evict(&self, id_low: u64, place: Place) -> bool {
        self.evict_unless(id_low, place, |_| false) == Some(true)
    }

    /// The same, unless the record is kept, by how often it was asked for; whether the slot was dropped, if there was one.
    pub fn evict_unless(&self, id_low: u64, place: Place, keeps: impl Fn(u8) -> bool) -> Option<bool> {
        let (wanted, position) = (fingerprint(id_low), self.position(place));
        self.with(id_low, |set| {
            let (way, slot) = set.of(wanted).find(|(_, slot)| slot.position == position)?;
            let leaves = !keeps(slot.hits);
            if leaves {
                self.moved(position, None);
                set.put(way, slot.left());
            }
            Some(leaves)
        })
        .flatten()
    }

    /// A record was written once more: its slot leads there, and its hits are counted anew.
    pub fn follow(&self, id_low: u64, from: Place, to: Place) {
        let (old, new) = (self.position(from), self.position(to));
        self.change(id_low, |slot| slot.position == old, |slot| Slot { position: new, hits: 0, ..slot });
    }

    /// The record at a place was asked for.
    pub fn touch(&self, id_low: u64, place: Place) {
        let position = self.position(place);
        let counts = |slot: &Slot| slot.position == position;
        self.change(id_low, counts, |slot| Slot { hits: (slot.hits + 1).min(MOST_HITS), ..slot });
    }

    /// The record of a fingerprint was asked for, wherever it lies: where that is.
    pub fn hit(&self, id_low: u64) -> Option<Place> {
        let before = self.change(id_low, |_| true, |slot| Slot { hits: (slot.hits + 1).min(MOST_HITS), ..slot })?;
        self.place(&before)
    }

    /// How often the record at a place was asked for; `None` if the index does not lead to it.
    pub fn hits(&self, id_low: u64, place: Place) -> Option<u8> {
        let (wanted, position) = (fingerprint(id_low), self.position(place));
        let ours = |set: &mut format::Sets<'_>| set.of(wanted).find(|(_, slot)| slot.position == position);
        self.with(id_low, |set| ours(set).map(|(_, slot)| slot.hits)).flatten()
    }

    /// Drop every slot that leads into one segment: where its summary cannot be read. Walks the whole index: milliseconds a
    /// million.
    pub fn sweep(&self, number: usize) {
        let units = self.layout.region_bytes / self.layout.unit;
        self.each(|slot| {
            let leads_there = slot.position.is_some_and(|at| u64::from(at) / units == number as u64);
            if leads_there {
                self.moved(slot.position, None);
            }
            leads_there
        });
    }

    /// Drop every saved slot that leads into a segment that is free, or whose number is among `changed`, and count those
    /// that are left.
    pub fn drop_homeless(&self, changed: impl Fn(usize) -> bool) {
        self.each(|slot| {
            let at = slot.position.map(|position| self.segment_at(position));
            let is_gone = self.place(slot).is_none() || at.is_some_and(&changed);
            if !is_gone {
                self.moved(None, slot.position);
            }
            is_gone
        });
    }

    /// Look at every slot that leads somewhere, and drop those of which `drops` says so.
    fn each(&self, drops: impl Fn(&Slot) -> bool) {
        for set in 0..self.sets.len() {
            self.sets.with(set, |bytes| Set(bytes).each(|slot| drops(&slot).then(|| slot.left())));
        }
    }

    /// The places that one set leads to.
    pub fn places(&self, set: u64) -> Vec<Place> {
        let all = |bytes: &mut [u8]| Set(bytes).slots().filter_map(|(_, slot)| self.place(&slot)).collect();
        self.sets.with(set, all).unwrap_or_default()
    }

    /// Slots that lead into the segment of this number.
    pub fn live_in(&self, number: usize) -> u32 {
        self.live_in.get(number).map_or(0, |live| live.load(Relaxed))
    }

    /// See [`crate::engine::Engine::walk`].
    pub fn walk(&self, cursor: u64, most: usize) -> (Vec<Place>, Option<u64>) {
        let (mut found, mut set, sets) = (Vec::new(), cursor, self.sets.len());
        while set < sets && found.len() + WAYS <= most.max(WAYS) {
            found.extend(self.places(set));
            set += 1;
        }
        (found, (set < sets).then_some(set))
    }
}

impl Finds for Index {
    fn find(&self, id_low: u64) -> Option<Place> {
        let wanted = fingerprint(id_low);
        self.with(id_low, |set| set.of(wanted).find_map(|(_, slot)| self.place(&slot))).flatten()
    }

    fn forget(&self, id_low: u64, place: Place) {
        let position = self.position(place);
        let left = |slot: Slot| {
            self.note_displaced(self.sets.set_of(id_low), slot.fingerprint);
            slot.left()
        };
        self.change(id_low, |slot| slot.position == position, left);
    }

    fn slot_count(&self) -> u64 {
        self.sets.len() * WAYS as u64
    }

    fn live(&self) -> u64 {
        self.live.load(Relaxed)
    }

    fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    fn allocated_bytes(&self) -> u64 {
        self.sets.allocated_bytes() + self.displaced.as_ref().map_or(0, Displaced::allocated_bytes)
    }
}

#[cfg(test)]
mod tests;
