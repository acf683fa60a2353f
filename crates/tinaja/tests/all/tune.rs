//! `tinaja tune`, and a new cache that is cut as suits its disk.

use std::fs;
use std::path::Path;
use std::process::Output;

use tempfile::TempDir;

use crate::support::tinaja::{Setup, Tinaja, binary};
use tinaja_testkit::body::body;
use tinaja_testkit::origin::Origin;
use tinaja_testkit::tools::output;

fn tune(home: &TempDir, dir: &Path, flags: &[&str]) -> Output {
    output(binary(home).arg("tune").arg(dir).args(["--seconds", "1"]).args(flags))
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn has_object(proxy: &Tinaja, origin: &Origin) {
    let response = proxy.get(&origin.url("/2000/x")).unwrap();
    assert!(response.status == 200 && response.body == body("/2000/x", 2000));
}

#[test]
fn both_tables_the_choice_and_how_to_use_it_are_printed() {
    let (home, dir) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let text = said(&tune(&home, dir.path(), &[]));
    for words in [
        "Table 6",
        "Table 5",
        "CoDeeN",
        "74.8",
        "Chosen:",
        "bins of",
        "sets of",
        "8 bits of hash",
        "--hash-bits 8",
        "tinaja serve --engine",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
    assert!(fs::read_dir(dir.path()).unwrap().next().is_none(), "something was left behind");

    // Of a log: each object once, whatever it is called.
    let log = dir.path().join("log.csv");
    let line = |n: u64| format!("{n},object{},{},client\n", n % 10, if n % 10 < 9 { 1000 } else { 60_000 });
    fs::write(&log, (0..500).map(line).collect::<String>()).unwrap();
    let text = said(&tune(&home, dir.path(), &["--trace", log.to_str().unwrap()]));
    for words in [
        "10 objects requested in",
        "         4 KiB            90.0 |                     -\n",
        "         8 KiB            90.0 |                  74.8\n",
        "bins of 4 KiB",
        "--bin-size 4KiB",
        "--object-size 7412B",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
    let text = said(&tune(&home, dir.path(), &["--false-reads", "0.5"]));
    assert!(text.contains("bits of hash per object: 0.") && !text.contains("--hash-bits 8"), "{text}");
    let missing = tune(&home, dir.path(), &["--trace", "/no/such/log"]);
    let complaint = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert!(missing.status.code() == Some(1) && complaint.contains("/no/such/log"), "{complaint}");
    // What the paper does not say is called assumed, also where it is a reason.
    let text = said(&tune(&home, dir.path(), &[]));
    assert!(text.contains("50.0 assumed |                     -"), "{text}");
    assert_eq!(text.contains("50.0 %"), text.contains("50.0 %, an assumed share"), "{text}");
}

/// Found where `tune /nonexistent` and `tune /etc/passwd` ended well, with all that the paper's disks lead to.
#[test]
fn a_wrong_directory_is_an_error_that_says_what_to_do() {
    let (home, dir) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (there, file) = (dir.path().display().to_string(), dir.path().join("file"));
    fs::write(&file, "of another program").unwrap();
    for (wrong, says) in [
        (dir.path().join("not/there"), format!("mkdir -p {there}/not/there), or name {there} if")),
        (file.join("below"), format!("mkdir -p {there}/file/below), or name {there} if")),
        (file.clone(), format!("{there}/file is not a directory: name a directory on the disk to measure")),
        (Path::new("not-here").into(), "or name . if".into()),
        // Where there is no room for a file.
        (Path::new("/proc").into(), "there are 0 bytes free in /proc".into()),
    ] {
        let output = tune(&home, &wrong, &[]);
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{wrong:?}: {complaint}");
        assert!(complaint.contains(&says) && output.stdout.is_empty(), "{wrong:?}: {says} in {complaint}");
    }
    assert!(!dir.path().join("not").exists() && fs::read_to_string(&file).unwrap() == "of another program");
}

#[test]
fn a_new_cache_is_cut_as_suits_the_disk_unless_flags_say_otherwise() {
    let origin = Origin::of_patterns();
    for (flags, measured) in [
        (&["--engine", "hashcache-set"][..], true),
        (&["--engine", "hashcache-basic"][..], true),
        (&["--engine", "hashcache-set", "--bin-size", "16KiB", "--ways", "2"][..], false),
        (&["--engine", "hashcache-log"][..], false),
    ] {
        let setup = Setup::forward().flags(flags);
        let mut proxy = setup.start();
        has_object(&proxy, &origin);
        assert_eq!(proxy.process.terminate().code(), Some(0));
        let log = setup.output();
        assert_eq!(
            (log.contains("sizes of the new cache were chosen for"), log.contains("bins of")),
            (measured, measured),
            "{flags:?}: {log}"
        );
        let files: Vec<_> = fs::read_dir(setup.cache_dir()).unwrap().map(|file| file.unwrap().file_name()).collect();
        assert!(!files.iter().any(|name| name.to_string_lossy().contains("tune")), "{files:?}");
        // The second start measures nothing, and finds what is there.
        let mut proxy = setup.start();
        has_object(&proxy, &origin);
        assert_eq!(proxy.process.terminate().code(), Some(0));
        assert_eq!(
            setup.output().matches("sizes of the new cache were chosen for").count(),
            usize::from(measured),
            "{flags:?}"
        );
        let inspected: serde_json::Value = serde_json::from_slice(&setup.inspect().stdout).unwrap();
        let cut = (inspected["bin_bytes"].as_u64().unwrap(), inspected["ways"].as_u64().unwrap());
        match flags {
            [_, "hashcache-log"] => assert_eq!(cut, (0, 0)),
            [_, "hashcache-basic"] => assert!(cut.0.is_power_of_two() && cut.1 == 1, "{cut:?}"),
            [_, _] => assert!(cut.0.is_power_of_two() && [4, 8].contains(&cut.1), "{cut:?}"),
            _ => assert_eq!(cut, (16 << 10, 2)),
        }
        if measured {
            let text = said(&tune(&TempDir::new().unwrap(), setup.cache_dir(), &[]));
            assert!(
                text.contains("the objects in this cache") && text.contains("`tinaja resize` changes them"),
                "{text}"
            );
        }
        let other = setup.flags(&["--bin-size", "64KiB"]).run();
        let complaint = String::from_utf8_lossy(&other.stderr).into_owned();
        assert_eq!(other.status.code(), if flags.len() > 2 { Some(2) } else { Some(1) }, "{complaint}");
        let says = ["bins of", "keeps no bins", "--bin-size"];
        assert!(says.iter().any(|says| complaint.contains(says)), "{complaint}");
    }
    assert_eq!(origin.paths().len(), 4, "each cache kept its object");
}
