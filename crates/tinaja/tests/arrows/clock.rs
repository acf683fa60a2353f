//! Who asks the system for the time, sleeps or starts threads: the clock, and whoever ARCHITECTURE.md lists.
//!
//! A line of the list is a crate, or a room of one, and why:
//!
//! ````text
//! ```clock
//! lab: it measures machines
//! store/contract: a test-suite
//! ```
//! ````

use std::collections::BTreeMap;

use crate::check::{Files, tests_among};
use crate::source::Source;

/// Names of what asks the system, behind the last `::` of a path that begins with one of these.
const PATHS: [(&str, &[&str]); 6] = [
    ("Instant", &["now"]),
    ("SystemTime", &["now"]),
    ("thread", &["sleep", "spawn", "Builder", "park_timeout"]),
    ("tokio", &["spawn"]),
    ("task", &["spawn", "spawn_blocking", "spawn_local"]),
    ("time", &["sleep", "sleep_until", "timeout", "timeout_at", "interval"]),
];

/// Functions that are called by their name alone where they were imported so.
const FUNCTIONS: [&str; 5] = ["sleep", "spawn", "spawn_blocking", "timeout", "interval"];

/// Methods that ask the system, with what follows them. `clock.wait_for(&changed, &mut state, ..)` is another.
const METHODS: [&[&str]; 4] =
    [&["elapsed", "("], &["wait_for", "(", "&", "mut"], &["wait_until", "(", "&", "mut"], &["wait_timeout", "("]];

/// Lines of the list, each with its reason.
pub fn allowed(page: &str) -> BTreeMap<String, String> {
    let block = page.lines().skip_while(|line| *line != "```clock").skip(1).take_while(|line| *line != "```");
    block.map(|line| line.split_once(": ").unwrap_or((line, ""))).map(|(who, why)| (who.into(), why.into())).collect()
}

/// What is wrong, a sentence each.
pub fn faults(allowed: &BTreeMap<String, String>, crates: &BTreeMap<String, Files>) -> Vec<String> {
    let mut faults = Vec::new();
    let mut needed = Vec::new();
    for (name, files) in crates {
        let tests = tests_among(files);
        for (path, text) in files.iter().filter(|(path, _)| !tests.contains(*path)) {
            let room = format!("{name}/{}", path.split(['/', '.']).next().unwrap_or_default());
            for (line, what) in asked(&Source::of(text)) {
                match allowed.keys().find(|who| *who == name || **who == room) {
                    Some(who) => needed.push(who.as_str()),
                    None => faults.push(format!("{name}/{path}:{line} asks the system: {what}; take a Clock")),
                }
            }
        }
    }
    for (who, why) in allowed {
        if !needed.contains(&who.as_str()) {
            faults.push(format!("`{who}` does not ask the system any more: take its line away"));
        }
        if why.is_empty() {
            faults.push(format!("`{who}` is listed without a reason"));
        }
    }
    faults
}

/// Where a file asks the system, and by what.
fn asked(source: &Source) -> Vec<(usize, String)> {
    let words = source.words();
    let word = |at: usize| words.get(at).map_or("", |(_, word)| word.as_str());
    let mut found = Vec::new();
    for at in 0..words.len() {
        let before = at.checked_sub(1).map_or("", word);
        let of_path = || {
            let (_, names) = PATHS.iter().find(|(begins, _)| *begins == word(at))?;
            let name = (word(at + 1) == "::").then(|| word(at + 2))?;
            names.contains(&name).then(|| format!("{}::{name}", word(at)))
        };
        let of_function = || {
            let is_call = word(at + 1) == "(" && !matches!(before, "." | "::" | "fn");
            (is_call && FUNCTIONS.contains(&word(at))).then(|| format!("{}()", word(at)))
        };
        let of_method = || {
            let is_it = |method: &&&[&str]| (0..).zip(**method).all(|(n, wanted)| word(at + n) == *wanted);
            METHODS.iter().find(is_it).filter(|_| before == ".").map(|_| format!(".{}()", word(at)))
        };
        if let Some(what) = of_path().or_else(of_function).or_else(of_method) {
            found.push((source.line(words.get(at).map_or(0, |(at, _)| *at)), what));
        }
    }
    found
}

#[test]
fn broken_on_purpose() {
    let told = |list: &[(&str, &str)], text: &str| {
        let list = list.iter().map(|(who, why)| ((*who).to_owned(), (*why).to_owned())).collect();
        let files = Files::from([("lib.rs".into(), "mod room;".into()), ("room.rs".into(), text.to_owned())]);
        faults(&list, &BTreeMap::from([("small".to_owned(), files)]))
    };
    for (text, what) in [
        ("fn f() { let a = 1;\n std::time::Instant::now(); }", "Instant::now"),
        ("use std::thread;\nfn f() { thread::sleep(ONE) }", "thread::sleep"),
        ("use std::thread::sleep;\nfn f() { sleep(ONE) }", "sleep()"),
        ("fn f() {\n get_or_insert_with(SystemTime::now) }", "SystemTime::now"),
        ("fn f() {\n began.elapsed() }", ".elapsed()"),
        ("fn f() {\n changed.wait_for(&mut state, ONE) }", ".wait_for()"),
        ("fn f() {\n tokio::time::timeout(ONE, work) }", "time::timeout"),
        ("fn f() {\n std::thread::Builder::new() }", "thread::Builder"),
    ] {
        let wanted = format!("small/room.rs:2 asks the system: {what}; take a Clock");
        assert!(told(&[], text).contains(&wanted), "{text}");
        assert_eq!(told(&[("small/room", "a test")], text), [""; 0]);
        assert_eq!(told(&[("small", "")], text), ["`small` is listed without a reason"]);
    }
    let fine = "fn sleep() {}\nfn f() { clock.sleep(ONE); clock.now(); clock.wait_for(&changed, &mut state, ONE); worker::spawn(); }\n\
                // Instant::now()\n#[cfg(test)]\nmod tests { fn f() { Instant::now(); } }";
    assert_eq!(told(&[], fine), [""; 0]);
    assert_eq!(told(&[("small", "a test")], fine), ["`small` does not ask the system any more: take its line away"]);
}
