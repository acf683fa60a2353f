//! Calls as POSIX has them, over a store on disk: what they do, and that no misuse goes unanswered.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::io::SeekFrom;
use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use tinaja_store::contract::bytes_of;
use tinaja_store::files::{FileError, Files, Handle};
use tinaja_store::limits::MAX_OPEN_FILES;
use tinaja_store::{Cache, CacheOptions, EngineName, Hint, Key, Store, Tuning, WhyNot, block_on};

fn open(dir: &std::path::Path, engine: EngineName) -> Arc<dyn Store> {
    let options = CacheOptions { disk_bytes: Some(32 << 20), engine: Some(engine), ..CacheOptions::new(dir) };
    Arc::new(Cache::open(CacheOptions { memory_bytes: 0, ..options }).unwrap())
}

fn store() -> (tempfile::TempDir, Arc<dyn Store>) {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), EngineName::default());
    (dir, store)
}

fn key(name: &str) -> Key {
    Key::from_name(name.as_bytes())
}

fn of_length(bytes: u64) -> Hint {
    Hint { expected_bytes: Some(bytes), ..Hint::default() }
}

/// Read to the end with a buffer of so many bytes.
fn rest(files: &Files, file: Handle, buffer: usize) -> Vec<u8> {
    let (mut all, mut bytes) = (Vec::new(), vec![0; buffer]);
    loop {
        match files.read(file, &mut bytes).unwrap() {
            0 => return all,
            read => all.extend_from_slice(&bytes[..read]),
        }
    }
}

#[test]
fn what_is_written_is_read_by_every_engine_and_after_a_restart() {
    for engine in EngineName::ALL {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(dir.path(), engine);
        let files = Files::default();
        let sizes = [0, 1, 5000, 70_000, 1_000_000];
        for size in sizes {
            let file = files.create(&store, &key(&size.to_string()), b"head", of_length(size as u64)).unwrap();
            bytes_of(7, size).chunks(3333).for_each(|piece| assert_eq!(files.write(file, piece), Ok(piece.len())));
            assert_eq!(
                (files.length(file), files.seek(file, SeekFrom::Current(0))),
                (Ok(size as u64), Ok(size as u64))
            );
            assert_eq!(files.close(file), Ok(size as u64 + 4));
        }
        for round in 0..2 {
            for size in sizes {
                let file = files.open(&store, &key(&size.to_string())).unwrap();
                assert_eq!((files.length(file), &files.head(file).unwrap()[..]), (Ok(size as u64), &b"head"[..]));
                let body = bytes_of(7, size);
                assert!(rest(&files, file, 4096) == body, "{engine} {size}");
                for at in [0, size / 3, size] {
                    assert_eq!(files.seek(file, SeekFrom::Start(at as u64)), Ok(at as u64));
                    assert!(rest(&files, file, 1 << 20) == body[at..], "{engine} {size} from {at}");
                }
                files.close(file).unwrap();
            }
            if round == 0 {
                block_on(store.close()).unwrap();
                drop(store);
                store = open(dir.path(), engine);
            }
        }
        assert_eq!(files.count(), 0);
    }
}

#[test]
fn seeks_are_those_of_posix_but_none_leads_outside() {
    let (_dir, store) = store();
    let files = Files::default();
    let file = files.create(&store, &key("a"), b"", Hint::default()).unwrap();
    files.write(file, b"0123456789").unwrap();
    assert_eq!(files.seek(file, SeekFrom::Start(3)), Err(FileError::NotForReading(file)));
    assert_eq!(files.seek(file, SeekFrom::End(0)), Ok(10));
    files.close(file).unwrap();
    let file = files.open(&store, &key("a")).unwrap();
    let mut one = [0];
    for (to, at) in
        [(SeekFrom::End(-1), 9), (SeekFrom::Start(2), 2), (SeekFrom::Current(4), 7), (SeekFrom::Current(-8), 0)]
    {
        assert_eq!(files.seek(file, to), Ok(at));
        assert_eq!((files.read(file, &mut one), one[0]), (Ok(1), b'0' + at as u8));
    }
    for to in
        [SeekFrom::Start(11), SeekFrom::End(1), SeekFrom::Current(10), SeekFrom::Current(-2), SeekFrom::End(i64::MIN)]
    {
        assert!(matches!(files.seek(file, to), Err(FileError::BeyondEnd { length: 10, .. })), "{to:?}");
    }
    assert!(matches!(files.seek(file, SeekFrom::Start(u64::MAX)), Err(FileError::BeyondEnd { .. })));
    assert_eq!((files.read(file, &mut one), one[0]), (Ok(1), b'1'), "a seek that was refused moves nothing");
    assert_eq!(files.seek(file, SeekFrom::End(0)), Ok(10));
    assert_eq!(files.read(file, &mut one), Ok(0));
    assert_eq!(files.read(file, &mut []), Ok(0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Reads and seeks at random, in objects of one piece and of many, do what they do in a file.
    #[test]
    fn a_file_is_read_as_any_other(
        large in any::<bool>(),
        steps in proptest::collection::vec((0..4_u8, -1_200_000..1_200_000_i64, 0..400_000_usize), 1..40),
    ) {
        static STORE: LazyLock<(tempfile::TempDir, Arc<dyn Store>)> = LazyLock::new(store);
        let (files, length) = (Files::default(), if large { 1_000_003 } else { 5000 });
        let (key, body) = (key(if large { "large" } else { "small" }), bytes_of(u64::from(large), length));
        if let Err(FileError::NotFound) = files.open(&STORE.1, &key) {
            let file = files.create(&STORE.1, &key, b"", Hint::default()).unwrap();
            files.write(file, &body).unwrap();
            files.close(file).unwrap();
        }
        let file = files.open(&STORE.1, &key).unwrap();
        let mut at = 0_i64;
        for (what, by, bytes) in steps {
            let (to, from) = match what {
                0 => (SeekFrom::Start(by.unsigned_abs()), by.abs()),
                1 => (SeekFrom::Current(by), at + by),
                2 => (SeekFrom::End(by), length as i64 + by),
                _ => {
                    let mut into = vec![0; bytes];
                    let read = files.read(file, &mut into).unwrap();
                    let left = length - at as usize;
                    prop_assert!(read <= bytes.min(left) && (read > 0 || bytes == 0 || left == 0));
                    prop_assert!(into[..read] == body[at as usize..at as usize + read], "wrong bytes at {}", at);
                    at += read as i64;
                    continue;
                }
            };
            match files.seek(file, to) {
                Ok(now) => {
                    prop_assert_eq!(now as i64, from);
                    at = from;
                }
                Err(error) => {
                    prop_assert!(!(0..=length as i64).contains(&from), "{:?} was refused: {}", to, error);
                }
            }
        }
    }
}

#[test]
fn misuse_is_an_error_each_time() {
    let (_dir, store) = store();
    let files = Files::default();
    assert_eq!(files.open(&store, &key("a")), Err(FileError::NotFound));
    let written = files.create(&store, &key("a"), b"", Hint::default()).unwrap();
    assert_eq!(files.read(written, &mut [0; 10]), Err(FileError::NotForReading(written)));
    files.write(written, b"x").unwrap();
    files.close(written).unwrap();
    let read = files.open(&store, &key("a")).unwrap();
    assert_ne!(read, written, "its place is used again");
    assert_eq!(files.write(read, b"x"), Err(FileError::NotForWriting(read)));
    assert_eq!(files.close(written), Err(FileError::Closed(written)));
    assert_eq!(files.write(written, b"x"), Err(FileError::Closed(written)));
    assert_eq!(files.read(written, &mut [0; 10]), Err(FileError::Closed(written)));
    assert_eq!(files.seek(written, SeekFrom::Start(0)), Err(FileError::Closed(written)));
    files.close(read).unwrap();
    for handle in [read, written] {
        assert_eq!(
            (files.close(handle), files.discard(handle)),
            (Err(FileError::Closed(handle)), Err(FileError::Closed(handle)))
        );
        assert_eq!(
            (files.length(handle), files.head(handle).err()),
            (Err(FileError::Closed(handle)), Some(FileError::Closed(handle)))
        );
    }
    for number in [0, 1, -1, i64::MAX, i64::MIN, 1 << 40] {
        let unknown = Handle(number);
        assert_eq!(files.read(unknown, &mut [0]), Err(FileError::Unknown(unknown)));
        assert_eq!(files.close(unknown), Err(FileError::Unknown(unknown)));
    }
}

#[test]
fn the_table_of_files_is_bounded() {
    let (_dir, store) = store();
    let files = Files::with_room_for(10);
    files.close(files.create(&store, &key("a"), b"", Hint::default()).unwrap()).unwrap();
    let all: Vec<_> = (0..10).map(|_| files.open(&store, &key("a")).unwrap()).collect();
    assert_eq!(files.open(&store, &key("a")), Err(FileError::Full(10)));
    assert_eq!(files.create(&store, &key("b"), b"", Hint::default()), Err(FileError::Full(10)));
    files.close(all[3]).unwrap();
    assert!(files.open(&store, &key("a")).is_ok());
    assert_eq!(files.read(all[3], &mut [0]), Err(FileError::Closed(all[3])));
    let files = Files::with_room_for(usize::MAX);
    (0..MAX_OPEN_FILES).for_each(|_| assert!(files.open(&store, &key("a")).is_ok()));
    assert_eq!(files.open(&store, &key("a")), Err(FileError::Full(MAX_OPEN_FILES)));
}

#[test]
fn what_is_not_stored_is_told_at_the_end_and_what_is_discarded_never_was() {
    let (_dir, store) = store();
    let files = Files::default();
    let short = files.create(&store, &key("a"), b"", of_length(5)).unwrap();
    files.write(short, b"four").unwrap();
    assert_eq!(files.close(short), Err(FileError::NotStored(WhyNot::LengthMismatch)));
    assert_eq!(files.close(short), Err(FileError::Closed(short)));
    for body in [&b"first"[..], b"second"] {
        let file = files.create(&store, &key("a"), b"", Hint::default()).unwrap();
        files.write(file, body).unwrap();
        if body == b"first" { files.close(file).map(drop) } else { files.discard(file) }.unwrap();
    }
    let file = files.open(&store, &key("a")).unwrap();
    assert_eq!(rest(&files, file, 100), b"first");
    // Who reads along hears of the end.
    let written = files.create(&store, &key("b"), b"", Hint::default()).unwrap();
    let along = files.open(&store, &key("b")).unwrap();
    assert_eq!(
        (files.length(along), files.seek(along, SeekFrom::End(0))),
        (Err(FileError::LengthUnknown), Err(FileError::LengthUnknown))
    );
    files.write(written, b"abc").unwrap();
    assert_eq!(files.read(along, &mut [0; 10]), Ok(3));
    files.discard(written).unwrap();
    assert!(matches!(files.read(along, &mut [0; 10]), Err(FileError::Read(_))));
    block_on(store.close()).unwrap();
    let late = files.create(&store, &key("c"), b"", Hint::default()).unwrap();
    assert_eq!(files.close(late), Err(FileError::NotStored(WhyNot::Closed)));
    assert_eq!(files.open(&store, &key("a")), Err(FileError::NotFound));
}

/// Programs say what is related (HashCache, section 3.5): twenty files of one group are read in a few reads, and without it each
/// is a read of its own.
#[test]
fn files_of_one_group_are_read_together() {
    const FILES: u64 = 20;
    for (group, most_reads) in [(Some(7), FILES / 2), (None, FILES + 2)] {
        let dir = tempfile::tempdir().unwrap();
        let tuning = Tuning { prefetch: Some(true), ..Tuning::default() };
        let options =
            CacheOptions { disk_bytes: Some(32 << 20), tuning, memory_bytes: 0, ..CacheOptions::new(dir.path()) };
        let (store, files): (Arc<dyn Store>, _) = (Arc::new(Cache::open(options.clone()).unwrap()), Files::default());
        for n in 0..FILES {
            let file = files.create(&store, &key(&n.to_string()), b"", Hint { group, ..Hint::default() }).unwrap();
            files.write(file, &bytes_of(n, 4000)).unwrap();
            files.close(file).unwrap();
        }
        block_on(store.close()).unwrap();
        drop(store);
        let store: Arc<dyn Store> = Arc::new(Cache::open(options).unwrap());
        let before = store.stats().reads;
        for n in 0..FILES {
            let file = files.open(&store, &key(&n.to_string())).unwrap();
            assert_eq!(rest(&files, file, 4096), bytes_of(n, 4000));
            files.close(file).unwrap();
        }
        let reads = store.stats().reads - before;
        println!("group {group:?}: {FILES} files in {reads} reads");
        assert!(reads <= most_reads && (group.is_some() || reads >= FILES), "group {group:?}: {reads} reads");
    }
}

#[test]
fn one_handle_used_by_many_threads_loses_no_byte() {
    let (_dir, store) = store();
    let files = Files::default();
    let body = bytes_of(9, 400_000);
    let file = files.create(&store, &key("a"), b"", Hint::default()).unwrap();
    files.write(file, &body).unwrap();
    files.close(file).unwrap();
    let file = files.open(&store, &key("a")).unwrap();
    let read: usize = std::thread::scope(|scope| {
        let one = || rest(&files, file, 1000).len();
        let all: Vec<_> = (0..4).map(|_| scope.spawn(one)).collect();
        all.into_iter().map(|one| one.join().unwrap()).sum()
    });
    assert_eq!(read, body.len());
    let closed: usize = std::thread::scope(|scope| {
        let all: Vec<_> = (0..4).map(|_| scope.spawn(|| usize::from(files.close(file).is_ok()))).collect();
        all.into_iter().map(|one| one.join().unwrap()).sum()
    });
    assert_eq!(closed, 1);
}
