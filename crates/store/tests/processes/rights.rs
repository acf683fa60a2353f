//! Files that the store may not read any more: somebody has changed their modes. Root may read everything, so a process of another user's looks.
//!
//! Needs root, to be that user.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tinaja_store::{Cache, CacheOptions, EngineRef, Store, block_on, engines};

use crate::support::{get, key, put};

/// Debian's `nobody`.
const NOBODY: u32 = 65_534;

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect();
    files.sort();
    files
}

#[test]
fn files_that_may_not_be_read_are_misses_and_counted() {
    for engine in [engines::CERN, engines::SQUID, engines::SQUIDL, engines::SQUIDMLA] {
        let dir = tempfile::tempdir().unwrap();
        chown(dir.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "rights::a_look_as_another_user", "--ignored", "--nocapture"]);
        command.env("TINAJA_RIGHTS_DIR", dir.path()).env("TINAJA_RIGHTS_ENGINE", engine.name);
        let done = command.uid(NOBODY).gid(NOBODY).current_dir("/").output().expect("this test needs root");
        let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success() && said.contains("1 passed"), "{engine}: {said}");
    }
}

fn named(name: &str) -> EngineRef {
    let all = [engines::CERN, engines::SQUID, engines::SQUIDL, engines::SQUIDMLA];
    all.into_iter().find(|engine| engine.name == name).unwrap()
}

#[test]
#[ignore = "what the other test starts"]
fn a_look_as_another_user() {
    let dir = PathBuf::from(std::env::var("TINAJA_RIGHTS_DIR").unwrap()).join("cache");
    let engine = named(&std::env::var("TINAJA_RIGHTS_ENGINE").unwrap());
    let options = || CacheOptions::new(&dir).engine(engine).disk_bytes(64 << 20).memory_bytes(0);
    let store = Cache::open(options()).unwrap();
    // Too large for a mapped file, so that each has a file of its own.
    (0..40).for_each(|n| drop(put(&store, n, 1, 20_000)));
    block_on(store.flush()).unwrap();
    // CERN's lists are not objects.
    let objects = files(&dir.join("objects"));
    let objects: Vec<_> = objects.iter().filter(|path| fs::metadata(path).unwrap().len() > 20_000).collect();
    assert_eq!(objects.len(), 40, "{engine}");
    for path in objects.iter().step_by(2) {
        fs::set_permissions(path, fs::Permissions::from_mode(0o0)).unwrap();
    }
    let found = (0..40).filter(|n| get(&store, *n) == Some(1)).count();
    assert_eq!((found, store.stats().of_engine.named("lost_files")), (20, 20), "{engine}");
    // They are stored anew, and there again.
    (0..40).for_each(|n| drop(put(&store, n, 2, 20_000)));
    assert!((0..40).all(|n| get(&store, n) == Some(2)), "{engine}");
    assert!(block_on(store.remove(&key(0))).is_ok() && get(&store, 0).is_none());
    block_on(store.close()).unwrap();
    drop(store);
    // The mapped file is one for all: without it nothing is served, and what to do is said.
    let mapped = dir.join("mapped");
    if mapped.exists() {
        fs::set_permissions(&mapped, fs::Permissions::from_mode(0o0)).unwrap();
        let error = Cache::open(options()).err().unwrap().to_string();
        assert!(error.contains("mapped: Permission denied") && error.contains("read and write it"), "{error}");
        fs::set_permissions(&mapped, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(get(&Cache::open(options()).unwrap(), 1), Some(2));
    }
}
