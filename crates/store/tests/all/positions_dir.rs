//! A cache whose positions lie in a directory of their own: opened with it, with another one, or with all positions in memory;
//! refused without, and with what to do; and whatever lies in the place of their file, nothing foreign is touched.

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use tinaja_store::{Cache, CacheOptions, Commit, OpenError, Settings, Store, block_on, engines};

use crate::support::{get, put};

fn place() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// A cache in `cache` below a directory, and its positions in `positions`.
fn options(dir: &Path) -> CacheOptions {
    apart(dir).engine(engines::HASHCACHE_LOGLRU)
}

/// The same with no engine said.
fn apart(dir: &Path) -> CacheOptions {
    plain(dir).positions_dir(dir.join("positions"))
}

/// The same with no directory for positions said either.
fn plain(dir: &Path) -> CacheOptions {
    CacheOptions::new(dir.join("cache")).disk_bytes(16 << 20).memory_bytes(0).mean_object_bytes(4096)
}

const OBJECTS: u64 = 3000;

fn fill(cache: &Cache) {
    for n in 0..OBJECTS {
        // A disk that takes nothing for five seconds, as a busy machine's may, is no fault of what is tested here.
        let stored = (0..6).any(|_| matches!(put(cache, n, 1, 2000), Commit::Stored { .. }));
        assert!(stored, "object {n}");
    }
}

fn found(cache: &Cache) -> usize {
    (0..OBJECTS).filter(|n| get(cache, *n) == Some(1)).count()
}

fn closed(cache: Cache) {
    block_on(cache.close()).unwrap();
}

fn refused(options: CacheOptions) -> String {
    let checked = Cache::check(&options).err().map(|error| error.to_string());
    let error = Cache::open(options).err().unwrap().to_string();
    assert_eq!(checked.as_ref(), Some(&error), "a check says the same");
    error
}

#[test]
fn positions_are_written_anew_wherever_they_are_to_lie() {
    let dir = place();
    let cache = Cache::open(options(dir.path())).unwrap();
    fill(&cache);
    let all = found(&cache);
    assert!(all > 2500, "{all}");
    closed(cache);
    let file = dir.path().join("positions/tinaja-1.positions");
    // 512 sets of 32 bytes behind the first block, in the cache's own file none.
    assert_eq!(fs::metadata(&file).unwrap().len(), 4096 + 512 * 32);

    let other = options(dir.path()).positions_dir(dir.path().join("elsewhere/deep"));
    let all_in_memory = Settings::new().with(&engines::POSITIONS_IN_MEMORY, 8);
    let none = plain(dir.path()).settings(all_in_memory);
    let gone = || fs::remove_file(&file).unwrap();
    let cut = || fs::File::options().write(true).open(&file).unwrap().set_len(4096).unwrap();
    let damaged = || {
        let mut bytes = fs::read(&file).unwrap();
        bytes[4096..].fill(0xA5);
        fs::write(&file, bytes).unwrap();
    };
    let befores: [(&dyn Fn(), CacheOptions); 6] = [
        (&|| {}, options(dir.path())),
        (&|| {}, other),
        (&|| {}, none),
        (&gone, options(dir.path())),
        (&cut, options(dir.path())),
        (&damaged, options(dir.path())),
    ];
    for (number, (before, options)) in befores.into_iter().enumerate() {
        before();
        Cache::check(&options).unwrap();
        let cache = Cache::open(options).unwrap();
        assert_eq!(found(&cache), all, "way {number}");
        closed(cache);
    }
    // Whoever only looks needs none.
    let looking = Cache::open_read_only(&[dir.path().join("cache")]).unwrap();
    // With all positions in memory a set may have two of one fingerprint.
    assert!(found(&looking) >= all);
}

#[test]
fn each_disk_of_a_cache_has_a_file_of_its_own() {
    let dir = place();
    let two = options(dir.path()).more_dirs([dir.path().join("second")]);
    let cache = Cache::open(two.clone()).unwrap();
    fill(&cache);
    let all = found(&cache);
    closed(cache);
    let mut files: Vec<_> =
        fs::read_dir(dir.path().join("positions")).unwrap().map(|file| file.unwrap().file_name()).collect();
    files.sort();
    assert_eq!(files, ["tinaja-1.positions", "tinaja-2.positions"]);
    assert_eq!(found(&Cache::open(two).unwrap()), all);
}

#[test]
fn what_does_not_fit_is_refused_and_says_what_to_do() {
    let dir = place();
    closed(Cache::open(options(dir.path())).unwrap());
    let file = dir.path().join("cache/tinaja.cache");
    let before = fs::read(&file).unwrap();

    let forgotten = refused(plain(dir.path()).engine(engines::HASHCACHE_LOGLRU));
    for words in ["in a separate directory", "name that directory", "keep all 8"] {
        assert!(forgotten.contains(words), "{forgotten}");
    }
    // A cache that has them beside its log, and one that has none.
    for (name, engine, says) in [
        ("beside", engines::HASHCACHE_LOGLRU, "with positions beside the log, not in a directory of their own"),
        ("log", engines::HASHCACHE_LOG, "hashcache-log keeps no positions on disk"),
    ] {
        let made = plain(&dir.path().join(name)).engine(engine);
        closed(Cache::open(made).unwrap());
        for engine in [Some(engine), None] {
            let error = refused(apart(&dir.path().join(name)).when(engine, CacheOptions::engine));
            assert!(error.contains(says), "{error}");
        }
    }
    let new = apart(&dir.path().join("new"));
    assert!(refused(new).contains("choose hashcache-loglru"));
    assert!(!dir.path().join("new/positions").exists() && !dir.path().join("log/positions").exists());

    // Something else in its place is left as it is.
    let positions = dir.path().join("positions/tinaja-1.positions");
    for other in [&b"my thesis"[..], &[b'x'; 100_000]] {
        fs::write(&positions, other).unwrap();
        let error = refused(options(dir.path()));
        assert!(error.contains("holds no positions") && error.contains("not touched"), "{error}");
        assert!(fs::read(&positions).unwrap() == other);
    }
    fs::remove_file(&positions).unwrap();
    fs::create_dir(&positions).unwrap();
    let error = Cache::open(options(dir.path())).err().unwrap().to_string();
    assert!(error.contains("tinaja-1.positions"), "{error}");
    fs::remove_dir(&positions).unwrap();
    let no_dir = options(dir.path()).positions_dir(file.clone());
    assert!(matches!(Cache::open(no_dir), Err(OpenError::Directory { .. })));
    assert!(fs::read(&file).unwrap() == before, "the cache was touched");

    // One directory serves one cache at a time: its positions are worth nothing to another, and may be written over.
    let first = Cache::open(options(dir.path())).unwrap();
    let second = options(&dir.path().join("another")).positions_dir(dir.path().join("positions"));
    assert!(refused(second.clone()).contains("in use by another process"));
    fill(&first);
    let all = found(&first);
    closed(first);
    closed(Cache::open(second).unwrap());
    assert_eq!(found(&Cache::open(options(dir.path())).unwrap()), all);
}
