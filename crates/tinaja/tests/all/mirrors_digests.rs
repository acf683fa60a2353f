//! Damaged files of sources, whose indexes say what they must be: real clients of package managers get an error, nothing is stored, and the
//! mended file is there for the next one.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use tinaja_testkit::client::get;
use tinaja_testkit::port::free_port;
use tinaja_testkit::tools::{output, run};
use tinaja_testkit::wait::eventually;

use super::apt::update_and_download_by;
use super::mirrors::{
    FORWARD, Lab, cargo, crate_of, npm_document, npm_installing, npm_package, pip_download, put_crate, put_repository,
};
use super::tunnels::{PYTHON, WHEEL, wheel};
use crate::support::tinaja::binary;

/// A digest as Python makes it, by its own words: `sha256(f).hexdigest()`.
fn digest(lab: &Lab, bytes: &[u8], words: &str) -> String {
    let file = lab.home.path("digested");
    fs::write(&file, bytes).unwrap();
    let program = format!(
        "import sys, base64\nfrom hashlib import *\nf = open(sys.argv[1], 'rb').read()\nprint({words}, end='')"
    );
    run(Command::new(PYTHON).args(["-c", &program]).arg(&file))
}

fn damaged(bytes: &[u8]) -> Vec<u8> {
    let mut damaged = bytes.to_vec();
    // As long as it was, and an archive still.
    let middle = bytes.len() / 2;
    damaged[middle] ^= 1;
    damaged
}

/// Runs a client against a damaged file, and then, on machines of their own, twice against the mended one. `fetch` says whether the
/// client had it. `path` is the file's at its host.
fn damaged_then_mended(lab: &mut Lab, kind: &str, path: &str, fetch: impl Fn(&Lab) -> Option<Vec<u8>>) {
    let metrics = SocketAddr::from(([127, 0, 0, 1], free_port()));
    lab.settings = format!("metrics = \"{metrics}\"\n");
    let tinaja = lab.start(kind, "");
    let good = fs::read(lab.files.files.join(path)).unwrap();
    lab.files.put(path, damaged(&good));
    for round in 1..3 {
        let asked = lab.files.count();
        assert_eq!(fetch(lab), None, "{kind}: round {round}");
        assert!(lab.files.count() > asked, "{kind}: it was not stored, and is asked for again");
    }
    let wrong = || {
        let text = get(metrics, "/metrics").unwrap().text();
        let line = text.lines().find(|line| line.starts_with("tinaja_mirror_wrong_files_total ")).map(str::to_owned);
        line.unwrap().rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    eventually("what is wrong is counted", || wrong() >= 2);
    let why = "nothing of it is stored";
    eventually("the log says why", || tinaja.output().contains(why));
    lab.files.put(path, &good);
    let before = wrong();
    assert!(fetch(lab).is_some(), "{kind}: it is mended");
    let asked = lab.files.count();
    assert!(fetch(lab).is_some(), "{kind}: it is kept");
    assert_eq!((lab.files.count(), wrong()), (asked, before), "{kind}");
}

#[test]
fn pip_by_pages_and_by_json() {
    for is_json in [false, true] {
        let mut lab = Lab::new();
        let packages = lab.files.files.join("packages/ab");
        fs::create_dir_all(&packages).unwrap();
        wheel(&packages);
        let (path, bytes) = (format!("packages/ab/{WHEEL}"), fs::read(packages.join(WHEEL)).unwrap());
        let (url, sum) = (lab.files.url(&format!("/{path}")), digest(&lab, &bytes, "sha256(f).hexdigest()"));
        let page = format!("<!DOCTYPE html><a href=\"{url}#sha256={sum}\">{WHEEL}</a>");
        lab.index.put("simple/tinaja-e2e/index.html", page);
        if is_json {
            let file = format!(r#"{{"filename":"{WHEEL}","url":"{url}","hashes":{{"sha256":"{sum}"}}}}"#);
            let page = format!(r#"{{"meta":{{"api-version":"1.0"}},"name":"tinaja-e2e","files":[{file}]}}"#);
            lab.index.put("simple/tinaja-e2e/index.json", page);
        }
        damaged_then_mended(&mut lab, "pip", &path, |lab| {
            let machine = TempDir::new().unwrap();
            let succeeded = output(&mut pip_download(lab, &machine)).status.success();
            succeeded.then(|| fs::read(machine.path().join(WHEEL)).unwrap())
        });
    }
}

#[test]
fn npm() {
    let mut lab = Lab::new();
    let (path, bytes) = ("a/tinaja-e2e-1.2.3.tgz", npm_package(lab.home.dir.path()));
    lab.files.put(path, &bytes);
    let sum = digest(&lab, &bytes, "base64.b64encode(sha512(f).digest()).decode()");
    let tarball = lab.files.url(&format!("/{path}"));
    let document = npm_document(&tarball).replace(
        &format!("\"tarball\":\"{tarball}\""),
        &format!("\"tarball\":\"{tarball}\",\"integrity\":\"sha512-{sum}\""),
    );
    assert!(document.contains("integrity"));
    lab.index.put("tinaja-e2e", document);
    damaged_then_mended(&mut lab, "npm", path, |lab| {
        let machine = TempDir::new().unwrap();
        let succeeded = output(&mut npm_installing(&lab.url(""), None, &machine)).status.success();
        succeeded.then(|| fs::read(machine.path().join("node_modules/tinaja-e2e/index.js")).unwrap())
    });
}

#[test]
fn cargo_by_its_sparse_index() {
    let mut lab = Lab::new();
    put_crate(&lab.index, &lab.files, lab.home.dir.path(), &lab.files.url("/crates"));
    damaged_then_mended(&mut lab, "cargo", "crates/tinaja-e2e/1.0.0/download", |lab| {
        let machine = TempDir::new().unwrap();
        let mut fetch = cargo(&lab.url(""), &machine);
        fetch.env("CARGO_NET_RETRY", "0");
        if output(&mut fetch).status.success() { crate_of(&machine) } else { None }
    });
}

/// Settings that have nothing to do with mirrors were enough to forget it all, and a damaged file was stored.
#[test]
fn what_was_learned_outlives_a_reload() {
    let mut lab = Lab::new();
    let sum = digest(&lab, b"right", "sha256(f).hexdigest()");
    lab.index.put(
        "simple/x/index.html",
        format!("<!DOCTYPE html><a href=\"{}#sha256={sum}\">x</a>", lab.index.url("/x.whl")),
    );
    lab.index.put("x.whl", "wrong");
    let _tinaja = lab.start("pip", "");
    assert_eq!(get(lab.home.listen, "/m/simple/x/").unwrap().status, 200);
    let listen = lab.home.listen;
    let file = || get(listen, "/m/x.whl").ok().filter(|answer| answer.body.len() == 5);
    let reloaded = |lab: &mut Lab, more: &str| {
        lab.home.top.push_str(more);
        let _ = lab.home.command(FORWARD);
        run(binary(&lab.home.dir).args(["reload", "--cache"]).arg(lab.home.path("cache")))
    };
    assert!(file().is_none());
    lab.home.listener.push_str("\n[[cache_rule]]\npath = \"/none/*\"\nttl = \"1h\"\n");
    reloaded(&mut lab, "");
    assert!(file().is_none(), "it is known still");
    // Mirrors that are others begin anew, and nobody has asked for an index.
    reloaded(&mut lab, "rewrite_limit = \"1MiB\"\n");
    assert_eq!(file().unwrap().body, b"wrong");
}

/// apt's own check is not what stops it: the package comes in no piece too long, and never whole.
#[test]
fn apt_by_its_packages() {
    for is_xz in [false, true] {
        let mut lab = Lab::new();
        put_repository(&lab.index);
        if is_xz {
            only_by_xz(&lab.index.files);
        }
        let tinaja = lab.start("apt", "");
        let path = "pool/main/t/tinaja-e2e_1.0_all.deb";
        let good = fs::read(lab.index.files.join(path)).unwrap();
        lab.index.put(path, damaged(&good));
        let source = format!("{} ./", lab.url(""));
        let fetch = || update_and_download_by(&source, "Acquire::http::Proxy \"DIRECT\";");
        for _ in 0..2 {
            assert!(std::panic::catch_unwind(fetch).is_err(), "the package is damaged");
        }
        let asked_for = |name: &str| lab.index.asked_after(0).iter().any(|(path, _)| path.ends_with(name));
        assert_eq!([asked_for("Packages.xz"), asked_for("Packages")], [is_xz, !is_xz]);
        assert!(get(lab.home.listen, &format!("/m/./{path}")).map_or(true, |answer| answer.body.len() < good.len()));
        eventually("the log says why", || tinaja.output().contains("nothing of it is stored"));
        lab.index.put(path, &good);
        assert!(fetch() == good);
        let asked = lab.index.asked_after(0).len();
        assert!(fetch() == good);
        assert!(!lab.index.asked_after(asked).iter().any(|(path, _)| path.ends_with(".deb")), "it is kept");
    }
}

/// As Debian has it: the archive's `Release` names `Packages` too, and only `Packages.xz` is there.
fn only_by_xz(archive: &Path) {
    run(Command::new("xz").arg("--keep").arg(archive.join("Packages")));
    let release = run(Command::new("apt-ftparchive").args(["release", "."]).current_dir(archive));
    fs::write(archive.join("Release"), release).unwrap();
    fs::remove_file(archive.join("Packages")).unwrap();
}
