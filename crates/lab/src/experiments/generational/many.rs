//! Ten million objects: what memory they take, what a lookup reads, and how long a start takes after a stop and after a crash.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{area_bytes, cut, place};
use crate::error::LabError;
use crate::experiment::{Experiment, Needs, Setup};
use crate::random::{Random, mix};
use crate::report::{Cell, Plot, Report, Series, Table};
use crate::rig::{Rig, Sparse, Spec};

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "generational-many",
    shows: "memory, reads and starts of the engine with ten million objects, counted",
    paper: "no paper: ours",
    replays_logs: false,
    takes_requests: false,
    resumes: false,
    needs: Needs::Time,
    run,
};

/// Objects that are stored.
const OBJECTS: (u64, u64) = (11_000_000, 60_000);
/// For so many of this size the disk is cut: a tenth less than are stored, so that some leave.
const ROOM: (u64, u64) = (10_000_000, 50_000);
const MEAN_OBJECT_BYTES: u64 = 1024;
/// The smallest body, and by how much larger the largest is.
const BODY_BYTES: (u64, u64) = (300, 1000);
/// Lookups of each kind.
const LOOKUPS: (u64, u64) = (200_000, 5000);
/// The part of the objects that are asked for where lookups have skew: of those each is asked for four times.
const SKEW: u64 = 4;
/// Bits of memory for each object that has room; all of the index where nothing is said.
const INDEXES: [Option<u64>; 5] = [None, Some(32), Some(12), Some(3), Some(0)];

/// What one engine came to.
struct Run {
    bits: Option<u64>,
    room: u64,
    objects: u64,
    stored: Duration,
    live: u64,
    memory_bytes: u64,
    area_bytes: u64,
    /// Bytes written for each of a body, its name and head.
    written: f64,
    hits: Looked,
    skewed: Looked,
    absent: Looked,
    /// How long a start takes after a crash, and after a stop, and how many of a thousand objects that were found before it are found then.
    starts: [Duration; 2],
    found: [f64; 2],
}

/// Lookups that were carried out.
#[derive(Clone, Copy, Default)]
struct Looked {
    found: u64,
    lookups: u64,
    reads: u64,
    took: Duration,
}

impl Looked {
    /// Reads of each.
    fn reads_each(self) -> f64 {
        self.reads as f64 / self.lookups.max(1) as f64
    }
}

fn look(rig: &Rig, objects: impl Iterator<Item = u64>) -> Result<Looked, LabError> {
    let (before, began) = (rig.requests(), Instant::now());
    let mut of = Looked::default();
    for object in objects {
        of.lookups += 1;
        of.found += u64::from(rig.get(object)?.is_some());
    }
    Ok(Looked { reads: rig.requests().since(before).reads, took: began.elapsed(), ..of })
}

fn bytes(object: u64) -> u64 {
    BODY_BYTES.0 + mix(object) % BODY_BYTES.1
}

/// Opens what is on the disk; how long that took.
fn open(spec: &Spec, disk: &Arc<Sparse>) -> Result<(Rig, Duration), LabError> {
    let began = Instant::now();
    Ok((Rig::on(spec, disk.clone())?, began.elapsed()))
}

impl Run {
    fn of(bits: Option<u64>, setup: &Setup) -> Result<Run, LabError> {
        let (objects, room) = (setup.choose(OBJECTS.0, OBJECTS.1), setup.choose(ROOM.0, ROOM.1));
        let (spec, log_at) = cut(room * MEAN_OBJECT_BYTES, MEAN_OBJECT_BYTES, bits)?;
        let disk = Arc::new(Sparse::new(spec.disk_bytes));
        let (rig, _) = open(&spec, &disk)?;
        let began = Instant::now();
        let stored_bytes: u64 = (0..objects)
            .filter(|object| rig.put(*object, bytes(*object), None))
            .map(|object| bytes(object) + crate::rig::beside_body(object))
            .sum();
        rig.settle()?;
        let (stored, reading) = (began.elapsed(), rig.read());
        let lookups = setup.choose(LOOKUPS.0, LOOKUPS.1);
        let mut random = Random::new(setup.seed);
        // Of those that were stored last, which have not left.
        let newest = |random: &mut Random| objects - 1 - random.below(objects / 4);
        let once: Vec<_> = (0..lookups).map(|_| newest(&mut random)).collect();
        let few: Vec<_> = (0..lookups / SKEW).map(|_| newest(&mut random)).collect();
        let hits = look(&rig, once.iter().copied())?;
        let skewed = look(&rig, (0..SKEW).flat_map(|_| few.iter().copied()))?;
        let absent = look(&rig, (0..lookups).map(|nth| objects + nth))?;
        let there: Vec<_> =
            once.iter().copied().take(1000).filter(|object| matches!(rig.get(*object), Ok(Some(_)))).collect();
        // What is under way is lost, and nothing is written at the end.
        let after = Arc::new(disk.cut());
        drop(rig);
        let start = |disk: Arc<Sparse>| {
            let (rig, took) = open(&spec, &disk)?;
            let again = look(&rig, there.iter().copied())?;
            Ok::<_, LabError>((took, again.found as f64 / again.lookups.max(1) as f64))
        };
        let (after_crash, found_after_crash) = start(after.clone())?;
        // That was stopped as usual.
        let (after_stop, found_after_stop) = start(Arc::new(after.cut()))?;
        let (starts, found) = ([after_crash, after_stop], [found_after_crash, found_after_stop]);
        Ok(Run {
            bits,
            room,
            objects,
            stored,
            live: reading.stats.live_objects,
            memory_bytes: reading.stats.index_bytes,
            area_bytes: area_bytes(log_at),
            written: reading.writes.bytes as f64 / stored_bytes.max(1) as f64,
            hits,
            skewed,
            absent,
            starts,
            found,
        })
    }
}

fn run(setup: &Setup) -> Result<Report, LabError> {
    let mut runs = Vec::new();
    for bits in INDEXES {
        tracing::info!("{bits:?} bits");
        runs.push(Run::of(bits, setup)?);
    }
    let Experiment { name, shows, paper, .. } = EXPERIMENT;
    let (tables, plots) = (vec![memory(&runs), reads(&runs), starts(&runs)], vec![plot(&runs)]);
    Ok(Report { name, shows, paper, quick: setup.quick, seed: setup.seed, tables, plots, notes: notes() })
}

fn memory(runs: &[Run]) -> Table {
    let columns = [
        "index",
        "objects there",
        "memory MiB",
        "given MiB",
        "more than given %",
        "bits an object",
        "index on disk MiB",
        "written / stored",
        "us a put",
    ];
    let mut table = Table::new("Memory of the index, as its parts count what they allocated", &columns);
    for run in runs {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let given = run.bits.map(|bits| run.room * bits / 8);
        let beyond = given.filter(|given| *given > 0).map(|given| run.memory_bytes as f64 / given as f64 - 1.0);
        table.row([
            place(run.bits),
            Cell::Count(run.live),
            Cell::number(mib(run.memory_bytes), 2),
            Cell::maybe(given.map(mib), 2),
            beyond.map_or(Cell::Nothing, Cell::percent),
            Cell::number(run.memory_bytes as f64 * 8.0 / run.live.max(1) as f64, 2),
            Cell::maybe(run.bits.map(|_| mib(run.area_bytes)), 1),
            Cell::number(run.written, 3),
            Cell::number(run.stored.as_secs_f64() * 1e6 / run.objects as f64, 1),
        ]);
    }
    table
}

fn reads(runs: &[Run]) -> Table {
    let columns = [
        "index",
        "asked for once: found %",
        "reads a hit",
        "us",
        "four times: reads a hit",
        "us a hit",
        "absent: reads a miss",
        "us a miss",
    ];
    let mut table = Table::new("Reads of lookups, counted at the disk", &columns);
    for Run { bits, hits, skewed, absent, .. } in runs {
        let us = |of: &Looked| Cell::number(of.took.as_secs_f64() * 1e6 / of.lookups.max(1) as f64, 1);
        table.row([
            place(*bits),
            Cell::percent(hits.found as f64 / hits.lookups.max(1) as f64),
            Cell::number(hits.reads_each(), 2),
            us(hits),
            Cell::number(skewed.reads_each(), 2),
            us(skewed),
            Cell::number(absent.reads_each(), 3),
            us(absent),
        ]);
    }
    table
}

fn starts(runs: &[Run]) -> Table {
    let columns = ["index", "start after", "s", "million objects / s", "found %"];
    let mut table = Table::new("Starts", &columns);
    for run in runs {
        for (nth, after) in ["a crash", "a stop"].into_iter().enumerate() {
            let took = run.starts.get(nth).copied().unwrap_or_default().as_secs_f64();
            table.row([
                place(run.bits),
                after.into(),
                Cell::number(took, 2),
                Cell::number(run.live as f64 / took / 1e6, 2),
                Cell::percent(run.found.get(nth).copied().unwrap_or_default()),
            ]);
        }
    }
    table
}

fn plot(runs: &[Run]) -> Plot {
    let groups = runs.iter().map(|run| place(run.bits).to_string()).collect();
    let of =
        |name: &str, looked: fn(&Run) -> Looked| Series::bars(name, runs.iter().map(|run| looked(run).reads_each()));
    let series = vec![
        of("asked for once", |run| run.hits),
        of("asked for four times", |run| run.skewed),
        of("absent", |run| run.absent),
    ];
    Plot::Bars { title: "Reads of a lookup".to_owned(), y: "reads".to_owned(), groups, series }
}

fn notes() -> Vec<String> {
    [
        "The disk is in memory, and times are of this machine, on one thread that waits for each answer. Counts differ a little from run to run, by \
         how soon the engine's own threads have their turn. Bodies are 300 to 1,300 bytes, names and heads 120 more.",
        "Lookups ask for objects of the newest quarter, in no order. What is asked for four times is asked for in rounds, so that all others of \
         them come in between.",
        "A crash is a disk that takes nothing any more from one request to the next, once all was flushed. A start then reads the newest snapshot, \
         and what segments say that were written since.",
    ]
    .map(str::to_owned)
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_reads_are_what_the_bits_allow() {
        let report = run(&Setup::quick()).unwrap();
        let [memory, reads, starts] = &report.tables[..] else { panic!("three tables") };
        let of = |table: &Table, column: &str| {
            table.column(column).into_iter().map(|cell| cell.value().unwrap_or(0.0)).collect::<Vec<_>>()
        };
        let there = of(memory, "objects there");
        assert!(there.iter().all(|there| *there > 30_000.0), "{memory:?}");
        let bits = of(memory, "bits an object");
        assert!(bits.windows(2).all(|pair| pair[0] > pair[1]), "{bits:?}");
        // The fewer bits, the more is read.
        for (column, most) in [("reads a hit", 2.2), ("four times: reads a hit", 2.2), ("absent: reads a miss", 1.1)] {
            let each = of(reads, column);
            assert!(each[0] <= each[4] && each.iter().all(|each| *each < most), "{column}: {each:?}");
        }
        let found = of(starts, "found %");
        assert!(found.iter().all(|found| *found > 95.0), "{found:?}");
    }
}
