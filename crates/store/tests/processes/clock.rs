//! The wall clock one year off, either way: the store neither reads nor stores it, so nothing is lost, nothing comes back
//! and nothing stays for ever. Processes run one after the other on the same cache under libfaketime (Debian's package
//! faketime); where that is missing the test says so and passes.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tinaja_store::{Cache, CacheOptions, Commit, Store, Updated, block_on};

use crate::support::{get, key, put};

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// Run a step in a process of its own, whose wall clock is so many days off.
fn step(dir: &Path, step: &str, days: i64) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "clock::a_step", "--ignored", "--nocapture"]);
    command.env("TINAJA_CLOCK_DIR", dir).env("TINAJA_CLOCK_STEP", step).env("TINAJA_CLOCK_DAYS", days.to_string());
    command.env("TINAJA_CLOCK_NOW", now().as_secs().to_string());
    if days != 0 {
        command.env("LD_PRELOAD", LIBRARY).env("FAKETIME", format!("{days:+}d"));
        command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }
    let done = command.output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && said.contains("1 passed"), "{step}, {days} days off: {said}");
}

#[test]
fn a_clock_one_year_off_changes_nothing() {
    if !Path::new(LIBRARY).exists() {
        eprintln!("SKIPPED: {LIBRARY} is not there; the package faketime has it");
        return;
    }
    for (first, second) in [(365, -365), (-365, 365)] {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        step(dir.path(), "fill", 0);
        step(dir.path(), "find and add", first);
        step(dir.path(), "find all", second);
        step(dir.path(), "wear out", first);
        step(dir.path(), "find none of the old", 0);
    }
}

fn stored(cache: &Cache, n: u64, version: u64, size: usize) {
    assert!(matches!(put(cache, n, version, size), Commit::Stored { .. }));
}

/// Objects 0 to 49: 0 to 4 were removed, 5 to 9 are in their second version.
fn found_as_left(cache: &Cache) {
    for n in 0..50 {
        let expected = if n < 5 { None } else { Some(if n < 10 { 2 } else { 1 }) };
        assert_eq!(get(cache, n), expected, "object {n}");
    }
}

/// Not a test of its own: the one above runs this in another process.
#[test]
#[ignore = "run by a_clock_one_year_off_changes_nothing"]
fn a_step() {
    let setting = |name: &str| std::env::var(name).ok();
    let Some(dir) = setting("TINAJA_CLOCK_DIR") else { return };
    let right: i64 = setting("TINAJA_CLOCK_NOW").unwrap().parse().unwrap();
    let days: i64 = setting("TINAJA_CLOCK_DAYS").unwrap().parse().unwrap();
    let off = now().as_secs() as i64 - right;
    assert!((off - days * 86_400).abs() < 3600, "the clock is {off} s off, and should be {days} days");
    assert!(days == 0 || off.unsigned_abs() > YEAR.as_secs() * 9 / 10);

    let options = CacheOptions::new(dir).disk_bytes(4 << 20).memory_bytes(0);
    let cache = Cache::open(options).unwrap();
    match setting("TINAJA_CLOCK_STEP").unwrap().as_str() {
        "fill" => {
            // What is removed is removed first: a removal may also forget another object with the same fingerprint
            // (rule 5), which in so small a cache happened once in seventy runs.
            (0..10).for_each(|n| stored(&cache, n, 1, 5000));
            (0..5).for_each(|n| assert!(block_on(cache.remove(&key(n))).is_ok()));
            (5..10).for_each(|n| stored(&cache, n, 2, 5000));
            (10..50).for_each(|n| stored(&cache, n, 1, 5000));
        }
        "find and add" => {
            found_as_left(&cache);
            (100..150).for_each(|n| stored(&cache, n, 1, 5000));
            let updated = cache.update_head(&key(120), Box::new(|_| Some(Bytes::from_static(b"1"))));
            assert_eq!(block_on(updated), Ok(Updated::Done));
        }
        "find all" => {
            found_as_left(&cache);
            (100..150).for_each(|n| assert_eq!(get(&cache, n), Some(1), "object {n}"));
        }
        "wear out" => (1000..2000).for_each(|n| stored(&cache, n, 1, 5000)),
        "find none of the old" => {
            assert!((0..50).chain(100..150).all(|n| get(&cache, n).is_none()), "the log has gone round");
            assert!((1900..2000).filter(|&n| get(&cache, n) == Some(1)).count() > 95);
        }
        other => panic!("no step {other}"),
    }
    block_on(cache.close()).unwrap();
}
