//! The microbenchmarks on a modelled disk, in virtual time.

use std::sync::Arc;
use std::time::Duration;

use tinaja_store::device::elevator::Order;
use tinaja_store::device::wrap::{Counted, Detail, Model};

use super::drive::{Measured, drive, flush};
use super::load::{Objects, Ordering, Stage};
use super::subject::{OnDamelo, Setting};
use crate::error::LabError;
use crate::paper::damelo as paper;
use crate::rig::{SCSI_9LZX_BYTES, Sparse, Stepped, scsi_9lzx};
use crate::times::Times;

/// How much there is of everything.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub objects: u32,
    pub pool_bytes: u64,
    pub disk_bytes: u64,
}

impl Size {
    /// The paper's, divided by this. A smaller disk is three times as large in proportion: a page that is written again takes
    /// another frame until the next checkpoint, and the frames left over must be more than a few in each group.
    pub fn of_paper(divided: u32) -> Size {
        let by = u64::from(divided);
        let spare = if divided == 1 { 1 } else { 3 };
        Size {
            objects: paper::OBJECTS / divided,
            pool_bytes: paper::POOL_BYTES / by,
            disk_bytes: paper::DISK_BYTES / by * spare,
        }
    }
}

/// A disk that is a model.
#[derive(Clone, Debug)]
pub struct ModelDisk {
    pub name: &'static str,
    pub model: Model,
    /// All of it: the engine has the beginning.
    pub whole_bytes: u64,
    /// How many requests it is best given at once.
    pub depth: usize,
}

impl ModelDisk {
    /// The paper's disk. Where there is less of everything, the disk is smaller too.
    pub fn scsi(size: &Size) -> ModelDisk {
        let whole_bytes = (SCSI_9LZX_BYTES as f64 * size.disk_bytes as f64 / paper::DISK_BYTES as f64) as u64;
        ModelDisk { name: "disk", model: scsi_9lzx(), whole_bytes, depth: 1 }
    }

    /// A flash disk, which takes as many requests as come.
    pub fn flash(size: &Size) -> ModelDisk {
        let model = Model::flash();
        ModelDisk { name: "flash", depth: model.lanes, model, whole_bytes: size.disk_bytes }
    }
}

/// What was measured of one stage.
#[derive(Clone, Debug, Default)]
pub struct StageRun {
    pub latencies: Times,
    /// From the first operation to the end of the last; creates until all is on the disk.
    pub took: Duration,
    /// What the disk did meanwhile.
    pub reads: u64,
    pub writes: u64,
    /// The way of the arm, in bytes of the disk, where that is known.
    pub way_bytes: u64,
}

/// What was measured of one ordering: create, read, delete. Those of the zipfs are created and deleted as random, and share these.
#[derive(Clone, Debug)]
pub struct Run {
    pub ordering: Ordering,
    pub setting: Setting,
    pub stages: [StageRun; 3],
    /// Objects on a page, on average.
    pub objects_a_page: f64,
}

impl Run {
    pub fn read(&self) -> &StageRun {
        let [_, read, _] = &self.stages;
        read
    }

    pub fn stage(&self, stage: Stage) -> &StageRun {
        let [create, read, delete] = &self.stages;
        match stage {
            Stage::Create => create,
            Stage::Read => read,
            Stage::Delete => delete,
        }
    }

    /// The hit rate of a page as section 5.1 defines it, over the time that it is in memory: requests for objects on the page,
    /// of the objects on it. The mean of all pages that were read, each by its objects.
    pub fn hit_rate(&self) -> f64 {
        let read = self.read();
        read.latencies.count() as f64 / (read.reads as f64 * self.objects_a_page)
    }
}

/// Create objects in one ordering, read them in others, and delete them as they were created. Nothing that was read is in memory
/// when the next ordering begins. Errors: the engine's.
pub fn measure(
    disk: &ModelDisk,
    size: &Size,
    objects: &Arc<Objects>,
    (created, read): (Ordering, &[Ordering]),
    setting: Setting,
) -> Result<Vec<Run>, LabError> {
    let below = Arc::new(Sparse::new(size.disk_bytes));
    let stepped = Arc::new(Stepped::over(below, disk.model.clone(), disk.whole_bytes));
    let counted = Arc::new(Counted::new(stepped.clone()));
    let subject = OnDamelo::open(counted.clone(), &setting, objects.clone())?;
    stepped.start();
    let stage = |ordering: Ordering, stage: Stage| {
        let requests = objects.requests(ordering, stage);
        let before = counted.detail();
        let Measured { latencies, mut took } = drive(&subject, &stepped, stage, &requests, paper::THREADS.0)?;
        if stage != Stage::Delete {
            // Deletes are memory work; when their pages are written again is no part of them.
            took += flush(&subject, &stepped)?;
        }
        let spent = counted.detail();
        let way = |detail: &Detail| detail.reads.way_bytes + detail.writes.way_bytes;
        Ok::<_, LabError>(StageRun {
            latencies,
            took,
            reads: spent.reads.requests - before.reads.requests,
            writes: spent.writes.requests - before.writes.requests,
            way_bytes: way(&spent) - way(&before),
        })
    };
    let create = stage(created, Stage::Create)?;
    let objects_a_page = f64::from(objects.count()) / subject.pages() as f64;
    let mut reads = Vec::new();
    for ordering in read {
        // Not before: who creates in a group is about to use it, and loves it (section 3).
        subject.love(*ordering, setting.hates);
        reads.push((*ordering, stage(*ordering, Stage::Read)?));
    }
    let delete = stage(created, Stage::Delete)?;
    let run =
        |(ordering, read)| Run { ordering, setting, stages: [create.clone(), read, delete.clone()], objects_a_page };
    Ok(reads.into_iter().map(run).collect())
}

/// One thing switched off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Without {
    Nothing,
    /// The elevator goes one way.
    WayBack,
    /// Requests go in turn.
    Elevator,
    /// Groups lie one behind the other.
    Centre,
    /// All groups are loved.
    Hate,
    /// One request at a time, where more would do.
    Depth,
}

impl Without {
    pub const ALL: [Without; 6] =
        [Without::Nothing, Without::WayBack, Without::Elevator, Without::Centre, Without::Hate, Without::Depth];

    pub fn name(self) -> &'static str {
        match self {
            Without::Nothing => "everything on",
            Without::WayBack => "one-way elevator",
            Without::Elevator => "no elevator, in turn",
            Without::Centre => "groups one behind the other",
            Without::Hate => "all groups loved",
            Without::Depth => "one request at a time",
        }
    }

    /// The setting without it.
    pub fn setting(self, setting: Setting) -> Setting {
        match self {
            Without::Nothing => setting,
            Without::WayBack => Setting { order: Order::OneWay, ..setting },
            Without::Elevator => Setting { order: Order::InTurn, ..setting },
            Without::Centre => Setting { centre: false, ..setting },
            Without::Hate => Setting { hates: false, ..setting },
            Without::Depth => Setting { depth: 1, ..setting },
        }
    }
}
