//! The header that C programs include is made from the functions as they are.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::path::Path;

/// A header that lags behind makes C programs call what is not there. `TINAJA_HEADER=write` makes it anew.
#[test]
fn the_header_is_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let mut made = Vec::new();
    cbindgen::generate_with_config(root, config).unwrap().write(&mut made);
    let (path, made) = (root.join("include/tinaja.h"), String::from_utf8(made).unwrap());
    if std::env::var_os("TINAJA_HEADER").is_some_and(|what| what == "write") {
        std::fs::write(&path, &made).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == made,
        "include/tinaja.h is not current: run this test with TINAJA_HEADER=write, and look at what changed"
    );
    for name in ["tinaja_open", "tinaja_close", "tinaja_locate", "tinaja_verify", "tinaja_strerror", "TINAJA_PANIC"] {
        assert!(committed.contains(name), "{name} is missing");
    }
}
