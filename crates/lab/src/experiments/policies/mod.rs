//! What leaves a full cache: the engine's own policy beside published ones at equal bytes, part by part, and while the load drifts.

pub mod changes;
mod engines;
mod loads;
pub mod memory;
mod notes;
pub mod peers;
mod runs;
mod tables;

use crate::error::LabError;
use crate::experiment::{Experiment, Needs, Setup};
use crate::report::Report;
use loads::Load;
use runs::Run;

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "policies",
    shows: "hits of the engine's own policy beside nine published ones, part by part; for logs with --trace",
    paper: "no paper: ours beside published policies",
    replays_logs: true,
    takes_requests: false,
    resumes: false,
    needs: Needs::Nothing,
    run,
};

/// Disks as parts of the footprint.
const DISKS: [f64; 6] = [0.02, 0.05, 0.10, 0.20, 0.35, 0.50];

fn run(setup: &Setup) -> Result<Report, LabError> {
    let loads = Load::all(setup)?;
    let disks: &[f64] = setup.choose(&DISKS, &[0.10, 0.35]);
    let mut runs = Vec::new();
    for load in &loads {
        for part in disks {
            tracing::info!("{}: a disk of {} %", load.title(), part * 100.0);
            runs.push(Run::of(load, *part));
        }
    }
    let mut tables = vec![tables::loads(&loads)];
    for is_cut in [true, false] {
        let runs: Vec<_> = runs.iter().filter(|run| run.load.is_cut == is_cut).collect();
        tables.extend([tables::hits(&runs), tables::byte_hits(&runs), tables::variants(&runs)]);
    }
    tables.push(engines::table(&runs)?);
    let drifting: Vec<_> = loads.iter().filter(|load| load.drifts && load.is_cut).map(runs::over_time).collect();
    tables.extend(drifting.iter().map(tables::over_time));
    let mut plots = vec![tables::by_disk(&runs, disks)];
    plots.extend(drifting.iter().map(tables::over_time_plot));
    let Experiment { name, shows, paper, .. } = EXPERIMENT;
    Ok(Report { name, shows, paper, quick: setup.quick, seed: setup.seed, tables, plots, notes: notes::notes() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Cell;

    #[test]
    fn the_order_of_policies_is_what_is_known_of_them() {
        let report = run(&Setup::quick()).unwrap();
        let hits = &report.tables[1];
        let column = |name: &str| hits.column(name).into_iter().map(|cell| cell.value().unwrap()).collect::<Vec<_>>();
        let mean = |name: &str| column(name).iter().sum::<f64>() / hits.rows.len() as f64;
        let in_order = ["FIFO", "LRU", "GDSF", "Belady, sizes"].map(mean);
        assert!(in_order.windows(2).all(|pair| pair[1] > pair[0] - 0.5), "{in_order:?}");
        assert!(mean("ours") > mean("FIFO") + 2.0, "{} and {}", mean("ours"), mean("FIFO"));
        let best = column("Belady, sizes");
        assert!(column("ours").iter().zip(best).all(|(ours, best)| *ours < best + 0.5));
        let shipped = report.tables.iter().find(|table| !table.column("generational").is_empty()).unwrap();
        let found = |name: &str| shipped.column(name).into_iter().filter_map(Cell::value).sum::<f64>();
        assert!(found("generational") > found("hashcache-log") + 2.0 * shipped.rows.len() as f64, "{shipped:?}");
        let parts = report.tables.iter().find(|table| table.column("part").len() > 3).unwrap();
        assert!(parts.rows.iter().flatten().all(|cell| *cell != Cell::Nothing), "{parts:?}");
    }
}
