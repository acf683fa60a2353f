//! What was measured, as tables.

use std::time::Duration;

use super::latency::Run;
use super::place;
use crate::report::{Cell, Plot, Series, Table};
use crate::times::Times;

/// What the engine does meanwhile, as [`super::world::Measured::hits`].
const DOING: [&str; 3] = ["nothing", "merging", "cleaning"];
const SHARES: [f64; 3] = [0.5, 0.95, 0.99];

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn at(times: &mut Times, share: f64) -> Option<f64> {
    times.percentile(share).map(milliseconds)
}

/// Times of hits by what the engine does meanwhile.
pub fn times(runs: &mut [Run]) -> Table {
    let columns =
        ["disk", "index", "meanwhile", "hits", "p50 ms", "p95 ms", "p99 ms", "max ms", "p99 / that of nothing"];
    let mut table = Table::new("Times of hits by what the engine does meanwhile by itself", &columns);
    for run in runs {
        let usual = run.measured.hits.first_mut().and_then(|times| at(times, 0.99));
        let (disk, of) = (run.disk, place(run.bits));
        for (times, doing) in run.measured.hits.iter_mut().zip(DOING) {
            let mut row = vec![disk.into(), of.clone(), doing.into(), Cell::Count(times.count())];
            row.extend(SHARES.map(|share| Cell::maybe(at(times, share), 2)));
            row.push(Cell::maybe(at(times, 1.0), 2));
            let ratio = at(times, 0.99).zip(usual).map(|(p99, usual)| p99 / usual);
            row.push(Cell::maybe(ratio.filter(|_| doing != "nothing"), 2));
            table.row(row);
        }
    }
    table
}

/// What the engine did by itself.
pub fn work(runs: &[Run]) -> Table {
    let columns = [
        "disk",
        "index",
        "lookups / s",
        "found %",
        "stored / s",
        "not stored",
        "MiB of an index",
        "merges",
        "s a merge",
        "time merging %",
        "time cleaning %",
        "disk busy %",
        "written / stored",
        "KiB a write",
    ];
    let mut table = Table::new("What the disk did, and what for", &columns);
    for run in runs {
        let of = &run.measured;
        let (took, seen) = (of.took.as_secs_f64(), of.seen);
        let found: u64 = of.hits.iter().map(Times::count).sum();
        let merges = run.merges();
        let [merging, cleaning] = seen.took.map(|time| time.as_secs_f64());
        table.row([
            run.disk.into(),
            place(run.bits),
            Cell::number(run.rates.gets, 0),
            Cell::percent(found as f64 / (found + of.misses).max(1) as f64),
            Cell::number(of.stored[0] as f64 / took, 0),
            Cell::Count(of.stored[1]),
            Cell::number(run.area_bytes as f64 / f64::from(1 << 20), 1),
            Cell::number(merges, 1),
            Cell::number(merging / merges, 2),
            Cell::percent(merging / took),
            Cell::percent(cleaning / took),
            Cell::percent(of.busy.as_secs_f64() / took),
            Cell::number(seen.writes.bytes as f64 / of.stored_bytes.max(1) as f64, 3),
            Cell::number(seen.writes.bytes as f64 / seen.writes.requests.max(1) as f64 / 1024.0, 0),
        ]);
    }
    table
}

/// A disk of a terabyte by the model, beside what was measured on a smaller one.
pub struct Terabyte {
    /// Bits of memory for each object that has room.
    pub bits: u64,
    /// Bytes of memory that the index takes, as the engine counts it when it is opened.
    pub memory_bytes: u64,
    /// Bytes of the index on the disk; there are two such areas.
    pub area_bytes: u64,
    /// Objects that have room.
    pub objects: u64,
    /// The part of them that is stored between two merges, as measured.
    pub a_merge: f64,
    /// How long a merge takes, if nobody else uses the disk.
    pub merge: Duration,
}

/// What an index costs on a disk of a terabyte.
pub fn terabyte(all: &[Terabyte]) -> Table {
    let columns = [
        "bits",
        "memory MiB",
        "bits in all",
        "index MiB",
        "disk % for it",
        "min a merge",
        "merges a lap",
        "min for them",
        "of a day at 100 puts / s %",
        "at 1000 %",
    ];
    let mut table = Table::new("A disk of 1 TiB of 7200 turns a minute, by the model: 8 KiB an object", &columns);
    for of in all {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let minutes = of.merge.as_secs_f64() / 60.0;
        let share = |puts: f64| of.merge.as_secs_f64() * puts / (of.a_merge * of.objects as f64);
        table.row([
            Cell::Count(of.bits),
            Cell::number(mib(of.memory_bytes), 0),
            Cell::number(of.memory_bytes as f64 * 8.0 / of.objects as f64, 2),
            Cell::number(mib(of.area_bytes), 0),
            Cell::number(200.0 * mib(of.area_bytes) / f64::from(1 << 20), 2),
            Cell::number(minutes, 1),
            Cell::number(1.0 / of.a_merge, 0),
            Cell::number(minutes / of.a_merge, 0),
            Cell::number(share(100.0) * 100.0, 2),
            Cell::number(share(1000.0) * 100.0, 2),
        ]);
    }
    table
}

/// What flushes cost where little is stored.
pub fn slow(runs: &[Run]) -> Table {
    let columns =
        ["index", "puts / s", "stored", "written / stored", "KiB / s", "writes / s", "KiB a write", "disk busy %"];
    let mut table = Table::new("Few puts, and a flush each second, on a disk of 7200 turns a minute", &columns);
    for run in runs {
        let of = &run.measured;
        let (took, writes) = (of.took.as_secs_f64(), of.seen.writes);
        table.row([
            place(run.bits),
            Cell::number(run.rates.puts, 0),
            Cell::Count(of.stored[0]),
            Cell::number(writes.bytes as f64 / of.stored_bytes.max(1) as f64, 3),
            Cell::number(writes.bytes as f64 / took / 1024.0, 0),
            Cell::number(writes.requests as f64 / took, 1),
            Cell::number(writes.bytes as f64 / writes.requests.max(1) as f64 / 1024.0, 1),
            Cell::percent(of.busy.as_secs_f64() / took),
        ]);
    }
    table
}

/// The 99th percentiles.
pub fn plots(runs: &mut [Run]) -> Vec<Plot> {
    let mut disks: Vec<_> = runs.iter().map(|run| run.disk).collect();
    disks.dedup();
    let of = |disk: &'static str, runs: &mut [Run]| {
        let mut of_disk: Vec<_> = runs.iter_mut().filter(|run| run.disk == disk).collect();
        let groups = of_disk.iter().map(|run| place(run.bits).to_string()).collect();
        let series = DOING.iter().enumerate().map(|(kind, doing)| {
            let heights = of_disk
                .iter_mut()
                .map(|run| run.measured.hits.get_mut(kind).and_then(|times| at(times, 0.99)).unwrap_or_default());
            Series::bars(format!("{doing} meanwhile"), heights.collect::<Vec<_>>())
        });
        let series = series.collect();
        Plot::Bars { title: format!("99 of 100 hits, {disk}"), y: "ms".to_owned(), groups, series }
    };
    disks.into_iter().map(|disk| of(disk, runs)).collect()
}

/// How it was measured.
pub fn notes() -> Vec<String> {
    [
        "The engine itself, with its own thread, in virtual time: a request takes what the model of the disk says, requests go in the order in \
         which they came, and what the processor does takes no time. Lookups and new objects come by chance at the rates that are said.",
        "A hit counts as merging if the thread of the engine read or wrote the index at any moment of it, and else as cleaning if it read or wrote a \
         segment. So hits that take long are more likely to count there, and their times are rather too long than too short. The syncs of that thread \
         do not count, nor do batches of records that it has written again and others send to the disk. A snapshot of an index in memory is called \
         a merge too.",
        "Nothing is held in memory but the index, and what is on its way to the disk: a hit on that takes no time.",
        "The flash is a model with 32 requests at a time, each in its own time, and far from busy here: what the engine does by itself delays nobody. \
         Real flash shares what it can move among all.",
        "Half of what is asked for has room; popularity falls off as 1 / rank^0.8. What is missed is stored. The new objects are never asked for \
         again. The disk was filled one and a half times before, by the same mix, without taking time.",
    ]
    .map(str::to_owned)
    .to_vec()
}
