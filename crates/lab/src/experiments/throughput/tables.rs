//! What the runs are shown as.

use tinaja_store::EngineName;
use tinaja_store::limits::WRITE_BEHIND;

use super::runs::Ran;
use crate::experiments::table3::formula;
use crate::paper::hashcache::{FIGURE_3_OTHERS, FIGURE_4_SETMEM, figure_3 as paper_figure_3, table_4, table_7};
use crate::report::{Cell, Plot, Series, Table};
use crate::rig::{random_reads_a_second, sata_7200, scsi_10000, scsi_15000};

/// Table 4's formula with what was measured in it, what the requests to the disk would allow, and the rate itself.
pub fn rates(title: &str, ran: &[Ran]) -> Table {
    let columns = [
        "policy",
        "CHR %",
        "BHR %",
        "CBR %",
        "rel",
        "reads a hit",
        "reads a miss",
        "writes a store",
        "t",
        "Table 4",
        "t / requests",
        "measured",
        "10 batches a second",
        "Table 7",
        "Figure 3",
    ];
    let mut table = Table::new(title, &columns);
    for one in ran {
        let (engine, outcome) = (one.case.engine, &one.outcome);
        let (t, rel) = (random_reads_a_second(&sata_7200(), one.read_bytes()), related(one, ran));
        let formula = table_4(engine, t, outcome.hit_ratio(), outcome.cachable_ratio(), rel);
        let paper = |rate: Option<f64>| Cell::maybe(rate.filter(|_| is_the_papers(one)), 0);
        table.row([
            name(one).into(),
            Cell::percent(outcome.hit_ratio()),
            Cell::percent(outcome.byte_hit_ratio()),
            Cell::percent(outcome.cachable_ratio()),
            Cell::number(rel, 2),
            Cell::number(outcome.reads_a_hit(), 2),
            Cell::number(outcome.reads_a_miss(), 2),
            Cell::number(outcome.writes_a_store(), 2),
            Cell::number(t, 1),
            Cell::maybe(formula, 0),
            Cell::number(t / one.disk_requests(), 0),
            Cell::number(outcome.peak_rate(0), 0),
            Cell::maybe(at_real_pace(one, t), 0),
            paper(table_7(engine).map(|[rate, ..]| rate)),
            paper(paper_figure_3(engine)),
        ]);
    }
    table
}

/// The rate of an engine with a log alone when a batch is written each tenth of a second, full or not, and takes as long as
/// a random read. In virtual time all batches are full.
fn at_real_pace(ran: &Ran, t: f64) -> Option<f64> {
    let has_table = formula::bits_a_slot(ran.case.engine, ran.case.tuning, 1 << 20) < 15.0;
    let batches = 1.0 / WRITE_BEHIND.as_secs_f64();
    let writes = ran.outcome.spent.writes.requests as f64 / ran.outcome.requests as f64;
    let without_writes = 1.0 / ran.outcome.peak_rate(0) - writes / t;
    (!has_table).then(|| (1.0 - batches / t) / without_writes).filter(|rate| rate * writes < batches)
}

/// The paper's `rel` of a run, against the one of the same engine without prefetching.
fn related(one: &Ran, all: &[Ran]) -> f64 {
    let without = all.iter().find(|other| other.case.engine == one.case.engine && !other.prefetches());
    without.map_or(1.0, |without| one.related(without))
}

/// Whether a run is as in the paper's measurements: all policies prefetch there but LogN.
fn is_the_papers(ran: &Ran) -> bool {
    ran.prefetches() == ran.case.engine.can_prefetch()
}

/// Table 7's columns, beside the formula and the measured rates of both loads.
pub fn speeds(four: &[Ran], fifteen: &[Ran]) -> Table {
    let columns = ["policy", "turns a minute", "Table 4", "Table 7", "measured, 4 a page", "measured, 10-20 a page"];
    let mut table = Table::new("Disks of three speeds", &columns);
    let models = [(7200_u64, sata_7200()), (10_000, scsi_10000()), (15_000, scsi_15000())];
    for (one, other) in four.iter().zip(fifteen).filter(|(one, _)| is_the_papers(one)) {
        for (number, (turns, model)) in models.iter().enumerate() {
            let (engine, outcome) = (one.case.engine, &one.outcome);
            let (t, rel) = (random_reads_a_second(model, one.read_bytes()), related(one, four));
            let formula = table_4(engine, t, outcome.hit_ratio(), outcome.cachable_ratio(), rel);
            table.row([
                name(one).into(),
                (*turns).into(),
                Cell::maybe(formula, 0),
                Cell::maybe(table_7(engine).and_then(|rates| rates.get(number).copied()), 0),
                Cell::number(outcome.peak_rate(number), 0),
                Cell::number(other.outcome.peak_rate(number), 0),
            ]);
        }
    }
    table
}

/// Figure 3: a group of bars for each policy, the paper's beside ours with and without prefetching.
pub fn figure_3(four: &[Ran], fifteen: &[Ran]) -> Plot {
    let engines: Vec<_> = four.iter().filter(|ran| is_the_papers(ran)).map(|ran| ran.case.engine).collect();
    let mut groups: Vec<_> =
        engines.iter().map(|engine| engine.as_str().trim_start_matches("hashcache-").to_owned()).collect();
    let mut paper: Vec<_> = engines.iter().map(|engine| paper_figure_3(*engine).unwrap_or_default()).collect();
    for (name, rate) in FIGURE_3_OTHERS {
        groups.push(name.to_owned());
        paper.push(rate);
    }
    let table_7 = engines.iter().map(|engine| table_7(*engine).map_or(0.0, |[rate, ..]| rate));
    let measured = |ran: &[Ran], prefetch: bool| {
        let of = |engine: EngineName| {
            let run = ran.iter().find(|ran| ran.case.engine == engine && ran.prefetches() == prefetch);
            run.map_or(0.0, |ran| ran.outcome.peak_rate(0))
        };
        engines.iter().map(|engine| of(*engine)).collect::<Vec<_>>()
    };
    Plot::Bars {
        title: "Peak request rates on one disk of 7200 turns".to_owned(),
        y: "requests a second".to_owned(),
        groups,
        series: vec![
            Series::bars("Figure 3", paper),
            Series::bars("Table 7", table_7),
            Series::bars("4 a page, without prefetch", measured(four, false)),
            Series::bars("4 a page, with prefetch", measured(four, true)),
            Series::bars("10-20 a page, with prefetch", measured(fifteen, true)),
        ],
    }
}

/// A run's name, with its settings where it has some.
fn name(ran: &Ran) -> String {
    let name = match ran.case.engine {
        EngineName::HashCacheSetMemLru => format!("{} {} %", ran.case.engine, ran.case.tuning.sets_in_memory_percent),
        engine => engine.to_string(),
    };
    if ran.prefetches() { format!("{name} + prefetch") } else { name }
}

/// Rates on one disk and on two: `one` has them on one disk, `more` on two, and on one what `one` has not.
pub fn two_disks(one: &[Ran], more: &[Ran]) -> Table {
    let columns = ["policy", "one disk", "two disks", "gain", "paper, two disks", "reads a miss", "CHR %"];
    let mut table = Table::new("One disk and two, 7200 turns, 4 objects a page", &columns);
    for two in more.iter().filter(|ran| ran.case.disks == 2) {
        let alone = more.iter().chain(one).find(|ran| ran.case.disks == 1 && name(ran) == name(two));
        let (rate, before) = (two.outcome.peak_rate(0), alone.map(|ran| ran.outcome.peak_rate(0)));
        let paper = (two.case.engine == EngineName::HashCacheSetMem).then_some(FIGURE_4_SETMEM);
        table.row([
            name(two).into(),
            Cell::maybe(before, 0),
            Cell::number(rate, 0),
            Cell::maybe(before.map(|before| rate / before), 2),
            Cell::maybe(paper, 0),
            Cell::number(two.outcome.reads_a_miss(), 2),
            Cell::percent(two.outcome.hit_ratio()),
        ]);
    }
    table
}

/// Figure 4: SetMem and SetMemLRU on one disk and on two.
pub fn figure_4(one: &[Ran], more: &[Ran]) -> Plot {
    let is_set_mem =
        |ran: &&Ran| matches!(ran.case.engine, EngineName::HashCacheSetMem | EngineName::HashCacheSetMemLru);
    let two: Vec<_> = more.iter().filter(is_set_mem).filter(|ran| ran.case.disks == 2).collect();
    let alone = |two: &Ran| {
        let same = more.iter().chain(one).find(|ran| ran.case.disks == 1 && name(ran) == name(two));
        same.map_or(0.0, |ran| ran.outcome.peak_rate(0))
    };
    Plot::Bars {
        title: "SetMem and SetMemLRU on one disk and on two".to_owned(),
        y: "requests a second".to_owned(),
        groups: two.iter().map(|ran| name(ran)).collect(),
        series: vec![
            Series::bars("one disk", two.iter().map(|ran| alone(ran))),
            Series::bars("two disks", two.iter().map(|ran| ran.outcome.peak_rate(0))),
        ],
    }
}
