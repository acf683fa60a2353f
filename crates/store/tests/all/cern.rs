//! The tree by URL: where objects lie, lists that decide what is served, hostile URLs, somebody else in the directory.

use std::fs;
use std::path::Path;

use bytes::Bytes;
use tinaja_store::{Cache, CacheOptions, Commit, Hint, Key, Store, block_on, engines};

fn options(dir: &Path) -> CacheOptions {
    CacheOptions::new(dir).engine(engines::CERN).disk_bytes(64 << 20).memory_bytes(0).flush_every(None)
}

fn key(url: &str) -> Key {
    Key::from_digest(*Key::from_name(url.as_bytes()).digest()).at_url(url)
}

fn put(store: &Cache, url: &str) {
    put_until(store, url, 0);
}

/// An object whose body is its URL, and which expires so many seconds after 1970.
fn put_until(store: &Cache, url: &str, expires: u64) {
    let fresh_until = std::time::SystemTime::UNIX_EPOCH.checked_add(std::time::Duration::from_secs(expires));
    let mut writer = store.put(&key(url), "head".into(), Hint { fresh_until, ..Hint::default() });
    block_on(writer.write(Bytes::copy_from_slice(url.as_bytes())));
    let committed = block_on(writer.commit());
    assert!(matches!(committed, Commit::Stored { .. }), "{url}: {committed:?}");
}

/// Whoever asks does not say where it is.
fn has(store: &Cache, url: &str) -> bool {
    let hit = block_on(store.find(&Key::from_digest(*key(url).digest())));
    hit.is_some_and(|mut hit| block_on(hit.body.collect(usize::MAX)).unwrap() == url.as_bytes())
}

/// What lies beneath a directory, empty directories with a slash.
fn tree(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![dir.to_path_buf()];
    while let Some(next) = waiting.pop() {
        let entries: Vec<_> = fs::read_dir(&next).unwrap().map(|entry| entry.unwrap().path()).collect();
        let name = next.strip_prefix(dir).unwrap().to_str().unwrap().to_owned();
        if entries.is_empty() && next != dir {
            found.push(name + "/");
        }
        for path in entries {
            match path.is_dir() {
                true => waiting.push(path),
                false => found.push(path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned()),
            }
        }
    }
    found.sort();
    found
}

fn list(path: &Path) -> String {
    let bytes = fs::read(path).unwrap();
    let lines = u32::from_le_bytes(bytes[4..8].try_into().unwrap()) as usize;
    String::from_utf8_lossy(&bytes[16..16 + lines]).into_owned()
}

#[test]
fn an_object_lies_where_its_url_says_until_it_is_removed() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let objects = dir.path().join("objects");
    let store = Cache::open(options(dir.path())).unwrap();
    put_until(&store, "http://a.test/x/y.gif", 1_900_000_000);
    put(&store, "http://a.test/x/");
    put(&store, "http://a.test/x");
    block_on(store.flush()).unwrap();
    let all = tree(&objects);
    let expected = [
        "http/a.test/,metadata",
        "http/a.test/x,00000002",
        "http/a.test/x/,index,00000001",
        "http/a.test/x/,metadata",
        "http/a.test/x/y.gif,00000000",
    ];
    assert_eq!(all, expected);
    assert_eq!(list(&objects.join(expected[3])), ",index,00000001 0\ny.gif,00000000 1900000000\n");
    for url in ["http://a.test/x/y.gif", "http://a.test/x/", "http://a.test/x"] {
        assert!(has(&store, url));
    }
    // A new version has a file of its own until it lasts; then the older one goes.
    put(&store, "http://a.test/x");
    block_on(store.flush()).unwrap();
    block_on(store.flush()).unwrap();
    assert_eq!(list(&objects.join(expected[0])), "x,00000003 0\n");
    for url in ["http://a.test/x/y.gif", "http://a.test/x/"] {
        block_on(store.remove(&key(url))).unwrap();
    }
    assert_eq!(tree(&objects), ["http/a.test/,metadata", "http/a.test/x,00000003"]);
    block_on(store.remove(&key("http://a.test/x"))).unwrap();
    assert_eq!(tree(&objects), [""; 0], "no directory outlasts what lay in it");
}

#[test]
fn hostile_urls_stay_beneath_the_cache() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let cache = dir.path().join("cache");
    let long = "n".repeat(4096);
    let urls: Vec<String> = [
        "http://a.test/../../../../etc/passwd",
        "http://../x",
        "../x",
        "/etc/passwd",
        "http://a.test/\0/x",
        "http://a.test/,metadata",
        "http://a.test/x,00000000,lock",
        "http://a.test/both",
        "http://a.test/both/",
        "http://a.test/both/x",
        "",
        "://",
        "http://é.test/ü?ö/",
        &format!("http://a.test/{long}"),
        &format!("http://a.test/{long}x"),
        &format!("http://{long}/{long}/{long}?{long}"),
        &format!("http://a.test/{}", "d/".repeat(4000)),
    ]
    .map(str::to_owned)
    .into();
    let store = Cache::open(options(&cache)).unwrap();
    urls.iter().for_each(|url| put(&store, url));
    block_on(store.close()).unwrap();
    drop(store);
    let store = Cache::open(options(&cache)).unwrap();
    for url in &urls {
        assert!(has(&store, url), "{url:?}");
    }
    assert_eq!((store.stats().damaged_at_open, fs::read_dir(dir.path()).unwrap().count()), (0, 1));
    for url in &urls {
        block_on(store.remove(&key(url))).unwrap();
    }
    assert_eq!(tree(&cache.join("objects")), [""; 0]);
}

/// What a list does not name is a miss, and counted; one that is not whole decides nothing. Opened again, it names what is there.
#[test]
fn lists_decide_what_is_served() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = |host: &str| dir.path().join("objects/http").join(host).join(",metadata");
    let store = Cache::open(options(dir.path())).unwrap();
    let hosts = ["kept", "gone", "cut", "other", "directory"];
    let url = |host: &str| format!("http://{host}/x");
    hosts.iter().for_each(|host| put(&store, &url(host)));
    put(&store, "http://other/y");
    block_on(store.flush()).unwrap();
    fs::remove_file(path("gone")).unwrap();
    fs::OpenOptions::new().write(true).open(path("cut")).unwrap().set_len(20).unwrap();
    // What another cache's list says is of no account: it is not whole by this one's secret.
    let bytes = fs::read(path("other")).unwrap();
    fs::write(path("other"), [&bytes[..8], &[0; 8], &bytes[16..]].concat()).unwrap();
    fs::remove_file(path("directory")).unwrap();
    fs::create_dir(path("directory")).unwrap();
    let there: Vec<_> = hosts.into_iter().filter(|host| has(&store, &url(host))).collect();
    assert_eq!(there, ["kept", "cut", "other"]);
    assert_eq!(store.stats().of_engine.named("lost_files"), 2);
    fs::remove_dir(path("directory")).unwrap();
    fs::remove_file(path("kept")).unwrap();
    block_on(store.close()).unwrap();
    drop(store);
    let store = Cache::open(options(dir.path())).unwrap();
    let there: Vec<_> = hosts.into_iter().filter(|host| has(&store, &url(host))).collect();
    assert_eq!(there, ["kept", "cut", "other"]);
    for host in there {
        assert!(list(&path(host)).starts_with("x,"), "{host}");
    }
}

/// A list that was damaged or removed was written anew by the next store, with that one's name alone: all others of the directory were misses.
#[test]
fn a_damaged_list_costs_nothing_that_is_there() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let list = dir.path().join("objects/http/a.test/,metadata");
    let store = Cache::open(options(dir.path())).unwrap();
    let url = |n: usize| format!("http://a.test/{n}");
    (0..5).for_each(|n| put(&store, &url(n)));
    block_on(store.flush()).unwrap();
    let mut bytes = fs::read(&list).unwrap();
    bytes[20] ^= 1;
    fs::write(&list, bytes).unwrap();
    put(&store, &url(5));
    block_on(store.flush()).unwrap();
    assert!((0..6).all(|n| has(&store, &url(n))));
    fs::remove_file(&list).unwrap();
    put(&store, &url(6));
    block_on(store.flush()).unwrap();
    assert!((0..7).all(|n| has(&store, &url(n))));
    assert_eq!(store.stats().of_engine.named("lost_files"), 0);
}

/// A directory in the place of a list costs what it lists, and not the cache: that could not be opened any more.
#[test]
fn a_list_that_cannot_be_read_costs_one_directory() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let list = dir.path().join("objects/http/a.test/,metadata");
    let store = Cache::open(options(dir.path())).unwrap();
    put(&store, "http://a.test/x");
    put(&store, "http://b.test/x");
    block_on(store.close()).unwrap();
    drop(store);
    fs::remove_file(&list).unwrap();
    fs::create_dir(&list).unwrap();
    let store = Cache::open(options(dir.path())).unwrap();
    assert!(has(&store, "http://b.test/x") && !has(&store, "http://a.test/x"));
}

/// A number is used again as soon as its file is gone, and by URL that is another path: a cut of the power may leave both files. The one that was
/// published later has the number, and the other goes.
#[test]
fn of_two_files_with_one_number_the_later_one_stays() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let [older, newer] =
        ["http/a.test/x,00000000", "http/b.test/x,00000000"].map(|path| dir.path().join("objects").join(path));
    let store = Cache::open(options(dir.path())).unwrap();
    put(&store, "http://a.test/x");
    block_on(store.flush()).unwrap();
    let bytes = fs::read(&older).unwrap();
    block_on(store.remove(&key("http://a.test/x"))).unwrap();
    put(&store, "http://b.test/x");
    block_on(store.close()).unwrap();
    drop(store);
    assert!(newer.exists());
    fs::create_dir_all(older.parent().unwrap()).unwrap();
    fs::write(&older, bytes).unwrap();
    let store = Cache::open(options(dir.path())).unwrap();
    assert!(has(&store, "http://b.test/x") && !has(&store, "http://a.test/x") && !older.exists());
}

/// Parts of a long body and its end are written by several threads, in any order: the lock is there before the first of them and gone after the last.
#[test]
fn long_bodies_leave_no_lock() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = Cache::open(options(dir.path())).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let store = &store;
            scope.spawn(move || {
                for n in 0..10 {
                    let url = format!("http://{thread}.test/{n}/x");
                    let mut writer = store.put(&key(&url), "head".into(), Hint::default());
                    block_on(writer.write(Bytes::from(vec![7; 800_000])));
                    assert!(matches!(block_on(writer.commit()), Commit::Stored { .. }), "{url}");
                    if n % 2 == 0 {
                        block_on(store.remove(&key(&url))).unwrap();
                    }
                }
            });
        }
    });
    block_on(store.flush()).unwrap();
    let all = tree(&dir.path().join("objects"));
    assert!(!all.iter().any(|path| path.ends_with(",lock") || path.ends_with('/')), "{all:?}");
    assert_eq!(all.iter().filter(|path| path.ends_with(",metadata")).count(), 20);
    let stats = store.stats();
    assert_eq!((stats.live_objects, stats.write_errors), (20, 0));
}

/// A process that was killed while it wrote leaves a lock, which nobody takes for an object, and a file without an end.
#[test]
fn a_lock_that_was_left_behind_goes_when_the_cache_is_opened() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = Cache::open(options(dir.path())).unwrap();
    put(&store, "http://a.test/x");
    block_on(store.close()).unwrap();
    drop(store);
    let objects = dir.path().join("objects");
    fs::create_dir_all(objects.join("http/b.test")).unwrap();
    fs::write(objects.join("http/b.test/y,00000009,lock"), "").unwrap();
    fs::write(objects.join("http/b.test/y,00000009"), "half").unwrap();
    fs::write(objects.join("http/b.test/README"), "somebody else's").unwrap();
    let store = Cache::open(options(dir.path())).unwrap();
    assert!(has(&store, "http://a.test/x"));
    assert_eq!(tree(&objects), ["http/a.test/,metadata", "http/a.test/x,00000000", "http/b.test/README"]);
    assert_eq!((store.stats().damaged_at_open, store.stats().of_engine.named("foreign_files")), (1, 1));
}
