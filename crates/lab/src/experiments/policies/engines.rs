//! What ships beside what is simulated: engines themselves, on disks in memory.

use tinaja_store::{EngineRef, Settings, engines};

use super::runs::Run;
use crate::error::LabError;
use crate::policies::{Engine, Outcome, Replay, replay};
use crate::report::{Cell, Table};

/// The engine of the policy first.
const ENGINES: [EngineRef; 3] = [engines::GENERATIONAL, engines::SEGMENTED, engines::HASHCACHE_LOG];
const BESIDE: [&str; 3] = ["S3-FIFO", "GDSF", "FIFO"];
/// For objects of this size disks are cut: the default of a new cache.
const MEAN_OBJECT_BYTES: u64 = 8192;

/// Objects found by each engine on each disk that is large enough for it. Errors: an engine gave other bytes than were stored.
pub fn table(runs: &[Run<'_>]) -> Result<Table, LabError> {
    let mut columns = vec!["load", "disk %", "disk MB"];
    columns.extend(BESIDE);
    columns.push("simulated");
    columns.extend(ENGINES.map(|engine| engine.name));
    columns.extend(["to simulated", "to S3-FIFO", "to GDSF", "to FIFO", "written / stored", "lost to full sets %"]);
    let mut table = Table::new("Objects found by engines themselves, %", &columns);
    for run in runs {
        let mut row = vec![run.load.title().into(), Cell::number(run.part * 100.0, 0)];
        row.push(Cell::number(run.disk_bytes as f64 / 1e6, 1));
        let beside = BESIDE.map(|name| run.reference(name).map(Outcome::hit_ratio));
        let simulated = run.ours().map(Outcome::hit_ratio);
        row.extend(beside.iter().chain([&simulated]).map(|ratio| Cell::maybe(ratio.map(|ratio| ratio * 100.0), 1)));
        let (mut ours, mut lost) = (None, None);
        for engine in ENGINES {
            let outcome = outcome(engine, run)?;
            let ratio = outcome.as_ref().map(|(outcome, _)| outcome.hit_ratio() * 100.0);
            row.push(Cell::maybe(ratio, 1));
            if engine == engines::GENERATIONAL {
                lost = outcome.as_ref().map(|(_, lost)| lost * 100.0);
                ours = outcome.map(|(outcome, _)| outcome);
            }
        }
        let hits = ours.as_ref().map(Outcome::hit_ratio);
        let points = |other: &Option<f64>| Some((hits? - (*other)?) * 100.0);
        row.push(Cell::maybe(points(&simulated), 1));
        row.extend(beside.iter().map(|other| Cell::maybe(points(other), 1)));
        row.push(Cell::maybe(ours.and_then(|ours| ours.written), 3));
        row.push(Cell::maybe(lost, 1));
        table.row(row);
    }
    Ok(table)
}

/// What an engine made of a run, and the share of stored objects that it lost to full sets; nothing where the disk is too small.
fn outcome(engine: EngineRef, run: &Run<'_>) -> Result<Option<(Outcome, f64)>, LabError> {
    let Ok(mut subject) = Engine::new(engine, Settings::new(), run.disk_bytes, MEAN_OBJECT_BYTES) else {
        return Ok(None);
    };
    let outcome = replay(&run.load.sequence, &mut subject, Replay::default());
    if let Some(wrong) = subject.failed() {
        return Err(wrong);
    }
    let stored = (outcome.requests - outcome.hits).max(1);
    let lost = subject.rig().read().stats.lost_to_full_sets as f64 / stored as f64;
    Ok(Some((outcome, lost)))
}
