//! What came out, as tables and plots.

use super::loads::Load;
use super::runs::{OverTime, Run, VARIANTS};
use crate::policies::{Outcome, REFERENCES};
use crate::report::{Cell, Plot, Series, Table};

/// What ours is compared with.
const BESIDE: [&str; 3] = ["S3-FIFO", "GDSF", "FIFO"];

/// The loads themselves.
pub fn loads(loads: &[Load]) -> Table {
    let columns = ["load", "requests", "objects", "footprint MB", "asked for before %"];
    let mut table = Table::new("The loads", &columns);
    for load in loads {
        let (requests, objects) = (load.sequence.asked.len(), load.sequence.objects);
        let again = 1.0 - objects as f64 / requests.max(1) as f64;
        let megabytes = Cell::number(load.sequence.bytes as f64 / 1e6, 1);
        let counts = [requests, objects].map(|count| Cell::Count(count as u64));
        table.row([load.title().into()].into_iter().chain(counts).chain([megabytes, Cell::percent(again)]));
    }
    table
}

/// Object hits of all policies, and how far ours is from some.
pub fn hits(runs: &[&Run<'_>]) -> Table {
    by_policy("Objects found, %", runs, Outcome::hit_ratio)
}

/// Byte hits of all policies.
pub fn byte_hits(runs: &[&Run<'_>]) -> Table {
    by_policy("Bytes found, %", runs, Outcome::byte_hit_ratio)
}

fn by_policy(what: &str, runs: &[&Run<'_>], ratio: fn(&Outcome) -> f64) -> Table {
    let cut = if runs.iter().all(|run| run.load.is_cut) { "bodies cut off at 64 KiB" } else { "whole bodies" };
    let mut columns = vec!["load", "disk %", "disk MB"];
    columns.extend(REFERENCES.iter().map(|policy| policy.name));
    columns.push("ours");
    let points = BESIDE.map(|name| format!("to {name}"));
    columns.extend(points.iter().map(String::as_str));
    columns.push("written / stored");
    let mut table = Table::new(format!("{what}, {cut}"), &columns);
    for run in runs {
        let ours = run.ours();
        let disk = [Cell::number(run.part * 100.0, 0), Cell::number(run.disk_bytes as f64 / 1e6, 1)];
        let mut row: Vec<Cell> = [run.load.title().into()].into_iter().chain(disk).collect();
        row.extend(run.references.iter().map(|outcome| Cell::percent(ratio(outcome))));
        row.push(ours.map_or(Cell::Nothing, |ours| Cell::percent(ratio(ours))));
        row.extend(BESIDE.map(|name| Cell::maybe(points_to(run, ours, name, ratio), 1)));
        row.push(Cell::maybe(ours.and_then(|ours| ours.written), 3));
        table.row(row);
    }
    table
}

/// By how many points an outcome is above a reference.
fn points_to(run: &Run<'_>, outcome: Option<&Outcome>, name: &str, ratio: fn(&Outcome) -> f64) -> Option<f64> {
    Some((ratio(outcome?) - ratio(run.reference(name)?)) * 100.0)
}

/// What each part is worth: means and worst cases over loads and disks.
pub fn variants(runs: &[&Run<'_>]) -> Table {
    let cut = if runs.iter().all(|run| run.load.is_cut) { "bodies cut off at 64 KiB" } else { "whole bodies" };
    let columns = [
        "part",
        "runs",
        "to S3-FIFO, mean",
        "worst",
        "to GDSF, mean",
        "worst",
        "to FIFO, mean",
        "worst",
        "bytes, to S3-FIFO",
        "written / stored, mean",
        "most",
    ];
    let mut table = Table::new(format!("Points of object hits, part by part, {cut}"), &columns);
    for (at, variant) in VARIANTS.iter().enumerate() {
        let outcomes: Vec<_> = runs.iter().filter_map(|run| Some((*run, run.variants.get(at)?.as_ref()?))).collect();
        let mut row = vec![variant.name.into(), Cell::Count(outcomes.len() as u64)];
        for name in BESIDE {
            let points = outcomes.iter().filter_map(|(run, of)| points_to(run, Some(of), name, Outcome::hit_ratio));
            let points: Vec<_> = points.collect();
            row.push(Cell::number(mean(&points), 2));
            row.push(Cell::number(points.iter().copied().fold(f64::INFINITY, f64::min), 1));
        }
        let ratio = Outcome::byte_hit_ratio;
        let bytes: Vec<_> =
            outcomes.iter().filter_map(|(run, of)| points_to(run, Some(of), "S3-FIFO", ratio)).collect();
        let written: Vec<_> = outcomes.iter().filter_map(|(_, of)| of.written).collect();
        let most = written.iter().copied().fold(0.0, f64::max);
        row.extend([Cell::number(mean(&bytes), 2), Cell::number(mean(&written), 3), Cell::number(most, 3)]);
        table.row(row);
    }
    table
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// A load that drifts, part by part.
pub fn over_time(over_time: &OverTime) -> Table {
    let mut columns = vec!["requests so far"];
    columns.extend(over_time.hits.iter().map(|(name, _)| *name));
    let title = format!("Hits over time, %, a disk of a tenth: {}", over_time.title);
    let mut table = Table::new(title, &columns);
    let parts = over_time.hits.first().map_or(0, |(_, hits)| hits.len());
    for at in 0..parts {
        let hits = over_time.hits.iter().map(|(_, hits)| hits.get(at).map_or(Cell::Nothing, |hit| Cell::percent(*hit)));
        table.row([Cell::Count(((at + 1) * over_time.part) as u64)].into_iter().chain(hits));
    }
    table
}

/// The same as curves.
pub fn over_time_plot(over_time: &OverTime) -> Plot {
    let curve = |hits: &[f64]| {
        let at = |part: usize| ((part + 1) * over_time.part) as f64 / 1000.0;
        hits.iter().enumerate().map(|(part, hit)| (at(part), hit * 100.0)).collect::<Vec<_>>()
    };
    let series = over_time.hits.iter().map(|(name, hits)| Series::new(*name, curve(hits))).collect();
    let title = format!("Hits over time: {}", over_time.title);
    Plot::Lines { title, x: "thousands of requests".to_owned(), y: "hits, % of requests".to_owned(), series }
}

/// Hits by the size of the disk, over FIFO's, mean of all loads.
pub fn by_disk(runs: &[Run<'_>], disks: &[f64]) -> Plot {
    let over_fifo = |of: &dyn Fn(&Run<'_>) -> Option<f64>| {
        let point = |part: &f64| {
            let points: Vec<_> = runs.iter().filter(|run| run.part == *part).filter_map(of).collect();
            (*part * 100.0, mean(&points))
        };
        disks.iter().map(point).filter(|(_, points)| points.is_finite()).collect::<Vec<_>>()
    };
    let mut series = Vec::new();
    for policy in REFERENCES.iter().filter(|policy| policy.name != "FIFO") {
        let points = |run: &Run<'_>| points_to(run, run.reference(policy.name), "FIFO", Outcome::hit_ratio);
        series.push(Series::new(policy.name, over_fifo(&points)));
    }
    let ours = |run: &Run<'_>| points_to(run, run.ours(), "FIFO", Outcome::hit_ratio);
    series.push(Series::new("ours", over_fifo(&ours)));
    let title = "Hits above FIFO's, mean of all loads".to_owned();
    Plot::Lines { title, x: "disk, % of the footprint".to_owned(), y: "points of hits".to_owned(), series }
}
