//! Small crates that are wrong on purpose, and what is said of them.

use crate::check::{Files, faults};
use crate::plan::plans;

/// What is said of a crate of these files, whose rooms are `top`, `middle` and `bottom`, with these lines more in its block.
fn told(more: &str, files: &[(&str, &str)]) -> Vec<String> {
    let page = format!("Rooms:\n\n```rooms small\ntop: one\nmiddle: two\nbottom: three\n{more}```\n");
    let root = ("lib.rs", "mod top;\nmod middle;\npub mod bottom;\n");
    let rest = ["top.rs", "middle/mod.rs", "bottom.rs"].map(|path| (path, ""));
    let all = [root].into_iter().chain(rest).chain(files.iter().copied());
    let files: Files = all.map(|(path, text)| (path.to_owned(), text.to_owned())).collect();
    plans(&page).iter().flat_map(|plan| faults(plan, &files)).collect()
}

#[test]
fn arrows_down_are_fine() {
    let top = "use crate::middle::{self, parts::One};\nfn f() -> crate::bottom::Two {}";
    let part = "use super::super::bottom::Two;\nuse super::One;\nmod inner { use super::super::One; }";
    assert_eq!(told("", &[("top.rs", top), ("middle/parts.rs", part)]), [""; 0]);
}

#[test]
fn arrows_up_are_told_with_their_line() {
    let up = "small: `bottom` uses `middle`, which stands above it, at bottom.rs:2";
    for text in [
        "\nuse crate::middle::One;",
        "\nuse crate::{middle::One};",
        "\nfn f() { crate::middle::one() }",
        "\nuse super::middle;",
        "\nmod inner { use super::super::middle::One; }",
        "#[cfg(test)]\nuse crate::top; use crate::{self as all}; /* and */ pub(crate) use crate::middle::One;",
        "#[cfg(any(test, feature = \"crate\"))]\npub use crate::middle;",
    ] {
        assert!(told("", &[("bottom.rs", text)]).iter().any(|told| told == up), "{text}");
    }
    let deep = told("", &[("middle/a/b.rs", "use super::super::super::top::One;")]);
    assert_eq!(deep, ["small: `middle` uses `top`, which stands above it, at middle/a/b.rs:1"]);
    let root = told("", &[("bottom.rs", "use crate::One;")]);
    assert_eq!(root, ["small: `bottom` uses `root`, which stands above it, at bottom.rs:1"]);
}

/// The files of a room that has a block of its own.
#[test]
fn arrows_inside_a_room() {
    let told = |bottom: &str| {
        let page = "```rooms small/middle\nfirst: one\nsecond: two\n```\n";
        let top = ("middle/first.rs", "use super::second::Two;\nuse crate::second::Other;\nuse super::super::first;");
        let files = [("middle/mod.rs", "mod first;\nmod second;\nuse first::One;"), top, ("middle/second.rs", bottom)];
        let files: Files = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        plans(page).iter().flat_map(|plan| faults(plan, &files)).collect::<Vec<_>>()
    };
    assert_eq!(told("use crate::first; use super::super::first; mod inner { use super::One; }"), [""; 0]);
    let circle = "; and so there is a circle: second -> first -> second";
    let up = format!("small/middle: `second` uses `first`, which stands above it, at second.rs:1{circle}");
    for text in [
        "use super::first::One;",
        "use crate::middle::first;",
        "use crate::{bottom::{One, Two}, middle::first::One};",
        "use super::super::middle::{first::One};",
        "mod inner { use super::super::{first}; }",
    ] {
        assert_eq!(told(text), [&*up], "{text}");
    }
    let root = "small/middle: `second` uses `root`, which stands above it, at second.rs:1";
    for text in ["use super::One;", "use crate::middle;", "use crate::{middle as whole, bottom};"] {
        assert_eq!(told(text), [root], "{text}");
    }
}

#[test]
fn words_and_tests_are_no_arrows() {
    let text = r##"
//! See [`crate::top`].
/* crate::top /* and */ crate::top */
const A: &str = "crate::top \" crate::top";
const B: &[u8] = br#"crate::top " "#;
const C: (char, &'static str, char) = ('"', "crate::top", '\'');
macro_rules! outside { () => { $crate::top::One } }
#[cfg(test)]
mod tests { use crate::top::One; }
#[cfg(test)]
#[path = "of_bottom.rs"]
mod more;
#[cfg(test)]
mod others;
"##;
    let test = "use crate::top::One;";
    let files =
        [("bottom.rs", text), ("of_bottom.rs", test), ("bottom/others.rs", test), ("bottom/others/deep.rs", test)];
    assert_eq!(told("", &files), [""; 0]);
}

#[test]
fn circles_are_told_with_their_way() {
    let told = told(
        "",
        &[("top.rs", "use crate::middle;"), ("middle/mod.rs", "use crate::bottom;"), ("bottom.rs", "use crate::top;")],
    );
    let way = "; and so there is a circle: bottom -> top -> middle -> bottom";
    assert_eq!(told, [format!("small: `bottom` uses `top`, which stands above it, at bottom.rs:1{way}")]);
}

#[test]
fn rooms_and_the_list_are_the_same() {
    assert_eq!(told("cellar: four\n", &[]), ["small: there is no room `cellar`, which ARCHITECTURE.md lists"]);
    let files = [("lib.rs", "mod top;\nmod middle;\nmod bottom;\n#[cfg(unix)]\nmod attic;\n#[cfg(test)]\nmod tests;")];
    assert_eq!(told("", &files), ["small: ARCHITECTURE.md does not list the room `attic`"]);
    assert_eq!(told("a room\n", &[]), ["small: this line names no room: a room"]);
    assert_eq!(told("bottom: again\n", &[]), ["small: ARCHITECTURE.md lists the room `bottom` twice"]);
}
