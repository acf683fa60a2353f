//! Settings of engines, and which of them make no sense.

use super::options::EngineName;
use crate::engine::hashcache::{Bins, TablePolicy};
use crate::index::hash::MOST_HASH_BITS;

/// Settings of engines.
///
/// An engine is not given what it does not have: whoever says one of these for another engine is told so when the cache is
/// opened. By default nothing is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// Of how many sets in a hundred HashCache-SetMemLRU keeps the row in memory, 1 to 100. `None`: 40, which is below SetMem's
    /// memory (HashCache, section 3.3). No other engine has it.
    pub sets_in_memory_percent: Option<u8>,
    /// Of how many slots in each set of eight HashCache-LogLRU keeps the position in memory, 1 to 8. `None`: 4, since half of
    /// the objects are rarely asked for again (3.4). No other engine has it.
    pub positions_in_memory: Option<u8>,
    /// Whether the other positions lie on a device of their own, and not before the log (5.4). It is written on the disk, and
    /// [`Cache::open`](crate::Cache::open) takes it from [`CacheOptions::positions_dir`](crate::CacheOptions::positions_dir).
    pub positions_apart: bool,
    /// Whether related objects are written together and read together (3.5): what is asked for next is in memory then. It
    /// costs 8 bits for each position in memory and up to 16 MiB a disk, and is written on the disk. `None`: as the cache
    /// was made, and not in a new one. HashCache-LogN never does.
    pub prefetch: Option<bool>,
    /// How many bits of an object's hash the index in memory keeps of it, 8 to 16 (3.3, 4.4): with each bit more, which costs
    /// one a slot, half as many lookups of what is not there read the disk for nothing. It is written on the disk. `None`:
    /// as the cache was made, and 8 in a new one. HashCache-Basic and -Set keep none.
    pub hash_bits: Option<u8>,
    /// Of what is stored, how many bytes in a hundred the log-structured cache may write once more, so that the most valuable
    /// of the objects it would evict with a segment stay. 0 to 50. Default 0: what leaves is what is oldest.
    pub keep_percent: u8,
}

impl Tuning {
    /// Whether HashCache-LogLRU has all positions in memory, so that it needs none on disk.
    pub(super) fn all_positions_in_memory(&self) -> bool {
        self.positions_kept() >= 8
    }
}

/// The most that [`Tuning::keep_percent`] may be: every byte stored would be written one and a half times.
const MOST_KEPT_PERCENT: u8 = 50;

/// Bytes that an object may have on average: no less than what is stored beside each, and no more than leave room for some.
const LEAST_MEAN_BYTES: u64 = 64;
const LEAST_OBJECTS: u64 = 64;

impl Tuning {
    /// Of how many sets in a hundred the row is in memory: as said, or 40.
    pub fn sets_in_memory(&self) -> u8 {
        self.sets_in_memory_percent.unwrap_or(40)
    }

    /// Of how many slots in each set the position is in memory: as said, or 4.
    pub fn positions_kept(&self) -> u8 {
        self.positions_in_memory.unwrap_or(4)
    }
}

/// What is wrong with settings for an engine in a cache of so many bytes, and what to do about it.
pub(super) fn wrong(engine: EngineName, tuning: Tuning, bins: Bins, disk_bytes: u64) -> Option<String> {
    let Tuning { sets_in_memory_percent: percent, positions_in_memory: kept, .. } = tuning;
    if let Some(percent) = percent.filter(|percent| !(1..=100).contains(percent)) {
        return Some(format!("{percent} in a hundred sets cannot be in memory: choose 1 to 100, or leave it out"));
    }
    if let Some(kept) = kept.filter(|kept| !(1..=8).contains(kept)) {
        return Some(format!(
            "of {kept} of a set's 8 positions there cannot be a copy in memory: choose 1 to 8, or leave it out"
        ));
    }
    if tuning.positions_apart && engine != EngineName::HashCacheLogLru {
        return Some(format!(
            "{engine} keeps no positions on disk, so they need no directory: leave that out, or choose hashcache-loglru"
        ));
    }
    if percent.is_some() && engine != EngineName::HashCacheSetMemLru {
        return Some(format!(
            "{engine} has no choice of how many sets it has in memory: leave that out, or choose hashcache-setmemlru"
        ));
    }
    if kept.is_some() && engine != EngineName::HashCacheLogLru {
        return Some(format!(
            "{engine} has no choice of how many positions it has in memory: leave that out, or choose hashcache-loglru"
        ));
    }
    if let Some(why) = tuning.hash_bits.and_then(|bits| wrong_hash(engine, bits)) {
        return Some(why);
    }
    match tuning.keep_percent {
        0 => {}
        percent if percent > MOST_KEPT_PERCENT => {
            return Some(format!(
                "{percent} in a hundred bytes cannot be kept when segments are cleaned: choose 0 to {MOST_KEPT_PERCENT}, or \
                 leave it out"
            ));
        }
        _ if engine != EngineName::Segmented => {
            return Some(format!(
                "{engine} cleans no segments, so it keeps nothing of them: leave that out, or choose segmented"
            ));
        }
        _ => {}
    }
    match policy(engine, tuning) {
        Some(policy) => bins.wrong(policy, disk_bytes),
        None if bins == Bins::default() => None,
        None => Some(format!(
            "{engine} keeps no bins, so they have no size and no number: leave that out, or choose hashcache-basic, \
             hashcache-set, hashcache-setmem or hashcache-setmemlru"
        )),
    }
}

/// What is wrong with objects of such a mean size in a new cache of so many bytes, and what to do about it.
pub(super) fn wrong_mean(mean_object_bytes: u64, disk_bytes: u64) -> Option<String> {
    let most = disk_bytes / LEAST_OBJECTS;
    (!(LEAST_MEAN_BYTES..=most).contains(&mean_object_bytes)).then(|| {
        format!(
            "a cache of {disk_bytes} bytes cannot be cut for objects of {mean_object_bytes} bytes on average: choose an object \
             size from {LEAST_MEAN_BYTES} bytes to {most}, or leave it out"
        )
    })
}

/// What is wrong with so many bits of hash.
pub(super) fn wrong_hash(engine: EngineName, bits: u8) -> Option<String> {
    let (least, most) = (MOST_HASH_BITS.start(), MOST_HASH_BITS.end());
    if !MOST_HASH_BITS.contains(&bits) {
        return Some(format!(
            "an index cannot keep {bits} bits of an object's hash: choose {least} to {most}, or leave it out"
        ));
    }
    let has_none = matches!(engine, EngineName::HashCacheBasic | EngineName::HashCacheSet | EngineName::Segmented);
    has_none.then(|| {
        format!(
            "{engine} has no index with a choice of hash bits: leave that out, or choose hashcache-setmem, \
             hashcache-setmemlru, hashcache-loglru, hashcache-logn or hashcache-log"
        )
    })
}

/// The policy of an engine with a Disk Table.
pub(super) fn policy(engine: EngineName, tuning: Tuning) -> Option<TablePolicy> {
    match engine {
        EngineName::HashCacheBasic => Some(TablePolicy::Basic),
        EngineName::HashCacheSet => Some(TablePolicy::Set),
        EngineName::HashCacheSetMem => Some(TablePolicy::SetMem),
        EngineName::HashCacheSetMemLru => {
            Some(TablePolicy::SetMemLru { percent: tuning.sets_in_memory().clamp(1, 100) })
        }
        EngineName::HashCacheLogLru | EngineName::HashCacheLog | EngineName::HashCacheLogN | EngineName::Segmented => {
            None
        }
    }
}
