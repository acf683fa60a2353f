//! The records of the engines with a Disk Table: HashCache-Basic, -Set, -SetMem and -SetMemLRU.

use std::sync::Arc;

use super::HashCacheTable;
use super::figures::{BIN_BYTES, SET_BINS};
use super::options::{Bins, TableOptions, TablePolicy};
use crate::engine::hashcache::settings::{BIN_SIZE, DEFAULT_SETS_IN_MEMORY, HASH_BITS, PREFETCH, SETS_IN_MEMORY, WAYS};
use crate::engine::registry::{Ask, Cut, EngineRecord, Ground, OnDevice, Opening};
use crate::engine::{Engine, Settings};
use crate::index::hash::HASH_BITS as DEFAULT_HASH_BITS;
use crate::layout::LogSection;
use crate::terms::Stats;

/// HashCache-Basic (HashCache, section 3.1): a hash table on disk, nothing in memory.
pub static BASIC: EngineRecord = EngineRecord {
    name: "hashcache-basic",
    about: "no memory for an index; one disk read per hit or miss; objects that hash to the same bin evict each other",
    settings: &[&PREFETCH, &BIN_SIZE, &WAYS],
    counts_objects: false,
    wrong: |settings, disk_bytes| bins(settings).wrong(TablePolicy::Basic, disk_bytes),
    figures: &[&BIN_BYTES, &SET_BINS],
    inspect,
    ground: Ground::Device(OnDevice {
        names: &[("hashcache-basic", &[(&PREFETCH, 0)]), ("hc-basic+ahead", &[(&PREFETCH, 1)])],
        made_with: |section| made_with(TablePolicy::Basic, section),
        cut: |ask| plan(TablePolicy::Basic, ask),
        cut_before: |section, ask| planned(TablePolicy::Basic, section, ask),
    }),
};

/// HashCache-Set (3.2): sets of eight bins on disk, nothing in memory.
pub static SET: EngineRecord = EngineRecord {
    name: "hashcache-set",
    about: "no memory for an index; one disk read per hit or miss",
    settings: &[&PREFETCH, &BIN_SIZE, &WAYS],
    counts_objects: false,
    wrong: |settings, disk_bytes| bins(settings).wrong(TablePolicy::Set, disk_bytes),
    figures: &[&BIN_BYTES, &SET_BINS],
    inspect,
    ground: Ground::Device(OnDevice {
        names: &[("hashcache-set", &[(&PREFETCH, 0)]), ("hc-set+ahead", &[(&PREFETCH, 1)])],
        made_with: |section| made_with(TablePolicy::Set, section),
        cut: |ask| plan(TablePolicy::Set, ask),
        cut_before: |section, ask| planned(TablePolicy::Set, section, ask),
    }),
};

/// HashCache-SetMem (3.3): the same, and 11 bits a slot that spare a miss the disk.
pub static SETMEM: EngineRecord = EngineRecord {
    name: "hashcache-setmem",
    about: "11 bits of memory per object; one disk read per hit, none per miss",
    settings: &[&PREFETCH, &HASH_BITS, &BIN_SIZE, &WAYS],
    counts_objects: true,
    wrong: |settings, disk_bytes| bins(settings).wrong(TablePolicy::SetMem, disk_bytes),
    figures: &[&BIN_BYTES, &SET_BINS],
    inspect,
    ground: Ground::Device(OnDevice {
        names: &[("hashcache-setmem", &[(&PREFETCH, 0)]), ("hc-setmem+ahead", &[(&PREFETCH, 1)])],
        made_with: |section| made_with(TablePolicy::SetMem, section),
        cut: |ask| plan(TablePolicy::SetMem, ask),
        cut_before: |section, ask| planned(TablePolicy::SetMem, section, ask),
    }),
};

/// HashCache-SetMemLRU (3.3): the same for the sets used last.
pub static SETMEMLRU: EngineRecord = EngineRecord {
    name: "hashcache-setmemlru",
    about: "about 7 bits of memory per object; like hashcache-setmem for the most recently used sets",
    settings: &[&PREFETCH, &HASH_BITS, &BIN_SIZE, &WAYS, &SETS_IN_MEMORY],
    counts_objects: false,
    wrong: |settings, disk_bytes| bins(settings).wrong(some_sets(settings), disk_bytes),
    figures: &[&BIN_BYTES, &SET_BINS],
    inspect,
    ground: Ground::Device(OnDevice {
        names: &[("hashcache-smlru", &[(&PREFETCH, 0)]), ("hc-smlru+ahead", &[(&PREFETCH, 1)])],
        made_with: |section| made_with(some_sets(&Settings::new()), section),
        cut: |ask| plan(some_sets(ask.settings), ask),
        cut_before: |section, ask| planned(some_sets(ask.settings), section, ask),
    }),
};

fn some_sets(settings: &Settings) -> TablePolicy {
    let percent = settings.get(&SETS_IN_MEMORY).unwrap_or(DEFAULT_SETS_IN_MEMORY);
    TablePolicy::SetMemLru { percent: percent.clamp(1, 100) as u8 }
}

/// How bins were said to be cut.
fn bins(settings: &Settings) -> Bins {
    let ways = settings.get(&WAYS).map(|ways| usize::try_from(ways).unwrap_or(usize::MAX));
    Bins { bytes: settings.get(&BIN_SIZE), ways }
}

fn hash_bits(settings: &Settings) -> u8 {
    settings.get(&HASH_BITS).and_then(|bits| u8::try_from(bits).ok()).unwrap_or(DEFAULT_HASH_BITS)
}

fn made_with(policy: TablePolicy, section: &[u8]) -> Settings {
    let Some(section) = LogSection::read(section) else { return Settings::new() };
    let ways = if section.ways == 0 { policy.ways() as u64 } else { section.ways.into() };
    let made = Settings::new().with(&WAYS, ways);
    let made = if policy.has_index() { made.with(&HASH_BITS, section.hash_bits.into()) } else { made };
    if section.block_bytes > 0 { made.with(&BIN_SIZE, section.block_bytes) } else { made }
}

/// How `inspect` shows the cut of a table.
fn inspect(stats: &Stats) -> String {
    let (bin_bytes, ways) = (stats.of_engine.get(&BIN_BYTES), stats.of_engine.get(&SET_BINS));
    format!(", in bins of {:.1} KiB, {ways} to a set", bin_bytes as f64 / 1024.0)
}

fn plan(policy: TablePolicy, ask: &Ask<'_>) -> Option<Box<dyn Cut>> {
    let Ask { bytes, reserved, mean_object_bytes, stamp, settings } = *ask;
    let stamp = (stamp, hash_bits(settings));
    let plan = TableOptions::plan(policy, bins(settings), bytes, reserved, mean_object_bytes, stamp)?;
    Some(Box::new(TableOptions { reads_ahead: settings.is_on(&PREFETCH), ..plan }))
}

fn planned(policy: TablePolicy, section: &[u8], ask: &Ask<'_>) -> Option<Box<dyn Cut>> {
    let LogSection { log, slots, mean_object_bytes, block_bytes, ways, hash_bits } =
        LogSection::decode(section, ask.bytes)?;
    let cut = (slots, block_bytes, ways);
    let plan = TableOptions::of(policy, log, cut, ask.reserved, mean_object_bytes, (ask.stamp, hash_bits))?;
    Some(Box::new(TableOptions { reads_ahead: ask.settings.is_on(&PREFETCH), ..plan }))
}

impl Cut for TableOptions {
    fn end(&self) -> u64 {
        self.log.base + self.log.log_bytes()
    }

    fn mean_object_bytes(&self) -> u64 {
        self.mean_object_bytes
    }

    fn made_with(&self) -> Settings {
        Settings::new()
            .with(&PREFETCH, self.reads_ahead.into())
            .with(&HASH_BITS, self.hash_bits.into())
            .with(&BIN_SIZE, self.table.block_bytes)
            .with(&WAYS, self.table.ways as u64)
    }

    fn section(&self) -> Vec<u8> {
        let section = LogSection::of(self.log, self.table.bins(), self.mean_object_bytes);
        let (block_bytes, ways, hash_bits) = (self.table.block_bytes, self.ways_on_disk(), self.hash_bits);
        LogSection { block_bytes, ways, hash_bits, ..section }.encode()
    }

    fn open_unguarded(&self, opening: Opening) -> Result<Arc<dyn Engine>, String> {
        let Opening { device, flush_every, read_only, .. } = opening;
        Ok(Arc::new(HashCacheTable::open(device, &TableOptions { flush_every, read_only, ..*self })?))
    }
}
