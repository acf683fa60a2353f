//! Kill -9 under load: a process writes, removes and flushes until it is killed, and the next one opens what is left.
//!
//! Fifty times by default. A thousand times, or a run again:
//!
//! ```text
//! TINAJA_KILLS=1000 cargo test --release -p tinaja-store --test processes kill:: -- --nocapture
//! TINAJA_KILLS=50 TINAJA_KILL_SEED=1234 cargo test -p tinaja-store --test processes kill:: -- --nocapture
//! ```
//!
//! Every other process is killed only once a flush was acknowledged: on a busy machine none would be in the time that is left to it.
//!
//! The seed gives the same operations and delays; how threads meet is the system's. `TINAJA_KILL_KEEP=1` leaves the
//! cache and the last journal where they are, to be looked at.

mod journal;
mod load;
mod model;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use load::Orders;
use model::Model;
use tinaja_store::engines::{self, EngineRef};

use crate::support::random::Random;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// No wrong byte, nothing older than what was flushed, nothing removed comes back, and 99 % of what was flushed is found.
#[test]
fn killed_at_any_point_it_opens_with_what_was_flushed() {
    kill(engines::HASHCACHE_LOG, false, setting("TINAJA_KILLS").unwrap_or(50), 0.99);
}

/// The same for the other engines. With a Disk Table an object may push out another one of its set.
#[test]
fn killed_at_any_point_every_engine_opens_with_what_was_flushed() {
    let all = engines::built_in();
    for engine in all.iter().filter(|engine| *engine != engines::HASHCACHE_LOG) {
        let least = if engine == engines::HASHCACHE_BASIC { 0.85 } else { 0.97 };
        kill(engine, false, setting("TINAJA_KILLS").unwrap_or(12), least);
    }
}

/// The same where the index lies on the disk, and moves into memory and back from one process to the next.
#[test]
fn killed_at_any_point_with_its_index_on_the_disk_it_opens_with_what_was_flushed() {
    kill(engines::GENERATIONAL, true, setting("TINAJA_KILLS").unwrap_or(15), 0.97);
}

fn kill(engine: EngineRef, index_on_disk: bool, kills: u64, least: f64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = setting("TINAJA_KILL_SEED").unwrap_or(now % 1_000_000);
    println!("{engine}: {kills} kills, TINAJA_KILL_SEED={seed}");
    let mut dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    dir.disable_cleanup(setting("TINAJA_KILL_KEEP").is_some());
    // Three fifths of the log: it may be anybody's turn to be overwritten after that. With a table a third of the disk is log.
    let kept_bytes = load::DISK_BYTES * 3 / if engine.has(&engines::BIN_SIZE) { 15 } else { 5 };
    let (mut model, mut random, mut laps) = (Model::new(kept_bytes), Random(seed.wrapping_mul(0x9E37_79B9)), 0);
    let begun = Instant::now();
    for number in 1..=kills {
        let close_after = (number % 8 == 0).then(|| Duration::from_millis(100));
        let orders = Orders { engine, number, seed, close_after, index_on_disk };
        let lap = run_and_kill(dir.path(), &orders, &mut random);
        laps = lap.unwrap_or(laps);
        let path = dir.path().join(format!("journal-{number}"));
        let journal = journal::read(&path);
        println!("process {number}: lap {lap:?} when it was ready, {} entries", journal.len());
        model.follow(&journal);
        let _ = std::fs::remove_file(path);
    }
    let share = model.hits as f64 / model.expected as f64;
    let (hits, expected) = (model.hits, model.expected);
    println!("lap {laps}; {hits} of {expected} flushed objects found, {:.3} %; {:?}", share * 100.0, begun.elapsed());
    assert!(expected > kills * 10, "too little was flushed to say anything");
    assert!(share >= least, "{engine}: {hits} of {expected} (TINAJA_KILL_SEED={seed})");
}

/// One process from its start to its death. The lap it found the log in, if it came that far.
fn run_and_kill(dir: &Path, orders: &Orders, random: &mut Random) -> Option<u64> {
    let mut child = start(dir, orders);
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    // One in eight is killed while it opens or looks, the others somewhere in their work.
    let lap = if random.below(8) == 0 {
        std::thread::sleep(Duration::from_micros(random.below(40_000)));
        None
    } else {
        let lap = said(&mut lines, "ready ").and_then(|lap| lap.parse().ok());
        if orders.number.is_multiple_of(2) && orders.close_after.is_none() {
            said(&mut lines, "flushed");
        }
        if orders.close_after.is_none() {
            std::thread::sleep(Duration::from_micros(random.below(200_000)));
        }
        lap
    };
    if lap.is_none() || orders.close_after.is_none() {
        child.kill().unwrap();
    }
    let mut rest = String::new();
    let _ = lines.read_to_string(&mut rest);
    let status = child.wait().unwrap();
    let closed = orders.close_after.is_some() && status.success();
    let number = orders.number;
    assert!(status.signal() == Some(9) || closed, "process {number} ended by itself: {status}\n{rest}");
    lap
}

fn start(dir: &Path, orders: &Orders) -> Child {
    let millis = orders.close_after.map_or(String::new(), |after| after.as_millis().to_string());
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::the_process_that_is_killed", "--ignored", "--nocapture"])
        .env("TINAJA_KILL_DIR", dir)
        .env("TINAJA_KILL_ENGINE", orders.engine.name)
        .env("TINAJA_KILL_NUMBER", orders.number.to_string())
        .env("TINAJA_KILL_SEED", orders.seed.to_string())
        .env("TINAJA_KILL_CLOSE_AFTER", millis)
        .env("TINAJA_KILL_INDEX_ON_DISK", u8::from(orders.index_on_disk).to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Wait for a line that begins so: what else it says; `None` if the process ended before.
fn said(lines: &mut impl BufRead, what: &str) -> Option<String> {
    let mut line = String::new();
    while lines.read_line(&mut line).unwrap() > 0 {
        if let Some(rest) = line.strip_prefix(what) {
            return Some(rest.trim().to_owned());
        }
        line.clear();
    }
    None
}

/// Not a test of its own: the one above runs this in another process, and kills that.
#[test]
#[ignore = "run by killed_at_any_point_it_opens_with_what_was_flushed"]
fn the_process_that_is_killed() {
    let Some(dir) = std::env::var_os("TINAJA_KILL_DIR") else { return };
    let orders = Orders {
        engine: std::env::var("TINAJA_KILL_ENGINE").unwrap().parse().unwrap(),
        number: setting("TINAJA_KILL_NUMBER").unwrap(),
        seed: setting("TINAJA_KILL_SEED").unwrap(),
        close_after: setting("TINAJA_KILL_CLOSE_AFTER").map(Duration::from_millis),
        index_on_disk: setting("TINAJA_KILL_INDEX_ON_DISK") == Some(1),
    };
    load::run(Path::new(&dir), &orders);
}
