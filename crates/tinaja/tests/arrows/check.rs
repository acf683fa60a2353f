//! Whether the arrows between the rooms of a crate point down.

use std::collections::{BTreeMap, BTreeSet};

use crate::plan::Plan;
use crate::source::Source;

/// The sources of a crate: paths below `src`, and what is there.
pub type Files = BTreeMap<String, String>;

/// The name of what stands in `lib.rs`, `main.rs` or a room's `mod.rs` itself. It is above all rooms.
const ROOT: &str = "root";

/// What is wrong with a crate, or with a room of it that has a plan of its own, a sentence each; nothing if each arrow points
/// down.
pub fn faults(plan: &Plan, files: &Files) -> Vec<String> {
    let Plan { name, rooms, unclear } = plan;
    let (_, folder) = plan.place();
    let files = &folder.map_or_else(|| files.clone(), |folder| below(folder, files));
    let mut faults: Vec<_> = unclear.iter().map(|line| format!("{name}: this line names no room: {line}")).collect();
    let there = modules(files);
    for room in rooms.iter().filter(|room| !there.contains(*room)) {
        faults.push(format!("{name}: there is no room `{room}`, which ARCHITECTURE.md lists"));
    }
    let mut seen = BTreeSet::new();
    for room in rooms.iter().filter(|room| !seen.insert(*room)) {
        faults.push(format!("{name}: ARCHITECTURE.md lists the room `{room}` twice"));
    }
    for room in there.iter().filter(|room| !rooms.contains(room)) {
        faults.push(format!("{name}: ARCHITECTURE.md does not list the room `{room}`"));
    }
    let arrows = arrows(&there, files, folder);
    let height = |room: &str| rooms.iter().position(|other| other == room);
    let is_up = |from: &str, to: &str| match (height(from), height(to)) {
        (Some(from), Some(to)) => to < from,
        (Some(_), None) => to == ROOT,
        _ => false,
    };
    let down: BTreeSet<_> = arrows.keys().filter(|(from, to)| !is_up(from, to)).cloned().collect();
    for ((from, to), at) in &arrows {
        if is_up(from, to) {
            let way = way(&down, to, from);
            let circle = way.map(|way| format!("; and so there is a circle: {from} -> {}", way.join(" -> ")));
            faults.push(format!(
                "{name}: `{from}` uses `{to}`, which stands above it, at {at}{}",
                circle.unwrap_or_default()
            ));
        }
    }
    faults
}

/// The sources below a folder, by their paths in it.
fn below(folder: &str, files: &Files) -> Files {
    let inside = |path: &str| path.strip_prefix(folder)?.strip_prefix('/').map(str::to_owned);
    files.iter().filter_map(|(path, text)| Some((inside(path)?, text.clone()))).collect()
}

/// The rooms that a crate has, or the files of a room.
fn modules(files: &Files) -> BTreeSet<String> {
    let roots = ["lib.rs", "main.rs", "mod.rs"].iter().filter_map(|root| files.get(*root));
    roots.flat_map(|text| Source::of(text).modules()).collect()
}

/// Which room uses which, and where it first does.
fn arrows(rooms: &BTreeSet<String>, files: &Files, folder: Option<&str>) -> BTreeMap<(String, String), String> {
    let tests = tests_among(files);
    let mut arrows = BTreeMap::new();
    for (path, text) in files.iter().filter(|(path, _)| !tests.contains(*path)) {
        let source = Source::of(text);
        let from = stem(path.split('/').next().unwrap_or(path));
        if !rooms.contains(from) {
            continue;
        }
        for used in source.uses(depth(path), folder) {
            let to = if rooms.contains(&used.name) { used.name.as_str() } else { ROOT };
            if to != from {
                let at = format!("{path}:{}", used.line);
                arrows.entry((from.to_owned(), to.to_owned())).or_insert(at);
            }
        }
    }
    arrows
}

/// The files that are compiled for tests only.
pub fn tests_among(files: &Files) -> BTreeSet<String> {
    let named: BTreeSet<_> = files.iter().flat_map(|(path, text)| tests_of(path, &Source::of(text))).collect();
    let is_test = |path: &str| named.iter().any(|test| test == path || path.starts_with(&format!("{}/", stem(test))));
    files.keys().filter(|path| is_test(path)).cloned().collect()
}

/// The paths of the files that a file names as being for tests only, each where it may lie.
fn tests_of(path: &str, source: &Source) -> Vec<String> {
    let folder = path.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
    let own = if is_top(path) { folder.clone() } else { format!("{}/", stem(path)) };
    let names = source.test_files.iter();
    names
        .flat_map(|name| [format!("{folder}{name}"), format!("{own}{name}"), format!("{own}{}/mod.rs", stem(name))])
        .collect()
}

/// A path without its ending.
fn stem(path: &str) -> &str {
    path.strip_suffix(".rs").unwrap_or(path)
}

/// Whether a file stands for its folder.
fn is_top(path: &str) -> bool {
    matches!(path.rsplit('/').next().unwrap_or(path), "mod.rs" | "lib.rs" | "main.rs")
}

/// How many modules lie between a file and the crate's root, its own one included.
fn depth(path: &str) -> usize {
    path.split('/').count() - usize::from(is_top(path))
}

/// A way from one room to another along arrows.
fn way(arrows: &BTreeSet<(String, String)>, from: &str, to: &str) -> Option<Vec<String>> {
    let mut ways = vec![vec![from.to_owned()]];
    let mut seen = BTreeSet::from([from]);
    let mut next = 0;
    while let Some(way) = ways.get(next).cloned() {
        let last = way.last()?;
        if last == to {
            return Some(way);
        }
        for (_, then) in arrows.iter().filter(|(before, then)| before == last && then != ROOT) {
            if seen.insert(then) {
                ways.push([way.clone(), vec![then.clone()]].concat());
            }
        }
        next += 1;
    }
    None
}
