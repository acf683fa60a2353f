//! Section 5.4, Figure 7: our proxy on Dámelo, on a tree of files, and Squid, on a disk such as the paper's.

mod load;
mod notes;
mod plots;
mod runs;
mod tables;
mod uses;

use std::net::Ipv4Addr;
use std::time::Duration;

use tinaja_store::{EngineRef, engines};

use crate::error::LabError;
use crate::experiment::{Experiment, Needs, Setup};
use crate::paper::damelo as paper;
use crate::peers::{FileSystem, Origin, Peer, SquidStore, allow_open_files, needs_root};
use crate::progress::Progress;
use crate::report::Report;

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "damelo-proxy",
    shows: "the proxy on damelo and on a tree of files, and Squid, on one limited disk: rates, times, what was full",
    paper: "Dámelo, section 5.4, Figure 7",
    replays_logs: false,
    takes_requests: true,
    resumes: false,
    needs: Needs::Root,
    run,
};

/// A proxy, and what stands for it in Figure 7.
#[derive(Clone, Copy)]
pub struct System {
    pub peer: Peer,
    /// Its name in the thesis, and its requests a second there.
    pub paper: (&'static str, f64),
    /// What its disk is made with. A file that is read past the page cache lies on ext4, which allocates it in one piece.
    pub files: FileSystem,
}

/// The thesis has ext2 with blocks of up to 4 KiB; objects of 13 KiB want those.
const EXT2: FileSystem = FileSystem::Ext2(4096);

const SYSTEMS: [System; 3] = {
    let [tree, squid, damelo] = paper::FIGURE_7;
    [
        System { peer: ours(engines::SQUID2), paper: tree, files: EXT2 },
        System { peer: Peer::Squid(SquidStore::Aufs), paper: squid, files: EXT2 },
        System { peer: ours(engines::DAMELO), paper: damelo, files: FileSystem::Ext4 },
    ]
};

const fn ours(engine: EngineRef) -> Peer {
    Peer::Tinaja { engine, prefetch: false, is_new: false }
}

fn run(setup: &Setup) -> Result<Report, LabError> {
    needs_root()?;
    allow_open_files()?;
    // A site is a host, whatever its port.
    let site = |n: u8| Origin::at(Ipv4Addr::new(127, 0, 1, n), Duration::ZERO);
    let sites = (1..=load::SITES).map(site).collect::<Result<Vec<_>, _>>()?;
    let (mut ran, mut left_out) = (Vec::new(), Vec::new());
    let mut progress = Progress::of("damelo-proxy".to_owned(), SYSTEMS.len());
    for system in SYSTEMS {
        let name = system.peer.name();
        if system.peer.program().is_none() {
            left_out.push(format!("{name}: it is not installed"));
        } else {
            match runs::run(system, setup, &sites) {
                Ok(measured) => ran.push(measured),
                // The others take minutes each and can be shown all the same.
                Err(error) => {
                    tracing::error!("{name}: {error}");
                    left_out.push(format!("{name}: {error}"));
                }
            }
        }
        progress.step();
    }
    if ran.is_empty() {
        return Err(LabError::failed("running the proxies", left_out.join("; ")));
    }
    let tables = vec![
        tables::figure_7(&ran),
        tables::times(&ran),
        tables::resources(&ran),
        tables::saturation(&ran),
        tables::in_time(&ran),
        tables::versions(&ran),
    ];
    let plots = plots::all(&ran);
    let notes = notes::notes(setup, &left_out);
    let Experiment { name, shows, paper, .. } = EXPERIMENT;
    Ok(Report { name, shows, paper, quick: setup.quick, seed: setup.seed, tables, plots, notes })
}
