//! Each wrapper does what it says, over a device in memory.

use std::io::ErrorKind;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use tinaja_store::contract::bytes_of;
use tinaja_store::device::wrap::{Counted, Fault, Faulty, Limited, Model, Tear, Time};
use tinaja_store::device::{Device, Medium, Memory, Op, Outcome, Request};
use tinaja_store::memory::AlignedBuf;

use crate::support::random::Random;

const KIB: u64 = 1024;

fn begin(device: &dyn Device, request: Request) -> mpsc::Receiver<Outcome> {
    let (tell, told) = mpsc::channel();
    device.submit(Op { request, done: Box::new(move |outcome| drop(tell.send(outcome))) });
    told
}

fn read(device: &dyn Device, at: u64, bytes: u64) -> Result<Vec<u8>, ErrorKind> {
    let into = AlignedBuf::zeroed(bytes as usize);
    let outcome = begin(device, Request::Read { at, into }).recv().unwrap();
    outcome.result.map_err(|error| error.kind())?;
    Ok(outcome.buffer.unwrap().to_vec())
}

fn write_request(at: u64, bytes: &[u8]) -> Request {
    let mut from = AlignedBuf::zeroed(bytes.len());
    from.copy_from_slice(bytes);
    Request::Write { at, from: Arc::new(from), part: 0..bytes.len() }
}

fn write(device: &dyn Device, at: u64, bytes: &[u8]) -> Result<(), ErrorKind> {
    begin(device, write_request(at, bytes)).recv().unwrap().result.map_err(|error| error.kind())
}

fn sync(device: &dyn Device) -> Result<(), ErrorKind> {
    begin(device, Request::Sync).recv().unwrap().result.map_err(|error| error.kind())
}

/// A disk of 64 KiB of ones whose first write, and nothing else, has this fault.
fn first_write(fault: Fault) -> (Medium, Faulty) {
    let medium = Medium::from(vec![1; 64 << 10]);
    let faulty = Faulty::new(Arc::new(Memory::over(&medium)), move |call, _| (call == 0).then_some(fault));
    (medium, faulty)
}

#[test]
fn each_fault_of_a_write_leaves_what_it_says() {
    let new = vec![2; 2048];
    let block = |byte| vec![byte; 512];
    let four = |blocks: [u8; 4]| blocks.map(block).concat();
    for (fault, told, left) in [
        (Fault::Error, Err(ErrorKind::Other), four([1, 1, 1, 1])),
        (Fault::Full, Err(ErrorKind::StorageFull), four([1, 1, 1, 1])),
        (Fault::Short, Err(ErrorKind::UnexpectedEof), four([2, 2, 1, 1])),
        (Fault::Torn(Tear::Prefix(1)), Ok(()), four([2, 1, 1, 1])),
        (Fault::Torn(Tear::Suffix(1)), Ok(()), four([1, 2, 2, 2])),
        (Fault::Torn(Tear::Alternating), Ok(()), four([1, 2, 1, 2])),
        (Fault::Lost, Ok(()), four([1, 1, 1, 1])),
        (Fault::Held, Ok(()), four([1, 1, 1, 1])),
        (Fault::Misdirected(0), Ok(()), four([1, 1, 1, 1])),
    ] {
        let (medium, faulty) = first_write(fault);
        assert_eq!(write(&faulty, 4096, &new), told, "{fault:?}");
        assert_eq!(medium.bytes()[4096..6144], left, "{fault:?}");
        let elsewhere = if matches!(fault, Fault::Misdirected(_)) { 2 } else { 1 };
        assert!(medium.bytes()[..2048].iter().all(|&byte| byte == elsewhere), "{fault:?}");
        assert_eq!(write(&faulty, 4096, &new), Ok(()), "only the first has a fault");
        assert_eq!(medium.bytes()[4096..6144], new, "{fault:?}");
    }
    let (medium, faulty) = first_write(Fault::Flipped(4096 * 8 + 9));
    write(&faulty, 0, &vec![2; 4096]).unwrap();
    assert_eq!(medium.bytes()[..3], [2, 0, 2], "bit 1 of the second byte");
}

#[test]
fn what_is_held_is_read_and_lasts_from_the_next_sync_on() {
    let (medium, faulty) = first_write(Fault::Held);
    let new = bytes_of(3, 2048);
    write(&faulty, 4096, &new).unwrap();
    assert_eq!(read(&faulty, 3584, 1024).unwrap()[512..], new[..512], "reads see it, in part");
    assert_eq!((faulty.held(), medium.bytes()[4096]), (1, 1));
    sync(&faulty).unwrap();
    assert_eq!((faulty.held(), &medium.bytes()[4096..6144]), (0, &new[..]));

    let (medium, faulty) = first_write(Fault::Held);
    write(&faulty, 4096, &new).unwrap();
    write(&faulty, 5120, &[9; 512]).unwrap();
    assert_eq!((medium.bytes()[4096], medium.bytes()[5120]), (new[0], 9), "a later write of the same place is later");

    let (medium, faulty) = first_write(Fault::Held);
    write(&faulty, 4096, &new).unwrap();
    faulty.release();
    assert_eq!(medium.bytes()[4096..6144], new);
}

#[test]
fn a_power_cut_leaves_what_was_synced_and_what_it_is_told_to() {
    let medium = Medium::zeroed(64 << 10);
    let faulty = Faulty::volatile(Arc::new(Memory::over(&medium)), |call, _| (call == 6).then_some(Fault::Lost));
    write(&faulty, 0, &[1; 1024]).unwrap();
    sync(&faulty).unwrap();
    for n in 1..5 {
        write(&faulty, n * 4096, &[1; 1024]).unwrap();
    }
    sync(&faulty).expect("request 6 is a sync that lies");
    faulty.cut(|number| [None, Some(Tear::Suffix(0)), Some(Tear::Prefix(1)), Some(Tear::Alternating)][number]);
    let blocks = |n: usize| [medium.bytes()[n * 4096], medium.bytes()[n * 4096 + 512]];
    assert_eq!([0, 1, 2, 3, 4].map(blocks), [[1, 1], [0, 0], [1, 1], [1, 0], [0, 1]]);
    assert_eq!(write(&faulty, 0, &[7; 512]), Err(ErrorKind::Other), "there is no power");
    assert_eq!(read(&faulty, 0, 512), Err(ErrorKind::Other));
    assert_eq!(medium.bytes()[0], 1);
}

#[test]
fn stalled_and_late_requests_end_when_they_should() {
    let (_medium, faulty) = first_write(Fault::Stalled);
    let stalled = begin(&faulty, write_request(0, &[2; 512]));
    assert!(stalled.try_recv().is_err() && read(&faulty, 0, 512).unwrap()[0] == 1, "the rest goes on");
    faulty.release();
    assert!(stalled.recv().unwrap().result.is_ok() && read(&faulty, 0, 512).unwrap()[0] == 2);

    let (_medium, faulty) = first_write(Fault::Stalled);
    let stalled = begin(&faulty, write_request(0, &[2; 512]));
    faulty.stop();
    assert!(stalled.recv().unwrap().result.is_err());

    let (_medium, faulty) = first_write(Fault::Late(Duration::from_millis(50)));
    let began = Instant::now();
    write(&faulty, 0, &[2; 512]).unwrap();
    assert!(began.elapsed() >= Duration::from_millis(50));
    faulty.stop();
}

#[test]
fn faults_of_reads_change_what_is_read_and_not_what_is_there() {
    for (fault, told) in [
        (Fault::Short, Err(ErrorKind::UnexpectedEof)),
        (Fault::Error, Err(ErrorKind::Other)),
        (Fault::Misdirected(1024), Ok(5)),
        (Fault::Flipped(2), Ok(0)),
        (Fault::Torn(Tear::Prefix(0)), Ok(4)),
    ] {
        let medium = Medium::from([vec![4; 1024], vec![5; 1024]].concat());
        let faulty = Faulty::new(Arc::new(Memory::over(&medium)), move |_, _| Some(fault));
        assert_eq!(read(&faulty, 0, 512).map(|bytes| bytes[0]), told, "{fault:?}");
        assert_eq!(medium.bytes()[0], 4);
    }
}

#[test]
fn memory_refuses_what_a_disk_refuses() {
    let device = Memory::over(&Medium::zeroed(8192));
    assert_eq!(read(&device, 8192, 512), Err(ErrorKind::UnexpectedEof));
    assert_eq!(write(&device, 7680, &[1; 1024]), Err(ErrorKind::UnexpectedEof));
    assert_eq!(read(&device, 1, 512), Err(ErrorKind::InvalidInput));
    assert_eq!(read(&device, u64::MAX - 511, 512), Err(ErrorKind::UnexpectedEof));
    device.stop();
    assert_eq!(read(&device, 0, 512), Err(ErrorKind::Other));
}

#[test]
fn requests_bytes_seeks_and_sizes_are_counted_by_kind() {
    let failing =
        Faulty::new(Arc::new(Memory::over(&Medium::zeroed(1 << 20))), |call, _| (call == 4).then_some(Fault::Error));
    let device = Counted::new(Arc::new(failing));
    write(&device, 0, &[1; 4096]).unwrap();
    write(&device, 4096, &[1; 8192]).unwrap();
    read(&device, 0, 512).unwrap();
    read(&device, 512, 1024).unwrap();
    assert!(read(&device, 512, 1024).is_err());
    write(&device, 1536, &[1; 512]).unwrap();
    sync(&device).unwrap();
    let detail = device.detail();
    assert_eq!((detail.reads.requests, detail.reads.bytes, detail.reads.seeks, detail.reads.failed), (2, 1536, 2, 1));
    assert_eq!((detail.writes.requests, detail.writes.bytes, detail.writes.seeks), (3, 12_800, 0));
    assert_eq!((detail.syncs.requests, detail.syncs.bytes), (1, 0));
    assert_eq!(
        (detail.reads.sizes[9], detail.reads.sizes[10], detail.writes.sizes[12], detail.writes.sizes[13]),
        (1, 1, 1, 1)
    );
    let counters = device.counters();
    assert_eq!((counters.reads, counters.writes, counters.seeks), (2, 3, 2));
}

/// HashCache, Table 6: seeks a second and latency of random reads by size.
#[test]
fn the_model_of_a_disk_gives_the_papers_latencies() {
    for (kibibytes, latency_ms) in [(1, 12.5), (4, 12.9), (8, 13.1), (16, 13.3), (32, 13.7), (64, 14.1), (128, 19.2)] {
        let disk = Memory::over(&Medium::zeroed(64 << 20));
        let disk = Limited::new(Arc::new(disk), Model::sata_7200(), Time::Virtual).unwrap();
        let reads = 4000;
        let mut random = Random(1);
        for _ in 0..reads {
            read(&disk, random.below((64 << 20) / 512 - 256) * 512, kibibytes * KIB).unwrap();
        }
        let mean_ms = disk.now().as_secs_f64() * 1000.0 / f64::from(reads);
        println!("{kibibytes:>4} KiB: {mean_ms:.2} ms, the paper says {latency_ms}");
        assert!((mean_ms / latency_ms - 1.0).abs() < 0.02, "{kibibytes} KiB: {mean_ms} ms, not {latency_ms}");
    }
}

fn limited(lanes: usize, queue_depth: usize, time: Time) -> Limited {
    let model = Model { lanes, queue_depth, ..Model::sata_7200() };
    Limited::new(Arc::new(Memory::over(&Medium::zeroed(1 << 20))), model, time).unwrap()
}

#[test]
fn the_virtual_clock_adds_up_lanes_and_idle_time() {
    let disk = limited(2, 1, Time::Virtual);
    for n in [0, 8, 3, 12] {
        read(&disk, n * 64 * KIB, 4096).unwrap();
    }
    assert!(disk.now() < disk.busy() && disk.now() >= disk.busy() / 2, "two at a time");
    let later = disk.now() + Duration::from_secs(100);
    disk.idle_until(later);
    read(&disk, 0, 4096).unwrap();
    assert!(disk.now() > later && disk.now() < later + Duration::from_millis(50));
}

#[test]
fn in_real_time_requests_take_as_long_as_modelled_and_the_nearest_goes_first() {
    let spread = |n: u64| (n * 11 % 16) * 64 * KIB;
    let mut took = Vec::new();
    for queue_depth in [1, 16] {
        let disk = limited(1, queue_depth, Time::Real);
        let began = Instant::now();
        let pending: Vec<_> =
            (0..16).map(|n| begin(&disk, Request::Read { at: spread(n), into: AlignedBuf::zeroed(4096) })).collect();
        pending.into_iter().for_each(|pending| pending.recv().unwrap().result.unwrap());
        assert!(began.elapsed() >= disk.busy(), "{:?} of {:?}", began.elapsed(), disk.busy());
        took.push(disk.busy());
        let stalled = begin(&disk, Request::Read { at: 0, into: AlignedBuf::zeroed(4096) });
        disk.stop();
        assert!(stalled.recv().unwrap().result.is_ok(), "what waits at the stop is finished");
        assert_eq!(read(&disk, 0, 512), Err(ErrorKind::Other));
    }
    assert!(took[1] < took[0] * 9 / 10, "a sorted queue seeks less: {took:?}");
}
