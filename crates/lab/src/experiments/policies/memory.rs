//! What an index costs by the memory it gets: the engine's policy, simulated with an index on disk, beside HashCache's engines.

use tinaja_store::{EngineRef, Settings as StoreSettings, engines};

use super::loads::Load;
use crate::error::LabError;
use crate::experiment::{Experiment, Needs, Setup};
use crate::policies::{
    Asked, Budget, Engine, Generational, Outcome, Policy, REFERENCES, Reads, Replay, Settings, replay,
};
use crate::report::{Cell, Plot, Report, Series, Table};

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "policies-memory",
    shows: "hits and reads of the engine's policy by the memory of its index, simulated; for logs with --trace",
    paper: "no paper: ours beside HashCache's engines",
    replays_logs: true,
    takes_requests: false,
    resumes: false,
    needs: Needs::Nothing,
    run,
};

/// Disks as parts of the footprint, and the one that HashCache's engines are on too.
const DISKS: [f64; 3] = [0.05, 0.10, 0.20];
const ENGINES_DISK: f64 = 0.10;
/// Smaller ones have too few segments for several logs.
const LEAST_DISK: u64 = 20_000_000;
/// Bits for each object on the disk.
const BITS: [f64; 7] = [0.0, 1.0, 3.0, 8.0, 12.0, 20.0, 32.0];
const BESIDE: [&str; 3] = ["S3-FIFO", "GDSF", "FIFO"];
/// The fewest bits first.
const ENGINES: [EngineRef; 4] =
    [engines::HASHCACHE_SET, engines::HASHCACHE_SETMEM, engines::HASHCACHE_LOGLRU, engines::HASHCACHE_LOG];
/// For objects of this size the engines' disks are cut: the default of a new cache.
const MEAN_OBJECT_BYTES: u64 = 8192;

/// One load on one disk.
struct Run<'a> {
    load: &'a Load,
    part: f64,
    /// By [`BESIDE`].
    beside: Vec<Outcome>,
    /// With all of the index in memory, as it ships, and the objects on the disk at the end.
    whole: Outcome,
    objects: u64,
    /// By [`BITS`].
    by_bits: Vec<Simulated>,
    /// By [`ENGINES`], on one of the disks.
    engines: Vec<Measured>,
    /// The engine itself there, by [`BITS`], and with its index in memory at the end.
    itself: Vec<Measured>,
}

struct Simulated {
    budget: Budget,
    outcome: Outcome,
    reads: Reads,
    /// Memory that the index took at the most.
    memory_bytes: u64,
}

/// An engine itself.
struct Measured {
    reads: Reads,
    hit_ratio: f64,
    /// Of memory, for each object that has room.
    bits: f64,
    /// Bytes of memory of the index.
    memory_bytes: u64,
    /// Bytes written for each that was stored.
    written: f64,
}

impl<'a> Run<'a> {
    /// Errors: an engine gave other bytes than were stored. `None` where the disk is too small.
    fn of(load: &'a Load, part: f64, disk_bytes: u64, with_engines: bool) -> Result<Option<Run<'a>>, LabError> {
        let how = Replay::default();
        let by_name = |name: &&str| REFERENCES.iter().find(|policy| policy.name == *name);
        let beside =
            BESIDE.iter().filter_map(by_name).map(|policy| replay(&load.sequence, &mut *(policy.new)(disk_bytes), how));
        let Some(mut policy) = Generational::new(disk_bytes, Settings::default()) else { return Ok(None) };
        let whole = replay(&load.sequence, &mut policy, how);
        let objects = policy.live();
        let by_bits = BITS.iter().filter_map(|bits| {
            let budget = Budget::of(*bits, objects);
            let mut policy = Generational::new(disk_bytes, Settings { index: Some(budget), ..Settings::default() })?;
            let outcome = replay(&load.sequence, &mut policy, how);
            let (reads, memory_bytes) = policy.reads()?;
            Some(Simulated { budget, outcome, reads, memory_bytes })
        });
        let engines = ENGINES.iter().filter(|_| with_engines);
        let of_size =
            |bytes| move |engine: &EngineRef| Measured::of(engine, StoreSettings::new(), load, disk_bytes, bytes);
        let engines = engines.map(of_size(MEAN_OBJECT_BYTES)).collect::<Result<_, _>>()?;
        let (by_bits, beside) = (by_bits.collect(), beside.collect());
        let itself = if with_engines { Measured::by_bits(load, disk_bytes, objects)? } else { Vec::new() };
        Ok(Some(Run { load, part, beside, objects, by_bits, engines, itself, whole }))
    }

    /// By how many points an outcome is above one of [`BESIDE`].
    fn points(&self, outcome: &Outcome, other: &str) -> f64 {
        let found = BESIDE.iter().zip(&self.beside).find(|(name, _)| **name == other);
        (outcome.hit_ratio() - found.map_or(0.0, |(_, of)| of.hit_ratio())) * 100.0
    }
}

/// An engine whose lookups' reads are counted.
struct Counted {
    engine: Engine,
    reads: Reads,
    /// Stored until lookups count.
    disk_bytes: u64,
    stored: u64,
}

impl Policy for Counted {
    fn ask(&mut self, asked: &Asked) -> bool {
        let counts = self.stored >= self.disk_bytes;
        let before = self.engine.rig().requests();
        let is_hit = self.engine.get(asked);
        let read = self.engine.rig().requests().reads - before.reads;
        if !is_hit {
            self.stored += asked.bytes;
            self.engine.put(asked);
        }
        if counts {
            let now = self.engine.rig().requests();
            self.reads.count(is_hit, read);
            self.reads.stores += (now.reads - before.reads - read + now.writes - before.writes) as f64;
        }
        is_hit
    }

    fn written(&self) -> Option<(u64, u64)> {
        self.engine.written()
    }
}

impl Measured {
    /// The engine with its index on the disk, by [`BITS`], and with all of it in memory. It is told the mean size.
    fn by_bits(load: &Load, disk_bytes: u64, objects: u64) -> Result<Vec<Measured>, LabError> {
        let memory = |bits: f64| (objects as f64 * bits / 8.0) as u64;
        let on_disk = BITS.map(|bits| StoreSettings::new().with(&engines::INDEX_MEMORY, memory(bits)));
        let mean = disk_bytes / objects.max(1);
        let of = |settings| Measured::of(&engines::GENERATIONAL, settings, load, disk_bytes, mean);
        on_disk.into_iter().chain([StoreSettings::new()]).map(of).collect()
    }

    fn of(
        engine: &EngineRef,
        settings: StoreSettings,
        load: &Load,
        disk_bytes: u64,
        mean_object_bytes: u64,
    ) -> Result<Measured, LabError> {
        let engine = Engine::new(engine, settings, disk_bytes, mean_object_bytes)?;
        let mut counted = Counted { engine, reads: Reads::default(), disk_bytes, stored: 0 };
        let outcome = replay(&load.sequence, &mut counted, Replay::default());
        let stats = counted.engine.rig().read().stats;
        let bits = stats.index_bytes as f64 * 8.0 / stats.slots.max(1) as f64;
        match counted.engine.failed() {
            Some(wrong) => Err(wrong),
            None => Ok(Measured {
                reads: counted.reads,
                hit_ratio: outcome.hit_ratio(),
                bits,
                memory_bytes: stats.index_bytes,
                written: outcome.written.unwrap_or(0.0),
            }),
        }
    }
}

/// Figures of several runs.
struct Figures(Vec<f64>);

impl Figures {
    fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len().max(1) as f64
    }

    fn most(&self) -> f64 {
        self.0.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }

    fn least(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

impl FromIterator<f64> for Figures {
    fn from_iter<I: IntoIterator<Item = f64>>(figures: I) -> Figures {
        Figures(figures.into_iter().collect())
    }
}

fn run(setup: &Setup) -> Result<Report, LabError> {
    let loads = Load::all(setup)?;
    let disks: &[f64] = setup.choose(&DISKS, &[ENGINES_DISK]);
    let least = setup.choose(LEAST_DISK, 0);
    let mut runs = Vec::new();
    for load in &loads {
        for part in disks {
            let disk_bytes = (load.sequence.bytes as f64 * part) as u64;
            if disk_bytes >= least {
                tracing::info!("{}: a disk of {} %", load.title(), part * 100.0);
                runs.extend(Run::of(load, *part, disk_bytes, *part == ENGINES_DISK)?);
            }
        }
    }
    let tables =
        vec![by_bits(&runs), itself(&runs), parts(&runs), beside_engines(&runs), engines(&runs), by_run(&runs)];
    let Experiment { name, shows, paper, .. } = EXPERIMENT;
    let plots = vec![plot(&runs)];
    Ok(Report { name, shows, paper, quick: setup.quick, seed: setup.seed, tables, plots, notes: notes() })
}

/// What of each run is of so many bits.
fn simulated<'a>(runs: &'a [Run<'a>], at: usize) -> impl Iterator<Item = (&'a Run<'a>, &'a Simulated)> {
    runs.iter().filter_map(move |run| Some((run, run.by_bits.get(at)?)))
}

fn by_bits(runs: &[Run<'_>]) -> Table {
    let columns = [
        "bits",
        "runs",
        "to S3-FIFO",
        "worst",
        "to GDSF",
        "worst",
        "to FIFO",
        "to all in memory",
        "reads a hit",
        "most",
        "reads a miss",
        "most",
        "written / stored",
        "most",
    ];
    let mut table = Table::new(
        "Points of object hits, and reads, by the bits that the index has in memory for each object",
        &columns,
    );
    for (at, bits) in BITS.iter().enumerate() {
        let all = || simulated(runs, at);
        let points = |name: &str| all().map(|(run, of)| run.points(&of.outcome, name)).collect::<Figures>();
        let to_whole = all().map(|(run, of)| (of.outcome.hit_ratio() - run.whole.hit_ratio()) * 100.0);
        let hits: Figures = all().map(|(_, of)| of.reads.a_hit()).collect();
        let misses: Figures = all().map(|(_, of)| of.reads.a_miss()).collect();
        let written: Figures = all().filter_map(|(_, of)| of.outcome.written).collect();
        let (s3fifo, gdsf) = (points("S3-FIFO"), points("GDSF"));
        let mut row = vec![Cell::number(*bits, 0), Cell::Count(all().count() as u64)];
        let points = [s3fifo.mean(), s3fifo.least(), gdsf.mean(), gdsf.least(), points("FIFO").mean()];
        row.extend(
            points.into_iter().chain([to_whole.collect::<Figures>().mean()]).map(|points| Cell::number(points, 1)),
        );
        row.extend([hits.mean(), hits.most(), misses.mean(), misses.most()].map(|reads| Cell::number(reads, 2)));
        row.extend([written.mean(), written.most()].map(|written| Cell::number(written, 3)));
        table.row(row);
    }
    table
}

/// What the memory is used for.
fn parts(runs: &[Run<'_>]) -> Table {
    let columns = ["bits", "filter", "changes", "copies", "bits in all", "most taken", "merged when so much is new %"];
    let mut table = Table::new("What the bits are used for", &columns);
    for (at, bits) in BITS.iter().enumerate() {
        let Some((_, Simulated { budget, .. })) = simulated(runs, at).next() else { continue };
        let parts = [budget.filter, budget.change_bits(), budget.copies, budget.bits()];
        let parts = parts.map(|bits| Cell::number(bits, 1)).into_iter();
        let taken = simulated(runs, at).map(|(run, of)| of.memory_bytes as f64 * 8.0 / run.objects.max(1) as f64);
        let behind = [Cell::number(taken.collect::<Figures>().mean(), 1), Cell::number(budget.changes * 100.0, 2)];
        table.row([Cell::number(*bits, 0)].into_iter().chain(parts).chain(behind));
    }
    table
}

/// Reads and writes a request, beside an engine of as many bits at most that finds as much.
fn beside_engines(runs: &[Run<'_>]) -> Table {
    let mut columns = vec!["bits", "runs", "ours"];
    columns.extend(ENGINES.map(|engine| engine.name));
    columns.extend(["best of no more bits", "ours / that"]);
    let title = "Reads and writes a request, if HashCache's engines found as many objects: what a hit and a miss take them, at our hits";
    let mut table = Table::new(title, &columns);
    for (at, bits) in BITS.iter().enumerate() {
        let all = || simulated(runs, at).filter(|(run, _)| run.engines.len() == ENGINES.len());
        // An engine reads a long record in two, and the simulation in one.
        let long = |run: &Run<'_>| run.engines.last().map_or(0.0, |log| (log.reads.a_hit() - 1.0).max(0.0));
        let ours = |run: &Run<'_>, of: &Simulated| {
            let hit_ratio = of.reads.hit_ratio();
            of.reads.ios_a_request(hit_ratio) + long(run) * hit_ratio
        };
        let theirs = |run: &Run<'_>, of: &Simulated, engine: usize| {
            let engine = run.engines.get(engine)?;
            Some((engine.bits, engine.reads.ios_a_request(of.reads.hit_ratio())))
        };
        let mean =
            |engine: usize| all().filter_map(|(run, of)| Some(theirs(run, of, engine)?.1)).collect::<Figures>().mean();
        let best = |run: &Run<'_>, of: &Simulated| {
            let affordable = (0..ENGINES.len()).filter_map(|engine| theirs(run, of, engine));
            let affordable = affordable.filter(|(needs, _)| needs.floor() <= *bits).map(|(_, reads)| reads);
            affordable.fold(f64::INFINITY, f64::min)
        };
        let bests: Figures = all().map(|(run, of)| best(run, of)).collect();
        let ratio = |(run, of)| Some(ours(run, of) / best(run, of)).filter(|ratio| *ratio > 0.0);
        let ratios: Figures = all().filter_map(ratio).collect();
        let mut row = vec![Cell::number(*bits, 0), Cell::Count(all().count() as u64)];
        row.push(Cell::number(all().map(|(run, of)| ours(run, of)).collect::<Figures>().mean(), 2));
        row.extend((0..ENGINES.len()).map(|engine| Cell::number(mean(engine), 2)));
        row.extend([bests.mean(), ratios.mean()].map(|figure| Cell::number(figure, 2)));
        table.row(row);
    }
    table
}

/// HashCache's engines themselves.
fn engines(runs: &[Run<'_>]) -> Table {
    let columns =
        ["engine", "runs", "bits a slot", "objects found %", "reads a hit", "reads a miss", "besides, to store"];
    let mut table = Table::new("HashCache's engines on the disk of a tenth", &columns);
    for (at, engine) in ENGINES.iter().enumerate() {
        let all = || runs.iter().filter_map(|run| run.engines.get(at));
        let mean = |of: fn(&Measured) -> f64| all().map(of).collect::<Figures>().mean();
        let mut row = vec![engine.name.into(), Cell::Count(all().count() as u64), Cell::number(mean(|of| of.bits), 1)];
        row.push(Cell::percent(mean(|of| of.hit_ratio)));
        row.extend(
            [mean(|of| of.reads.a_hit()), mean(|of| of.reads.a_miss()), mean(|of| of.reads.a_store())]
                .map(|reads| Cell::number(reads, 2)),
        );
        table.row(row);
    }
    table
}

/// The engine itself beside its simulation.
fn itself(runs: &[Run<'_>]) -> Table {
    let columns = [
        "bits",
        "runs",
        "to S3-FIFO",
        "worst",
        "to simulated",
        "worst",
        "reads a hit",
        "simulated",
        "reads a miss",
        "simulated",
        "written / stored",
        "most",
        "bits taken",
    ];
    let title = "The engine itself on the disk of a tenth: points of object hits, and requests to read";
    let mut table = Table::new(title, &columns);
    for at in 0..=BITS.len() {
        let all = || runs.iter().filter_map(move |run| Some((run, run.itself.get(at)?)));
        let to = |other: fn(&Run<'_>, usize) -> Option<f64>| {
            all().filter_map(|(run, of)| Some((of.hit_ratio - other(run, at)?) * 100.0)).collect::<Figures>()
        };
        let s3fifo = to(|run, _| Some(run.beside.first()?.hit_ratio()));
        let simulated_of = to(|run, at| {
            let simulated = run.by_bits.get(at).map(|of| &of.outcome);
            Some(simulated.unwrap_or(&run.whole).hit_ratio())
        });
        let mean =
            |of: &dyn Fn(&Run<'_>, &Measured) -> f64| all().map(|(run, it)| of(run, it)).collect::<Figures>().mean();
        let reads = |of: fn(&Reads) -> f64| {
            let simulated = |run: &Run<'_>| run.by_bits.get(at).map(|it| of(&it.reads));
            let simulated = all().filter_map(|(run, _)| simulated(run)).collect::<Figures>();
            let simulated = (at < BITS.len()).then(|| simulated.mean());
            [Cell::number(mean(&|_, it| of(&it.reads)), 2), Cell::maybe(simulated, 2)]
        };
        let mut row: Vec<Cell> = vec![BITS.get(at).map_or("in memory".into(), |bits| Cell::number(*bits, 0))];
        row.push(Cell::Count(all().count() as u64));
        row.extend(
            [s3fifo.mean(), s3fifo.least(), simulated_of.mean(), simulated_of.least()]
                .map(|points| Cell::number(points, 1)),
        );
        row.extend(reads(Reads::a_hit));
        row.extend(reads(Reads::a_miss));
        let written: Figures = all().map(|(_, it)| it.written).collect();
        row.extend([written.mean(), written.most()].map(|written| Cell::number(written, 3)));
        let taken = mean(&|run, it| it.memory_bytes as f64 * 8.0 / run.objects.max(1) as f64);
        row.push(Cell::number(taken, 1));
        table.row(row);
    }
    table
}

fn by_run(runs: &[Run<'_>]) -> Table {
    let mut columns = vec!["load", "disk %", "objects", "S3-FIFO", "GDSF", "all in memory"];
    let names = BITS.map(|bits| format!("{bits} bits"));
    columns.extend(names.iter().map(String::as_str));
    let mut table = Table::new("Objects found, %, by bits in memory", &columns);
    for run in runs {
        let mut row = vec![run.load.title().into(), Cell::number(run.part * 100.0, 0), Cell::Count(run.objects)];
        row.extend(run.beside.iter().take(2).chain([&run.whole]).map(|outcome| Cell::percent(outcome.hit_ratio())));
        row.extend(run.by_bits.iter().map(|of| Cell::percent(of.outcome.hit_ratio())));
        table.row(row);
    }
    table
}

fn plot(runs: &[Run<'_>]) -> Plot {
    let curve = |reads: fn(&Simulated) -> f64| {
        let mean = |at: usize| simulated(runs, at).map(|(_, of)| reads(of)).collect::<Figures>().mean();
        BITS.iter().enumerate().map(|(at, bits)| (*bits, mean(at))).collect::<Vec<_>>()
    };
    let series = vec![
        Series::new("a hit", curve(|of| of.reads.a_hit())),
        Series::new("a request", curve(|of| of.reads.a_request(of.reads.hit_ratio()))),
        Series::new("a miss", curve(|of| of.reads.a_miss())),
    ];
    Plot::Lines {
        title: "Reads by the memory of the index".to_owned(),
        x: "bits an object on the disk".to_owned(),
        y: "reads".to_owned(),
        series,
    }
}

fn notes() -> Vec<String> {
    [
        "All of the simulated index is on the disk, in pages of 4 KiB by hash, each entry 46 bits (18 of hash, 28 \
         of position in blocks of 4 KiB, enough for 1 TiB) with a fifth of the places empty, and made anew in sequence when so much is new. In \
         memory are what has changed since, a Bloom filter over each page, and copies of entries (8 bits of hash, 2 of hits, 28 of position), \
         which leave by a variant of CLOCK. Filter and copies are the store's code. Changes are counted as 70 bits each.",
        "`The engine itself` is `generational` with its index on the disk (`engines::INDEX_MEMORY`), over a disk in memory, told the mean size of the \
         objects. Its pages are blocks of 4 KiB, with 46 bits a slot (12 of hash, 2 of hits, 32 of position) and a \
         quarter more slots than objects of that size. A change takes 9 bytes of a cell, and as many may come as make the table a twentieth of what is written, or as a \
         quarter of the memory has room for. A copy has 10 bits of hash, 2 of hits, and as many of position as the disk asks for: 26 to 32. There are 256 copies at the \
         least, and a few KiB of other tables: on small disks that is many bits an object, `bits taken`. It reads along as the simulation does, but \
         only where no record of a part of the segment was replaced or removed. It reads three times the mean of a segment's records at first, as far as their class of size goes. \
         What its index in memory reads a hit beyond one is for longer records, and for the parts of large objects, which the simulation leaves out.",
        "A hit takes one read if memory leads to the record, and two by the table; then 32 KiB behind the record are read along, and the entries \
         of what lies there are copied. A miss takes none where the filter knows better, and one by the table. Where the copy of another object \
         has the same hash, there is one more. Lookups count once as many bytes have been stored as the disk has.",
        "A record counts as one read, however long: an engine reads a long one in two, and a large object in several. It is found by looking \
         through its block. Whether two objects of a page have the same 18 bits is not simulated, and neither are removals, newer versions, and \
         restarts. That an object has left not long ago is known until the table is made anew. The bytes that merging writes are in \
         `written / stored`; it reads as many. An object that only the table knows counts as one that nobody has asked for.",
        "Bits are for each object that is on the disk at the end with all of the index in memory. `most taken` is what filter and copies take, with \
         the most changes that there were: what is written again while segments leave can exceed its part for a moment. The row of 0 bits \
         still has 0.28, for changes.",
        "How the bits are shared, and how much is read along, was chosen on the generated loads and bu98.",
        "HashCache's engines are the engines themselves, over a disk in memory. What they read a hit and a miss is counted around each lookup; \
         what they read and write besides is what storing takes. Ours writes, and reads to merge, in requests as large as a batch: nobody \
         flushes in between, on either side. Where requests stand beside each other, ours has what hashcache-log reads beyond one a hit \
         added, since that is for long records. `bits a slot` is memory of the index for each object that has room, on a disk cut for objects \
         of 8 KiB. Ours is compared with the engine that needs the fewest among those whose bits a slot, rounded down, are no more.",
        "Disks below 20 MB are left out: their segments are few.",
    ]
    .map(str::to_owned)
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_memory_reads_less_and_finds_no_less() {
        let report = run(&Setup::quick()).unwrap();
        let table = &report.tables[0];
        let column = |name: &str| table.column(name).into_iter().map(|cell| cell.value().unwrap()).collect::<Vec<_>>();
        let (hits, misses) = (column("reads a hit"), column("reads a miss"));
        assert_eq!(hits.len(), BITS.len());
        // Without memory each hit takes a read of the table and one of the record, but for what has just come.
        assert!(hits[0] > 1.9 && hits[0] <= 2.0 && misses[0] > 0.97 && misses[0] <= 1.0, "{hits:?} {misses:?}");
        assert!(hits.windows(2).all(|pair| pair[1] < pair[0]) && hits[BITS.len() - 1] < 1.2, "{hits:?}");
        // The first copies cost misses a little, where another object has the same hash: with 1 bit there is no filter yet.
        assert!(misses.windows(2).skip(1).all(|pair| pair[1] < pair[0]) && misses[BITS.len() - 1] < 0.1, "{misses:?}");
        let to_whole = column("to all in memory");
        assert!(to_whole.iter().all(|points| *points > -6.0) && to_whole[BITS.len() - 1] > -2.0, "{to_whole:?}");
        let engines = &report.tables[4];
        let bits: Vec<_> = engines.column("bits a slot").into_iter().map(|cell| cell.value().unwrap()).collect();
        assert!(bits[0] < 1.0 && bits[3] > 30.0, "{bits:?}");
        // The engine itself: with more memory it reads less, and with all of its index in memory no miss reads.
        let itself = &report.tables[1];
        let reads = |column: usize| itself.rows.iter().map(move |row| row[column].value().unwrap()).collect::<Vec<_>>();
        let (hits, misses) = (reads(6), reads(8));
        assert!(hits[0] > hits[3] && hits[3] > hits[BITS.len()], "{hits:?}");
        assert!(misses[0] > 0.9 && misses[3] < misses[0] && misses[BITS.len()] < 0.01, "{misses:?}");
    }
}
