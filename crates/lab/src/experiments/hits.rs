//! Figure 6 of the HashCache paper: hit ratios by policy, here over cache sizes as well.

use tinaja_store::{EngineRef, Settings, engines};

use super::table3::name as policy;
use crate::error::LabError;
use crate::experiment::{Experiment, Needs, Setup};
use crate::load::{Drive, Embedded, PolyMix, PolyMixOptions, Request, drive, read_trace};
use crate::paper::hashcache;
use crate::policies::{Lru, Replay, Sequence, replay};
use crate::report::{Cell, Plot, Report, Series, Table};
use crate::rig::{Rig, Spec};

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "hashcache-hits",
    shows: "hit ratios and byte hit ratios by policy and cache size, compared with LRU; also for logs, with --trace",
    paper: "HashCache, Figure 6",
    replays_logs: true,
    takes_requests: false,
    resumes: false,
    needs: Needs::Nothing,
    run,
};

/// Cache sizes as parts of what all objects take together.
const SIZES: [f64; 6] = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2];
/// No engine works on less.
const LEAST_BYTES: u64 = 4 << 20;

/// Every engine as it is of itself; and SetMemLRU with all sets in memory, which is to have SetMem's hits.
fn policies() -> impl Iterator<Item = (EngineRef, Settings)> {
    let all_sets = Settings::new().with(&engines::SETS_IN_MEMORY, 100);
    let usual = hashcache::policies().into_iter().map(|engine| (engine, Settings::new()));
    usual.chain([(engines::HASHCACHE_SETMEMLRU, all_sets)])
}

/// Requests to be replayed.
struct Load {
    title: String,
    requests: Vec<Request>,
    warm_up: usize,
    /// What the objects take that may be asked for again, in bytes.
    all_bytes: u64,
}

fn run(setup: &Setup) -> Result<Report, LabError> {
    let mut loads = vec![polymix(setup)];
    for (number, path) in (1..).zip(&setup.traces) {
        let trace = read_trace(path)?;
        let requests: Vec<_> = trace.requests.into_iter().take(setup.choose(usize::MAX, 20_000)).collect();
        let (title, all_bytes) = (format!("Log {number}, {} requests", requests.len()), distinct_bytes(&requests));
        loads.push(Load { title, requests, warm_up: 0, all_bytes });
    }
    let (mut tables, mut plots) = (Vec::new(), Vec::new());
    for load in &loads {
        let (table, plot) = sizes(load)?;
        tables.push(table);
        plots.push(plot);
    }
    let Experiment { name, shows, paper, .. } = EXPERIMENT;
    Ok(Report { name, shows, paper, quick: setup.quick, seed: setup.seed, tables, plots, notes: notes() })
}

fn polymix(setup: &Setup) -> Load {
    let options = PolyMixOptions::new(Embedded::Zipf13, 100.0, setup.choose(10_000, 1000));
    let views = options.working_set as f64;
    let warm_up = (views * options.requests_a_view() / options.share_of_new_views()) as usize;
    let requests = PolyMix::new(options, setup.seed).take(warm_up + setup.choose(60_000, 5000)).collect();
    let all_bytes = (views * options.stored_bytes_a_view()) as u64;
    Load { title: "The PolyMix-like load".to_owned(), requests, warm_up, all_bytes }
}

fn distinct_bytes(requests: &[Request]) -> u64 {
    let mut seen = std::collections::HashSet::new();
    requests.iter().filter(|request| seen.insert(request.object)).map(|request| request.bytes).sum()
}

fn sizes(load: &Load) -> Result<(Table, Plot), LabError> {
    let columns = ["policy", "cache / objects", "cache MB", "hits %", "bytes %"];
    let mut table = Table::new(format!("{}, {} MB of objects", load.title, load.all_bytes / 1_000_000), &columns);
    let sizes: Vec<_> = SIZES.iter().map(|part| (*part, (load.all_bytes as f64 * part) as u64)).collect();
    let mut series = Vec::new();
    let mut add = |name: &str, ratios: Vec<(f64, u64, f64, f64)>| {
        for (part, bytes, hits, byte_hits) in &ratios {
            let megabytes = Cell::number(*bytes as f64 / 1e6, 1);
            let ratios = [Cell::percent(*hits), Cell::percent(*byte_hits)];
            table.row([name.into(), Cell::number(*part, 1), megabytes].into_iter().chain(ratios));
        }
        // SetMem's curve is that of all sets in memory.
        if !name.ends_with("100 %") {
            series.push(Series::new(name, ratios.iter().map(|(part, _, hits, _)| (*part, hits * 100.0))));
        }
    };
    let reference = |(part, bytes): (f64, u64)| {
        let (hits, byte_hits) = lru(load, bytes);
        (part, bytes, hits, byte_hits)
    };
    add("LRU", sizes.iter().copied().map(reference).collect());
    for (engine, settings) in policies() {
        let name = policy(engine, &settings);
        tracing::info!("{name}: {}", load.title);
        let mut ratios = Vec::new();
        for (part, bytes) in sizes.iter().filter(|(_, bytes)| *bytes >= LEAST_BYTES) {
            let rig = Rig::new(&Spec { settings: settings.clone(), ..Spec::new(engine, bytes >> 12 << 12) })?;
            let how = Drive { warm_up: load.warm_up, ..Drive::default() };
            let outcome = drive(&rig, load.requests.iter().copied(), &how)?;
            ratios.push((*part, *bytes, outcome.hit_ratio(), outcome.byte_hit_ratio()));
        }
        add(&name, ratios);
    }
    let (x, y) = ("cache size / size of the objects".to_owned(), "hits, % of requests".to_owned());
    Ok((table, Plot::Lines { title: format!("Hit ratios: {}", load.title), x, y, series }))
}

/// Hit ratio and byte hit ratio of an exact LRU.
fn lru(load: &Load, bytes: u64) -> (f64, f64) {
    let sequence = Sequence::new(load.requests.iter().copied(), u64::MAX, 0);
    let outcome = replay(&sequence, &mut Lru::new(bytes), Replay { warm_up: load.warm_up, parts: 0 });
    (outcome.hit_ratio(), outcome.sent_hit_ratio())
}

fn notes() -> Vec<String> {
    [
        "Disks are planned for the default average object size of 8 KiB. LRU counts only bodies; an engine's bytes \
         include heads, names, padding, and for engines with a Disk Table the empty part of each bin.",
        "According to Figure 6, all but Basic reach the offered hit ratio, with caches of 18 to 60 GB for a smaller \
         working set. The same holds here: logs need half as much disk again as the objects' bytes, and sets need \
         three times as much, since bins are not full and half as much log comes in addition. Basic loses objects that \
         fall on the same bin.",
        "Log, LogN and LogLRU evict in the order of writing: even popular objects are evicted with their lap and \
         fetched again. SetMem's sets evict by use, but a set holds eight objects, whatever their sizes.",
        "Without an index, Set counts uses only in the 1024 sets that were read last, whose contents it remembers. \
         That covers a disk of 100 MB, so on the smallest three disks it evicts like SetMem, and on larger ones it \
         increasingly evicts the oldest object by writing. SetMemLRU has 40 % of the sets in memory. A set that comes \
         back is read in the order of writing, and its uses are forgotten. So SetMemLRU is below both on small disks, \
         level with Set on large ones, and level with SetMem if all sets are in memory.",
    ]
    .map(str::to_owned)
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_as_large_as_its_objects_has_the_hits_that_are_offered_but_for_basic() {
        let report = run(&Setup::quick()).unwrap();
        let rows = &report.tables[0].rows;
        let hits = |name: &str| {
            let of_it: Vec<_> = rows.iter().filter(|row| row[0].to_string() == name).collect();
            of_it.iter().map(|row| row[3].value().unwrap()).collect::<Vec<_>>()
        };
        let lru = hits("LRU");
        assert!(lru.is_sorted() && (50.0..62.0).contains(lru.last().unwrap()), "{lru:?}");
        for (engine, settings) in policies() {
            let (ratios, best) = (hits(&policy(engine, &settings)), lru.last().unwrap());
            let last = ratios.last().unwrap();
            let lost = if engine == engines::HASHCACHE_BASIC { 3.0..25.0 } else { -0.1..3.0 };
            assert!(lost.contains(&(best - last)), "{engine}: {ratios:?}, LRU {lru:?}");
            assert!(ratios.first().unwrap() + 5.0 < *last, "{engine}: {ratios:?}");
        }
        // The note's reason: on disks of less than 1024 sets Set remembers all of them, and evicts as with all in memory.
        assert_eq!(hits("hashcache-setmemlru 100 %"), hits("hashcache-set"));
    }
}
