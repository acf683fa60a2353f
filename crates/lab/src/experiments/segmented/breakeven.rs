//! Equation (1): from which network speed on a faster cache is worth its lower hit rate.

use super::MIB;
use super::load::Load;
use super::runs::{Cache, Run, phone};
use crate::error::LabError;
use crate::experiment::{Experiment, Needs, Setup};
use crate::paper::segmented::{
    BREAK_EVEN_MEAN, BREAK_EVEN_P95, NETWORKS, OBJECT_BYTES, WORST_HIT_RATES, break_even, fetch_ms, operation_ms,
    read_ms,
};
use crate::replay::{DiskKind, Kind};
use crate::report::{Cell, Plot, Report, Series, Table};
use crate::rival::Ages;

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "segmented-breakeven",
    shows: "equation (1): the network speed from which segments are faster despite fewer hits",
    paper: "Log-Structured Cache, section 4.3",
    replays_logs: true,
    takes_requests: false,
    resumes: false,
    needs: Needs::Nothing,
    run,
};

/// A round trip of a phone's network in ms, for the extra curve: chosen.
const ROUND_TRIP_MS: f64 = 60.0;

/// Two caches to be compared: the time of a read in ms and the hit rate of each.
struct Input {
    name: String,
    rival: (f64, f64),
    segments: (f64, f64),
    object_bytes: f64,
    paper: Option<f64>,
}

fn run(setup: &Setup) -> Result<Report, LabError> {
    let load = match setup.traces.first() {
        Some(path) => Load::read(setup, 1, path)?,
        None => Load::generated(setup.seed, setup.choose(512 * MIB, 12 * MIB)),
    };
    let mut inputs = papers();
    // A quarter of what is browsed, as for the times.
    let bytes = (load.prepared.bytes / 4).max(4 * MIB);
    let mean_bytes = load.prepared.bytes as f64 / load.prepared.entries.max(1) as f64;
    for (name, place) in [("modelled flash", phone()), ("this disk", DiskKind::Real(setup.scratch.clone()))] {
        let mut rival = Cache::Rival(Ages::Ignored).run(bytes, &place, &load.prepared.events)?;
        let mut segments = Cache::Segments(0).run(bytes, &place, &load.prepared.events)?;
        for (of, share) in [("mean", None), ("p95", Some(0.95))] {
            let input = |run: &mut Run| (hit_ms(run, share), run.replayed.hit_rate());
            let (rival, segments) = (input(&mut rival), input(&mut segments));
            inputs.push(Input {
                name: format!("{name}, {of}"),
                rival,
                segments,
                object_bytes: mean_bytes,
                paper: None,
            });
        }
    }
    // The paper's hit rates and sizes with our times: what its worst case is on our flash.
    let ours: Vec<_> = inputs
        .iter()
        .filter(|input| input.paper.is_none())
        .map(|input| (input.name.clone(), input.rival.0, input.segments.0))
        .collect();
    for (name, rival, segments) in ours {
        let (rival, segments) = ((rival, WORST_HIT_RATES.0), (segments, WORST_HIT_RATES.1));
        let name = format!("{name}, the paper's hit rates");
        inputs.push(Input { name, rival, segments, object_bytes: OBJECT_BYTES, paper: None });
    }
    let tables = vec![Load::table([&load]), table(&inputs), networks(&inputs)];
    let plots = inputs.iter().take(2).map(plot).collect();
    let Experiment { name, shows, paper, .. } = EXPERIMENT;
    Ok(Report { name, shows, paper, quick: setup.quick, seed: setup.seed, tables, plots, notes: notes() })
}

/// What the paper used, found back from what it printed.
fn papers() -> Vec<Input> {
    let of = |(name, (speed, time)): (&str, (f64, f64))| {
        let fetch = fetch_ms(OBJECT_BYTES, speed, 0.0);
        let input = |rate| (read_ms(time, rate, fetch), rate);
        let (rival, segments) = (input(WORST_HIT_RATES.0), input(WORST_HIT_RATES.1));
        Input { name: format!("the paper's, {name}"), rival, segments, object_bytes: OBJECT_BYTES, paper: Some(speed) }
    };
    [("mean", BREAK_EVEN_MEAN), ("p95", BREAK_EVEN_P95)].map(of).into()
}

/// How long a hit takes: its open and all its reads.
fn hit_ms(run: &mut Run, share: Option<f64>) -> f64 {
    let times = run.replayed.times(Kind::Hit);
    let time = match share {
        Some(share) => times.percentile(share),
        None => times.mean(),
    };
    time.unwrap_or_default().as_secs_f64() * 1e3
}

fn speed(input: &Input, round_trip_ms: f64) -> Cell {
    match break_even(input.rival, input.segments, input.object_bytes, round_trip_ms) {
        Some(speed) => Cell::number(speed, 2),
        // Better in both, or fewer hits that no saved read makes up for.
        None if input.segments.1 >= input.rival.1 && input.segments.0 <= input.rival.0 => "at any speed".into(),
        None if input.segments.1 < input.rival.1 => "at none".into(),
        None => Cell::Nothing,
    }
}

fn table(inputs: &[Input]) -> Table {
    let columns = [
        "input",
        "bytes",
        "rival: hits %",
        "read ms",
        "segments: hits %",
        "read ms ",
        "faster from Mbit/s",
        "paper",
        "with a round trip",
    ];
    let title = format!("From which speed on segments are faster; with a round trip of {ROUND_TRIP_MS:.0} ms too");
    let mut table = Table::new(title, &columns);
    for input in inputs {
        table.row([
            input.name.as_str().into(),
            Cell::number(input.object_bytes, 0),
            Cell::percent(input.rival.1),
            Cell::number(input.rival.0, 3),
            Cell::percent(input.segments.1),
            Cell::number(input.segments.0, 3),
            speed(input, 0.0),
            Cell::maybe(input.paper, 2),
            speed(input, ROUND_TRIP_MS),
        ]);
    }
    table
}

fn times(input: &Input, megabits: f64, round_trip_ms: f64) -> (f64, f64) {
    let fetch = fetch_ms(input.object_bytes, megabits, round_trip_ms);
    (operation_ms(input.rival.0, input.rival.1, fetch), operation_ms(input.segments.0, input.segments.1, fetch))
}

fn networks(inputs: &[Input]) -> Table {
    let columns = ["input", "Mbit/s", "rival ms", "segments ms", "rival ms, round trip", "segments ms, round trip"];
    let mut table = Table::new("The time of an operation, on a slow 3G network and on a phone's WiFi", &columns);
    for input in inputs {
        for megabits in [NETWORKS.0, NETWORKS.1] {
            let (plain, far) = (times(input, megabits, 0.0), times(input, megabits, ROUND_TRIP_MS));
            let mut row = vec![input.name.as_str().into(), Cell::number(megabits, 1)];
            row.extend([plain.0, plain.1, far.0, far.1].map(|time| Cell::number(time, 2)));
            table.row(row);
        }
    }
    table
}

/// How much longer an operation takes in place, by the speed.
fn plot(input: &Input) -> Plot {
    let speeds = || (1..=60).map(|step| f64::from(step) * 0.05);
    let curve = |round_trip_ms: f64| {
        speeds().map(move |speed| (speed, round_trip_ms)).map(|(speed, far)| {
            let (rival, segments) = times(input, speed, far);
            (speed, (rival - segments).max(-2.0))
        })
    };
    let series = vec![
        Series::new("as equation (1)", curve(0.0).collect::<Vec<_>>()),
        Series::new("with a round trip", curve(ROUND_TRIP_MS).collect::<Vec<_>>()),
        Series::new("both as fast", [(0.05, 0.0), (3.0, 0.0)]),
    ];
    let (x, y) = ("Mbit/s".to_owned(), "ms that segments save an operation; -2 and less as -2".to_owned());
    Plot::Lines { title: format!("What segments save: {}", input.name), x, y, series }
}

fn notes() -> Vec<String> {
    [
        "The paper prints the speed and the time of an operation at which both are equally fast, the hit rates (35 and \
         32 %) and the size, but not the read times that it used. They are computed here from equation (1), so the \
         first two rows agree with it by construction. They come to 2.95 and 0.04 ms in the mean, and to 7.9 and \
         somewhat below 0 ms at p95: its 0.33 and 65.8 are rounded.",
        "A read here is a whole hit, OpenEntry and all its ReadData, since our OpenEntry does the reading. Hit rates \
         come from the same replays, with caches of a quarter of what was browsed and the trace's own average size. If \
         segments also have more hits, they are faster at any speed.",
        "With a round trip a miss costs more than its bytes, and hits count for more: at the paper's average times no \
         speed makes up for three points of hits if a round trip takes more than 34 ms.",
        "On this disk reads take a fraction of a millisecond with both, and there is nothing to gain: the paper's \
         effect depends on slow flash.",
    ]
    .map(str::to_owned)
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_speeds_come_out_and_a_round_trip_makes_hits_worth_more() {
        let report = run(&Setup::quick()).unwrap();
        let table = &report.tables[1];
        let faster = table.column("faster from Mbit/s");
        for (number, speed) in [(0, 0.94), (1, 0.33)] {
            assert!((faster[number].value().unwrap() - speed).abs() < 0.005);
        }
        assert_eq!(table.column("with a round trip")[0].to_string(), "at none");
        assert_eq!((table.rows.len(), report.plots.len()), (10, 2));
        let reads = |column| table.column(column).into_iter().map(|cell| cell.value().unwrap()).collect::<Vec<_>>();
        let (rival, segments) = (reads("read ms"), reads("read ms "));
        assert!(rival[2] > segments[2], "on flash a hit in place takes longer: {rival:?} {segments:?}");
    }
}
