//! Loads put to whole servers over HTTP at equal bytes of disk: what each finds, beside published policies and our engines.

mod found;
mod over_http;

use std::path::PathBuf;

use tinaja_store::{Settings as StoreSettings, engines};

use super::loads::Load;
use crate::error::LabError;
use crate::experiment::{Experiment, Needs, Setup};
use crate::peers::field::{Cores, Product};
use crate::peers::{Origin, allow_open_files};
use crate::policies::{Engine, REFERENCES, Replay, replay};
use crate::report::Report;
use found::{Found, Kind, Row};
use over_http::{Ground, Rival};

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "policies-peers",
    shows: "what Tinaja, Squid by LRU, GDSF and LFUDA, nginx, Traffic Server and Varnish find of loads over HTTP",
    paper: "no paper: ours beside what is in use",
    replays_logs: true,
    takes_requests: false,
    resumes: false,
    needs: Needs::Time,
    run,
};

/// Requests of each generated load.
const REQUESTS: (usize, usize) = (100_000, 4000);
/// The disk as a part of what all objects of a load take.
const PART: f64 = 0.10;
/// For objects of this size the engines' disks are cut: the default of a new cache.
const MEAN_OBJECT_BYTES: u64 = 8192;
/// The published policies in the tables.
const BESIDE: [&str; 5] = ["FIFO", "LRU", "S3-FIFO", "GDSF", "Belady, sizes"];

/// Who is asked, and what it is told to go by.
const RIVALS: [Rival; 8] = [
    Rival::of("Tinaja", Product::Tinaja, None),
    Rival::of("Squid, LRU", Product::Squid, Some("lru")),
    Rival::of("Squid, heap GDSF", Product::Squid, Some("heap GDSF")),
    Rival::of("Squid, heap LFUDA", Product::Squid, Some("heap LFUDA")),
    Rival::of("nginx", Product::Nginx, None),
    Rival::of("Traffic Server", Product::TrafficServer, None),
    Rival::of("Varnish", Product::Varnish, None),
    Rival::of("HAProxy", Product::HaProxy, None),
];

fn run(setup: &Setup) -> Result<Report, LabError> {
    allow_open_files()?;
    let loads = Load::storable(setup, setup.choose(REQUESTS.0, REQUESTS.1))?;
    let disks: Vec<_> = loads.iter().map(|load| disk_bytes(load).max(setup.choose(0, 16 << 20))).collect();
    let of_each = || loads.iter().zip(&disks).map(|(load, disk_bytes)| (load, *disk_bytes));
    let mut rows = Vec::new();
    for reference in REFERENCES.iter().filter(|reference| BESIDE.contains(&reference.name)) {
        tracing::info!("{}, simulated", reference.name);
        let outcome =
            |(load, bytes): (&Load, u64)| replay(&load.sequence, &mut *(reference.new)(bytes), Replay::default());
        let found = of_each().map(|each| Ok(Found::of(&outcome(each))));
        rows.push(Row { kind: Kind::Simulated, name: reference.name, found: found.collect() });
    }
    for engine in engines::on_devices().iter() {
        tracing::info!("{}, by itself", engine.name);
        let mut row = Row { kind: Kind::Engine, name: engine.name, found: Vec::new() };
        for (load, bytes) in of_each() {
            row.found.push(match Engine::new(engine, StoreSettings::new(), bytes, MEAN_OBJECT_BYTES) {
                Ok(mut subject) => {
                    let outcome = replay(&load.sequence, &mut subject, Replay::default());
                    if let Some(wrong) = subject.failed() {
                        return Err(wrong);
                    }
                    Ok(Found::of(&outcome))
                }
                Err(why) => Err(why.to_string()),
            });
        }
        rows.push(row);
    }
    let origin = Origin::begin()?;
    let ground = Ground { scratch: &setup.scratch, cores: Cores::split(), origin: origin.address() };
    for rival in &RIVALS {
        let program = program(rival.product, &setup.servers);
        let found = of_each().map(|(load, bytes)| {
            tracing::info!("{} over HTTP: {}", rival.name, load.title());
            let found = program
                .clone()
                .and_then(|program| rival.ask(&ground, &program, &load.sequence, bytes).map_err(|why| why.to_string()));
            found.inspect_err(|why| tracing::warn!("{}: {why}", rival.name))
        });
        rows.push(Row { kind: Kind::Server, name: rival.name, found: found.collect() });
    }
    let tables = found::tables(&loads, &disks, &rows);
    let plots = vec![found::plot(&loads, &rows)];
    let Experiment { name, shows, paper, .. } = EXPERIMENT;
    Ok(Report { name, shows, paper, quick: setup.quick, seed: setup.seed, tables, plots, notes: notes() })
}

/// In whole MiB, as some servers count it.
fn disk_bytes(load: &Load) -> u64 {
    ((load.sequence.bytes as f64 * PART) as u64) >> 20 << 20
}

/// Its program. Errors: what would have to be installed.
fn program(product: Product, dirs: &[PathBuf]) -> Result<PathBuf, String> {
    let missing = |package: &str| format!("it is not installed: apt install {package}");
    match product.lacks() {
        Some(package) => Err(missing(package)),
        None => product.program(dirs).ok_or_else(|| missing(product.package())),
    }
}

fn notes() -> Vec<String> {
    [
        "Every cache has the same bytes for objects. A published policy fills them with bodies, and 200 bytes for each name and head. An engine \
         also has headers, padding and saved parts of its index there; its disk is in memory, and it keeps no hot objects. A server has a file \
         of that size, or a directory with that limit, and 1 MiB of memory for popular objects. Varnish and HAProxy have no disk: they have as many bytes of memory.",
        "The settings are files in crates/lab/peers. Tinaja has its defaults: the engine is generational, and its index is in that 1 MiB. \
         Squid has the policy of the row for disk and memory. It begins to remove objects at 90 % of its limit.",
        "Requests come in the order of the load, over four connections, each as soon as the one before was answered. Every answer is fresh for a \
         week, so only what a cache has removed is missed. A request for what is on its way to another counts as found. A hit is known by what the \
         origin was told, not by what the server says, and every byte is compared. What may not be stored is left out. Bodies of logs are cut off at 64 KiB. \
         The first requests, when nothing is stored yet, count too.",
        "Days of requests pass within seconds here. nginx removes what is too much every ten seconds, and had many times its disk meanwhile, as the \
         table says: its row cannot be compared, and it is not in the picture. What servers write is counted by `tinaja lab peers`.",
    ]
    .map(str::to_owned)
    .to_vec()
}
