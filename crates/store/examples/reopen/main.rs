//! How long a cache of a million objects takes to come back, and what a million slots cost in memory.
//!
//! ```text
//! cargo run --release -p tinaja-store --example reopen [objects]     default 1,000,000; disk space 4 GiB
//! ```
//!
//! The program runs itself for each step, so that nothing is left in memory from the step before. Opening is measured
//! from the call to its return, then 10,000 gets by 32 threads of objects that were there before the stop.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a measurement")]

mod steps;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// How the process before is stopped.
const STOPS: [&str; 2] = ["close", "kill"];
const ROUNDS: usize = 3;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let dir = arguments.get(1).map(Path::new);
    match (arguments.first().map(String::as_str), dir) {
        (Some("fill"), Some(dir)) => steps::fill(dir, arguments[2].parse().unwrap(), &arguments[3]),
        (Some("reopen"), Some(dir)) => steps::reopen(dir, &arguments[2]),
        (Some("memory"), Some(dir)) => steps::memory(dir),
        (objects, _) => all(objects.and_then(|objects| objects.parse().ok()).unwrap_or(1_000_000)),
    }
}

fn all(objects: u64) {
    let dir = tempfile::tempdir().unwrap();
    println!("{}", step(&["memory", &path(&dir.path().join("memory"))]));
    println!("\n| {objects} objects of 1 KiB, stopped by | open | 10,000 gets by 32 threads | both | hits |");
    println!("|---|---|---|---|---|");
    for stop in STOPS {
        let dir = path(&dir.path().join("cache"));
        assert_eq!(step(&["fill", &dir, &objects.to_string(), stop]), "filled");
        for round in 1..=ROUNDS {
            // Each is stopped as the first was.
            println!("| {stop}, {round} | {}", step(&["reopen", &dir, stop]));
        }
        std::fs::remove_dir_all(dir).unwrap();
    }
}

fn path(path: &Path) -> String {
    path.to_str().unwrap().to_string()
}

/// This program again, for one step: the line that it prints when it is done. Then it is killed; a step that is to
/// close its cache has done so before it prints.
fn step(arguments: &[&str]) -> String {
    let program = std::env::current_exe().unwrap();
    let mut child = Command::new(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert!(!line.is_empty(), "a step ended without an answer: {status}");
    line.trim_end().to_string()
}
