//! Tinaja's store beside foyer: the same objects, the same directory, the same run, in turns.
//!
//! ```text
//! cargo bench -p tinaja-store                        the whole comparison, about four minutes; writes docs/bench/beside-foyer.md
//! cargo bench -p tinaja-store -- --foyer-uring       the same, foyer with io_uring; prints and writes nothing down
//! cargo bench -p tinaja-store -- --replay            hashcache-log, segmented and foyer under one workload; writes docs/bench/three-caches.md
//! cargo bench -p tinaja-store -- --smoke             a few seconds, to see that it runs; its numbers mean nothing
//! cargo bench -p tinaja-store -- --pair get 8192 1   one line of the table: operation, size, tasks; five rounds of both
//! cargo bench -p tinaja-store -- --only get 8192 1   the same of Tinaja's alone, for three seconds: for a profiler
//! cargo bench -p tinaja-store -- --threads ...       Tinaja's requests carried out by threads and not by io_uring
//! ```
//!
//! Direct I/O, nothing hot in memory, defaults elsewhere. Disk space: 2 GiB at most, in a directory that is removed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a benchmark")]

mod counting;
mod foyer_side;
mod machine;
mod objects;
mod phase;
mod replay;
mod report;
mod tinaja_side;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use foyer_side::{FoyerHybrid, FoyerStorage};
use objects::Objects;
use phase::{Measured, Op, Side, run};
use report::{Index, Line, Report};
use tinaja_side::Tinaja;

#[global_allocator]
static HEAP: counting::Counting = counting::Counting;

/// How much is measured.
#[derive(Clone, Copy)]
pub struct Scale {
    disk_bytes: u64,
    /// Bytes of the objects that gets ask for.
    asked_bytes: u64,
    phase: Duration,
    rounds: usize,
}

const WHOLE: Scale =
    Scale { disk_bytes: 1 << 30, asked_bytes: 320 << 20, phase: Duration::from_millis(1500), rounds: 3 };
const SMOKE: Scale = Scale { disk_bytes: 192 << 20, asked_bytes: 8 << 20, phase: Duration::from_millis(40), rounds: 1 };

const SIZES: [usize; 3] = [300, 8 << 10, 64 << 10];
const TASKS: [usize; 2] = [1, 32];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| arguments.iter().position(|argument| argument == name);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    if let Some(at) = has("--only").or(has("--pair")) {
        let [op, size, tasks] = &arguments[at + 1..at + 4] else { unreachable!() };
        let op = [("put", Op::Put), ("get", Op::Get), ("absent", Op::Absent)].into_iter().find(|(name, _)| name == op);
        let line = One { op: op.unwrap().1, size: size.parse().unwrap(), tasks: tasks.parse().unwrap() };
        return runtime.block_on(one(dir.path(), line, has("--pair").is_some()));
    }
    if has("--replay").is_some() {
        return runtime.block_on(replay::replay(dir.path(), has("--smoke").is_some()));
    }
    // Cargo says `--bench` only when it is asked for benchmarks, not when it runs all targets as tests.
    let smoke = has("--smoke").is_some() || has("--bench").is_none();
    let scale = if smoke { SMOKE } else { WHOLE };
    let mut report = Report::new(scale);
    for size in SIZES {
        runtime.block_on(compare(dir.path(), size, scale, &mut report));
    }
    drop(runtime);
    println!("{}", report.text());
    if !smoke && has("--foyer-uring").is_none() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/bench/beside-foyer.md");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, report.markdown()).unwrap();
        println!("written to docs/bench/beside-foyer.md");
    }
}

/// One size, all operations, both caches in turns.
async fn compare(dir: &Path, size: usize, scale: Scale, report: &mut Report) {
    let objects = Objects::of(size);
    let dir = dir.join(size.to_string());
    let tinaja = Tinaja::open(&dir.join("tinaja"), objects.clone(), scale.disk_bytes);
    counting::start();
    let foyer = FoyerHybrid::open(&dir.join("foyer"), objects.clone(), scale.disk_bytes).await;
    let empty = counting::live_bytes();
    fill(&tinaja, 0, scale.disk_bytes / size as u64).await;
    // foyer gives each object whole blocks: so many fill its disk.
    fill(&foyer, 0, scale.disk_bytes / objects.bytes_on_foyer()).await;
    let heap_bytes = counting::live_bytes() - empty;
    counting::stop();
    report.index(Index { size, tinaja: tinaja.stats(), foyer_heap_bytes: heap_bytes, foyer_objects: foyer.found() });

    // Every put is of a new object.
    let next = AtomicU64::new(1 << 40);
    for tasks in TASKS {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..scale.rounds {
            ours.push(measure(&tinaja, Op::Put, tasks, scale, 0, &next).await);
            theirs.push(measure(&foyer, Op::Put, tasks, scale, 0, &next).await);
        }
        report.line(Line { what: "put", size, tasks, ours, theirs });
    }
    let asked = (scale.asked_bytes / objects.bytes_on_foyer()).min(100_000);
    fill(&tinaja, 1 << 50, asked).await;
    fill(&foyer, 1 << 50, asked).await;
    let storage = FoyerStorage(foyer.clone());
    for (op, what, bare) in [(Op::Get, "get", "get, bare"), (Op::Absent, "absent", "absent, bare")] {
        for tasks in TASKS {
            let (mut ours, mut hybrid, mut alone) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..scale.rounds {
                ours.push(measure(&tinaja, op, tasks, scale, asked, &next).await);
                hybrid.push(measure(&foyer, op, tasks, scale, asked, &next).await);
                alone.push(measure(&storage, op, tasks, scale, asked, &next).await);
            }
            report.line(Line { what, size, tasks, ours: ours.clone(), theirs: hybrid });
            report.line(Line { what: bare, size, tasks, ours, theirs: alone });
        }
    }
    tinaja.close().await;
    foyer.close().await;
    drop(storage);
    std::fs::remove_dir_all(&dir).unwrap();
}

async fn measure<S: Side>(side: &S, op: Op, tasks: usize, scale: Scale, asked: u64, next: &AtomicU64) -> Measured {
    let first = next.fetch_add(1 << 32, Relaxed);
    let range = if op == Op::Get { (1 << 50)..(1 << 50) + asked } else { first..first + (1 << 32) };
    let measured = run(side, op, tasks, scale.phase, range).await;
    println!("{:8} {:6?} {:2} tasks: {measured}", S::NAME, op, tasks);
    measured
}

/// Put so many objects, from this number on, and wait for the disk.
async fn fill<S: Side>(side: &S, from: u64, count: u64) {
    for number in from..from + count {
        side.put(number).await;
    }
    side.settle().await;
}

/// One line of the table.
struct One {
    op: Op,
    size: usize,
    tasks: usize,
}

/// One line of the table: in turns with foyer, or Tinaja's alone for long enough to be looked at with a profiler.
async fn one(dir: &Path, One { op, size, tasks }: One, pair: bool) {
    let objects = Objects::of(size);
    let tinaja = Tinaja::open(&dir.join("tinaja"), objects.clone(), WHOLE.disk_bytes);
    let asked = (WHOLE.asked_bytes / objects.bytes_on_foyer()).min(100_000);
    fill(&tinaja, 0, WHOLE.disk_bytes / size as u64).await;
    fill(&tinaja, 1 << 50, asked).await;
    let next = AtomicU64::new(1 << 40);
    if !pair {
        let scale = Scale { phase: Duration::from_secs(3), ..WHOLE };
        measure(&tinaja, op, tasks, scale, asked, &next).await;
        return tinaja.close().await;
    }
    let foyer = FoyerHybrid::open(&dir.join("foyer"), objects, WHOLE.disk_bytes).await;
    fill(&foyer, 0, WHOLE.disk_bytes / foyer.bytes_on_disk()).await;
    fill(&foyer, 1 << 50, asked).await;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        ours.push(measure(&tinaja, op, tasks, WHOLE, asked, &next).await);
        theirs.push(measure(&foyer, op, tasks, WHOLE, asked, &next).await);
    }
    println!("{}", report::of_lines(&[Line { what: "", size, tasks, ours, theirs }]));
    tinaja.close().await;
    foyer.close().await;
}
