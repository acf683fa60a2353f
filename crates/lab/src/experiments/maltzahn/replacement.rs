//! Figure 6: what replacement in a mapped file costs a disk that holds six times what fits into memory. Objects of 8 KiB and less, one
//! request at a time, a real file on ext4 on a loop device; half of the requests warm it up, and the other half is measured.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tinaja_store::device::mapped::WithMapped;
use tinaja_store::device::tree::{Call, MemoryTree, Tree};
use tinaja_store::engine::trees::Replacement;

use super::finite::{Cache, Came, Cleaning, LOOKED_AT, Replayer};
use super::future::Placements;
use super::ground::{self, Ground};
use super::layouts::LIMIT_EVERY;
use super::load::{Load, REQUESTS};
use crate::error::LabError;
use crate::experiment::{Experiment, Needs, Setup};
use crate::paper::maltzahn as paper;
use crate::peers::{DiskCount, Reclaimed, major_faults};
use crate::progress::Progress;
use crate::report::{Cell, Plot, Report, Series, Table};

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "maltzahn-replacement",
    shows: "LRU, FBC and future-looking replacement in a mapped file six times as large as its memory",
    paper: "Maltzahn, Figure 6, sections 3.3 to 3.6 and 7",
    replays_logs: true,
    takes_requests: true,
    resumes: false,
    needs: Needs::Time,
    run,
};

/// Views at once in the generated load.
const AT_ONCE: usize = 64;
/// Of a quick run.
const FEW_REQUESTS: usize = 60_000;
/// The paper does not say how many bytes its small objects had. A log with less than these is given a smaller file, so that as much has
/// to leave it.
const FULL_SMALL_BYTES: u64 = 700_000_000;
/// Bytes of a file that the kernel still has memory enough for.
const LEAST_BYTES: u64 = 6 << 20;
/// How often it is looked what of the file is in memory.
const LOOKS: usize = 50;
/// When so much of the memory that maps the file was written, all of it goes to the disk: where the kernel begins to write by default.
const CLEANED_AT: f64 = 0.1;
/// And sooner or later.
const CLEANED_ALSO_AT: [f64; 3] = [0.02, 0.05, 0.3];
/// And as often as that, by the requests' times: Unix did every 30 seconds.
const CLEANED_EVERY: [Duration; 4] =
    [Duration::from_secs(5), Duration::from_secs(30), Duration::from_secs(300), Duration::from_secs(1800)];
const CMAX: [u32; 4] = [2, 3, 5, 10];
const AMAX: [u32; 6] = [2, 3, 5, 10, 40, 100];

/// Who makes room.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    Engine(Replacement),
    /// LRU, and of its candidates the first on a page in memory.
    Resident,
    Future,
}

impl Rule {
    const ALL: [(&'static str, Rule); 4] = [
        ("LRU", Rule::Engine(Replacement::Lru)),
        ("FBC", Rule::Engine(Replacement::FBC)),
        ("LRU, on pages in memory", Rule::Resident),
        ("future-looking", Rule::Future),
    ];

    fn cache(self, load: &Load, file_bytes: u64) -> Cache {
        match self {
            Rule::Engine(replacement) => Cache::by_rule(replacement, file_bytes, false),
            Rule::Resident => Cache::by_rule(Replacement::Lru, file_bytes, true),
            Rule::Future => Cache::planned(&load.requests, file_bytes),
        }
    }
}

/// What was counted in the measured half.
#[derive(Clone, Copy, Default)]
struct Measured {
    came: Came,
    disk: DiskCount,
    took: Duration,
    faults: u64,
    /// Of the file in memory, and of that what was to be written: means of what was seen.
    resident_bytes: f64,
    dirty_share: f64,
    /// What the kernel took out of memory meanwhile.
    reclaimed: Reclaimed,
    agings: u64,
    cleanings: u64,
}

impl Measured {
    fn transactions(&self) -> u64 {
        self.disk.reads + self.disk.writes
    }
}

fn run(setup: &Setup) -> Result<Report, LabError> {
    let count = setup.count(REQUESTS, FEW_REQUESTS);
    let mut loads = vec![Load::generated(setup, AT_ONCE, count).small()];
    for (number, path) in (1..).zip(&setup.traces) {
        loads.push(Load::of_log(number, path, setup.choose(usize::MAX, count))?.small());
    }
    let mut caches = Table::new(
        "The loads, objects of 8 KiB and less, and the file",
        &["load", "requests", "objects", "MB of objects", "MiB of the file", "paper", "MiB that map it", "paper"],
    );
    let (mut tables, mut plots) = (Vec::new(), Vec::new());
    for load in &loads {
        let file_bytes = file_bytes(load);
        caches.row([
            load.title.as_str().into(),
            Cell::Count(load.requests.len() as u64),
            Cell::Count(load.objects),
            Cell::number(load.bytes as f64 / 1e6, 0),
            Cell::number(file_bytes as f64 / f64::from(1 << 20), 1),
            Cell::number(paper::FILE_MIB.0, 0),
            Cell::number(file_bytes as f64 / paper::FILE_TO_MEMORY / f64::from(1 << 20), 1),
            Cell::number(paper::FILE_MIB.1, 0),
        ]);
        let mut measured = Vec::new();
        for (name, rule) in Rule::ALL {
            let cleaning = cleaned_at(file_bytes, CLEANED_AT);
            measured.push((name, measure(setup, load, (name, rule), file_bytes, cleaning)?));
        }
        tables.extend([transactions(load, &measured), met(load, &measured), plan(load, file_bytes)]);
        tables.push(cleaning(setup, load, file_bytes)?);
        tables.push(sweep(load, file_bytes)?);
        plots.extend(figure(load, &measured));
    }
    tables.insert(0, caches);
    let notes =
        [ground::note()].into_iter().chain(notes()).chain(loads.into_iter().filter_map(|load| load.note)).collect();
    let Experiment { name, shows, paper, .. } = EXPERIMENT;
    Ok(Report { name, shows, paper, quick: setup.quick, seed: setup.seed, tables, plots, notes })
}

/// The paper's file for a load as large as its own, and less for less.
fn file_bytes(load: &Load) -> u64 {
    let paper = paper::FILE_MIB.0 * f64::from(1 << 20);
    let share = (load.bytes as f64 / FULL_SMALL_BYTES as f64).min(1.0);
    ((paper * share) as u64).max(LEAST_BYTES).next_multiple_of(8192)
}

/// The memory that maps the file.
fn memory_bytes(file_bytes: u64) -> u64 {
    (file_bytes as f64 / paper::FILE_TO_MEMORY) as u64
}

fn cleaned_at(file_bytes: u64, share: f64) -> Cleaning {
    Cleaning::After((memory_bytes(file_bytes) as f64 * share) as u64)
}

/// Half of the requests to warm up, the other half measured, until all that was written is on the disk.
fn measure(
    setup: &Setup,
    load: &Load,
    (name, rule): (&str, Rule),
    file_bytes: u64,
    cleaning: Cleaning,
) -> Result<Measured, LabError> {
    let ground = Ground::make(setup, (file_bytes + (96 << 20)).next_multiple_of(1 << 20))?;
    let failed = |why: std::io::Error| LabError::failed("making a mapped file", why);
    let path = ground.dir().join("mapped");
    let open = || {
        let below: Arc<dyn Tree> = Arc::new(MemoryTree::default());
        WithMapped::over(below, &path, file_bytes, 7, false).map_err(failed)
    };
    // Made and filled from outside: its pages are on nobody's account then, and none of its blocks is unwritten.
    drop(open()?);
    ground.write_through(&path)?;
    let (first, second) = load.requests.split_at(load.measured_from());
    ground.within(|| {
        let memory_bytes = memory_bytes(file_bytes);
        // What the replay itself takes grows as it goes on.
        let limit = |number: usize| match number % LIMIT_EVERY {
            0 => ground.leave_for_files(memory_bytes),
            _ => Ok(()),
        };
        let (tree, mut cache) = (open()?, rule.cache(load, file_bytes));
        let mut replayer = Replayer::new(Some(&tree), cleaning);
        let mut progress = Progress::of(format!("{}: {name}", load.title), load.requests.len());
        replayer.replay(&mut cache, first, |number| {
            progress.step();
            limit(number)
        })?;
        tree.call(Call::Sync).map_err(failed)?;
        let (before, faults, agings, began) = (ground.count(), major_faults(), cache.counts().0, Instant::now());
        let (cleanings, reclaimed) = (replayer.cleanings(), Reclaimed::so_far());
        let (mut looks, mut resident, mut dirty) = (0_u32, 0.0, 0.0);
        let look_every = (second.len() / LOOKS).max(1);
        let came = replayer.replay(&mut cache, second, |number| {
            progress.step();
            if number % look_every == look_every - 1 {
                looks += 1;
                resident += tree.resident_bytes() as f64;
                dirty += ground.dirty_bytes() as f64;
            }
            limit(number)
        })?;
        tree.call(Call::Sync).map_err(failed)?;
        Ok(Measured {
            came,
            took: began.elapsed(),
            disk: ground.count() - before,
            faults: major_faults() - faults,
            resident_bytes: resident / f64::from(looks.max(1)),
            dirty_share: dirty / resident,
            reclaimed: Reclaimed::so_far() - reclaimed,
            agings: cache.counts().0 - agings,
            cleanings: replayer.cleanings() - cleanings,
        })
    })?
}

fn transactions(load: &Load, measured: &[(&str, Measured)]) -> Table {
    let columns = [
        "replacement",
        "hits %",
        "reads",
        "writes",
        "of LRU's %",
        "paper",
        "KB a transaction",
        "seconds",
        "of LRU's %",
        "page faults",
        "MiB in memory",
        "agings",
    ];
    let mut table = Table::new(format!("{}: transactions of the second half (Figure 6)", load.title), &columns);
    let lru = measured.first().map(|(_, run)| *run).unwrap_or_default();
    for ((name, run), paper) in measured.iter().zip(["most", "less, hits as LRU's", "", "least"]) {
        let bytes = (run.disk.read_bytes + run.disk.write_bytes) as f64;
        table.row([
            (*name).into(),
            Cell::percent(run.came.hit_share()),
            Cell::Count(run.disk.reads),
            Cell::Count(run.disk.writes),
            Cell::number(run.transactions() as f64 / lru.transactions() as f64 * 100.0, 0),
            paper.into(),
            Cell::number(bytes / 1000.0 / run.transactions() as f64, 1),
            Cell::number(run.took.as_secs_f64(), 1),
            Cell::number(run.took.as_secs_f64() / lru.took.as_secs_f64() * 100.0, 0),
            Cell::Count(run.faults),
            Cell::number(run.resident_bytes / f64::from(1 << 20), 1),
            Cell::Count(run.agings),
        ]);
    }
    table
}

/// The three factors of section 3.3.
fn met(load: &Load, measured: &[(&str, Measured)]) -> Table {
    let columns = [
        "replacement",
        "objects replaced",
        "their page is in memory %",
        "not, and it is written whole %",
        "not, and it is read first %",
        "their page is to be written already %",
        "far from the one before of its size %",
        "of pages that left memory to be written first %",
        "of pages in memory to be written %",
    ];
    let mut table = Table::new(format!("{}: what replacements met (section 3.3)", load.title), &columns);
    for (name, run) in measured {
        let replaced = run.came.replaced;
        let share = |count: u64| Cell::percent(count as f64 / replaced.all as f64);
        table.row([
            (*name).into(),
            Cell::Count(replaced.all),
            share(replaced.resident),
            share(replaced.whole),
            share(replaced.all - replaced.resident - replaced.whole),
            share(replaced.dirty),
            share(replaced.jumps),
            run.reclaimed.dirty_share().map_or(Cell::Nothing, Cell::percent),
            Cell::percent(run.dirty_share),
        ]);
    }
    table
}

/// The placement table of section 3.4.
fn plan(load: &Load, file_bytes: u64) -> Table {
    let columns =
        ["objects", "asked for more than once", "packed by popularity", "that replace one of them", "left out"];
    let mut table = Table::new(format!("{}: the placement table (section 3.4)", load.title), &columns);
    let Placements { worth_it, packed, replacing, .. } = Placements::of(&load.requests, file_bytes);
    table.row([load.objects, worth_it, packed, replacing, worth_it - packed - replacing].map(Cell::Count));
    table
}

/// What it costs to write what has changed more or less often.
fn cleaning(setup: &Setup, load: &Load, file_bytes: u64) -> Result<Table, LabError> {
    let columns = [
        "what was written goes to the disk",
        "times, LRU",
        "LRU's reads",
        "LRU's writes",
        "times, FBC",
        "FBC's reads",
        "FBC's writes",
        "FBC's of LRU's %",
    ];
    let title = format!("{}: transactions by how often pages are cleaned (section 3.1)", load.title);
    let mut table = Table::new(title, &columns);
    let by_share = setup.choose(CLEANED_ALSO_AT.to_vec(), vec![0.3]).into_iter().map(|at| {
        (format!("when it is {:.0} % of the memory that maps the file", at * 100.0), cleaned_at(file_bytes, at))
    });
    let by_time = setup.choose(CLEANED_EVERY.to_vec(), vec![CLEANED_EVERY[1]]);
    let by_time = by_time
        .into_iter()
        .map(|every| (format!("every {} s of the requests", every.as_secs()), Cleaning::Every(every)));
    for (when, cleaning) in by_share.chain(by_time) {
        let run = |name, replacement| {
            let name = format!("{name}, cleaned {when}");
            measure(setup, load, (&name, Rule::Engine(replacement)), file_bytes, cleaning)
        };
        let (lru, fbc) = (run("LRU", Replacement::Lru)?, run("FBC", Replacement::FBC)?);
        table.row([
            when.into(),
            Cell::Count(lru.cleanings),
            Cell::Count(lru.disk.reads),
            Cell::Count(lru.disk.writes),
            Cell::Count(fbc.cleanings),
            Cell::Count(fbc.disk.reads),
            Cell::Count(fbc.disk.writes),
            Cell::number(fbc.transactions() as f64 / lru.transactions() as f64 * 100.0, 0),
        ]);
    }
    Ok(table)
}

/// FBC's two settings, without I/O.
fn sweep(load: &Load, file_bytes: u64) -> Result<Table, LabError> {
    let columns =
        ["Cmax", "Amax", "hits %", "agings", "mean count in the end", "far from the one before of its size %"];
    let mut table = Table::new(format!("{}: FBC by its settings, of the second half", load.title), &columns);
    let (first, second) = load.requests.split_at(load.measured_from());
    for cmax in CMAX {
        for amax in AMAX {
            let mut cache = Cache::by_rule(Replacement::Cyclic { cmax, amax }, file_bytes, false);
            let mut replayer = Replayer::new(None, Cleaning::After(0));
            replayer.replay(&mut cache, first, |_| Ok(()))?;
            let before = cache.counts().0;
            let came = replayer.replay(&mut cache, second, |_| Ok(()))?;
            let (agings, mean) = cache.counts();
            table.row([
                Cell::Count(cmax.into()),
                Cell::Count(amax.into()),
                Cell::percent(came.hit_share()),
                Cell::Count(agings - before),
                Cell::number(mean, 2),
                Cell::percent(came.replaced.jumps as f64 / came.replaced.all as f64),
            ]);
        }
    }
    Ok(table)
}

fn figure(load: &Load, measured: &[(&str, Measured)]) -> [Plot; 2] {
    let point = |(name, run): &(&str, Measured)| {
        Series::new(*name, [(run.transactions() as f64 / 1000.0, run.came.hit_share() * 100.0)])
    };
    let seconds = measured.iter().map(|(_, run)| run.took.as_secs_f64()).collect::<Vec<_>>();
    [
        Plot::Lines {
            title: format!("Transactions and hits, {} (Figure 6a)", load.title),
            x: "thousands of transactions".to_owned(),
            y: "hits, %".to_owned(),
            series: measured.iter().map(point).collect(),
        },
        Plot::Bars {
            title: format!("Duration, {} (Figure 6b)", load.title),
            y: "seconds".to_owned(),
            groups: measured.iter().map(|(name, _)| (*name).to_owned()).collect(),
            series: vec![Series::bars("duration", seconds)],
        },
    ]
}

fn notes() -> Vec<String> {
    [
        "The rules are the engines' own, over the engines' own mapped file: hits are copied out of the mapping (MADV_RANDOM: nothing is \
         read ahead), misses are written with pwrite. A control group limits the replay to its own anonymous memory and a sixth of the \
         file; what the kernel needs to keep pages of the file is in that sixth. What was written goes to the disk when it is a tenth of that, as a kernel with so little memory would have it: \
         this one has more, and does not look at the group's. Transactions are those that reached the loop device, until all was \
         written."
            .to_owned(),
        "FBC's transactions lie nearer to each other than LRU's, as the paper says, but it does not save more time than transactions here: a disk \
         without an arm does not care. Durations include the question whether a page is in memory, once for each object that is \
         replaced and up to 33 times with `LRU, on pages in memory`."
            .to_owned(),
        "The third factor of section 3.3 is whether the page that has to leave memory, for that of the object, must be written first. The kernel \
         chooses it, and prefers clean ones: a dirty page whose turn it is goes to the disk and gets another turn. `Of pages that left \
         memory to be written first` counts those turns among all, by /proc/vmstat (nr_vmscan_immediate_reclaim beside pgsteal_file), which \
         is of the whole machine: the rows of the first tables are true if nothing else makes it short of memory meanwhile. Their share is \
         small, since what was written is cleaned early; so the paper's worst case, two transactions for one replacement, hardly comes here, \
         and writes are those of cleaning. `Their page is to be written already` is another thing, of the object's own page: one write \
         more to it costs no transaction more."
            .to_owned(),
        "The kernel's pages have 4096 bytes, the paper's 8192: a segment of 4096 bytes is a whole page here, and nothing is read when one \
         that is not in memory is written over."
            .to_owned(),
        format!(
            "`LRU, on pages in memory` is not in the paper but what its section 7 asks for: of the {LOOKED_AT} objects asked for least \
             recently the first whose page is in memory goes (mincore), else the first of all. It hardly helps: what was not asked for the longest \
             lies on pages that have left memory, of nearly all of the {LOOKED_AT}."
        ),
        "Figure 6 is a picture without figures in the text. What the text says: LRU has the most transactions; FBC has less at the same hit \
         rate and saves more time than transactions, as they are nearer to each other; the future-looking table shows that another \
         10 % are possible. Here it shows more: the first table has both as shares of LRU's."
            .to_owned(),
        "FBC has more hits than LRU here, where the paper has as many: an object that was asked for three times outlasts every turn. Amax of 100 is \
         never reached: the mean of all counts stays far below it; low values of it cost hits. The lower Cmax is the more hits there are, and the more jumps."
            .to_owned(),
    ]
    .to_vec()
}
