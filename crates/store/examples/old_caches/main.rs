//! Caches of every kind, to be opened by a later version: made by one commit, read by another.
//!
//! ```text
//! cargo run --release -p tinaja-store --example old_caches make DIR    makes them, each in a directory of its own
//! cargo run --release -p tinaja-store --example old_caches read DIR    opens copies of them and looks at every object
//! ```
//!
//! Beside each cache lies a list of what is in it: `cache` and `second` are its disks, `positions` has its positions,
//! `manifest` is the list. `read` goes by the lists alone, leaves the originals as they are, and fails if anything is
//! missing, back from the dead, or other than it was. Disk space: 1.5 GiB, and 64 MiB for the copies.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a check by hand")]

mod make;
mod manifest;
mod read;
mod recipes;

use std::path::Path;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let dir = Path::new(arguments.get(1).expect("make DIR or read DIR"));
    match arguments[0].as_str() {
        "make" => make_all(dir),
        "make-one" => make::make(dir, &recipes::all().into_iter().find(|one| one.name == arguments[2]).unwrap()),
        "read" => return read::read_all(dir),
        _ => panic!("make DIR or read DIR"),
    }
    ExitCode::SUCCESS
}

/// Each in a process of its own: some end by being killed.
fn make_all(dir: &Path) {
    let program = std::env::current_exe().unwrap();
    for recipe in recipes::all() {
        let ended = Command::new(&program).arg("make-one").arg(dir).arg(&recipe.name).status().unwrap();
        // Whoever aborts has no exit code.
        assert_eq!(ended.code().is_none(), recipe.killed, "{}: {ended}", recipe.name);
        assert!(dir.join(&recipe.name).join("manifest").exists(), "{}: no list", recipe.name);
    }
}
