//! Figures 1, 2 and 5, and what sections 2.4.1 and 5 say of directories and pages: what there is for a layout to preserve. No disk:
//! the engines' own naming and packing place objects, and what a trace asks for is looked up there.

use std::collections::{HashMap, HashSet};

use tinaja_store::device::mapped::{Packer, Packing, Segment};
use tinaja_store::engine::trees::naming::{FileSpot, Home, Naming, Numbers, Scheme};

use super::load::{Load, REQUESTS, USUAL_ALPHA};
use crate::error::LabError;
use crate::experiment::{Experiment, Needs, Setup};
use crate::load::Request;
use crate::paper::maltzahn as paper;
use crate::random::mix;
use crate::report::{Cell, Plot, Report, Series, Table};

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "maltzahn-locality",
    shows: "sizes, locality of hosts, directories, and where in a mapped file hits are",
    paper: "Maltzahn, Figures 1, 2 and 5, sections 2.4 and 5",
    replays_logs: true,
    takes_requests: true,
    resumes: false,
    needs: Needs::Nothing,
    run,
};

/// Views at once, from the strongest locality of hosts to none.
const AT_ONCE: [usize; 5] = [1, 8, 64, 512, 4096];
/// The one that tables of a single load show.
const USUAL_AT_ONCE: usize = 64;
/// Of a quick run.
const FEW_REQUESTS: usize = 60_000;
/// How steep popularity is: what logs of proxies showed (Breslau and others, INFOCOM 1999), and between.
const ALPHAS: [f64; 3] = [0.64, USUAL_ALPHA, 0.83];
/// Of the objects asked for most, so many show how steep it is.
const RANKS: usize = 10_000;
/// How many hosts back a host was asked for.
const BACK: [usize; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
/// Sizes of Figure 1.
const SIZES: [u64; 10] = [512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536, 262_144, 1 << 20];

fn run(setup: &Setup) -> Result<Report, LabError> {
    let count = setup.count(REQUESTS, FEW_REQUESTS);
    let generated: Vec<_> = AT_ONCE.into_iter().map(|at_once| Load::generated(setup, at_once, count)).collect();
    let mut loads = Vec::new();
    for (number, path) in (1..).zip(&setup.traces) {
        loads.push(Load::of_log(number, path, setup.choose(usize::MAX, FEW_REQUESTS))?);
    }
    let usual = generated.iter().position(|load| load.title.contains(&format!(" {USUAL_AT_ONCE} views"))).unwrap_or(0);
    let shown: Vec<&Load> = generated.get(usual).into_iter().chain(&loads).collect();
    let with_hosts: Vec<&Load> = generated.iter().chain(loads.iter().filter(|load| load.knows_hosts)).collect();
    let (hosts, hosts_plot) = host_locality(&with_hosts);
    let (mapped, mapped_plot) = mapped_file(&generated.iter().chain(&loads).collect::<Vec<_>>());
    let by_alpha: Vec<_> =
        ALPHAS.into_iter().map(|alpha| (alpha, Load::with_popularity(setup, USUAL_AT_ONCE, count, alpha))).collect();
    let tables =
        vec![of_loads(&shown), sizes(&shown), hosts, directories(&with_hosts), mapped, popularity(&by_alpha, &loads)];
    let notes = notes().into_iter().chain(loads.iter().filter_map(|load| load.note.clone())).collect();
    let Experiment { name, shows, paper, .. } = EXPERIMENT;
    let plots = vec![sizes_plot(&shown), hosts_plot, mapped_plot];
    Ok(Report { name, shows, paper, quick: setup.quick, seed: setup.seed, tables, plots, notes })
}

fn of_loads(loads: &[&Load]) -> Table {
    let columns =
        ["load", "requests", "objects", "GB of objects", "GB of 8 KiB and less", "hits without end %", "paper"];
    let mut table = Table::new("The loads; hits are those of the second half", &columns);
    for load in loads {
        table.row([
            load.title.as_str().into(),
            Cell::Count(load.requests.len() as u64),
            Cell::Count(load.objects),
            Cell::number(load.bytes as f64 / 1e9, 2),
            Cell::number(load.small_bytes as f64 / 1e9, 2),
            Cell::percent(hits_without_end(load)),
            Cell::number(paper::INFINITE_PERCENT, 0),
        ]);
    }
    table
}

/// Figure 1.
fn sizes(loads: &[&Load]) -> Table {
    let titles: Vec<_> = loads.iter().map(|load| load.title.as_str()).collect();
    let columns = [&["bytes at most"], &titles[..], &["Figure 1"]].concat();
    let mut table = Table::new("Requests for objects of a size, in percent (Figure 1)", &columns);
    for size in SIZES {
        let share = |load: &&Load| {
            let small = load.requests.iter().filter(|request| request.bytes <= size).count();
            Cell::percent(small as f64 / load.requests.len().max(1) as f64)
        };
        let paper = if size == 8192 { Cell::number(paper::SMALL_PERCENT, 0) } else { Cell::Nothing };
        table.row([Cell::Count(size)].into_iter().chain(loads.iter().map(share)).chain([paper]));
    }
    table
}

fn sizes_plot(loads: &[&Load]) -> Plot {
    let curve = |load: &&Load| {
        let points = SIZES.into_iter().map(|size| {
            let small = load.requests.iter().filter(|request| request.bytes <= size).count();
            ((size as f64 / 1024.0).log2(), 100.0 * small as f64 / load.requests.len().max(1) as f64)
        });
        Series::new(load.title.clone(), points)
    };
    Plot::Lines {
        title: "Sizes of what is asked for (Figure 1)".to_owned(),
        x: "KiB at most, as a power of two".to_owned(),
        y: "requests, %".to_owned(),
        series: loads.iter().map(curve).collect(),
    }
}

/// How steep popularity is: as it was asked for, and as the requests are, by a straight line through the logarithms of ranks and counts.
fn popularity(generated: &[(f64, Load)], logs: &[Load]) -> Table {
    let columns = ["load", "alpha of its pages", "alpha of the 10,000 objects asked for most", "hits without end %"];
    let mut table = Table::new("Popularity; hits are those of the second half", &columns);
    let all = generated.iter().map(|(alpha, load)| (Some(*alpha), load)).chain(logs.iter().map(|load| (None, load)));
    for (alpha, load) in all {
        let mut counts: HashMap<u64, u64> = HashMap::new();
        load.requests.iter().for_each(|request| *counts.entry(request.object).or_default() += 1);
        let mut counts: Vec<u64> = counts.into_values().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts.truncate(RANKS);
        table.row([
            load.title.as_str().into(),
            Cell::maybe(alpha, 2),
            Cell::maybe(steepness(&counts), 2),
            Cell::percent(hits_without_end(load)),
        ]);
    }
    table
}

/// The exponent of counts in falling order, if there are enough of them.
fn steepness(counts: &[u64]) -> Option<f64> {
    let points: Vec<(f64, f64)> =
        (1..).zip(counts).map(|(rank, count)| (f64::from(rank).ln(), (*count as f64).ln())).collect();
    let n = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / n, y + point.1 / n));
    let (above, below) = points.iter().fold((0.0, 0.0), |(above, below), point| {
        (above + (point.0 - x) * (point.1 - y), below + (point.0 - x).powi(2))
    });
    (points.len() > 10).then(|| -above / below)
}

fn hits_without_end(load: &Load) -> f64 {
    let (mut seen, mut hits) = (HashSet::new(), 0_u64);
    for (number, request) in load.requests.iter().enumerate() {
        hits += u64::from(!seen.insert(request.object) && number >= load.measured_from());
    }
    hits as f64 / (load.requests.len() - load.measured_from()).max(1) as f64
}

/// Figure 2: how many other hosts were asked for since a host was, by the stack of hosts in the order of their last requests.
fn host_locality(loads: &[&Load]) -> (Table, Plot) {
    let titles: Vec<_> = loads.iter().map(|load| load.title.as_str()).collect();
    let columns = [&["of the last hosts"], &titles[..]].concat();
    let mut table = Table::new("Requests for one of the hosts asked for last, in percent (Figure 2)", &columns);
    let shares: Vec<Vec<f64>> = loads.iter().map(|load| shares_of_hosts(&load.requests)).collect();
    for (at, back) in BACK.into_iter().enumerate() {
        let cells = shares.iter().map(|shares| Cell::maybe(shares.get(at).map(|share| share * 100.0), 1));
        table.row([Cell::Count(back as u64)].into_iter().chain(cells));
    }
    let curve = |(load, shares): (&&Load, &Vec<f64>)| {
        let points = BACK.into_iter().zip(shares).map(|(back, share)| ((back as f64).log2(), share * 100.0));
        Series::new(load.title.clone(), points)
    };
    let plot = Plot::Lines {
        title: "Locality of hosts (Figure 2)".to_owned(),
        x: "of the last hosts, as a power of two".to_owned(),
        y: "requests, %".to_owned(),
        series: loads.iter().zip(&shares).map(curve).collect(),
    };
    (table, plot)
}

fn shares_of_hosts(requests: &[Request]) -> Vec<f64> {
    let warm = paper::WARM_UP_REQUESTS.min(requests.len() / 5);
    let (mut stack, mut counts) = (Vec::<u64>::new(), vec![0_u64; BACK.len()]);
    for (number, request) in requests.iter().enumerate() {
        let most = BACK.last().copied().unwrap_or_default();
        let at = stack.iter().rev().take(most).position(|host| *host == request.host);
        if let Some(at) = at {
            stack.remove(stack.len() - 1 - at);
            if number >= warm {
                counts.iter_mut().zip(BACK).filter(|(_, back)| at < *back).for_each(|(count, _)| *count += 1);
            }
        }
        stack.push(request.host);
        if stack.len() > 2 * most {
            stack.drain(..most);
        }
    }
    let measured = requests.len().saturating_sub(warm).max(1) as f64;
    counts.into_iter().map(|count| count as f64 / measured).collect()
}

/// Section 2.4.1: what directories come to hold, and how often the next request is in the directory of the one before.
fn directories(loads: &[&Load]) -> Table {
    let columns = [
        "load",
        "layout",
        "directories",
        "largest",
        "with more than 1000 files",
        "paper",
        "next request in the same directory %",
    ];
    let mut table = Table::new("Directories, 16 x 256 of them, no end of space", &columns);
    let (first, second) = paper::DIRECTORIES;
    let naming = |scheme, overlapping| Naming { scheme, first, second, files: 256, overlapping };
    let layouts = [
        ("squid", naming(Scheme::Squid, false)),
        ("squid2, k = 256", naming(Scheme::Squid2, false)),
        ("squidl, masks apart", naming(Scheme::SquidL, false)),
        ("squidl, overlapping masks", naming(Scheme::SquidL, true)),
        ("squidl-k, k = 256", naming(Scheme::SquidLK, false)),
    ];
    for load in loads {
        for (name, naming) in layouts {
            let (counts, same) = in_directories(&load.requests, naming);
            let many = counts.values().filter(|count| **count > paper::MANY_FILES).count();
            let largest = counts.values().max().copied().unwrap_or_default();
            let said =
                if matches!(naming.scheme, Scheme::SquidL) { paper::LARGE_DIRECTORIES.into() } else { Cell::Nothing };
            table.row([
                load.title.as_str().into(),
                name.into(),
                Cell::Count(counts.len() as u64),
                Cell::Count(largest),
                Cell::Count(many as u64),
                said,
                Cell::percent(same),
            ]);
        }
    }
    table
}

fn in_directories(requests: &[Request], naming: Naming) -> (HashMap<u32, u64>, f64) {
    let (mut numbers, mut files) = (Numbers::new(naming), HashMap::<u64, FileSpot>::new());
    let (mut counts, mut same, mut before) = (HashMap::new(), 0_u64, None);
    for request in requests {
        let spot = match files.get(&request.object) {
            Some(spot) => *spot,
            None => {
                let host = Home::Host(mix(request.host));
                let Some(spot) = numbers.take(&host) else { continue };
                files.insert(request.object, spot);
                *counts.entry(spot.directory).or_insert(0) += 1;
                spot
            }
        };
        same += u64::from(before == Some(spot.directory));
        before = Some(spot.directory);
    }
    (counts, same as f64 / requests.len().max(1) as f64)
}

/// Figure 5, and section 5's objects across the ends of pages.
fn mapped_file(loads: &[&Load]) -> (Table, Plot) {
    let columns = [
        "load",
        "packing",
        "page",
        "MiB",
        "objects across an end %",
        "paper",
        "hits across an end %",
        "paper",
        "hits in the first quarter %",
        "paper",
    ];
    let mut table = Table::new("The mapped file without end: hits are those of the second half", &columns);
    let mut curves = Vec::new();
    for load in loads {
        for (name, packing) in [("in order", Packing::InOrder), ("within pages", Packing::WithinPages)] {
            for page in [8192, 4096] {
                let placed = place(load, packing, page);
                let objects = placed.segments.len().max(1) as f64;
                let across = placed.segments.values().filter(|segment| crosses(**segment, page)).count() as f64;
                let hits = placed.hits.len().max(1) as f64;
                let hits_across = placed.hits.iter().filter(|segment| crosses(**segment, page)).count() as f64;
                let said = |percent| match (packing, page) {
                    (Packing::InOrder, 8192) => Cell::number(percent, 0),
                    (Packing::WithinPages, _) => Cell::number(0.0, 0),
                    _ => Cell::Nothing,
                };
                table.row([
                    load.title.as_str().into(),
                    name.into(),
                    Cell::Count(page),
                    Cell::number(placed.end as f64 / f64::from(1 << 20), 0),
                    Cell::percent(across / objects),
                    said(paper::CROSSING_PERCENT.0),
                    Cell::percent(hits_across / hits),
                    said(paper::CROSSING_PERCENT.1),
                    Cell::percent(placed.before(0.25)),
                    Cell::number(paper::FIRST_QUARTER_PERCENT, 0),
                ]);
                if packing == Packing::InOrder && page == 8192 {
                    let points = (0..=20).map(|step| f64::from(step) / 20.0);
                    let points = points.map(|part| (part * 100.0, placed.before(part) * 100.0));
                    curves.push(Series::new(load.title.clone(), points.collect::<Vec<_>>()));
                }
            }
        }
    }
    let plot = Plot::Lines {
        title: "Hits over the mapped file (Figure 5)".to_owned(),
        x: "of the file, %".to_owned(),
        y: "hits before, %".to_owned(),
        series: curves,
    };
    (table, plot)
}

struct Placed {
    segments: HashMap<u64, Segment>,
    /// Where each hit of the second half was.
    hits: Vec<Segment>,
    /// Where the file ends when all is placed.
    end: u64,
}

impl Placed {
    /// The share of the hits in the first part of the file.
    fn before(&self, part: f64) -> f64 {
        let end = (self.end as f64 * part) as u64;
        self.hits.iter().filter(|segment| segment.offset() < end).count() as f64 / self.hits.len().max(1) as f64
    }
}

fn place(load: &Load, packing: Packing, page: u64) -> Placed {
    let class = |bytes: u64| (0..5_usize).find(|class| bytes <= 512 << class && 512 << class <= page);
    let mut packer = Packer::new(packing, page.ilog2() as usize - 9, 0, 512 << 32);
    let mut placed = Placed { segments: HashMap::new(), hits: Vec::new(), end: 0 };
    for (number, request) in load.requests.iter().enumerate() {
        let Some(class) = class(request.bytes) else { continue };
        match placed.segments.get(&request.object) {
            Some(segment) if number >= load.measured_from() => placed.hits.push(*segment),
            Some(_) => {}
            None => {
                let Some(segment) = packer.place(class) else { continue };
                placed.end = placed.end.max(segment.offset() + segment.bytes());
                placed.segments.insert(request.object, segment);
            }
        }
    }
    placed
}

fn crosses(segment: Segment, page: u64) -> bool {
    segment.offset() / page != (segment.offset() + segment.bytes() - 1) / page
}

fn notes() -> Vec<String> {
    [
        "The paper's traces are lost. The generated load has pages of 20,000 hosts, viewed by Zipf's law with an exponent of \
         0.75, each with what it embeds asked for after it, and sizes as in Table 5 of the HashCache paper. How many views go on at \
         once decides how much locality of hosts there is; the paper's proxies served a company of thousands.",
        "The paper's alpha, 0.64 to 0.83, is that of objects. The generator is told that of pages and of hosts; what a page embeds is asked for \
         as often as the page, and what all pages of a host embed as often as the host. So the objects' own alpha, which the requests \
         have, comes out by itself, and the table has it beside.",
        "Figure 2 names no axis in the text that is left of it. Ours is the stack of hosts in the order of their last requests, \
         without the first 100,000 requests, as the paper leaves them out.",
        "SQUIDL's formula takes both masks of one hash. Where they overlap there are 256 directories and not 4096, and most of them have \
         more than 1000 files. The paper's `about 30` is nearer to masks that take bits of their own, so those are the default.",
        "Objects in the mapped file here are as large as the log says, as in the paper. The engines keep some 120 bytes with each, its \
         name and its head.",
        "Segments of 8 KiB and pages of 4 KiB: no object of more than a page goes into the file then, so with `within pages` none \
         crosses its end, and the file is smaller by those objects.",
        "How many objects cross the end of a page follows from the sizes alone: one of s bytes that begins anywhere at a multiple of \
         512 crosses it with (s/512 - 1) in 16.",
    ]
    .map(str::to_owned)
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::super::load::request;
    use super::*;

    #[test]
    fn the_exponent_of_counts_is_found() {
        let counts: Vec<u64> = (1..=1000_u32).map(|rank| (1e9 / f64::from(rank).powf(0.7)) as u64).collect();
        assert!((steepness(&counts).unwrap() - 0.7).abs() < 0.001);
        assert_eq!(steepness(&counts[..5]), None);
    }

    fn of_packing(report: &Report, load: &str, packing: &str, page: u64, column: &str) -> f64 {
        let table = &report.tables[4];
        let at = table.columns.iter().position(|name| name == column).unwrap();
        let is_it = |row: &&Vec<Cell>| {
            row[0].to_string() == load && row[1].to_string() == packing && row[2] == Cell::Count(page)
        };
        table.rows.iter().find(is_it).unwrap()[at].value().unwrap()
    }

    /// What section 5 says of alignment, and what Figure 5 shows, on a small load.
    #[test]
    fn aligned_objects_cross_no_page_and_early_ones_are_popular() {
        let report = run(&Setup::quick()).unwrap();
        let load = "generated, 64 views at once";
        for page in [8192, 4096] {
            assert_eq!(of_packing(&report, load, "within pages", page, "objects across an end %"), 0.0);
        }
        let across = of_packing(&report, load, "in order", 8192, "objects across an end %");
        assert!((10.0..50.0).contains(&across), "{across}");
        assert!(of_packing(&report, load, "in order", 8192, "hits in the first quarter %") > 40.0);
    }

    /// A stack by hand.
    #[test]
    fn hosts_are_counted_back_from_the_last() {
        let request = |host| Request { host, ..request(0, 1) };
        // 1 is new, 1 is the last, 2 is new, 1 is the one before the last, 3 is new.
        let shares = shares_of_hosts(&[1, 1, 2, 1, 3].map(request));
        assert_eq!(shares[..2], [0.25, 0.5], "the first of five warms up");
    }

    /// 2.4.1: a directory a host, or all of them alike.
    #[test]
    fn directories_hold_what_their_layout_says() {
        let load = Load::generated(&Setup::quick(), 1, 60_000);
        let (first, second) = paper::DIRECTORIES;
        let naming = |scheme| Naming { scheme, first, second, files: 256, overlapping: false };
        let (by_number, apart) = in_directories(&load.requests, naming(Scheme::Squid));
        let (by_host, together) = in_directories(&load.requests, naming(Scheme::SquidL));
        assert_eq!(by_number.values().sum::<u64>(), by_host.values().sum::<u64>());
        let spread = by_number.values().max().unwrap() - by_number.values().min().unwrap();
        assert!(spread <= 1 && by_number.len() == 4096 && together > 0.5 && apart < 0.1);
    }
}
