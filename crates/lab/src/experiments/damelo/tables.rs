//! What was measured, as tables and pictures.

use std::time::Duration;

use super::limited::Kept;
use super::load::{Ordering, Stage};
use super::modelled::{Run, StageRun, Without};
use crate::report::{Cell, Plot, Series, Table};

pub fn ms(time: Option<Duration>) -> Option<f64> {
    time.map(|time| time.as_secs_f64() * 1e3)
}

/// Mean latency of a stage in ms.
pub fn mean(run: &StageRun) -> Option<f64> {
    ms(run.latencies.mean())
}

/// All of a stage's time over its operations, in ms: what counts if the disk is never idle.
pub fn each(run: &StageRun) -> Option<f64> {
    let each = run.took.as_secs_f64() * 1e3 / run.latencies.count() as f64;
    each.is_finite().then_some(each)
}

fn frame_name(bytes: u32) -> String {
    format!("{} KiB", bytes >> 10)
}

/// Sizes of frames, each once.
fn frames(runs: &[Run]) -> Vec<u32> {
    let mut frames: Vec<_> = runs.iter().map(|run| run.setting.frame_bytes).collect();
    frames.sort_unstable();
    frames.dedup();
    frames
}

pub fn find(runs: &[Run], ordering: Ordering, frame_bytes: u32) -> Option<&Run> {
    runs.iter().find(|run| run.ordering == ordering && run.setting.frame_bytes == frame_bytes)
}

/// A row for each ordering, a column for each size of frame.
fn over_frames(title: &str, runs: &[Run], digits: usize, of: impl Fn(&Run) -> Option<f64>) -> Table {
    let frames = frames(runs);
    let names: Vec<String> = frames.iter().map(|frame| frame_name(*frame)).collect();
    let columns: Vec<&str> = std::iter::once("ordering").chain(names.iter().map(String::as_str)).collect();
    let mut table = Table::new(title, &columns);
    for ordering in Ordering::ALL {
        let cells = frames.iter().map(|frame| Cell::maybe(find(runs, ordering, *frame).and_then(&of), digits));
        table.row(std::iter::once(ordering.name().into()).chain(cells));
    }
    table
}

/// The mean latency of reads.
pub fn by_frame(runs: &[Run]) -> Table {
    over_frames("Mean latency of reads by size of frame, modelled disk, ms", runs, 2, |run| mean(run.read()))
}

/// Figure 6.
pub fn hit_rates(runs: &[Run]) -> Table {
    over_frames("Hit rate of a page in reads (Figure 6), %", runs, 0, |run| Some(run.hit_rate() * 100.0))
}

/// A row for each stage of some runs: of what, in which ordering, how long it took, and what it asked of the disk, by the names
/// that these are given.
fn of_stages<'a>(
    title: &str,
    of: &str,
    [reads, writes]: [&str; 2],
    stages: impl Iterator<Item = (String, Ordering, Stage, &'a StageRun)>,
) -> Table {
    let columns =
        [of, "ordering", "stage", "mean ms", "median", "95 %", "99 %", "max", "ms an operation", reads, writes];
    let mut table = Table::new(title, &columns);
    for (name, ordering, stage, run) in stages {
        let mut times = run.latencies.clone();
        let mut row = vec![name.into(), ordering.name().into(), stage.name().into(), Cell::maybe(mean(run), 2)];
        row.extend([0.5, 0.95, 0.99, 1.0].map(|share| Cell::maybe(ms(times.percentile(share)), 2)));
        row.extend([Cell::maybe(each(run), 3), Cell::Count(run.reads), Cell::Count(run.writes)]);
        table.row(row);
    }
    table
}

/// All stages of all runs. The zipfs' creates and deletes are random's.
pub fn latencies(runs: &[Run]) -> Table {
    let own = |(run, stage): &(&Run, Stage)| *stage == Stage::Read || !matches!(run.ordering, Ordering::Zipf { .. });
    let stages = runs.iter().flat_map(|run| Stage::ALL.map(|stage| (run, stage))).filter(own);
    let named = stages.map(|(run, stage)| (frame_name(run.setting.frame_bytes), run.ordering, stage, run.stage(stage)));
    of_stages("Latencies on the modelled disk", "frame", ["pages read", "writes"], named)
}

/// Dámelo beside trees, on the limited disk.
pub fn kept(kept: &[Kept]) -> Table {
    let stages = kept.iter().flat_map(|one| one.stages.iter().map(|stage| (one.name.clone(), stage)));
    let named = stages.map(|(name, (ordering, stage, run))| (name, *ordering, *stage, run));
    let title = "Dámelo and trees of files on one limited disk, a sixteenth of the size";
    of_stages(title, "kept in", ["disk reads", "disk writes"], named)
}

/// What each thing is worth.
pub fn switched(disk: &str, runs: &[(Without, Vec<Run>)]) -> Table {
    let columns = [
        "without",
        "random read ms",
        "% of all on",
        "arm's way a read, MB",
        "zipf 1:8 read ms",
        "% of all on",
        "arm's way a read, MB",
        "pages read",
        "create, ms an operation",
    ];
    let frame = runs
        .iter()
        .flat_map(|(_, runs)| runs)
        .next()
        .map(|run| frame_name(run.setting.frame_bytes))
        .unwrap_or_default();
    let title = format!("Each thing switched off: modelled {disk}, frames of {frame}");
    let mut table = Table::new(title, &columns);
    let whole = runs.first().map(|(_, runs)| runs);
    for (without, both) in runs {
        let mut cells = vec![without.name().into()];
        for (at, run) in both.iter().enumerate() {
            let all_on = whole.and_then(|whole| mean(whole.get(at)?.read()));
            let own = mean(run.read());
            cells.push(Cell::maybe(own, 2));
            cells.push(Cell::maybe(own.zip(all_on).map(|(own, all_on)| own / all_on * 100.0), 0));
            let way = run.read().way_bytes as f64 / 1e6 / run.read().reads.max(1) as f64;
            cells.push(Cell::number(way, 0));
        }
        if let Some(zipf) = both.last() {
            cells.push(Cell::Count(zipf.read().reads));
            cells.push(Cell::maybe(each(zipf.stage(Stage::Create)), 2));
        }
        table.row(cells);
    }
    table
}

/// Latency and hit rate by size of frame.
pub fn plots(runs: &[Run]) -> Vec<Plot> {
    let lines = |title: &str, y: &str, of: &dyn Fn(&Run) -> Option<f64>| {
        let series = Ordering::ALL.into_iter().map(|ordering| {
            let own = runs.iter().filter(|run| run.ordering == ordering);
            let points = own.filter_map(|run| Some((f64::from(run.setting.frame_bytes >> 10), of(run)?)));
            Series::new(ordering.name(), points.collect::<Vec<_>>())
        });
        Plot::Lines {
            title: title.to_owned(),
            x: "KiB of a frame".to_owned(),
            y: y.to_owned(),
            series: series.collect(),
        }
    };
    vec![
        lines("Mean latency of reads, modelled disk", "ms", &|run| mean(run.read())),
        lines("Hit rate of a page (Figure 6)", "%", &|run| Some(run.hit_rate() * 100.0)),
    ]
}

/// Mean read latencies on the limited disk.
pub fn plot_kept(kept: &[Kept]) -> Plot {
    let orderings = [Ordering::Sequential, Ordering::Random, Ordering::ZIPF_1_8, Ordering::ZIPF_1_4];
    let bars = |one: &Kept| {
        let heights = orderings.map(|ordering| one.stage(ordering, Stage::Read).and_then(mean).unwrap_or_default());
        Series::bars(one.name.clone(), heights)
    };
    Plot::Bars {
        title: "Mean latency of reads on the limited disk".to_owned(),
        y: "ms".to_owned(),
        groups: orderings.map(|ordering| ordering.name().to_owned()).to_vec(),
        series: kept.iter().map(bars).collect(),
    }
}
