//! An index that is on the disk as a whole, and in memory as far as a budget goes: what finding an object reads.
//!
//! On the disk is a table of pages, each for a range of hashes, made anew in sequence whenever enough has changed. In memory are what has
//! changed since, a [`Filter`] over the table, and with what is left [`Resident`] copies of its entries. Filter and copies are those of
//! the store. Of changes and the table only what they hold is kept here, and the memory and bytes that they would take are counted.

use std::collections::HashMap;

use tinaja_store::index::Filter;
use tinaja_store::index::resident::{Entry, MOST_HITS, Resident, SlotBits};

use crate::random::mix;

/// Memory of an index, as parts of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Objects that are on the disk when it is full.
    pub objects: u64,
    /// Bits of the filter, for each of them.
    pub filter: f64,
    /// How many of them may have changed until the table is made anew, as a part.
    pub changes: f64,
    /// Bits of copies, for each of them.
    pub copies: f64,
}

/// A change: the bits of a hash that tell the object from others near it, a position in blocks of 4 KiB on a disk of up to 1 TiB, hits,
/// and what it is. A fifth of the places is empty.
const CHANGE_BITS: f64 = (24 + 28 + 2 + 2) as f64 / 0.8;
/// A copy, with such a position.
const COPY: SlotBits = SlotBits { hash: 8, position: 28 };
/// An entry of the table: 18 bits of a hash, which two of a page share once in 500 lookups, and a position. A fifth of the places is empty.
const ENTRY_BITS: f64 = (18 + 28) as f64 / 0.8;
const PAGE_BYTES: u64 = 4096;

/// The part that may change, by bits in all, within bounds.
const CHANGES_A_BIT: f64 = 1.0 / 800.0;
const CHANGES: (f64, f64) = (0.004, 0.02);

impl Budget {
    /// So many bits for each of so many objects. A budget too small for the changes is raised to what
    /// they need.
    pub fn of(bits: f64, objects: u64) -> Budget {
        let filter = Filter::bits_of(bits);
        let changes = (bits * CHANGES_A_BIT).clamp(CHANGES.0, CHANGES.1);
        Budget { objects, filter, changes, copies: (bits - filter - changes * CHANGE_BITS).max(0.0) }
    }

    /// Bits of changes, for each object on the disk.
    pub fn change_bits(&self) -> f64 {
        self.changes * CHANGE_BITS
    }

    /// Bits for each object, all in.
    pub fn bits(&self) -> f64 {
        self.filter + self.change_bits() + self.copies
    }
}

/// Lookups, and what they read of the table and of records.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reads {
    /// Lookups that found their object.
    pub hits: u64,
    /// Lookups that did not.
    pub misses: u64,
    /// Reads for those that did.
    pub of_hits: u64,
    /// Reads for those that did not.
    pub of_misses: u64,
    /// Requests to the disk besides: what storing takes.
    pub stores: f64,
}

impl Reads {
    /// Count a lookup.
    pub fn count(&mut self, is_hit: bool, reads: u64) {
        let (lookups, of_them) = match is_hit {
            true => (&mut self.hits, &mut self.of_hits),
            false => (&mut self.misses, &mut self.of_misses),
        };
        (*lookups, *of_them) = (*lookups + 1, *of_them + reads);
    }

    /// The part of lookups that found their object.
    pub fn hit_ratio(&self) -> f64 {
        self.hits as f64 / (self.hits + self.misses).max(1) as f64
    }

    /// Reads for each hit.
    pub fn a_hit(&self) -> f64 {
        self.of_hits as f64 / self.hits.max(1) as f64
    }

    /// Reads for each miss.
    pub fn a_miss(&self) -> f64 {
        self.of_misses as f64 / self.misses.max(1) as f64
    }

    /// Requests to the disk besides, for each miss.
    pub fn a_store(&self) -> f64 {
        self.stores / self.misses.max(1) as f64
    }

    /// Reads for each request if so many of them are hits, as a part.
    pub fn a_request(&self, hit_ratio: f64) -> f64 {
        self.a_hit() * hit_ratio + self.a_miss() * (1.0 - hit_ratio)
    }

    /// Requests to the disk, reads and writes, for each request if so many are hits.
    pub fn ios_a_request(&self, hit_ratio: f64) -> f64 {
        self.a_request(hit_ratio) + self.a_store() * (1.0 - hit_ratio)
    }
}

/// See the module. Memory: some 40 bytes for each object of the load.
pub struct Memory {
    filter: Filter,
    copies: Resident,
    changes: HashMap<u32, Change>,
    most_changes: usize,
    /// Changes there were at the most.
    peak: usize,
    /// Positions by object, as of when the table was made.
    table: HashMap<u32, u32>,
    table_bytes: u64,
    /// So far.
    pub reads: Reads,
    /// An object whose lookup found an entry of it that leads nowhere any more.
    stale: Option<u32>,
}

#[derive(Clone, Copy)]
enum Change {
    There { position: u32, hits: u8 },
    Gone,
}

/// What a lookup came to.
struct LookUp {
    reads: u64,
    by_table: bool,
}

impl LookUp {
    fn of(reads: u64) -> LookUp {
        LookUp { reads, by_table: false }
    }
}

fn id_of(object: u32) -> u64 {
    mix(object.into())
}

impl Memory {
    /// Empty.
    pub fn new(budget: Budget) -> Memory {
        let bytes = |bits: f64| (budget.objects as f64 * bits / 8.0) as u64;
        let table_bytes = bytes(ENTRY_BITS).next_multiple_of(PAGE_BYTES).max(PAGE_BYTES);
        Memory {
            filter: Filter::within(table_bytes / PAGE_BYTES, budget.objects, bytes(budget.filter)),
            copies: Resident::within(bytes(budget.copies), COPY),
            changes: HashMap::new(),
            most_changes: ((budget.objects as f64 * budget.changes) as usize).max(1),
            peak: 0,
            table: HashMap::new(),
            table_bytes,
            reads: Reads::default(),
            stale: None,
        }
    }

    /// Look an object up that is at this position, or nowhere, and count what that reads if it `counts`. Whether the table led to it.
    pub fn look_up(&mut self, object: u32, there: Option<u32>, counts: bool) -> bool {
        self.stale = None;
        let LookUp { reads, by_table } = self.reads_for(object, there);
        if counts {
            self.reads.count(there.is_some(), reads);
        }
        by_table
    }

    fn reads_for(&mut self, object: u32, there: Option<u32>) -> LookUp {
        match self.changes.get_mut(&object) {
            Some(Change::There { hits, .. }) => {
                *hits = (*hits + 1).min(MOST_HITS);
                return LookUp::of(1);
            }
            Some(Change::Gone) => return LookUp::of(0),
            None => {}
        }
        let id = id_of(object);
        if !self.filter.may_hold(id) {
            return LookUp::of(0);
        }
        let copy = self.copies.find(id).map(|copy| copy.position);
        if let Some(position) = copy.filter(|position| there.map(u64::from) == Some(*position)) {
            self.copies.hit(id, position);
            return LookUp::of(1);
        }
        // Another object's copy leads to a record that is not this one's.
        let misled = u64::from(copy.is_some());
        let entry = self.table.get(&object).copied();
        if let Some(position) = entry.filter(|_| entry == there) {
            self.copies.enter(id, Entry { position: position.into(), hits: 1 });
            return LookUp { reads: misled + 2, by_table: true };
        }
        self.stale = entry.map(|_| object);
        LookUp::of(misled + 1)
    }

    /// A record was read along with another one: it is known where it is.
    pub fn read_along(&mut self, object: u32, position: u32) {
        let (id, position) = (id_of(object), u64::from(position));
        if !self.changes.contains_key(&object) && self.copies.hits(id, position).is_none() {
            self.copies.enter(id, Entry { position, hits: 0 });
        }
    }

    /// Whether the last lookup was of this object, and showed that it has left not long ago.
    pub fn is_stale(&self, object: u32) -> bool {
        self.stale == Some(object)
    }

    /// How often an object at a position was asked for, as far as memory knows.
    pub fn hits(&self, object: u32, position: u32) -> u8 {
        match self.changes.get(&object) {
            Some(Change::There { hits, .. }) => *hits,
            Some(Change::Gone) => 0,
            None => self.copies.hits(id_of(object), position.into()).unwrap_or(0),
        }
    }

    /// An object is at a position from now on.
    pub fn record(&mut self, object: u32, position: u32) {
        self.changes.insert(object, Change::There { position, hits: 0 });
        self.peak = self.peak.max(self.changes.len());
    }

    /// It is no longer at its position: its segment leaves, of which the table's entries tell by themselves, or it is recorded anew.
    pub fn gone(&mut self, object: u32, position: u32) {
        self.copies.drop_unless(id_of(object), position.into(), |_| false);
        if let Some(change) = self.changes.get_mut(&object) {
            *change = Change::Gone;
        }
    }

    /// It was removed, and its segment stays: what the table says of it is void.
    pub fn removed(&mut self, object: u32) {
        if self.table.contains_key(&object) {
            self.changes.insert(object, Change::Gone);
            self.peak = self.peak.max(self.changes.len());
        }
    }

    /// Bytes of memory at the most: filter, copies, and as many changes as there were.
    pub fn most_bytes(&self) -> u64 {
        self.filter.allocated_bytes() + self.copies.allocated_bytes() + (self.peak as f64 * CHANGE_BITS / 8.0) as u64
    }

    /// Whether the table is to be made anew.
    pub fn is_due(&self) -> bool {
        self.changes.len() >= self.most_changes
    }

    /// Make it anew: what leads to where its object is stays, and what has changed is entered. The bytes that are written.
    pub fn merge(&mut self, position: impl Fn(u32) -> Option<u32>) -> u64 {
        self.table.retain(|object, at| position(*object) == Some(*at));
        // By hash, as a real one goes through the pages: and the same each time.
        let mut changes: Vec<_> = self.changes.drain().collect();
        changes.sort_unstable_by_key(|(object, _)| id_of(*object));
        for (object, change) in changes {
            self.table.remove(&object);
            if let Change::There { position, hits } = change {
                self.table.insert(object, position);
                self.copies.enter(id_of(object), Entry { position: position.into(), hits });
            }
        }
        let mut pages = vec![Vec::new(); self.filter.pages() as usize];
        for id in self.table.keys().map(|object| id_of(*object)) {
            if let Some(page) = pages.get_mut(self.filter.page_of(id) as usize) {
                page.push(id);
            }
        }
        (0..).zip(pages).for_each(|(page, held)| self.filter.renew(page, held.into_iter()));
        self.table_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_used_as_a_whole_and_its_parts_grow_with_it() {
        let budgets =
            [0.4, 1.0, 3.0, 5.0, 8.0, 12.0, 16.0, 20.0, 32.0, 40.0].map(|bits| (bits, Budget::of(bits, 1000)));
        assert!(budgets.iter().all(|(bits, budget)| (budget.bits() - bits).abs() < 0.001), "{budgets:?}");
        for pair in budgets.windows(2) {
            let [before, now] = [pair[0].1, pair[1].1];
            assert!(now.filter >= before.filter && now.changes >= before.changes && now.copies > before.copies);
        }
        assert_eq!(Budget::of(0.0, 1000), Budget { objects: 1000, filter: 0.0, changes: 0.004, copies: 0.0 });
        assert_eq!((Budget::of(12.0, 9).filter, Budget::of(99.0, 9).filter), (2.5, 7.0));
    }

    /// 1 from memory, 2 by the table; without the filter a read for what is absent.
    #[test]
    fn reads_are_counted_by_what_knows_the_object() {
        let budget = |filter, copies| Budget { objects: 1000, filter, changes: 0.5, copies };
        let mut memory = Memory::new(budget(0.0, 0.0));
        (0..100).for_each(|object| memory.record(object, object));
        assert!(!memory.look_up(7, Some(7), true) && memory.reads.of_hits == 1, "it has not been merged yet");
        assert!(memory.merge(|object| (object != 9).then_some(object)) >= 100 * 46 / 8);
        assert!(memory.look_up(7, Some(7), true) && memory.look_up(7, Some(7), true) && memory.reads.of_hits == 5);
        assert!(!memory.look_up(500, None, true) && memory.reads.of_misses == 1);
        memory.gone(8, 8);
        assert!(!memory.look_up(8, None, true) && memory.is_stale(8) && memory.reads.of_misses == 2);
        memory.gone(5, 5);
        memory.removed(5);
        assert!(!memory.look_up(5, None, true) && !memory.is_stale(5) && memory.reads.of_misses == 2, "a mark says so");
        memory.look_up(7, Some(7), false);
        assert_eq!((memory.reads.hits, memory.reads.of_hits), (3, 5), "what does not count");

        let mut memory = Memory::new(budget(16.0, 38.0));
        (0..100).for_each(|object| memory.record(object, object));
        memory.look_up(7, Some(7), true);
        memory.merge(Some);
        assert_eq!((memory.hits(7, 7), memory.hits(6, 6), memory.hits(7, 8)), (1, 0, 0));
        assert!((0..100).all(|object| !memory.look_up(object, Some(object), true)));
        assert_eq!((memory.reads.of_hits, memory.hits(7, 7), memory.hits(6, 6)), (101, 2, 1));
        assert!((500..600).all(|object| !memory.look_up(object, None, true)));
        assert!(memory.reads.a_miss() < 0.03, "{:?}", memory.reads);
        memory.gone(7, 7);
        assert_eq!(memory.hits(7, 7), 0);
    }
}
