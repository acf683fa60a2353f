//! What was written is read, from anywhere in it, as from any other file.

use std::io::SeekFrom;
use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use tinaja_files::{FileError, Files};
use tinaja_store::contract::bytes_of;
use tinaja_store::{Hint, Store, block_on, engines};

use crate::support::{key, of_length, open, rest, store};

#[test]
fn what_is_written_is_read_by_every_engine_and_after_a_restart() {
    for engine in engines::built_in().iter() {
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
