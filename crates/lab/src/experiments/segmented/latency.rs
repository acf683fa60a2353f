//! Figures 8 and 9: how long reads and writes take in both caches, on a phone's flash and on a real disk.

use super::load::Load;
use super::runs::{Cache, Run, phone};
use super::{MIB, mebibytes};
use crate::error::LabError;
use crate::experiment::{Experiment, Needs, Setup};
use crate::paper::segmented::{P95_MS, WORST_READ_MS, WORST_WRITE_MS};
use crate::replay::{DiskKind, Kind};
use crate::report::{Cell, Plot, Report, Series, Table};
use crate::rig::EmmcModel;
use crate::rival::Ages;

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "segmented-latency",
    shows: "times of reads and writes in place and in segments, on a phone's modelled flash and on this disk",
    paper: "Log-Structured Cache, Figures 8 and 9",
    replays_logs: true,
    takes_requests: false,
    resumes: false,
    needs: Needs::Nothing,
    run,
};

const RIVAL: Cache = Cache::Rival(Ages::Ignored);
const CACHES: [Cache; 3] = [RIVAL, Cache::SegmentsBehindPages, Cache::Segments(0)];
/// Shares of the calls, and their columns.
const SHARES: [(f64, &str); 4] = [(0.5, "p50 ms"), (0.95, "p95 ms"), (0.99, "p99 ms"), (1.0, "max ms")];
const KINDS: [Kind; 5] = [Kind::Read, Kind::Write, Kind::Open, Kind::Close, Kind::Hit];

fn run(setup: &Setup) -> Result<Report, LabError> {
    let load = match setup.traces.first() {
        Some(path) => Load::read(setup, 1, path)?,
        None => Load::generated(setup.seed, setup.choose(512 * MIB, 12 * MIB)),
    };
    // A quarter of what is browsed: something must leave.
    let bytes = (load.prepared.bytes / 4).max(4 * MIB);
    let mut of = Runs { bytes, all: Vec::new() };
    let without = load.without_pauses();
    for (title, prepared) in [("flash, pauses", &load.prepared), ("flash, no pauses", &without)] {
        for cache in CACHES {
            of.all.push((title, cache.run(bytes, &phone(), &prepared.events)?));
        }
    }
    for cache in [RIVAL, Cache::Segments(0)] {
        let place = DiskKind::Real(setup.scratch.clone());
        of.all.push(("this disk", cache.run(bytes, &place, &load.prepared.events)?));
    }
    let other = others(bytes, &load)?;
    let tables = vec![Load::table([&load]), of.times(), of.ratios(), of.writes(), other];
    let plots = of.plots();
    let Experiment { name, shows, paper, .. } = EXPERIMENT;
    Ok(Report { name, shows, paper, quick: setup.quick, seed: setup.seed, tables, plots, notes: notes() })
}

struct Runs {
    bytes: u64,
    all: Vec<(&'static str, Run)>,
}

fn milliseconds(run: &mut Run, kind: Kind, share: f64) -> Option<f64> {
    run.replayed.times(kind).percentile(share).map(|time| time.as_secs_f64() * 1e3)
}

/// What the paper says of such a call in the rival or in segments.
fn paper(cache: Cache, kind: Kind) -> [Cell; 2] {
    let is_rival = matches!(cache, Cache::Rival(_));
    let (p95, worst) = if is_rival { (P95_MS.0, WORST_READ_MS.0) } else { (P95_MS.1, WORST_READ_MS.1) };
    match kind {
        Kind::Read => [Cell::number(p95, 0), Cell::number(worst, 0)],
        Kind::Write if is_rival => [Cell::number(p95, 0), Cell::Nothing],
        Kind::Write => [Cell::number(p95, 0), Cell::number(WORST_WRITE_MS, 0)],
        _ => [Cell::Nothing, Cell::Nothing],
    }
}

impl Runs {
    fn times(&mut self) -> Table {
        let shares = SHARES.map(|(_, column)| column);
        let columns =
            [&["disk", "cache", "call", "calls"], &shares[..], &["mean ms", "paper p95", "paper max"]].concat();
        let mut table = Table::new(format!("Times, caches of {:.0} MiB", mebibytes(self.bytes)), &columns);
        for (title, run) in &mut self.all {
            for kind in KINDS {
                let mut row = vec![(*title).into(), run.cache.name().as_str().into(), kind.as_str().into()];
                row.push(Cell::Count(run.replayed.times(kind).count()));
                row.extend(SHARES.map(|(share, _)| Cell::maybe(milliseconds(run, kind, share), 3)));
                row.push(Cell::maybe(run.replayed.times(kind).mean().map(|mean| mean.as_secs_f64() * 1e3), 3));
                row.extend(paper(run.cache, kind));
                table.row(row);
            }
        }
        table
    }

    fn ratios(&mut self) -> Table {
        let columns = ["disk", "segments", "call", "p50", "p95", "max", "mean", "paper p95", "paper max"];
        let mut table = Table::new("How many times as long the rival takes", &columns);
        let mut rivals: Vec<_> = self
            .all
            .iter()
            .filter(|(_, run)| run.cache == RIVAL)
            .map(|(title, run)| (*title, run.replayed.clone()))
            .collect();
        for (title, run) in self.all.iter_mut().filter(|(_, run)| run.cache != RIVAL) {
            let Some((_, rival)) = rivals.iter_mut().find(|(of, _)| of == title) else { continue };
            for kind in [Kind::Read, Kind::Write, Kind::Hit] {
                let mut ratio = |share: f64| {
                    let theirs = rival.times(kind).percentile(share)?.as_secs_f64();
                    ratio_of(theirs, run.replayed.times(kind).percentile(share)?.as_secs_f64())
                };
                let mut row = vec![(*title).into(), run.cache.name().as_str().into(), kind.as_str().into()];
                row.extend([0.5, 0.95, 1.0].map(|share| Cell::maybe(ratio(share), 1)));
                let means = rival.times(kind).mean().zip(run.replayed.times(kind).mean());
                let means = means.and_then(|(theirs, ours)| ratio_of(theirs.as_secs_f64(), ours.as_secs_f64()));
                row.push(Cell::maybe(means, 1));
                row.push(if kind == Kind::Hit { Cell::Nothing } else { Cell::number(P95_MS.0 / P95_MS.1, 0) });
                row.push(if kind == Kind::Read {
                    Cell::number(WORST_READ_MS.0 / WORST_READ_MS.1, 0)
                } else {
                    Cell::Nothing
                });
                table.row(row);
            }
        }
        table
    }

    fn writes(&self) -> Table {
        let columns = [
            "disk",
            "cache",
            "hits %",
            "given MiB",
            "written MiB",
            "amplification",
            "writes",
            "KiB a write",
            "below 16 KiB %",
            "below 64 KiB %",
            "seeks %",
            "merges",
            "reads",
            "busy s",
            "refused",
        ];
        let mut table = Table::new("What was written, counted at the disk", &columns);
        for (title, run) in &self.all {
            let writes = run.detail.writes;
            let of_all = |count: u64| Cell::percent(count as f64 / writes.requests.max(1) as f64);
            table.row([
                (*title).into(),
                run.cache.name().as_str().into(),
                Cell::percent(run.replayed.hit_rate()),
                Cell::number(mebibytes(run.replayed.written_bytes), 1),
                Cell::number(mebibytes(writes.bytes), 1),
                Cell::number(run.amplification(), 2),
                Cell::Count(writes.requests),
                Cell::number(writes.bytes as f64 / writes.requests.max(1) as f64 / 1024.0, 1),
                Cell::percent(run.writes_below(16 << 10)),
                Cell::percent(run.writes_below(64 << 10)),
                of_all(writes.seeks),
                run.worked.map_or(Cell::Nothing, |(_, merges)| Cell::Count(merges)),
                Cell::Count(run.detail.reads.requests),
                Cell::maybe(run.worked.map(|(busy, _)| busy), 1),
                Cell::Count(run.replayed.refused),
            ]);
        }
        table
    }

    /// The curves of Figures 8 and 9, on a scale of tens.
    fn plots(&mut self) -> Vec<Plot> {
        let titles = ["flash, pauses", "flash, no pauses", "this disk"];
        let kinds = [Kind::Read, Kind::Write];
        let of = titles.into_iter().flat_map(|title| kinds.into_iter().map(move |kind| (title, kind)));
        of.map(|(title, kind)| {
            let runs = self.all.iter_mut().filter(|(of, _)| *of == title);
            let series = runs.map(|(_, run)| {
                let name = run.cache.name();
                let shares = (50..100).map(f64::from).chain([99.5, 99.9, 100.0]);
                let points = shares.filter_map(|share| {
                    let time = milliseconds(run, kind, share / 100.0)?;
                    Some((share, time.max(LEAST_MS).log10()))
                });
                Series::new(name, points.collect::<Vec<_>>())
            });
            let (x, y) = ("percentile".to_owned(), "ms, as powers of ten; 0.01 and less as -2".to_owned());
            Plot::Lines { title: format!("{}: {title}", kind.as_str()), x, y, series: series.collect() }
        })
        .collect()
    }
}

const LEAST_MS: f64 = 0.01;

/// How many times as long; nothing where ours take next to no time.
fn ratio_of(theirs: f64, ours: f64) -> Option<f64> {
    (ours * 1e3 >= LEAST_MS).then(|| theirs / ours)
}

/// What is chosen in the model, chosen otherwise.
fn others(bytes: u64, load: &Load) -> Result<Table, LabError> {
    let columns = ["places of writing", "cache", "read p95 ms", "read max ms", "hit p95 ms", "merges", "busy s"];
    let mut table = Table::new("With other numbers of places where the flash goes on writing, with pauses", &columns);
    for open_units in [1, 16] {
        for cache in [RIVAL, Cache::Segments(0)] {
            let model = EmmcModel { open_units, ..EmmcModel::phone() };
            let mut run = cache.run(bytes, &DiskKind::Emmc(model), &load.prepared.events)?;
            let mut time = |kind, share| Cell::maybe(milliseconds(&mut run, kind, share), 3);
            let times = [time(Kind::Read, 0.95), time(Kind::Read, 1.0), time(Kind::Hit, 0.95)];
            let mut row = vec![Cell::Count(open_units as u64), cache.name().as_str().into()];
            row.extend(times);
            row.push(run.worked.map_or(Cell::Nothing, |(_, merges)| Cell::Count(merges)));
            row.push(Cell::maybe(run.worked.map(|(busy, _)| busy), 1));
            table.row(row);
        }
    }
    Ok(table)
}

fn notes() -> Vec<String> {
    [
        "The flash is a model in virtual time. From the paper: 0.02 MiB/s of random writes (195 ms for 4 KiB), units of 4 MiB, no queue, reads \
         as fast at random, full speed from 1 MiB on and far less below 64 KiB. Chosen, since Figure 1 prints no numbers: 20 MiB/s written and 2 ms a \
         write, 40 MiB/s read and 0.5 ms a read, and that writing goes on without a merge at the last 4 places where it ended and where a unit begins. \
         The last table chooses 1 and 16.",
        "The page cache is a model too: an eighth of the cache's bytes (chosen), pages expire after 2 s, the writer \
         wakes every 5 s, requests of up to 512 KiB; writers are never slowed down, and the file system has almost no \
         metadata. All of this favours the rival.",
        "A call is made when the one before was answered and the pause is over, which is up to 5 s as in the paper. \
         Only the time of the disk counts, and only for reads: writes continue in the background and delay the reads \
         after them. A WriteData then takes time only where a part of a page must be read first; both caches hold what \
         is written in memory until it is closed, so nearly all of them take no time. In the paper they take some, for \
         its phone's processor and locks. Ratios are left out if segments take less than 0.01 ms.",
        "Our OpenEntry reads the whole record at once, and ReadData then costs nothing; the rival's OpenEntry reads \
         the entry's block, and each ReadData a stream. The paper's figures only show ReadData and WriteData. So \
         compare the rows of a whole hit: OpenEntry and all its reads.",
        "segmented writes past the page cache, in batches, as the engine works; with the page cache in front, reads \
         from the cache are free, as for the rival and in the paper.",
        "The rival's longest reads wait for everything that the writer wrote at once: dozens of places merged, 0.2 s \
         each, where the paper's 3 s are some fifteen of them. Its p95 of ReadData is below the paper's 10 ms, since \
         in 95 of 100 calls nothing is being written; the paper does not say how much memory its page cache had, nor \
         how its file system and controller spread their writes.",
        "Segments cause merges too, if a segment begins or its summary is written elsewhere than at the beginning of a \
         unit, which a file in a file system cannot know (section 3.2). Their longest hits wait for a few such merges, \
         of 0.2 s each, where the paper's worst is 28 ms; and a hit that reads the flash takes 0.9 ms and more by the \
         model, so that p95 is not below the paper's millisecond.",
        "Without pauses 512 MiB are browsed in a few minutes: the page cache writes only when too much waits, and \
         pages are changed in memory many times before they go out once. Far less is written in place, and 95 of 100 \
         hits wait less than in segments, whose batches follow each other at once; but then thousands of places are \
         merged together and one read waits for minutes, since the model never slows down writers. The paper saw \
         substantial differences too and so keeps the pauses; a browser has them.",
        "This disk has memory and a queue of its own: a few tenths of a millisecond by the wall clock, on a machine \
         shared with other work. Do not expect much of it; there the page cache uses the clock of the replay, and \
         nothing sleeps.",
        "The engine cleans segments and ends batches on threads of its own: the cleaning reads count for whatever call \
         is in progress, and a batch ends when it is 100 ms old by the wall clock. The figures of segments differ in \
         the last digits from run to run; those of the rival never do.",
    ]
    .map(str::to_owned)
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_place_writes_are_small_and_reads_wait_for_them() {
        let report = run(&Setup::quick()).unwrap();
        let [_, times, _, writes, _] = &report.tables[..] else { panic!("five tables") };
        let number = |table: &Table, row: usize, column: &str| table.column(column)[row].value().unwrap();
        let rows = |table: &Table, disk: &str, cache: &str, call: Option<&str>| {
            let fits = |row: &&Vec<Cell>| {
                row[0].to_string() == disk
                    && row[1].to_string() == cache
                    && call.is_none_or(|call| row[2].to_string() == call)
            };
            table.rows.iter().position(|row| fits(&row)).unwrap()
        };
        let worst = |cache| number(times, rows(times, "flash, pauses", cache, Some("a whole hit")), "max ms");
        assert!(worst("rival") > 5.0 * worst("segmented"), "{} {}", worst("rival"), worst("segmented"));
        let written = |cache, column| number(writes, rows(writes, "flash, pauses", cache, None), column);
        assert!(written("rival", "below 16 KiB %") > 50.0 && written("rival", "amplification") > 1.2);
        assert!(written("rival", "merges") > 10.0 * written("segmented", "merges").max(1.0));
        assert!(
            (1.0..1.5).contains(&written("segmented", "amplification")),
            "{}",
            written("segmented", "amplification")
        );
    }
}
