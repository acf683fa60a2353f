//! How fast a disk is by io_uring and by threads: random reads, straight from the device.
//!
//! `cargo run --release -p tinaja-store --example devices -- DIRECTORY [MiB]` makes a file of that size there (default
//! 1024) and removes it again.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a program that may stop with a message")]

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use tinaja_store::device::wrap::Counted;
use tinaja_store::device::{Access, Device, Disk, Io, IoEngine, Op, Request};
use tinaja_store::memory::AlignedBuf;

/// How long each line is measured.
const LONG: Duration = Duration::from_secs(2);

/// Processor time of this process so far, in user and system mode, to a hundredth of a second.
fn processor_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    // After the name in brackets come 11 fields, then the two.
    let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().skip(11).take(2).collect();
    Duration::from_millis(fields.iter().map(|ticks| ticks.parse::<u64>().unwrap() * 10).sum())
}

/// Random reads with so many under way; requests a second, and microseconds of processor time a request.
fn measure(device: &dyn Device, bytes: usize, depth: usize) -> (f64, f64) {
    let blocks = (device.geometry().bytes - bytes as u64) / 4096;
    let (tell, told) = mpsc::channel();
    let mut random = 1_u64;
    let mut begin = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let request = Request::Read { at: (random >> 20) % blocks * 4096, into: AlignedBuf::zeroed(bytes) };
        let tell = tell.clone();
        device.submit(Op { request, done: Box::new(move |outcome| drop(tell.send(outcome.result))) });
    };
    (0..depth).for_each(|_| begin());
    let (began, processor) = (Instant::now(), processor_time());
    let mut requests = 0;
    while began.elapsed() < LONG {
        told.recv().unwrap().expect("a read");
        requests += 1;
        begin();
    }
    let (took, processor) = (began.elapsed(), processor_time() - processor);
    (0..depth).for_each(|_| drop(told.recv()));
    (f64::from(requests) / took.as_secs_f64(), processor.as_secs_f64() * 1e6 / f64::from(requests))
}

fn make(path: &Path, mebibytes: usize) {
    let mut file = File::create(path).expect("a file in this directory");
    (0..mebibytes).for_each(|n| file.write_all(&vec![n as u8; 1 << 20]).expect("room for the file"));
    file.sync_all().expect("a synced file");
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().expect("the directory to make a file in");
    let mebibytes = arguments.next().map_or(1024, |mebibytes| mebibytes.parse().expect("a number of MiB"));
    let path = Path::new(&directory).join("tinaja-devices.tmp");
    make(&path, mebibytes);
    println!("random reads           by     depth  requests/s  CPU us each");
    for (bytes, depth) in [(4096, 1), (4096, 32), (12_288, 32), (65_536, 32)] {
        for engine in [IoEngine::Threads, IoEngine::Uring] {
            match Disk::open(&path, Access::Alone, &Io::new(engine, depth)) {
                Ok(disk) => {
                    let disk = Counted::new(Arc::new(disk));
                    let (each_second, cpu) = measure(&disk, bytes, depth);
                    println!("{:>6} bytes {:>16} {depth:>7} {each_second:>11.0} {cpu:>10.1}", bytes, engine.as_str());
                    disk.stop();
                }
                Err(error) => println!("{error}"),
            }
        }
    }
    let _ = fs::remove_file(&path);
}
