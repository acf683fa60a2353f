//! What memory says of the sets: nothing lasting, all of them, or those used last.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::index::row::{Put, row_bytes};
use crate::index::{Row, Sets, SomeSets};

/// Rows, by policy.
pub(super) enum Rows {
    /// No index. Of the sets read last it is remembered what they hold, so that one need not be read twice to be written
    /// to; their number does not grow with the disk.
    AtHand(SomeSets),
    /// Those of the sets used last.
    Some(SomeSets),
    /// Every set's; a row may be unknown still.
    All(AllRows),
}

/// The rows of all sets.
pub(super) struct AllRows {
    sets: Sets,
    hash_bits: u8,
    /// Ways in use, changed with the shard of the way's set locked.
    used: AtomicU64,
}

impl AllRows {
    /// Rows with so many bits of hash, none with a way in use.
    pub(super) fn unused(sets: Sets, hash_bits: u8) -> Self {
        AllRows { sets, hash_bits, used: AtomicU64::new(0) }
    }

    /// Rows as they were saved. Walks them: milliseconds a million.
    pub(super) fn saved(sets: Sets, hash_bits: u8) -> Self {
        let rows = AllRows::unused(sets, hash_bits);
        rows.used.store(rows.walked(), Relaxed);
        rows
    }

    /// Ways in use, each looked at.
    fn walked(&self) -> u64 {
        let used =
            |set| self.sets.with(set, |bytes| Row::from_bytes(bytes, self.hash_bits).map(|row| row.used() as u64));
        (0..self.sets.len()).filter_map(|set| used(set).flatten()).sum()
    }

    // Every hit comes through here: called instead, it costs a tenth of a hit in memory.
    #[inline(always)]
    fn update<T>(&self, set: u64, work: impl FnOnce(&mut Row) -> T) -> Option<T> {
        self.sets.with(set, |bytes| {
            let mut row = Row::from_bytes(bytes, self.hash_bits)?;
            let done = work(&mut row);
            bytes.copy_from_slice(row.bytes());
            Some(done)
        })?
    }

    fn learn(&self, set: u64, row: &Row) {
        self.sets.with(set, |bytes| {
            if Row::from_bytes(bytes, self.hash_bits).is_none() {
                bytes.copy_from_slice(row.bytes());
                self.used.fetch_add(row.used() as u64, Relaxed);
            }
        });
    }
}

impl Rows {
    /// Whether lookups go by the rows.
    pub(super) fn is_index(&self) -> bool {
        !matches!(self, Rows::AtHand(_))
    }

    /// Look at the row of a set, or at its order of use; `None` if it is not known. Which ways are in use is changed by
    /// [`Rows::put`], [`Rows::free`] and [`Rows::free_way`], which count.
    #[inline]
    pub(super) fn update<T>(&self, set: u64, work: impl FnOnce(&mut Row) -> T) -> Option<T> {
        match self {
            Rows::AtHand(some) | Rows::Some(some) => some.update(set, work),
            Rows::All(all) => all.update(set, work),
        }
    }

    /// See [`Row::put`]; `None` if the row is not known.
    pub(super) fn put(&self, set: u64, fingerprint: u16, ways: usize) -> Option<(usize, Put)> {
        self.update(set, |row| {
            let (way, put) = row.put(fingerprint, ways);
            if let (Rows::All(all), Put::Free) = (self, put) {
                all.used.fetch_add(1, Relaxed);
            }
            (way, put)
        })
    }

    /// Free the way of a fingerprint, and say which that was, if there is one; `None` if the row is not known.
    pub(super) fn free(&self, set: u64, fingerprint: u16) -> Option<Option<usize>> {
        self.update(set, |row| {
            let way = row.way_of(fingerprint);
            way.into_iter().for_each(|way| self.free_in(row, way));
            way
        })
    }

    /// Free a way, if the row is known.
    pub(super) fn free_way(&self, set: u64, way: usize) {
        self.update(set, |row| self.free_in(row, way));
    }

    fn free_in(&self, row: &mut Row, way: usize) {
        if let (Rows::All(all), true) = (self, row.get(way) != 0) {
            all.used.fetch_sub(1, Relaxed);
        }
        row.set(way, 0);
    }

    /// Enter the row of a set, if it is not known already.
    pub(super) fn learn(&self, set: u64, row: Row) {
        match self {
            Rows::AtHand(some) | Rows::Some(some) => {
                if some.update(set, |_| ()).is_none() {
                    some.put(set, row);
                }
            }
            Rows::All(all) => all.learn(set, &row),
        }
    }

    /// Objects in all sets, where memory says so, as they were counted.
    pub(super) fn live(&self) -> u64 {
        match self {
            Rows::AtHand(_) | Rows::Some(_) => 0,
            Rows::All(all) => all.used.load(Relaxed),
        }
    }

    /// One page of a snapshot; empty where nothing is kept.
    pub(super) fn page(&self, page: u64) -> Vec<u8> {
        match self {
            Rows::AtHand(_) | Rows::Some(_) => Vec::new(),
            Rows::All(all) => all.sets.copy_shard(page),
        }
    }

    /// How many pages a snapshot of every row has, and how many bytes each.
    pub(super) fn pages(sets: u64, hash_bits: u8) -> (u64, u64) {
        Sets::shards_for(sets, row_bytes(hash_bits))
    }

    /// Memory allocated for the index, in bytes.
    pub(super) fn index_bytes(&self) -> u64 {
        match self {
            Rows::AtHand(_) => 0,
            Rows::Some(some) => some.allocated_bytes(),
            Rows::All(all) => all.sets.allocated_bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{Bins, HashCacheTable, TableOptions, TablePolicy};
    use super::*;
    use crate::device::{Medium, Memory};
    use crate::engine::Engine;
    use crate::index::ranks;
    use crate::layout::Stamp;
    use proptest::prelude::*;

    const SETS: u64 = 5;

    fn walked(rows: &Rows) -> u64 {
        if let Rows::All(all) = rows { all.walked() } else { 0 }
    }

    proptest! {
        #[test]
        fn what_is_counted_is_what_a_walk_finds(
            is_new: bool,
            ways in 1..=8_usize,
            steps in proptest::collection::vec((0..8_u8, 0..SETS, 1..40_u16, 0..8_usize), 0..300),
        ) {
            let first = if is_new { Row::empty(9).bytes().to_vec() } else { Row::unknown(9) };
            let mut rows = Rows::All(AllRows::unused(Sets::new(SETS, &first), 9));
            for (what, set, fingerprint, way) in steps {
                match what {
                    0 => { rows.free(set, fingerprint); }
                    1 => rows.free_way(set, way),
                    2 => { rows.update(set, |row| ranks::touch(row, way)); }
                    3 => rows.learn(set, Row::learned(&[(fingerprint, 2), (0, 9), (3, 1), (fingerprint / 2, 3)], 9)),
                    4 if way == 0 => {
                        let saved = Sets::new(SETS, &Row::unknown(9));
                        saved.load_shard(0, &rows.page(0));
                        rows = Rows::All(AllRows::saved(saved, 9));
                    }
                    _ => { rows.put(set, fingerprint, ways); }
                }
                prop_assert_eq!(rows.live(), walked(&rows));
            }
        }
    }

    /// Whoever asks for the figures of an engine waits for nobody that looks something up: here it would wait for itself.
    #[test]
    fn figures_lock_no_set() {
        let cut = (Stamp { seed: 1 }, 8);
        let options = TableOptions::plan(TablePolicy::SetMem, Bins::default(), 16 << 20, 0, 8192, cut).unwrap();
        let device = Arc::new(Memory::over(&Medium::zeroed(16 << 20)));
        let engine = HashCacheTable::open(device, &options).unwrap();
        engine.0.rows.put(0, 7, 8);
        let Rows::All(all) = &engine.0.rows else { panic!("every row is in memory") };
        assert_eq!(Rows::pages(all.sets.len(), 8).0, 1);
        let stats = all.sets.with(0, |_| engine.stats()).unwrap();
        assert_eq!((stats.live_objects, stats.slots), (1, all.sets.len() * 8));
    }
}
