//! What the runs are shown as.

use tinaja_store::engines;

use super::pace::at_real_pace;
use super::runs::{Ran, models};
use crate::experiments::table3::name as policy;
use crate::paper::hashcache::{FIGURE_4_SETMEM, figure_3 as paper_figure_3, table_4, table_7};
use crate::report::{Cell, Table};
use crate::rig::{random_reads_a_second, sata_7200};

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
        "reads a store",
        "writes a store",
        "t",
        "Table 4",
        "t / requests",
        "way %",
        "ms a request",
        "measured",
        "at real pace",
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
            Cell::number(outcome.reads_a_store(), 2),
            Cell::number(outcome.writes_a_store(), 2),
            Cell::number(t, 1),
            Cell::maybe(formula, 0),
            Cell::number(t / one.disk_requests(), 0),
            Cell::percent(one.way()),
            Cell::number(1000.0 / one.disk_requests() / outcome.peak_rate(0), 1),
            Cell::number(outcome.peak_rate(0), 0),
            Cell::number(at_real_pace(one, 0, ran), 0),
            paper(table_7(engine).map(|[rate, ..]| rate)),
            paper(paper_figure_3(engine)),
        ]);
    }
    table
}

/// The paper's `rel` of a run, against the one of the same engine without prefetching.
fn related(one: &Ran, all: &[Ran]) -> f64 {
    let without = all.iter().find(|other| other.case.engine == one.case.engine && !other.prefetches());
    without.map_or(1.0, |without| one.related(without))
}

/// Whether a run is as in the paper's measurements: all policies prefetch there but LogN.
pub fn is_the_papers(ran: &Ran) -> bool {
    ran.prefetches() == ran.case.engine.has(&engines::PREFETCH)
}

/// Table 7's columns, beside the formula and the measured rates of both loads.
pub fn speeds(four: &[Ran], fifteen: &[Ran]) -> Table {
    let columns = [
        "policy",
        "turns a minute",
        "Table 4",
        "Table 7",
        "measured, 4 a page",
        "at real pace",
        "measured, 10-20 a page",
        "at real pace, 10-20",
    ];
    let mut table = Table::new("Disks of three speeds", &columns);
    let models: Vec<_> = [7200_u64, 10_000, 15_000].into_iter().zip(models()).collect();
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
                Cell::number(at_real_pace(one, number, four), 0),
                Cell::number(other.outcome.peak_rate(number), 0),
                Cell::number(at_real_pace(other, number, fifteen), 0),
            ]);
        }
    }
    table
}

/// A run's name, with its settings where it has some.
pub fn name(ran: &Ran) -> String {
    policy(ran.case.engine, &ran.case.settings)
}

/// Rates on one disk and on two: `one` has them on one disk, `more` on two, and on one what `one` has not.
pub fn two_disks(one: &[Ran], more: &[Ran]) -> Table {
    let columns = [
        "policy",
        "one disk",
        "two disks",
        "gain",
        "one, at real pace",
        "two, at real pace",
        "paper, two disks",
        "reads a hit, one",
        "reads a hit, two",
        "reads a miss",
        "CHR %",
    ];
    let mut table = Table::new("One disk and two, 7200 turns, 4 objects a page", &columns);
    for two in more.iter().filter(|ran| ran.case.disks == 2) {
        let alone = more.iter().chain(one).find(|ran| ran.case.disks == 1 && name(ran) == name(two));
        let (rate, before) = (two.outcome.peak_rate(0), alone.map(|ran| ran.outcome.peak_rate(0)));
        let paper = (two.case.engine == engines::HASHCACHE_SETMEM).then_some(FIGURE_4_SETMEM);
        table.row([
            name(two).into(),
            Cell::maybe(before, 0),
            Cell::number(rate, 0),
            Cell::maybe(before.map(|before| rate / before), 2),
            Cell::maybe(alone.map(|ran| at_real_pace(ran, 0, one)), 0),
            Cell::number(at_real_pace(two, 0, one), 0),
            Cell::maybe(paper, 0),
            Cell::maybe(alone.map(|ran| ran.outcome.reads_a_hit()), 2),
            Cell::number(two.outcome.reads_a_hit(), 2),
            Cell::number(two.outcome.reads_a_miss(), 2),
            Cell::percent(two.outcome.hit_ratio()),
        ]);
    }
    table
}
