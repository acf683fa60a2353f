//! A process that may open few files: entries with streams in files are refused while it has none left, and are there when it
//! has. The test runs in a process of its own, whose limit it lowers.

use std::process::Command;

use bytes::Bytes;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tinaja_backend::{Backend, BackendError};
use tinaja_store::block_on;
use tinaja_store::contract::bytes_of;

use crate::support::entries::{create, get, keep, open_backend, open_entry, with_files, write};
use crate::support::{blank, sound};

const ENTRIES: u64 = 60;

#[test]
fn entries_outlive_a_lack_of_descriptors() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "descriptors::with_few_descriptors", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

/// Not a test of its own: the one above runs this in another process.
#[test]
#[ignore = "run by entries_outlive_a_lack_of_descriptors"]
fn with_few_descriptors() {
    let (medium, directory) = (blank(), tempfile::tempdir().unwrap());
    let backend = open_backend(sound(&medium), &with_files(directory.path(), 32 << 20)).unwrap();
    let streams = |n: u64| [bytes_of(n, 100), bytes_of(n + 1000, 100_000), Bytes::new()];
    (0..ENTRIES).for_each(|n| keep(&backend, &n.to_le_bytes(), streams(n)).unwrap());
    block_on(backend.flush()).unwrap();
    let usual = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(40), ..usual }).unwrap();
    let (mut open, mut refused) = (Vec::new(), 0);
    for n in 0..ENTRIES {
        match open_entry(&backend, &n.to_le_bytes()) {
            Ok(entry) => open.push(entry),
            Err(BackendError::Unreadable(why)) => {
                assert!(why.contains("stream"), "{why}");
                refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > 20 && !open.is_empty(), "{refused} refused");
    let long = create(&backend, b"long").unwrap();
    assert!(matches!(write(&long, 1, 0, bytes_of(1, 100_000), false), Err(BackendError::NotKept(_))));
    assert_eq!(long.data_bytes(1), Ok(0), "nothing was changed");
    write(&long, 1, 0, bytes_of(1, 1000), false).unwrap();
    block_on(long.close()).unwrap();
    assert_eq!(get(&backend, b"long").unwrap()[1], bytes_of(1, 1000));
    drop(open);
    setrlimit(Resource::Nofile, usual).unwrap();
    assert!((0..ENTRIES).all(|n| get(&backend, &n.to_le_bytes()).unwrap() == streams(n)));
}
