//! Table 3 of the HashCache paper: what each policy costs in memory and in seeks.

mod costs;
pub mod formula;
mod full_sets;
mod sweeps;

use tinaja_store::engine::hashcache::settings::DEFAULT_SETS_IN_MEMORY;
use tinaja_store::{EngineRef, Settings, Store, engines};

use self::costs::Costs;
use self::sweeps::Setting;
use crate::error::LabError;
use crate::experiment::{Experiment, Needs, Setup};
use crate::load::codeen_bytes;
use crate::paper::hashcache::{paper_bits, paper_seeks, policies};
use crate::random::Random;
use crate::report::{Cell, Plot, Report, Series, Table};
use crate::rig::{Rig, Spec};

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "hashcache-table3",
    shows: "the cost of each policy: bits per slot and per live object, losses to full sets, seeks",
    paper: "HashCache, Table 3",
    replays_logs: false,
    takes_requests: false,
    resumes: false,
    needs: Needs::Nothing,
    run,
};

fn run(setup: &Setup) -> Result<Report, LabError> {
    let (losses, mut plots) = losses(setup)?;
    let one_block: &dyn Fn(&mut Random) -> u64 = &|_| 6000;
    let mut tables = vec![bits(setup)?, losses];
    tables.push(seeks(setup, "Requests for objects of one block (6000 bytes)", 0.5, one_block)?);
    tables.push(seeks(setup, "Requests for objects of Table 5's sizes", 0.4, &codeen_bytes)?);
    for (title, setting, settings, from) in [
        ("SetMemLRU: share of the sets in memory", "% of sets", sweeps::set_mem_lru(setup)?, 11.0),
        ("LogLRU: positions of eight in memory", "k", sweeps::log_lru(setup)?, 47.0),
    ] {
        plots.push(sweep_plot(title, setting, &settings, from));
        tables.push(sweep_table(title, setting, &settings));
    }
    let Experiment { name, shows, paper, .. } = EXPERIMENT;
    Ok(Report { name, shows, paper, quick: setup.quick, seed: setup.seed, tables, plots, notes: notes() })
}

/// Every engine; those that can prefetch a second time, with it.
pub fn with_and_without_prefetch() -> impl Iterator<Item = (EngineRef, bool)> {
    let both = policies().into_iter().flat_map(|engine| [(engine, false), (engine, true)]);
    both.filter(|(engine, prefetch)| !prefetch || engine.has(&engines::PREFETCH))
}

/// An engine's name in a table, with what it is set to.
pub fn name(engine: EngineRef, settings: &Settings) -> String {
    let share = settings.get(&engines::SETS_IN_MEMORY).unwrap_or(DEFAULT_SETS_IN_MEMORY);
    let share = if engine.has(&engines::SETS_IN_MEMORY) { format!(" {share} %") } else { String::new() };
    format!("{engine}{share}{}", if settings.is_on(&engines::PREFETCH) { " + prefetch" } else { "" })
}

/// The settings that an engine has of itself, with prefetching or without.
pub fn usual(prefetch: bool) -> Settings {
    Settings::new().with(&engines::PREFETCH, prefetch.into())
}

/// Bits a slot: the paper's row, its formula, and what was allocated.
fn bits(setup: &Setup) -> Result<Table, LabError> {
    let columns = ["policy", "slots", "paper", "formula", "bits a slot", "index bytes"];
    let mut table = Table::new("Bits a slot, all that is allocated for the index", &columns);
    for (engine, prefetch) in with_and_without_prefetch() {
        let spec = Spec { settings: usual(prefetch), ..Spec::new(engine, setup.choose(16 << 30, 1 << 30)) };
        let stats = Rig::new(&spec)?.store.stats();
        table.row([
            name(engine, &spec.settings).into(),
            stats.slots.into(),
            paper_bits(engine, prefetch).into(),
            Cell::number(formula::bits_a_slot(engine, &spec.settings, stats.slots), 2),
            Cell::number(stats.bits_per_slot(), 2),
            stats.index_bytes.into(),
        ]);
    }
    Ok(table)
}

/// What is lost to full sets at several loads, and what a live object costs then.
fn losses(setup: &Setup) -> Result<(Table, Vec<Plot>), LabError> {
    let columns = ["policy", "objects a slot", "bits a live object", "lost, %", "predicted, %"];
    let mut table = Table::new("Objects lost to full sets, nothing ever overwritten", &columns);
    let mut series = Vec::new();
    for engine in policies() {
        tracing::info!("{engine}: filling sets");
        let losses = full_sets::losses(engine, setup)?;
        for (load, loss) in full_sets::LOADS.iter().zip(&losses) {
            table.row([
                name(engine, &Settings::new()).into(),
                Cell::number(*load, 3),
                Cell::number(loss.bits_a_live_object, 2),
                Cell::percent(loss.lost),
                Cell::percent(full_sets::predicted(engine, *load)),
            ]);
        }
        let points = full_sets::LOADS.iter().zip(&losses).map(|(load, loss)| (*load, loss.lost * 100.0));
        series.push(Series::new(engine.name, points));
    }
    let title = "Objects lost to full sets".to_owned();
    let plot = Plot::Lines { title, x: "objects put for each slot".into(), y: "% lost".into(), series };
    Ok((table, vec![plot]))
}

/// Requests and seeks of each kind of operation.
fn seeks(setup: &Setup, title: &str, load: f64, size: &dyn Fn(&mut Random) -> u64) -> Result<Table, LabError> {
    let columns = [
        "policy",
        "paper: read / write / miss",
        "reads a hit",
        "seeks a hit",
        "reads of a beginning",
        "writes a store",
        "seeks a store",
        "reads a miss",
        "seeks a miss",
        "found, %",
    ];
    let mut table = Table::new(format!("{title}, {load} a slot"), &columns);
    for (engine, prefetch) in with_and_without_prefetch() {
        let settings = usual(prefetch);
        let policy = name(engine, &settings);
        tracing::info!("{policy}: counting seeks");
        let spec = Spec { settings, ..Spec::new(engine, setup.choose(512 << 20, 64 << 20)) };
        let Costs { found, hit, beginning, miss, store } = costs::costs(&spec, load, setup.seed, size)?;
        let beginning = beginning.map_or(f64::NAN, |beginning| beginning.reads);
        let numbers = [hit.reads, hit.seeks, beginning, store.writes, store.seeks, miss.reads, miss.seeks];
        let names = [Cell::from(policy), paper_seeks(engine, prefetch).into()];
        table.row(names.into_iter().chain(numbers.map(|number| Cell::number(number, 3))).chain([Cell::percent(found)]));
    }
    Ok(table)
}

fn sweep_table(title: &str, setting: &str, settings: &[Setting]) -> Table {
    let columns = [
        setting,
        "formula",
        "bits a slot",
        "formula + prefetch",
        "bits + prefetch",
        "reads a hit, random",
        "reads a miss, random",
        "reads a hit, PolyMix",
        "reads a miss, PolyMix",
    ];
    let mut table = Table::new(title, &columns);
    for one in settings {
        let numbers = [one.random.0, one.random.1, one.polymix.0, one.polymix.1];
        let bits = [one.formula, one.bits, one.with_prefetch.1, one.with_prefetch.0].map(|bits| Cell::number(bits, 2));
        let bits = [Cell::from(u64::from(one.value))].into_iter().chain(bits);
        table.row(bits.chain(numbers.map(|number| Cell::number(number, 3))));
    }
    table
}

fn sweep_plot(title: &str, setting: &str, settings: &[Setting], full: f64) -> Plot {
    let curve = |name: &str, of: fn(&Setting) -> f64| {
        Series::new(name, settings.iter().map(|one| (f64::from(one.value), of(one))))
    };
    let whole = Series::new("bits with all in memory", settings.iter().map(|one| (f64::from(one.value), full)));
    Plot::Lines {
        title: title.to_owned(),
        x: setting.to_owned(),
        y: "bits a slot".to_owned(),
        series: vec![curve("bits, measured", |one| one.bits), curve("bits, formula", |one| one.formula), whole],
    }
}

fn notes() -> Vec<String> {
    [
        "Bits a slot are summed from the allocations: they include locks, links and padding, which the formulas leave \
         out.",
        "With prefetching a position in memory has eight bits more. The paper's minimum of 23 is 15 + 8, a length \
         without its position; here the minimum is 20 with one position, 15 + 40 k/8.",
        "Predicted losses: the number of objects per set is Poisson-distributed, and all beyond its ways are lost. All \
         but Log and LogN keep only one of two objects in a set with the same fingerprint, a 255th of all pairs; Basic \
         has one way.",
        "Seeks with prefetching: five objects each, a page and PolyMix-4's four, are related, stored one after \
         another, and later requested page by page, with the pages far from each other. Without prefetching each \
         object comes alone. A group is read in one request by Log and LogLRU, so that four of five hits need none; \
         engines with a Disk Table read a bin for each object, and together only what does not fit its bin. The paper \
         has rows with prefetching for Log and LogLRU.",
        "A store is counted after the lookup that missed, as in a proxy: the set that the lookup read is not read \
         again. Without that lookup, Set would read it first.",
        "A hit costs SetMemLRU a read of a whole set if the set's row is not in memory, and of one bin if it is. A \
         miss costs a read only in the first case. With 40 % of the rows in memory there are therefore 0.6 reads a \
         miss at random, and fewer if some sets are used more often.",
        "Log and LogN write batches: a write for each tenth of a second or 2 MiB, whichever comes first. Here objects \
         arrive as fast as possible; at 100 a second a write has about ten of them.",
        "SetMemLRU's rows break even with SetMem's whole array near 63 % of the sets, not near 50 %: a row's links and \
         the number of its set are packed into as few bits as possible, while the paper counts pointers. With more \
         rows the links are longer: 40 % of the sets cost 6.98 bits a slot on this disk of 16 GiB, 6.6 on one of 4 \
         GiB, 7.39 on one of 64 GiB (hashcache-index).",
        "LogLRU's hits cost a second read where the position is on disk. In sets that are half full (0.5 objects a \
         slot) it is for a third of them, with 0.4 for a quarter: a set of eight then often holds more than k = 4 \
         objects, and the objects requested here are the least recently used.",
        "Of Table 5's sizes a quarter is larger than a block: engines with a Disk Table read the rest from the log, a \
         second seek; the head and the first bytes are in the bin (section 3.1), one read. Engines with only a log \
         first read half as much again as the mean; a longer record is read completely by a second request, which \
         begins where the first began: still a seek, but the shortest possible.",
        "Misses cost reads if another object has the same fingerprint: a probability of 2^-8 for each slot in use.",
    ]
    .map(str::to_owned)
    .to_vec()
}
