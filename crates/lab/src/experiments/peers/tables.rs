//! What was measured, as tables.

use tinaja_store::engines;

use super::runs::{LIMIT, Ran};
use crate::paper::hashcache::{FIGURE_3_OTHERS, figure_3 as figure_3_of};
use crate::peers::{Peer, SquidStore, percentile};
use crate::report::{Cell, Table};

/// What Figure 3 says of it. The paper's engines with a table prefetch; its commercial cache stands where Traffic Server does.
pub fn paper(peer: Peer) -> Option<f64> {
    match peer {
        Peer::Tinaja { is_new: true, .. } => None,
        Peer::Tinaja { engine, prefetch: false, .. } if engine == engines::HASHCACHE_LOG => None,
        Peer::Tinaja { engine, .. } => figure_3_of(engine),
        Peer::Squid(SquidStore::Ufs | SquidStore::Aufs) => FIGURE_3_OTHERS.first().map(|(_, rate)| *rate),
        // The paper's Squid has files; rock came later.
        Peer::Squid(SquidStore::Rock) => None,
        Peer::TrafficServer => FIGURE_3_OTHERS.get(1).map(|(_, rate)| *rate),
    }
}

fn megabytes(bytes: u64) -> Cell {
    Cell::number(bytes as f64 / 1e6, 1)
}

pub fn peak(ran: &[Ran]) -> Table {
    let columns = [
        "proxy",
        "a page",
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
    for Ran { peer, embedded, peak, .. } in ran {
        let ((reads, writes), disk) = (peak.disk_requests(), peak.disk);
        let mean = |bytes: u64, count: u64| Cell::number(bytes as f64 / 1e3 / count as f64, 1);
        table.row([
            peer.name().into(),
            embedded.a_page().into(),
            Cell::number(peak.tally.rate(), 0),
            Cell::maybe(paper(*peer), 0),
            Cell::number(peak.tally.bytes as f64 * 8e-6 / peak.tally.span.as_secs_f64(), 2),
            Cell::percent(peak.tally.hit_ratio()),
            Cell::percent(peak.tally.byte_hit_ratio()),
            Cell::number(reads, 2),
            Cell::number(writes, 2),
            mean(disk.read_bytes, disk.reads),
            mean(disk.write_bytes, disk.writes),
            Cell::number(peak.rate_of_one_arm(LIMIT), 0),
            peak.tally.failed.into(),
        ]);
    }
    table
}

pub fn resources(ran: &[Ran]) -> Table {
    let columns = [
        "proxy",
        "a page",
        "user ms a request",
        "system ms a request",
        "user CPU %",
        "system CPU %",
        "peak MB",
        "empty MB",
        "filled MB",
        "index MB",
        "shared MB",
        "page cache MB",
        "reads/s",
        "writes/s",
        "disk busy %",
        "busy by the device %",
    ];
    let mut table = Table::new("What it took meanwhile (Figures 5, 7 and 9)", &columns);
    for Ran { peer, embedded, peak, timed, empty_bytes, full_bytes, index_bytes, .. } in ran {
        let (requests, seconds) = (peak.tally.requests().max(1) as f64, peak.tally.span.as_secs_f64().max(1e-9));
        let ((reads, writes), taken) = (peak.disk_rates(), peak.processes);
        table.row([
            peer.name().into(),
            embedded.a_page().into(),
            Cell::number(taken.user_s * 1e3 / requests, 2),
            Cell::number(taken.system_s * 1e3 / requests, 2),
            Cell::percent(taken.user_s / seconds),
            Cell::percent(taken.system_s / seconds),
            megabytes(timed.processes.peak_bytes),
            megabytes(*empty_bytes),
            megabytes(*full_bytes),
            index_bytes.map_or(Cell::Nothing, |bytes| Cell::number(bytes as f64 / 1e6, 2)),
            megabytes(peak.processes.shared_bytes),
            megabytes(peak.page_cache_bytes),
            Cell::number(reads, 1),
            Cell::number(writes, 1),
            Cell::percent(peak.disk_busy(LIMIT)),
            Cell::percent(peak.disk.busy_ms as f64 / 1e3 / seconds),
        ]);
    }
    table
}

pub fn times(ran: &[Ran]) -> Table {
    let columns = [
        "proxy",
        "a page",
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
    for Ran { peer, embedded, rate, timed, .. } in ran {
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
        let mut row = vec![
            peer.name().into(),
            embedded.a_page().into(),
            Cell::number(*rate, 0),
            Cell::number(timed.tally.rate(), 0),
        ];
        row.extend(times.map(|time| Cell::maybe(time, 1)));
        row.extend([Cell::percent(timed.tally.hit_ratio()), Cell::percent(timed.disk_busy(LIMIT))]);
        table.row(row);
    }
    table
}

pub fn versions(ran: &[Ran]) -> Table {
    let columns = ["proxy", "a page", "version", "objects it was filled with", "fill, objects/s"];
    let mut table = Table::new("What was run", &columns);
    for Ran { peer, embedded, version, filled, .. } in ran {
        let rate = Cell::number(filled.rate(), 0);
        table.row([
            peer.name().into(),
            embedded.a_page().into(),
            version.clone().into(),
            filled.requests().into(),
            rate,
        ]);
    }
    table
}
