//! A cache file that changed while nobody looked: never a wrong byte, and no silent fresh start.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::support::tinaja::{Setup, Tinaja};
use tinaja_testkit::body::body;
use tinaja_testkit::origin::Origin;

const LENGTHS: [usize; 4] = [0, 700, 9_000, 300_000];
/// Few enough that two of them hardly ever look alike to the index, which then holds only one (once in 5,000 runs).
const OF_EACH: usize = 30;

/// Ask for every object: all must be right. Returns how many were hits.
fn ask_for_all(proxy: &Tinaja, origin: &Origin) -> usize {
    let mut hits = 0;
    for len in LENGTHS {
        for n in 0..OF_EACH {
            let path = format!("/{len}/{n}");
            let response = proxy.get(&origin.url(&path)).unwrap();
            assert_eq!(response.status, 200, "{path}");
            assert!(response.body == body(&path, len), "wrong bytes for {path}");
            hits += usize::from(response.is_hit());
        }
    }
    hits
}

/// A stopped cache with every object in it.
fn filled(origin: &Origin) -> Setup {
    let setup = Setup::forward();
    let mut proxy = setup.start();
    ask_for_all(&proxy, origin);
    assert_eq!(proxy.process.terminate().code(), Some(0));
    setup
}

/// Flip a bit in every `step`th byte of `file` from `from` on.
fn flip(file: &Path, from: u64, step: usize) {
    let file = File::options().read(true).write(true).open(file).unwrap();
    let len = file.metadata().unwrap().len();
    for at in (from..len).step_by(step) {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
    }
}

/// The cache's files, the largest first.
fn files(setup: &Setup) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(setup.cache_dir()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort_by_key(|file| std::cmp::Reverse(fs::metadata(file).unwrap().len()));
    files
}

/// The superblock and whatever else must be whole for the cache to open lies in the first bytes of its file.
const FRONT: u64 = 64 << 10;

#[test]
fn bits_flipped_here_and_there() {
    let mut origin = Origin::of_patterns();
    let setup = filled(&origin);
    for file in files(&setup) {
        flip(&file, FRONT, 100_003);
    }
    let mut proxy = setup.start();
    let hits = ask_for_all(&proxy, &origin);
    assert!(hits > 0 && hits < LENGTHS.len() * OF_EACH, "{hits} hits: most objects are whole, some are not");
    // What was damaged has been fetched again and stored.
    assert_eq!(proxy.process.terminate().code(), Some(0));
    origin.stop();
    assert_eq!(ask_for_all(&setup.start(), &origin), LENGTHS.len() * OF_EACH);
}

#[test]
fn bits_flipped_everywhere() {
    let origin = Origin::of_patterns();
    let setup = filled(&origin);
    for file in files(&setup) {
        flip(&file, FRONT, 509);
    }
    let proxy = setup.start();
    ask_for_all(&proxy, &origin);
    assert_eq!(ask_for_all(&proxy, &origin), LENGTHS.len() * OF_EACH);
}

/// What starts with `bytes` at `at` in the cache's file is refused with these words, and left as it is.
fn assert_refused(at: u64, bytes: &[u8], words: &str) {
    let origin = Origin::of_patterns();
    let setup = Setup::forward();
    let mut proxy = setup.start();
    assert_eq!(proxy.get(&origin.url("/700/x")).unwrap().status, 200);
    assert_eq!(proxy.process.terminate().code(), Some(0));
    let file = &files(&setup)[0];
    File::options().write(true).open(file).unwrap().write_all_at(bytes, at).unwrap();
    let before = front(file);
    for output in [setup.run(), setup.inspect()] {
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(words) && said.contains(&file.display().to_string()), "{said}");
        assert!(!said.contains("panicked"), "{said}");
    }
    assert!(front(file) == before, "the file was touched");
}

fn front(file: &Path) -> Vec<u8> {
    let mut front = vec![0; FRONT as usize];
    File::open(file).unwrap().read_exact_at(&mut front, 0).unwrap();
    front
}

#[test]
fn another_programs_file() {
    assert_refused(0, b"SQLite format 3\0", "not a Tinaja cache");
}

#[test]
fn another_version() {
    // The version stands after the eight bytes of the magic.
    assert_refused(8, &999_u32.to_le_bytes(), "version 999");
}

#[test]
fn a_damaged_superblock() {
    assert_refused(50, b"\xff", "damaged");
}

#[test]
fn a_file_cut_short() {
    let origin = Origin::of_patterns();
    let setup = filled(&origin);
    let file = &files(&setup)[0];
    File::options().write(true).open(file).unwrap().set_len(1 << 20).unwrap();
    let output = setup.run();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&file.display().to_string()) && !said.contains("panicked"), "{said}");
    assert_eq!(fs::metadata(file).unwrap().len(), 1 << 20);
}
