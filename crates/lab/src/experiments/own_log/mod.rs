//! A log of whoever asks, replayed through the engines that ship and through published policies at equal bytes.

mod load;
mod notes;
mod runs;
mod tables;

use crate::error::LabError;
use crate::experiment::{Experiment, Needs, Setup};
use crate::progress::Progress;
use crate::report::Report;
use load::Load;
use runs::Runs;

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "replay",
    shows: "your own log through every engine and nine published policies: hits, reads, writes, memory, times",
    paper: "no paper: docs/replay.md",
    replays_logs: true,
    takes_requests: true,
    needs: Needs::Log,
    run,
};

fn run(setup: &Setup) -> Result<Report, LabError> {
    let [path] = &setup.traces[..] else {
        return Err(LabError::NeedsTrace { name: EXPERIMENT.name, given: setup.traces.len() });
    };
    let load = Load::read(path, setup)?;
    let disks = load.disks(setup)?;
    let engines = runs::engines(setup);
    let mut all = Vec::new();
    for (number, disk) in (1..).zip(&disks) {
        let title = format!("replay: disk {number} of {}, {}", disks.len(), disk.title());
        let mut progress = Progress::of(title.clone(), Runs::steps(&load, &engines));
        all.push(Runs::of(&load, *disk, &engines, setup, &mut |now: Option<&str>| match now {
            Some(name) => progress.now(format!("{title}, {name}")),
            None => progress.step(),
        })?);
    }
    let mut tables = vec![tables::log(&load)];
    tables.extend(all.iter().map(tables::disk));
    let Experiment { name, shows, paper, .. } = EXPERIMENT;
    let (plots, notes) = (tables::plots(&all), notes::notes(&load, setup));
    Ok(Report { name, shows, paper, quick: setup.quick, seed: setup.seed, tables, plots, notes })
}
