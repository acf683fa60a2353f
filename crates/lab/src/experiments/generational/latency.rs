//! What of that clients notice which the engine does by itself: times of hits while the index is merged and segments are cleaned, and what
//! flushes cost at low rates.

use std::time::Duration;

use tinaja_store::device::wrap::Model;

use super::load::{Load, Rates};
use super::tables::{self, Terabyte};
use super::world::{Measured, World};
use super::{area_bytes, cut};
use crate::error::LabError;
use crate::experiment::{Experiment, Needs, Setup};
use crate::report::Report;
use crate::rig::{Rig, sata_7200};

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "generational-latency",
    shows: "times of hits while the engine merges its index and cleans, and what flushes cost, on modelled disks",
    paper: "no paper: ours",
    replays_logs: false,
    takes_requests: false,
    resumes: false,
    needs: Needs::Nothing,
    run,
};

/// Bytes of the disk.
const DISK: (u64, u64) = (4 << 30, 32 << 20);
/// For objects of this size it is cut: the default of a new cache.
const MEAN_OBJECT_BYTES: u64 = 8192;
/// So many times what has room is asked for.
const ASKED_FOR: u64 = 2;
/// The disk is filled so many times before anything is measured.
const FILLED: f64 = 1.5;
/// Bits of memory for each object that has room; all of the index where nothing is said.
const INDEXES: [Option<u64>; 3] = [None, Some(12), Some(3)];
/// The disk that is reckoned.
const TERABYTE: u64 = 1 << 40;
const TURNING: &str = "7200 turns a minute";
/// New objects a second, with a flush each second.
const SLOW: [f64; 3] = [1.0, 10.0, 100.0];
/// Seconds for which each of these is measured.
const SLOW_SECONDS: (u64, u64) = (1000, 20);

/// A modelled disk, and the load that it is under.
struct Disk {
    name: &'static str,
    model: Model,
    rates: Rates,
    /// For which it is measured, and if it is to be quick.
    seconds: (u64, u64),
}

fn disks() -> [Disk; 2] {
    let rates = |gets, puts| Rates { gets, puts, flushes: 0.0 };
    [
        Disk { name: TURNING, model: sata_7200(), rates: rates(25.0, 200.0), seconds: (4000, 40) },
        Disk { name: "flash", model: Model::flash(), rates: rates(4000.0, 4000.0), seconds: (100, 1) },
    ]
}

/// An engine that was measured.
pub struct Run {
    /// On which disk, under which load.
    pub disk: &'static str,
    /// See there.
    pub rates: Rates,
    /// Bits of memory for each object that has room; `None` for all of the index.
    pub bits: Option<u64>,
    /// What came of it.
    pub measured: Measured,
    /// Bytes of one of the two areas of the index.
    pub area_bytes: u64,
}

impl Run {
    /// How often the index was written, and where it lies on the disk read too.
    pub fn merges(&self) -> f64 {
        let each = self.area_bytes * if self.bits.is_some() { 2 } else { 1 };
        self.measured.seen.merged.bytes as f64 / each as f64
    }
}

/// What was measured of the first disk, on one of a terabyte.
fn terabyte(run: &Run, disk_bytes: u64) -> Result<Option<Terabyte>, LabError> {
    let Some(bits) = run.bits else { return Ok(None) };
    let (spec, log_at) = cut(TERABYTE, MEAN_OBJECT_BYTES, Some(bits))?;
    let (area_bytes, model) = (area_bytes(log_at), sata_7200());
    let memory_bytes = Rig::new(&spec)?.read().stats.index_bytes;
    let stored = run.measured.stored[0] as f64 / run.merges();
    // Each run of pages is read from one area and written to the other.
    let request = model.time(area_bytes, 1 << 20, TERABYTE);
    Ok(Some(Terabyte {
        bits,
        memory_bytes,
        area_bytes,
        objects: TERABYTE / MEAN_OBJECT_BYTES,
        a_merge: stored / (disk_bytes / MEAN_OBJECT_BYTES) as f64,
        merge: request.mul_f64(2.0 * area_bytes.div_ceil(1 << 20) as f64),
    }))
}

/// An engine over a new disk, filled.
struct Filled {
    world: World,
    load: Load,
    area_bytes: u64,
}

impl Filled {
    /// By the mix that is measured then, only faster.
    fn new(disk_bytes: u64, bits: Option<u64>, disk: &Disk, seed: u64) -> Result<Filled, LabError> {
        let (spec, log_at) = cut(disk_bytes, MEAN_OBJECT_BYTES, bits)?;
        let world = World::new(&spec, disk.model.clone(), log_at)?;
        let mut load = Load::new(disk_bytes / MEAN_OBJECT_BYTES * ASKED_FOR, seed);
        let rates = disk.rates.scaled(1000.0);
        let mut stored = 0;
        while (stored as f64) < disk_bytes as f64 * FILLED {
            stored += world.run(load.at(rates), Duration::from_secs(5))?.stored_bytes;
        }
        Ok(Filled { world, load, area_bytes: area_bytes(log_at) })
    }
}

fn run(setup: &Setup) -> Result<Report, LabError> {
    let (disk_bytes, disks) = (setup.choose(DISK.0, DISK.1), disks());
    let mut runs = Vec::new();
    for disk in &disks {
        for bits in INDEXES {
            tracing::info!("{}, {bits:?} bits", disk.name);
            let Filled { world, mut load, area_bytes } = Filled::new(disk_bytes, bits, disk, setup.seed)?;
            world.be_prompt(false);
            let seconds = Duration::from_secs(setup.choose(disk.seconds.0, disk.seconds.1));
            let measured = world.run(load.at(disk.rates), seconds)?;
            runs.push(Run { disk: disk.name, rates: disk.rates, bits, measured, area_bytes });
        }
    }
    let mut slow = Vec::new();
    let [turning, _] = &disks;
    for bits in [None, Some(12)] {
        let Filled { world, mut load, area_bytes } = Filled::new(disk_bytes, bits, turning, setup.seed)?;
        world.be_prompt(false);
        for puts in SLOW {
            let rates = Rates { gets: 0.0, puts, flushes: 1.0 };
            let seconds = Duration::from_secs(setup.choose(SLOW_SECONDS.0, SLOW_SECONDS.1));
            let measured = world.run(load.at(rates), seconds)?;
            slow.push(Run { disk: turning.name, rates, bits, measured, area_bytes });
        }
    }
    let first = runs.iter().filter(|run| run.disk == TURNING).filter_map(|run| terabyte(run, disk_bytes).transpose());
    let terabyte = first.collect::<Result<Vec<_>, _>>()?;
    let tables = vec![tables::times(&mut runs), tables::work(&runs), tables::slow(&slow), tables::terabyte(&terabyte)];
    let plots = tables::plots(&mut runs);
    let Experiment { name, shows, paper, .. } = EXPERIMENT;
    Ok(Report { name, shows, paper, quick: setup.quick, seed: setup.seed, tables, plots, notes: tables::notes() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_times_and_all_is_stored_that_has_time() {
        let [first, again] = [(); 2].map(|()| {
            let rates = Rates { gets: 500.0, puts: 500.0, flushes: 1.0 };
            let disk = Disk { name: "flash", model: Model::flash(), rates, seconds: (3, 3) };
            let Filled { world, mut load, .. } = Filled::new(32 << 20, Some(12), &disk, 7).unwrap();
            world.be_prompt(false);
            world.run(load.at(rates), Duration::from_secs(3)).unwrap()
        });
        assert_eq!(format!("{:?}", first.hits), format!("{:?}", again.hits));
        assert_eq!((first.stored, first.misses, first.busy), (again.stored, again.misses, again.busy));
        assert!(first.stored[0] > 1400 && first.stored[1] == 0 && first.misses > 100, "{first:?}");
    }

    #[test]
    fn what_the_engine_does_by_itself_is_told_from_what_is_asked_for() {
        let report = run(&Setup::quick()).unwrap();
        let [times, work, slow, terabyte] = &report.tables[..] else { panic!("four tables") };
        let of = |table: &crate::report::Table, column: &str| {
            table.column(column).into_iter().map(|cell| cell.value().unwrap_or_default()).collect::<Vec<_>>()
        };
        let (hits, p99) = (of(times, "hits"), of(times, "p99 ms"));
        // With its index on the disk it merges, cleans and does neither, and a hit takes one read at the least.
        assert!(hits.iter().skip(3).take(6).all(|hits| *hits > 20.0), "{hits:?}");
        assert!(p99.iter().take(9).all(|p99| *p99 > 12.0) && p99.iter().skip(9).all(|p99| *p99 > 0.1), "{p99:?}");
        assert!(of(work, "merges").iter().enumerate().all(|(run, merges)| run % 3 == 0 || *merges > 20.0), "{work:?}");
        // Each flush pads what it writes: the fewer puts, the more is written for each.
        let written = of(slow, "written / stored");
        assert!(written.chunks(3).all(|of| of[0] > of[2] && of[2] > 1.0), "{written:?}");
        assert!(
            of(terabyte, "bits in all").iter().zip([12.0, 3.0]).all(|(all, bits)| all / bits < 1.1),
            "{terabyte:?}"
        );
    }
}
