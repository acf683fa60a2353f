//! cargo, Go and apt through interception, each twice on a machine of its own: the second costs the origin validations alone.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::getuid;
use tempfile::TempDir;
use tinaja_testkit::nginx::make_certificates_for;
use tinaja_testkit::process::Process;
use tinaja_testkit::tools::{client, output};

use crate::apt::update_and_download_by;
use crate::intercept::{Home, cache};
use crate::mirrors::{Source, cargo_fetch, go_download, put_crate, put_module, put_repository};

/// Two origins that have one name, and a proxy that intercepts it.
struct Lab {
    host: &'static str,
    _dir: TempDir,
    index: Source,
    files: Source,
    home: Home,
}

impl Lab {
    fn new(host: &'static str) -> Lab {
        let dir = TempDir::new().unwrap();
        let certificates = make_certificates_for(dir.path(), &format!("DNS:{host}"));
        let [index, files] = ["index", "files"].map(|name| Source::new(dir.path(), &certificates, name));
        let home = Home::new(&certificates.authority, &[index.port(), files.port()]);
        Lab { host, _dir: dir, index, files, home }
    }

    fn rules(&self) -> String {
        format!("[[cache_rule]]\nhost = \"{}\"\npreset = \"packages\"\n{}", self.host, cache(self.host))
    }

    fn url(&self, source: &Source, path: &str) -> String {
        format!("https://{}:{}{path}", self.host, source.port())
    }

    fn proxy(&self) -> String {
        format!("http://{}", self.home.listen)
    }

    /// Twice, and the second time no byte of a body: what is not there is asked for again, and its page has a few.
    fn twice(&self, fetch: impl Fn() -> Vec<u8>) {
        let first = fetch();
        assert!(!first.is_empty());
        let (index, files, tunnels) = (self.index.count(), self.files.count(), self.home.tunnels("intercepted"));
        assert!(index > 0 && tunnels > 0, "the source was asked, in tunnels that are looked into");
        assert!(first == fetch(), "another file came the second time");
        assert_eq!((self.index.bodies_after(index), self.files.bodies_after(files)), (vec![], vec![]));
        assert!(self.home.tunnels("intercepted") > tunnels);
    }
}

#[test]
fn cargo_fetches_a_crate_once_for_all() {
    let lab = Lab::new("localhost");
    let work = TempDir::new().unwrap();
    put_crate(&lab.index, &lab.files, work.path(), &lab.url(&lab.files, "/crates"));
    let _tinaja = lab.home.start(&lab.rules());
    let through = |cargo: &mut Command| {
        cargo.env("CARGO_HTTP_PROXY", lab.proxy()).env("CARGO_HTTP_CAINFO", lab.home.ca());
    };
    lab.twice(|| cargo_fetch(&lab.url(&lab.index, "/"), through));
    assert_eq!(lab.files.bodies_after(0).len(), 1);
}

#[test]
fn apt_updates_and_downloads_once_for_all() {
    let lab = Lab::new("localhost");
    put_repository(&lab.index);
    let _tinaja = lab.home.start(&lab.rules());
    let through =
        format!("Acquire::https::Proxy \"{}\"; Acquire::https::CAInfo \"{}\";", lab.proxy(), lab.home.ca().display());
    lab.twice(|| update_and_download_by(&format!("{} ./", lab.url(&lab.index, "/")), &through));
    let packages = lab.index.bodies_after(0).into_iter().filter(|(path, _)| path.ends_with(".deb")).count();
    assert_eq!(packages, 1);
}

/// Go asks no proxy for what is on its own machine, by name or by address. So the origin has another name, which only the proxy
/// knows, from a file of its own in the place of the machine's.
#[test]
fn go_downloads_a_module_once_for_all() {
    if output(Command::new("sh").args(["-c", "command -v go"])).stdout.is_empty() {
        eprintln!("skipped: there is no go here");
        return;
    }
    if !getuid().is_root() {
        eprintln!("skipped: a name of its own takes root");
        return;
    }
    let lab = Lab::new("modules.test");
    let work = TempDir::new().unwrap();
    put_module(&lab.index, work.path());
    let hosts = lab.home.path("hosts");
    fs::write(&hosts, "127.0.0.1 localhost modules.test\n").unwrap();
    let _tinaja = knowing(&lab, hosts);
    let through = |go: &mut Command| {
        go.env("HTTPS_PROXY", lab.proxy()).env("SSL_CERT_FILE", lab.home.ca());
    };
    lab.twice(|| go_download(&lab.url(&lab.index, ""), through));
}

/// The proxy, with this file as its list of hosts.
fn knowing(lab: &Lab, hosts: PathBuf) -> Process {
    let plain = lab.home.command(&lab.rules());
    let mut command = client("unshare", lab.home.dir.path());
    command.args(["--mount", "sh", "-c", "mount --bind \"$1\" /etc/hosts && shift && exec \"$@\"", "sh"]).arg(hosts);
    command.arg(plain.get_program()).args(plain.get_args());
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut process = Process::start("tinaja", &mut command, &lab.home.path("output"));
    process.wait_until_listening(lab.home.listen);
    process
}
