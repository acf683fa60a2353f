//! What the counting wrapper counts is what the kernel counts for this process. One test, in a program of its own:
//! the kernel counts those of the whole process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::fs::{self, File};
use std::io::Write;
use std::sync::{Arc, mpsc};

use tinaja_store::device::wrap::Counted;
use tinaja_store::device::{Access, Device, Disk, Io, IoEngine, Op, Request};
use tinaja_store::memory::AlignedBuf;

const FILE_BYTES: usize = 16 << 20;

/// The kernel's counters: requests by system call, and bytes that went to and from the disk.
#[derive(Clone, Copy, Debug)]
struct Kernel {
    read_calls: u64,
    write_calls: u64,
    read_bytes: u64,
    write_bytes: u64,
}

fn kernel() -> Kernel {
    let text = fs::read_to_string("/proc/self/io").unwrap();
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).unwrap();
        line.parse().unwrap()
    };
    Kernel {
        read_calls: field("syscr"),
        write_calls: field("syscw"),
        read_bytes: field("read_bytes"),
        write_bytes: field("write_bytes"),
    }
}

fn carry_out(device: &dyn Device, request: Request) {
    let (tell, told) = mpsc::channel();
    device.submit(Op { request, done: Box::new(move |outcome| drop(tell.send(outcome.result))) });
    told.recv().unwrap().unwrap();
}

#[test]
fn the_kernel_counts_the_same() {
    // io_uring makes no system call a request, so only its bytes can be compared.
    for engine in [IoEngine::Threads, IoEngine::Auto] {
        check(engine);
    }
}

fn check(engine: IoEngine) {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("disk");
    // Written through and synced, so that the file system has nothing of its own left to write or look up.
    let mut file = File::create(&path).unwrap();
    file.write_all(&vec![1; FILE_BYTES]).unwrap();
    file.sync_all().unwrap();
    drop(file);
    let disk = Disk::open(&path, Access::Alone, &Io::new(engine, 4)).unwrap();
    if !disk.geometry().direct {
        eprintln!(
            "SKIPPED: this directory's file system has no direct I/O, so the kernel's bytes are the page cache's"
        );
        return;
    }
    let by_calls = disk.engine() == IoEngine::Threads;
    let counted = Counted::new(Arc::new(disk));
    let read = |at: usize, bytes| {
        carry_out(&counted, Request::Read { at: at as u64, into: AlignedBuf::zeroed(bytes) });
    };
    let write = |at: usize, bytes| {
        let from = Arc::new(AlignedBuf::zeroed(bytes));
        carry_out(&counted, Request::Write { at: at as u64, from, part: 0..bytes });
    };
    read(0, FILE_BYTES);
    write(0, 4096);

    // Reading the counters is a system call or two itself.
    let (first, second) = (kernel(), kernel());
    let own_calls = second.read_calls - first.read_calls;
    let (before, counted_before) = (kernel(), counted.counters());
    for n in 0..500 {
        read(n * 7919 % 3000 * 4096, 4096 << (n % 4));
        if n % 3 == 0 {
            write(n * 104_729 % 3000 * 4096, 4096 * (1 + n % 5));
        }
    }
    let (counted, kernel) = (counted.counters(), kernel());
    let reads = counted.reads - counted_before.reads;
    let writes = counted.writes - counted_before.writes;
    println!("{reads} reads, {writes} writes; the kernel: {before:?} to {kernel:?}");
    assert_eq!((reads, writes), (500, 167));
    if by_calls {
        assert_eq!(kernel.read_calls - before.read_calls - own_calls, reads);
        assert_eq!(kernel.write_calls - before.write_calls, writes);
    }
    assert_eq!(kernel.read_bytes - before.read_bytes, counted.read_bytes - counted_before.read_bytes);
    assert_eq!(kernel.write_bytes - before.write_bytes, counted.write_bytes - counted_before.write_bytes);
}
