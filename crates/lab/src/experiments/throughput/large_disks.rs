//! Table 9: large disks, with its columns: rates, times, hits.

use tinaja_store::engine::hashcache::settings::POSITIONS_APART;
use tinaja_store::{EngineRef, Settings, engines};

use super::runs::disk_bytes;
use super::times::{LOAD, cells, paper_cells, run};
use crate::error::LabError;
use crate::experiment::Setup;
use crate::paper::hashcache::TABLE_9;
use crate::report::{Cell, Table};
use crate::rig::{Spec, usb_7200};

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
        let names = |whose: &str| [row.engine.name.into(), (row.disks as u64).into(), whose.into()];
        if let Some([rate, others @ ..]) = row.columns {
            let rates = [Cell::number(rate, 0), Cell::Nothing];
            table.row(names("paper").into_iter().chain(rates).chain(paper_cells(others)));
        }
        for positions_apart in
            [false, true].into_iter().filter(|apart| !apart || row.engine == engines::HASHCACHE_LOGLRU)
        {
            let whose = if positions_apart { "positions apart" } else { "measured" };
            let columns = measured(row.engine, row.disks, positions_apart, setup)?;
            table.row(names(whose).into_iter().chain(columns));
        }
    }
    Ok(table)
}

/// The columns of a row, all but its name: the peak rate, and what came of the same load at [`LOAD`] of it.
fn measured(
    engine: EngineRef,
    disks: usize,
    positions_apart: bool,
    setup: &Setup,
) -> Result<impl Iterator<Item = Cell>, LabError> {
    tracing::info!("{engine} on {disks} large disks, positions on one of their own: {positions_apart}");
    let settings = Settings::new().with(&engines::POSITIONS_IN_MEMORY, 6).with(&engines::PREFETCH, 1);
    let spec = Spec {
        settings: settings.with(&POSITIONS_APART, positions_apart.into()),
        disks,
        hot_bytes: (disk_bytes(setup) as f64 * 0.3 * HOT) as u64,
        models: vec![usb_7200()],
        ..Spec::new(engine, disk_bytes(setup) / disks as u64)
    };
    let peak = run(&spec, 100.0, None, setup)?.peak_rate(0);
    let at_rest = run(&spec, peak * LOAD, Some(0), setup)?;
    let rates = [peak * LOAD, peak].map(|rate| Cell::number(rate, 0));
    Ok(rates.into_iter().chain(cells(&at_rest, 0)))
}
