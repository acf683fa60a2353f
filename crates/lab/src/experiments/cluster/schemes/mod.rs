//! The paper's schemes beside each other: real processes over UCX, its working sets and node counts in full size, and what each scheme did, counted.

mod claims;
mod crew;
mod member;
mod model;
mod notes;
mod shown;
mod spent;
mod why;

use std::time::Duration;

use tinaja_cluster::members::Role;
use tinaja_cluster::scheme::Scheme;

use self::claims::{All, MISS_COSTS, Modelled};
use self::crew::{Crew, Ran};
use self::member::{Part, schemes};
use self::model::{Free, Model};
use super::reads::Costs;
use crate::error::LabError;
use crate::experiment::{Experiment, Needs, Setup};
use crate::progress::Progress;
use crate::report::Report;

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "cluster-schemes",
    shows: "AC, BCC, CCWR, MTACC and HYBCC between real processes: hits, misses, duplicates, reads and messages",
    paper: "Cooperative caching, Figures 5 to 8, in counts",
    replays_logs: false,
    takes_requests: false,
    resumes: false,
    needs: Needs::Ucx,
    run,
};

/// Files in each trace, and bytes of each.
const WORKING_SET: u64 = 10_240;
const SIZES: [u32; 4] = [8 << 10, 16 << 10, 32 << 10, 64 << 10];
/// Proxies, and web servers that lend memory as passive nodes.
const PROXIES: [u64; 3] = [2, 4, 8];
const PASSIVE: u64 = 2;
/// What each node lends, without headers.
const NODE_BYTES: u64 = 64 << 20;
/// The largest object that is small by HYBCC: the paper does not say.
const SMALL_BYTES: u32 = 8 << 10;
/// Requests of each proxy before anything is counted: three for each object. And of all together that are.
const WARM_UP: (u64, u64) = (30_000, 1500);
const MEASURED: (u64, u64) = (80_000, 2000);
/// In short, so many times fewer objects and bytes a node.
const SHORT: u64 = 32;
/// Requests under way at once in each proxy.
const AT_ONCE: usize = 4;
const IDLE: Duration = Duration::from_millis(500);
/// Requests of the model for each cost of a miss.
const MODELLED: (u64, u64) = (10_000, 500);

/// What is modelled otherwise than it is.
#[derive(Clone, Copy)]
struct Otherwise {
    free: Free,
    /// So many times the memory.
    memory: u64,
}

const AS_IT_IS: Otherwise = Otherwise { free: Free { messages: false, others: false }, memory: 1 };

/// One scheme on one trace and so many proxies.
struct Case {
    scheme: &'static str,
    bytes: u32,
    proxies: u64,
    ran: Ran,
    idle: f64,
}

impl Case {
    fn count(&self, name: &str) -> u64 {
        self.ran.counts.get(name).copied().unwrap_or_default()
    }

    fn requests(&self) -> u64 {
        ["local", "remote", "misses"].iter().map(|name| self.count(name)).sum()
    }

    /// Messages that all nodes sent, a request.
    fn messages(&self) -> f64 {
        let messages: u64 = tinaja_cluster::message::KINDS.iter().map(|kind| self.count(kind)).sum();
        messages as f64 / self.requests() as f64
    }

    /// Of a hundred requests.
    fn percent(&self, name: &str) -> f64 {
        100.0 * self.count(name) as f64 / self.requests() as f64
    }
}

fn run(setup: &Setup) -> Result<Report, LabError> {
    super::other::play()?;
    member::play()?;
    let (proxies, sizes) = setup.choose((PROXIES.to_vec(), SIZES.to_vec()), (vec![2], vec![SIZES[0], SIZES[3]]));
    let tried = |bytes: u32| {
        // The two readings of HYBCC differ for small objects alone.
        schemes(SMALL_BYTES)
            .into_iter()
            .filter(move |(name, _)| bytes <= SMALL_BYTES || !name.ends_with("small as CCWR"))
    };
    let all: usize = sizes.iter().map(|bytes| tried(*bytes).count()).sum();
    let costs = Costs::measure(setup)?;
    let mut progress = Progress::of("clusters", 2 * all * proxies.len() + why::COUNT);
    let (mut cases, mut modelled) = (Vec::new(), Vec::new());
    for proxies in proxies {
        for bytes in &sizes {
            for (name, scheme) in tried(*bytes) {
                cases.push(measure(setup, name, scheme, *bytes, proxies)?);
                progress.step();
                modelled.push(model(setup, name, scheme, *bytes, proxies, &costs, &AS_IT_IS)?);
                progress.step();
            }
        }
    }
    let why = why::tried(setup, &modelled, &costs, &mut progress)?;
    if let Some(case) = cases.iter().find(|case| case.count("wrong") > 0) {
        let wrong = format!("{}: {} objects had other bytes than they should", case.scheme, case.count("wrong"));
        return Err(LabError::failed("fetching objects", wrong));
    }
    let all = All(&modelled);
    let tables = vec![
        shown::found(&cases),
        shown::done(&cases),
        shown::throughput(&modelled),
        shown::paid(&modelled),
        claims::table(&all),
        why::table(&why),
    ];
    let found = cases.chunk_by(|a, b| a.proxies == b.proxies).map(shown::plot);
    let throughputs = modelled.chunk_by(|a, b| a.proxies == b.proxies).map(shown::plot_throughput);
    let plots = found.chain(throughputs).collect();
    let Experiment { name, shows, paper, .. } = EXPERIMENT;
    let mut notes = notes::measured(setup, &costs);
    notes.extend(notes::reasons(setup, &cases, &all, &why));
    Ok(Report { name, shows, paper, quick: setup.quick, seed: setup.seed, tables, plots, notes })
}

/// What each node is to be.
fn parts(setup: &Setup, scheme: Scheme, bytes: u32, proxies: u64, memory: u64) -> Vec<Part> {
    let short = setup.choose(1, SHORT);
    let objects = u32::try_from(memory * NODE_BYTES / u64::from(bytes) / short).unwrap_or(u32::MAX);
    // A home may have to list everything that there is room for, and has its share of it in the mean.
    let listed = u32::try_from(u64::from(objects) * (proxies + PASSIVE) * 5 / 4 / proxies).unwrap_or(u32::MAX);
    let part = |id: u64| Part {
        id,
        role: if id <= proxies { Role::Proxy } else { Role::Passive },
        scheme,
        objects,
        bytes,
        listed,
        working_set: WORKING_SET / short,
        at_once: AT_ONCE,
        seed: setup.seed,
    };
    (1..=proxies + PASSIVE).map(part).collect()
}

fn measure(setup: &Setup, name: &'static str, scheme: Scheme, bytes: u32, proxies: u64) -> Result<Case, LabError> {
    let mut crew = Crew::start(EXPERIMENT.name, &parts(setup, scheme, bytes, proxies, 1))?;
    crew.run(setup.choose(WARM_UP.0, WARM_UP.1))?;
    let ran = crew.run(setup.choose(MEASURED.0, MEASURED.1) / proxies)?;
    let idle = crew.idle(IDLE);
    Ok(Case { scheme: name, bytes, proxies, ran, idle })
}

fn model(
    setup: &Setup,
    name: &'static str,
    scheme: Scheme,
    bytes: u32,
    proxies: u64,
    costs: &Costs,
    otherwise: &Otherwise,
) -> Result<Modelled, LabError> {
    let mut model = Model::new(&parts(setup, scheme, bytes, proxies, otherwise.memory), setup.seed, otherwise.free);
    model.run(setup.choose(WARM_UP.0, WARM_UP.1) * proxies, MISS_COSTS[0], costs);
    let requests = setup.choose(MODELLED.0, MODELLED.1);
    let by_cost = MISS_COSTS.iter().map(|cost| model.run(requests, *cost, costs)).collect();
    match model.wrong() {
        0 => Ok(Modelled { scheme: name, bytes, proxies, by_cost }),
        wrong => Err(LabError::failed("modelling a cluster", format!("{wrong} objects had other bytes"))),
    }
}
