//! Which engine is made and opened how.

use std::sync::Arc;
use std::time::Duration;

use super::options::EngineName;
use crate::device::Device;
use crate::device::fused::FusedDevice;
use crate::engine::Engine;
use crate::engine::fused::Fused;
use crate::engine::hashcache::{Bins, HashCacheLog, HashCacheLogOptions, HashCacheTable, TableOptions, TablePolicy};
use crate::engine::segmented::{Segmented, SegmentedOptions};
use crate::fuse::Fuse;
use crate::index::hash::{HASH_BITS, MOST_HASH_BITS};
use crate::layout::{LogLayout, Stamp, Superblock};

/// How a disk is cut for an engine, and what the engine is opened with.
#[derive(Clone, Copy, Debug)]
pub enum Plan {
    /// An engine whose objects lie in a log.
    Log(HashCacheLogOptions),
    /// An engine with a Disk Table.
    Table(TableOptions),
    /// The log-structured cache.
    Segmented(SegmentedOptions),
}

/// Settings of engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Of how many sets in a hundred HashCache-SetMemLRU keeps the row in memory, 1 to 100. Default 40: below that of
    /// SetMem's memory (HashCache, section 3.3).
    pub sets_in_memory_percent: u8,
    /// Of how many slots in each set of eight HashCache-LogLRU keeps the position in memory, 1 to 8. Default 4: half of the
    /// objects are rarely asked for again (3.4).
    pub positions_in_memory: u8,
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

/// The most that [`Tuning::keep_percent`] may be: every byte stored would be written one and a half times.
const MOST_KEPT_PERCENT: u8 = 50;

impl Default for Tuning {
    fn default() -> Self {
        Tuning { sets_in_memory_percent: 40, positions_in_memory: 4, prefetch: None, hash_bits: None, keep_percent: 0 }
    }
}

/// What is wrong with settings for an engine in a cache of so many bytes, and what to do about it.
pub(super) fn wrong(engine: EngineName, tuning: Tuning, bins: Bins, disk_bytes: u64) -> Option<String> {
    let Tuning { sets_in_memory_percent: percent, positions_in_memory: kept, .. } = tuning;
    if !(1..=100).contains(&percent) {
        return Some(format!("{percent} in a hundred sets cannot be in memory: choose 1 to 100, or leave it out"));
    }
    if !(1..=8).contains(&kept) {
        return Some(format!(
            "of {kept} of a set's 8 positions there cannot be a copy in memory: choose 1 to 8, or leave it out"
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

/// How the bins of an existing cache are cut, as far as its superblock says.
pub(super) fn bins_of(engine: EngineName, superblock: &Superblock) -> Bins {
    let Some(policy) = policy(engine, Tuning::default()) else { return Bins::default() };
    let ways = if superblock.ways == 0 { policy.ways() } else { superblock.ways as usize };
    Bins { bytes: Some(superblock.block_bytes).filter(|bytes| *bytes > 0), ways: Some(ways) }
}

fn policy(engine: EngineName, tuning: Tuning) -> Option<TablePolicy> {
    match engine {
        EngineName::HashCacheBasic => Some(TablePolicy::Basic),
        EngineName::HashCacheSet => Some(TablePolicy::Set),
        EngineName::HashCacheSetMem => Some(TablePolicy::SetMem),
        EngineName::HashCacheSetMemLru => {
            Some(TablePolicy::SetMemLru { percent: tuning.sets_in_memory_percent.clamp(1, 100) })
        }
        EngineName::HashCacheLogLru | EngineName::HashCacheLog | EngineName::HashCacheLogN | EngineName::Segmented => {
            None
        }
    }
}

impl Plan {
    /// How a disk of so many bytes, of which the first `reserved` are taken, is cut for objects of such a mean size.
    /// `None` if it is too small. Blocks of 4 KiB whatever the disk has: a cache may be moved to another one.
    pub fn new(
        engine: EngineName,
        tuning: Tuning,
        bytes: u64,
        reserved: u64,
        mean_object_bytes: u64,
        stamp: Stamp,
    ) -> Option<Plan> {
        Plan::with_bins(engine, tuning, Bins::default(), bytes, reserved, mean_object_bytes, stamp)
    }

    /// [`Plan::new`], with bins of a certain size and number where the engine has a Disk Table. `None` also where they are
    /// [`Bins::wrong`].
    pub fn with_bins(
        engine: EngineName,
        tuning: Tuning,
        bins: Bins,
        bytes: u64,
        reserved: u64,
        mean_object_bytes: u64,
        stamp: Stamp,
    ) -> Option<Plan> {
        let reads_ahead = tuning.prefetch == Some(true) && engine.can_prefetch();
        let hash_bits = tuning.hash_bits.unwrap_or(HASH_BITS);
        if wrong_hash(engine, hash_bits).is_some() && hash_bits != HASH_BITS {
            return None;
        }
        if let Some(policy) = policy(engine, tuning) {
            let plan = TableOptions::plan(policy, bins, bytes, reserved, mean_object_bytes, (stamp, hash_bits))?;
            return Some(Plan::Table(TableOptions { reads_ahead, ..plan }));
        }
        if engine == EngineName::Segmented {
            let plan = SegmentedOptions::plan(bytes, reserved, mean_object_bytes, stamp)?;
            return Some(Plan::Segmented(SegmentedOptions { keep_percent: tuning.keep_percent, ..plan }));
        }
        if engine == EngineName::HashCacheLogLru {
            let kept = (tuning.positions_in_memory.into(), hash_bits, reads_ahead);
            let plan = HashCacheLogOptions::plan_lru(kept, bytes, reserved, mean_object_bytes, stamp);
            return plan.map(Plan::Log);
        }
        let cut = (hash_bits, reads_ahead);
        let plan = HashCacheLog::plan_cut(bytes, reserved, 4096, mean_object_bytes, stamp, cut)?;
        Some(Plan::Log(HashCacheLogOptions { name: engine.as_str(), ..plan }))
    }

    /// How the disk under a superblock was cut; whether related objects are read together says the superblock. `None` if its numbers do not fit each other.
    pub fn of(engine: EngineName, tuning: Tuning, superblock: &Superblock, reserved: u64) -> Option<Plan> {
        let Superblock { log, slots, mean_object_bytes, block_bytes, ways, hash_bits, .. } = *superblock;
        let stamp = Stamp { seed: superblock.secret.seed() };
        let (_, reads_ahead) = EngineName::of_disk(&superblock.engine)?;
        if let Some(policy) = policy(engine, tuning) {
            let bins = (slots, block_bytes, ways);
            let plan = TableOptions::of(policy, log, bins, reserved, mean_object_bytes, (stamp, hash_bits))?;
            return Some(Plan::Table(TableOptions { reads_ahead, ..plan }));
        }
        if engine == EngineName::Segmented {
            let plan = SegmentedOptions::of(log, slots, reserved, mean_object_bytes, stamp)?;
            return Some(Plan::Segmented(SegmentedOptions { keep_percent: tuning.keep_percent, ..plan }));
        }
        if engine == EngineName::HashCacheLogLru {
            let kept = (tuning.positions_in_memory.into(), hash_bits, reads_ahead);
            let plan = HashCacheLogOptions::of_lru(kept, log, slots, reserved, mean_object_bytes, stamp);
            return plan.map(Plan::Log);
        }
        let cut = (hash_bits, reads_ahead);
        let plan = HashCacheLogOptions::of(log, slots, reserved, mean_object_bytes, stamp, cut)?;
        Some(Plan::Log(HashCacheLogOptions { name: engine.as_str(), ..plan }))
    }

    /// How the log is cut.
    pub fn log(&self) -> &LogLayout {
        match self {
            Plan::Log(plan) => &plan.layout,
            Plan::Table(plan) => &plan.log,
            Plan::Segmented(plan) => &plan.layout,
        }
    }

    /// Whether related objects are read together.
    pub fn reads_ahead(&self) -> bool {
        match self {
            Plan::Log(plan) => plan.reads_ahead,
            Plan::Table(plan) => plan.reads_ahead,
            Plan::Segmented(_) => false,
        }
    }

    /// Bits of hash in the index.
    pub fn hash_bits(&self) -> u8 {
        match self {
            Plan::Log(plan) => plan.hash_bits,
            Plan::Table(plan) => plan.hash_bits,
            Plan::Segmented(_) => HASH_BITS,
        }
    }

    /// Index entries, or bins.
    pub fn slots(&self) -> u64 {
        match self {
            Plan::Log(plan) => plan.slots,
            Plan::Table(plan) => plan.table.bins(),
            Plan::Segmented(plan) => plan.slots,
        }
    }

    /// Bytes of a bin, 0 without a Disk Table.
    pub fn block_bytes(&self) -> u64 {
        match self {
            Plan::Log(_) | Plan::Segmented(_) => 0,
            Plan::Table(plan) => plan.table.block_bytes,
        }
    }

    /// Bins of a set as a superblock has them: 0 for as many as the engine has by default.
    pub fn ways_on_disk(&self) -> u32 {
        match self {
            Plan::Log(_) | Plan::Segmented(_) => 0,
            Plan::Table(plan) => plan.ways_on_disk(),
        }
    }

    /// The mean object size that the disk was cut for.
    pub fn mean_object_bytes(&self) -> u64 {
        match self {
            Plan::Log(plan) => plan.mean_object_bytes,
            Plan::Table(plan) => plan.mean_object_bytes,
            Plan::Segmented(plan) => plan.mean_object_bytes,
        }
    }

    /// Sync as often without being asked.
    pub fn flushing(mut self, every: Option<Duration>) -> Plan {
        match &mut self {
            Plan::Log(plan) => plan.flush_every = every,
            Plan::Table(plan) => plan.flush_every = every,
            Plan::Segmented(plan) => plan.flush_every = every,
        }
        self
    }

    /// Write nothing.
    pub fn reading_only(mut self, read_only: bool) -> Plan {
        match &mut self {
            Plan::Log(plan) => plan.read_only = read_only,
            Plan::Table(plan) => plan.read_only = read_only,
            Plan::Segmented(plan) => plan.read_only = read_only,
        }
        self
    }

    /// Open what is on the device, or begin on one that holds nothing yet. An engine that panics, now or later, is stopped:
    /// its store then finds nothing and stores nothing, and the device is left alone. Errors: the device's, as text, or
    /// that the engine was stopped.
    pub fn open(&self, device: Arc<dyn Device>) -> Result<Arc<dyn Engine>, String> {
        let fuse = Fuse::new();
        let device = FusedDevice::over(device, fuse.clone());
        let opened = fuse.guard(|| -> Result<Arc<dyn Engine>, String> {
            Ok(match self {
                Plan::Log(plan) => Arc::new(HashCacheLog::open(device, plan)?),
                Plan::Table(plan) => Arc::new(HashCacheTable::open(device, plan)?),
                Plan::Segmented(plan) => Arc::new(Segmented::open(device, plan)?),
            })
        });
        let engine = opened.unwrap_or_else(|| Err(fuse.why().into()))?;
        Ok(Fused::over(engine, fuse))
    }
}
