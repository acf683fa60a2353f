//! What memory says of the sets: nothing lasting, all of them, or those used last.

use crate::index::row::row_bytes;
use crate::index::{Row, Sets, SomeSets};

/// Rows, by policy.
pub(super) enum Rows {
    /// No index. Of the sets read last it is remembered what they hold, so that one need not be read twice to be written
    /// to; their number does not grow with the disk.
    AtHand(SomeSets),
    /// Those of the sets used last.
    Some(SomeSets),
    /// Every set's, with so many bits of hash; a row may be unknown still.
    All(Sets, u8),
}

impl Rows {
    /// Whether lookups go by the rows.
    pub(super) fn is_index(&self) -> bool {
        !matches!(self, Rows::AtHand(_))
    }

    /// Look at the row of a set, or change it; `None` if it is not known.
    pub(super) fn update<T>(&self, set: u64, work: impl FnOnce(&mut Row) -> T) -> Option<T> {
        match self {
            Rows::AtHand(some) | Rows::Some(some) => some.update(set, work),
            Rows::All(sets, hash_bits) => sets.with(set, |bytes| {
                let mut row = Row::from_bytes(bytes, *hash_bits)?;
                let done = work(&mut row);
                bytes.copy_from_slice(row.bytes());
                Some(done)
            })?,
        }
    }

    /// Enter the row of a set, if it is not known already.
    pub(super) fn learn(&self, set: u64, row: Row) {
        match self {
            Rows::AtHand(some) | Rows::Some(some) => {
                if some.update(set, |_| ()).is_none() {
                    some.put(set, row);
                }
            }
            Rows::All(sets, hash_bits) => {
                sets.with(set, |bytes| {
                    if Row::from_bytes(bytes, *hash_bits).is_none() {
                        bytes.copy_from_slice(row.bytes());
                    }
                });
            }
        }
    }

    /// Objects in all sets, where memory says so.
    pub(super) fn live(&self) -> u64 {
        match self {
            Rows::AtHand(_) | Rows::Some(_) => 0,
            Rows::All(sets, hash_bits) => (0..sets.len())
                .filter_map(|set| {
                    let used = |bytes: &mut [u8]| Row::from_bytes(bytes, *hash_bits).map_or(0, |row| row.used() as u64);
                    sets.with(set, used)
                })
                .sum(),
        }
    }

    /// One page of a snapshot; empty where nothing is kept.
    pub(super) fn page(&self, page: u64) -> Vec<u8> {
        match self {
            Rows::AtHand(_) | Rows::Some(_) => Vec::new(),
            Rows::All(sets, _) => sets.copy_shard(page),
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
            Rows::All(sets, _) => sets.allocated_bytes(),
        }
    }
}
