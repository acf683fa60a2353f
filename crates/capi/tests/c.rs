//! C programs against the library: the example of a WAN accelerator, and every misuse, under sanitizers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// The library as it was built with this test, beside it.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let beside = test.parent().unwrap();
    let path = beside.join("libtinaja_capi.a");
    assert!(path.exists(), "no library at {}", path.display());
    path
}

/// Compile a program with warnings as errors, run it, and say what it printed.
fn run(source: &str, extra: &[&str]) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("program");
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-g", "-O1"])
        .args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all"])
        .arg("-I")
        .arg(root.join("include"))
        .arg(root.join(source))
        .arg(library())
        .args(["-lm", "-lpthread", "-ldl", "-o"])
        .arg(&program)
        .output()
        .expect("cc is missing: scripts/install-test-tools has it");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(compiled.status.success(), "{source} does not compile:\n{}", text(&compiled.stderr));
    let ran = Command::new(&program).arg(dir.path().join("cache")).args(extra).output().unwrap();
    let (said, complained) = (text(&ran.stdout), text(&ran.stderr));
    assert!(ran.status.success(), "{source} {extra:?} ended with {}:\n{said}\n{complained}", ran.status);
    assert!(!complained.contains("Sanitizer") && !complained.contains("runtime error"), "{complained}");
    println!("{source} {extra:?}: {said}");
    said
}

#[test]
fn a_wan_accelerator_stands_on_every_engine() {
    for engine in [
        "hashcache-basic",
        "hashcache-set",
        "hashcache-setmem",
        "hashcache-setmemlru",
        "hashcache-loglru",
        "hashcache-log",
    ] {
        let said = run("examples/chunks.c", &[engine]);
        assert!(said.contains("of 200 chunks are here") && said.contains("3000000 bytes were read"), "{said}");
        // The chunks of a transfer are one group: in a log they lie one behind the other, and are read together.
        let reads = said.split("found with ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
        let reads: u32 = reads.parse().unwrap();
        assert!(reads > 0 && (reads < 100) == engine.starts_with("hashcache-log"), "{engine}: {reads} reads");
    }
}

#[test]
fn every_misuse_is_an_error() {
    assert!(run("tests/misuse.c", &[]).contains("calls answered as they should be"));
}
