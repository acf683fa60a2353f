//! Times of hits and misses at four fifths of the peak, in the columns of Tables 8 and 9.

use std::time::Duration;

use super::runs::{lengths, load};
use crate::error::LabError;
use crate::experiment::Setup;
use crate::load::{Drive, Embedded, Outcome, PolyMix, drive};
use crate::report::Cell;
use crate::rig::{Rig, Spec};

/// The share of the peak rate at which times are measured: at the peak itself a queue has no end.
pub const LOAD: f64 = 0.8;

/// What came of pages of 10 to 20 objects at such a rate by the clock of a model, or as fast as the disks can.
pub fn run(spec: &Spec, rate: f64, clock: Option<usize>, setup: &Setup) -> Result<Outcome, LabError> {
    let options = load(setup, Embedded::TenToTwenty, rate);
    let (warm_up, measured) = lengths(setup, &options);
    let requests = PolyMix::new(options, setup.seed).take(warm_up + measured);
    drive(&Rig::new(spec)?, requests, &Drive { warm_up, clock, ..Drive::default() })
}

/// Busy in percent, Mbit a second, milliseconds of hits, of all requests and of misses, CHR and BHR in percent.
pub fn cells(outcome: &Outcome, model: usize) -> [Cell; 7] {
    let span = outcome.span.as_secs_f64();
    let each = |time: Duration, of: u64| Cell::number(time.as_secs_f64() * 1000.0 / of.max(1) as f64, 0);
    [
        Cell::percent(outcome.spent.busy(model).as_secs_f64() / span),
        Cell::number(outcome.bytes as f64 * 8.0 / span / 1e6, 2),
        each(outcome.hit_time, outcome.hits),
        each(outcome.hit_time + outcome.miss_time, outcome.requests),
        each(outcome.miss_time, outcome.misses()),
        Cell::percent(outcome.hit_ratio()),
        Cell::percent(outcome.byte_hit_ratio()),
    ]
}

/// The paper's row in the same columns, but for the first: Mbit a second and so on.
pub fn paper_cells([mbits, hit, all, miss, chr, bhr]: [f64; 6]) -> [Cell; 7] {
    let numbers = [(mbits, 2), (hit, 0), (all, 0), (miss, 0), (chr, 1), (bhr, 1)];
    let [mbits, hit, all, miss, chr, bhr] = numbers.map(|(number, digits)| Cell::number(number, digits));
    [Cell::Nothing, mbits, hit, all, miss, chr, bhr]
}
