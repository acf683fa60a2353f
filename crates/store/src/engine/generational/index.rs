//! Where the index is: in memory, or on the disk with a part of it in memory.

use std::sync::Arc;

use super::table::{self, Reading, Table};
use crate::device::Device;
use crate::engine::segments::{Displaced, Finds, Index, Indexed, Recalled};
use crate::engine::{FetchDone, Kind, Place, Places, Probe};
use crate::terms::Digest;

/// The index of the engine, in either place.
pub enum AnyIndex {
    /// All of it in memory.
    Memory(Index),
    /// On the disk.
    Disk(Arc<Table>),
}

/// Do the same with either.
macro_rules! either {
    ($any:expr, $index:ident => $work:expr) => {
        match $any {
            AnyIndex::Memory($index) => $work,
            AnyIndex::Disk($index) => $work,
        }
    };
}

impl AnyIndex {
    /// The one on the disk, if it is there.
    pub fn table(&self) -> Option<&Arc<Table>> {
        match self {
            AnyIndex::Memory(_) => None,
            AnyIndex::Disk(table) => Some(table),
        }
    }

    /// See [`crate::engine::Engine::probe`].
    pub fn probe(indexed: &Indexed<Self>, id: &Digest) -> Probe {
        let probe = match &indexed.index {
            AnyIndex::Memory(_) => return indexed.probe(id),
            AnyIndex::Disk(table) => table.probe(id.low()),
        };
        match probe {
            Probe::At(places) if places.iter().any(|place| !indexed.log.frontier.is_live(place)) => Probe::Absent,
            probe => probe,
        }
    }

    /// See [`crate::engine::Engine::fetch`].
    pub fn fetch(indexed: &Arc<Indexed<Self>>, id: Digest, places: Places, done: FetchDone) {
        match &indexed.index {
            AnyIndex::Memory(_) => indexed.fetch(id, places, done),
            AnyIndex::Disk(table) => table::fetch(table, indexed, id, places, done),
        }
    }

    /// See [`crate::engine::Engine::fetch_any`].
    pub fn fetch_any(indexed: &Arc<Indexed<Self>>, place: Place, done: FetchDone) {
        match &indexed.index {
            AnyIndex::Memory(_) => indexed.fetch_any(place, done),
            AnyIndex::Disk(table) => table::fetch_any(table, indexed, place, done),
        }
    }

    /// See [`crate::engine::Engine::walk`].
    pub fn walk(&self, cursor: u64, most: usize) -> (Vec<Place>, Option<u64>) {
        match self {
            AnyIndex::Memory(index) => index.walk(cursor, most),
            AnyIndex::Disk(table) => table::walk(table, cursor, most),
        }
    }

    /// See [`Index::recall`].
    pub fn recall(&self, id_low: u64) -> Recalled {
        either!(self, index => index.recall(id_low))
    }

    /// See [`Table::has_room`]: in memory there is always room.
    pub fn has_room(&self, id_low: u64) -> bool {
        self.table().is_none_or(|table| table.has_room(id_low))
    }

    /// What a record says is entered. From a full set leaves what is worth least, now or when the table is made anew.
    pub fn enter(&self, kind: Kind, id_low: u64, place: Place, worth: impl Fn(u8, Place) -> u64) {
        match self {
            AnyIndex::Memory(index) => index.enter_by(kind, id_low, place, worth),
            AnyIndex::Disk(table) => table.enter(kind, id_low, place),
        }
    }

    /// Whatever has this fingerprint is removed.
    pub fn remove_low(&self, id_low: u64) {
        either!(self, index => index.remove_low(id_low));
    }

    /// Drop what leads to exactly this place, which leaves with its segment, unless the record is kept, by how often it was asked for.
    /// Whether it was dropped, if memory knew of it.
    pub fn evict_unless(&self, id_low: u64, place: Place, keeps: impl Fn(u8) -> bool) -> Option<bool> {
        either!(self, index => index.evict_unless(id_low, place, keeps))
    }

    /// A record was written once more.
    pub fn follow(&self, id_low: u64, from: Place, to: Place) {
        either!(self, index => index.follow(id_low, from, to));
    }

    /// An object was asked for, whose record was last seen at a place: where it lies by now.
    pub fn hit(&self, id_low: u64, place: Place) -> Option<Place> {
        match self {
            AnyIndex::Memory(index) => index.hit(id_low),
            AnyIndex::Disk(table) => table.hit(id_low, place),
        }
    }

    /// How often the record at a place was asked for; `None` if memory does not lead to it.
    pub fn hits(&self, id_low: u64, place: Place) -> Option<u8> {
        either!(self, index => index.hits(id_low, place))
    }

    /// Nothing in memory leads into this segment any more.
    pub fn sweep(&self, number: usize) {
        either!(self, index => index.sweep(number));
    }

    /// The segment of this number is about to be free.
    pub fn freed(&self, number: usize) {
        self.table().into_iter().for_each(|table| table.freed(number));
    }

    /// Slots that lead into the segment of this number; on the disk about so many.
    pub fn live_in(&self, number: usize) -> u32 {
        either!(self, index => index.live_in(number))
    }

    /// Whether something may have been displaced where an object of this hash belongs.
    pub fn may_displace(&self, id_low: u64) -> bool {
        either!(self, index => index.may_displace(id_low))
    }

    /// What was displaced, if that is known.
    pub fn displaced(&self) -> Option<&Displaced> {
        match self {
            AnyIndex::Memory(index) => index.displaced(),
            AnyIndex::Disk(table) => Some(table.displaced()),
        }
    }

    /// Whether the index leads to an object elsewhere than in a segment that is leaving, and whose own slots have been dropped. `None`
    /// if the disk does not say, or not in so many `reads`, of which those that it takes are taken.
    pub fn leads_past(&self, read: Reading<'_>, id_low: u64, region: Place, reads: &mut u32) -> Option<bool> {
        match self {
            AnyIndex::Memory(index) => Some(index.find(id_low).is_some()),
            AnyIndex::Disk(table) => table.leads_past(read, id_low, region, reads),
        }
    }

    /// Whether memory leads to something newer than what the disk said a moment ago.
    pub fn is_new(&self, id_low: u64) -> bool {
        match self {
            AnyIndex::Memory(index) => index.find(id_low).is_some(),
            AnyIndex::Disk(table) => table.is_new(id_low),
        }
    }

    /// A snapshot is begun, while nobody enters anything. What has left is by so many rounds older where only a snapshot makes it so.
    pub fn snapshot_begins(&self, rounds: u64) {
        match self {
            AnyIndex::Memory(index) => index.displaced().into_iter().for_each(Displaced::snapshot_begins),
            AnyIndex::Disk(table) => table.merge_begins(rounds),
        }
    }

    /// A page of the snapshot.
    pub fn page(&self, device: &dyn Device, page: u64, worth: impl Fn(u8, Place) -> u64) -> Vec<u8> {
        match self {
            AnyIndex::Memory(index) => index.sets().copy_shard(page),
            AnyIndex::Disk(table) => table.merge(device, page, worth),
        }
    }

    /// The snapshot of this number is on the disk, or could not be written.
    pub fn snapshot_ended(&self, number: Option<u64>) {
        match self {
            AnyIndex::Memory(index) if number.is_none() => {
                index.displaced().into_iter().for_each(Displaced::suspect_all);
            }
            AnyIndex::Memory(_) => {}
            AnyIndex::Disk(table) => table.merge_ended(number),
        }
    }
}

impl Finds for AnyIndex {
    fn find(&self, id_low: u64) -> Option<Place> {
        either!(self, index => index.find(id_low))
    }

    fn forget(&self, id_low: u64, place: Place) {
        either!(self, index => index.forget(id_low, place));
    }

    fn slot_count(&self) -> u64 {
        either!(self, index => index.slot_count())
    }

    fn live(&self) -> u64 {
        either!(self, index => index.live())
    }

    fn lost(&self) -> u64 {
        either!(self, index => index.lost())
    }

    fn allocated_bytes(&self) -> u64 {
        either!(self, index => index.allocated_bytes())
    }
}
