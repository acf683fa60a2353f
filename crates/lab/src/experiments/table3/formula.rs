//! Bits of memory a slot, by the paper's formulas.

use tinaja_store::engine::hashcache::settings::{DEFAULT_POSITIONS_IN_MEMORY, DEFAULT_SETS_IN_MEMORY};
use tinaja_store::{EngineRef, Settings, engines};

const WAYS: u64 = 8;
const RANK_BITS: f64 = 3.0;
const POSITION_BITS: f64 = 32.0;
const LAP_BITS: f64 = 4.0;
/// How far related objects reach, with prefetching.
const LENGTH_BITS: f64 = 8.0;

/// Bits a slot of an engine with so many slots.
///
/// SetMemLRU's is ours, since the paper gives only where it breaks even: what SetMem keeps of a set, the set's number, and
/// three and a quarter links, all in as few bits as they need and a row in whole bytes.
pub fn bits_a_slot(engine: EngineRef, settings: &Settings, slots: u64) -> f64 {
    // Only where a position is in memory; the engines with a Disk Table keep it in the bin.
    let prefetches = settings.is_on(&engines::PREFETCH) && engine.has(&engines::PREFETCH);
    let length = if prefetches { LENGTH_BITS } else { 0.0 };
    let hash_bits = settings.get(&engines::HASH_BITS).unwrap_or(8) as f64;
    let set_mem = hash_bits + RANK_BITS;
    match engine.name {
        "hashcache-setmem" => set_mem,
        "hashcache-setmemlru" => {
            let percent = settings.get(&engines::SETS_IN_MEMORY).unwrap_or(DEFAULT_SETS_IN_MEMORY);
            some_sets(slots / WAYS, percent, set_mem)
        }
        "hashcache-loglru" => {
            let kept = settings.get(&engines::POSITIONS_IN_MEMORY).unwrap_or(DEFAULT_POSITIONS_IN_MEMORY);
            set_mem + LAP_BITS + (POSITION_BITS + length) * kept as f64 / WAYS as f64
        }
        "hashcache-logn" | "hashcache-log" => set_mem + LAP_BITS + POSITION_BITS + length,
        _ => 0.0,
    }
}

/// The rows of some sets lie in 16 parts, each with links of its own and a bucket for four rows.
fn some_sets(sets: u64, percent: u64, slot_bits: f64) -> f64 {
    let bits = |most: u64| f64::from(u64::BITS - most.leading_zeros()).max(1.0);
    let rows = (sets * percent / 100).div_ceil(16).max(1);
    let buckets = rows.div_ceil(4);
    let number = bits(sets.div_ceil(16).div_ceil(buckets));
    let row_bits = WAYS as f64 * slot_bits + number + 2.0 * bits(rows) + bits(rows + buckets);
    let heads = buckets as f64 * bits(rows);
    16.0 * (rows as f64 * (row_bits / 8.0).ceil() * 8.0 + heads) / (sets * WAYS) as f64
}
