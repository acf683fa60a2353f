//! `tinaja lab`: experiments are listed, run and shown, and what cannot be is refused with what to do.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, missing_docs)]

use std::process::{Command, Output};

fn lab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tinaja")).arg("lab").args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn alone_it_lists_the_experiments() {
    let list = said(&lab(&[]));
    assert!(list.contains("hashcache-table3") && list.contains("HashCache, Figure 8"), "{list}");
}

#[test]
fn a_report_is_a_table_or_json_or_a_page_with_a_picture() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let text = said(&lab(&["hashcache-index", "--quick", "--seed", "77", "--plot", &path("a.svg")]));
    assert!(text.contains("hashcache-setmem") && text.contains("quick, seed 77") && text.contains("Traffic Server"));
    assert!(std::fs::read_to_string(path("a.svg")).unwrap().contains("2 GB of memory"));

    let json = said(&lab(&["hashcache-index", "--quick", "--json", "--docs", &path("docs")]));
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(report["name"], "hashcache-index");
    assert!(report["tables"][0]["rows"][6][1].as_f64().unwrap() > 47.0, "a number is a number");
    let page = std::fs::read_to_string(path("docs/hashcache-index.md")).unwrap();
    assert!(page.contains("![hashcache-index](hashcache-index.svg)") && page.contains("| hashcache-setmem"));
    assert!(std::fs::read_to_string(path("docs/README.md")).unwrap().contains("(hashcache-index.md)"));
}

#[test]
fn what_cannot_be_done_is_refused() {
    for (arguments, why) in [
        (&["no-such"][..], "there is no experiment \"no-such\"; `tinaja lab` lists them"),
        (&["hashcache-index", "--quick", "--plot", "a.txt"], "its name must end in .svg or .png"),
        (&["all", "--plot", "a.svg"], "with all, say --docs DIR"),
    ] {
        let output = lab(arguments);
        let says = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{says}");
        assert!(says.contains(why), "{says}");
    }
    assert_eq!(lab(&["--json"]).status.code(), Some(2), "of which experiment?");
}
