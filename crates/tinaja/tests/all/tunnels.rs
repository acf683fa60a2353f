//! pip and npm through CONNECT, to TLS origins made here.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use tinaja_logs::{CacheResult, Record};

use crate::support::tinaja::Setup;
use tinaja_testkit::nginx::{Certificates, Nginx, make_certificates};
use tinaja_testkit::tools::{client, output, run};

pub const WHEEL: &str = "tinaja_e2e-1.0-py3-none-any.whl";

/// Debian's Python: one that an ordinary user has put in front may lack pip.
pub const PYTHON: &str = "/usr/bin/python3";

/// A simple index (PEP 503) with one wheel.
fn python_index(root: &Path) {
    let project = root.join("simple/tinaja-e2e");
    fs::create_dir_all(&project).unwrap();
    wheel(&project);
    fs::write(project.join("index.html"), format!("<!DOCTYPE html><a href=\"{WHEEL}\">{WHEEL}</a>")).unwrap();
}

/// Makes a wheel.
pub fn wheel(dir: &Path) {
    let make = format!(
        "import zipfile
wheel = zipfile.ZipFile('{WHEEL}', 'w')
info = 'tinaja_e2e-1.0.dist-info/'
wheel.writestr('tinaja_e2e.py', 'water = True\\n')
wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\\nName: tinaja-e2e\\nVersion: 1.0\\n')
wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
wheel.writestr(info + 'RECORD', '')
wheel.close()"
    );
    run(Command::new(PYTHON).args(["-c", &make]).current_dir(dir));
}

/// pip on a machine of its own. Returns the wheel it saved.
fn pip_download(index: &Nginx, certificates: &Certificates, proxy: Option<&str>) -> Vec<u8> {
    let home = TempDir::new().unwrap();
    let mut pip = client(PYTHON, home.path());
    pip.env("PIP_CONFIG_FILE", "/dev/null").env("PIP_DISABLE_PIP_VERSION_CHECK", "1");
    pip.args(["-m", "pip", "download", "--no-cache-dir", "--no-deps", "--retries", "0", "--dest", "."]);
    pip.arg("--cert").arg(&certificates.authority).args(["--index-url", &index.url("/simple/")]);
    run(pip.args(proxy.map(|proxy| ["--proxy", proxy]).iter().flatten()).arg("tinaja-e2e"));
    fs::read(home.path().join(WHEEL)).unwrap()
}

/// The one document that `npm view` asks a registry for.
pub fn npm_registry(root: &Path) {
    let version = r#"{"name":"tinaja-e2e","version":"1.2.3","description":"water",
        "dist":{"tarball":"https://127.0.0.1/none.tgz","shasum":"0000000000000000000000000000000000000000"}}"#;
    let document = format!(
        r#"{{"_id":"tinaja-e2e","name":"tinaja-e2e","dist-tags":{{"latest":"1.2.3"}},"versions":{{"1.2.3":{version}}}}}"#
    );
    fs::write(root.join("tinaja-e2e"), document).unwrap();
}

/// npm on a machine of its own. Returns what it says of the package's version and description.
pub fn npm_view(registry: &str, authority: &Path, proxy: Option<&str>) -> String {
    let home = TempDir::new().unwrap();
    let mut npm = client("npm", home.path());
    npm.args(["view", "tinaja-e2e", "version", "description", "--fetch-retries=0", "--no-update-notifier"]);
    npm.arg(format!("--registry={registry}")).arg(format!("--cafile={}", authority.display()));
    npm.arg(format!("--cache={}", home.path().join("cache").display()));
    run(npm.args(proxy.map(|proxy| format!("--https-proxy={proxy}"))))
}

fn allowing(port: u16) -> Setup {
    Setup::forward().flags(&["--allow-connect-port", &port.to_string()])
}

#[test]
fn pip_downloads_through_a_tunnel() {
    let dir = TempDir::new().unwrap();
    let certificates = make_certificates(dir.path());
    let index = Nginx::start_tls(&certificates, python_index);
    let setup = allowing(index.address().port());
    let proxy = setup.start();

    let wheel = pip_download(&index, &certificates, Some(&proxy.url()));
    assert_eq!(wheel, pip_download(&index, &certificates, None), "the same wheel with and without the proxy");
    let fetched = index.log().iter().filter(|entry| entry.target.ends_with(WHEEL) && entry.status == 200).count();
    assert_eq!(fetched, 2, "{:?}", index.log());
    assert_tunnelled(&setup, &index);
}

#[test]
fn npm_views_through_a_tunnel() {
    let dir = TempDir::new().unwrap();
    let certificates = make_certificates(dir.path());
    let registry = Nginx::start_tls(&certificates, npm_registry);
    let setup = allowing(registry.address().port());
    let proxy = setup.start();

    let seen = npm_view(&registry.url("/"), &certificates.authority, Some(&proxy.url()));
    assert!(seen.contains("1.2.3") && seen.contains("water"), "{seen}");
    assert_eq!(
        seen,
        npm_view(&registry.url("/"), &certificates.authority, None),
        "the same with and without the proxy"
    );
    assert_tunnelled(&setup, &registry);
}

#[test]
fn a_tunnel_to_loopback_is_refused_unless_allowed() {
    let dir = TempDir::new().unwrap();
    let certificates = make_certificates(dir.path());
    let index = Nginx::start_tls(&certificates, python_index);
    let port = index.address().port().to_string();
    for (setup, why) in [
        (Setup::bare().flags(&["--disk", "256MiB", "--allow-connect-port", &port]), "the address is not allowed"),
        (Setup::forward(), "the port is not allowed"),
    ] {
        let proxy = setup.start();
        let mut curl = client("curl", dir.path());
        curl.args(["--silent", "--show-error", "--proxy", &proxy.url(), "--noproxy", "", "--max-time", "20"]);
        curl.args(["--output", "/dev/null", "--write-out", "%{http_connect}"])
            .arg("--cacert")
            .arg(&certificates.authority);
        let result = output(curl.arg(index.url("/simple/")));
        assert!(!result.status.success(), "{why}");
        assert_eq!(String::from_utf8_lossy(&result.stdout), "403", "{why}");
    }
    assert_eq!(index.log(), []);
}

/// The access log names a CONNECT to the origin.
fn assert_tunnelled(setup: &Setup, origin: &Nginx) {
    let to = origin.address().to_string();
    let is_tunnel = |record: &Record| record.method == "CONNECT" && record.url == to;
    let log = setup.access_log_once("a tunnel to the origin", |log| log.iter().any(is_tunnel));
    let tunnel = log.iter().find(|record| is_tunnel(record)).unwrap();
    assert_eq!((tunnel.status, &tunnel.result), (200, &CacheResult::Tunnel));
    assert!(tunnel.bytes > 0, "{tunnel:?}");
}

#[test]
fn the_origins_made_here_serve_pip_and_npm() {
    let dir = TempDir::new().unwrap();
    let certificates = make_certificates(dir.path());
    let index = Nginx::start_tls(&certificates, python_index);
    assert!(pip_download(&index, &certificates, None).starts_with(b"PK"));
    let registry = Nginx::start_tls(&certificates, npm_registry);
    assert!(npm_view(&registry.url("/"), &certificates.authority, None).contains("1.2.3"));
}
