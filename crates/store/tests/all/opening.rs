//! Directories that are not as they should be: each is refused with what to do, and nothing in it is touched.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::TempDir;
use tinaja_store::contract::bytes_of;
use tinaja_store::{Cache, CacheOptions, Commit, Hint, Key, OpenError, Store, block_on, engines};

fn place() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn options(dir: &Path) -> CacheOptions {
    CacheOptions::new(dir).disk_bytes(16 << 20)
}

fn file(dir: &Path) -> std::path::PathBuf {
    dir.join("tinaja.cache")
}

/// The error's text, after making sure that opening changed nothing in this directory.
fn refused(dir: &Path, options: CacheOptions) -> String {
    let path = file(dir);
    let before = fs::read(&path).ok();
    let error = Cache::open(options).err().expect("this must be refused").to_string();
    assert!(fs::read(&path).ok() == before, "the file was touched: {error}");
    error
}

fn made(dir: &Path) {
    let cache = Cache::open(options(dir)).unwrap();
    let mut writer = cache.put(&Key::from_name(b"a"), "head".into(), Hint::default());
    block_on(writer.write(bytes_of(1, 5000)));
    assert!(matches!(block_on(writer.commit()), Commit::Stored { .. }));
    block_on(cache.close()).unwrap();
}

/// Who may write to the directory planted a link with the name that a new cache has while it is made, and made the cache write
/// over a file of somebody else's; or a file that all may read.
#[test]
fn what_was_planted_is_not_followed() {
    for engine in [engines::HASHCACHE_LOG, engines::SQUID] {
        for is_link in [true, false] {
            let dir = place();
            let victim = dir.path().join("victim");
            fs::write(&victim, "of somebody else").unwrap();
            for new in ["tinaja.new", "tinaja.tree.new"].map(|name| dir.path().join(name)) {
                match is_link {
                    true => std::os::unix::fs::symlink(&victim, &new).unwrap(),
                    false => fs::write(&new, "planted").unwrap(),
                }
                fs::set_permissions(&new, fs::Permissions::from_mode(0o666)).unwrap();
            }
            drop(Cache::open(options(dir.path()).engine(engine)).unwrap());
            assert_eq!(fs::read_to_string(&victim).unwrap(), "of somebody else");
            let files = ["tinaja.cache", "tinaja.tree"].map(|name| dir.path().join(name));
            for file in files.iter().filter_map(|file| fs::symlink_metadata(file).ok()) {
                assert!(file.is_file() && file.permissions().mode() & 0o077 == 0, "{:o}", file.permissions().mode());
            }
        }
    }
}

#[test]
fn a_foreign_file_is_left_alone() {
    for content in [&b""[..], b"hello", &[0; 20_000], &[0xFF; 20_000]] {
        let dir = place();
        fs::write(file(dir.path()), content).unwrap();
        assert!(refused(dir.path(), options(dir.path())).contains("is not a Tinaja cache"));
    }
}

#[test]
fn another_version_or_a_damaged_superblock_is_left_alone() {
    let dir = place();
    made(dir.path());
    let sound = fs::read(file(dir.path())).unwrap();
    let with = |at: usize, byte: u8| {
        let mut bytes = sound.clone();
        bytes[at] = byte;
        fs::write(file(dir.path()), bytes).unwrap();
    };
    with(8, 7);
    let error = refused(dir.path(), options(dir.path()));
    assert!(error.contains("format version 7") && error.contains("delete the file"), "{error}");
    with(90, sound[90] ^ 1);
    assert!(refused(dir.path(), options(dir.path())).contains("damaged superblock"));
    fs::write(file(dir.path()), &sound[..1 << 20]).unwrap();
    assert!(refused(dir.path(), options(dir.path())).contains("damaged superblock"), "a file that was cut");
    fs::write(file(dir.path()), &sound).unwrap();
    let cache = Cache::open(options(dir.path())).unwrap();
    assert!(block_on(cache.find(&Key::from_name(b"a"))).is_some());
}

#[test]
fn a_cache_in_use_is_left_alone() {
    let dir = place();
    let cache = Cache::open(options(dir.path())).unwrap();
    let error = Cache::open(options(dir.path())).err().unwrap().to_string();
    assert!(error.contains("in use by another process"), "{error}");
    assert!(Cache::open_read_only(&[dir.path().into()]).is_err());
    drop(cache);
    Cache::open(options(dir.path())).unwrap();
}

#[test]
fn sizes_out_of_range_and_other_geometries_are_refused() {
    let dir = place();
    for (bytes, how) in [(0, "small"), (1 << 20, "small"), (1 << 60, "large"), (u64::MAX, "large")] {
        let error = refused(dir.path(), options(dir.path()).disk_bytes(bytes));
        assert!(error.contains(how), "{error}");
        assert!(!file(dir.path()).exists(), "nothing is left behind");
    }
    // A little more than is free, and what is free is said.
    let stat = rustix::fs::statvfs(dir.path()).unwrap();
    let more_than_free = stat.f_bavail * stat.f_frsize + (4 << 30);
    let error = refused(dir.path(), options(dir.path()).disk_bytes(more_than_free));
    assert!(error.contains("large") && error.contains("bytes, which are free there"), "{error}");
    assert!(!file(dir.path()).exists(), "nothing is left behind");
    made(dir.path());
    let whole = fs::read(file(dir.path())).unwrap();
    for other in [8 << 20, (16 << 20) - (1 << 19), 32 << 20] {
        let error = refused(dir.path(), options(dir.path()).disk_bytes(other));
        assert!(error.contains("a size of") && error.contains(&format!("{other} bytes")), "{error}");
        assert!(error.contains("make it anew"), "what to do: {error}");
        assert!(
            Cache::other_size(&options(dir.path()).disk_bytes(other))
                .is_some_and(|(there, asked)| there > 15 << 20 && asked == other)
        );
    }
    // The file itself has another size than it was made with.
    fs::write(file(dir.path()), &whole[..whole.len() - 4096]).unwrap();
    assert!(refused(dir.path(), options(dir.path())).contains("damaged superblock"), "cut short");
    fs::write(file(dir.path()), &whole).unwrap();
    let unsaid = CacheOptions::new(dir.path());
    assert!(Cache::open(unsaid).unwrap().stats().capacity_bytes > 15 << 20, "unsaid means: as it is");
    let odd = options(dir.path()).disk_bytes((16 << 20) + 4321);
    assert_eq!(Cache::other_size(&odd), None);
    let running = Cache::open(odd).expect("the same size after rounding");
    let larger = options(dir.path()).disk_bytes(32 << 20);
    assert!(Cache::other_size(&larger).is_some(), "said beside a running process too");
    drop(running);
}

#[test]
fn places_that_cannot_hold_a_cache_are_named() {
    let dir = place();
    fs::write(dir.path().join("file"), "x").unwrap();
    let below_a_file = dir.path().join("file").join("cache");
    let error = Cache::open(options(&below_a_file)).err().unwrap();
    assert!(matches!(error, OpenError::Directory { .. }) && error.to_string().contains("file/cache"), "{error}");
    fs::create_dir_all(file(dir.path())).unwrap();
    let error = Cache::open(options(dir.path())).err().unwrap().to_string();
    assert!(error.contains("tinaja.cache"), "{error}");
    assert!(matches!(Cache::open_read_only(&[place().path().into()]), Err(OpenError::NoCache(_))));
}

#[test]
fn looking_at_a_cache_changes_nothing() {
    let dir = place();
    made(dir.path());
    let before = fs::read(file(dir.path())).unwrap();
    let cache = Cache::open_read_only(&[dir.path().into()]).unwrap();
    let again = Cache::open_read_only(&[dir.path().into()]).expect("two may look at once");
    assert_eq!((cache.stats().live_objects, again.stats().live_objects), (1, 1));
    assert!(block_on(cache.find(&Key::from_name(b"a"))).is_some());
    let writer = cache.put(&Key::from_name(b"b"), "head".into(), Hint::default());
    assert!(matches!(block_on(writer.commit()), Commit::NotStored(_)));
    drop((cache, again));
    assert!(fs::read(file(dir.path())).unwrap() == before);
}

#[test]
fn disks_that_do_not_belong_together_are_refused() {
    let (a, b, other) = (place(), place(), place());
    let spread =
        |first: &TempDir, more: &[&TempDir]| options(first.path()).more_dirs(more.iter().map(|dir| dir.path().into()));
    drop(Cache::open(spread(&a, &[&b])).unwrap());
    drop(Cache::open(spread(&a, &[&b])).unwrap());
    made(other.path());
    for (options, says) in [
        (spread(&b, &[&a]), "disk 2 of 2, and was given as disk 1 of 2"),
        (spread(&a, &[]), "disk 1 of 2, and was given as disk 1 of 1"),
        (spread(&a, &[&other]), "of another cache"),
    ] {
        let error = Cache::open(options).err().expect("these do not belong together").to_string();
        assert!(error.contains(says) || error.contains("disk 1 of 1"), "{error}");
    }
    assert_eq!(Cache::open_read_only(&[a.path().into(), b.path().into()]).unwrap().stats().live_objects, 0);
}
