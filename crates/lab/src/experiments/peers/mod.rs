//! The proxy beside Squid and Traffic Server on one disk that the kernel limits: Figures 3, 5, 7 and 9 of the HashCache paper.

mod notes;
mod plots;
mod runs;
mod tables;
mod theory;

use tinaja_store::{EngineRef, engines};

use crate::error::LabError;
use crate::experiment::{Experiment, Needs, Setup};
use crate::load::Embedded::{self, TenToTwenty, Zipf13};
use crate::peers::{Origin, Peer, SquidStore, allow_open_files, needs_root};
use crate::report::Report;

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "hashcache-peers",
    shows: "the proxy beside Squid and Traffic Server on a disk of 70 requests per second: rates, processor, memory, disk",
    paper: "HashCache, Figures 3, 5, 7 and 9",
    replays_logs: false,
    takes_requests: false,
    resumes: false,
    needs: Needs::Root,
    run,
};

/// Each in its turn, under its load. With more objects a page what prefetching and stores make of a page may differ; a new
/// file, and a log without prefetching, are what they are.
const RUNS: [(Embedded, Peer); 14] = [
    (Zipf13, ours(engines::HASHCACHE_SET, false)),
    (Zipf13, Peer::Tinaja { engine: engines::HASHCACHE_SET, prefetch: false, is_new: true }),
    (Zipf13, ours(engines::HASHCACHE_SETMEM, false)),
    (Zipf13, ours(engines::HASHCACHE_LOG, false)),
    (Zipf13, ours(engines::HASHCACHE_LOG, true)),
    (Zipf13, Peer::Squid(SquidStore::Aufs)),
    (Zipf13, Peer::Squid(SquidStore::Rock)),
    (Zipf13, Peer::TrafficServer),
    (TenToTwenty, ours(engines::HASHCACHE_SET, false)),
    (TenToTwenty, ours(engines::HASHCACHE_SETMEM, false)),
    (TenToTwenty, ours(engines::HASHCACHE_LOG, true)),
    (TenToTwenty, Peer::Squid(SquidStore::Aufs)),
    (TenToTwenty, Peer::Squid(SquidStore::Rock)),
    (TenToTwenty, Peer::TrafficServer),
];
/// In short runs.
const FEW: [(Embedded, Peer); 5] = [
    (Zipf13, ours(engines::HASHCACHE_SET, false)),
    (Zipf13, Peer::Squid(SquidStore::Aufs)),
    (Zipf13, Peer::TrafficServer),
    (TenToTwenty, ours(engines::HASHCACHE_LOG, true)),
    (TenToTwenty, Peer::Squid(SquidStore::Rock)),
];

const fn ours(engine: EngineRef, prefetch: bool) -> Peer {
    Peer::Tinaja { engine, prefetch, is_new: false }
}

fn run(setup: &Setup) -> Result<Report, LabError> {
    needs_root()?;
    allow_open_files()?;
    let origin = Origin::begin()?;
    let disk = runs::disk_speed(setup)?;
    let (mut ran, mut left_out) = (Vec::new(), Vec::new());
    for &(embedded, peer) in setup.choose(&RUNS[..], &FEW[..]) {
        let name = format!("{}, {} a page", peer.name(), embedded.a_page());
        if peer.program().is_none() {
            left_out.push(format!("{name}: it is not installed"));
            continue;
        }
        match runs::run(peer, embedded, setup, &origin) {
            Ok(measured) => ran.push(measured),
            // The others take minutes each and can be shown all the same.
            Err(error) => {
                tracing::error!("{name}: {error}");
                left_out.push(format!("{name}: {error}"));
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
    let plots = plots::all(&ran);
    let Experiment { name, shows, paper, .. } = EXPERIMENT;
    let notes = notes::notes(setup, &left_out);
    Ok(Report { name, shows, paper, quick: setup.quick, seed: setup.seed, tables, plots, notes })
}
