//! What is made of the memory: the engine of a new cache that finds the most with it, and how much is for its index.
//!
//! A budget of memory is for the index and for hot objects. What an index takes follows from the disk and from how large objects
//! are; what it is worth was measured (`docs/lab/policies.md`, `docs/replay.md`): the engine `generational` finds 7 to 10 of 100
//! requests more than those that evict in the order of writing. If the memory has no room for an entry for each object of the mean size,
//! its index lies on the disk, and as much of it is in memory as has room (`docs/lab/policies-memory.md`). Without any memory it is
//! HashCache-Set, which needs none for an index (section 3 of its paper).

use std::fmt;

use super::options::CacheOptions;
use crate::engine::generational::{INDEX_ENTRIES, INDEX_MEMORY, entries_on_disk, entries_within, index_bytes};
use crate::engine::{Engine, EngineRef, Settings};
use crate::engines::{GENERATIONAL, HASHCACHE_LOG, HASHCACHE_SET};

/// On a smaller disk the segments of `generational` are too few for its logs: on 2 to 10 MB it finds up to 5 of 100 requests less than
/// `hashcache-log`, from 12 MB on up to 22 more, and nowhere more than 1 less.
const LEAST_DISK_BYTES: u64 = 12 << 20;

/// Of the memory, so much is for hot objects at the least.
const LEAST_HOT: u64 = 4;

/// What is made of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Within {
    /// The engine of a new cache.
    pub engine: EngineRef,
    /// Bytes of memory that its index takes.
    pub index_bytes: u64,
    /// Whether the index lies on the disk, and that memory is for a part of it.
    pub is_on_disk: bool,
    /// Objects of the mean size that the disk has room for.
    pub objects: u64,
    /// The budget.
    pub memory_bytes: u64,
}

/// Of the budget for index and hot objects, what the index may take.
fn for_index(memory_bytes: u64) -> u64 {
    memory_bytes - memory_bytes / LEAST_HOT
}

/// The engine for disks of so many bytes in all, objects of such a mean size, and so much memory for index and hot objects.
pub fn within(memory_bytes: u64, disk_bytes: u64, mean_object_bytes: u64) -> Within {
    let objects = disk_bytes / mean_object_bytes.max(1);
    let of = |engine, index_bytes| Within { engine, index_bytes, is_on_disk: false, objects, memory_bytes };
    if disk_bytes < LEAST_DISK_BYTES {
        return of(HASHCACHE_LOG, index_bytes(objects));
    }
    let most = for_index(memory_bytes);
    if most == 0 {
        return of(HASHCACHE_SET, 0);
    }
    let entries = index_bytes(entries_within(most, disk_bytes, mean_object_bytes));
    Within { is_on_disk: entries > most, ..of(GENERATIONAL, entries.min(most)) }
}

impl fmt::Display for Within {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Within { engine, index_bytes, is_on_disk, objects, memory_bytes } = self;
        let bits = (*index_bytes as f64 * 8.0) / (*objects).max(1) as f64;
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        write!(
            f,
            "{engine}, whose index {} {:.1} of {:.1} MiB of memory, {bits:.0} bits for each of {objects} objects",
            if *is_on_disk { "is on the disk and takes" } else { "takes" },
            mib(*index_bytes),
            mib(*memory_bytes)
        )
    }
}

/// The engine that finds the most with this memory; `None` if it is not among those that there are, or settings are said that it does not
/// have.
pub(super) fn by_memory(options: &CacheOptions, asked: &Settings, disk_bytes: u64) -> Option<EngineRef> {
    let disks = 1 + options.more_dirs.len() as u64;
    let chosen = within(options.memory_bytes, disk_bytes.saturating_mul(disks), options.mean_bytes());
    let engine = options.engines.find(chosen.engine.name).ok()?;
    options.engines.wrong(engine, asked, disk_bytes).is_none().then_some(engine)
}

/// Settings for a new disk of so many bytes, with as many index entries as the memory is for, where an index shares it.
pub(super) fn by_its_memory(
    engine: EngineRef,
    settings: Settings,
    options: &CacheOptions,
    disk_bytes: u64,
) -> Settings {
    if !engine.has(&INDEX_ENTRIES) || settings.get(&INDEX_ENTRIES).is_some() {
        return settings;
    }
    let (memory, mean) = (for_index_of_one(options), options.mean_bytes());
    let entries = entries_within(memory, disk_bytes, mean);
    let fits = memory == 0 || index_bytes(entries) <= memory;
    settings.with(&INDEX_ENTRIES, if fits { entries } else { entries_on_disk(disk_bytes, mean) })
}

/// Settings for a disk that is there, with memory for an index on the disk if that for all of it is not there.
pub(super) fn for_its_index(engine: EngineRef, settings: Settings, options: &CacheOptions) -> Settings {
    let entries = settings.get(&INDEX_ENTRIES).filter(|_| engine.has(&INDEX_MEMORY));
    let memory = for_index_of_one(options);
    match entries {
        // Who looks at a cache, or copies it, gives it no memory at all, and reads its index whole.
        Some(entries) if memory > 0 && index_bytes(entries) > memory && settings.get(&INDEX_MEMORY).is_none() => {
            settings.with(&INDEX_MEMORY, memory)
        }
        _ => settings,
    }
}

/// What the index of one disk may take.
fn for_index_of_one(options: &CacheOptions) -> u64 {
    for_index(options.memory_bytes) / (1 + options.more_dirs.len() as u64)
}

/// What of the memory the index leaves for hot objects.
pub(super) fn beside_index(memory_bytes: u64, engine: &dyn Engine) -> u64 {
    let index_bytes = engine.stats().index_bytes;
    let left = memory_bytes.saturating_sub(index_bytes);
    // Who looks at a cache, or copies it, gives it no memory at all.
    if memory_bytes > 0 && left < memory_bytes / 8 {
        tracing::warn!(
            "the index takes {index_bytes} bytes, and memory = {memory_bytes} leaves {left} for hot objects: give it more memory"
        );
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn the_more_memory_the_more_bits() {
        let chosen = |memory: u64, disk: u64| within(memory, disk, 8192).engine;
        assert_eq!(chosen(64 << 20, GIB), GENERATIONAL);
        assert_eq!(chosen(64 << 20, 60 * GIB), GENERATIONAL, "an entry an object");
        let is_on_disk = |disk: u64| within(64 << 20, disk, 8192).is_on_disk;
        assert_eq!([60, 80, 1024].map(|disk| is_on_disk(disk * GIB)), [false, true, true]);
        assert_eq!(chosen(64 << 20, 1024 * GIB), GENERATIONAL);
        assert_eq!(chosen(0, GIB), HASHCACHE_SET, "no memory is no index");
        assert_eq!(chosen(64 << 20, 12 << 20), GENERATIONAL);
        assert_eq!(chosen(64 << 20, 11 << 20), HASHCACHE_LOG, "few segments");
    }

    #[test]
    fn an_index_has_its_part_and_no_more() {
        for memory in (0..40).map(|log| 1_u64 << log) {
            for disk in (20..50).map(|log| 1_u64 << log) {
                let chosen = within(memory, disk, 8192);
                let is_least = disk < LEAST_DISK_BYTES || chosen.engine == HASHCACHE_SET;
                assert!(is_least || chosen.index_bytes <= for_index(memory), "{chosen:?}");
            }
        }
        assert!(within(u64::MAX, u64::MAX, 0).index_bytes > 0);
    }

    #[test]
    fn it_says_what_was_chosen() {
        let text = within(64 << 20, GIB, 8192).to_string();
        assert_eq!(
            text,
            "generational, whose index takes 2.9 of 64.0 MiB of memory, 188 bits for each of 131072 objects"
        );
    }
}
