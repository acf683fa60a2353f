//! What is lost to full sets, and so what a live object costs.

use tinaja_store::{EngineRef, Store};

use crate::error::LabError;
use crate::experiment::Setup;
use crate::random::Random;
use crate::rig::{Rig, Spec};

/// Objects put for each slot.
pub const LOADS: [f64; 6] = [0.5, 0.75, 0.875, 1.0, 1.25, 1.5];

/// What came of one load.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    /// The share of the objects put that are not there.
    pub lost: f64,
    /// Bits of index for each that is.
    pub bits_a_live_object: f64,
}

/// Small objects put one after the other, none of them twice; after each of [`LOADS`] a sample of them is looked for.
pub fn losses(engine: EngineRef, setup: &Setup) -> Result<Vec<Loss>, LabError> {
    let rig = Rig::new(&Spec::new(engine, setup.choose(512 << 20, 64 << 20)))?;
    let stats = rig.store.stats();
    let mut random = Random::new(setup.seed);
    let mut put = 0;
    let mut losses = Vec::new();
    for load in LOADS {
        let objects = (stats.slots as f64 * load) as u64;
        for object in put..objects {
            rig.put(object, 100, None);
        }
        put = objects;
        let sample = setup.choose(20_000, 4000).min(objects);
        let mut found = 0;
        for _ in 0..sample {
            found += u64::from(rig.get(random.below(objects))?.is_some());
        }
        let there = found as f64 / sample as f64;
        let bits = stats.index_bytes as f64 * 8.0;
        losses.push(Loss { lost: 1.0 - there, bits_a_live_object: bits / (objects as f64 * there) });
    }
    Ok(losses)
}

/// The share lost by chance: objects come to sets at random, so the number in a set is Poisson-distributed, and all beyond
/// its ways are lost. Two with one fingerprint take one slot, where an engine cannot tell them apart without a read.
pub fn predicted(engine: EngineRef, load: f64) -> f64 {
    let (ways, fingerprints) = match engine.name {
        "hashcache-basic" => (1_u32, None),
        "hashcache-logn" | "hashcache-log" => (8, None),
        _ => (8, Some(255.0)),
    };
    let mean = load * f64::from(ways);
    let held: f64 = match fingerprints {
        None => mean_of(poisson(mean), ways),
        Some(all) => mean_of(binomial(all, 1.0 - (-mean / all).exp()), ways),
    };
    1.0 - held / mean
}

/// The mean number, none counted as more than `most`, of a distribution given from 0 on.
fn mean_of(shares: impl Iterator<Item = f64>, most: u32) -> f64 {
    (0_u32..200).zip(shares).map(|(count, share)| share * f64::from(count.min(most))).sum()
}

fn poisson(mean: f64) -> impl Iterator<Item = f64> {
    (1_u32..).scan((-mean).exp(), move |share, next| {
        let now = *share;
        *share *= mean / f64::from(next);
        Some(now)
    })
}

fn binomial(all: f64, chance: f64) -> impl Iterator<Item = f64> {
    (0_u32..).scan((1.0 - chance).powf(all), move |share, count| {
        let now = *share;
        *share *= (all - f64::from(count)) / f64::from(count + 1) * chance / (1.0 - chance);
        Some(now)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tinaja_store::engines;

    #[test]
    fn predictions_are_right_where_they_are_known() {
        let log = |load| predicted(engines::HASHCACHE_LOG, load);
        assert!((log(1.0) - 0.1396).abs() < 0.001, "8 objects a set of 8: {}", log(1.0));
        assert!((predicted(engines::HASHCACHE_BASIC, 1.0) - (-1.0_f64).exp()).abs() < 1e-9);
        assert!(predicted(engines::HASHCACHE_SETMEM, 1.0) > log(1.0) && log(0.5) < 0.01);
    }
}
