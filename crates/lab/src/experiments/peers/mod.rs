//! The proxy beside Squid and Traffic Server on one disk that the kernel limits: Figures 3, 5, 7 and 9 of the HashCache paper.

mod notes;
mod plots;
mod runs;
mod tables;
mod theory;

use tinaja_store::EngineName;

use crate::error::LabError;
use crate::experiment::{Experiment, Setup};
use crate::peers::{Origin, Peer, needs_root};
use crate::report::Report;

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "hashcache-peers",
    shows: "the proxy beside Squid and Traffic Server on a disk of 70 requests a second: rates, processor, memory, disk",
    paper: "HashCache, Figures 3, 5, 7 and 9",
    needs_trace: false,
    needs_root: true,
    run,
};

/// Each in its turn.
const PEERS: [Peer; 7] = [
    ours(EngineName::HashCacheSet, false),
    Peer::Tinaja { engine: EngineName::HashCacheSet, prefetch: false, is_new: true },
    ours(EngineName::HashCacheSetMem, false),
    ours(EngineName::HashCacheLog, false),
    ours(EngineName::HashCacheLog, true),
    Peer::Squid,
    Peer::TrafficServer,
];
/// In short runs.
const FEW: [Peer; 4] =
    [ours(EngineName::HashCacheSet, false), ours(EngineName::HashCacheLog, true), Peer::Squid, Peer::TrafficServer];

const fn ours(engine: EngineName, prefetch: bool) -> Peer {
    Peer::Tinaja { engine, prefetch, is_new: false }
}

fn run(setup: &Setup) -> Result<Report, LabError> {
    needs_root()?;
    let origin = Origin::begin()?;
    let disk = runs::disk_speed(setup)?;
    let (mut ran, mut left_out) = (Vec::new(), Vec::new());
    for peer in setup.choose(&PEERS[..], &FEW[..]) {
        if peer.program().is_none() {
            left_out.push(format!("{}: it is not installed", peer.name()));
            continue;
        }
        match runs::run(*peer, setup, &origin) {
            Ok(measured) => ran.push(measured),
            // The others take minutes each and can be shown all the same.
            Err(error) => {
                tracing::error!("{}: {error}", peer.name());
                left_out.push(format!("{}: {error}", peer.name()));
            }
        }
    }
    if ran.is_empty() {
        return Err(LabError::failed("running the proxies", left_out.join("; ")));
    }
    let tables = vec![
        tables::peak(&ran),
        tables::resources(&ran),
        tables::times(&ran),
        theory::table_4(&ran, &disk),
        theory::table_6(&disk),
        tables::versions(&ran),
    ];
    let plots = vec![plots::figure_3(&ran), plots::figure_5(&ran), plots::hit_times(&ran)];
    let Experiment { name, shows, paper, .. } = EXPERIMENT;
    let notes = notes::notes(setup, &left_out);
    Ok(Report { name, shows, paper, quick: setup.quick, seed: setup.seed, tables, plots, notes })
}
