//! Mirrors: real package managers that trust no certificate, by plain HTTP through the cache, which speaks TLS with the source. Each
//! runs twice on machines of its own; the second time the source is only asked whether indexes still hold.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use tempfile::TempDir;

use super::apt::{package, update_and_download};
use super::tunnels::{PYTHON, WHEEL, wheel};
use crate::support::home::Home;
use tinaja_testkit::client::{Client, get, get_with};
use tinaja_testkit::nginx::{Certificates, Nginx, make_certificates};
use tinaja_testkit::origin::{Origin, Request, reply};
use tinaja_testkit::process::Process;
use tinaja_testkit::tools::{client, output, run};
use tinaja_testkit::wait::eventually;

pub const FORWARD: &str = "allow_destination = \"127.0.0.0/8\"";

/// A source by TLS: files of a directory, with validators, as static servers have them.
pub struct Source {
    pub files: PathBuf,
    tls: Nginx,
    plain: Origin,
}

impl Source {
    pub fn new(dir: &Path, certificates: &Certificates, name: &str) -> Source {
        let files = dir.join(name);
        fs::create_dir_all(&files).unwrap();
        let root = files.clone();
        let plain = Origin::start(move |request, stream| file(&root, request, stream));
        Source { tls: Nginx::start_before(certificates, plain.address), plain, files }
    }

    pub fn url(&self, path: &str) -> String {
        self.tls.url(path)
    }

    pub fn port(&self) -> u16 {
        self.tls.address().port()
    }

    pub fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.files.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// What was asked of it after so many requests: path and bytes of the body that it sent.
    pub fn asked_after(&self, before: usize) -> Vec<(String, u64)> {
        self.tls.log().into_iter().skip(before).map(|entry| (entry.target, entry.body_bytes)).collect()
    }

    pub fn count(&self) -> usize {
        self.tls.log().len()
    }

    /// Of these, those that got a body. What is not there is asked for again, and its page has a few bytes.
    pub fn bodies_after(&self, before: usize) -> Vec<(String, u64)> {
        self.asked_after(before).into_iter().filter(|(_, bytes)| *bytes > "none".len() as u64).collect()
    }

    pub fn bytes_after(&self, before: usize) -> u64 {
        self.asked_after(before).iter().map(|(_, bytes)| bytes).sum()
    }
}

fn file(root: &Path, request: &Request, stream: &mut TcpStream) -> bool {
    let path = request.path.split('?').next().unwrap().trim_start_matches('/').replace("%2f", "/");
    let path = if path.is_empty() || path.ends_with('/') { format!("{path}index.html") } else { path };
    // The index as JSON, for those who take it.
    let json = request.field("accept").is_some_and(|accept| accept.contains("vnd.pypi.simple.v1+json"));
    let json = Some(root.join(path.replace("index.html", "index.json"))).filter(|path| json && path.is_file());
    let Ok(body) = fs::read(json.clone().unwrap_or_else(|| root.join(&path))) else {
        return reply(stream, request, 404, "", b"none");
    };
    let media_type = match path.rsplit('.').next().unwrap() {
        _ if json.is_some() => "application/vnd.pypi.simple.v1+json",
        "html" => "text/html",
        "npm" | "json" => "application/json",
        _ => "application/octet-stream",
    };
    let media_type = if path.starts_with("tinaja-e2e") { "application/json" } else { media_type };
    let sum = body.iter().fold(7_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    let tag = format!("\"{sum:x}\"");
    let fields = format!("Content-Type: {media_type}\r\nETag: {tag}\r\nVary: Accept\r\nConnection: close\r\n");
    // An old date, from which a lifetime is guessed where no rule says otherwise.
    let dated = if path.contains(".git/") { "Last-Modified: Tue, 14 Nov 2023 22:13:20 GMT\r\n" } else { "" };
    let fields = format!("{dated}{fields}");
    let same = request.field("if-none-match").is_some_and(|known| known.contains(&tag));
    reply(stream, request, if same { 304 } else { 200 }, &fields, if same { b"" } else { &body });
    false
}

/// A home, and two sources whose certificates the proxy trusts, and nobody else.
pub struct Lab {
    pub home: Home,
    pub index: Source,
    pub files: Source,
    pub authority: PathBuf,
    /// Settings of the proxy besides its mirror, a line each.
    pub settings: String,
}

impl Lab {
    pub fn new() -> Lab {
        let home = Home::new();
        let certificates = make_certificates(home.dir.path());
        let index = Source::new(home.dir.path(), &certificates, "index");
        let files = Source::new(home.dir.path(), &certificates, "files");
        Lab { home, index, files, authority: certificates.authority, settings: String::new() }
    }

    /// Serves a mirror of the index below `/m/`.
    pub fn start(&mut self, kind: &str, more: &str) -> Process {
        let (index, files, authority) = (self.index.url("/"), self.files.url(""), self.authority.display());
        let settings = &self.settings;
        self.home.top = format!(
            "{settings}[[mirror]]\npath = \"/m/\"\norigin = \"{index}\"\nhosts = [\"{files}\"]\nkind = \"{kind}\"\n\
             upstream = {{ authority = \"{authority}\" }}\n{more}\n"
        );
        self.home.start(FORWARD)
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}/m/{path}", self.home.listen)
    }

    /// Runs a client twice. The second time no byte of a body comes from either source.
    fn twice(&self, fetch: impl Fn() -> Vec<u8>) {
        let first = fetch();
        assert!(!first.is_empty());
        let (index, files) = (self.index.count(), self.files.count());
        assert!(index > 0, "the source was asked");
        let second = fetch();
        assert!(first == second, "another file came the second time");
        assert_eq!(self.index.bytes_after(index), 0, "{:?}", self.index.asked_after(index));
        assert_eq!(self.files.asked_after(files), [], "files are kept");
    }
}

/// A crate, packed below this directory, and its line in an index.
pub fn crate_package(dir: &Path) -> (Vec<u8>, String) {
    let root = dir.join("tinaja-e2e-1.0.0");
    fs::create_dir_all(root.join("src")).unwrap();
    let manifest = "[package]\nname = \"tinaja-e2e\"\nversion = \"1.0.0\"\nedition = \"2021\"\n";
    fs::write(root.join("Cargo.toml"), manifest).unwrap();
    fs::write(root.join("src/lib.rs"), "pub const WATER: bool = true;\n").unwrap();
    let archive = dir.join("tinaja-e2e-1.0.0.crate");
    run(Command::new("tar").args(["-czf"]).arg(&archive).arg("tinaja-e2e-1.0.0").current_dir(dir));
    let sum = run(Command::new("sha256sum").arg(&archive));
    let line = r#"{"name":"tinaja-e2e","vers":"1.0.0","deps":[],"cksum":"SUM","features":{},"yanked":false}"#;
    let line = format!("{}\n", line.replace("SUM", sum.split(' ').next().unwrap()));
    (fs::read(&archive).unwrap(), line)
}

/// A registry of one crate: its index, and what it names, which is at `dl`.
pub fn put_crate(index: &Source, files: &Source, work: &Path, dl: &str) {
    let (archive, line) = crate_package(work);
    files.put("crates/tinaja-e2e/1.0.0/download", archive);
    index.put("config.json", format!(r#"{{"dl":"{dl}"}}"#));
    index.put("ti/na/tinaja-e2e", line);
}

/// cargo on a machine of its own, which has that registry in the place of its own. The crate, as it has stored it.
pub fn cargo_fetch(registry: &str, more: impl Fn(&mut Command)) -> Vec<u8> {
    let machine = TempDir::new().unwrap();
    let mut fetch = cargo(registry, &machine);
    more(&mut fetch);
    run(&mut fetch);
    crate_of(&machine).expect("the crate is there")
}

/// The crate that cargo has stored on this machine, if it has.
pub fn crate_of(machine: &TempDir) -> Option<Vec<u8>> {
    let cached = output(Command::new("find").arg(machine.path()).args(["-name", "*.crate"])).stdout;
    fs::read(String::from_utf8(cached).unwrap().trim()).ok()
}

/// cargo on this machine.
pub fn cargo(registry: &str, machine: &TempDir) -> Command {
    let cargo_home = machine.path().join("cargo");
    fs::create_dir_all(machine.path().join("src")).unwrap();
    fs::create_dir_all(&cargo_home).unwrap();
    fs::write(machine.path().join("src/main.rs"), "fn main() {}\n").unwrap();
    let manifest =
        "[package]\nname = \"user\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\ntinaja-e2e = \"1\"\n";
    fs::write(machine.path().join("Cargo.toml"), manifest).unwrap();
    let config =
        format!("[source.crates-io]\nreplace-with = \"mirror\"\n[source.mirror]\nregistry = \"sparse+{registry}\"\n");
    fs::write(cargo_home.join("config.toml"), config).unwrap();
    // The program itself: rustup's stands before it and would look for its own home.
    let cargo = Path::new(env!("CARGO"));
    let mut fetch = client(env!("CARGO"), machine.path());
    fetch.env("CARGO_HOME", &cargo_home).env("RUSTC", cargo.with_file_name("rustc"));
    fetch.args(["fetch", "--quiet"]);
    fetch
}

const MODULE: &str = "example.org/tinaja";
const MODULE_VERSION: &str = "v1.0.0";

/// A module, as a proxy of Go's has it.
pub fn put_module(index: &Source, work: &Path) {
    let (module, version, at) = (MODULE, MODULE_VERSION, |end: &str| format!("{MODULE}/@v/{end}"));
    index.put(&at("list"), format!("{version}\n"));
    index.put(&at("v1.0.0.info"), r#"{"Version":"v1.0.0","Time":"2026-01-01T00:00:00Z"}"#);
    index.put(&at("v1.0.0.mod"), format!("module {module}\n\ngo 1.18\n"));
    let make = format!(
        "import zipfile
zip = zipfile.ZipFile('v1.0.0.zip', 'w')
zip.writestr('{module}@{version}/go.mod', 'module {module}\\n\\ngo 1.18\\n')
zip.writestr('{module}@{version}/water.go', 'package tinaja\\n')
zip.close()"
    );
    run(Command::new(PYTHON).args(["-c", &make]).current_dir(work));
    index.put(&at("v1.0.0.zip"), fs::read(work.join("v1.0.0.zip")).unwrap());
}

/// Go on a machine of its own, with that proxy of Go's. The module, as it has stored it.
pub fn go_download(proxy: &str, more: impl Fn(&mut Command)) -> Vec<u8> {
    let machine = TempDir::new().unwrap();
    let mut go = client("go", machine.path());
    go.env("GOPROXY", proxy).env("GOSUMDB", "off").env("GOTOOLCHAIN", "local");
    go.env("GOPATH", machine.path().join("go")).env("GOFLAGS", "-modcacherw");
    more(&mut go);
    run(go.args(["mod", "download", "-json", &format!("{MODULE}@{MODULE_VERSION}")]));
    fs::read(machine.path().join("go/pkg/mod/cache/download").join(format!("{MODULE}/@v/{MODULE_VERSION}.zip")))
        .unwrap()
}

/// A flat repository with one package in its pool.
pub fn put_repository(index: &Source) {
    let root = index.files.clone();
    let pool = root.join("pool/main/t");
    fs::create_dir_all(&pool).unwrap();
    package(&root, &pool);
    let archive = |what: &str| run(Command::new("apt-ftparchive").args([what, "."]).current_dir(&root));
    fs::write(root.join("Packages"), archive("packages")).unwrap();
    fs::write(root.join("Release"), archive("release")).unwrap();
}

fn pip(lab: &Lab) -> Vec<u8> {
    let machine = TempDir::new().unwrap();
    run(&mut pip_download(lab, &machine));
    fs::read(machine.path().join(WHEEL)).unwrap()
}

/// pip on this machine.
pub fn pip_download(lab: &Lab, machine: &TempDir) -> Command {
    let mut pip = client(PYTHON, machine.path());
    pip.env("PIP_CONFIG_FILE", "/dev/null").env("PIP_DISABLE_PIP_VERSION_CHECK", "1");
    pip.args(["-m", "pip", "download", "--no-cache-dir", "--no-deps", "--retries", "0", "--dest", "."]);
    pip.args(["--trusted-host", "127.0.0.1", "--index-url", &lab.url("simple/")]);
    pip.arg("tinaja-e2e");
    pip
}

#[test]
fn pip_from_an_index_in_html_and_in_json() {
    for is_json in [false, true] {
        let mut lab = Lab::new();
        let packages = lab.files.files.join("packages/ab");
        fs::create_dir_all(&packages).unwrap();
        wheel(&packages);
        let url = lab.files.url(&format!("/packages/ab/{WHEEL}"));
        lab.index.put("simple/tinaja-e2e/index.html", format!("<!DOCTYPE html><a href=\"{url}\">{WHEEL}</a>"));
        if is_json {
            let file = format!(r#"{{"filename":"{WHEEL}","url":"{url}","hashes":{{}}}}"#);
            let page = format!(r#"{{"meta":{{"api-version":"1.0"}},"name":"tinaja-e2e","files":[{file}]}}"#);
            lab.index.put("simple/tinaja-e2e/index.json", page);
        }
        let _tinaja = lab.start("pip", "");
        lab.twice(|| pip(&lab));
        assert_eq!(lab.files.count(), 1);
    }
}

fn npm(machine: &Path) -> Command {
    let mut npm = client("npm", machine);
    npm.args(["--no-update-notifier", "--no-audit", "--no-fund", "--fetch-retries=0"]);
    npm
}

/// A package for npm, packed below this directory.
pub fn npm_package(dir: &Path) -> Vec<u8> {
    let source = dir.join("package");
    fs::create_dir(&source).unwrap();
    fs::write(source.join("package.json"), r#"{"name":"tinaja-e2e","version":"1.2.3","description":"water"}"#).unwrap();
    fs::write(source.join("index.js"), "module.exports = 'water'\n").unwrap();
    run(npm(dir).args(["pack", "--pack-destination"]).arg(dir).arg(&source));
    fs::read(dir.join("tinaja-e2e-1.2.3.tgz")).unwrap()
}

/// What a registry says of it.
pub fn npm_document(tarball: &str) -> String {
    let version = format!(r#"{{"name":"tinaja-e2e","version":"1.2.3","dist":{{"tarball":"{tarball}"}}}}"#);
    format!(
        r#"{{"_id":"tinaja-e2e","name":"tinaja-e2e","dist-tags":{{"latest":"1.2.3"}},"versions":{{"1.2.3":{version}}}}}"#
    )
}

/// npm on a machine of its own. Returns what it installed.
pub fn npm_install(registry: &str, proxy: Option<&str>) -> Vec<u8> {
    let machine = TempDir::new().unwrap();
    run(&mut npm_installing(registry, proxy, &machine));
    fs::read(machine.path().join("node_modules/tinaja-e2e/index.js")).unwrap()
}

/// npm on this machine.
pub fn npm_installing(registry: &str, proxy: Option<&str>, machine: &TempDir) -> Command {
    let mut install = npm(machine.path());
    install.arg(format!("--cache={}", machine.path().join("cache").display()));
    install.args(proxy.map(|proxy| format!("--proxy={proxy}")));
    install.arg(format!("--registry={registry}")).args(["install", "tinaja-e2e"]);
    install
}

#[test]
fn npm_installs_from_a_registry_whose_tarballs_lie_elsewhere() {
    let mut lab = Lab::new();
    lab.files.put("a/tinaja-e2e-1.2.3.tgz", npm_package(lab.home.dir.path()));
    let tarball = lab.files.url("/a/tinaja-e2e-1.2.3.tgz").replace('/', "\\/");
    lab.index.put("tinaja-e2e", npm_document(&tarball));
    let _tinaja = lab.start("npm", "");
    lab.twice(|| npm_install(&lab.url(""), None));
    assert_eq!(lab.files.count(), 1);
}

#[test]
fn cargo_fetches_from_a_sparse_index() {
    let mut lab = Lab::new();
    put_crate(&lab.index, &lab.files, lab.home.dir.path(), &lab.files.url("/crates"));
    let _tinaja = lab.start("cargo", "");
    lab.twice(|| cargo_fetch(&lab.url(""), |_| ()));
    assert_eq!(lab.files.count(), 1);
}

#[test]
fn go_downloads_a_module() {
    if output(Command::new("sh").args(["-c", "command -v go"])).stdout.is_empty() {
        eprintln!("skipped: there is no go here");
        return;
    }
    let mut lab = Lab::new();
    put_module(&lab.index, lab.home.dir.path());
    let _tinaja = lab.start("go", "");
    lab.twice(|| go_download(lab.url("").trim_end_matches('/'), |_| ()));
}

#[test]
fn apt_updates_and_downloads() {
    let mut lab = Lab::new();
    put_repository(&lab.index);
    let _tinaja = lab.start("apt", "");
    let asked = || lab.index.asked_after(0).into_iter().filter(|(path, _)| path.ends_with(".deb")).count();
    let source = format!("{} ./", lab.url(""));
    let first = update_and_download(&source, None);
    let before = lab.index.count();
    assert_eq!(first, update_and_download(&source, None));
    assert_eq!((asked(), lab.index.bodies_after(before)), (1, vec![]));
}

#[test]
fn one_object_whichever_way_it_is_asked_for() {
    let mut lab = Lab::new();
    lab.files.put("a-1.0.tar.gz", "file");
    let _tinaja = lab.start("pip", "");
    let path = format!("/m/~/https-{}/127.0.0.1/a-1.0.tar.gz", lab.files.tls.address().port());
    assert_eq!(get(lab.home.listen, &path).unwrap().text(), "file");
    // A mirror that is told whom to trust has names of its own: here the forward proxy does not trust the source at all.
    assert_eq!(get(lab.home.listen, &lab.files.url("/a-1.0.tar.gz")).unwrap().status, 502);
    assert!(get(lab.home.listen, &path).unwrap().is_hit());
    assert_eq!(lab.files.count(), 1);
}

#[test]
fn conditions_and_parts_are_those_of_the_rewritten_form() {
    let mut lab = Lab::new();
    lab.index.put("simple/a/index.html", format!("<a href=\"{}\">a</a>", lab.files.url("/a.whl")));
    lab.index.put("simple/a/a.whl", "0123456789");
    let process = lab.start("pip", "");
    let page = || get(lab.home.listen, "/m/simple/a/").unwrap();
    let first = page();
    let tag = first.header("etag").unwrap().to_owned();
    assert!(tag.starts_with("W/\"") && first.header("content-length").is_none(), "{first:?}");
    assert!(first.text().contains(&format!("http://{}/m/~/https-", lab.home.listen)), "{}", first.text());
    let with = |path: &str, field: &str| get_with(lab.home.listen, path, &format!("{field}\r\n")).unwrap();
    let same = with("/m/simple/a/", &format!("If-None-Match: {tag}"));
    assert_eq!((same.status, same.header("etag")), (304, Some(tag.as_str())));
    let original = lab.index.plain.requests().last().unwrap().field("if-none-match").unwrap();
    assert_ne!(original, tag, "the source is asked about its own form");
    assert_eq!(with("/m/simple/a/", &format!("If-None-Match: {original}")).status, 200, "that is another form");
    let part = with("/m/simple/a/", "Range: bytes=0-3");
    assert_eq!((part.status, part.text()), (200, page().text()), "no part of a rewritten form is given out");
    // What is not rewritten has its own tag and its parts.
    let whole = get(lab.home.listen, "/m/simple/a/a.whl").unwrap();
    let file = with("/m/simple/a/a.whl", "Range: bytes=2-4");
    assert_eq!((file.status, file.text()), (206, "234".to_owned()));
    let tag = whole.header("etag").unwrap();
    assert_eq!(with("/m/simple/a/a.whl", &format!("If-None-Match: {tag}")).status, 304);
    // Another public_url is another form, though the source's is the same.
    let was = first.header("etag").unwrap().to_owned();
    drop(process);
    lab.home.top = format!("public_url = \"http://cache.example:80\"\n{}", lab.home.top);
    let _tinaja = lab.home.start(FORWARD);
    let mut client = Client::connect(lab.home.listen);
    client.send(format!("GET /m/simple/a/ HTTP/1.1\r\nHost: evil.example\r\nIf-None-Match: {was}\r\n\r\n"));
    let other = client.read("GET").unwrap();
    assert_eq!(other.status, 200);
    assert!(other.text().contains("http://cache.example/m/~/") && !other.text().contains("evil"), "{}", other.text());
}

/// What operators ask by the URL that clients use, and by the source's.
#[test]
fn explained_purged_and_exchanged_while_it_serves() {
    let mut lab = Lab::new();
    lab.index.put("a-1.0.zip", "file");
    let tinaja = lab.start("pip", "");
    let run_on = |action: &str, url: &str| {
        let mut command = crate::support::tinaja::binary(&lab.home.dir);
        run(command.arg(action).arg(url).arg("--cache").arg(lab.home.path("cache")))
    };
    let is_hit = || get(lab.home.listen, "/m/a-1.0.zip").unwrap().is_hit();
    for url in [lab.url("a-1.0.zip"), lab.index.url("/a-1.0.zip")] {
        assert!(!is_hit() && is_hit(), "{url}");
        run_on("purge", &url);
    }
    assert!(!is_hit() && is_hit());
    let said = run_on("explain", &lab.url("a-1.0.zip"));
    assert!(said.contains("mirror on") && said.contains("a hit: it is fresh"), "{said}");
    assert!(said.contains("a rule for this kind of mirror"), "{said}");
    let text = fs::read_to_string(lab.home.path("tinaja.toml")).unwrap();
    fs::write(lab.home.path("tinaja.toml"), text.replace("path = \"/m/\"", "path = \"/n/\"")).unwrap();
    tinaja.signal(Signal::HUP);
    eventually("the mirror has moved", || get(lab.home.listen, "/n/a-1.0.zip").unwrap().is_hit());
    assert_eq!(get(lab.home.listen, "/m/a-1.0.zip").unwrap().status, 400, "a forward proxy has no pages");
}

#[test]
fn flags_alone_serve_mirrors_and_print_each_clients_line() {
    let lab = Lab::new();
    lab.index.put("simple/a/index.html", "page");
    let mut command = crate::support::tinaja::binary(&lab.home.dir);
    command.args(["serve", "--disk", "64MiB", "--listen", &lab.home.listen.to_string()]);
    command.arg("--cache").arg(lab.home.path("cache")).env("SSL_CERT_FILE", &lab.authority);
    command.args(["--mirror", &format!("pip={}", lab.index.url("/simple/"))]);
    command.args([
        "--mirror",
        "npm=https://registry.invalid/,files.invalid",
        "--mirror",
        "cargo=https://index.invalid",
    ]);
    let mut process = Process::start("tinaja", &mut command, &lab.home.path("output"));
    process.wait_until_listening(lab.home.listen);
    let url = format!("http://{}", lab.home.listen);
    for line in [
        format!("pip config set global.index-url {url}/pip/simple/"),
        format!("npm config set registry {url}/npm/"),
        format!("sparse+{url}/cargo/"),
    ] {
        // It listens before it says what it serves.
        eventually(&line, || process.output().contains(&line));
    }
    assert_eq!(get(lab.home.listen, "/pip/simple/a/").unwrap().text(), "page");
}
