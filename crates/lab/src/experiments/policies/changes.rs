//! A load that changes at once, and how long it takes until hits are back: the engine's policy, simulated and as it ships, beside published ones.

use tinaja_store::{Settings as StoreSettings, engines};

use crate::error::LabError;
use crate::experiment::{Experiment, Needs, Setup};
use crate::load::{Changes, Phase, SCANNED};
use crate::policies::{Engine, Generational, Policy, REFERENCES, Sequence, Settings};
use crate::report::{Cell, Plot, Report, Series, Table};

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "policies-changes",
    shows: "hits while a site becomes hot, a scan passes, popularity turns round, and how long until learned",
    paper: "no paper: ours beside published policies",
    replays_logs: false,
    takes_requests: false,
    resumes: false,
    needs: Needs::Nothing,
    run,
};

/// Objects beside the site's and the scan's, and requests of a phase.
const LOAD: ((usize, u64), (usize, u64)) = ((40_000, 200_000), (8000, 20_000));
/// Of a phase. Hits are told by window.
const WINDOWS: usize = 40;
/// The disk as a part of what all but the scan takes.
const PART: f64 = 0.10;
/// For objects of this size the engines' disk is cut: the default of a new cache.
const MEAN_OBJECT_BYTES: u64 = 8192;
const BESIDE: [&str; 4] = ["FIFO", "LRU", "S3-FIFO", "GDSF"];
/// Hits are back once two windows in a row are this near to what the end of the phase has, in points.
const NEAR: f64 = 1.0;

/// A cache, and the share of the requests that are not the scan's that it found, by window.
struct Subject {
    name: &'static str,
    hits: Vec<f64>,
    /// Requests that stored their object, the scan's too.
    stored: u64,
    written: Option<f64>,
    /// Of what an engine stored, what it lost since sets of its index were full.
    lost: Option<f64>,
}

impl Subject {
    fn phase(&self, phase: usize) -> &[f64] {
        self.hits.get(phase * WINDOWS..(phase + 1) * WINDOWS).unwrap_or_default()
    }

    /// What a phase comes to: the mean of its last fourth.
    fn at_end(&self, phase: usize) -> f64 {
        mean(self.phase(phase).get(WINDOWS / 4 * 3..).unwrap_or_default())
    }

    fn worst(&self, phase: usize) -> f64 {
        self.phase(phase).iter().copied().fold(1.0, f64::min)
    }

    /// Windows until hits are back.
    fn learned_after(&self, phase: usize) -> usize {
        let near = |hits: &[f64]| hits.iter().all(|hits| *hits >= self.at_end(phase) - NEAR / 100.0);
        self.phase(phase).windows(2).position(near).unwrap_or(WINDOWS)
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn run(setup: &Setup) -> Result<Report, LabError> {
    let (objects, requests) = setup.choose(LOAD.0, LOAD.1);
    let all: Vec<_> = Changes::new(objects, requests, setup.seed).collect();
    let is_scan: Vec<_> = all.iter().map(|request| request.stream == SCANNED).collect();
    let usual = all.iter().filter(|request| request.stream != SCANNED).copied();
    let footprint = Sequence::new(usual, u64::MAX, Sequence::BESIDE_BODY).bytes;
    let disk_bytes = (footprint as f64 * PART) as u64;
    let load = Load { sequence: Sequence::new(all, u64::MAX, Sequence::BESIDE_BODY), is_scan, requests };
    let mut subjects = Vec::new();
    for reference in REFERENCES.iter().filter(|reference| BESIDE.contains(&reference.name)) {
        subjects.push(load.replay(reference.name, &mut *(reference.new)(disk_bytes)));
    }
    let mut simulated = Generational::new(disk_bytes, Settings::default())
        .ok_or_else(|| LabError::failed("simulating the engine's policy", "the disk is too small"))?;
    subjects.push(load.replay("ours, simulated", &mut simulated));
    for engine in [engines::GENERATIONAL, engines::HASHCACHE_LOG] {
        let mut subject = Engine::new(engine, StoreSettings::new(), disk_bytes, MEAN_OBJECT_BYTES)?;
        let mut replayed = load.replay(engine.name, &mut subject);
        let lost = subject.rig().read().stats.lost_to_full_sets;
        replayed.lost = Some(lost as f64 / replayed.stored.max(1) as f64);
        subjects.push(replayed);
        if let Some(wrong) = subject.failed() {
            return Err(wrong);
        }
    }
    let scan_bytes: u64 = load.scanned().map(|(asked, _)| asked.bytes).sum();
    let tables =
        vec![ends(&subjects), times(&subjects, requests), loads(objects, requests, footprint, disk_bytes, scan_bytes)];
    let Experiment { name, shows, paper, .. } = EXPERIMENT;
    let (plots, notes) = (vec![plot(&subjects, requests)], notes());
    Ok(Report { name, shows, paper, quick: setup.quick, seed: setup.seed, tables, plots, notes })
}

struct Load {
    sequence: Sequence,
    is_scan: Vec<bool>,
    requests: u64,
}

impl Load {
    fn scanned(&self) -> impl Iterator<Item = (&crate::policies::Asked, &bool)> {
        self.sequence.asked.iter().zip(&self.is_scan).filter(|(_, is_scan)| **is_scan)
    }

    fn replay(&self, name: &'static str, policy: &mut dyn Policy) -> Subject {
        tracing::info!("{name}");
        let window = (self.requests as usize / WINDOWS).max(1);
        let (mut hits, mut stored, mut found, mut asked_for) = (Vec::new(), 0, 0, 0);
        for (asked, is_scan) in self.sequence.asked.iter().zip(&self.is_scan) {
            let is_hit = policy.ask(asked);
            stored += u64::from(!is_hit);
            if *is_scan {
                continue;
            }
            (found, asked_for) = (found + usize::from(is_hit), asked_for + 1);
            if asked_for == window {
                hits.push(found as f64 / window as f64);
                (found, asked_for) = (0, 0);
            }
        }
        let written = policy.written().map(|(written, stored)| written as f64 / stored.max(1) as f64);
        Subject { name, hits, stored, written, lost: None }
    }
}

fn loads(objects: usize, requests: u64, footprint: u64, disk_bytes: u64, scan_bytes: u64) -> Table {
    let columns = ["objects", "requests a phase", "footprint MB", "disk MB", "the scan, disks"];
    let mut table = Table::new("The load", &columns);
    let mb = |bytes: u64| Cell::number(bytes as f64 / 1e6, 1);
    let scan = Cell::number(scan_bytes as f64 / disk_bytes as f64, 1);
    table.row([Cell::Count(objects as u64), Cell::Count(requests), mb(footprint), mb(disk_bytes), scan]);
    table
}

/// What each phase comes to, and the worst of it.
fn ends(subjects: &[Subject]) -> Table {
    let mut columns = vec!["cache"];
    columns.extend(Phase::ALL.iter().flat_map(|phase| [phase.name(), "worst"]));
    columns.extend(["written / stored", "lost to full sets %"]);
    let mut table = Table::new("Objects found at the end of each phase, and in its worst window, %", &columns);
    for subject in subjects {
        let mut row = vec![subject.name.into()];
        for phase in 0..Phase::ALL.len() {
            // The first window of all is that of an empty cache.
            let worst = if phase == 0 { Cell::Nothing } else { Cell::percent(subject.worst(phase)) };
            row.extend([Cell::percent(subject.at_end(phase)), worst]);
        }
        row.extend([Cell::maybe(subject.written, 3), Cell::maybe(subject.lost.map(|lost| lost * 100.0), 1)]);
        table.row(row);
    }
    table
}

/// How long until hits are what they are at the end of the phase.
fn times(subjects: &[Subject], requests: u64) -> Table {
    let mut columns = vec!["cache"];
    columns.extend(Phase::ALL.iter().map(|phase| phase.name()));
    let title = format!("Thousands of requests until hits are within {NEAR} point of the end of the phase");
    let mut table = Table::new(title, &columns);
    let window = requests as f64 / WINDOWS as f64 / 1000.0;
    for subject in subjects {
        let after = (0..Phase::ALL.len()).map(|phase| subject.learned_after(phase) as f64 * window);
        table.row([Cell::from(subject.name)].into_iter().chain(after.map(|after| Cell::number(after, 1))));
    }
    table
}

fn plot(subjects: &[Subject], requests: u64) -> Plot {
    let window = requests as f64 / WINDOWS as f64 / 1000.0;
    let curve =
        |hits: &[f64]| (1..).zip(hits).map(|(at, hits)| (f64::from(at) * window, hits * 100.0)).collect::<Vec<_>>();
    let series = subjects.iter().map(|subject| Series::new(subject.name, curve(&subject.hits))).collect();
    let phases = Phase::ALL.map(Phase::name).join(", ");
    Plot::Lines {
        title: format!("Hits while the load changes: {phases}"),
        x: "thousands of requests, without the scan's".to_owned(),
        y: "hits, % of requests".to_owned(),
        series,
    }
}

fn notes() -> Vec<String> {
    [
        "Objects of sizes as in HashCache's Table 5 are asked for by Zipf's law with alpha 0.8. Then, each for as many requests: a site that was never \
         asked for has three tenths of all requests; after each five requests comes one for an object that nobody asks for again; that is \
         over; the object asked for most becomes the one asked for least, and so on, for good. The site stays as it is then. The scan's \
         own requests, which nobody can find, are not counted.",
        "How long until learned: until two windows in a row, of a fortieth of the phase each, are within a point of the mean of the phase's last \
         fourth. A policy that comes to less is sooner there.",
        "`ours, simulated` is the engine's policy over segments, headers and padding; `generational` and `hashcache-log` are the engines \
         themselves, over a disk in memory of as many bytes.",
    ]
    .map(str::to_owned)
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_changed_is_learned() {
        let report = run(&Setup::quick()).unwrap();
        let ends = &report.tables[0];
        let names: Vec<_> = ends.column("cache").into_iter().map(|cell| cell.to_string()).collect();
        let found = |cache: &str, phase: Phase| {
            let row = names.iter().position(|name| name == cache).unwrap();
            ends.column(phase.name())[row].value().unwrap()
        };
        for phase in Phase::ALL {
            let (ours, fifo) = (found("generational", phase), found("FIFO", phase));
            assert!(ours > fifo + 1.0, "{phase:?}: {ours} and {fifo}");
        }
        // A scan empties a FIFO queue; what is worth keeping stays in ours.
        let lost = |cache: &str| found(cache, Phase::NewSite) - found(cache, Phase::Scan);
        assert!(lost("generational") < lost("FIFO"), "{} and {}", lost("generational"), lost("FIFO"));
        // Turned round, the load is as easy as it was.
        let gap = (found("generational", Phase::TurnedRound) - found("generational", Phase::AfterScan)).abs();
        assert!(gap < 6.0, "{gap}");
    }
}
