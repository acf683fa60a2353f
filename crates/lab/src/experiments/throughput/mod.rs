//! Tables 4 and 7 to 9 and Figures 3 and 4 of the HashCache paper: requests a second that a policy carries.

mod high_end;
mod large_disks;
mod notes;
mod pace;
mod plots;
mod runs;
mod tables;
mod times;

use tinaja_store::engines;

use self::runs::{Case, Ran};
use super::table3::with_and_without_prefetch;
use crate::error::LabError;
use crate::experiment::{Experiment, Needs, Setup};
use crate::load::Embedded;
use crate::report::Report;

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "hashcache-throughput",
    shows: "peak request rates by policy and disk: Table 4's formula, Table 7, and measured; times at four fifths",
    paper: "HashCache, Tables 4 and 7 to 9, Figures 3 and 4",
    replays_logs: false,
    takes_requests: false,
    resumes: false,
    needs: Needs::Nothing,
    run,
};

/// Shares of sets in memory, in percent, and the name of the curve in Figure 4.
const SHARES: [u64; 2] = [30, 40];

fn run(setup: &Setup) -> Result<Report, LabError> {
    let one_disk = |embedded| {
        let each = with_and_without_prefetch();
        let each = each.map(|(engine, prefetch)| runs::run(Case::new(engine, prefetch, embedded), setup));
        each.collect::<Result<Vec<Ran>, _>>()
    };
    let four = one_disk(Embedded::Zipf13)?;
    let fifteen = one_disk(Embedded::TenToTwenty)?;
    let mut tables = vec![
        tables::rates("One disk of 7200 turns, 4 objects a page", &four),
        tables::rates("One disk of 7200 turns, 10 to 20 objects a page", &fifteen),
        tables::speeds(&four, &fifteen),
    ];
    let mut plots = vec![plots::figure_3(&four, &fifteen)];

    let two = two_disks(setup)?;
    tables.push(tables::two_disks(&four, &two));
    plots.push(plots::figure_4(&four, &two));
    tables.push(high_end::table(setup)?);
    tables.push(large_disks::table(setup)?);
    let Experiment { name, shows, paper, .. } = EXPERIMENT;
    Ok(Report { name, shows, paper, quick: setup.quick, seed: setup.seed, tables, plots, notes: notes::notes() })
}

/// The policies of Figure 4 and Table 9 on two disks, all with prefetching, and SetMemLRU with the shares of Figure 4 on one
/// disk as well.
fn two_disks(setup: &Setup) -> Result<Vec<Ran>, LabError> {
    let mut ran = Vec::new();
    let prefetching =
        with_and_without_prefetch().filter(|(engine, prefetch)| *prefetch == engine.has(&engines::PREFETCH));
    for (engine, prefetch) in prefetching.filter(|(engine, _)| *engine != engines::HASHCACHE_SETMEMLRU) {
        ran.push(runs::run(Case { disks: 2, ..Case::new(engine, prefetch, Embedded::Zipf13) }, setup)?);
    }
    for share in SHARES {
        let case = Case::new(engines::HASHCACHE_SETMEMLRU, true, Embedded::Zipf13);
        let case = Case { settings: case.settings.clone().with(&engines::SETS_IN_MEMORY, share), ..case };
        for disks in [1, 2] {
            ran.push(runs::run(Case { disks, ..case.clone() }, setup)?);
        }
    }
    Ok(ran)
}
