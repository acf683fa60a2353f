//! No room of a crate uses one above it: the order stands in ARCHITECTURE.md, the arrows in the `use` lines. And nobody but the
//! clock asks the system for time and threads, nor whoever that page does not list.
//!
//! A room is a module that a crate's root declares. A room may have an order of its own, for the files in it. What stands in the
//! root itself is above all rooms. Code for tests may use what it likes.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod broken;
mod check;
mod clock;
mod plan;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use check::{Files, faults};
use plan::plans;

#[test]
fn no_arrow_points_up() {
    let (plans, crates) = (plans(&page()), crates());
    let planned: BTreeSet<_> =
        plans.iter().filter(|plan| plan.place().1.is_none()).map(|plan| plan.place().0).collect();
    let there = crates.keys().map(String::as_str).collect();
    assert_eq!(planned, there, "crates with an order of rooms in ARCHITECTURE.md, and those that are there");
    let faults: Vec<_> = plans.iter().flat_map(|plan| faults(plan, &crates[plan.place().0])).collect();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn nobody_but_the_clock_asks_the_system_for_time_and_threads() {
    let faults = clock::faults(&clock::allowed(&page()), &crates());
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page() -> String {
    fs::read_to_string(top().join("ARCHITECTURE.md")).unwrap()
}

/// The sources of every crate, by its folder.
fn crates() -> BTreeMap<String, Files> {
    let folders = fs::read_dir(top().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    folders.map(|folder| (name_of(&folder), files(&folder.join("src")))).collect()
}

/// All sources below a folder, by their paths in it.
fn files(folder: &Path) -> Files {
    let mut files = Files::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            let below = self::files(&path).into_iter();
            files.extend(below.map(|(rest, text)| (format!("{}/{rest}", name_of(&path)), text)));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.insert(name_of(&path), fs::read_to_string(&path).unwrap());
        }
    }
    files
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}
