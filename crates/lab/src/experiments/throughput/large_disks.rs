//! Table 9: large disks, with its columns: rates, times, hits.

use std::time::Duration;

use tinaja_store::{EngineName, Tuning};

use super::runs::{disk_bytes, lengths, load};
use crate::error::LabError;
use crate::experiment::Setup;
use crate::load::{Drive, Embedded, Outcome, PolyMix, drive};
use crate::paper::hashcache::TABLE_9;
use crate::report::{Cell, Table};
use crate::rig::{Rig, Spec, usb_7200};

/// The share of the peak rate at which times are measured: at the peak itself a queue has no end.
const LOAD: f64 = 0.8;
/// Memory for hot objects, as a share of the data: 1 GB beside 50 GB.
const HOT: f64 = 0.02;

/// Each policy of Table 9 on one disk and on two, the paper's row above ours; LogLRU also with its positions on a further
/// disk, as the paper has them (section 5.4).
pub fn table(setup: &Setup) -> Result<Table, LabError> {
    let columns = [
        "policy",
        "disks",
        "",
        "requests/s",
        "peak",
        "busy %",
        "Mbit/s",
        "hit ms",
        "all ms",
        "miss ms",
        "CHR %",
        "BHR %",
    ];
    let mut table = Table::new(
        "Large disks (Table 9): with prefetch, LogLRU with k = 6, times at four fifths of the peak",
        &columns,
    );
    for row in TABLE_9 {
        let names = |whose: &str| [row.engine.as_str().into(), (row.disks as u64).into(), whose.into()];
        if let Some([rate, mbits, hit, all, miss, chr, bhr]) = row.columns {
            let numbers = [(mbits, 2), (hit, 0), (all, 0), (miss, 0), (chr, 1), (bhr, 1)];
            let numbers = numbers.map(|(number, digits)| Cell::number(number, digits));
            table.row(
                names("paper").into_iter().chain([Cell::number(rate, 0), Cell::Nothing, Cell::Nothing]).chain(numbers),
            );
        }
        for positions_apart in
            [false, true].into_iter().filter(|apart| !apart || row.engine == EngineName::HashCacheLogLru)
        {
            let whose = if positions_apart { "positions apart" } else { "measured" };
            let columns = measured(row.engine, row.disks, positions_apart, setup)?;
            table.row(names(whose).into_iter().chain(columns));
        }
    }
    Ok(table)
}

/// The columns of a row, all but its name.
fn measured(
    engine: EngineName,
    disks: usize,
    positions_apart: bool,
    setup: &Setup,
) -> Result<impl Iterator<Item = Cell>, LabError> {
    let (peak, at_rest) = measure(engine, disks, positions_apart, setup)?;
    let rate = peak * LOAD;
    let mbits = at_rest.bytes as f64 * 8.0 / at_rest.span.as_secs_f64() / 1e6;
    let each = |time: Duration, of: u64| Cell::number(time.as_secs_f64() * 1000.0 / of.max(1) as f64, 0);
    let all = at_rest.hit_time + at_rest.miss_time;
    Ok([
        Cell::number(rate, 0),
        Cell::number(peak, 0),
        Cell::percent(at_rest.spent.busy(0).as_secs_f64() / at_rest.span.as_secs_f64()),
        Cell::number(mbits, 2),
        each(at_rest.hit_time, at_rest.hits),
        each(all, at_rest.requests),
        each(at_rest.miss_time, at_rest.misses()),
        Cell::percent(at_rest.hit_ratio()),
        Cell::percent(at_rest.byte_hit_ratio()),
    ]
    .into_iter())
}

/// The peak rate, and what came of the same load at [`LOAD`] of it.
fn measure(engine: EngineName, disks: usize, positions_apart: bool, setup: &Setup) -> Result<(f64, Outcome), LabError> {
    tracing::info!("{engine} on {disks} large disks, positions on one of their own: {positions_apart}");
    let spec = Spec {
        tuning: Tuning { positions_in_memory: Some(6), positions_apart, prefetch: Some(true), ..Tuning::default() },
        disks,
        hot_bytes: (disk_bytes(setup) as f64 * 0.3 * HOT) as u64,
        models: vec![usb_7200()],
        ..Spec::new(engine, disk_bytes(setup) / disks as u64)
    };
    let ran = |rate: f64, clock: Option<usize>| {
        let options = load(setup, Embedded::TenToTwenty, rate);
        let (warm_up, measured) = lengths(setup, &options);
        let requests = PolyMix::new(options, setup.seed).take(warm_up + measured);
        drive(&Rig::new(&spec)?, requests, &Drive { warm_up, clock, ..Drive::default() })
    };
    let peak = ran(100.0, None)?.peak_rate(0);
    Ok((peak, ran(peak * LOAD, Some(0))?))
}
