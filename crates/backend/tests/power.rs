//! Power cuts under a backend, at every request of a scripted run: what reopens is whole, nothing is older than what a flush
//! acknowledged, nothing doomed comes back. Files of streams that no flush covered are lost, cut, or there.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use tinaja_backend::{Backend, BackendError};
use tinaja_store::block_on;
use tinaja_store::contract::bytes_of;
use tinaja_store::device::wrap::{Fault, Faulty};
use tinaja_store::device::{Medium, Memory, Request};

use crate::support::entries::{create, get, keep, open_backend, open_entry, with_files, write};
use crate::support::{blank, sound};

const ENTRIES: u64 = 12;
const ROUNDS: u64 = 4;

/// Streams are a function of entry and version, so that a reader can tell what it was given. One entry in four is long.
fn streams(n: u64, version: u64) -> [Bytes; 3] {
    let body = if n % 4 == 1 { 150_000 + version as usize } else { (n * 977 + version * 331) as usize % 9000 };
    let head = [&version.to_le_bytes()[..], &bytes_of(n, 200)].concat();
    [head.into(), bytes_of(n * 1000 + version, body), bytes_of(version, 20)]
}

/// What a flush acknowledged, and what was begun since.
#[derive(Clone, Default)]
struct Floor {
    /// Of each entry the number of the last event, and whether that left it there.
    last: Vec<(u64, bool)>,
    /// Dooms begun since.
    leaving: BTreeSet<u64>,
    /// Files that were there.
    files: BTreeSet<OsString>,
}

fn names(directory: &Path) -> BTreeSet<OsString> {
    fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect()
}

/// Makes entries, writes them anew whole and in part, dooms some, flushes now and then. Ends with the first call that the disk
/// fails, as the power does.
fn script(backend: &dyn Backend, directory: &Path, floor: &mut Floor) {
    floor.last = vec![(0, false); ENTRIES as usize];
    let (mut now, mut event) = (floor.last.clone(), 0);
    for round in 0..ROUNDS {
        for n in 0..ENTRIES {
            event += 1;
            let key = n.to_le_bytes();
            if (n + round).is_multiple_of(5) {
                floor.leaving.insert(n);
                match open_entry(backend, &key) {
                    Ok(entry) => entry.doom(),
                    Err(BackendError::NotFound) => {}
                    Err(_) => return,
                }
                now[n as usize] = (event, false);
                continue;
            }
            let before = names(directory);
            if keep(backend, &key, streams(n, event)).is_err() {
                return;
            }
            if now[n as usize].1 {
                // What replaces a version is made to last before its record is written.
                floor.files.extend(names(directory).difference(&before).cloned());
            }
            now[n as usize] = (event, true);
        }
        // An entry that is open while it is flushed is not in it.
        let open = create(backend, b"open");
        if let Ok(entry) = &open {
            drop(write(entry, 1, 0, bytes_of(1, 90_000), false));
        }
        if block_on(backend.flush()).is_err() {
            return;
        }
        *floor = Floor { last: now.clone(), leaving: BTreeSet::new(), files: names(directory) };
        drop(open.map(|entry| entry.doom()));
    }
}

/// What becomes of the files that were written since the last flush.
#[derive(Clone, Copy, Debug)]
enum Unsynced {
    There,
    Cut,
    Lost,
}

fn left_of_files(from: &Path, floor: &Floor, unsynced: Unsynced) -> tempfile::TempDir {
    let left = tempfile::tempdir().unwrap();
    for name in names(from) {
        let mut bytes = fs::read(from.join(&name)).unwrap();
        match unsynced {
            _ if floor.files.contains(&name) => {}
            Unsynced::There => {}
            Unsynced::Cut => bytes.truncate(bytes.len() / 2),
            Unsynced::Lost => continue,
        }
        fs::write(left.path().join(name), bytes).unwrap();
    }
    left
}

/// Open what is left and look at everything: how many entries are found.
fn check(medium: &Medium, directory: &Path, floor: &Floor, why: &str) -> usize {
    let backend = open_backend(sound(medium), &with_files(directory, 32 << 20)).unwrap();
    let mut found = 0;
    for n in 0..ENTRIES {
        let (number, there) = floor.last[n as usize];
        match get(&backend, &n.to_le_bytes()) {
            Ok(all) => {
                let version = u64::from_le_bytes(all[0][..8].try_into().unwrap());
                assert!(all == streams(n, version), "{why}: other bytes in {n}");
                let is_allowed = version > number || (version == number && there);
                assert!(is_allowed, "{why}: {n} is version {version}, acknowledged was {number}, {there}");
                found += 1;
            }
            Err(BackendError::NotFound | BackendError::Unreadable(_)) => {
                let may_go = floor.leaving.contains(&n);
                assert!(!there || may_go, "{why}: {n}, version {number}, was acknowledged and is lost");
            }
            Err(error) => panic!("{why}: {n}: {error}"),
        }
    }
    assert!(matches!(open_entry(&backend, b"open"), Err(BackendError::NotFound)), "{why}: it was never closed");
    keep(&backend, b"new", streams(1, 7)).unwrap();
    assert_eq!(get(&backend, b"new").unwrap(), streams(1, 7), "{why}");
    found
}

/// The state that the last flush before request `call` acknowledged, and the disk whose power went then.
fn cut_at(call: u64, medium: &Medium, directory: &Path) -> (Floor, Arc<Faulty>) {
    let plan = move |now, _: &Request| (now >= call).then_some(Fault::Error);
    let failing = Arc::new(Faulty::volatile(Arc::new(Memory::over(medium)), plan));
    let mut floor = Floor { last: vec![(0, false); ENTRIES as usize], ..Floor::default() };
    if let Ok(backend) = open_backend(failing.clone(), &with_files(directory, 32 << 20)) {
        script(&backend, directory, &mut floor);
    }
    (floor, failing)
}

#[test]
fn whatever_a_power_cut_leaves_is_whole() {
    let directory = || tempfile::tempdir().unwrap();
    let opening = {
        let failing = Arc::new(Faulty::volatile(Arc::new(Memory::over(&blank())), |_, _| None));
        drop(open_backend(failing.clone(), &with_files(directory().path(), 32 << 20)).unwrap());
        failing.calls()
    };
    let calls = cut_at(u64::MAX, &blank(), directory().path()).1.calls();
    let (mut most, mut checks) = (0, 0);
    // The stop's requests at the end of the opening that was only counted are among those of the script.
    for call in (opening.saturating_sub(10)..calls).step_by(2) {
        let (medium, directory) = (blank(), directory());
        let (floor, failing) = cut_at(call, &medium, directory.path());
        let held = failing.held_writes();
        // None of what was under way, all of it, or every second write.
        let subsets = [Unsynced::Lost, Unsynced::There, Unsynced::Cut].into_iter().enumerate();
        for (n, unsynced) in subsets {
            let left = medium.copy();
            for (at, new) in held.iter().skip(n / 2).step_by(n.max(1)).filter(|_| n > 0) {
                assert!(left.write(*at as usize, new));
            }
            let files = left_of_files(directory.path(), &floor, unsynced);
            let why = format!("power cut at request {call}, {} writes under way, files {unsynced:?}", held.len());
            most = most.max(check(&left, files.path(), &floor, &why));
            checks += 1;
        }
    }
    println!("{calls} requests, {checks} openings, up to {most} of {ENTRIES} entries found");
    assert!(checks > 60 && most >= 8);
}
