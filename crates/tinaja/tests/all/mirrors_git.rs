//! git through a mirror, by the ready file: clones by dumb HTTP and by a bundle are kept, and a smart fetch passes.

use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::mirrors::Lab;
use super::mirrors_ready::start_ready;
use crate::support::home::Home;
use tinaja_testkit::body::body;
use tinaja_testkit::client::get;
use tinaja_testkit::origin::{Origin, Request};
use tinaja_testkit::port::free_port;
use tinaja_testkit::tools::{client, env_of, run};

/// git, with nothing of the machine's settings.
fn git(dir: &Path) -> Command {
    let mut git = client("git", dir);
    git.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_TERMINAL_PROMPT", "0");
    git.args(["-c", "user.name=Nobody", "-c", "user.email=nobody@invalid", "-c", "init.defaultBranch=main"]);
    git
}

/// Two commits in a repository that is served from this directory: one in a pack, one in files of its own, and a bundle of the first.
fn repository(home: &Home, root: &Path) {
    let (work, bare) = (home.path("work"), root.join("water.git"));
    fs::create_dir_all(&work).unwrap();
    fs::create_dir_all(root).unwrap();
    run(git(root).args(["init", "-q", "--bare", "water.git"]));
    run(git(&work).args(["init", "-q"]));
    let commit = |name: &str, length: usize| {
        fs::write(work.join(name), body(name, length)).unwrap();
        run(git(&work).args(["add", name]));
        run(git(&work).args(["commit", "-q", "-m", name]));
        run(git(&work).args(["push", "-q"]).arg(&bare).arg("main"));
    };
    commit("first", 300_000);
    run(git(&bare).args(["repack", "-adq"]));
    run(git(&bare).args(["bundle", "create", "-q", "../water.bundle", "main"]));
    commit("second", 50_000);
    run(git(&bare).args(["update-server-info"]));
}

/// A machine of its own clones, and has all of it: both files and the name of the last commit.
fn clone(url: &str, more: &[&str]) -> (String, Vec<u8>) {
    let machine = TempDir::new().unwrap();
    run(git(machine.path()).args(["clone", "-q"]).args(more).args([url, "water"]));
    let water = machine.path().join("water");
    run(git(&water).args(["fsck", "--full", "--strict"]));
    let files = ["first", "second"].map(|name| fs::read(water.join(name)).unwrap());
    (run(git(&water).args(["rev-parse", "HEAD"])), files.concat())
}

#[test]
fn a_second_clone_by_dumb_http_costs_the_source_no_body() {
    let lab = Lab::new();
    repository(&lab.home, &lab.index.files);
    let _tinaja = lab.start_ready("git", &lab.index.url("/"));
    let url = format!("http://{}/git/water.git", lab.home.listen);
    let first = clone(&url, &[]);
    let before = lab.index.count();
    let (packs, objects): (Vec<_>, Vec<_>) = lab
        .index
        .bodies_after(0)
        .into_iter()
        .map(|(path, _)| path)
        .filter(|path| path.contains("/objects/") && !path.contains("/info/"))
        .partition(|path| path.contains("/pack/"));
    // A pack and its index; a commit, a tree and a file.
    assert_eq!((packs.len(), objects.len()), (2, 3), "{packs:?} {objects:?}");
    assert!(first == clone(&url, &[]));
    assert_eq!(lab.index.bodies_after(before), [], "validations alone");
    let again = lab.index.asked_after(before);
    let found: Vec<_> = packs.iter().chain(&objects).collect();
    assert!(!again.iter().any(|(path, _)| found.contains(&path)), "objects never change: {again:?}");
    // What is new is noticed.
    let work = lab.home.path("work");
    run(git(&work).args(["commit", "-q", "--allow-empty", "-m", "third"]));
    run(git(&work).args(["push", "-q"]).arg(lab.index.files.join("water.git")).arg("main"));
    run(git(&lab.index.files.join("water.git")).args(["update-server-info"]));
    let third = clone(&url, &[]);
    assert!(third.0 != first.0 && third.1 == first.1);
}

#[test]
fn a_bundle_is_kept_and_what_is_not_in_it_comes_behind() {
    let lab = Lab::new();
    repository(&lab.home, &lab.index.files);
    let _tinaja = lab.start_ready("git", &lab.index.url("/"));
    let at = |path: &str| format!("http://{}/git/{path}", lab.home.listen);
    let bundle = format!("--bundle-uri={}", at("water.bundle"));
    let get = || clone(&at("water.git"), &[&bundle]);
    let first = get();
    let asked = lab.index.bodies_after(0);
    assert!(asked.iter().any(|(path, bytes)| path == "/water.bundle" && *bytes > 300_000), "{asked:?}");
    assert!(!asked.iter().any(|(path, _)| path.ends_with(".pack")), "its objects were there: {asked:?}");
    let before = lab.index.count();
    assert!(first == get());
    assert_eq!(lab.index.bodies_after(before), [], "validations alone");
}

/// git's own server, as a CGI program.
fn smart(root: PathBuf) -> Origin {
    Origin::start(move |request, stream| serve(&root, request, stream))
}

fn serve(root: &Path, request: &Request, stream: &mut TcpStream) -> bool {
    let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
    let mut backend = Command::new("git");
    env_of(&mut backend, root);
    backend.env("GIT_PROJECT_ROOT", root).env("GIT_HTTP_EXPORT_ALL", "1").env("GIT_CONFIG_NOSYSTEM", "1");
    backend.env("PATH_INFO", path).env("QUERY_STRING", query).env("REQUEST_METHOD", &request.method);
    for (variable, field) in [
        ("CONTENT_TYPE", "content-type"),
        ("HTTP_CONTENT_ENCODING", "content-encoding"),
        ("HTTP_GIT_PROTOCOL", "git-protocol"),
    ] {
        if let Some(value) = request.field(field) {
            backend.env(variable, value);
        }
    }
    backend.env("CONTENT_LENGTH", request.body.len().to_string());
    backend.args(["http-backend"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut running = backend.spawn().unwrap();
    running.stdin.take().unwrap().write_all(&request.body).unwrap();
    let said = running.wait_with_output().unwrap().stdout;
    let end = said.windows(4).position(|end| end == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(said[..end].to_vec()).unwrap();
    let status = head.lines().find_map(|line| line.strip_prefix("Status: ")).unwrap_or("200 OK");
    let fields: Vec<_> = head.lines().filter(|line| !line.starts_with("Status: ")).collect();
    let body = &said[end + 4..];
    let head = format!(
        "HTTP/1.1 {status}\r\n{}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        fields.join("\r\n"),
        body.len()
    );
    let _ = stream.write_all(&[head.as_bytes(), body].concat());
    false
}

/// Each smart clone asks the source for all of it, and gets it.
#[test]
fn a_smart_fetch_passes_each_time() {
    let home = Home::new();
    let root = home.path("repositories");
    repository(&home, &root);
    let origin = smart(root);
    let named = "origin = \"https://git.example.org/\"";
    let plain = format!("origin = \"{}\"", origin.url("/"));
    let metrics = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let with_metrics = format!("metrics = \"{metrics}\"\ndisk = ");
    let _tinaja = start_ready(&home, "git", &[(named, &plain), ("disk = ", &with_metrics)]);
    let url = format!("http://{}/git/water.git", home.listen);
    let posts = || origin.requests().into_iter().filter(|request| request.method == "POST").count();
    let first = clone(&url, &[]);
    let after_one = posts();
    assert!(after_one > 0, "{:?}", origin.paths());
    assert!(first == clone(&url, &[]));
    assert_eq!(posts(), 2 * after_one, "none is answered from the cache");
    let counted = get(metrics, "/metrics").unwrap().text();
    assert!(counted.contains(&format!("\ntinaja_git_fetches_total {}\n", posts())), "{counted}");
    assert!(!origin.paths().iter().any(|path| path.contains("/objects/")), "it is no dumb one: {:?}", origin.paths());
}
