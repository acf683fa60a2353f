//! What came out, as tables and plots.

use super::load::Load;
use super::runs::{Engine, Runs};
use crate::policies::{Outcome, REFERENCES};
use crate::report::{Cell, Plot, Series, Table};

/// The log itself.
pub fn log(load: &Load) -> Table {
    let columns = ["log", "requests", "objects", "footprint MB", "hours", "asked for before %", "lines not read"];
    let mut table = Table::new("The log", &columns);
    let (requests, objects) = (load.requests.len(), load.sequence.objects);
    table.row([
        load.name.as_str().into(),
        Cell::Count(requests as u64),
        Cell::Count(objects as u64),
        Cell::number(load.sequence.bytes as f64 / 1e6, 1),
        Cell::number(load.span.as_secs_f64() / 3600.0, 1),
        Cell::percent(1.0 - objects as f64 / requests.max(1) as f64),
        Cell::Count(load.unreadable.0),
    ]);
    table
}

/// All policies and engines on one disk.
pub fn disk(runs: &Runs) -> Table {
    let columns = [
        "cache",
        "objects found %",
        "bytes found %",
        "reads / request",
        "writes / request",
        "written / stored",
        "index bits",
        "p50 ms",
        "p99 ms",
        "disk busy %",
        "remark",
    ];
    let mut table = Table::new(format!("A disk of {}", runs.disk.title()), &columns);
    for (reference, outcome) in REFERENCES.iter().zip(&runs.references) {
        table.row([reference.name.into(), Cell::percent(outcome.hit_ratio()), Cell::percent(outcome.sent_hit_ratio())]);
    }
    for (name, ran) in &runs.engines {
        let name = [Cell::from(name.as_str())];
        match ran {
            Ok(ran) => table.row(name.into_iter().chain(measured(ran))),
            Err(why) => {
                let nothing = vec![Cell::Nothing; columns.len() - 2];
                table.row(name.into_iter().chain(nothing).chain([Cell::from(why.as_str())]));
            }
        }
    }
    // Of policies there is nothing to remark.
    table
        .rows
        .iter_mut()
        .filter_map(|row| row.last_mut())
        .filter(|cell| **cell == Cell::Nothing)
        .for_each(|cell| *cell = "".into());
    table
}

fn measured(ran: &Engine) -> [Cell; 10] {
    let Engine { driven, spent, index_bits } = ran;
    let a_request = |count: u64| Cell::number(count as f64 / driven.requests.max(1) as f64, 3);
    let mut times = driven.hit_times.clone();
    let mut ms = |share| Cell::maybe(times.percentile(share).map(|time| time.as_secs_f64() * 1000.0), 1);
    let busy = driven.spent.busy(0).as_secs_f64() / driven.span.as_secs_f64();
    let stored = spent.stats.stored_bytes;
    [
        Cell::percent(driven.hit_ratio()),
        Cell::percent(driven.byte_hit_ratio()),
        a_request(driven.spent.reads.requests),
        a_request(spent.writes.requests),
        Cell::maybe((stored > 0).then(|| spent.writes.bytes as f64 / stored as f64), 3),
        Cell::maybe(*index_bits, 1),
        ms(0.50),
        ms(0.99),
        Cell::percent(busy),
        if busy > 1.0 { "more requests than this disk can serve: the times mean nothing" } else { "" }.into(),
    ]
}

/// Hits by the size of the disk: of policies, and of engines with some policies beside them.
pub fn plots(all: &[Runs]) -> Vec<Plot> {
    const BESIDE: [&str; 2] = ["S3-FIFO", "Belady, sizes"];
    let reference = |at: usize| move |runs: &Runs| runs.references.get(at).map(Outcome::hit_ratio);
    let of_policies = |is_shown: &dyn Fn(&str) -> bool| {
        let shown = REFERENCES.iter().enumerate().filter(|(_, policy)| is_shown(policy.name));
        shown.map(|(at, policy)| curve(policy.name, all, reference(at))).collect::<Vec<_>>()
    };
    let mut of_engines = of_policies(&|name| BESIDE.contains(&name));
    for (at, (name, _)) in all.first().map(|runs| &runs.engines[..]).unwrap_or_default().iter().enumerate() {
        let ratio = |runs: &Runs| runs.engines.get(at)?.1.as_ref().ok().map(|ran| ran.driven.hit_ratio());
        of_engines.push(curve(name, all, ratio));
    }
    of_engines.retain(|series| !series.points.is_empty());
    let plot = |title: &str, series| Plot::Lines {
        title: title.to_owned(),
        x: "disk, % of what the log's objects take".to_owned(),
        y: "objects found, % of requests".to_owned(),
        series,
    };
    vec![
        plot("Objects found by published policies", of_policies(&|_| true)),
        plot("Objects found by engines", of_engines),
    ]
}

fn curve(name: &str, all: &[Runs], ratio: impl Fn(&Runs) -> Option<f64>) -> Series {
    let mut points: Vec<_> = all.iter().filter_map(|runs| Some((runs.disk.percent, ratio(runs)? * 100.0))).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    Series::new(name, points)
}
