//! What a hit, a miss and an object stored cost in requests to the disk, and how many of these are seeks.

use tinaja_store::Store;

use crate::error::LabError;
use crate::random::Random;
use crate::rig::{Requests, Rig, Spec};

/// The first bytes of an object that some requests are content with: a condition, a HEAD, or the first part of a range.
const BEGINNING_BYTES: u64 = 1024;

/// The means over many operations of one kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Costs {
    /// The share of the objects put that were there in the end.
    pub found: f64,
    /// Of a hit.
    pub hit: Cost,
    /// Of a hit of which no more than the head and the first bytes are wanted.
    pub beginning: Cost,
    /// Of a lookup of what was never stored.
    pub miss: Cost,
    /// Of storing an object that was looked for just before.
    pub store: Cost,
}

/// Requests for one operation, on average.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Reads.
    pub reads: f64,
    /// Writes.
    pub writes: f64,
    /// Those of both that did not begin where the one before ended.
    pub seeks: f64,
}

impl Cost {
    fn of(spent: Requests, operations: u64) -> Cost {
        let each = |count: u64| count as f64 / operations.max(1) as f64;
        let seeks = each(spent.read_seeks + spent.write_seeks);
        Cost { reads: each(spent.reads), writes: each(spent.writes), seeks }
    }
}

/// Store so many objects for each slot, of such sizes, each after a lookup that missed; then look for all of them in
/// another order, and for as many that were never stored.
pub fn costs(spec: &Spec, load: f64, seed: u64, size: &dyn Fn(&mut Random) -> u64) -> Result<Costs, LabError> {
    let rig = Rig::new(spec)?;
    let objects = (rig.store.stats().slots as f64 * load) as u64;
    let mut random = Random::new(seed);
    let mut store = Requests::default();
    for object in 0..objects {
        rig.get(object)?;
        let before = rig.requests();
        rig.put(object, size(&mut random), None);
        store = store.with(rig.requests().since(before));
    }
    let before = rig.requests();
    rig.settle()?;
    store = store.with(rig.requests().since(before));

    let (mut hits, mut hit) = (0, Requests::default());
    for turn in 0..objects {
        // A prime that does not divide the number: every object once, far from the one before.
        let before = rig.requests();
        if rig.get(turn * 1_000_003 % objects)?.is_some() {
            hits += 1;
            hit = hit.with(rig.requests().since(before));
        }
    }
    let mut beginning = Requests::default();
    for turn in 0..objects {
        let before = rig.requests();
        if rig.get_part(turn * 1_000_033 % objects, BEGINNING_BYTES)?.is_some() {
            beginning = beginning.with(rig.requests().since(before));
        }
    }
    let before = rig.requests();
    for object in 0..objects {
        rig.get(objects + object)?;
    }
    let miss = rig.requests().since(before);
    Ok(Costs {
        found: hits as f64 / objects.max(1) as f64,
        hit: Cost::of(hit, hits),
        beginning: Cost::of(beginning, hits),
        miss: Cost::of(miss, objects),
        store: Cost::of(store, objects),
    })
}
