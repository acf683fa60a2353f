//! Tables 4 and 6 of the paper with what the limited disk itself was measured to do.

use tinaja_store::EngineRef;
use tinaja_store::tune::DiskSpeed;

use super::runs::{LIMIT, Ran};
use crate::paper::hashcache::{TABLE_6, table_4 as table_4_of};
use crate::peers::Peer;
use crate::report::{Cell, Table};

/// Table 4's formula with the measured `t`, hit ratio, share of misses that may be stored, and related objects a read.
pub fn table_4(ran: &[Ran], disk: &DiskSpeed) -> Table {
    let columns = [
        "proxy",
        "a page",
        "CHR %",
        "CBR %",
        "rel",
        "KB a read",
        "t",
        "Table 4",
        "shared limit",
        "measured",
        "disk requests a request",
    ];
    let mut table = Table::new("Table 4 with t measured on this disk", &columns);
    for one in ran {
        let Peer::Tinaja { engine, prefetch, is_new: false } = one.peer else { continue };
        let (tally, (reads, writes)) = (&one.peak.tally, one.peak.disk_requests());
        let (chr, cbr) = (tally.hit_ratio(), tally.cachable_ratio());
        let rel = if prefetch { related(ran, engine, reads) } else { 1.0 };
        let read_bytes = one.peak.disk.read_bytes / one.peak.disk.reads.max(1);
        let t = reads_a_second(disk, read_bytes);
        table.row([
            one.peer.name().into(),
            one.embedded.a_page().into(),
            Cell::percent(chr),
            Cell::percent(cbr),
            Cell::number(rel, 2),
            Cell::number(read_bytes as f64 / 1e3, 1),
            Cell::number(t, 1),
            Cell::maybe(table_4_of(engine, t, chr, cbr, rel), 0),
            Cell::number(one.peak.rate_of_one_arm(LIMIT), 0),
            Cell::number(tally.rate(), 0),
            Cell::number(reads + writes, 2),
        ]);
    }
    table
}

/// How many times fewer reads this engine needs than without prefetching, which was run with few objects a page only: an
/// object costs it the same reads, however many others its page has.
fn related(ran: &[Ran], engine: EngineRef, reads: f64) -> f64 {
    let plain = Peer::Tinaja { engine, prefetch: false, is_new: false };
    let plain = ran.iter().find(|ran| ran.peer == plain).map(|ran| ran.peak.disk_requests().0);
    plain.map_or(1.0, |plain| (plain / reads.max(1e-9)).max(1.0))
}

/// Reads a second of the smallest size that was measured and is not smaller.
fn reads_a_second(disk: &DiskSpeed, bytes: u64) -> f64 {
    let fitting = disk.reads.iter().find(|speed| speed.bytes >= bytes).or(disk.reads.last());
    fitting.map_or(f64::NAN, |speed| speed.per_second())
}

/// Table 6 for this disk.
pub fn table_6(disk: &DiskSpeed) -> Table {
    let mut table =
        Table::new("Table 6: random reads a second, one after the other", &["KiB", "paper", "measured", "mean ms"]);
    for speed in &disk.reads {
        let kib = speed.bytes >> 10;
        let paper = TABLE_6.iter().find(|(size, _)| *size == kib).map(|(_, seeks)| *seeks);
        table.row([
            kib.into(),
            Cell::maybe(paper, 0),
            Cell::number(speed.per_second(), 1),
            Cell::number(speed.latency_ms, 1),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use tinaja_store::tune::ReadSpeed;

    #[test]
    fn t_is_that_of_the_next_larger_read() {
        let speed = |bytes, latency_ms| ReadSpeed { bytes, reads: 9, latency_ms, quick_ms: latency_ms, doubt: 0.0 };
        let disk = DiskSpeed { reads: vec![speed(4096, 10.0), speed(65_536, 20.0)], of: "a test".into() };
        assert_eq!([1, 4096, 4097, 1 << 20].map(|bytes| reads_a_second(&disk, bytes)), [100.0, 100.0, 50.0, 50.0]);
        assert_eq!(table_6(&disk).column("paper"), [&Cell::Number(76.0, 0), &Cell::Number(70.0, 0)]);
        assert_eq!(table_6(&disk).column("measured"), [&Cell::Number(100.0, 1), &Cell::Number(50.0, 1)]);
    }
}
