//! What becomes of a rate at the pace of real time, where a batch of the log goes out a tenth of a second after its first
//! record, full or not.
//!
//! A run by a virtual clock is over in seconds of real time: its batches are full, 2 MiB each, as on no disk of such a rate.

use tinaja_store::limits::WRITE_BEHIND;

use super::runs::{Ran, models};
use crate::rig::random_reads_a_second;

/// The class of sizes from which on a write of LogLRU's is a batch, and not a part of its positions: 1 MiB.
const BATCH_CLASS: usize = 20;

/// Requests a second by the model of this number with ten batches a second and disk, or one for each object where these are
/// fewer; each that was not counted takes as long as a random read. Related objects go out together, which makes batches
/// fewer still: the rate is the least that it can be.
///
/// `all` has the runs without prefetching, by which it is known how many objects do not fit their bins.
pub fn at_real_pace(ran: &Ran, model: usize, all: &[Ran]) -> f64 {
    let (outcome, disks) = (&ran.outcome, ran.case.disks as f64);
    let measured = outcome.peak_rate(model);
    let Some(t) = models().get(model).map(|model| random_reads_a_second(model, ran.read_bytes())) else {
        return measured;
    };
    let each = |count: f64| count / outcome.requests.max(1) as f64 / disks;
    let (logged, batches) = (each(outcome.stored as f64 * share_logged(ran, all)), each(batches(ran)));
    let longest = 1.0 / WRITE_BEHIND.as_secs_f64();
    (0..50).fold(measured, |rate, _| {
        let in_time = longest * (1.0 - (-rate * logged / longest).exp());
        let more = (in_time / rate - batches).max(0.0);
        1.0 / (1.0 / measured + more / t)
    })
}

/// Batches of the log that were written.
fn batches(ran: &Ran) -> f64 {
    let (outcome, writes) = (&ran.outcome, &ran.outcome.spent.writes);
    let count = match ran.case.engine.name {
        "hashcache-loglru" => writes.sizes.iter().skip(BATCH_CLASS).sum(),
        _ if ran.has_table() => writes.requests.saturating_sub(outcome.stored),
        _ => writes.requests,
    };
    count as f64
}

/// The share of the objects of which something goes to the log: all, or those that do not fit their bins. A hit reads these
/// twice where nothing is read ahead.
fn share_logged(ran: &Ran, all: &[Ran]) -> f64 {
    if !ran.has_table() {
        return 1.0;
    }
    let without = all.iter().find(|other| other.case.engine == ran.case.engine && !other.prefetches());
    without.map_or(1.0, |without| (without.outcome.reads_a_hit() - 1.0).clamp(0.0, 1.0))
}
