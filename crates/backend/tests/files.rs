//! Streams in files of their own: where they are, who leaves, and that no damage to them gives another byte.

use std::fs;
use std::path::{Path, PathBuf};

use tinaja_backend::{Backend, BackendError, EngineBackend, EngineBackendOptions};
use tinaja_store::contract::bytes_of;
use tinaja_store::device::Medium;
use tinaja_store::{block_on, engines};

use crate::support::entries::{create, get, keep, open_backend, open_entry, read, with_files, write};
use crate::support::{blank, open_as, secret, sound};

const LONG: usize = 200_000;

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut all: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

fn bytes_in(directory: &Path) -> u64 {
    files(directory).iter().map(|path| fs::metadata(path).unwrap().len()).sum()
}

fn opened(medium: &Medium, options: &EngineBackendOptions) -> EngineBackend {
    open_backend(sound(medium), options).unwrap()
}

fn entry(seed: u64) -> [bytes::Bytes; 3] {
    [bytes_of(seed, 100), bytes_of(seed + 1, LONG), bytes_of(seed + 2, 50)]
}

/// One file for the long stream, none for the short ones; while it is written its name says so.
#[test]
fn only_what_fits_no_record_is_a_file() {
    let (directory, medium) = (tempfile::tempdir().unwrap(), blank());
    let backend = opened(&medium, &with_files(directory.path(), 16 << 20));
    keep(&backend, b"short", [bytes_of(1, 100), bytes_of(2, 40_000), bytes_of(3, 10)]).unwrap();
    assert!(files(directory.path()).is_empty());
    let long = create(&backend, b"long").unwrap();
    write(&long, 0, 0, bytes_of(4, 100), false).unwrap();
    write(&long, 1, 0, bytes_of(5, LONG), false).unwrap();
    let part = files(directory.path());
    assert!(part.len() == 1 && part[0].extension().unwrap() == "part");
    block_on(long.close()).unwrap();
    let kept = files(directory.path());
    assert!(kept.len() == 1 && kept[0].extension().unwrap() == "stream");
    // 4 blocks of 64 KiB, a sum each, and the end.
    assert_eq!(fs::metadata(&kept[0]).unwrap().len(), LONG as u64 + 4 * 8 + 56);
    assert_eq!(get(&backend, b"long").unwrap()[1], bytes_of(5, LONG));
}

/// A new head beside a long body writes the head alone: the same file is the new version's.
#[test]
fn an_update_leaves_the_files_of_other_streams_where_they_are() {
    let (directory, medium) = (tempfile::tempdir().unwrap(), blank());
    let backend = opened(&medium, &with_files(directory.path(), 16 << 20));
    keep(&backend, b"key", entry(1)).unwrap();
    let before = files(directory.path());
    for round in 0..10 {
        let open = open_entry(&backend, b"key").unwrap();
        write(&open, 0, 0, bytes_of(round, 300), true).unwrap();
        block_on(open.close()).unwrap();
    }
    block_on(backend.flush()).unwrap();
    assert_eq!(files(directory.path()), before);
    assert_eq!(get(&backend, b"key").unwrap(), [bytes_of(9, 300), bytes_of(2, LONG), bytes_of(3, 50)]);
}

/// A file that was replaced stays until what replaced it lasts; one whose entry was doomed goes at once, and those who have it
/// open read on.
#[test]
fn files_go_with_their_entries() {
    let (directory, medium) = (tempfile::tempdir().unwrap(), blank());
    let backend = opened(&medium, &with_files(directory.path(), 16 << 20));
    keep(&backend, b"key", entry(1)).unwrap();
    keep(&backend, b"key", entry(100)).unwrap();
    assert_eq!(files(directory.path()).len(), 2, "a cut of the power now would leave the first version");
    block_on(backend.flush()).unwrap();
    assert_eq!(files(directory.path()).len(), 1);
    let open = open_entry(&backend, b"key").unwrap();
    open.doom();
    assert!(matches!(open_entry(&backend, b"key"), Err(BackendError::NotFound)), "which waits for the removal");
    assert!(files(directory.path()).is_empty());
    assert_eq!(read(&open, 1).unwrap(), bytes_of(101, LONG));
    block_on(open.close()).unwrap();
    let dropped = create(&backend, b"never closed").unwrap();
    write(&dropped, 1, 0, bytes_of(5, LONG), false).unwrap();
    dropped.doom();
    drop(dropped);
    block_on(backend.flush()).unwrap();
    assert!(files(directory.path()).is_empty());
}

/// All files together take no more than they may: the oldest leave, and their entries are misses.
#[test]
fn the_oldest_leave_for_new_ones() {
    let (directory, medium) = (tempfile::tempdir().unwrap(), blank());
    let most = 16 * LONG as u64;
    let options = with_files(directory.path(), most);
    let backend = opened(&medium, &options);
    for n in 0..40_u64 {
        keep(&backend, &n.to_le_bytes(), entry(n * 10)).unwrap();
        assert!(bytes_in(directory.path()) <= most);
    }
    let found: Vec<_> = (0..40_u64).filter(|n| get(&backend, &n.to_le_bytes()).is_ok()).collect();
    assert_eq!(found, (25..40).collect::<Vec<_>>(), "15 and their ends fit");
    let missing = open_entry(&backend, &3_u64.to_le_bytes());
    assert!(matches!(missing, Err(BackendError::NotFound)));
    keep(&backend, &3_u64.to_le_bytes(), entry(3)).unwrap();
    block_on(backend.stop()).unwrap();
    drop(backend);
    // Opened with less room, there is less.
    let backend = opened(&medium, &with_files(directory.path(), most / 2));
    assert!(bytes_in(directory.path()) <= most / 2);
    assert_eq!(get(&backend, &3_u64.to_le_bytes()).unwrap(), entry(3), "the newest");
    assert!(matches!(open_entry(&backend, &30_u64.to_le_bytes()), Err(BackendError::NotFound)));
}

/// What is too long is refused, and says how long it may be; nothing of it stays.
#[test]
fn an_entry_may_have_its_share_and_no_more() {
    let (directory, medium) = (tempfile::tempdir().unwrap(), blank());
    let most = 8 << 20;
    let backend = opened(&medium, &with_files(directory.path(), most));
    let open = create(&backend, b"key").unwrap();
    let mut written = 0;
    let refused = loop {
        match write(&open, written % 3, 100_000 * (written as u64 / 3), bytes_of(written as u64, 100_000), false) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
    };
    assert_eq!((written, refused), (10, BackendError::OutOfRange { asked: 1_100_000, most: most / 8 }));
    block_on(open.close()).unwrap();
    let small = opened(&blank(), &EngineBackendOptions::default());
    let open = create(&small, b"key").unwrap();
    let refused = write(&open, 0, 0, bytes_of(1, LONG), false);
    assert!(
        matches!(refused, Err(BackendError::OutOfRange { most: 50_000..65_536, .. })),
        "no record holds it: {refused:?}"
    );
    let refused = write(&open, 0, 65_536, bytes_of(1, 1), false);
    assert!(matches!(refused, Err(BackendError::OutOfRange { .. })));
    assert_eq!(open.data_bytes(0), Ok(0));
}

/// Memory for what is written is counted for all: beyond it streams go into files, and without files writes are refused.
#[test]
fn what_is_written_takes_no_more_memory_than_it_may() {
    let (directory, medium) = (tempfile::tempdir().unwrap(), blank());
    let files_too = with_files(directory.path(), 64 << 20);
    let backend = opened(&medium, &EngineBackendOptions { written_bytes: 100_000, ..files_too });
    let open: Vec<_> = (0..30_u64).map(|n| create(&backend, &n.to_le_bytes()).unwrap()).collect();
    for (n, entry) in open.iter().enumerate() {
        write(entry, 1, 0, bytes_of(n as u64, 10_000), false).unwrap();
    }
    assert_eq!(files(directory.path()).len(), 20, "ten are in memory");
    open.into_iter().for_each(|entry| block_on(entry.close()).unwrap());
    assert!((0..30_u64).all(|n| get(&backend, &n.to_le_bytes()).unwrap()[1] == bytes_of(n, 10_000)));

    let alone = opened(&blank(), &EngineBackendOptions { written_bytes: 100_000, ..EngineBackendOptions::default() });
    let mut open: Vec<_> = (0..30_u64).map(|n| create(&alone, &n.to_le_bytes()).unwrap()).collect();
    let written = open.iter().filter(|entry| write(entry, 1, 0, bytes_of(1, 10_000), false).is_ok()).count();
    assert_eq!(written, 10);
    let refused = write(&open[29], 1, 0, bytes_of(1, 10_000), false);
    assert!(matches!(refused, Err(BackendError::Full(_))), "{refused:?}");
    assert_eq!(open[29].data_bytes(1), Ok(0));
    block_on(open.remove(0).close()).unwrap();
    write(&open[28], 1, 0, bytes_of(1, 10_000), false).expect("a close gives its memory back");
}

/// Files that no entry speaks of are removed at opening: parts, strays, those of entries that are gone. Others' stay.
#[test]
fn opening_removes_what_no_entry_speaks_of() {
    let (directory, medium) = (tempfile::tempdir().unwrap(), blank());
    let options = with_files(directory.path(), 16 << 20);
    let backend = opened(&medium, &options);
    (0..4_u64).for_each(|n| keep(&backend, &n.to_le_bytes(), entry(n * 10)).unwrap());
    block_on(backend.stop()).unwrap();
    drop(backend);
    let kept = files(directory.path());
    let stray = |name: &str| assert!(fs::copy(&kept[0], directory.path().join(name)).unwrap() > 0);
    let tag = kept[0].file_name().unwrap().to_str().unwrap()[..9].to_owned();
    for name in [format!("{tag}00000000000000aa.stream"), format!("{tag}00000000000000bb.part")] {
        stray(&name);
    }
    let others = ["00000000-00000000000000aa.stream", "notes.txt", "x.stream"];
    for name in others {
        stray(name);
    }
    let backend = opened(&medium, &options);
    assert_eq!(files(directory.path()).len(), kept.len() + others.len());
    assert!((0..4_u64).all(|n| get(&backend, &n.to_le_bytes()).unwrap() == entry(n * 10)));
    drop(backend);
    // On a fresh disk no entry speaks of any of them.
    drop(opened(&blank(), &options));
    assert_eq!(files(directory.path()).len(), others.len());
}

/// Flipped, cut, zeroed, exchanged or missing files: a miss or an error, never another byte.
#[test]
fn damaged_files_are_never_served() {
    let (directory, medium) = (tempfile::tempdir().unwrap(), blank());
    let options = with_files(directory.path(), 16 << 20);
    let backend = opened(&medium, &options);
    keep(&backend, b"one", entry(1)).unwrap();
    keep(&backend, b"two", entry(50)).unwrap();
    block_on(backend.stop()).unwrap();
    drop(backend);
    let (image, paths) = (medium.bytes(), files(directory.path()));
    let whole: Vec<_> = paths.iter().map(|path| fs::read(path).unwrap()).collect();
    let (mut lost, mut found) = (0, 0);
    for round in 0..120_usize {
        let mut damaged = whole.clone();
        let (file, length) = (round % 2, damaged[0].len());
        let at = round * 7919 * 31 % length;
        match round % 6 {
            0 | 1 => damaged[file][at] ^= 1 << (round % 8),
            2 => damaged[file][at..length.min(at + 5000)].fill(0xFF),
            3 => damaged[file].truncate(at),
            4 => damaged.swap(0, 1),
            _ => damaged[file].copy_within(0..65_536, 65_536),
        }
        for (path, bytes) in paths.iter().zip(&damaged) {
            fs::write(path, bytes).unwrap();
        }
        if round % 20 == 3 {
            fs::remove_file(&paths[file]).unwrap();
        }
        let backend = opened(&Medium::from(image.clone()), &options);
        for (key, seed) in [(&b"one"[..], 1), (b"two", 50)] {
            match get(&backend, key) {
                Ok(streams) => {
                    assert!(streams == entry(seed), "round {round}: other bytes");
                    found += 1;
                }
                Err(BackendError::NotFound | BackendError::Unreadable(_)) => {
                    lost += 1;
                    // The key is free again, and what is made now is whole.
                    if let Ok(entry) = open_entry(&backend, key) {
                        entry.doom();
                    }
                    keep(&backend, key, entry(900)).unwrap();
                    assert_eq!(get(&backend, key).unwrap(), entry(900));
                }
                Err(error) => panic!("round {round}: {error}"),
            }
        }
        block_on(backend.stop()).unwrap();
        drop(backend);
        files(directory.path()).iter().for_each(|path| fs::remove_file(path).unwrap());
    }
    assert!(lost >= 100 && found >= 80, "{lost} lost, {found} found");
}

/// The directory vanishes under an open cache: writes fail and say so, what fits records goes on.
#[test]
fn a_directory_that_vanishes_is_an_error() {
    let (directory, medium) = (tempfile::tempdir().unwrap(), blank());
    let inside = directory.path().join("streams");
    let backend = opened(&medium, &with_files(&inside, 16 << 20));
    keep(&backend, b"before", entry(1)).unwrap();
    fs::remove_dir_all(&inside).unwrap();
    assert!(matches!(get(&backend, b"before"), Err(BackendError::NotFound)));
    let refused = keep(&backend, b"after", entry(1));
    assert!(matches!(&refused, Err(BackendError::NotKept(why)) if why.contains("streams")), "{refused:?}");
    keep(&backend, b"short", [bytes_of(1, 100), bytes_of(2, 100), bytes_of(3, 0)]).unwrap();
    assert_eq!(get(&backend, b"short").unwrap()[1], bytes_of(2, 100));
    let file = directory.path().join("a file");
    fs::write(&file, "no directory").unwrap();
    let engine = open_as(engines::HASHCACHE_LOG, sound(&blank())).unwrap();
    let refused = EngineBackend::over(engine, secret(), with_files(&file, 1 << 20));
    assert!(refused.is_err_and(|error| error.to_string().contains("a file")));
}
