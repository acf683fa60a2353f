//! The paper's schemes beside each other: real processes over UCX, its working sets and node counts in full size, and what each scheme did, counted.

mod claims;
mod crew;
mod member;
mod model;

use std::time::Duration;

use tinaja_cluster::members::Role;
use tinaja_cluster::scheme::Scheme;

use self::claims::{All, MISS_COSTS, Modelled};
use self::crew::{Crew, Ran};
use self::member::{Part, schemes};
use self::model::Model;
use super::reads::Costs;
use crate::error::LabError;
use crate::experiment::{Experiment, Needs, Setup};
use crate::progress::Progress;
use crate::report::{Cell, Plot, Report, Series, Table};

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
    let mut progress = Progress::of("clusters", 2 * all * proxies.len());
    let (mut cases, mut modelled) = (Vec::new(), Vec::new());
    for proxies in proxies {
        for bytes in &sizes {
            for (name, scheme) in tried(*bytes) {
                cases.push(measure(setup, name, scheme, *bytes, proxies)?);
                progress.step();
                modelled.push(model(setup, name, scheme, *bytes, proxies, &costs)?);
                progress.step();
            }
        }
    }
    if let Some(case) = cases.iter().find(|case| case.count("wrong") > 0) {
        let wrong = format!("{}: {} objects had other bytes than they should", case.scheme, case.count("wrong"));
        return Err(LabError::failed("fetching objects", wrong));
    }
    let tables = vec![found(&cases), done(&cases), throughput(&modelled), claims::table(&All(&modelled))];
    let found = cases.chunk_by(|a, b| a.proxies == b.proxies).map(plot);
    let throughputs = modelled.chunk_by(|a, b| a.proxies == b.proxies).map(plot_throughput);
    let plots = found.chain(throughputs).collect();
    let Experiment { name, shows, paper, .. } = EXPERIMENT;
    Ok(Report { name, shows, paper, quick: setup.quick, seed: setup.seed, tables, plots, notes: notes(setup, &costs) })
}

/// What each node is to be.
fn parts(setup: &Setup, scheme: Scheme, bytes: u32, proxies: u64) -> Vec<Part> {
    let short = setup.choose(1, SHORT);
    let objects = u32::try_from(NODE_BYTES / u64::from(bytes) / short).unwrap_or(u32::MAX);
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
    let mut crew = Crew::start(EXPERIMENT.name, &parts(setup, scheme, bytes, proxies))?;
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
) -> Result<Modelled, LabError> {
    let mut model = Model::new(&parts(setup, scheme, bytes, proxies), setup.seed);
    model.run(setup.choose(WARM_UP.0, WARM_UP.1) * proxies, MISS_COSTS[0], costs);
    let requests = setup.choose(MODELLED.0, MODELLED.1);
    let by_cost = MISS_COSTS.iter().map(|cost| model.run(requests, *cost, costs)).collect();
    match model.wrong() {
        0 => Ok(Modelled { scheme: name, bytes, proxies, by_cost }),
        wrong => Err(LabError::failed("modelling a cluster", format!("{wrong} objects had other bytes"))),
    }
}

fn trace(bytes: u32) -> String {
    format!("{}k", bytes >> 10)
}

fn found(cases: &[Case]) -> Table {
    let columns = [
        "proxies",
        "trace",
        "scheme",
        "local %",
        "remote %",
        "misses %",
        "swaps %",
        "pushes %",
        "duplicates MB",
        "metadata reads %",
        "MB read from others",
        "messages a request",
    ];
    let mut table = Table::new("What was found where, and what it took: of each request, and in all", &columns);
    for case in cases {
        let messages: u64 = tinaja_cluster::message::KINDS.iter().map(|kind| case.count(kind)).sum();
        table.row([
            Cell::Count(case.proxies),
            trace(case.bytes).into(),
            case.scheme.into(),
            Cell::number(case.percent("local"), 1),
            Cell::number(case.percent("remote"), 1),
            Cell::number(case.percent("misses"), 2),
            Cell::number(case.percent("swapped"), 1),
            Cell::number(case.percent("pushes"), 2),
            // With AC nobody knows of any.
            if case.scheme == "AC" {
                Cell::Nothing
            } else {
                Cell::number(case.count("duplicate bytes") as f64 / 1e6, 1)
            },
            Cell::number(case.percent("metadata reads"), 1),
            Cell::number(case.count("read bytes") as f64 / 1e6, 0),
            Cell::number(messages as f64 / case.requests() as f64, 2),
        ]);
    }
    table
}

fn done(cases: &[Case]) -> Table {
    let columns = [
        "proxies",
        "trace",
        "scheme",
        "proxies' CPU us a request",
        "passive nodes' CPU us a request",
        "requests/s",
        "rejected reads",
        "refused",
        "not kept",
        "too late",
        "wrong bytes",
        "CPU % of all, idle",
    ];
    let mut table = Table::new("What it cost on this machine, and what went wrong", &columns);
    for case in cases {
        let each = |time: Duration| Cell::number(time.as_secs_f64() * 1e6 / case.requests() as f64, 1);
        table.row([
            Cell::Count(case.proxies),
            trace(case.bytes).into(),
            case.scheme.into(),
            each(case.ran.proxies),
            each(case.ran.passive),
            Cell::number(case.requests() as f64 / case.ran.took.as_secs_f64(), 0),
            Cell::Count(case.count("rejected")),
            Cell::Count(case.count("refused")),
            Cell::Count(case.count("not kept")),
            Cell::Count(case.count("too late")),
            Cell::Count(case.count("wrong")),
            Cell::number(100.0 * case.idle, 1),
        ]);
    }
    table
}

fn plot(cases: &[Case]) -> Plot {
    let proxies = cases.first().map_or(0, |case| case.proxies);
    let (names, sizes) = names_and_sizes(cases.iter().map(|case| (case.scheme, case.bytes)));
    let of = |name: &str, bytes: u32| {
        let case = cases.iter().find(|case| case.scheme == name && case.bytes == bytes);
        case.map_or(0.0, |case| 100.0 - case.percent("misses"))
    };
    let series = names.iter().map(|name| Series::bars(*name, sizes.iter().map(|bytes| of(name, *bytes)))).collect();
    Plot::Bars {
        title: format!("Found in the cluster, {proxies} proxies and {PASSIVE} passive nodes"),
        y: "% of requests".to_owned(),
        groups: sizes.iter().map(|bytes| trace(*bytes)).collect(),
        series,
    }
}

fn throughput(modelled: &[Modelled]) -> Table {
    let by_cost = |what: &str| MISS_COSTS.map(|cost| format!("{what}, a miss costs {cost}"));
    let (per_second, found) = (by_cost("requests/s"), "found %".to_owned());
    let mut columns: Vec<&str> = vec!["proxies", "trace", "scheme"];
    columns.extend(per_second.iter().map(String::as_str));
    let own = ["CPU us a request, proxies", "of it nodes, reads and messages"];
    columns.push(&found);
    columns.extend(own);
    let mut table = Table::new("Modelled: each node a machine with one processor", &columns);
    for one in modelled {
        let last = one.by_cost.last();
        let cells = [Cell::Count(one.proxies), trace(one.bytes).into(), one.scheme.into()];
        let rates = one.by_cost.iter().map(|at| Cell::number(at.per_second, 0));
        let rest = [
            Cell::maybe(last.map(|at| at.found_percent), 1),
            Cell::maybe(last.map(|at| at.cpu_us), 1),
            Cell::maybe(last.map(|at| at.own_us), 2),
        ];
        table.row(cells.into_iter().chain(rates).chain(rest));
    }
    table
}

/// Figures 5 and 6, with misses that cost the most.
fn plot_throughput(modelled: &[Modelled]) -> Plot {
    let proxies = modelled.first().map_or(0, |one| one.proxies);
    let (names, sizes) = names_and_sizes(modelled.iter().map(|one| (one.scheme, one.bytes)));
    let of = |name: &str, bytes: u32| {
        let one = modelled.iter().find(|one| one.scheme == name && one.bytes == bytes);
        one.and_then(|one| one.by_cost.last()).map_or(0.0, |at| at.per_second)
    };
    let series = names.iter().map(|name| Series::bars(*name, sizes.iter().map(|bytes| of(name, *bytes)))).collect();
    let cost = MISS_COSTS.last().copied().unwrap_or_default();
    Plot::Bars {
        title: format!("Modelled: {proxies} proxies, a miss costs {cost} answers"),
        y: "requests/s".to_owned(),
        groups: sizes.iter().map(|bytes| trace(*bytes)).collect(),
        series,
    }
}

/// Schemes and sizes, each once, in their order.
fn names_and_sizes(all: impl Iterator<Item = (&'static str, u32)>) -> (Vec<&'static str>, Vec<u32>) {
    let (mut names, mut sizes) = (Vec::new(), Vec::new());
    for (name, bytes) in all {
        if !names.contains(&name) {
            names.push(name);
        }
        if !sizes.contains(&bytes) {
            sizes.push(bytes);
        }
    }
    (names, sizes)
}

fn notes(setup: &Setup, costs: &Costs) -> Vec<String> {
    vec![
        format!(
            "{WORKING_SET} objects, all as likely, {} requests of each proxy to warm up and then {} of all that are counted, in nodes of {} MB of payload each; {HEADER} bytes of header a slot and {BUFFERS} slots for what is on its way lie beside. \
             Each node is a process; {}. What was fetched is compared with what it should be, byte by byte.{}",
            setup.choose(WARM_UP.0, WARM_UP.1),
            setup.choose(MEASURED.0, MEASURED.1),
            NODE_BYTES >> 20,
            match crate::peers::needs_root() {
                Ok(()) => "each is in a network namespace of its own without a network, so that UCX's shared memory alone connects them",
                Err(_) => "without root they share the machine's network, and UCX reads by shared memory",
            },
            if setup.quick { format!(" In short: of objects and memory one of {SHORT}.") } else { String::new() },
            HEADER = tinaja_cluster::slots::HEADER_BYTES,
            BUFFERS = tinaja_cluster::limits::BUFFER_SLOTS,
        ),
        "There is no HTTP in this: a request is a fetch by a node, and a miss stores the object half a millisecond later. Ten processes share this machine's processors, so that \
         requests a second say nothing of ten machines; counts do."
            .to_owned(),
        format!(
            "The model runs the same nodes in virtual time, with one processor each, and 16 clients a proxy that ask again at once. A node's own code takes what it takes while it \
             runs; an answer by HTTP {:.1} us at 8 KiB and {:.1} at 64, a read {:.2} and {:.2}, a message {:.1} to send and {:.1} to receive (ten come before the receiver sleeps), as measured before on this machine; it is there after 5 us. A miss takes \
             1.5, 3 or 6 answers of its proxy's processor. Reads are those of shared memory, which cost less than InfiniBand's did. As processor time is measured while it runs, no two runs give quite the \
             same figures.",
            costs.serve_us(8 << 10),
            costs.serve_us(64 << 10),
            costs.read_us(8 << 10),
            costs.read_us(64 << 10),
            costs.send_us,
            costs.receive_us
        ),
        "A scheme is worth what its hits save and its bookkeeping costs. Where a miss costs little more than a hit, hardly anything is saved. The paper says neither what a miss \
         cost there nor which objects HYBCC takes for small; 8 KiB and less are small here."
            .to_owned(),
    ]
}
