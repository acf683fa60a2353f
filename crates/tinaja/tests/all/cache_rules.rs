//! Rules about storing, in a configuration file: apt and pip from mirrors that send no validators, settings that are exchanged,
//! and those that are refused.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use rustix::process::Signal;
use tempfile::TempDir;

use super::apt::{package, update_and_download};
use super::mirrors::{cargo_fetch, crate_package, npm_document, npm_install, npm_package};
use super::tunnels::{PYTHON, WHEEL, wheel};
use crate::support::home::Home;
use crate::support::tinaja::binary;
use tinaja_testkit::client::get;
use tinaja_testkit::origin::{Origin, reply};
use tinaja_testkit::tools::{client, output, run};
use tinaja_testkit::wait::eventually;

const FORWARD: &str = "allow_destination = \"127.0.0.0/8\"";
const PACKAGES: &str = "[[cache_rule]]\nhost = \"127.0.0.1\"\npreset = \"packages\"\n";

/// A server of the files below `root` that says nothing of them: no lifetime, no date and no validator.
fn mirror(root: TempDir) -> Origin {
    Origin::start(move |request, stream| {
        let (path, is_page) = match request.path.strip_suffix('/') {
            Some(dir) => (format!("{dir}/index.html"), true),
            None if request.path == "/tinaja-e2e" => (format!("{}/index.html", request.path), false),
            None => (request.path.clone(), false),
        };
        let fields = if is_page { "Content-Type: text/html\r\n" } else { "" };
        match fs::read(root.path().join(path.trim_start_matches('/'))) {
            Ok(body) => reply(stream, request, 200, fields, &body),
            Err(_) => reply(stream, request, 404, "", b"none"),
        }
    })
}

/// A Debian repository with a pool, as mirrors have it.
fn debian(root: &Path) {
    let architecture = run(Command::new("dpkg").arg("--print-architecture"));
    let architecture = architecture.trim();
    let (pool, dist) = (root.join("pool/main/t"), root.join("dists/stable"));
    let binary = dist.join(format!("main/binary-{architecture}"));
    for dir in [&pool, &binary] {
        fs::create_dir_all(dir).unwrap();
    }
    package(root, &pool);
    let archive = || Command::new("apt-ftparchive");
    fs::write(binary.join("Packages"), run(archive().args(["packages", "pool"]).current_dir(root))).unwrap();
    let option = |name: &str, value: &str| format!("APT::FTPArchive::Release::{name}={value}");
    let mut release = archive();
    for (name, value) in [("Suite", "stable"), ("Components", "main"), ("Architectures", architecture)] {
        release.args(["-o", &option(name, value)]);
    }
    fs::write(dist.join("Release"), run(release.args(["release", "."]).current_dir(&dist))).unwrap();
}

/// A Python index whose files lie elsewhere, as at pypi.org.
fn python(root: &Path) {
    let (project, packages) = (root.join("simple/tinaja-e2e"), root.join("packages/ab"));
    for dir in [&project, &packages] {
        fs::create_dir_all(dir).unwrap();
    }
    wheel(&packages);
    fs::write(project.join("index.html"), format!("<!DOCTYPE html><a href=\"/packages/ab/{WHEEL}\">{WHEEL}</a>"))
        .unwrap();
}

/// pip on a machine of its own. Returns the wheel it saved.
fn pip_download(index: &Origin, home: &Home) -> Vec<u8> {
    let machine = TempDir::new().unwrap();
    let mut pip = client(PYTHON, machine.path());
    pip.env("PIP_CONFIG_FILE", "/dev/null").env("PIP_DISABLE_PIP_VERSION_CHECK", "1");
    pip.args(["-m", "pip", "download", "--no-cache-dir", "--no-deps", "--retries", "0", "--dest", "."]);
    pip.args(["--trusted-host", "127.0.0.1", "--index-url", &index.url("/simple/")]);
    run(pip.args(["--proxy", &format!("http://{}", home.listen), "tinaja-e2e"]));
    fs::read(machine.path().join(WHEEL)).unwrap()
}

/// What the origin is asked for by a first and by a second machine, sorted.
fn asked_twice<T: PartialEq + std::fmt::Debug>(origin: &Origin, fetch: impl Fn() -> T) -> [Vec<String>; 2] {
    let start = origin.count();
    let first = fetch();
    let before = origin.count() - start;
    let second = fetch();
    assert!(first == second, "another file came the second time");
    let paths = origin.paths();
    let (first, second) = paths[start..].split_at(before);
    [first, second].map(|paths| {
        let mut paths = paths.to_vec();
        paths.sort();
        paths
    })
}

fn without(paths: &[String], end: &str) -> Vec<String> {
    paths.iter().filter(|path| !path.ends_with(end)).cloned().collect()
}

#[test]
fn apt_asks_a_mirror_without_validators_for_indexes_alone() {
    for (rules, kept) in [("", false), (PACKAGES, true)] {
        let root = TempDir::new().unwrap();
        debian(root.path());
        let origin = mirror(root);
        let mut home = Home::new();
        home.listener = rules.to_owned();
        let _tinaja = home.start(FORWARD);
        let source = format!("{} stable main", origin.url("/"));
        let proxy = format!("http://{}", home.listen);
        let [first, second] = asked_twice(&origin, || update_and_download(&source, Some(&proxy)));
        assert_eq!(first.iter().filter(|path| path.ends_with(".deb")).count(), 1, "{first:?}");
        let expected = if kept { without(&first, ".deb") } else { first.clone() };
        assert_eq!(second, expected, "the indexes are asked for, and nothing else");
        assert!(second.iter().any(|path| path.ends_with("/Release")), "{second:?}");
    }
}

#[test]
fn pip_asks_an_index_without_validators_for_the_index_alone() {
    for (rules, kept) in [("", false), (PACKAGES, true)] {
        let root = TempDir::new().unwrap();
        python(root.path());
        let origin = mirror(root);
        let mut home = Home::new();
        home.listener = rules.to_owned();
        let _tinaja = home.start(FORWARD);
        let [first, second] = asked_twice(&origin, || pip_download(&origin, &home));
        assert_eq!(first, [format!("/packages/ab/{WHEEL}"), "/simple/tinaja-e2e/".to_owned()]);
        assert_eq!(second, if kept { without(&first, ".whl") } else { first });
    }
}

#[test]
fn npm_and_cargo_ask_registries_without_validators_for_indexes_alone() {
    for (rules, kept) in [("", false), (PACKAGES, true)] {
        let root = TempDir::new().unwrap();
        let (files, work) = (root.path().to_owned(), TempDir::new().unwrap());
        let origin = mirror(root);
        let mut home = Home::new();
        home.listener = rules.to_owned();
        let _tinaja = home.start(FORWARD);
        let proxy = format!("http://{}", home.listen);
        let put = |path: &str, content: &[u8]| {
            let path = files.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        // A name of a package is a directory of its files, too.
        put("tinaja-e2e/-/tinaja-e2e-1.2.3.tgz", &npm_package(work.path()));
        let document = npm_document(&origin.url("/tinaja-e2e/-/tinaja-e2e-1.2.3.tgz"));
        put("tinaja-e2e/index.html", document.as_bytes());
        let [first, second] = asked_twice(&origin, || npm_install(&origin.url("/"), Some(&proxy)));
        assert_eq!(first, ["/tinaja-e2e", "/tinaja-e2e/-/tinaja-e2e-1.2.3.tgz"]);
        assert_eq!(second, if kept { without(&first, ".tgz") } else { first });

        let (archive, line) = crate_package(work.path());
        put("crates/tinaja-e2e/1.0.0/download", &archive);
        put("index/config.json", format!(r#"{{"dl":"{}"}}"#, origin.url("/crates")).as_bytes());
        put("index/ti/na/tinaja-e2e", line.as_bytes());
        let through = |cargo: &mut Command| {
            cargo.env("CARGO_HTTP_PROXY", &proxy);
        };
        let [first, second] = asked_twice(&origin, || cargo_fetch(&origin.url("/index/"), through));
        assert_eq!(first, ["/crates/tinaja-e2e/1.0.0/download", "/index/config.json", "/index/ti/na/tinaja-e2e"]);
        assert_eq!(second, if kept { without(&first, "/download") } else { first });
    }
}

#[test]
fn rules_are_exchanged_while_it_serves() {
    let origin = Origin::fixed("", "body");
    let mut home = Home::new();
    let tinaja = home.start(FORWARD);
    let is_hit = |path: &str| get(home.listen, &origin.url(path)).unwrap().is_hit();
    assert!(!is_hit("/a") && !is_hit("/a"));
    home.listener = "[[cache_rule]]\npath = \"/*\"\nttl = \"1h\"\n".into();
    let _ = home.command(FORWARD);
    tinaja.signal(Signal::HUP);
    eventually("the rule holds", || is_hit("/a"));
    // What was stored by the rule stays what it is, and what comes without it is as before.
    home.listener.clear();
    let _ = home.command(FORWARD);
    let reloaded = run(binary(&home.dir).args(["reload", "--cache"]).arg(home.path("cache")));
    assert!(reloaded.contains("the new settings are in use"), "{reloaded}");
    assert!(is_hit("/a") && !is_hit("/b") && !is_hit("/b"));
    // A rule of no use changes nothing.
    home.listener = "[[cache_rule]]\nttl = \"1h\"\nmax_ttl = \"1m\"\n".into();
    let _ = home.command(FORWARD);
    tinaja.signal(Signal::HUP);
    eventually("it is said", || tinaja.output().contains("ttl is not between min_ttl and max_ttl"));
    assert!(!is_hit("/b"));
}

#[test]
fn rules_that_make_no_sense_are_refused_with_file_and_line() {
    let mut home = Home::new();
    for (rules, line, words) in [
        (
            "[[cache_rule]]\nttl = \"1h\"\n[[cache_rule]]\nhost = \"a\"\nstore = \"never\"\n",
            12,
            "cache rule 1 (line 10)",
        ),
        ("[[cache_rule]]\npreset = \"packages\"\n", 10, "needs host"),
        ("[[cache_rule]]\npath_regex = \"(a{1,500}){1,500}\"\nttl = \"1h\"\n", 10, "too large"),
    ] {
        home.listener = rules.to_owned();
        for check in [true, false] {
            let mut command = home.command(FORWARD);
            let Output { status, stderr, .. } = output(command.args(check.then_some("--check")));
            let said = String::from_utf8(stderr).unwrap();
            let place = format!("{}, line {line}: ", home.path("tinaja.toml").display());
            assert!(!status.success() && said.contains(&place) && said.contains(words), "{rules}: {said}");
        }
    }
    home.listener = PACKAGES.into();
    let Output { status, stdout, .. } = output(home.command(FORWARD).arg("--check"));
    assert!(status.success() && String::from_utf8(stdout).unwrap().contains("stores answers by 1 cache rule,"));
}

/// `tinaja explain` tells what a GET would come to, and the origin hears nothing of it.
#[test]
fn explain_tells_why_and_asks_nobody() {
    let origin = Origin::start(|request, stream| match request.path.as_str() {
        "/varies" => reply(stream, request, 200, "Vary: Accept-Language\r\nCache-Control: max-age=600\r\n", b"body"),
        _ => reply(stream, request, 200, "ETag: \"1\"\r\nContent-Type: text/plain\r\n", b"body"),
    });
    let mut home = Home::new();
    home.listener =
        "[[cache_rule]]\npath = \"/kept*\"\nttl = \"1h\"\n[[cache_rule]]\ntype = \"image/*\"\nttl = \"1h\"\n".into();
    let mut tinaja = home.start(FORWARD);
    let explain = |words: &[&str]| {
        let Output { status, stdout, stderr } =
            output(binary(&home.dir).arg("explain").args(words).arg("--cache").arg(home.path("cache")));
        (status.success(), String::from_utf8([stdout, stderr].concat()).unwrap())
    };
    let says = |words: &[&str], expected: &[&str]| {
        let (done, said) = explain(words);
        assert!(done, "{said}");
        for part in expected {
            assert!(said.contains(part), "{part:?} in {said}");
        }
    };
    let [kept, plain, varies] = ["/kept", "/plain", "/varies"].map(|path| origin.url(path));
    says(
        &[&kept],
        &["cache rule 1 (line 10), or cache rule 2 (line 13), if", "stored    nothing", "a miss: nothing is stored"],
    );
    for url in [&kept, &plain, &varies] {
        get(home.listen, url).unwrap();
    }
    let asked = origin.count();
    let fresh = [
        "forward proxy on 127.0.0.1:",
        "4:http,9:127.0.0.1,",
        "rule      cache rule 1 (line 10)\n",
        "status 200, text/plain, 4 bytes, ",
    ];
    says(&[&kept], &fresh);
    says(&[&kept], &["fresh for 3", "with a validator", "a GET now a hit: it is fresh"]);
    says(&[&kept, "-H", "Cache-Control: no-cache"], &["a validation: the request asks for"]);
    says(&[&plain], &["none fits: RFC 9111 decides", "a validation: it is stale"]);
    says(&[&varies], &["variants  1", "a hit"]);
    says(
        &[&varies, "-H", "Accept-Language: sw"],
        &["variants  1", "a miss: variants are stored, but none for such a request"],
    );
    says(&[&varies, "-H", "Cache-Control: no-store"], &["a miss: the request is not for the cache"]);
    says(&["--json", &kept], &["\"verdict\": \"hit\"", "\"age\": "]);
    says(&["http://192.168.0.1:25/"], &["refused: "]);
    for bad in [vec!["/kept"], vec!["ftp://a/"], vec![&kept, "-H", "x"], vec![&kept, "-H", "Host: b"]] {
        assert!(!explain(&bad).0, "{bad:?}");
    }
    assert_eq!(origin.count(), asked, "the origin was asked");
    assert!(tinaja.terminate().success());
    let (done, said) = explain(&[&kept]);
    assert!(!done && said.contains("no server runs on this cache"), "{said}");
}
