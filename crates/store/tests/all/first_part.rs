//! What a bin holds of an object that does not fit it: its beginning, which needs no further read; the log holds the rest and
//! nothing twice (HashCache, section 3.1: "the first portion of the object's data").

use std::sync::Arc;

use bytes::Bytes;
use tinaja_store::contract::bytes_of;
use tinaja_store::device::{Device, Medium, Memory};
use tinaja_store::engine::registry::Opening;
use tinaja_store::external::Step;
use tinaja_store::{
    Cache, CacheOptions, Commit, EngineRef, Hint, Secret, Settings, Source, Store, Updated, block_on, engines,
};

use crate::support;
use crate::support::reading::{find, follow};
use crate::support::{get, has_table, key, open_as, open_planned, plan_as, section_of, sound};

/// The engines with a Disk Table.
fn tables() -> impl Iterator<Item = EngineRef> {
    let all: Vec<_> = engines::built_in().iter().filter(|engine| has_table(engine)).collect();
    assert_eq!(all.len(), 4);
    all.into_iter()
}

/// Bytes of a bin on the tests' disks, and what is left of one beside a header, the spare bytes and a table of one extent.
const BIN: usize = 4096;
const FIRST: usize = BIN - 64 - 128 - 20;

/// Bytes of a part of a long object on the tests' disks.
const PART: usize = 128 << 10;

fn made(engine: EngineRef) -> (Arc<Memory>, Cache) {
    let disk = sound(&Medium::zeroed(256 << 20));
    let store = open_as(engine, disk.clone()).unwrap();
    assert_eq!(store.stats().of_engine.named("bin_bytes"), BIN as u64);
    (disk, store)
}

/// Written in pieces of 10,000 bytes, of a length that was told or was not.
fn put(store: &Cache, n: u64, head: &str, size: usize, told: bool) {
    let hint = Hint { expected_bytes: told.then_some(size as u64), ..Hint::default() };
    let mut writer = store.put(&key(n), head.to_owned().into(), hint);
    let body = bytes_of(n, size);
    for at in (0..size).step_by(10_000) {
        block_on(writer.write(body.slice(at..size.min(at + 10_000))));
    }
    assert!(matches!(block_on(writer.commit()), Commit::Stored { .. }));
}

/// The head and some bytes, and the requests that they took; `None` for a miss, or an error before the first byte.
fn read(disk: &Memory, store: &Cache, n: u64, range: std::ops::Range<u64>) -> (Option<(Bytes, Bytes)>, u64) {
    let before = disk.counters().reads;
    let read = block_on(store.find(&key(n))).and_then(|mut hit| {
        hit.body.seek(range).unwrap();
        Some((hit.head, block_on(hit.body.collect(usize::MAX)).ok()?))
    });
    (read, disk.counters().reads - before)
}

fn update(store: &Cache, n: u64, head: &str) {
    let head = Bytes::from(head.to_owned());
    let updated = block_on(store.update_head(&key(n), Box::new(move |_| Some(head)))).unwrap();
    assert_eq!(updated, Updated::Done);
}

#[test]
fn the_beginning_takes_the_bins_read_alone_and_the_rest_one_more() {
    for engine in tables() {
        let (disk, store) = made(engine);
        let sizes = [(BIN, true), (30_000, true), (30_000, false), (100_000, true), (700_000, true), (700_000, false)];
        for (n, (size, told)) in (0..).zip(sizes) {
            put(&store, n, "head", size, told);
            block_on(store.flush()).unwrap();
            let body = bytes_of(n, size);
            // A long object has places for more parts in its bin; 64 of them where nobody said how long it is.
            let parts = if told {
                size.div_ceil(PART)
            } else if size < PART {
                1
            } else {
                64
            };
            let first = (FIRST - 4 - 8 - 8 * (parts - 1)) as u64;
            let what = format!("{engine}, {size} bytes, told: {told}");
            let (found, reads) = read(&disk, &store, n, 0..0);
            assert!(found.is_some_and(|(head, none)| head == "head" && none.is_empty()) && reads == 1, "{what}");
            let (found, reads) = read(&disk, &store, n, 0..first);
            assert!(found.unwrap().1 == body.slice(..first as usize) && reads == 1, "{what}: {reads}");
            let (found, reads) = read(&disk, &store, n, 100..101);
            assert!(found.unwrap().1 == body.slice(100..101) && reads == 1, "{what}: {reads}");
            let (found, reads) = read(&disk, &store, n, 0..first + 1);
            assert!(found.unwrap().1 == body.slice(..first as usize + 1) && reads == 2, "{what}, a byte more: {reads}");
            let (found, reads) = read(&disk, &store, n, 0..u64::MAX);
            assert!(found.unwrap().1 == body, "{what}");
            assert!(reads == 2 || size > 300_000 && reads <= 4, "{what}: {reads}");
            let tail = first + 5..size as u64;
            let (found, reads) = read(&disk, &store, n, tail.clone());
            assert!(found.unwrap().1 == body.slice(tail.start as usize..) && (reads == 2 || size > 300_000), "{what}");
        }
    }
}

#[test]
fn nothing_lies_on_the_disk_twice() {
    for engine in tables() {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let settings = Settings::new().with(&engines::BIN_SIZE, 16_384);
        let options =
            CacheOptions::new(dir.path()).engine(engine).settings(settings).disk_bytes(512 << 20).memory_bytes(0);
        let store = Cache::open(options).unwrap();
        (0..50).for_each(|n| put(&store, n, "head", 20_000, true));
        let used = store.stats().frontier_bytes;
        let first = 16_384 - 64 - 128 - 20 - 12;
        println!("{engine}: {used} bytes of the log for 50 objects of 20000 bytes, {first} of each in its bin");
        // A record's header is 56 bytes, and a batch ends with a block.
        let least = 50 * (20_000 - first + 56);
        assert!((least..least + 50 * 4096).contains(&used), "{used} bytes, not {least}");
    }
}

#[test]
fn a_head_may_grow_and_shrink_and_the_body_stays_as_it_was() {
    for engine in tables() {
        let (disk, store) = made(engine);
        for (n, size) in [(1, 30_000), (2, 700_000)] {
            put(&store, n, "head", size, true);
            block_on(store.flush()).unwrap();
            // Within the spare bytes nothing goes to the log; a longer one takes the beginning there with it; and it comes back.
            for (length, in_log, reads) in [(100, false, 1), (3000, true, 2), (3001, true, 2), (4, false, 1)] {
                let head = "h".repeat(length);
                let before = store.stats().frontier_bytes;
                update(&store, n, &head);
                assert_eq!(store.stats().frontier_bytes > before, in_log, "{engine}, {length} bytes of head");
                block_on(store.flush()).unwrap();
                let (found, took) = read(&disk, &store, n, 0..100);
                assert_eq!(took, reads, "{engine}, {length} bytes of head");
                assert!(found.unwrap() == (head.clone().into(), bytes_of(n, size).slice(..100)));
                let (found, _) = read(&disk, &store, n, 0..u64::MAX);
                assert!(found.unwrap() == (head.into(), bytes_of(n, size)), "{engine}, {length} bytes of head");
            }
        }
    }
}

/// A reader that wants more than the beginning learns before its first byte that the rest is damaged; the next version of
/// the object takes its place. Whoever wants the beginning alone is given it.
#[test]
fn an_object_that_lost_its_rest_is_a_miss_for_whoever_wants_it() {
    for engine in tables() {
        let medium = Medium::zeroed(32 << 20);
        let plan = plan_as(engine, 32 << 20);
        let disk = sound(&medium);
        let store = open_planned(&*plan, disk.clone()).unwrap();
        put(&store, 1, "head", 30_000, true);
        block_on(store.close()).unwrap();
        let mut bytes = medium.bytes();
        bytes[section_of(&*plan).log.base as usize + 20_000] ^= 4;
        let disk = sound(&Medium::from(bytes));
        let store = open_planned(&*plan, disk.clone()).unwrap();
        let (found, _) = read(&disk, &store, 1, 0..1000);
        assert_eq!(found.unwrap().1, bytes_of(1, 1000), "{engine}");
        let mut hit = block_on(store.find(&key(1))).unwrap();
        assert!(block_on(hit.body.next(64 << 10)).is_err(), "{engine}: not one byte");
        assert_eq!(store.stats().corrupt, 1);
        put(&store, 1, "head", 30_000, true);
        let (found, _) = read(&disk, &store, 1, 0..u64::MAX);
        assert!(found.unwrap().1 == bytes_of(1, 30_000), "{engine}");
    }
}

#[test]
fn an_object_that_was_read_to_its_end_is_hot() {
    // One of them is given in one piece.
    for (engine, size) in tables().flat_map(|engine| [(engine, 30_000), (engine, 5000)]) {
        let disk = sound(&Medium::zeroed(32 << 20));
        let engine = plan_as(engine, 32 << 20).open(Opening::of(disk)).unwrap();
        let store = Cache::over(engine, Secret::from_bytes([7; 32]), 64 << 20).unwrap();
        put(&store, 1, "head", size, true);
        update(&store, 1, "another");
        let source = |to| {
            let mut hit = block_on(store.find(&key(1))).unwrap();
            hit.body.seek(0..to).unwrap();
            let body = block_on(hit.body.collect(usize::MAX)).unwrap();
            assert!(body == bytes_of(1, size).slice(..body.len()) && hit.head == "another");
            hit.source
        };
        let all = [1000, size as u64, size as u64, 1000].map(source);
        assert!(all[2..] == [Source::Memory; 2], "{all:?}");
        // Until it is replaced.
        put(&store, 1, "new", 40_000, true);
        let mut hit = block_on(store.find(&key(1))).unwrap();
        assert!(hit.head == "new" && block_on(hit.body.collect(usize::MAX)).unwrap() == bytes_of(1, 40_000));
    }
}

#[test]
fn a_program_that_reads_the_disk_itself_has_the_beginning_with_the_head() {
    for engine in tables() {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let options = CacheOptions::new(dir.path()).engine(engine).mean_object_bytes(4096);
        let store = Cache::open(options.disk_bytes(64 << 20).memory_bytes(0)).unwrap();
        put(&store, 1, "head", 30_000, true);
        block_on(store.flush()).unwrap();
        let index = store.external();
        let (object, reads) = find(&index, &key(1));
        let object = object.unwrap();
        assert_eq!((object.length(), reads), (30_000, 1), "{engine}");
        let part = |at| {
            let (step, reads) = follow(block_on(index.part(&object, at)).unwrap(), |_| ());
            let Some(Step::Part(part)) = step else { panic!("{engine}: no part at {at}") };
            (part, reads)
        };
        let ((first, none), (rest, one)) = (part(5), part(FIRST as u64 - 12));
        assert_eq!((first.at(), first.length(), none), (0, FIRST as u64 - 12, 0));
        assert_eq!((rest.at(), rest.length(), one), (first.length(), 30_000 - first.length(), 1));
        assert!([first.bytes(), rest.bytes()].concat().concat() == bytes_of(1, 30_000));
    }
}

#[test]
fn objects_around_the_size_of_a_bin_come_back_whole() {
    for engine in tables() {
        let (_, store) = made(engine);
        for size in
            (BIN - 300..BIN + 50).chain([2 * BIN, (256 << 10) - 1, 256 << 10, (256 << 10) + 1, 260_000, 266_000])
        {
            assert!(matches!(support::put(&store, 1, 2, size), Commit::Stored { .. }));
            assert_eq!(get(&store, 1), Some(2), "{engine}, {size} bytes");
        }
    }
}

/// A proxy sends each piece with a call of its own, so a short body comes in one. Where its reader begins, and how much he takes at a time,
/// changes no byte.
#[test]
fn a_short_body_is_one_piece() {
    // Beside the object's name, of eight bytes, and its head.
    const BEGINNING: usize = FIRST - 8 - 4;
    const SHORT: usize = BEGINNING + 600;
    for engine in tables() {
        let (_, store) = made(engine);
        let sizes = [SHORT, 16 << 10, (16 << 10) + 1];
        (0..).zip(sizes).for_each(|(n, size)| put(&store, n, "head", size, true));
        let pieces = |n: usize, from: usize, most| {
            let mut body = block_on(store.find(&key(n as u64))).unwrap().body;
            body.seek(from as u64..u64::MAX).unwrap();
            let pieces: Vec<_> = std::iter::from_fn(|| block_on(body.next(most)).unwrap()).collect();
            assert_eq!(pieces.concat(), bytes_of(n as u64, sizes[n])[from..], "{engine} {n} from {from} by {most}");
            pieces.iter().map(Bytes::len).collect::<Vec<_>>()
        };
        assert_eq!(pieces(0, 0, 1 << 20), [SHORT], "{engine}");
        assert_eq!(pieces(1, 0, 1 << 20), [16 << 10], "{engine}");
        assert_eq!(pieces(2, 0, 1 << 20), [BEGINNING, (16 << 10) + 1 - BEGINNING], "{engine}");
        for (from, most) in [(0, BEGINNING + 10), (100, BEGINNING), (BEGINNING - 1, 1 << 20), (BEGINNING, 7), (5, 1000)]
        {
            pieces(0, from, most);
        }
    }
}
