//! The two policies with a setting: SetMemLRU's share of sets in memory, and LogLRU's positions.

use tinaja_store::{EngineRef, Settings, Store, engines};

use super::costs::costs;
use super::formula::bits_a_slot;
use crate::error::LabError;
use crate::experiment::Setup;
use crate::load::{Drive, Embedded, PolyMix, PolyMixOptions, drive};
use crate::rig::{Rig, Spec};

/// Shares of sets in memory, in percent.
pub const SHARES: [u8; 7] = [10, 20, 30, 40, 50, 70, 100];

/// What one setting costs.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its value.
    pub value: u8,
    /// Bits a slot as allocated.
    pub bits: f64,
    /// Bits a slot by the formula.
    pub formula: f64,
    /// The same two with prefetching.
    pub with_prefetch: (f64, f64),
    /// Reads a hit and a miss, objects asked for at random in sets that are full.
    pub random: (f64, f64),
    /// Reads a hit and a miss under the PolyMix-like load.
    pub polymix: (f64, f64),
}

/// SetMemLRU at each of [`SHARES`].
pub fn set_mem_lru(setup: &Setup) -> Result<Vec<Setting>, LabError> {
    let settings = |share: u8| Settings::new().with(&engines::SETS_IN_MEMORY, share.into());
    let shares = SHARES.iter().filter(|share| !setup.quick || **share % 20 == 0);
    shares.map(|share| setting(engines::HASHCACHE_SETMEMLRU, *share, settings(*share), setup)).collect()
}

/// LogLRU with one position of each set in memory, and so on to all eight.
pub fn log_lru(setup: &Setup) -> Result<Vec<Setting>, LabError> {
    let settings = |kept: u8| Settings::new().with(&engines::POSITIONS_IN_MEMORY, kept.into());
    let positions = (1..=8).filter(|kept| !setup.quick || kept % 4 == 0);
    positions.map(|kept| setting(engines::HASHCACHE_LOGLRU, kept, settings(kept), setup)).collect()
}

fn setting(engine: EngineRef, value: u8, settings: Settings, setup: &Setup) -> Result<Setting, LabError> {
    tracing::info!("{engine} set to {value}");
    let spec = Spec { settings, ..Spec::new(engine, setup.choose(256 << 20, 64 << 20)) };
    let at_random = costs(&spec, 1.0, setup.seed, &|_| 3000)?;
    // A disk of a usual size: on a small one the 4 KiB that any index has cost bits.
    let large = |settings: Settings| {
        let spec = Spec { disk_bytes: setup.choose(16 << 30, 2 << 30), settings, ..spec.clone() };
        let stats = Rig::new(&spec)?.store.stats();
        Ok::<_, LabError>((stats.bits_per_slot(), bits_a_slot(engine, &spec.settings, stats.slots)))
    };
    let (bits, formula) = large(spec.settings.clone())?;
    let rig = Rig::new(&spec)?;
    let working_set = rig.store.stats().slots / 8;
    let options = PolyMixOptions::new(Embedded::Zipf13, 100.0, working_set);
    let warm_up = setup.choose(100_000, 10_000);
    let requests = PolyMix::new(options, setup.seed).take(warm_up + setup.choose(50_000, 5000));
    let outcome = drive(&rig, requests, &Drive { warm_up, ..Drive::default() })?;
    Ok(Setting {
        value,
        bits,
        formula,
        with_prefetch: large(spec.settings.clone().with(&engines::PREFETCH, 1))?,
        random: (at_random.hit.reads, at_random.miss.reads),
        polymix: (outcome.reads_a_hit(), outcome.reads_a_miss()),
    })
}
