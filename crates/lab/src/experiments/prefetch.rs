//! Prefetching (sections 3.5 and 4.3 of the HashCache paper): reads a hit with and without, and bytes read for nothing.

use tinaja_store::limits::GROUP_WINDOW;
use tinaja_store::{EngineRef, engines};

use super::table3::{name, usual};
use crate::error::LabError;
use crate::experiment::{Experiment, Needs, Setup};
use crate::load::{Drive, Embedded, Outcome, PolyMix, PolyMixOptions, Request, drive, read_trace};
use crate::paper::hashcache;
use crate::report::{Cell, Plot, Report, Series, Table};
use crate::rig::{Rig, Spec, sata_7200};

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "hashcache-prefetch",
    shows: "reads per hit with and without prefetching, and bytes read in vain; also for logs, with --trace",
    paper: "HashCache, sections 3.5 and 4.3",
    replays_logs: true,
    takes_requests: false,
    resumes: false,
    needs: Needs::Nothing,
    run,
};

/// Requests to be replayed, and the disk for them.
struct Load {
    title: String,
    requests: Vec<Request>,
    warm_up: usize,
    disk_bytes: u64,
}

fn run(setup: &Setup) -> Result<Report, LabError> {
    let mut loads = vec![polymix(setup, Embedded::Zipf13), polymix(setup, Embedded::TenToTwenty)];
    for (number, path) in (1..).zip(&setup.traces) {
        let requests: Vec<_> = read_trace(path)?.requests.into_iter().take(setup.choose(usize::MAX, 20_000)).collect();
        let mut seen = std::collections::HashSet::new();
        let new = requests.iter().filter(|request| seen.insert(request.object));
        let bytes: u64 = new.map(|request| request.bytes.max(8192)).sum();
        let title = format!("Log {number}: {} requests, {} objects", requests.len(), seen.len());
        loads.push(Load { title, requests, warm_up: 0, disk_bytes: room(bytes) });
    }
    let (mut tables, mut series) = (Vec::new(), [Vec::new(), Vec::new()]);
    for load in &loads {
        let (table, heights) = policies(load)?;
        tables.push(table);
        for (all, height) in series.iter_mut().zip(heights) {
            all.push(height);
        }
    }
    let plot = Plot::Bars {
        title: "Reads a hit of hashcache-log".to_owned(),
        y: "reads a hit".to_owned(),
        groups: loads.iter().map(|load| load.title.split([':', ',']).next().unwrap_or_default().to_owned()).collect(),
        series: ["without prefetch", "with prefetch"]
            .into_iter()
            .zip(series)
            .map(|(name, heights)| Series::bars(name, heights))
            .collect(),
    };
    let Experiment { name, shows, paper, .. } = EXPERIMENT;
    let (quick, seed, plots) = (setup.quick, setup.seed, vec![plot]);
    Ok(Report { name, shows, paper, quick, seed, tables, plots, notes: notes() })
}

/// A disk on which all objects fit with every engine: bins are not full, and sets neither.
fn room(object_bytes: u64) -> u64 {
    (object_bytes * 4).max(64 << 20) >> 12 << 12
}

fn polymix(setup: &Setup, embedded: Embedded) -> Load {
    let options = PolyMixOptions::new(embedded, 100.0, setup.choose(12_000, 600));
    let views = options.working_set as f64;
    let warm_up = (views * options.requests_a_view() / options.share_of_new_views()) as usize;
    let title = match embedded {
        Embedded::Zipf13 => "PolyMix-like, 4 a page",
        Embedded::TenToTwenty => "PolyMix-like, 10 to 20 a page",
    };
    Load {
        title: title.replace(", ", " with "),
        requests: PolyMix::new(options, setup.seed).take(warm_up + setup.choose(60_000, 4000)).collect(),
        warm_up,
        disk_bytes: room((views * options.stored_bytes_a_view()) as u64),
    }
}

/// A row for each policy without and with; and Log's reads a hit of both.
fn policies(load: &Load) -> Result<(Table, [f64; 2]), LabError> {
    let columns = [
        "policy",
        "hits %",
        "reads a hit",
        "KB a read",
        "ahead MB",
        "used %",
        "for nothing %",
        "KB for nothing a hit",
        "peak rate, 7200 turns",
    ];
    let title = format!("{}, {} MB of disk", load.title, load.disk_bytes / 1_000_000);
    let (mut table, mut of_log) = (Table::new(title, &columns), [0.0; 2]);
    for engine in hashcache::policies().into_iter().filter(|engine| engine.has(&engines::PREFETCH)) {
        for (prefetch, of_log) in [false, true].into_iter().zip(&mut of_log) {
            let outcome = measure(engine, prefetch, load)?;
            table.row(row(engine, prefetch, &outcome));
            if engine == engines::HASHCACHE_LOG {
                *of_log = outcome.reads_a_hit();
            }
        }
    }
    Ok((table, of_log))
}

fn measure(engine: EngineRef, prefetch: bool, load: &Load) -> Result<Outcome, LabError> {
    let settings = usual(prefetch);
    tracing::info!("{}: {}", name(engine, &settings), load.title);
    let rig = Rig::new(&Spec { settings, models: vec![sata_7200()], ..Spec::new(engine, load.disk_bytes) })?;
    drive(&rig, load.requests.iter().copied(), &Drive { warm_up: load.warm_up, ..Drive::default() })
}

fn row(engine: EngineRef, prefetch: bool, outcome: &Outcome) -> [Cell; 9] {
    let (reads, stats) = (&outcome.spent.reads, &outcome.spent.stats);
    let share = |bytes: u64| Cell::percent(bytes as f64 / stats.ahead_bytes as f64);
    let each = |bytes: u64, of: u64| Cell::number(bytes as f64 / 1000.0 / of.max(1) as f64, 1);
    let known = |cell: Cell| if prefetch { cell } else { Cell::Nothing };
    [
        name(engine, &usual(prefetch)).into(),
        Cell::percent(outcome.hit_ratio()),
        Cell::number(outcome.reads_a_hit(), 3),
        each(reads.bytes, reads.requests),
        known(Cell::number(stats.ahead_bytes as f64 / 1e6, 1)),
        known(share(stats.ahead_used_bytes)),
        known(share(stats.ahead_wasted_bytes)),
        known(each(stats.ahead_wasted_bytes, outcome.hits)),
        Cell::number(outcome.peak_rate(0), 0),
    ]
}

/// Who is related: how long [`GROUP_WINDOW`] is stands in it, and must.
const RELATED: &str = "Objects are related if one client got them with the same referer (or if they are the page \
    itself), each within 5 s of the previous one, the proxy's window. The driver ends a group half a second after its \
    last object or two seconds after its first, by the times of the requests; the store does the same by the wall \
    clock.";
const _: () = assert!(GROUP_WINDOW.as_secs() == 5);

fn notes() -> Vec<String> {
    [
        "Disks have room for all objects, so hits are the same with and without prefetching; no hot objects are kept \
         in memory. Reads a hit are the reads made while hits are served, divided by all hits. Hits on objects that \
         were read ahead, or were not written yet, need no read.",
        RELATED,
        "Bytes ahead belong to records that were read because they are related to a requested one. Used are those that \
         were requested while they were kept; for nothing are those that were dropped unused (8 MiB are kept per \
         disk). The rest to 100 % is still kept when the run ends.",
        "Bytes are read ahead again each time: a page that is requested again is read completely again.",
        "Engines with a Disk Table still read a bin for each object. They read together only the bodies that do not \
         fit into their bins, and most fit here. Table 4's 1 + 1/rel assumes that none fits.",
        "A position in memory also says how long a record is. So even if little is read ahead, Log and LogLRU read a \
         long object with one request instead of two, and fewer bytes for a short one.",
        "A log's order groups pages without any prefetching too, but then each object is a request. In the \
         PolyMix-like load every object belongs to one page and a page is asked for as a whole: the best case. In real \
         logs pages share objects, browsers already have some of them, and the first client determines the groups.",
    ]
    .map(str::to_owned)
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefetching_reads_less_often_and_says_what_for() {
        let report = run(&Setup::quick()).unwrap();
        let table = &report.tables[1];
        let reads = |name: &str| {
            let row = table.rows.iter().find(|row| row[0].to_string() == name).unwrap();
            (row[1].value().unwrap(), row[2].value().unwrap())
        };
        for engine in ["hashcache-log", "hashcache-loglru"] {
            let ((hits, without), (same, with)) = (reads(engine), reads(&format!("{engine} + prefetch")));
            assert!((hits - same).abs() < 1.0 && with < 0.7 * without, "{engine}: {without} reads a hit, {with} with");
        }
        let ((_, without), (_, with)) = (reads("hashcache-setmem"), reads("hashcache-setmem + prefetch"));
        assert!(with <= without + 0.01 && with >= 0.9, "a bin each: {without} {with}");
        for row in table.rows.iter().filter(|row| row[4] != Cell::Nothing) {
            assert!(row[5].value().unwrap_or(0.0) + row[6].value().unwrap_or(0.0) <= 100.1, "{row:?}");
        }
    }
}
