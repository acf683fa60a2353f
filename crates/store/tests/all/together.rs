//! Parts of a large object that lie together are read in one request, where a reader wants them; counted exactly.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use bytes::Bytes;
use tinaja_store::contract::bytes_of;
use tinaja_store::device::IoEngine;
use tinaja_store::device::wrap::Fault;
use tinaja_store::limits::{MAX_REQUEST_BYTES, TOGETHER_BYTES};
use tinaja_store::*;

use crate::support::{self, blank, disk, is_read, open, sound};

const MIB: u64 = 1 << 20;
const LARGE: u64 = 64 * MIB;

fn key(n: u64) -> Key {
    Key::from_name(format!("http://example.net/{n}").as_bytes())
}

fn cache(io: IoEngine) -> (tempfile::TempDir, Cache) {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let options = CacheOptions::new(dir.path()).disk_bytes(512 << 20).memory_bytes(0).io(io);
    (dir, Cache::open(options).unwrap())
}

/// Write these objects, a piece of each in turn, and flush.
fn put_in_turns(store: &Cache, objects: &[(u64, Bytes)]) {
    let mut writers: Vec<_> =
        objects.iter().map(|(n, _)| store.put(&key(*n), Bytes::from_static(b"head"), Hint::default())).collect();
    let longest = objects.iter().map(|(_, body)| body.len()).max().unwrap();
    for start in (0..longest).step_by(100_000) {
        for (writer, (_, body)) in writers.iter_mut().zip(objects) {
            block_on(writer.write(body.slice(start.min(body.len())..body.len().min(start + 100_000))));
        }
    }
    writers.into_iter().for_each(|writer| assert!(matches!(block_on(writer.commit()), Commit::Stored { .. })));
    block_on(store.flush()).unwrap();
}

/// Find an object and read a range of it in pieces as a client takes them. Returns the reads it took, the one that
/// found it included, and their bytes.
fn read(store: &Cache, n: u64, body: &Bytes, range: Range<u64>) -> (u64, u64) {
    let before = store.stats();
    let mut hit = block_on(store.find(&key(n))).unwrap();
    hit.body.seek(range.clone()).unwrap();
    let mut at = range.start as usize;
    while let Some(piece) = block_on(hit.body.next(128 << 10)).unwrap() {
        assert!(piece == body[at..at + piece.len()], "wrong bytes from {at}");
        at += piece.len();
    }
    assert_eq!(at as u64, range.end.min(body.len() as u64));
    let after = store.stats();
    (after.reads - before.reads, after.read_bytes - before.read_bytes)
}

#[test]
fn a_mebibyte_of_a_large_object_is_one_read() {
    for io in [IoEngine::Threads, IoEngine::Uring] {
        let (_dir, store) = cache(io);
        let body = bytes_of(1, LARGE as usize);
        put_in_turns(&store, &[(1, body.clone())]);
        // One read finds it; the last MiB is one, whether its end is said or not.
        for end in [LARGE, u64::MAX] {
            let (reads, bytes) = read(&store, 1, &body, LARGE - MIB..end);
            println!("{io}: the last MiB: {reads} reads of {bytes} bytes");
            assert_eq!(reads, 2);
        }
        // So is any other, wherever it begins and however regions end in it.
        for start in (0..LARGE - MIB).step_by(1_234_567) {
            let (reads, bytes) = read(&store, 1, &body, start..start + MIB);
            assert_eq!(reads, 2, "from {start}");
            assert!(bytes <= MAX_REQUEST_BYTES as u64 + 8192, "{bytes} bytes from {start}");
        }
        // A few bytes are one part, and two where they lie in two.
        for (range, parts) in [(LARGE - 100..LARGE, 1), (5_000_000..5_000_100, 1), (MIB - 50..MIB + 50, 2)] {
            let (reads, bytes) = read(&store, 1, &body, range.clone());
            assert_eq!(reads, 2, "{range:?}");
            assert!(bytes < parts * (MIB / 4 + 8192) + 8192, "{range:?}: {bytes} bytes");
        }
    }
}

/// The parts of one object lie on one disk, and its places carry that disk's number.
#[test]
fn on_several_disks_too() {
    let dirs: Vec<_> = (0..2).map(|_| tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()).collect();
    let options =
        CacheOptions::new(dirs[0].path()).disk_bytes(128 << 20).memory_bytes(0).more_dirs([dirs[1].path().into()]);
    let store = Cache::open(options).unwrap();
    for n in 0..6 {
        let body = bytes_of(n, 4 << 20);
        put_in_turns(&store, &[(n, body.clone())]);
        assert_eq!(read(&store, n, &body, 3 * MIB..4 * MIB).0, 2, "object {n}");
    }
}

#[test]
fn a_body_is_read_in_requests_of_a_mebibyte() {
    let (_dir, store) = cache(IoEngine::Auto);
    let body = bytes_of(1, LARGE as usize);
    put_in_turns(&store, &[(1, body.clone())]);
    let (reads, bytes) = read(&store, 1, &body, 0..u64::MAX);
    println!("64 MiB: {reads} reads of {bytes} bytes in all");
    // What finds it, the first part of 256 KiB, and then 63 times 1 MiB and the rest.
    assert_eq!(reads, 66);
    // What regions leave free at their ends is read too.
    assert!(bytes < LARGE * 106 / 100);
    let (reads, _) = read(&store, 1, &body, 0..LARGE);
    assert_eq!(reads, 65, "whose end is said");
    // Whoever stops has cost one part if he stops in the first, and one request more than he took otherwise.
    for (takes, most_reads, most_bytes) in
        [(1000, 2, MIB / 4 + 16_384), (MIB / 4 + 1, 3, 5 * MIB / 4 + 65_536), (3 * MIB, 5, 17 * MIB / 4 + MIB / 2)]
    {
        let before = store.stats();
        let mut hit = block_on(store.find(&key(1))).unwrap();
        let mut taken = 0;
        while taken < takes {
            taken += block_on(hit.body.next((takes - taken) as usize)).unwrap().unwrap().len() as u64;
        }
        let after = store.stats();
        let (reads, bytes) = (after.reads - before.reads, after.read_bytes - before.read_bytes);
        assert!(reads <= most_reads && bytes <= most_bytes, "{takes} bytes: {reads} reads of {bytes}");
    }
}

#[test]
fn parts_of_objects_written_in_turns_are_read_one_by_one() {
    let (_dir, store) = cache(IoEngine::Auto);
    let bodies: Vec<_> = (0..2).map(|n| bytes_of(n, 8 << 20)).collect();
    put_in_turns(&store, &[(0, bodies[0].clone()), (1, bodies[1].clone())]);
    for n in [0, 1] {
        let (reads, bytes) = read(&store, n, &bodies[n as usize], 7 * MIB..8 * MIB);
        println!("the last MiB of one of two: {reads} reads of {bytes} bytes");
        assert_eq!(reads, 5);
        assert!(bytes < MIB + 65_536, "{bytes} bytes: the other's are read too");
        read(&store, n, &bodies[n as usize], 0..u64::MAX);
        read(&store, n, &bodies[n as usize], 300_000..5_000_000);
    }
}

#[test]
fn those_who_read_along_read_what_was_stored_together() {
    let (_dir, store) = cache(IoEngine::Auto);
    let body = bytes_of(1, 16 << 20);
    let mut writer = store.put(&key(1), Bytes::new(), Hint::default());
    block_on(writer.write(body.slice(..(16 << 20) - 5)));
    block_on(store.flush()).unwrap();
    for (range, most_reads) in [(0..15 * MIB, 15), (0..u64::MAX, 16), (MIB..2 * MIB, 1), (100..200, 1)] {
        let before = store.stats().reads;
        let mut hit = writer.follow();
        hit.body.seek(range.clone()).unwrap();
        let mut at = range.start as usize;
        while at < (range.end as usize).min(15 << 20) {
            let piece = block_on(hit.body.next(100_000)).unwrap().unwrap();
            assert!(piece == body[at..at + piece.len()]);
            at += piece.len();
        }
        let reads = store.stats().reads - before;
        assert!(reads <= most_reads, "{range:?}: {reads} reads");
    }
}

/// The body of an object of so many parts of 32 KiB on a disk of 8 MiB, read as far as that goes.
fn read_small(store: &Cache, body: &Bytes) -> (usize, Option<ReadError>) {
    let Some(mut hit) = block_on(store.find(&support::key(1))) else { return (0, None) };
    hit.body.seek(0..body.len() as u64).unwrap();
    let mut at = 0;
    loop {
        match block_on(hit.body.next(10_000)) {
            Ok(Some(piece)) => {
                assert!(piece == body[at..at + piece.len()], "wrong bytes from {at}");
                at += piece.len();
            }
            Ok(None) => return (at, None),
            Err(error) => return (at, Some(error)),
        }
    }
}

/// Each part is verified by itself: a damaged one costs none before it, and is counted once.
#[test]
fn a_damaged_part_is_told_where_it_is_wanted() {
    let bytes = blank();
    let size = 900_000;
    let body = bytes_of(1001, size);
    let store = open(sound(&bytes)).unwrap();
    assert!(matches!(support::put(&store, 1, 1, size), Commit::Stored { .. }));
    block_on(store.close()).unwrap();
    drop(store);
    for place in (0..size).step_by(50_000) {
        let copy = bytes.copy();
        let at = copy.with(|disk| {
            let needle = &body[place..place + 16];
            disk.windows(16).position(|window| window == needle).expect("it is on the disk")
        });
        copy.with(|disk| disk[at] ^= 1);
        let store = open(sound(&copy)).unwrap();
        let (read, error) = read_small(&store, &body);
        assert_eq!((read, error), (place / 32_768 * 32_768, Some(ReadError::Corrupt)), "byte {place}");
        assert_eq!(store.stats().corrupt, 1);
    }
}

/// A disk that cannot read one place of a long request still reads the rest of it.
#[test]
fn a_bad_place_costs_no_more_than_its_part() {
    let bytes = blank();
    let size = 900_000;
    let body = bytes_of(1001, size);
    let store = open(sound(&bytes)).unwrap();
    let _ = support::put(&store, 1, 1, size);
    block_on(store.close()).unwrap();
    drop(store);
    for place in [0, 40_000, 500_000, 899_000] {
        let bad = bytes.with(|disk| {
            let needle = &body[place..place + 16];
            disk.windows(16).position(|window| window == needle).unwrap() as u64
        });
        let touches = move |at: u64, bytes: u64| at <= bad && bad < at + bytes;
        let opened = Arc::new(AtomicBool::new(false));
        let plan = {
            let opened = opened.clone();
            move |_, request: &device::Request| {
                let hit = is_read(request) && request.extent().is_some_and(|(at, bytes)| touches(at, bytes));
                (hit && opened.load(SeqCst)).then_some(Fault::Error)
            }
        };
        let store = open(disk(&bytes, plan)).unwrap();
        opened.store(true, SeqCst);
        let (read, error) = read_small(&store, &body);
        assert_eq!((read, error), (place / 32_768 * 32_768, Some(ReadError::Device)), "byte {place}");
    }
}

/// A busy disk is asked for one part at a time, so that long requests do not take the turns of all others.
#[test]
fn many_readers_take_no_more_turns_than_there_are() {
    let (_dir, store) = cache(IoEngine::Auto);
    let body = bytes_of(1, 16 << 20);
    put_in_turns(&store, &[(1, body.clone())]);
    let mut readers: Vec<_> = (0..200_u64)
        .map(|n| {
            let mut hit = block_on(store.find(&key(1))).unwrap();
            hit.body.seek(n * 40_000..n * 40_000 + TOGETHER_BYTES as u64).unwrap();
            (n as usize * 40_000, hit)
        })
        .collect();
    // All at once, and none is polled to its end before the others have begun.
    for (at, hit) in &mut readers {
        let mut next = Box::pin(hit.body.next(1000));
        let piece = match support::poll(&mut next) {
            std::task::Poll::Ready(piece) => piece.unwrap().unwrap(),
            std::task::Poll::Pending => continue,
        };
        assert!(piece == body[*at..*at + piece.len()]);
        *at += piece.len();
    }
    for (n, (at, hit)) in readers.iter_mut().enumerate() {
        let rest = block_on(hit.body.collect(usize::MAX)).unwrap();
        assert!(rest == body[*at..n * 40_000 + TOGETHER_BYTES], "reader {n}");
    }
}
