//! No room of a crate uses one above it: the order stands in ARCHITECTURE.md, the arrows in the `use` lines.
//!
//! A room is a module that a crate's root declares. What stands in the root itself is above all rooms. Code for tests may use
//! what it likes.

#![allow(clippy::unwrap_used, reason = "tests")]

mod broken;
mod check;
mod plan;
mod source;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use check::{Files, faults};
use plan::plans;

#[test]
fn no_arrow_points_up() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let plans = plans(&fs::read_to_string(top.join("ARCHITECTURE.md")).unwrap());
    let crates: BTreeSet<_> =
        fs::read_dir(top.join("crates")).unwrap().map(|entry| name_of(&entry.unwrap().path())).collect();
    let planned: BTreeSet<_> = plans.iter().map(|plan| plan.name.clone()).collect();
    assert_eq!(planned, crates, "crates with an order of rooms in ARCHITECTURE.md, and those that are there");
    let faults: Vec<_> =
        plans.iter().flat_map(|plan| faults(plan, &files(&top.join("crates").join(&plan.name).join("src")))).collect();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
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
