//! One engine under the PolyMix-like load, as fast as its disks can.

use tinaja_store::device::wrap::Model;
use tinaja_store::{EngineRef, Settings, engines};

use crate::error::LabError;
use crate::experiment::Setup;
use crate::experiments::table3::usual;
use crate::load::{Drive, Embedded, Outcome, PolyMix, PolyMixOptions, drive};
use crate::rig::{Rig, Spec, sata_7200, scsi_10000, scsi_15000};

/// What is run.
#[derive(Clone, Debug)]
pub struct Case {
    /// Which engine.
    pub engine: EngineRef,
    /// With which settings.
    pub settings: Settings,
    /// On how many disks.
    pub disks: usize,
    /// Under which of the two loads.
    pub embedded: Embedded,
}

/// What came of it: the clocks of the outcome are, in this order, those of disks of 7200, 10,000 and 15,000 turns.
pub struct Ran {
    /// What was run.
    pub case: Case,
    /// What was counted.
    pub outcome: Outcome,
    /// Bytes of each disk.
    pub disk_bytes: u64,
}

/// Disks of 7200, 10,000 and 15,000 turns, whose clocks run along.
pub fn models() -> [Model; 3] {
    [sata_7200(), scsi_10000(), scsi_15000()]
}

/// Bytes of all disks together.
pub fn disk_bytes(setup: &Setup) -> u64 {
    setup.choose(2 << 30, 64 << 20)
}

/// The load that belongs to disks of so many bytes: its working set fills three tenths of them, as 18 GB of 60 GB did
/// (section 5.2); its rate is that of the requests' times only.
pub fn load(setup: &Setup, embedded: Embedded, rate: f64) -> PolyMixOptions {
    let options = PolyMixOptions::new(embedded, rate, 1);
    let working_set = 0.3 * disk_bytes(setup) as f64 / options.stored_bytes_a_view();
    PolyMixOptions { working_set: working_set as u64, ..options }
}

/// Requests until the working set has been seen once, and then those that are counted.
pub fn lengths(setup: &Setup, options: &PolyMixOptions) -> (usize, usize) {
    let warm_up = options.working_set as f64 * options.requests_a_view() / options.share_of_new_views();
    (warm_up as usize, setup.choose(100_000, 3000))
}

/// Run it. The disks share what [`disk_bytes`] says.
pub fn run(case: Case, setup: &Setup) -> Result<Ran, LabError> {
    tracing::info!("{:?} {} on {} disks, {:?}", case.settings, case.engine, case.disks, case.embedded);
    let spec = Spec {
        settings: case.settings.clone(),
        disks: case.disks,
        models: models().to_vec(),
        ..Spec::new(case.engine, disk_bytes(setup) / case.disks as u64)
    };
    let options = load(setup, case.embedded, 100.0);
    let (warm_up, measured) = lengths(setup, &options);
    let requests = PolyMix::new(options, setup.seed).take(warm_up + measured);
    let outcome = drive(&Rig::new(&spec)?, requests, &Drive { warm_up, ..Drive::default() })?;
    Ok(Ran { case, outcome, disk_bytes: spec.disk_bytes })
}

impl Case {
    /// One disk, and the settings that an engine has of itself.
    pub fn new(engine: EngineRef, prefetch: bool, embedded: Embedded) -> Case {
        Case { engine, settings: usual(prefetch), disks: 1, embedded }
    }
}

impl Ran {
    /// The paper's `rel`: how many times fewer reads of the log its hits take than those of the same engine without
    /// prefetching. With a Disk Table a hit's first read is of the table.
    pub fn related(&self, without: &Ran) -> f64 {
        let reads = |ran: &Ran| ran.outcome.reads_a_hit() - if self.has_table() { 1.0 } else { 0.0 };
        if reads(self) > 0.0 { (reads(without) / reads(self)).max(1.0) } else { 1.0 }
    }

    /// Whether objects lie in a Disk Table: then no position is in memory.
    pub fn has_table(&self) -> bool {
        self.case.engine.has(&engines::BIN_SIZE)
    }

    /// How far the arm goes for a request, on average over reads and writes, as a share of the disk; a third between random
    /// places.
    pub fn way(&self) -> f64 {
        let (reads, writes) = (&self.outcome.spent.reads, &self.outcome.spent.writes);
        let requests = (reads.requests + writes.requests).max(1);
        (reads.way_bytes + writes.way_bytes) as f64 / requests as f64 / self.disk_bytes.max(1) as f64
    }

    /// Whether related objects are read together.
    pub fn prefetches(&self) -> bool {
        self.case.settings.is_on(&engines::PREFETCH)
    }

    /// Bytes of a request to the disk, on average over reads.
    pub fn read_bytes(&self) -> u64 {
        let reads = &self.outcome.spent.reads;
        reads.bytes / reads.requests.max(1)
    }

    /// Requests to the disks for one of the clients'.
    pub fn disk_requests(&self) -> f64 {
        let spent = &self.outcome.spent;
        (spent.reads.requests + spent.writes.requests) as f64 / self.outcome.requests.max(1) as f64
    }
}
