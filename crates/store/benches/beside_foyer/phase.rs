//! One measurement: so many tasks do one thing for so long.

use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::machine;

/// A cache under measurement.
pub trait Side: Clone + Send + Sync + 'static {
    const NAME: &'static str;
    /// Bytes of an object's name and body.
    fn payload_bytes(&self, number: u64) -> u64;
    /// Store an object; whether it was taken.
    fn put(&self, number: u64) -> impl Future<Output = bool> + Send;
    /// Read an object whole; whether it was found. Wrong bytes end the run.
    fn get(&self, number: u64) -> impl Future<Output = bool> + Send;
    /// Wait until everything put is on the disk.
    fn settle(&self) -> impl Future<Output = ()> + Send;
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// New objects, and the wait for the disk at the end.
    Put,
    /// Objects that are there, at random.
    Get,
    /// Objects that never were.
    Absent,
}

/// What came out.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Operations a second.
    pub rate: f64,
    /// Microseconds of processor time an operation, of the whole process.
    pub cpu_us: f64,
    /// The share of operations that found or stored something.
    pub share: f64,
    /// Bytes written to the disk for each byte put.
    pub write_amplification: f64,
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Measured { rate, cpu_us, share, write_amplification } = self;
        write!(f, "{rate:9.0}/s {cpu_us:6.1} us, {:5.1} % yes", share * 100.0)?;
        if *write_amplification > 0.0 { write!(f, ", {write_amplification:.2} written") } else { Ok(()) }
    }
}

/// Do `op` on objects of these numbers from so many tasks, for so long.
pub async fn run<S: Side>(side: &S, op: Op, tasks: usize, time: Duration, range: Range<u64>) -> Measured {
    let stop = Arc::new(AtomicBool::new(false));
    let next = Arc::new(AtomicU64::new(range.start));
    let (written, cpu, begun) = (machine::bytes_written(), machine::cpu_time(), Instant::now());
    let alarm = stop.clone();
    // A thread of its own: tasks that never wait leave no timer a chance.
    std::thread::spawn(move || {
        std::thread::sleep(time);
        alarm.store(true, Relaxed);
    });
    let work: Vec<_> = (0..tasks as u64)
        .map(|task| tokio::spawn(work(side.clone(), op, task, stop.clone(), next.clone(), range.clone())))
        .collect();
    let mut all = Tally::default();
    for task in work {
        let tally = task.await.unwrap();
        all = Tally { done: all.done + tally.done, yes: all.yes + tally.yes, bytes: all.bytes + tally.bytes };
    }
    if op == Op::Put {
        side.settle().await;
    }
    let (took, cpu, written) = (begun.elapsed(), machine::cpu_time() - cpu, machine::bytes_written() - written);
    Measured {
        rate: all.done as f64 / took.as_secs_f64(),
        cpu_us: cpu.as_secs_f64() * 1e6 / all.done as f64,
        share: all.yes as f64 / all.done as f64,
        write_amplification: if op == Op::Put { written as f64 / all.bytes as f64 } else { 0.0 },
    }
}

#[derive(Default)]
struct Tally {
    done: u64,
    yes: u64,
    bytes: u64,
}

async fn work<S: Side>(
    side: S,
    op: Op,
    task: u64,
    stop: Arc<AtomicBool>,
    next: Arc<AtomicU64>,
    range: Range<u64>,
) -> Tally {
    let mut tally = Tally::default();
    let mut random = task + 1;
    while !stop.load(Relaxed) {
        let number = if op == Op::Get {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            range.start + (random >> 33) % (range.end - range.start)
        } else {
            next.fetch_add(1, Relaxed)
        };
        let yes = if op == Op::Put { side.put(number).await } else { side.get(number).await };
        tally.done += 1;
        tally.yes += u64::from(yes);
        tally.bytes += side.payload_bytes(number);
        if tally.done % 64 == 0 {
            tokio::task::yield_now().await;
        }
    }
    tally
}
