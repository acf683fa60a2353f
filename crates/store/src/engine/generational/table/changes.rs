//! What has changed since the table was written: packed, and in the order of the table's pages.
//!
//! ```text
//! a cell, 9 bytes: u32 fingerprint and pair of sets, from the first of its shard on | u32 position in the log / unit
//!                  u8 bits 0-1 what: 0 empty, 1 there, 2 removed, 3 left | bits 2-3 hits | bit 4 since the last merge began
//! ```
//!
//! A shard holds the changes of some pages by linear probing, and where one belongs follows from its place in the table. They lie in the order
//! of their keys: so the changes of one page lie together, and who looks for one that is not there stops at the first with a higher key,
//! however full the shard is. Nothing is taken out but by [`Changes::merged`], so no cell is a gap.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::{Mutex, MutexGuard};

use super::spot::Spot;

const CELL_BYTES: usize = 9;
const FINGERPRINTS: u64 = 1 << 12;
/// Cells of a shard at the least.
const LEAST_CELLS: usize = 32;
/// Sets of the table whose changes lie in one shard, about: whole pages of them.
const SETS: u64 = 1 << 14;

type Cell = [u8; CELL_BYTES];

/// What has become of an object since the table was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It lies there, and was asked for so often since.
    There {
        /// In units of the log.
        position: u32,
        /// Up to three.
        hits: u8,
    },
    /// It was removed, or could not be read.
    Removed,
    /// It has left with its segment.
    Left,
}

/// See the module. Memory: 9 bytes a cell, and an eighth of them is free before whoever stores has to wait. What must be said then all the
/// same makes a shard larger, until its changes are merged.
pub struct Changes {
    shards: Box<[Mutex<Shard>]>,
    /// Sets whose changes lie in one shard.
    sets_each: u64,
    /// Cells of a shard, as planned.
    cells: usize,
    count: AtomicU64,
}

struct Shard {
    cells: Vec<Cell>,
    used: usize,
    /// Numbers of cells are spread over so many keys.
    span: u64,
}

/// A spot, with its shard locked.
pub struct At<'a> {
    shard: MutexGuard<'a, Shard>,
    key: u32,
    /// Its cell, or where that would be, and what it says.
    found: (usize, Option<(Change, bool)>),
    count: &'a AtomicU64,
}

fn encode(key: u32, change: Change, is_fresh: bool) -> Cell {
    let (what, hits, position) = match change {
        Change::There { position, hits } => (1, hits & 3, position),
        Change::Removed => (2, 0, 0),
        Change::Left => (3, 0, 0),
    };
    let mut cell = [0; CELL_BYTES];
    let bytes = key.to_le_bytes().into_iter().chain(position.to_le_bytes());
    let state = what | hits << 2 | u8::from(is_fresh) << 4;
    cell.iter_mut().zip(bytes.chain([state])).for_each(|(to, from)| *to = from);
    cell
}

/// The key, what it says, and whether that is so since the last merge began; `None` for an empty cell.
fn decode(cell: &Cell) -> Option<(u32, Change, bool)> {
    let [k0, k1, k2, k3, p0, p1, p2, p3, state] = *cell;
    let change = match state & 3 {
        0 => return None,
        1 => Change::There { position: u32::from_le_bytes([p0, p1, p2, p3]), hits: state >> 2 & 3 },
        2 => Change::Removed,
        _ => Change::Left,
    };
    Some((u32::from_le_bytes([k0, k1, k2, k3]), change, state >> 4 & 1 == 1))
}

impl Changes {
    /// So many changes of a table are merged at once, which has so many sets, and so many in a page. Allocates room for more now.
    pub fn within(merged_at: u64, sets: u64, sets_a_page: u64) -> Self {
        Self::in_shards(merged_at, sets, sets_a_page, SETS)
    }

    fn in_shards(merged_at: u64, sets: u64, sets_a_page: u64, sets_a_shard: u64) -> Self {
        let sets_a_page = sets_a_page.max(1);
        // As many pages in each as in the others, or one less: a shard that is half empty is as good as half a shard.
        let (pages, shards) = (sets.div_ceil(sets_a_page), sets.div_ceil(sets_a_shard.max(1)).max(1));
        let sets_each = (pages.div_ceil(shards) * sets_a_page).clamp(1, u64::from(u32::MAX) / FINGERPRINTS);
        let shards = sets.div_ceil(sets_each).max(1);
        // While some are merged others come, and no shard is filled just as the others are.
        let cells = (merged_at.div_ceil(shards) as usize).saturating_mul(4) / 3 + LEAST_CELLS;
        let shard = |number: u64| {
            let sets = sets.saturating_sub(number * sets_each).clamp(1, sets_each);
            Mutex::new(Shard { cells: vec![[0; CELL_BYTES]; cells], used: 0, span: sets * FINGERPRINTS })
        };
        Changes { shards: (0..shards).map(shard).collect(), sets_each, cells, count: AtomicU64::new(0) }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }

    /// Whether it is time to merge them: three quarters of the cells are used.
    pub fn is_due(&self) -> bool {
        self.count() > self.cells() / 4 * 3
    }

    /// Bytes of memory.
    pub fn allocated_bytes(&self) -> u64 {
        let bytes = |shard: &Mutex<Shard>| size_of::<Mutex<Shard>>() + shard.lock().cells.capacity() * CELL_BYTES;
        self.shards.iter().map(bytes).sum::<usize>() as u64
    }

    /// What is known of a spot, locked.
    pub fn at(&self, spot: Spot) -> Option<At<'_>> {
        let (number, key) = self.place(spot);
        let shard = self.shards.get(number)?.lock();
        let found = shard.find(key);
        Some(At { shard, key, found, count: &self.count })
    }

    /// The number of a spot's shard, and its key there.
    fn place(&self, spot: Spot) -> (usize, u32) {
        let (number, set) = (spot.pair / self.sets_each, spot.pair % self.sets_each);
        (number as usize, (set * FINGERPRINTS + u64::from(spot.fingerprint)) as u32)
    }

    fn spot(&self, shard: u64, key: u32) -> Spot {
        let pair = shard * self.sets_each + u64::from(key) / FINGERPRINTS;
        Spot { pair, fingerprint: (u64::from(key) % FINGERPRINTS) as u16 }
    }

    /// What is known of a spot.
    pub fn get(&self, spot: Spot) -> Option<Change> {
        let (number, key) = self.place(spot);
        self.shards.get(number)?.lock().find(key).1.map(|(change, _)| change)
    }

    /// Whether a change of this spot may be said now.
    pub fn has_room(&self, spot: Spot) -> bool {
        let (number, key) = self.place(spot);
        self.shards.get(number).is_none_or(|shard| {
            let shard = shard.lock();
            shard.used < self.cells - self.cells / 8 || shard.find(key).1.is_some()
        })
    }

    /// A merge begins: what is said from here on stays until the next one.
    pub fn merge_begins(&self) {
        for shard in &self.shards {
            for cell in &mut shard.lock().cells {
                if let Some((key, change, true)) = decode(cell) {
                    *cell = encode(key, change, false);
                }
            }
        }
    }

    /// What has changed in these sets, which are all those of a page.
    pub fn in_sets(&self, sets: &Range<u64>) -> Vec<(Spot, Change)> {
        let (number, mut found) = (sets.start / self.sets_each, Vec::new());
        let Some(shard) = self.shards.get(number as usize).map(|shard| shard.lock()) else { return found };
        let from = self.place(Spot { pair: sets.start, fingerprint: 0 }).1;
        let to = u64::from(from) + (sets.end - sets.start) * FINGERPRINTS;
        let (first, last) = (shard.cell_of(from), shard.cell_of((to - 1) as u32));
        for (at, cell) in shard.cells.iter().enumerate().skip(first) {
            match decode(cell) {
                Some((key, ..)) if u64::from(key) >= to => break,
                Some((key, change, _)) if key >= from => found.push((self.spot(number, key), change)),
                None if at > last => break,
                Some(_) | None => {}
            }
        }
        found
    }

    /// The merge has ended, and the table says all that was said before it began. That is handed over, with its shard locked, and dropped.
    pub fn merged(&self, mut hand_over: impl FnMut(Spot, Change)) {
        for (number, shard) in (0..).zip(&self.shards) {
            let mut shard = shard.lock();
            let before = std::mem::take(&mut shard.cells);
            let (old, fresh): (Vec<_>, Vec<_>) = before.iter().filter_map(decode).partition(|(.., is_fresh)| !is_fresh);
            old.iter().for_each(|(key, change, _)| hand_over(self.spot(number, *key), *change));
            shard.used = 0;
            shard.cells = vec![[0; CELL_BYTES]; self.cells.max(fresh.len() * 4 / 3)];
            for (key, change, _) in &fresh {
                let found = shard.find(*key);
                shard.put(*key, *change, found);
            }
            self.count.fetch_sub(old.len() as u64, Relaxed);
        }
    }

    /// Change what is there, spot by spot, where `into` says so.
    pub fn each(&self, into: impl Fn(Change) -> Option<Change>) {
        for shard in &self.shards {
            for cell in &mut shard.lock().cells {
                if let Some((key, change, _)) = decode(cell)
                    && let Some(change) = into(change)
                {
                    *cell = encode(key, change, true);
                }
            }
        }
    }

    /// How many cells there are, as planned.
    fn cells(&self) -> u64 {
        (self.shards.len() * self.cells) as u64
    }
}

impl Shard {
    /// Where a key belongs if nothing is in its way. Behind the last such cell is room for those that something is in the way of.
    fn cell_of(&self, key: u32) -> usize {
        let cells = self.cells.len() - self.cells.len() / 16;
        ((u64::from(key) * cells as u64 / self.span) as usize).min(cells.saturating_sub(1))
    }

    /// The cell of a key and what it says, or the cell where it would be: an empty one, one with a higher key, or behind the last.
    fn find(&self, key: u32) -> (usize, Option<(Change, bool)>) {
        let first = self.cell_of(key);
        for (at, cell) in self.cells.iter().enumerate().skip(first) {
            match decode(cell) {
                Some((other, change, is_fresh)) if other == key => return (at, Some((change, is_fresh))),
                Some((other, ..)) if other < key => {}
                Some(_) | None => return (at, None),
            }
        }
        (self.cells.len(), None)
    }

    /// Whether it is a further one. It was found there, or is to be.
    fn put(&mut self, key: u32, change: Change, mut found: (usize, Option<(Change, bool)>)) -> bool {
        let cell = encode(key, change, true);
        loop {
            let (at, before) = found;
            let rest = self.cells.get_mut(at..).unwrap_or_default();
            if before.is_some() {
                rest.iter_mut().take(1).for_each(|to| *to = cell);
                return false;
            }
            if let Some(free) = rest.iter().position(|cell| decode(cell).is_none()) {
                // Those with higher keys make room.
                rest.get_mut(..=free).unwrap_or_default().rotate_right(1);
                rest.iter_mut().take(1).for_each(|to| *to = cell);
                self.used += 1;
                return true;
            }
            self.grow();
            found = self.find(key);
        }
    }

    /// A quarter more cells. What is there is spread anew, in its order.
    fn grow(&mut self) {
        let larger = vec![[0; CELL_BYTES]; self.cells.len() / 4 * 5 + LEAST_CELLS];
        let before = std::mem::replace(&mut self.cells, larger);
        let mut next = 0;
        for cell in before {
            let Some((key, ..)) = decode(&cell) else { continue };
            let at = self.cell_of(key).max(next);
            match self.cells.get_mut(at) {
                Some(to) => *to = cell,
                None => self.cells.push(cell),
            }
            next = at + 1;
        }
    }
}

impl At<'_> {
    /// What is known.
    pub fn get(&self) -> Option<Change> {
        self.found.1.map(|(change, _)| change)
    }

    /// This is so from now on.
    pub fn put(mut self, change: Change) {
        self.count.fetch_add(u64::from(self.shard.put(self.key, change, self.found)), Relaxed);
    }

    /// It was asked for once more, where it lies. No change that has to be merged.
    pub fn count_hit(mut self, most: u8) {
        if let (at, Some((Change::There { position, hits }, is_fresh))) = self.found
            && let Some(cell) = self.shard.cells.get_mut(at)
        {
            *cell = encode(self.key, Change::There { position, hits: (hits + 1).min(most) }, is_fresh);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn spot(pair: u64, fingerprint: u16) -> Spot {
        Spot { pair, fingerprint }
    }

    fn there(position: u32) -> Change {
        Change::There { position, hits: 0 }
    }

    fn put(changes: &Changes, spot: Spot, change: Change) {
        changes.at(spot).unwrap().put(change);
    }

    #[test]
    fn a_cell_keeps_all_of_it() {
        for (key, change, is_fresh) in [
            (u32::MAX, Change::There { position: 0xDEAD_BEEF, hits: 3 }, true),
            (0, Change::There { position: 0, hits: 0 }, false),
            (77, Change::Removed, true),
            (78, Change::Left, false),
        ] {
            assert_eq!(decode(&encode(key, change, is_fresh)), Some((key, change, is_fresh)));
        }
        assert_eq!(decode(&[0; CELL_BYTES]), None);
    }

    #[test]
    fn who_stores_waits_where_it_is_full_and_what_must_be_said_is_said() {
        let changes = Changes::within(10, 100, 10);
        let room = (0..200).take_while(|n| {
            let has_room = changes.has_room(spot(*n % 100, *n as u16));
            put(&changes, spot(*n % 100, *n as u16), there(*n as u32));
            has_room
        });
        assert!((35..45).contains(&room.count()));
        assert!(changes.is_due() && changes.has_room(spot(0, 0)), "that is said already");
        (0..1000).for_each(|n| put(&changes, spot(n % 100, 1000 + n as u16), Change::Removed));
        assert!((0..1000).all(|n| changes.get(spot(n % 100, 1000 + n as u16)) == Some(Change::Removed)));
        let planned = Changes::within(10, 100, 10).allocated_bytes();
        assert!(changes.allocated_bytes() > planned);
        changes.merge_begins();
        changes.merged(|_, _| {});
        assert_eq!((changes.count(), changes.allocated_bytes()), (0, planned));
    }

    proptest! {
        /// As a map would: and what was said after a merge began is there after it.
        #[test]
        fn it_is_a_map_of_pages(
            steps in proptest::collection::vec((0..4_u8, 0..100_u64, 0..40_u16, 0..9_u32), 1..300),
            merged_at in 0..200_u64,
            sets_a_page in 1..30_u64,
            sets_a_shard in 1..120_u64,
        ) {
            let changes = Changes::in_shards(merged_at, 100, sets_a_page, sets_a_shard);
            let (mut model, mut is_merging) = (BTreeMap::new(), false);
            for (what, pair, fingerprint, position) in steps {
                let at = spot(pair, fingerprint * 100);
                let change = [there(position), Change::Removed, Change::Left][what as usize % 3];
                match what {
                    3 if is_merging => {
                        let mut handed = Vec::new();
                        changes.merged(|spot, change| handed.push((spot, change)));
                        handed.sort_unstable_by_key(|(spot, _)| *spot);
                        let old = model.iter().filter(|(_, (_, is_fresh))| !is_fresh);
                        prop_assert_eq!(handed, old.map(|(spot, (change, _))| (*spot, *change)).collect::<Vec<_>>());
                        model.retain(|_, (_, is_fresh)| *is_fresh);
                        is_merging = false;
                    }
                    3 => {
                        changes.merge_begins();
                        model.values_mut().for_each(|(_, is_fresh)| *is_fresh = false);
                        is_merging = true;
                    }
                    _ => {
                        put(&changes, at, change);
                        model.insert(at, (change, true));
                    }
                }
                prop_assert_eq!(changes.get(at), model.get(&at).map(|(change, _)| *change));
                prop_assert_eq!(changes.count(), model.len() as u64);
            }
            for first in (0..100).step_by(sets_a_page as usize) {
                let page = first..(first + sets_a_page).min(100);
                let mut found = changes.in_sets(&page);
                found.sort_unstable_by_key(|(spot, _)| *spot);
                let there = model.iter().filter(|(spot, _)| page.contains(&spot.pair));
                prop_assert_eq!(found, there.map(|(spot, (change, _))| (*spot, *change)).collect::<Vec<_>>());
            }
        }
    }
}
