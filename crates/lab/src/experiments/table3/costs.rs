//! What a hit, a miss and an object stored cost in requests to the disk, and how many of these are seeks.

use tinaja_store::{Store, engines};

use crate::error::LabError;
use crate::random::Random;
use crate::rig::{Requests, Rig, Spec};

/// The first bytes of an object that some requests are content with: a condition, a HEAD, or the first part of a range.
const BEGINNING_BYTES: u64 = 1024;

/// Objects of a page that are stored and asked for one after the other where related ones are prefetched: the page itself and
/// PolyMix-4's four.
pub const PAGE_OBJECTS: u64 = 5;

/// The means over many operations of one kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Costs {
    /// The share of the objects put that were there in the end.
    pub found: f64,
    /// Of a hit.
    pub hit: Cost,
    /// Of a hit of which no more than the head and the first bytes are wanted.
    /// `None` with prefetching: what was read ahead for the hits would be counted as theirs.
    pub beginning: Option<Cost>,
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
/// another order, and for as many that were never stored. With prefetching [`PAGE_OBJECTS`] are related each time, and are
/// asked for together, page by page.
pub fn costs(spec: &Spec, load: f64, seed: u64, size: &dyn Fn(&mut Random) -> u64) -> Result<Costs, LabError> {
    let rig = Rig::new(spec)?;
    let page = if spec.settings.is_on(&engines::PREFETCH) { PAGE_OBJECTS } else { 1 };
    let pages = (rig.store.stats().slots as f64 * load) as u64 / page;
    let objects = pages * page;
    let mut random = Random::new(seed);
    let mut store = Requests::default();
    for object in 0..objects {
        rig.get(object)?;
        let before = rig.requests();
        let group = (page > 1).then_some(object / page + 1);
        rig.put(object, size(&mut random), group);
        if let Some(group) = group.filter(|_| object % page == page - 1) {
            rig.end_group(group);
        }
        store = store.with(rig.requests().since(before));
    }
    let before = rig.requests();
    rig.settle()?;
    store = store.with(rig.requests().since(before));

    // A prime that does not divide their number: every page once, far from the one before.
    let turn_of = |turn: u64, prime: u64| turn / page * prime % pages * page + turn % page;
    let (mut hits, mut hit) = (0, Requests::default());
    for turn in 0..objects {
        let before = rig.requests();
        if rig.get(turn_of(turn, 1_000_003))?.is_some() {
            hits += 1;
            hit = hit.with(rig.requests().since(before));
        }
    }
    let mut beginning = Requests::default();
    for turn in 0..if page > 1 { 0 } else { objects } {
        let before = rig.requests();
        if rig.get_part(turn_of(turn, 1_000_033), BEGINNING_BYTES)?.is_some() {
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
        beginning: (page == 1).then(|| Cost::of(beginning, hits)),
        miss: Cost::of(miss, objects),
        store: Cost::of(store, objects),
    })
}
