//! `tinaja lab peers`: every other server that is installed beside ours, in one command.

mod contest;
mod floor;
mod full;
mod kept;
mod lines;
mod notes;
mod plots;
mod secured;
mod slope;
mod warm;

use contest::Contest;

use crate::error::LabError;
use crate::experiment::{Experiment, Needs, Setup};
use crate::peers::field::{Cores, Product};
use crate::peers::{Origin, allow_open_files};
use crate::report::{Cell, Report, Table};

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "peers",
    shows: "Tinaja beside nginx, Squid, Varnish, Traffic Server, Apache and HAProxy: hits, misses, disks, restarts",
    paper: "no paper: ours beside what is in use",
    replays_logs: false,
    takes_requests: false,
    resumes: false,
    needs: Needs::Nothing,
    run,
};

fn run(setup: &Setup) -> Result<Report, LabError> {
    allow_open_files()?;
    let began = crate::peers::busy_s();
    let cores = Cores::split();
    let origin = Origin::begin()?;
    let found = Product::ALL.into_iter().filter_map(|product| Some((product, product.program(&setup.servers)?)));
    // Varnish compiles its settings: without a compiler it starts, and ends.
    let found = found.filter(|(product, _)| product.lacks().is_none()).collect();
    let contest = Contest { setup, cores, origin, found };

    let mut tables = vec![who(&contest)];
    let names: Vec<_> = contest.found.iter().map(|(product, _)| product.name()).collect();
    tracing::info!("hits and misses of {}", names.join(", "));
    let warm = warm::measure(&contest);
    let least = floor::measure(&contest, &warm.memory_hits, &warm.misses);
    tracing::info!("what is on disks: restarts, cold hits, slow and full ones");
    let kept = kept::measure(&contest);
    tables.extend(warm.tables);
    tables.push(least);
    tables.extend(kept.tables);
    tracing::info!("memory of many objects, and TLS");
    tables.push(slope::measure(&contest));
    tables.push(secured::measure(&contest));
    let plots = plots::all(&[
        ("memory hit", &warm.memory_hits),
        ("cold disk hit", &kept.cold),
        ("miss", &warm.misses),
        ("miss, full cache", &kept.full),
    ]);
    let notes = notes::notes(&contest, crate::peers::busy_s() - began);
    let Experiment { name, shows, paper, .. } = EXPERIMENT;
    Ok(Report { name, shows, paper, quick: setup.quick, seed: setup.seed, tables, plots, notes })
}

/// Who takes part, and of whom is missing what would have to be installed.
fn who(contest: &Contest<'_>) -> Table {
    let mut table = Table::new("Servers", &["server", "version", "what is missing"]);
    for product in Product::ALL {
        let found = contest.found.iter().find(|(found, _)| *found == product);
        let version = found.map_or(Cell::Nothing, |(product, program)| product.version(program).into());
        let missing = match (found, product.lacks()) {
            (Some(_), _) => Cell::Nothing,
            (None, Some(package)) => format!("it needs a compiler: apt install {package}").into(),
            (None, None) => format!("it is not installed: apt install {}", product.package()).into(),
        };
        table.row([product.name().into(), version, missing]);
    }
    let count = contest.found.len();
    table.says(format!("{count} of {} servers were found.", Product::ALL.len()))
}
