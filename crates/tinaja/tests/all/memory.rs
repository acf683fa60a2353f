//! One setting, `--memory`: it chooses the engine of a new cache and how large its index is, and hot objects have the rest.

use std::process::Output;

use tinaja_testkit::origin::Origin;
use tinaja_testkit::tools::output;

use crate::support::tinaja::Setup;

/// A disk of 256 MiB has room for 32,768 objects of 8 KiB.
fn with(memory: &str) -> Setup {
    Setup::bare().flags(&["--disk", "256MiB", "--memory", memory, "--allow-destination", "127.0.0.0/8"])
}

fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat()
}

fn inspected(setup: &Setup) -> serde_json::Value {
    let output = setup.inspect();
    assert!(output.status.success(), "{}", text(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_engine_of_a_new_cache_is_what_the_memory_has_room_for() {
    let origin = Origin::of_patterns();
    for (memory, engine) in [
        ("8MiB", "generational"),
        ("300KiB", "generational"),
        ("220KiB", "generational, whose index is on the disk"),
        ("20KiB", "generational, whose index is on the disk"),
        ("0", "hashcache-set"),
    ] {
        let setup = with(memory);
        let mut proxy = setup.start();
        let url = origin.url("/5000/a");
        assert!(!proxy.get(&url).unwrap().is_hit() && proxy.get(&url).unwrap().is_hit(), "{memory}");
        let figures = inspected(&setup);
        let name = engine.split(',').next().unwrap();
        assert_eq!(figures["engine"].as_str(), Some(name), "{memory}");
        assert!(setup.output().contains(&format!("by {name}\n")), "{memory}: {}", setup.output());
        assert!(setup.output().contains(&format!("the engine of the new cache is {engine}")), "{}", setup.output());
        // It is used on as it was made, and finds what it held.
        proxy.process.terminate();
        let mut proxy = setup.start();
        assert!(proxy.get(&url).unwrap().is_hit(), "{memory}");
        assert_eq!(proxy.process.terminate().code(), Some(0));
    }
}

/// With generational the index and the hot objects have one budget; what is set later finds the cache as it is.
#[test]
fn index_and_hot_objects_share_the_memory() {
    let origin = Origin::of_patterns();
    let setup = with("1MiB");
    let number = |figures: &serde_json::Value, name: &str| figures[name].as_u64().unwrap();
    let url = origin.url("/5000/a");
    let mut proxy = setup.start();
    proxy.get(&url).unwrap();
    let figures = inspected(&setup);
    let index = number(&figures, "index_bytes");
    // Four entries for each object, of 47 bits and a little.
    assert!((735 << 10..755 << 10).contains(&index), "{index}");
    assert_eq!(number(&figures, "hot_budget_bytes"), (1 << 20) - index);
    assert_eq!(proxy.process.terminate().code(), Some(0));

    // Less memory than the index takes: from then on the index lies on the disk, and what is stored is served.
    let less = with("100KiB").cache(setup.cache_dir());
    let mut proxy = less.start();
    assert!(proxy.get(&url).unwrap().is_hit());
    let figures = inspected(&less);
    let (index, hot) = (number(&figures, "index_bytes"), number(&figures, "hot_budget_bytes"));
    assert_eq!((figures["engine"].as_str(), index + hot), (Some("generational"), 100 << 10));
    assert!((75 << 10..90 << 10).contains(&index), "three quarters, and what it cannot do without: {index}");
    assert_eq!(proxy.process.terminate().code(), Some(0));

    // Made anew for 300 KiB, it has an index of three quarters of that, and what it held.
    let directory = setup.cache_dir().to_str().unwrap();
    std::fs::write(setup.cache_dir().join("../tinaja.toml"), format!("cache = {directory:?}\nmemory = \"300KiB\"\n"))
        .unwrap();
    let file = setup.cache_dir().join("../tinaja.toml");
    let remade = output(setup.binary().args(["resize", "--config"]).arg(file));
    assert!(remade.status.success() && text(&remade).contains("copied 1 of 1 objects"), "{}", text(&remade));
    let less = with("300KiB").cache(setup.cache_dir());
    let mut proxy = less.start();
    assert!(proxy.get(&url).unwrap().is_hit());
    let figures = inspected(&less);
    assert!((200 << 10..=225 << 10).contains(&number(&figures, "index_bytes")), "{figures}");
    assert_eq!(proxy.process.terminate().code(), Some(0));
    let table = text(&output(less.binary().arg("inspect").arg("--cache").arg(setup.cache_dir())));
    assert!(table.contains("4 would keep small objects longer: set memory to 1MiB"), "{table}");
}

#[test]
fn more_memory_than_there_is_is_refused_and_a_check_says_what_would_be_chosen() {
    let said = |memory: &str, flags: &[&str]| text(&with(memory).flags(flags).run());
    let refusal = said("1000TiB", &[]);
    assert!(refusal.contains("lower one of them, or set memory_yields = true"), "{refusal}");
    let checked = said("100KiB", &["--check"]);
    assert!(
        checked.contains("uses 100.0 KiB of memory: the engine is generational, whose index is on the disk"),
        "{checked}"
    );
    let checked = said("8MiB", &["--check", "--engine", "hashcache-log"]);
    assert!(checked.contains("uses 8.0 MiB of memory: for hot objects, beside the index"), "{checked}");
}

/// It is set when jemalloc is built, by a file that another way to build may miss: freed memory would go back after ten seconds then.
#[cfg(target_arch = "x86_64")]
#[test]
fn the_heap_was_built_to_give_memory_back_soon() {
    let program = std::fs::read(env!("CARGO_BIN_EXE_tinaja")).unwrap();
    let setting = b"dirty_decay_ms:1000";
    assert!(program.windows(setting.len()).any(|bytes| bytes == setting));
}
