//! The ready files of `docs/mirrors`: as they are, and for sources of the tests.

use std::fs;

use super::mirrors::Lab;
use crate::support::home::Home;
use tinaja_testkit::process::Process;
use tinaja_testkit::tools::run;

impl Lab {
    /// Serves by a file of `docs/mirrors`, with this source for the one that it names, and its address for the file's.
    pub fn start_ready(&self, name: &str, source: &str) -> Process {
        let origin = format!("origin = \"{source}\"\nupstream = {{ authority = \"{}\" }}", self.authority.display());
        let named = quoted(ready(name), "origin = ");
        start_ready(&self.home, name, &[(&format!("origin = \"{named}\""), &origin), (&host_of(named), "127.0.0.1")])
    }
}

/// A file of `docs/mirrors`.
fn ready(name: &str) -> &'static str {
    match name {
        "git" => include_str!("../../../../docs/mirrors/git.toml"),
        "maven" => include_str!("../../../../docs/mirrors/maven.toml"),
        "containers" => include_str!("../../../../docs/mirrors/containers.toml"),
        _ => panic!("{name}"),
    }
}

/// What stands in quotes behind this.
fn quoted<'a>(text: &'a str, before: &str) -> &'a str {
    text.split_once(before).and_then(|(_, rest)| rest.split('"').nth(1)).unwrap()
}

fn host_of(url: &str) -> String {
    url.split('/').nth(2).unwrap().to_owned()
}

/// Serves by a file of `docs/mirrors`, in this home, where others than those in the file may ask, with these texts replaced.
pub fn start_ready(home: &Home, name: &str, changes: &[(&str, &str)]) -> Process {
    let (listen, cache) = (home.listen.to_string(), format!("cache = \"{}\"", home.path("cache").display()));
    let public = format!("http://{listen}\"\nmemory = \"8MiB");
    // Hosts that a source leads to must have public addresses otherwise.
    let rule = "[[listener.rule]]\naction = \"allow\"\ndestination = \"127.0.0.0/8\"";
    let address = format!("address = \"{listen}\"\n{rule}");
    let own = [
        ("cache = \"/var/cache/tinaja\"", cache.as_str()),
        ("10GiB", "64MiB"),
        ("http://cache.example.org:3128\"\n\n", &format!("{public}\"\n\n")),
        ("address = \"0.0.0.0:3128\"", &address),
        ("192.168.0.0/16\"\n[[", "127.0.0.0/8\"\n[["),
    ];
    let mut text = ready(name).to_owned();
    for (from, to) in own.iter().chain(changes) {
        assert!(text.contains(from), "{from:?} in {text}");
        text = text.replace(from, to);
    }
    let file = home.path("tinaja.toml");
    fs::write(&file, text).unwrap();
    let mut command = crate::support::tinaja::binary(&home.dir);
    command.arg("serve").arg("--config").arg(&file);
    let mut process = Process::start("tinaja", &mut command, &home.path("output"));
    process.wait_until_listening(home.listen);
    process
}

/// Each as it is, but for the address.
#[test]
fn ready_files_are_files() {
    for name in ["git", "maven", "containers"] {
        let home = Home::new();
        let file = home.path("tinaja.toml");
        fs::write(&file, ready(name)).unwrap();
        let mut check = crate::support::tinaja::binary(&home.dir);
        check.arg("serve").arg("--config").arg(&file).arg("--check").arg("--cache").arg(home.path("cache"));
        let said = run(check.args(["--listen", &home.listen.to_string()]));
        assert!(said.contains("mirror"), "{said}");
    }
}
