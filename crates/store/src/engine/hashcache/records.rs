//! The records of the engines over a log alone: HashCache-Log, -LogN and -LogLRU.

use std::sync::Arc;

use super::log::{HashCacheLog, HashCacheLogOptions};
use super::loglru::LruCut;
use super::settings::{DEFAULT_POSITIONS_IN_MEMORY, HASH_BITS, POSITIONS_APART, POSITIONS_IN_MEMORY, PREFETCH};
use crate::engine::registry::{Ask, Cut, EngineRecord, Ground, OnDevice, Opening};
use crate::engine::{Engine, Settings, no_cut_to_tell, none_wrong};
use crate::index::hash::HASH_BITS as DEFAULT_HASH_BITS;
use crate::layout::LogSection;

/// HashCache-Log (HashCache, section 3.4): 47 bits a slot, one read a hit.
pub static LOG: EngineRecord = EngineRecord {
    name: "hashcache-log",
    about: "47 bits of memory per object; one disk read per hit, none per miss",
    settings: &[&PREFETCH, &HASH_BITS],
    counts_objects: true,
    wrong: none_wrong,
    figures: &[],
    inspect: no_cut_to_tell,
    ground: Ground::Device(OnDevice {
        names: &[("hashcache-log", &[(&PREFETCH, 0)]), ("hc-log+ahead", &[(&PREFETCH, 1)])],
        made_with,
        cut: |ask| boxed(plan(LOG.name, ask)),
        cut_before: |section, ask| boxed(planned(LOG.name, section, ask)),
    }),
};

/// HashCache-LogN: Log that never reads more than what was asked for (3.4 and 3.5).
pub static LOGN: EngineRecord = EngineRecord {
    name: "hashcache-logn",
    about: "like hashcache-log, but never reads more than the requested object",
    settings: &[&HASH_BITS],
    counts_objects: true,
    wrong: none_wrong,
    figures: &[],
    inspect: no_cut_to_tell,
    ground: Ground::Device(OnDevice {
        names: &[("hashcache-logn", &[])],
        made_with,
        cut: |ask| boxed(plan(LOGN.name, ask)),
        cut_before: |section, ask| boxed(planned(LOGN.name, section, ask)),
    }),
};

/// HashCache-LogLRU (3.4): Log with the positions used last in memory and the others in a file.
pub static LOGLRU: EngineRecord = EngineRecord {
    name: "hashcache-loglru",
    about: "31 bits of memory per object; two disk reads per hit on rarely requested objects",
    settings: &[&PREFETCH, &HASH_BITS, &POSITIONS_IN_MEMORY, &POSITIONS_APART],
    counts_objects: true,
    wrong: none_wrong,
    figures: &[],
    inspect: no_cut_to_tell,
    ground: Ground::Device(OnDevice {
        names: &[
            ("hashcache-loglru", &[(&PREFETCH, 0), (&POSITIONS_APART, 0)]),
            ("hc-loglru+ahead", &[(&PREFETCH, 1), (&POSITIONS_APART, 0)]),
            ("hc-loglru+apart", &[(&PREFETCH, 0), (&POSITIONS_APART, 1)]),
            ("hc-loglru+ah+ap", &[(&PREFETCH, 1), (&POSITIONS_APART, 1)]),
        ],
        made_with,
        cut: |ask| {
            let Ask { bytes, reserved, mean_object_bytes, stamp, settings } = *ask;
            boxed(HashCacheLogOptions::plan_lru(lru_cut(settings), bytes, reserved, mean_object_bytes, stamp))
        },
        cut_before: |section, ask| {
            let Ask { bytes, reserved, stamp, settings, .. } = *ask;
            let LogSection { log, slots, mean_object_bytes, .. } = LogSection::decode(section, bytes)?;
            boxed(HashCacheLogOptions::of_lru(lru_cut(settings), log, slots, reserved, mean_object_bytes, stamp))
        },
    }),
};

fn boxed<T: Cut + 'static>(plan: Option<T>) -> Option<Box<dyn Cut>> {
    Some(Box::new(plan?))
}

fn made_with(section: &[u8]) -> Settings {
    let hash_bits = LogSection::read(section).map_or(DEFAULT_HASH_BITS, |section| section.hash_bits);
    Settings::new().with(&HASH_BITS, hash_bits.into())
}

/// Bits of hash, and whether related records are read together.
fn slot_cut(settings: &Settings) -> (u8, bool) {
    let hash_bits = settings.get(&HASH_BITS).and_then(|bits| u8::try_from(bits).ok());
    (hash_bits.unwrap_or(DEFAULT_HASH_BITS), settings.is_on(&PREFETCH))
}

fn lru_cut(settings: &Settings) -> LruCut {
    let kept = settings.get(&POSITIONS_IN_MEMORY).unwrap_or(DEFAULT_POSITIONS_IN_MEMORY) as usize;
    let (hash_bits, reads_ahead) = slot_cut(settings);
    LruCut { kept, hash_bits, reads_ahead, is_apart: settings.is_on(&POSITIONS_APART) }
}

fn plan(name: &'static str, ask: &Ask<'_>) -> Option<HashCacheLogOptions> {
    let Ask { bytes, reserved, mean_object_bytes, stamp, settings } = *ask;
    let plan = HashCacheLog::plan_cut(bytes, reserved, 4096, mean_object_bytes, stamp, slot_cut(settings))?;
    Some(HashCacheLogOptions { name, ..plan })
}

fn planned(name: &'static str, section: &[u8], ask: &Ask<'_>) -> Option<HashCacheLogOptions> {
    let Ask { bytes, reserved, stamp, settings, .. } = *ask;
    let LogSection { log, slots, mean_object_bytes, .. } = LogSection::decode(section, bytes)?;
    let plan = HashCacheLogOptions::of(log, slots, reserved, mean_object_bytes, stamp, slot_cut(settings))?;
    Some(HashCacheLogOptions { name, ..plan })
}

impl Cut for HashCacheLogOptions {
    fn end(&self) -> u64 {
        self.layout.base + self.layout.log_bytes()
    }

    fn mean_object_bytes(&self) -> u64 {
        self.mean_object_bytes
    }

    fn made_with(&self) -> Settings {
        let is_apart = self.offsets.is_some_and(|(file, _)| file.is_apart);
        Settings::new()
            .with(&PREFETCH, self.reads_ahead.into())
            .with(&HASH_BITS, self.hash_bits.into())
            .with(&POSITIONS_APART, is_apart.into())
    }

    fn section(&self) -> Vec<u8> {
        let section = LogSection::of(self.layout, self.slots, self.mean_object_bytes);
        LogSection { hash_bits: self.hash_bits, ..section }.encode()
    }

    fn beside_bytes(&self) -> Option<u64> {
        self.positions_bytes()
    }

    fn open_unguarded(&self, opening: Opening) -> Result<Arc<dyn Engine>, String> {
        let Opening { device, beside, flush_every, read_only } = opening;
        let options = HashCacheLogOptions { flush_every, read_only, ..*self };
        Ok(Arc::new(HashCacheLog::open_beside(device, beside, &options)?))
    }
}
