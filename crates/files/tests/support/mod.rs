//! What the tests of files share.

use std::path::Path;
use std::sync::Arc;

use tinaja_files::{Files, Handle};
use tinaja_store::{Cache, CacheOptions, EngineRef, Hint, Key, Store, engines};

/// A store in this directory.
pub fn open(dir: &Path, engine: EngineRef) -> Arc<dyn Store> {
    let options = CacheOptions::new(dir).disk_bytes(32 << 20).engine(engine).memory_bytes(0);
    Arc::new(Cache::open(options).unwrap())
}

/// A store in a directory of its own.
pub fn store() -> (tempfile::TempDir, Arc<dyn Store>) {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), engines::HASHCACHE_LOG);
    (dir, store)
}

pub fn key(name: &str) -> Key {
    Key::from_name(name.as_bytes())
}

/// What is said of an object whose length is known.
pub fn of_length(bytes: u64) -> Hint {
    Hint { expected_bytes: Some(bytes), ..Hint::default() }
}

/// Read to the end with a buffer of so many bytes.
pub fn rest(files: &Files, file: Handle, buffer: usize) -> Vec<u8> {
    let (mut all, mut bytes) = (Vec::new(), vec![0; buffer]);
    loop {
        match files.read(file, &mut bytes).unwrap() {
            0 => return all,
            read => all.extend_from_slice(&bytes[..read]),
        }
    }
}
