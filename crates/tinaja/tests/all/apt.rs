//! apt through the forward proxy, from a Debian repository made here.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::support::tinaja::Setup;
use tinaja_testkit::nginx::{Logged, Nginx, date_back};
use tinaja_testkit::tools::{client, run};

/// A flat repository of one package, dated 30 days back.
fn repository(root: &Path) {
    package(root, root);
    let archive = |what: &str| run(Command::new("apt-ftparchive").args([what, "."]).current_dir(root));
    fs::write(root.join("Packages"), archive("packages")).unwrap();
    fs::write(root.join("Release"), archive("release")).unwrap();
    date_back(root, 30);
}

/// Makes a package with `payload` in it, in `to`.
pub fn package(root: &Path, to: &Path) {
    let package = root.join("package");
    fs::create_dir_all(package.join("DEBIAN")).unwrap();
    fs::create_dir_all(package.join("usr/share/tinaja-e2e")).unwrap();
    let control = "Package: tinaja-e2e\nVersion: 1.0\nArchitecture: all\nMaintainer: Nobody <nobody@invalid>\n\
                   Description: a package for a test\n";
    fs::write(package.join("DEBIAN/control"), control).unwrap();
    // Not compressible, so that the package is as large as it looks.
    fs::write(package.join("usr/share/tinaja-e2e/payload"), tinaja_testkit::body::body("payload", 300_000)).unwrap();
    run(Command::new("dpkg-deb").args(["--root-owner-group", "--build"]).arg(&package).arg(to));
    fs::remove_dir_all(&package).unwrap();
}

/// A machine that has never run apt: `apt-get update`, then a download. `source` is the repository's URL and what follows it in
/// sources.list. Returns the package as apt saved it.
pub fn update_and_download(source: &str, proxy: Option<&str>) -> Vec<u8> {
    update_and_download_by(source, &format!("Acquire::http::Proxy \"{}\";", proxy.unwrap_or("DIRECT")))
}

/// The same, with more settings of apt's.
pub fn update_and_download_by(source: &str, more: &str) -> Vec<u8> {
    let home = TempDir::new().unwrap();
    for dir in ["state/lists/partial", "cache/archives/partial", "etc"] {
        fs::create_dir_all(home.path().join(dir)).unwrap();
    }
    let path = |name: &str| home.path().join(name).display().to_string();
    fs::write(path("state/status"), "").unwrap();
    fs::write(path("sources.list"), format!("deb [trusted=yes] {source}\n")).unwrap();
    let conf = format!(
        "Dir::State \"{}\"; Dir::State::status \"{}\"; Dir::Cache \"{}\"; Dir::Etc \"{}\";
         Dir::Etc::sourcelist \"{}\"; Dir::Etc::sourceparts \"/dev/null\";
         {more} Acquire::Retries \"0\"; APT::Sandbox::User \"root\";\n",
        path("state"),
        path("state/status"),
        path("cache"),
        path("etc"),
        path("sources.list"),
    );
    fs::write(path("apt.conf"), conf).unwrap();
    let apt = |args: &[&str]| run(client("apt-get", home.path()).env("APT_CONFIG", path("apt.conf")).args(args));
    apt(&["update"]);
    apt(&["download", "tinaja-e2e"]);
    fs::read(path("tinaja-e2e_1.0_all.deb")).unwrap()
}

/// The requests that moved a body of the repository's: an answer of 404 to what apt only tries has a short one too.
fn bodies(log: &[Logged]) -> Vec<Logged> {
    log.iter().filter(|entry| entry.status == 200).cloned().collect()
}

#[test]
fn a_second_machine_is_served_from_the_cache() {
    let nginx = Nginx::start(repository);
    let setup = Setup::forward();
    let proxy = setup.start();
    let url = format!("{} ./", nginx.url("/"));

    let first = update_and_download(&url, Some(&proxy.url()));
    let fetched = bodies(&nginx.log());
    for wanted in ["/./Release", "/./Packages", "/./tinaja-e2e_1.0_all.deb"] {
        assert_eq!(fetched.iter().filter(|entry| entry.target == wanted).count(), 1, "{wanted} in {fetched:?}");
    }

    let before = nginx.log().len();
    let second = update_and_download(&url, Some(&proxy.url()));
    assert_eq!(first, second);
    let later = &nginx.log()[before..];
    assert_eq!(bodies(later), [], "the second run fetched bodies from the origin");
    assert!(!later.iter().any(|entry| entry.target.ends_with(".deb")), "the package was asked for again: {later:?}");
}

#[test]
fn the_repository_made_here_is_a_repository() {
    let nginx = Nginx::start(repository);
    let package = update_and_download(&format!("{} ./", nginx.url("/")), None);
    assert!(package.len() > 300_000);
}
