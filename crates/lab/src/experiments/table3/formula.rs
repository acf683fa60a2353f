//! Bits of memory a slot, by the paper's formulas.

use tinaja_store::{EngineName, Tuning};

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
pub fn bits_a_slot(engine: EngineName, tuning: Tuning, slots: u64) -> f64 {
    // Only where a position is in memory; the engines with a Disk Table keep it in the bin.
    let length = if tuning.prefetch == Some(true) && engine.can_prefetch() { LENGTH_BITS } else { 0.0 };
    let hash_bits = f64::from(tuning.hash_bits.unwrap_or(8));
    let set_mem = hash_bits + RANK_BITS;
    match engine {
        EngineName::HashCacheSetMem => set_mem,
        EngineName::HashCacheSetMemLru => some_sets(slots / WAYS, tuning.sets_in_memory(), set_mem),
        EngineName::HashCacheLogLru => {
            set_mem + LAP_BITS + (POSITION_BITS + length) * f64::from(tuning.positions_kept()) / WAYS as f64
        }
        EngineName::HashCacheLogN | EngineName::HashCacheLog => set_mem + LAP_BITS + POSITION_BITS + length,
        _ => 0.0,
    }
}

/// The rows of some sets lie in 16 parts, each with links of its own and a bucket for four rows.
fn some_sets(sets: u64, percent: u8, slot_bits: f64) -> f64 {
    let bits = |most: u64| f64::from(u64::BITS - most.leading_zeros()).max(1.0);
    let rows = (sets * u64::from(percent) / 100).div_ceil(16).max(1);
    let buckets = rows.div_ceil(4);
    let number = bits(sets.div_ceil(16).div_ceil(buckets));
    let row_bits = WAYS as f64 * slot_bits + number + 2.0 * bits(rows) + bits(rows + buckets);
    let heads = buckets as f64 * bits(rows);
    16.0 * (rows as f64 * (row_bits / 8.0).ceil() * 8.0 + heads) / (sets * WAYS) as f64
}
