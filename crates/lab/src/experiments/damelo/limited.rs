//! The same load, smaller, on one disk that the kernel limits: Dámelo beside a tree of files, in real time.

use std::fs;
use std::future::poll_fn;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Instant;

use tinaja_store::block_on;
use tinaja_store::device::{Access, Disk, Io, IoEngine};

use super::drive::Subject;
use super::load::{Objects, Ordering, Stage};
use super::modelled::{Size, StageRun};
use super::subject::{OnDamelo, Setting};
use super::tree::FileTree;
use crate::error::LabError;
use crate::experiment::Setup;
use crate::paper::damelo as paper;
use crate::peers::{Bench, BenchOptions, FileSystem};
use crate::progress::Progress;
use crate::times::Times;

/// Requests a second that the disk takes, reads and writes each. A disk such as the paper's takes some 175 small random reads where
/// Dámelo's pages lie: this is a faster one, so that hours become minutes. What is compared are ratios.
pub const LIMIT: u64 = 2000;
/// Bytes a second, in each direction: as much faster than the paper's disk as requests are.
pub const LIMIT_BYTES: u64 = 300_000_000;
/// Operations after which the limit of memory follows what the program itself has come to take.
const LIMIT_EVERY: usize = 500;
/// Of a control group that is given its limit later.
const UNLIMITED: u64 = 1 << 40;

/// What objects are kept in. Each call waits.
pub trait Keeps: Sync {
    fn create(&self, object: u32) -> Result<(), String>;
    fn read(&self, object: u32) -> Result<(), String>;
    fn delete(&self, object: u32) -> Result<(), String>;
}

impl Keeps for OnDamelo {
    fn create(&self, object: u32) -> Result<(), String> {
        block_on(poll_fn(|cx| self.poll_create(cx, object)))
    }

    fn read(&self, object: u32) -> Result<(), String> {
        let (tell, told) = mpsc::sync_channel(1);
        Subject::read(self, object, Box::new(move |how| drop(tell.send(how))));
        told.recv().unwrap_or_else(|_| Err(format!("nobody said what became of object {object}")))
    }

    fn delete(&self, object: u32) -> Result<(), String> {
        block_on(poll_fn(|cx| self.poll_delete(cx, object)))
    }
}

/// What was measured of one way to keep objects.
pub struct Kept {
    pub name: String,
    /// The size of frames, if it is Dámelo.
    pub frame_bytes: Option<u32>,
    pub stages: Vec<(Ordering, Stage, StageRun)>,
    /// Whether ext4's driver did it.
    pub is_by_ext4: bool,
}

impl Kept {
    /// What was measured of a stage.
    pub fn stage(&self, ordering: Ordering, stage: Stage) -> Option<&StageRun> {
        self.stages.iter().find(|(other, of, _)| (*other, *of) == (ordering, stage)).map(|(.., run)| run)
    }
}

/// Dámelo with frames of each of these sizes, and trees on each file system. Errors: no disk can be made or limited, or what was
/// kept was lost.
pub fn measure(setup: &Setup, size: &Size, objects: &Arc<Objects>, frames_kib: &[u32]) -> Result<Vec<Kept>, LabError> {
    let mut all = Vec::new();
    let trees = [FileSystem::Ext2(1024), FileSystem::Ext2(2048), FileSystem::Ext2(4096), FileSystem::Ext4];
    let mut progress = Progress::of("damelo-micro: on a limited disk", frames_kib.len() + trees.len());
    for kib in frames_kib {
        all.push(on_damelo(setup, size, objects, kib << 10)?);
        progress.step();
    }
    for files in trees {
        all.push(on_tree(setup, size, objects, files)?);
        progress.step();
    }
    Ok(all)
}

fn bench(setup: &Setup, disk_bytes: u64, files: FileSystem) -> Result<Bench, LabError> {
    Bench::make(&BenchOptions { scratch: setup.scratch.clone(), disk_bytes, memory_bytes: UNLIMITED, files })
}

fn limit(bench: &Bench) -> Result<(), LabError> {
    bench.limit(LIMIT)?;
    bench.limit_bytes(LIMIT_BYTES)
}

fn on_tree(setup: &Setup, size: &Size, objects: &Arc<Objects>, files: FileSystem) -> Result<Kept, LabError> {
    let (mut stages, mut is_by_ext4) = (Vec::new(), false);
    for orderings in Ordering::CREATED {
        // As much more than Dámelo has as in the paper.
        let bench = bench(setup, size.disk_bytes * 6, files)?;
        is_by_ext4 = bench.is_by_ext4();
        let tree = FileTree::make(&bench.mounted().join("objects"), objects.clone());
        let tree = tree.map_err(|why| LabError::failed("making directories", why))?;
        let keep = |number: usize| {
            if number.is_multiple_of(LIMIT_EVERY) { bench.leave_for_page_cache(size.pool_bytes) } else { Ok(()) }
        };
        let way = Way {
            // Cold: nothing of the stage before is in memory.
            begin: &|_, _| bench.forget_files(),
            run: &|stage, requests| in_threads(&tree, stage, requests, paper::THREADS.1, &keep),
            end: &|| bench.sync(),
        };
        stages.extend(measure_stages(&bench, objects, orderings, &way)?);
    }
    Ok(Kept { name: format!("tree on {files}"), frame_bytes: None, stages, is_by_ext4 })
}

fn on_damelo(setup: &Setup, size: &Size, objects: &Arc<Objects>, frame_bytes: u32) -> Result<Kept, LabError> {
    let mut stages = Vec::new();
    for (created, read) in Ordering::CREATED {
        let bench = bench(setup, size.disk_bytes / 8 * 9 + (32 << 20), FileSystem::Ext4)?;
        let subject = bench.within(|| open(&bench, size, objects, frame_bytes))??;
        let way = Way {
            begin: &|ordering, stage| {
                subject.love(if stage == Stage::Read { ordering } else { created }, true);
                Ok(())
            },
            run: &|stage, requests| in_threads(&subject, stage, requests, paper::THREADS.0, &|_| Ok(())),
            end: &|| {
                let (tell, told) = mpsc::sync_channel(1);
                subject.flush(Box::new(move |how| drop(tell.send(how))));
                let how = told.recv().unwrap_or_else(|_| Err("nobody said what became of it".to_owned()));
                how.map_err(|why| LabError::failed("writing out what is in memory", why))
            },
        };
        stages.extend(measure_stages(&bench, objects, (created, read), &way)?);
        subject.close();
    }
    let name = format!("damelo, frames of {} KiB", frame_bytes >> 10);
    Ok(Kept { name, frame_bytes: Some(frame_bytes), stages, is_by_ext4: true })
}

/// Carries out what a stage asks for.
type Carry<'a> = dyn Fn(Stage, &[u32]) -> Result<StageRun, LabError> + 'a;

/// How stages are carried out in one way to keep objects.
struct Way<'a> {
    /// Before each.
    begin: &'a dyn Fn(Ordering, Stage) -> Result<(), LabError>,
    /// What it asks for.
    run: &'a Carry<'a>,
    /// Until all is on the disk.
    end: &'a dyn Fn() -> Result<(), LabError>,
}

/// Create in one ordering, read in the others, delete; on the limited disk. Errors: the way's own; this process is not let into
/// the group.
fn measure_stages(
    bench: &Bench,
    objects: &Objects,
    (created, read): (Ordering, &[Ordering]),
    way: &Way<'_>,
) -> Result<Vec<(Ordering, Stage, StageRun)>, LabError> {
    limit(bench)?;
    let reads = read.iter().map(|ordering| (*ordering, Stage::Read));
    let all = std::iter::once((created, Stage::Create)).chain(reads).chain([(created, Stage::Delete)]);
    all.map(|(ordering, stage)| {
        (way.begin)(ordering, stage)?;
        let requests = objects.requests(ordering, stage);
        let before = bench.disk();
        let run = bench.within(|| {
            let run = (way.run)(stage, &requests)?;
            let began = Instant::now();
            (way.end)()?;
            Ok::<_, LabError>(StageRun { took: run.took + began.elapsed(), ..run })
        })??;
        let disk = bench.disk() - before;
        Ok((ordering, stage, StageRun { reads: disk.reads, writes: disk.writes, ..run }))
    })
    .collect()
}

fn open(bench: &Bench, size: &Size, objects: &Arc<Objects>, frame_bytes: u32) -> Result<OnDamelo, LabError> {
    let path = bench.mounted().join("objects");
    let failed = |why: String| LabError::failed("making the file of objects", why);
    let file = fs::File::create_new(&path).map_err(|why| failed(why.to_string()))?;
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, size.disk_bytes)
        .map_err(|why| failed(why.to_string()))?;
    bench.write_through(&path)?;
    let disk = Disk::open(&path, Access::Alone, &Io::new(IoEngine::Auto, 4)).map_err(|why| failed(why.to_string()))?;
    let setting = Setting { threads: true, ..Setting::whole(frame_bytes, size.pool_bytes) };
    OnDamelo::open(Arc::new(disk), &setting, objects.clone())
}

/// Have threads do what a stage asks for, dealt out in turn. The first of them calls `keep` with the number of each of its
/// operations.
fn in_threads(
    subject: &dyn Keeps,
    stage: Stage,
    requests: &[u32],
    threads: usize,
    keep: &(dyn Fn(usize) -> Result<(), LabError> + Sync),
) -> Result<StageRun, LabError> {
    let began = Instant::now();
    let one = |first: usize| {
        let mut latencies = Times::default();
        for (number, object) in requests.iter().copied().enumerate().skip(first).step_by(threads) {
            if first == 0 {
                keep(number / threads)?;
            }
            let began = Instant::now();
            let how = match stage {
                Stage::Create => subject.create(object),
                Stage::Read => subject.read(object),
                Stage::Delete => subject.delete(object),
            };
            how.map_err(|why| LabError::failed(stage.doing(), why))?;
            latencies.add(began.elapsed());
        }
        Ok::<_, LabError>(latencies)
    };
    let all = thread::scope(|scope| {
        let started: Vec<_> = (0..threads).map(|first| scope.spawn(move || one(first))).collect();
        let gone = |_| Err(LabError::failed(stage.doing(), "a thread has panicked"));
        started.into_iter().map(|thread| thread.join().unwrap_or_else(gone)).collect::<Result<Vec<_>, _>>()
    })?;
    let mut latencies = Times::default();
    all.into_iter().for_each(|times| latencies.extend(times));
    Ok(StageRun { latencies, took: began.elapsed(), ..StageRun::default() })
}
