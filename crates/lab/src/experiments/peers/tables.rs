//! What was measured, as tables and plots.

use tinaja_store::EngineName;

use super::runs::Ran;
use crate::paper::hashcache::{FIGURE_3_OTHERS, figure_3 as figure_3_of};
use crate::peers::{Peer, percentile};
use crate::report::{Cell, Plot, Series, Table};

/// What Figure 3 says of it. The paper's engines with a table prefetch; its commercial cache stands where Traffic Server does.
fn paper(peer: Peer) -> Option<f64> {
    match peer {
        Peer::Tinaja { engine: EngineName::HashCacheLog, prefetch: false, .. } | Peer::Tinaja { is_new: true, .. } => {
            None
        }
        Peer::Tinaja { engine, .. } => figure_3_of(engine),
        Peer::Squid => FIGURE_3_OTHERS.first().map(|(_, rate)| *rate),
        Peer::TrafficServer => FIGURE_3_OTHERS.get(1).map(|(_, rate)| *rate),
    }
}

fn megabytes(bytes: u64) -> Cell {
    Cell::number(bytes as f64 / 1e6, 1)
}

pub fn peak(ran: &[Ran]) -> Table {
    let columns = [
        "proxy",
        "requests/s",
        "Figure 3",
        "Mbit/s",
        "CHR %",
        "BHR %",
        "reads a request",
        "writes a request",
        "KB a read",
        "KB a write",
        "requests/s if reads and writes share 70",
        "failed",
    ];
    let mut table = Table::new("As fast as each can", &columns);
    for Ran { peer, peak, .. } in ran {
        let ((reads, writes), disk) = (peak.disk_requests(), peak.disk);
        let mean = |bytes: u64, count: u64| Cell::number(bytes as f64 / 1e3 / count as f64, 1);
        table.row([
            peer.name().into(),
            Cell::number(peak.tally.rate(), 0),
            Cell::maybe(paper(*peer), 0),
            Cell::number(peak.tally.bytes as f64 * 8e-6 / peak.tally.span.as_secs_f64(), 2),
            Cell::percent(peak.tally.hit_ratio()),
            Cell::percent(peak.tally.byte_hit_ratio()),
            Cell::number(reads, 2),
            Cell::number(writes, 2),
            mean(disk.read_bytes, disk.reads),
            mean(disk.write_bytes, disk.writes),
            Cell::number(peak.rate_of_one_arm(), 0),
            peak.tally.failed.into(),
        ]);
    }
    table
}

pub fn resources(ran: &[Ran]) -> Table {
    let columns = [
        "proxy",
        "user ms a request",
        "system ms a request",
        "user CPU %",
        "system CPU %",
        "peak MB",
        "empty MB",
        "filled MB",
        "index MB",
        "page cache MB",
        "reads/s",
        "writes/s",
        "disk busy %",
        "busy by the device %",
    ];
    let mut table = Table::new("What it took meanwhile (Figures 5, 7 and 9)", &columns);
    for Ran { peer, peak, empty_bytes, full_bytes, index_bytes, .. } in ran {
        let (requests, seconds) = (peak.tally.requests().max(1) as f64, peak.tally.span.as_secs_f64().max(1e-9));
        let ((reads, writes), taken) = (peak.disk_rates(), peak.processes);
        table.row([
            peer.name().into(),
            Cell::number(taken.user_s * 1e3 / requests, 2),
            Cell::number(taken.system_s * 1e3 / requests, 2),
            Cell::percent(taken.user_s / seconds),
            Cell::percent(taken.system_s / seconds),
            megabytes(taken.peak_bytes),
            megabytes(*empty_bytes),
            megabytes(*full_bytes),
            index_bytes.map_or(Cell::Nothing, |bytes| Cell::number(bytes as f64 / 1e6, 2)),
            megabytes(peak.page_cache_bytes),
            Cell::number(reads, 1),
            Cell::number(writes, 1),
            Cell::percent(peak.disk_busy()),
            Cell::percent(peak.disk.busy_ms as f64 / 1e3 / seconds),
        ]);
    }
    table
}

pub fn times(ran: &[Ran]) -> Table {
    let columns = [
        "proxy",
        "asked/s",
        "answered/s",
        "hit p50 ms",
        "hit p95 ms",
        "hit p99 ms",
        "miss p50 ms",
        "miss p95 ms",
        "all p50 ms",
        "all p95 ms",
        "all p99 ms",
        "CHR %",
        "disk busy %",
    ];
    let mut table = Table::new("Times at four fifths of that rate", &columns);
    for Ran { peer, rate, timed, .. } in ran {
        let (hits, misses) = (&timed.tally.hit_times, &timed.tally.miss_times);
        let all = || hits.iter().chain(misses);
        let times = [
            percentile(hits, 50.0),
            percentile(hits, 95.0),
            percentile(hits, 99.0),
            percentile(misses, 50.0),
            percentile(misses, 95.0),
            percentile(all(), 50.0),
            percentile(all(), 95.0),
            percentile(all(), 99.0),
        ];
        let mut row = vec![peer.name().into(), Cell::number(*rate, 0), Cell::number(timed.tally.rate(), 0)];
        row.extend(times.map(|time| Cell::maybe(time, 1)));
        row.extend([Cell::percent(timed.tally.hit_ratio()), Cell::percent(timed.disk_busy())]);
        table.row(row);
    }
    table
}

pub fn versions(ran: &[Ran]) -> Table {
    let columns = ["proxy", "version", "objects it was filled with", "fill, objects/s"];
    let mut table = Table::new("What was run", &columns);
    for Ran { peer, version, filled, .. } in ran {
        let rate = Cell::number(filled.rate(), 0);
        table.row([peer.name().into(), version.clone().into(), filled.requests().into(), rate]);
    }
    table
}

fn bars(title: &str, y: &str, ran: &[Ran], series: Vec<Series>) -> Plot {
    let groups = ran.iter().map(|ran| short(ran.peer)).collect();
    Plot::Bars { title: title.into(), y: y.into(), groups, series }
}

/// Names that have room below bars.
fn short(peer: Peer) -> String {
    peer.name()
        .replace("hashcache-", "")
        .replace(" + prefetch", "+p")
        .replace("Traffic Server", "TS")
        .replace(", new file", " new")
}

fn series(name: &str, ran: &[Ran], height: impl Fn(&Ran) -> f64) -> Series {
    Series::bars(name, ran.iter().map(height))
}

pub fn figure_3(ran: &[Ran]) -> Plot {
    let measured = series("measured", ran, |ran| ran.peak.tally.rate());
    let shared = series("if reads and writes share the limit", ran, |ran| ran.peak.rate_of_one_arm());
    let paper = series("paper's Figure 3", ran, |ran| paper(ran.peer).unwrap_or_default());
    bars("Peak requests a second on one limited disk", "requests/s", ran, vec![measured, shared, paper])
}

pub fn figure_5(ran: &[Ran]) -> Plot {
    let seconds = |ran: &Ran| ran.peak.tally.span.as_secs_f64().max(1e-9);
    let user = series("user CPU, % of a core", ran, |ran| ran.peak.processes.user_s * 100.0 / seconds(ran));
    let system = series("system CPU, % of a core", ran, |ran| ran.peak.processes.system_s * 100.0 / seconds(ran));
    let memory = series("peak memory, MB", ran, |ran| ran.peak.processes.peak_bytes as f64 / 1e6);
    let disk = series("disk, % of its limit", ran, |ran| ran.peak.disk_busy() * 100.0);
    bars("What it takes at the peak", "% or MB", ran, vec![user, system, memory, disk])
}

pub fn hit_times(ran: &[Ran]) -> Plot {
    let at = |percent: f64| move |ran: &Ran| percentile(&ran.timed.tally.hit_times, percent).unwrap_or_default();
    let all = vec![series("median", ran, at(50.0)), series("95 %", ran, at(95.0))];
    bars("Times of hits at four fifths of the peak", "ms", ran, all)
}
