//! Which engine is made and opened how.

use std::sync::Arc;
use std::time::Duration;

use super::on_disk::NameOnDisk;
use super::options::EngineName;
use super::tuning::{Tuning, policy, wrong_hash};
use crate::device::Device;
use crate::device::fused::FusedDevice;
use crate::engine::Engine;
use crate::engine::fused::Fused;
use crate::engine::hashcache::{Bins, HashCacheLog, HashCacheLogOptions, HashCacheTable, LruCut, TableOptions};
use crate::engine::segmented::{Segmented, SegmentedOptions};
use crate::fuse::Fuse;
use crate::index::hash::HASH_BITS;
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

/// How the bins of an existing cache are cut, as far as its superblock says.
pub(super) fn bins_of(engine: EngineName, superblock: &Superblock) -> Bins {
    let Some(policy) = policy(engine, Tuning::default()) else { return Bins::default() };
    let ways = if superblock.ways == 0 { policy.ways() } else { superblock.ways as usize };
    Bins { bytes: Some(superblock.block_bytes).filter(|bytes| *bytes > 0), ways: Some(ways) }
}

fn lru_cut(tuning: Tuning, hash_bits: u8, reads_ahead: bool, is_apart: bool) -> LruCut {
    LruCut { kept: tuning.positions_kept().into(), hash_bits, reads_ahead, is_apart }
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
            let cut = lru_cut(tuning, hash_bits, reads_ahead, tuning.positions_apart);
            let plan = HashCacheLogOptions::plan_lru(cut, bytes, reserved, mean_object_bytes, stamp);
            return plan.map(Plan::Log);
        }
        let cut = (hash_bits, reads_ahead);
        let plan = HashCacheLog::plan_cut(bytes, reserved, 4096, mean_object_bytes, stamp, cut)?;
        Some(Plan::Log(HashCacheLogOptions { name: engine.as_str(), ..plan }))
    }

    /// How the disk under a superblock was cut; whether related objects are read together, and whether positions lie apart,
    /// says the superblock. `None` if its numbers do not fit each other.
    pub fn of(engine: EngineName, tuning: Tuning, superblock: &Superblock, reserved: u64) -> Option<Plan> {
        let Superblock { log, slots, mean_object_bytes, block_bytes, ways, hash_bits, .. } = *superblock;
        let stamp = Stamp { seed: superblock.secret.seed() };
        let NameOnDisk { prefetch: reads_ahead, positions_apart, .. } = NameOnDisk::read(&superblock.engine)?;
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
            let cut = lru_cut(tuning, hash_bits, reads_ahead, positions_apart);
            let plan = HashCacheLogOptions::of_lru(cut, log, slots, reserved, mean_object_bytes, stamp);
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

    /// Bytes of the device that has the positions of HashCache-LogLRU alone; `None` where there is none.
    pub fn positions_bytes(&self) -> Option<u64> {
        match self {
            Plan::Log(plan) => plan.positions_bytes(),
            Plan::Table(_) | Plan::Segmented(_) => None,
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
        self.open_beside(device, None)
    }

    /// [`Plan::open`], with the device that has the positions alone, of [`Plan::positions_bytes`]. Errors: also that it is
    /// missing, unless memory has room for all positions.
    pub fn open_beside(
        &self,
        device: Arc<dyn Device>,
        positions: Option<Arc<dyn Device>>,
    ) -> Result<Arc<dyn Engine>, String> {
        let fuse = Fuse::new();
        let device = FusedDevice::over(device, fuse.clone());
        let positions = positions.map(|positions| FusedDevice::over(positions, fuse.clone()));
        let opened = fuse.guard(|| -> Result<Arc<dyn Engine>, String> {
            Ok(match self {
                Plan::Log(plan) => Arc::new(HashCacheLog::open_beside(device, positions, plan)?),
                Plan::Table(plan) => Arc::new(HashCacheTable::open(device, plan)?),
                Plan::Segmented(plan) => Arc::new(Segmented::open(device, plan)?),
            })
        });
        let engine = opened.unwrap_or_else(|| Err(fuse.why().into()))?;
        Ok(Fused::over(engine, fuse))
    }
}
