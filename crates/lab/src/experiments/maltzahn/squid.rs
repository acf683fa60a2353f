//! Section 2.4.1's formula in the wild: the real Squid, which names files by it, beside `squid2`, on the same requests, disk and memory.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tinaja_store::engines;

use super::ground::UNLIMITED;
use super::layouts::LIMIT_EVERY;
use super::load::{self, Load, REQUESTS};
use crate::error::LabError;
use crate::experiment::{Experiment, Needs, Setup};
use crate::load::Request;
use crate::peers::{
    Bench, BenchOptions, Clients, DiskCount, FileSystem, Origin, Peer, Server, Share, SquidStore, allow_open_files,
    needs_root,
};
use crate::progress::Progress;
use crate::report::{Cell, Plot, Report, Series, Table};
use crate::resume::Rows;

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "maltzahn-squid",
    shows: "the real Squid beside squid2: transactions of a disk, on the same requests and memory",
    paper: "Maltzahn, sections 2.3.2 and 2.4.1",
    replays_logs: true,
    takes_requests: true,
    resumes: true,
    needs: Needs::Root,
    run,
};

/// Of a quick run: Squid answers some thousand a second.
const FEW_REQUESTS: usize = 6000;
/// Said before the first run: in what range Squid's transactions are, as a multiple of squid2's.
const BAND: (f64, f64) = (0.7, 1.5);
/// Of memory for hot objects, each.
const HOT_BYTES: u64 = 8 << 20;
/// Views at once in the generated load.
const AT_ONCE: usize = 64;

const OURS: Peer = Peer::Tinaja { engine: engines::SQUID2, prefetch: false, is_new: false };
const THEIRS: [Peer; 2] = [Peer::Squid(SquidStore::Ufs), Peer::Squid(SquidStore::Aufs)];

/// What was counted of one.
#[derive(Serialize, Deserialize)]
struct Measured {
    requests: u64,
    hits: u64,
    disk: DiskCount,
    files: Files,
    page_cache_bytes: u64,
    took: Duration,
}

/// What lies in a cache's directory.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct Files {
    count: u64,
    bytes: u64,
    /// Of files at the top: lists of the others.
    list_bytes: u64,
}

impl Measured {
    fn transactions(&self) -> u64 {
        self.disk.reads + self.disk.writes
    }
}

fn run(setup: &Setup) -> Result<Report, LabError> {
    needs_root()?;
    allow_open_files()?;
    let rows = Rows::of(EXPERIMENT.name, setup.resume.as_deref())?;
    let (mut tables, mut plots) = (Vec::new(), Vec::new());
    let (theirs, absent): (Vec<Peer>, Vec<Peer>) = THEIRS.into_iter().partition(|peer| peer.program().is_some());
    let left_out: Vec<_> = absent.iter().map(|peer| format!("{}: it is not installed", peer.name())).collect();
    let count = setup.count(REQUESTS, FEW_REQUESTS);
    let mut loads = vec![Load::generated(setup, AT_ONCE, count)];
    for (number, path) in (1..).zip(&setup.traces) {
        loads.push(Load::of_log(number, path, setup.choose(usize::MAX, count))?);
    }
    tables.push(load::table(&loads));
    for load in &loads {
        let mut measured = Vec::new();
        for peer in [OURS].into_iter().chain(theirs.iter().copied()) {
            let of = format!("{}: {} {}", load.identity(setup.seed), peer.name(), peer.version());
            measured.push((peer, rows.row(&of, || measure(setup, load, peer))?));
        }
        tables.push(table(load, &measured));
        plots.push(plot(load, &measured));
    }
    let mut versions = Table::new("Versions", &["proxy", "version"]);
    for peer in [OURS].into_iter().chain(theirs.first().copied()) {
        versions.row([peer.name().into(), peer.version().into()]);
    }
    tables.push(versions);
    let notes = notes(&left_out).into_iter().chain(loads.into_iter().filter_map(|load| load.note)).collect();
    let Experiment { name, shows, paper, .. } = EXPERIMENT;
    Ok(Report { name, shows, paper, quick: setup.quick, seed: setup.seed, tables, plots, notes })
}

fn measure(setup: &Setup, load: &Load, peer: Peer) -> Result<Measured, LabError> {
    let disk_bytes = (load.bytes + load.objects * 8192 + (256 << 20)).next_multiple_of(1 << 20);
    let memory_bytes = load.memory_bytes();
    let bench = Bench::make(&BenchOptions {
        scratch: setup.scratch.clone(),
        disk_bytes,
        memory_bytes: UNLIMITED,
        files: FileSystem::Ext4,
    })?;
    // Inodes and a journal take the rest.
    let share = Share { disk_bytes: disk_bytes / 8 * 7 - (64 << 20), hot_bytes: HOT_BYTES };
    let origin = Origin::begin()?;
    let mut server = Server::start(peer, &bench, &share)?;
    let clients = Clients::new(1, server.address(), origin.address());
    let (first, second) = load.requests.split_at(load.measured_from());
    let mut progress = Progress::of(format!("{}: {}", load.title, peer.name()), load.requests.len());
    let mut replay = |requests: &[Request]| {
        let mut hits = 0;
        for (number, request) in requests.iter().enumerate() {
            progress.step();
            if number.is_multiple_of(LIMIT_EVERY) {
                bench.leave_for_files(memory_bytes)?;
            }
            // One client, and each object as large and as cachable as any.
            let asked = Request { client: 0, referer: None, bytes: request.bytes.max(1), ..*request };
            let answer = clients.ask(&asked).map_err(|why| LabError::failed("asking a proxy", why))?;
            hits += u64::from(answer.is_hit);
        }
        bench.sync().map(|()| hits)
    };
    replay(first)?;
    let (before, began) = (bench.disk(), Instant::now());
    let hits = replay(second)?;
    let (disk, took) = (bench.disk() - before, began.elapsed());
    server.still_runs()?;
    let page_cache_bytes = bench.page_cache_bytes();
    let mut files = Files::default();
    look(&bench.mounted().join("cache"), true, &mut files)
        .map_err(|why| LabError::failed("looking through a proxy's directory", why))?;
    Ok(Measured { requests: second.len() as u64, hits, disk, files, page_cache_bytes, took })
}

fn look(dir: &Path, is_top: bool, files: &mut Files) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let kind = entry.metadata()?;
        if kind.is_dir() {
            look(&entry.path(), false, files)?;
        } else if is_top {
            files.list_bytes += kind.len();
        } else {
            (files.count, files.bytes) = (files.count + 1, files.bytes + kind.len());
        }
    }
    Ok(())
}

fn table(load: &Load, measured: &[(Peer, Measured)]) -> Table {
    let columns = [
        "proxy",
        "hits %",
        "reads",
        "writes",
        "of squid2's, times",
        "said before",
        "KB a transaction",
        "files",
        "bytes a file beside the body",
        "MB of lists",
        "MiB of files in memory",
        "seconds",
    ];
    let mut table = Table::new(format!("{}: transactions of the second half", load.title), &columns);
    let ours = measured.first().map(|(_, ours)| ours.transactions()).unwrap_or_default();
    for (peer, run) in measured {
        let is_ours = *peer == OURS;
        let bytes = (run.disk.read_bytes + run.disk.write_bytes) as f64;
        let beside = run.files.bytes as f64 - load.bytes as f64;
        table.row([
            peer.name().into(),
            Cell::percent(run.hits as f64 / run.requests.max(1) as f64),
            Cell::Count(run.disk.reads),
            Cell::Count(run.disk.writes),
            Cell::number(run.transactions() as f64 / ours as f64, 2),
            if is_ours { Cell::Nothing } else { format!("{} to {}", BAND.0, BAND.1).into() },
            Cell::number(bytes / 1000.0 / run.transactions() as f64, 1),
            Cell::Count(run.files.count),
            Cell::number(beside / run.files.count as f64, 0),
            Cell::number(run.files.list_bytes as f64 / 1e6, 1),
            Cell::number(run.page_cache_bytes as f64 / f64::from(1 << 20), 0),
            Cell::number(run.took.as_secs_f64(), 1),
        ]);
    }
    table
}

fn plot(load: &Load, measured: &[(Peer, Measured)]) -> Plot {
    let bars = |name: &str, count: fn(&DiskCount) -> u64| {
        Series::bars(name, measured.iter().map(|(_, run)| count(&run.disk) as f64 / 1000.0).collect::<Vec<_>>())
    };
    Plot::Bars {
        title: format!("Transactions of a disk, {}", load.title),
        y: "thousands".to_owned(),
        groups: measured.iter().map(|(peer, _)| peer.name()).collect(),
        series: vec![bars("reads", |disk| disk.reads), bars("writes", |disk| disk.writes)],
    }
}

fn notes(left_out: &[String]) -> Vec<String> {
    let mut notes = [
        "Both are proxies in front of the same origin, asked by one client, one request after the other, over ext4 on a loop device of their \
         own and in a control group that leaves files a sixteenth of the data, and 32 MB at least, beside what the programs have of their own: \
         in it are the pages of files as well as what the kernel keeps of them, inodes, names and directories. Nothing is evicted. \
         Transactions are counted until the second half is synced.",
        "Squid has 16 x 256 directories, 256 files in each before the next one, as `squid2` by default. What Squid does more than the formula says: \
         `swap.state`, a list to which each object that comes or goes adds 72 bytes; the answer's whole head and Squid's own record before \
         each body; a memory for hot objects of 8 MB, which `squid2` has here as well. Its `ufs` reads and writes in the process that serves, \
         `aufs` in threads.",
    ]
    .map(str::to_owned)
    .to_vec();
    if !left_out.is_empty() {
        notes.push(format!("Left out: {}.", left_out.join("; ")));
    }
    notes
}
