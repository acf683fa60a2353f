//! The tables of `docs/http`: every test that they name exists, every row has one or says why there is none, and no
//! sentence of RFC 9111 is without a row.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, missing_docs)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What stands in a row's last column where nothing could be tested: whom the sentence binds, or that it is a choice that
/// was not taken.
const WITHOUT_TEST: [&str; 4] = ["of clients", "of origins", "of specifications", "not done"];

/// How many sentences of RFC 9111 have a word of BCP 14 or "ought to", by section; definitions of these words not counted.
/// Several in one sentence may have several rows.
const RFC_9111: [(&str, usize); 43] = [
    ("1", 1),
    ("1.2.2", 2),
    ("2", 1),
    ("3", 1),
    ("3.1", 6),
    ("3.2", 3),
    ("3.3", 6),
    ("3.4", 2),
    ("3.5", 1),
    ("4", 5),
    ("4.1", 3),
    ("4.2", 4),
    ("4.2.2", 2),
    ("4.2.3", 2),
    ("4.2.4", 2),
    ("4.3.1", 3),
    ("4.3.2", 6),
    ("4.3.3", 2),
    ("4.3.4", 2),
    ("4.3.5", 3),
    ("4.4", 3),
    ("5.1", 2),
    ("5.2", 2),
    ("5.2.1", 1),
    ("5.2.1.1", 1),
    ("5.2.1.2", 1),
    ("5.2.1.3", 1),
    ("5.2.1.5", 2),
    ("5.2.1.7", 1),
    ("5.2.2", 1),
    ("5.2.2.1", 1),
    ("5.2.2.2", 4),
    ("5.2.2.3", 2),
    ("5.2.2.4", 3),
    ("5.2.2.5", 2),
    ("5.2.2.6", 1),
    ("5.2.2.7", 4),
    ("5.2.2.8", 1),
    ("5.2.2.9", 1),
    ("5.2.2.10", 2),
    ("5.2.3", 2),
    ("5.2.4", 1),
    ("5.3", 4),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The rows of every table in a page: section, and last column.
fn rows(page: &str) -> Vec<(String, String)> {
    let lines = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| §"));
    let rows = lines.map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        assert_eq!(cells.len(), 4, "four columns: {line}");
        (cells[0].to_owned(), cells[3].to_owned())
    });
    rows.collect()
}

/// What stands between backticks.
fn names(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Where the tests of a file stand, by how the tables name it: `http::age`, `proxy::hops`.
fn sources(owner: &str, file: &str) -> Vec<PathBuf> {
    let crates = root().join("crates");
    match owner {
        "http" => ["", "_tests"].map(|end| crates.join(format!("http/src/{file}{end}.rs"))).into(),
        "unit" => ["", "_tests"].map(|end| crates.join(format!("proxy/src/{}{end}.rs", file.replace('.', "/")))).into(),
        _ => ["tests", "tests/all"].map(|dir| crates.join(format!("{owner}/{dir}/{file}.rs"))).into(),
    }
}

/// Whether a function of this name is a test in one of these files.
fn is_test(files: &[PathBuf], name: &str) -> bool {
    let written = format!("fn {name}(");
    let is_one = |text: &str| {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let at =
            lines.iter().position(|line| line.starts_with(&written) || line.starts_with(&format!("async {written}")));
        at.is_some_and(|at| {
            lines[..at].iter().rev().take_while(|line| line.starts_with('#')).any(|line| line.contains("test"))
        })
    };
    files.iter().filter_map(|file| std::fs::read_to_string(file).ok()).any(|text| is_one(&text))
}

#[test]
fn every_row_is_shown_by_tests_that_exist() {
    let mut pages = 0;
    for entry in std::fs::read_dir(root().join("docs/http")).unwrap() {
        let path = entry.unwrap().path();
        pages += 1;
        for (section, last) in rows(&std::fs::read_to_string(&path).unwrap()) {
            let at = format!("{} {section}", path.display());
            assert!(
                last.contains('`') || WITHOUT_TEST.contains(&last.as_str()),
                "{at}: no test, and no reason: {last:?}"
            );
            for name in names(&last) {
                let parts: Vec<&str> = name.split("::").collect();
                let exists = match parts.as_slice() {
                    [owner, file, function] => is_test(&sources(owner, file), function),
                    [case] if case.starts_with("scripts/") => root().join(case).exists(),
                    [case] => root().join(format!("crates/proxy/tests/cases/{case}.case")).exists(),
                    _ => false,
                };
                assert!(exists, "{at}: no such test: {name}");
            }
        }
    }
    assert!(pages > 0);
}

#[test]
fn every_sentence_of_rfc_9111_has_its_row() {
    let page = std::fs::read_to_string(root().join("docs/http/rfc9111.md")).unwrap();
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    let rows = rows(&page);
    for (section, _) in &rows {
        // Rules without such a word are marked, and do not count.
        if !section.ends_with('†') {
            *found.entry(section.as_str()).or_default() += 1;
        }
    }
    for (section, sentences) in RFC_9111 {
        let rows = found.get(section).copied().unwrap_or(0);
        assert!(rows >= sentences, "section {section}: {sentences} sentences, {rows} rows");
    }
}

/// A name that is none must be noticed, or the tables prove nothing.
#[test]
fn what_is_no_test_is_noticed() {
    for (name, is_one) in [
        ("http::age::fields", true),
        ("http::storable::refusals", true),
        ("proxy::caching::only_if_cached", true),
        ("http::age::headers", false),
        ("http::age::field", false),
        ("http::nothing::fields", false),
        ("proxy::caching::fields", false),
    ] {
        let parts: Vec<&str> = name.split("::").collect();
        assert_eq!(is_test(&sources(parts[0], parts[1]), parts[2]), is_one, "{name}");
    }
}
