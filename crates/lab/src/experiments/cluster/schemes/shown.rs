//! What came out, as tables and pictures.

use std::time::Duration;

use super::claims::{MISS_COSTS, Modelled};
use super::spent::{On, Throughput};
use super::{Case, PASSIVE};
use crate::report::{Cell, Plot, Series, Table};

pub fn trace(bytes: u32) -> String {
    format!("{}k", bytes >> 10)
}

pub fn found(cases: &[Case]) -> Table {
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
            Cell::number(case.messages(), 2),
        ]);
    }
    table
}

pub fn done(cases: &[Case]) -> Table {
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

pub fn plot(cases: &[Case]) -> Plot {
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

pub fn throughput(modelled: &[Modelled]) -> Table {
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
            Cell::maybe(last.map(Throughput::cpu_us), 1),
            Cell::maybe(last.map(Throughput::own_us), 2),
        ];
        table.row(cells.into_iter().chain(rates).chain(rest));
    }
    table
}

/// What each request costs the proxies' processors, where misses cost the most, and what for.
pub fn paid(modelled: &[Modelled]) -> Table {
    let columns = [
        "proxies",
        "trace",
        "scheme",
        "answers",
        "misses",
        "own requests",
        "what others send",
        "tables",
        "of the last three messages",
        "of them reads",
        "swaps %",
        "processors busy %",
    ];
    let cost = MISS_COSTS.last().copied().unwrap_or_default();
    let mut table = Table::new(
        format!("Modelled: what a request costs the proxies' processors, in us; a miss costs {cost} answers"),
        &columns,
    );
    for one in modelled {
        let last = one.by_cost.last();
        let on = On::ALL.map(|on| Cell::maybe(last.map(|at| at.on(on)), 1));
        let rest = [
            Cell::maybe(last.map(|at| at.messages_us), 1),
            Cell::maybe(last.map(|at| at.reads_us), 1),
            Cell::maybe(last.map(|at| at.swapped_percent), 1),
            Cell::maybe(last.map(|at| at.busy_percent), 1),
        ];
        let names = [Cell::Count(one.proxies), trace(one.bytes).into(), one.scheme.into()];
        table.row(names.into_iter().chain(on).chain(rest));
    }
    table
}

/// Figures 5 and 6, with misses that cost the most.
pub fn plot_throughput(modelled: &[Modelled]) -> Plot {
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
