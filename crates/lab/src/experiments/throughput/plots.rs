//! Figures 3 and 4, the paper's bars beside ours.

use tinaja_store::EngineRef;

use super::pace::at_real_pace;
use super::runs::Ran;
use super::tables::{is_the_papers, name};
use crate::paper::hashcache::{FIGURE_3_OTHERS, figure_3 as paper_figure_3, table_7};
use crate::report::{Plot, Series};

/// Figure 3: a group of bars for each policy, the paper's beside ours with and without prefetching, at the pace of real time.
pub fn figure_3(four: &[Ran], fifteen: &[Ran]) -> Plot {
    let engines: Vec<_> = four.iter().filter(|ran| is_the_papers(ran)).map(|ran| ran.case.engine).collect();
    let mut groups: Vec<_> =
        engines.iter().map(|engine| engine.name.trim_start_matches("hashcache-").to_owned()).collect();
    let mut paper: Vec<_> = engines.iter().map(|engine| paper_figure_3(engine).unwrap_or_default()).collect();
    for (name, rate) in FIGURE_3_OTHERS {
        groups.push(name.to_owned());
        paper.push(rate);
    }
    let table_7 = engines.iter().map(|engine| table_7(engine).map_or(0.0, |[rate, ..]| rate));
    let measured = |all: &[Ran], prefetch: bool| {
        let of = |engine: EngineRef| {
            let run = all.iter().find(|ran| ran.case.engine == engine && ran.prefetches() == prefetch);
            run.map_or(0.0, |ran| at_real_pace(ran, 0, all))
        };
        engines.iter().map(|engine| of(*engine)).collect::<Vec<_>>()
    };
    Plot::Bars {
        title: "Peak request rates on one disk of 7200 turns, at the pace of real time".to_owned(),
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

/// Figure 4: SetMem and SetMemLRU on one disk and on two, at the pace of real time.
pub fn figure_4(one: &[Ran], more: &[Ran]) -> Plot {
    let is_set_mem = |ran: &&Ran| matches!(ran.case.engine.name, "hashcache-setmem" | "hashcache-setmemlru");
    let two: Vec<_> = more.iter().filter(is_set_mem).filter(|ran| ran.case.disks == 2).collect();
    let alone = |two: &Ran| {
        let same = more.iter().chain(one).find(|ran| ran.case.disks == 1 && name(ran) == name(two));
        same.map_or(0.0, |ran| at_real_pace(ran, 0, one))
    };
    Plot::Bars {
        title: "SetMem and SetMemLRU on one disk and on two, at the pace of real time".to_owned(),
        y: "requests a second".to_owned(),
        groups: two.iter().map(|ran| name(ran)).collect(),
        series: vec![
            Series::bars("one disk", two.iter().map(|ran| alone(ran))),
            Series::bars("two disks", two.iter().map(|ran| at_real_pace(ran, 0, one))),
        ],
    }
}
