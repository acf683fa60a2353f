//! Table 8: a machine with five disks of 10,000 turns, where Log has memory enough.

use tinaja_store::engines;

use super::pace::at_real_pace;
use super::runs::{Case, Ran, disk_bytes, models};
use super::times::{LOAD, cells, paper_cells, run};
use crate::error::LabError;
use crate::experiment::Setup;
use crate::load::Embedded;
use crate::paper::hashcache::TABLE_8;
use crate::report::{Cell, Table};
use crate::rig::Spec;

const DISKS: usize = 5;
/// Which of [`models`] has 10,000 turns.
const MODEL: usize = 1;
/// A part of the disks in memory for hot objects: 1 GB beside 90 GB, a third of the machine's 3.5 GB with index and buffers.
const HOT: u64 = 90;

/// The paper's three rows, and ours for Log.
pub fn table(setup: &Setup) -> Result<Table, LabError> {
    let columns = [
        "policy",
        "",
        "requests/s",
        "peak",
        "at real pace",
        "busy %",
        "Mbit/s",
        "hit ms",
        "all ms",
        "miss ms",
        "CHR %",
        "BHR %",
    ];
    let title = "Five disks of 10,000 turns (Table 8): with prefetch, times at four fifths of the peak at real pace";
    let mut table = Table::new(title, &columns);
    for (name, [rate, others @ ..]) in TABLE_8 {
        let rates = [Cell::number(rate, 0), Cell::Nothing, Cell::Nothing];
        table.row([name.into(), "paper".into()].into_iter().chain(rates).chain(paper_cells(others)));
    }
    let case = Case { disks: DISKS, ..Case::new(engines::HASHCACHE_LOG, true, Embedded::TenToTwenty) };
    tracing::info!("{} on {DISKS} disks of 10,000 turns", case.engine);
    let each = (disk_bytes(setup) / DISKS as u64) >> 12 << 12;
    let hot_bytes = each * DISKS as u64 / HOT;
    let spec = Spec {
        settings: case.settings.clone(),
        disks: DISKS,
        hot_bytes,
        models: models().to_vec(),
        ..Spec::new(case.engine, each)
    };
    let fastest = Ran { outcome: run(&spec, 100.0, None, setup)?, case, disk_bytes: each };
    let (peak, paced) = (fastest.outcome.peak_rate(MODEL), at_real_pace(&fastest, MODEL, &[]));
    let at_rest = run(&spec, paced * LOAD, Some(MODEL), setup)?;
    let rates = [paced * LOAD, peak, paced].map(|rate| Cell::number(rate, 0));
    let names = [fastest.case.engine.name.into(), "measured".into()];
    table.row(names.into_iter().chain(rates).chain(cells(&at_rest, MODEL)));
    Ok(table)
}
