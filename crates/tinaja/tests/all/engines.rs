//! `serve --engine NAME` runs each engine, and a cache keeps the one it was made with.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tinaja_store::engines;

use crate::support::tinaja::Setup;
use tinaja_testkit::body::body;
use tinaja_testkit::client::Client;
use tinaja_testkit::origin::{Origin, reply};

#[test]
fn every_engine_serves_and_is_kept() {
    let all = engines::built_in();
    for engine in all.iter() {
        let (origin, dir) = (Origin::of_patterns(), TempDir::new().unwrap());
        let setup = |flags: &[&str]| Setup::forward().cache(&dir.path().join("cache")).flags(flags);
        for flags in [&["--engine", engine.name][..], &[]] {
            // Its output goes with it.
            let setup = setup(flags);
            let mut proxy = setup.start();
            for path in ["/3000/a", "/20000/b", "/900000/c"] {
                let response = proxy.get(&origin.url(path)).unwrap_or_else(|error| panic!("{engine}: {path}: {error}"));
                let bytes = path.split('/').nth(1).unwrap().parse().unwrap();
                assert!(response.status == 200 && response.body == body(path, bytes), "{engine}: {path}");
            }
            assert_eq!(proxy.process.terminate().code(), Some(0), "{engine}");
        }
        assert_eq!(origin.paths().len(), 3, "{engine}: the others were hits");
        let inspected = setup(&[]).inspect();
        let figures: serde_json::Value = serde_json::from_slice(&inspected.stdout).unwrap();
        assert_eq!(figures["engine"], engine.name);

        let other = all.iter().find(|other| *other != engine).unwrap();
        let refused = setup(&["--engine", other.name]).run();
        let says = String::from_utf8_lossy(&refused.stderr).into_owned();
        let expected = format!("the engine {engine}, not {other}: leave the setting out");
        assert!(!refused.status.success() && says.contains(&expected), "{says}");
    }
}

/// The directories beneath one that have files in them.
fn directories(dir: &Path) -> BTreeSet<PathBuf> {
    let paths: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    let (dirs, files): (Vec<_>, Vec<_>) = paths.into_iter().partition(|path| path.is_dir());
    let own = (!files.is_empty()).then(|| dir.to_owned());
    dirs.iter().flat_map(|dir| directories(dir)).chain(own).collect()
}

/// With cern an object lies where its URL says, and stays there when it was validated.
#[test]
fn a_tree_by_url_has_a_directory_for_each_part() {
    let origin = Origin::start(|request, stream| match request.field("if-none-match") {
        Some(_) => stream.write_all(b"HTTP/1.1 304 Not Modified\r\n\r\n").is_ok(),
        None => reply(stream, request, 200, "Cache-Control: max-age=600\r\nETag: \"1\"\r\n", b"an object"),
    });
    let dir = TempDir::new().unwrap();
    let cache = dir.path().join("cache");
    let mut proxy = Setup::forward().cache(&cache).flags(&["--engine", "cern"]).start();
    for path in ["/pages/1", "/pages/2?x=/y", "/"] {
        assert_eq!(proxy.get(&origin.url(path)).unwrap().status, 200, "{path}");
    }
    let mut client = Client::connect(proxy.address());
    let refreshed = client.request("GET", &origin.url("/pages/1"), "Cache-Control: no-cache\r\n");
    assert!(refreshed.status == 200 && refreshed.cache_status().contains("fwd-status=304"));
    assert!(proxy.get(&origin.url("/pages/1")).unwrap().cache_status().contains("hit"));
    assert_eq!(proxy.process.terminate().code(), Some(0));
    let host = cache.join("objects/http").join(format!("127.0.0.1%3A{}", origin.address.port()));
    assert_eq!(directories(&cache.join("objects")), BTreeSet::from([host.clone(), host.join("pages")]));
    let names: BTreeSet<_> = fs::read_dir(host.join("pages"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .map(|name| name.rsplit_once(',').map(|(name, _)| name.to_owned()).unwrap())
        .collect();
    assert_eq!(names, BTreeSet::from(["", "1", "2%3Fx%3D%2Fy"].map(str::to_owned)));
}

/// Objects of one host lie in one directory with squidl, whatever page they belong to; by number each lies in its own. One that
/// was validated stays there, though whoever writes its new head does not say whence it comes.
#[test]
fn a_tree_by_host_has_a_directory_for_each_host() {
    for (engine, expected) in [("squidl", 2), ("squidl-k", 2), ("squid", 20), ("squid2", 1)] {
        let origin = Origin::start(|request, stream| match request.field("if-none-match") {
            Some(_) => stream.write_all(b"HTTP/1.1 304 Not Modified\r\n\r\n").is_ok(),
            None => reply(stream, request, 200, "Cache-Control: max-age=600\r\nETag: \"1\"\r\n", b"an object"),
        });
        let dir = TempDir::new().unwrap();
        let cache = dir.path().join("cache");
        let mut proxy = Setup::forward().cache(&cache).flags(&["--engine", engine]).start();
        for n in 0..10 {
            let url = origin.url(&format!("/{n}"));
            for url in [&url, &url.replace("127.0.0.1", "localhost")] {
                let got = proxy.get(url).unwrap_or_else(|error| panic!("{engine}: {url}: {error}"));
                assert_eq!(got.status, 200, "{engine}: {url}");
            }
        }
        let mut client = Client::connect(proxy.address());
        let refreshed = client.request("GET", &origin.url("/0"), "Cache-Control: no-cache\r\n");
        assert!(refreshed.status == 200 && refreshed.cache_status().contains("fwd-status=304"), "{engine}");
        assert_eq!(proxy.process.terminate().code(), Some(0), "{engine}");
        assert_eq!(directories(&cache.join("objects")).len(), expected, "{engine}");
    }
}
