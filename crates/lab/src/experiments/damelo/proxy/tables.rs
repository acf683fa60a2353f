//! What was measured, as tables.

use std::time::Duration;

use super::load::MOST_HITS;
use super::runs::Ran;
use super::uses::Uses;
use crate::paper::damelo as paper;
use crate::peers::{Peer, Phase, percentile};
use crate::report::{Cell, Table};

/// Of a rate, by how many percent it is above another one.
fn above(rate: Option<f64>, other: Option<f64>) -> Cell {
    Cell::maybe(rate.zip(other).map(|(rate, other)| (rate / other - 1.0) * 100.0), 0)
}

/// Figure 7, with what the thesis concludes from it.
pub fn figure_7(ran: &[Ran]) -> Table {
    let columns = [
        "proxy",
        "in the thesis",
        "requests/s",
        "Figure 7",
        "in the second half",
        "over Squid %",
        "Figure 7, over Squid %",
        "over the tree %",
        "Figure 7, over the tree %",
        "hits %",
        "of those there could be %",
        "byte hits %",
        "failed",
    ];
    let mut table = Table::new("Figure 7: requests a second, as fast as each answers", &columns);
    let ours = |of: &dyn Fn(Peer) -> bool| ran.iter().find(|one| of(one.system.peer)).map(|one| one.whole.tally.rate());
    let squid = ours(&|peer| matches!(peer, Peer::Squid(_)));
    let [(tree_name, tree_rate), (_, squid_rate), _] = paper::FIGURE_7;
    let tree = ran.iter().find(|one| one.system.paper.0 == tree_name).map(|one| one.whole.tally.rate());
    for Ran { system, whole, parts, .. } in ran {
        let ((name, theirs), tally) = (system.paper, &whole.tally);
        table.row([
            system.peer.name().into(),
            name.into(),
            Cell::number(tally.rate(), 0),
            Cell::number(theirs, 0),
            Cell::number(Phase::together(parts.iter().skip(parts.len() / 2)).tally.rate(), 0),
            above(Some(tally.rate()), squid),
            above(Some(theirs), Some(squid_rate)),
            above(Some(tally.rate()), tree),
            above(Some(theirs), Some(tree_rate)),
            Cell::percent(tally.hit_ratio()),
            Cell::percent(tally.hit_ratio() / MOST_HITS),
            Cell::percent(tally.byte_hit_ratio()),
            tally.failed.into(),
        ]);
    }
    table
}

fn mean_ms(times: &[&Duration]) -> Option<f64> {
    let all: Duration = times.iter().copied().sum();
    (!times.is_empty()).then(|| all.as_secs_f64() * 1e3 / times.len() as f64)
}

/// Response times, which the thesis does not give.
pub fn times(ran: &[Ran]) -> Table {
    let columns = ["proxy", "answers", "count", "mean ms", "median", "95 %", "99 %", "max"];
    let mut table = Table::new("Response times", &columns);
    for Ran { system, whole, .. } in ran {
        let (hits, misses) = (&whole.tally.hit_times, &whole.tally.miss_times);
        let kinds: [(&str, Vec<&Duration>); 3] = [
            ("all", hits.iter().chain(misses).collect()),
            ("hits", hits.iter().collect()),
            ("misses", misses.iter().collect()),
        ];
        for (kind, times) in kinds {
            let at = [50.0, 95.0, 99.0, 100.0].map(|percent| percentile(times.iter().copied(), percent));
            let first = [system.peer.name().into(), kind.into(), Cell::Count(times.len() as u64)];
            let cells = std::iter::once(mean_ms(&times)).chain(at).map(|time| Cell::maybe(time, 1));
            table.row(first.into_iter().chain(cells));
        }
    }
    table
}

/// What each request cost.
pub fn resources(ran: &[Ran]) -> Table {
    let columns = [
        "proxy",
        "reads a request",
        "writes a request",
        "writes joined a request",
        "reads a hit",
        "KB a read",
        "KB a write",
        "user ms a request",
        "system ms a request",
        "peak MB",
        "index MB",
        "page cache MB",
        "requests/s if reads and writes shared the limit",
    ];
    let mut table = Table::new("What a request costs", &columns);
    for Ran { system, whole, index_bytes, .. } in ran {
        let ((reads, writes), disk, tally) = (whole.disk_requests(), whole.disk, &whole.tally);
        let requests = tally.requests().max(1) as f64;
        let kb = |bytes: u64, count: u64| Cell::number(bytes as f64 / 1e3 / count as f64, 1);
        let mb = |bytes: u64| bytes as f64 / 1e6;
        table.row([
            system.peer.name().into(),
            Cell::number(reads, 3),
            Cell::number(writes, 3),
            Cell::number(disk.joined_writes as f64 / requests, 3),
            Cell::number(disk.reads as f64 / tally.hit_times.len() as f64, 2),
            kb(disk.read_bytes, disk.reads),
            kb(disk.write_bytes, disk.writes),
            Cell::number(whole.processes.user_s * 1e3 / requests, 2),
            Cell::number(whole.processes.system_s * 1e3 / requests, 2),
            Cell::number(mb(whole.processes.peak_bytes), 0),
            Cell::maybe(index_bytes.map(mb), 1),
            Cell::number(mb(whole.page_cache_bytes), 0),
            Cell::number(whole.rate_of_one_arm(super::runs::LIMIT), 0),
        ]);
    }
    table
}

/// What was full.
pub fn saturation(ran: &[Ran]) -> Table {
    let columns = [
        "proxy",
        "reads of the disk %",
        "writes %",
        "bytes read %",
        "bytes written %",
        "a request at the disk %",
        "all processors %",
        "the proxy, % of one",
        "clients and origins, % of one",
        "of all processors by others %",
        "saturated",
        "in the last part",
    ];
    let mut table = Table::new("What was saturated", &columns);
    for Ran { system, whole, parts, .. } in ran {
        let (uses, last) = (Uses::of(whole), parts.last().map(Uses::of).unwrap_or_default());
        let Uses { reads, writes, bytes_read, bytes_written, processors, others } = uses;
        let seconds = whole.seconds();
        let (own, asking) = (whole.processes.user_s + whole.processes.system_s, whole.asking_s);
        let cells = [
            reads,
            writes,
            bytes_read,
            bytes_written,
            whole.disk.busy_ms as f64 / 1e3 / seconds,
            processors,
            own / seconds,
            asking / seconds,
            others,
        ];
        table.row(
            std::iter::once(system.peer.name().into())
                .chain(cells.map(Cell::percent))
                .chain([uses.said().into(), last.said().into()]),
        );
    }
    table
}

/// How it went on: what is stored grows, and memory does not.
pub fn in_time(ran: &[Ran]) -> Table {
    let columns = [
        "proxy",
        "until second",
        "requests/s",
        "hits %",
        "mean ms",
        "99 %",
        "reads/s",
        "writes/s",
        "writes/s for the limit",
        "all processors %",
        "by others %",
        "saturated",
    ];
    let mut table = Table::new("As the cache fills", &columns);
    for Ran { system, parts, .. } in ran {
        let mut until = 0.0;
        for part in parts {
            until += part.seconds();
            let ((reads, writes), uses, tally) = (part.disk_rates(), Uses::of(part), &part.tally);
            let all: Vec<&Duration> = tally.hit_times.iter().chain(&tally.miss_times).collect();
            table.row([
                system.peer.name().into(),
                Cell::number(until, 0),
                Cell::number(tally.rate(), 0),
                Cell::percent(tally.hit_ratio()),
                Cell::maybe(mean_ms(&all), 1),
                Cell::maybe(percentile(all.iter().copied(), 99.0), 1),
                Cell::number(reads, 1),
                Cell::number(writes, 1),
                Cell::number(uses.writes * super::runs::LIMIT as f64, 1),
                Cell::percent(uses.processors),
                Cell::percent(uses.others),
                uses.said().into(),
            ]);
        }
    }
    table
}

/// What was run.
pub fn versions(ran: &[Ran]) -> Table {
    let mut table = Table::new("What was run", &["proxy", "version", "file system"]);
    for Ran { system, version, .. } in ran {
        table.row([system.peer.name().into(), version.clone().into(), system.files.to_string().into()]);
    }
    table
}
