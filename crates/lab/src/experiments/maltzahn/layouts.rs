//! Figures 3 and 4: what each layout asks of a disk, in files and in the mapped file apart, while half a trace warms it up and the other half is
//! measured. Real files on ext4 on loop devices, one request at a time, caches without end, and so much memory as the paper's
//! machine had for its data.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tinaja_store::device::mapped::{Packing, WithMapped};
use tinaja_store::device::tree::{RealTree, Tree};
use tinaja_store::engine::trees::naming::{Naming, Scheme};
use tinaja_store::engine::trees::{FileTree, Mapped, Replacement, TreeOptions};
use tinaja_store::layout::Stamp;
use tinaja_store::{Cache, Clock, Commit, EngineRef, Hint, Key, Secret, Store, block_on, engines};

use super::cern::{Cern, Served, Urls, Written};
use super::claims::{self, Counted};
use super::ground::{self, Ground};
use super::load::{self, Load, REQUESTS};
use super::measured::Measured;
use crate::error::LabError;
use crate::experiment::{Experiment, Needs, Setup};
use crate::load::Request;
use crate::paper::maltzahn as paper;
use crate::peers::{DiskCount, major_faults};
use crate::progress::Progress;
use crate::report::{Cell, Plot, Report, Series, Table};
use crate::resume::Rows;

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "maltzahn-layouts",
    shows: "what each layout of files and mapped file asks of a disk, on ext4 on loop devices",
    paper: "Maltzahn, Figures 3 and 4",
    replays_logs: true,
    takes_requests: true,
    resumes: true,
    needs: Needs::Time,
    run,
};

/// Views at once: weak and strong locality of hosts.
const AT_ONCE: [usize; 2] = [64, 1];
/// Of a quick run.
const FEW_REQUESTS: usize = 6000;
/// The same with memory for all of the data, and those layouts that are tried so.
const AMPLE_REQUESTS: (usize, usize) = (200_000, 3000);
const AMPLE: [&str; 7] = ["squid", "cern", "cern, the engine", "squidl", "squidm", "squidml", "squidmla"];
/// Requests after which the limit of memory follows what the program itself has come to take.
pub const LIMIT_EVERY: usize = 500;
/// What the store keeps with an object beside its body: a record's header, a name of eight bytes, and the end of a file.
const BESIDE_BYTES: u64 = 56 + 8 + 40 + 8;

/// When nothing is to expire.
const NEVER: u64 = u64::MAX;

/// A layout, and the paper's transactions of SQUID's in percent, where its text says so.
struct Layout {
    name: &'static str,
    engine: Lays,
    /// Whether all directories are made before the first object comes, as `squid -z` does.
    made_first: bool,
    naming: Naming,
    packing: Option<Packing>,
    page_bytes: u32,
    paper_percent: Option<f64>,
}

/// Who lays objects out.
#[derive(Clone, Copy)]
enum Lays {
    Engine(EngineRef),
    /// CERN's layout as the paper has it, with nothing in memory; the engine `cern` keeps a table of its files.
    Cern(Written),
}

fn layouts() -> Vec<Layout> {
    let (first, second) = paper::DIRECTORIES;
    let naming = |scheme, overlapping| Naming { scheme, first, second, files: 256, overlapping };
    let (squid, squidl) = (naming(Scheme::Squid, false), naming(Scheme::SquidL, false));
    let by_url = naming(Scheme::Cern, false);
    let layout = |name, engine, naming, paper_percent| Layout {
        name,
        engine: Lays::Engine(engine),
        made_first: true,
        naming,
        packing: None,
        page_bytes: 8192,
        paper_percent,
    };
    let mapped = |name, engine, naming, packing, paper_percent| Layout {
        packing: Some(packing),
        ..layout(name, engine, naming, paper_percent)
    };
    let [by_host, small, both] = paper::TRANSACTIONS_PERCENT;
    vec![
        layout("squid", engines::SQUID, squid, Some(100.0)),
        Layout { engine: Lays::Cern(Written::Cut), ..layout("cern", engines::CERN, by_url, Some(paper::CERN_PERCENT)) },
        Layout { engine: Lays::Cern(Written::InPlace), ..layout("cern, lists in place", engines::CERN, by_url, None) },
        Layout { made_first: false, ..layout("cern, the engine", engines::CERN, by_url, None) },
        layout("squid2, k = 256", engines::SQUID2, naming(Scheme::Squid2, false), None),
        layout("squidl", engines::SQUIDL, squidl, Some(by_host)),
        Layout { made_first: false, ..layout("squidl, directories as they come", engines::SQUIDL, squidl, None) },
        layout("squidl, overlapping masks", engines::SQUIDL, naming(Scheme::SquidL, true), None),
        layout("squidl-k, k = 256", engines::SQUIDL_K, naming(Scheme::SquidLK, false), None),
        mapped("squidm", engines::SQUIDM, squid, Packing::InOrder, Some(small)),
        mapped("squidml", engines::SQUIDML, squidl, Packing::InOrder, Some(both)),
        mapped("squidmla", engines::SQUIDMLA, squidl, Packing::WithinPages, Some(both)),
        Layout {
            page_bytes: 4096,
            ..mapped("squidmla, pages of 4096", engines::SQUIDMLA, squidl, Packing::WithinPages, None)
        },
    ]
}

impl Layout {
    /// Whether it needs to know of no host.
    fn is_by_number(&self) -> bool {
        matches!(self.naming.scheme, Scheme::Squid | Scheme::Squid2)
    }
}

fn run(setup: &Setup) -> Result<Report, LabError> {
    let (mut tables, mut plots) = (Vec::new(), Vec::new());
    let count = setup.count(REQUESTS, FEW_REQUESTS);
    let at_once = setup.choose(AT_ONCE.to_vec(), vec![1]);
    let mut loads: Vec<_> = at_once.into_iter().map(|at_once| Load::generated(setup, at_once, count)).collect();
    for (number, path) in (1..).zip(&setup.traces) {
        loads.push(Load::of_log(number, path, setup.choose(usize::MAX, count))?);
    }
    let mut all = Vec::new();
    tables.push(load::table(&loads));
    for load in &loads {
        let layouts = layouts().into_iter().filter(|layout| load.knows_hosts || layout.is_by_number());
        let measured = measure_all(setup, load, load.memory_bytes(), layouts)?;
        tables.push(table(&load.title, &measured));
        plots.extend([plot(&load.title, &measured), plot_times(&load.title, &measured)]);
        all.push((load.title.clone(), measured));
    }
    let count = setup.choose(AMPLE_REQUESTS.0, AMPLE_REQUESTS.1).min(count);
    for at_once in setup.choose(AT_ONCE.to_vec(), vec![AT_ONCE[0]]) {
        let ample = Load::generated(setup, at_once, count);
        let layouts = layouts().into_iter().filter(|layout| AMPLE.contains(&layout.name));
        let measured = measure_all(setup, &ample, ample.bytes + (2 << 30), layouts)?;
        let title = format!("{}, {count} requests, memory for all", ample.title);
        tables.push(table(&title, &measured));
        all.push((title, measured));
    }
    let counted: Vec<Counted<'_>> = all
        .iter()
        .map(|(title, measured)| Counted {
            title,
            layouts: measured.iter().map(|(layout, measured)| (layout.name, *measured)).collect(),
        })
        .collect();
    tables.push(claims::table(&counted));
    let read_ahead = all.iter().flat_map(|(_, measured)| measured).find_map(|(_, one)| one.read_ahead_kib);
    let notes = [ground::note(), read_ahead_note(read_ahead)]
        .into_iter()
        .chain(notes())
        .chain(loads.into_iter().filter_map(|load| load.note))
        .collect();
    let Experiment { name, shows, paper, .. } = EXPERIMENT;
    Ok(Report { name, shows, paper, quick: setup.quick, seed: setup.seed, tables, plots, notes })
}

fn measure_all(
    setup: &Setup,
    load: &Load,
    memory_bytes: u64,
    layouts: impl Iterator<Item = Layout>,
) -> Result<Vec<(Layout, Measured)>, LabError> {
    let rows = Rows::of(EXPERIMENT.name, setup.resume.as_deref())?;
    let mut measured = Vec::new();
    for layout in layouts {
        let memory = memory_bytes >> 20;
        let of = format!("{}, {memory} MiB of memory: {}", load.identity(setup.seed), layout.name);
        let row = rows.row(&of, || measure(setup, load, memory_bytes, &layout))?;
        measured.push((layout, row));
    }
    Ok(measured)
}

fn measure(setup: &Setup, load: &Load, memory_bytes: u64, layout: &Layout) -> Result<Measured, LabError> {
    // Blocks of 4 KiB, inodes, directories, and a journal.
    let disk_bytes = (load.bytes + load.objects * 8192 + (256 << 20)).next_multiple_of(1 << 20);
    let mapped_bytes = (load.segment_bytes + load.segment_bytes / 8 + (1 << 20)).next_multiple_of(8192);
    let files = Ground::make(setup, disk_bytes)?;
    // Inodes take a sixteenth of it, and a journal of its own.
    let apart = layout.packing.map(|_| Ground::make(setup, mapped_bytes / 8 * 9 + (256 << 20))).transpose()?;
    // A process's counters do not tell one file from another.
    let apart_counted = apart.as_ref().filter(|apart| matches!(apart, Ground::Disk(_)));
    let mapped = layout.packing.map(|packing| Mapped {
        bytes: mapped_bytes,
        page_bytes: layout.page_bytes,
        packing,
        replacement: Replacement::Lru,
    });
    let work = || {
        let mapped_at = apart.as_ref().map(|apart| apart.dir().join("mapped"));
        let mut replayer = Replayer::open(&files.dir(), mapped_at.as_deref(), layout, mapped)?;
        let (first, second) = load.requests.split_at(load.measured_from());
        let mut progress = Progress::of(format!("{}: {}", load.title, layout.name), load.requests.len());
        let mut step = |number: usize| {
            progress.step();
            if number.is_multiple_of(LIMIT_EVERY) { files.leave_for_files(memory_bytes) } else { Ok(()) }
        };
        replayer.replay(first, &mut step)?;
        let before = (files.count(), apart_counted.map(Ground::count).unwrap_or_default());
        let (faults, began) = (major_faults(), Instant::now());
        let hits = replayer.replay(second, &mut step)?;
        let after = (files.count(), apart_counted.map(Ground::count).unwrap_or_default());
        let (took, faults) = (began.elapsed(), major_faults() - faults);
        let resident_bytes = replayer.resident_bytes();
        replayer.close()?;
        let (counted, mapped) = (after.0 - before.0, after.1 - before.1);
        let (requests, read_ahead_kib) = (second.len() as u64, files.read_ahead_kib());
        Ok(Measured { requests, hits, files: counted, mapped, faults, resident_bytes, took, read_ahead_kib })
    };
    files.within(work)?
}

/// What requests are put to.
enum Replayer {
    /// An engine, behind the store's contract; with URLs where it lays objects out by them.
    Store {
        store: Cache,
        mapped: Option<Arc<WithMapped>>,
        urls: Option<Urls>,
    },
    Cern {
        cern: Cern,
        urls: Urls,
    },
}

impl Replayer {
    fn open(
        dir: &Path,
        mapped_at: Option<&Path>,
        layout: &Layout,
        mapped: Option<Mapped>,
    ) -> Result<Replayer, LabError> {
        match layout.engine {
            Lays::Engine(engine) => {
                if layout.made_first {
                    make_directories(&dir.join("objects"), layout.naming)
                        .map_err(|why| LabError::failed("making directories", why))?;
                }
                open(dir, mapped_at, engine, layout.naming, mapped)
            }
            Lays::Cern(written) => {
                let cern = Cern::beneath(dir, written).map_err(|why| LabError::failed("opening a cache", why))?;
                Ok(Replayer::Cern { cern, urls: Urls::default() })
            }
        }
    }

    /// One request after the other; how many were hits. What was written is on the disk in the end.
    fn replay(
        &mut self,
        requests: &[Request],
        step: &mut dyn FnMut(usize) -> Result<(), LabError>,
    ) -> Result<u64, LabError> {
        let longest = requests.iter().map(|request| request.bytes).max().unwrap_or_default();
        let body = Bytes::from(vec![0x5A; longest as usize]);
        match self {
            Replayer::Store { store, urls, .. } => replay(store, urls.as_mut(), requests, &body, step),
            Replayer::Cern { cern, urls } => {
                let failed = |why: std::io::Error| LabError::failed("replaying requests as CERN", why);
                let (mut hits, mut into) = (0, vec![0; longest as usize]);
                for (number, request) in requests.iter().enumerate() {
                    step(number)?;
                    let bytes = ..request.bytes as usize;
                    let (body, into) = (body.get(bytes).unwrap_or_default(), into.get_mut(bytes).unwrap_or_default());
                    let served = cern.request(&urls.url(request), 0, body, NEVER, into).map_err(failed)?;
                    hits += u64::from(served == Served::Hit);
                }
                cern.sync().map_err(failed)?;
                Ok(hits)
            }
        }
    }

    /// Of the mapped file in memory.
    fn resident_bytes(&self) -> u64 {
        match self {
            Replayer::Store { mapped, .. } => mapped.as_ref().map(|mapped| mapped.resident_bytes()).unwrap_or_default(),
            Replayer::Cern { .. } => 0,
        }
    }

    fn close(self) -> Result<(), LabError> {
        match self {
            Replayer::Store { store, .. } => {
                block_on(store.close()).map_err(|why| LabError::failed("closing a cache", why))
            }
            Replayer::Cern { .. } => Ok(()),
        }
    }
}

fn make_directories(objects: &Path, naming: Naming) -> std::io::Result<()> {
    for (x, y) in (0..naming.first).flat_map(|x| (0..naming.second).map(move |y| (x, y))) {
        std::fs::create_dir_all(objects.join(format!("{x:02X}/{y:02X}")))?;
    }
    Ok(())
}

fn open(
    dir: &Path,
    mapped_at: Option<&Path>,
    engine: EngineRef,
    naming: Naming,
    mapped: Option<Mapped>,
) -> Result<Replayer, LabError> {
    let failed = |why: String| LabError::failed("opening a cache", why);
    let secret = Secret::from_bytes([7; 32]);
    let objects = dir.join("objects");
    std::fs::create_dir_all(&objects).map_err(|why| failed(why.to_string()))?;
    let mut tree: Arc<dyn Tree> = Arc::new(RealTree::open(&objects).map_err(|why| failed(why.to_string()))?);
    let both = mapped
        .zip(mapped_at)
        .map(|(mapped, path)| WithMapped::over(tree.clone(), path, mapped.bytes, secret.seed(), false).map(Arc::new));
    let both = both.transpose().map_err(|why| failed(why.to_string()))?;
    if let Some(both) = &both {
        tree = both.clone();
    }
    let options = TreeOptions {
        engine,
        naming,
        bytes: u64::MAX / 4,
        mapped,
        mean_object_bytes: 8192,
        stamp: Stamp { seed: secret.seed() },
        clock: Clock::system(),
        flush_every: None,
        read_only: false,
    };
    let engine = FileTree::open(tree, options).map_err(failed)?;
    let store = Cache::over_by(Clock::system(), Arc::new(engine), secret, 0).map_err(|why| failed(why.to_string()))?;
    let urls = (naming.scheme == Scheme::Cern).then(Urls::default);
    Ok(Replayer::Store { store, mapped: both, urls })
}

fn replay(
    store: &Cache,
    mut urls: Option<&mut Urls>,
    requests: &[Request],
    body: &Bytes,
    step: &mut dyn FnMut(usize) -> Result<(), LabError>,
) -> Result<u64, LabError> {
    let failed = |why: String| LabError::failed("replaying requests", why);
    let mut hits = 0;
    for (number, request) in requests.iter().enumerate() {
        step(number)?;
        let mut key = Key::from_name(&request.object.to_le_bytes());
        if let Some(urls) = &mut urls {
            key = key.at_url(&urls.url(request));
        }
        match block_on(store.find(&key)) {
            Some(mut hit) => {
                hits += 1;
                block_on(hit.body.collect(usize::MAX)).map_err(|why| failed(format!("an object was lost: {why}")))?;
            }
            None => {
                let bytes = request.bytes.saturating_sub(BESIDE_BYTES).max(1);
                let hint = Hint { expected_bytes: Some(bytes), site: Some(request.host), ..Hint::default() };
                let mut writer = store.put(&key, Bytes::new(), hint);
                block_on(writer.write(body.slice(..bytes as usize)));
                if let Commit::NotStored(why) = block_on(writer.commit()) {
                    return Err(failed(format!("an object was not stored: {why}")));
                }
            }
        }
    }
    block_on(store.flush()).map_err(|why| failed(why.to_string()))?;
    Ok(hits)
}

fn table(title: &str, measured: &[(Layout, Measured)]) -> Table {
    let columns = [
        "layout",
        "hits %",
        "file reads",
        "file writes",
        "mapped reads",
        "mapped writes",
        "of squid's %",
        "paper",
        "reads of all %",
        "paper",
        "KB a file transaction",
        "KB a mapped one",
        "page faults",
        "mapped MiB in memory",
        "seconds",
        "of squid's %",
    ];
    let mut table = Table::new(format!("{title}: transactions of the second half"), &columns);
    let squid = measured.first().map(|(_, run)| *run).unwrap_or_default();
    let kilobytes = |disk: DiskCount| {
        let transactions = (disk.reads + disk.writes) as f64;
        Cell::number((disk.read_bytes + disk.write_bytes) as f64 / 1000.0 / transactions, 1)
    };
    for (layout, run) in measured {
        table.row([
            layout.name.into(),
            Cell::percent(run.hits as f64 / run.requests.max(1) as f64),
            Cell::Count(run.files.reads),
            Cell::Count(run.files.writes),
            Cell::Count(run.mapped.reads),
            Cell::Count(run.mapped.writes),
            Cell::number(run.transactions() as f64 / squid.transactions() as f64 * 100.0, 0),
            Cell::maybe(layout.paper_percent, 0),
            Cell::percent((run.files.reads + run.mapped.reads) as f64 / run.transactions() as f64),
            // Figure 3 has these two.
            if matches!(layout.name, "squid" | "cern") { Cell::number(paper::READS_PERCENT, 0) } else { Cell::Nothing },
            kilobytes(run.files),
            if layout.packing.is_some() { kilobytes(run.mapped) } else { Cell::Nothing },
            Cell::Count(run.faults),
            Cell::number(run.resident_bytes as f64 / f64::from(1 << 20), 1),
            Cell::number(run.took.as_secs_f64(), 1),
            Cell::number(run.took.as_secs_f64() / squid.took.as_secs_f64() * 100.0, 0),
        ]);
    }
    table
}

fn plot(title: &str, measured: &[(Layout, Measured)]) -> Plot {
    let bars = |name: &str, disk: fn(&Measured) -> DiskCount| {
        let heights = measured.iter().map(|(_, run)| disk(run)).map(|disk| (disk.reads + disk.writes) as f64 / 1000.0);
        Series::bars(name, heights.collect::<Vec<_>>())
    };
    Plot::Bars {
        title: format!("Transactions of a disk, {title} (Figures 3 and 4)"),
        y: "thousands".to_owned(),
        groups: measured.iter().map(|(layout, _)| layout.name.to_owned()).collect(),
        series: vec![bars("files", |run| run.files), bars("mapped file", |run| run.mapped)],
    }
}

fn plot_times(title: &str, measured: &[(Layout, Measured)]) -> Plot {
    Plot::Bars {
        title: format!("Duration, {title} (Figure 4)"),
        y: "seconds".to_owned(),
        groups: measured.iter().map(|(layout, _)| layout.name.to_owned()).collect(),
        series: vec![Series::bars("all", measured.iter().map(|(_, run)| run.took.as_secs_f64()).collect::<Vec<_>>())],
    }
}

fn read_ahead_note(kib: Option<u64>) -> String {
    let files = kib.map_or("as the kernel likes".to_owned(), |kib| format!("{kib} KiB"));
    format!(
        "Read-ahead: in files {files}, as the devices say; in the mapping none (MADV_RANDOM). A segment of the mapped file is written whole, by one `pwrite`, so that a page \
         that is new is not read first."
    )
}

fn notes() -> Vec<String> {
    [
        "The requests are the generated load of maltzahn-locality. The first table says how many; with fewer than 1.25 million there are fewer \
         pages to ask for. Hits read the whole object, misses write it. Caches have no end and \
         there are no expiries. Transactions are those that reached the loop devices, as /proc/diskstats counts them, until all of the \
         second half was synced. Files and mapped file have a file system each, without read-ahead in the mapping (MADV_RANDOM).",
        "A control group leaves files 1/16 of the data, as 512 MB are of 8 GB, and 32 MB at least, beside the program's own anonymous memory, in \
         which its index is. In that sixteenth is all that the kernel keeps of files: their pages, and inodes, names and directories, some \
         1.4 KB a file. With `memory for all` none of it has to leave.",
        "CERN's layout keeps nothing in memory: each request looks for a lock file, reads its directory's list, and for a miss makes \
         the directories that are missing, a lock file, the object and the list anew, by the code for lists and locks of the engine `cern`. `cern, the \
         engine` is that engine behind the store's contract, which has a table of its files in memory besides and asks the list for a hit only. The \
         generated load has no URLs: each 16 pages of a host, with what is asked for with them first, lie in one directory here.",
        "The paper finds CERN's transactions `surprisingly similar` to SQUID's, on AdvFS, Digital's file system with a log. Here they are twice as many with 100,000 requests and three times with 1.25 million, 1.6 to 2.6 times with `lists in place`: an object has a list and a lock file besides, and each directory an inode and a block of its own. A list that is cut and \
         written anew (`cern`) is written to the disk by ext4 as soon as it is closed (auto_da_alloc); `lists in place` does without.",
        "The paper has two writes for each read. By SQUID on the generated loads it is the other way round here, since what is written goes to \
         the disk in large pieces, several files in one transaction.",
        "The store keeps 112 bytes with each object. Its body is that much shorter here, so that as many objects are small as in the \
         trace.",
        "The kernel's pages have 4096 bytes, the paper's 8192: a segment of 8 KiB is two pages here, and without read-ahead each is read by itself.",
        "ext4 differs from the paper's UFS where it matters here: a file that is made costs no write of its own, but entries in a \
         journal that is written in one go, where UFS wrote its inode and its directory in their places before it went on; data waits for its \
         place until it is written back, so that files made one after the other lie one after the other and are written together, whatever directory \
         they are in; and names that were looked up stay in a cache of the kernel's. What is left of the cost of many directories are reads of inodes and \
         directory blocks that have left memory.",
        "SQUIDM saves writes, and reads of inodes and directories; what is left is one page fault a hit, and two where a segment lies on two of \
         the kernel's pages. With memory for all of the data next to nothing is read, and what is left are the writes that each layout is worth: \
         there SQUIDM does with the paper's 40 % of 100,000 requests, and with 65 and 80 % of 200,000. On log 1 it does with 40 % in any case.",
        "SQUIDL does not halve SQUID's transactions here. It reads fewer inodes and directories, as the paper says, but ext4 allocates files of one directory near to each other, in another place for each \
         directory, so that its writes are twice as many, which takes away half of what it saves with 100,000 requests, and more than all of it with 1.25 million. The directories of all \
         engines are made before the first object comes, as `squid -z` does. Where SQUIDL's are made as hosts come, later ones lie in other \
         parts of the disk and its writes are more still; with 256 directories, by overlapping masks, they are fewer. On log 1, with nine files a \
         directory, reads of directories and inodes are most of SQUID's cost: `squid2`, which fills one directory after the other, does with less than a third.",
    ]
    .map(str::to_owned)
    .to_vec()
}
