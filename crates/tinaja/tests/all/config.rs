//! A configuration file: what it says is done, and what makes no sense in it is said before anything starts.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;
use tinaja_logs::{CacheResult, json};

use crate::support::tinaja::binary;
use tinaja_testkit::body::body;
use tinaja_testkit::nginx::{Nginx, date_back};
use tinaja_testkit::port::free_port;
use tinaja_testkit::process::Process;
use tinaja_testkit::tools::{client, output, run};

const LEN: usize = 50_000;

/// A directory with a configuration file in it.
struct Home {
    dir: TempDir,
}

impl Home {
    fn new(text: &str) -> Home {
        let home = Home { dir: TempDir::new().unwrap() };
        fs::write(home.path("tinaja.toml"), text.replace("HOME", home.dir.path().to_str().unwrap())).unwrap();
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, more: &[&str]) -> Command {
        let mut command = binary(&self.dir);
        command.arg("serve").arg("--config").arg(self.path("tinaja.toml")).args(more);
        command
    }

    fn start(&self, more: &[&str], listen: SocketAddr) -> Process {
        let mut process = Process::start("tinaja", &mut self.command(more), &self.path("output"));
        process.wait_until_listening(listen);
        process
    }

    /// `serve --check`: its exit code and what it said.
    fn check(&self, more: &[&str]) -> (Option<i32>, String) {
        let Output { status, stdout, stderr } = output(self.command(more).arg("--check"));
        (status.code(), String::from_utf8([stdout, stderr].concat()).unwrap())
    }

    /// The status and Cache-Status that curl gets, and whether the body is the file's.
    fn curl(&self, args: &[&str]) -> (u16, bool) {
        let mut curl = client("curl", self.dir.path());
        curl.args(["-sS", "--noproxy", "", "-w", "%{http_code} %header{cache-status}", "-o"]).arg(self.path("got"));
        let said = run(curl.args(args));
        let status = said[..3].parse().unwrap();
        if status == 200 {
            assert!(fs::read(self.path("got")).unwrap() == body("file", LEN), "{args:?}");
        }
        (status, tinaja_testkit::client::says_hit(&said[4..]))
    }
}

fn free() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

fn nginx() -> Nginx {
    Nginx::start(|root| {
        for dir in ["", "one", "two", "two/deep"] {
            fs::create_dir_all(root.join(dir)).unwrap();
            fs::write(root.join(dir).join("file"), body("file", LEN)).unwrap();
        }
        date_back(root, 30);
    })
}

#[test]
fn forward_and_reverse_in_one_process() {
    let (first, second) = (nginx(), nginx());
    let (forward, reverse, strict) = (free(), free(), free());
    let home = Home::new(&format!(
        r#"
cache = "HOME/cache"
disk = "256MiB"
memory = "8MiB"
access_log = "HOME/access.log"
access_log_format = "json"
[[listener]]
address = "{forward}"
allow_destination = "127.0.0.0/8"
[[listener]]
address = "{reverse}"
mode = "reverse"
origin = "{}"
[[listener.route]]
path = "/two"
origin = "{}"
[[listener.rule]]
action = "deny"
method = "POST"
[[listener]]
address = "{strict}"
[[listener.rule]]
action = "deny"
client = "127.0.0.1"
"#,
        first.url(""),
        second.url("")
    ));
    let mut process = home.start(&[], strict);
    let proxied = |proxy: SocketAddr, url: &str| home.curl(&["--proxy", &format!("http://{proxy}"), url]);
    let direct = |path: &str, more: &[&str]| home.curl(&[more, &[format!("http://{reverse}{path}").as_str()]].concat());

    assert_eq!(
        [proxied(forward, &first.url("/file")), proxied(forward, &first.url("/file"))],
        [(200, false), (200, true)]
    );
    assert_eq!([direct("/one/file", &[]), direct("/one/file", &[])], [(200, false), (200, true)]);
    assert_eq!([direct("/two/deep/file", &[]), direct("/two/deep/file", &[])], [(200, false), (200, true)]);
    assert_eq!(direct("/file", &["--request", "POST"]), (403, false));
    assert_eq!(direct("/two/../file", &["--path-as-is"]), (400, false));
    assert_eq!(proxied(strict, &first.url("/file")), (403, false));
    assert_eq!((first.log().len(), second.log().len()), (2, 1));

    assert_eq!(process.terminate().code(), Some(0));
    let log = fs::read_to_string(home.path("access.log")).unwrap();
    let records: Vec<_> = log.lines().map(|line| json::parse(line).unwrap()).collect();
    let count = |result| records.iter().filter(|record| record.result == result).count();
    assert_eq!((records.len(), count(CacheResult::Hit), count(CacheResult::Denied)), (9, 3, 2), "{log}");
    let said = process.output();
    assert!(said.contains(&format!("forward proxy on http://{forward}")), "{said}");
    assert!(said.contains(&format!("reverse proxy for {}", first.url("").min(second.url("")))), "{said}");
}

#[test]
fn a_check_says_what_would_be_done_and_does_nothing() {
    let address = free();
    let home = Home::new(&format!(
        "cache = \"HOME/cache\"\ndisk = \"64MiB\"\naccess_log = \"HOME/access.log\"\n[[listener]]\naddress = \"{address}\"\n\
         mode = \"reverse\"\n[[listener.route]]\nhost = \"a.example\"\norigin = \"http://127.0.0.1:1\"\n\
         [[listener.rule]]\naction = \"deny\"\nmethod = \"POST\"\n"
    ));
    let good = |words: &[&str]| {
        let (code, said) = home.check(&[]);
        assert_eq!(code, Some(0), "{said}");
        for word in words {
            assert!(said.contains(word), "{word:?} in {said}");
        }
    };
    let reverse = format!("reverse proxy on {address}, with 1 rule");
    let route = "a.example / goes to http://127.0.0.1:1";
    good(&[&reverse, route, "404", "a new one of 64.0 MiB", "access.log as squid", "64.0 MiB of memory"]);
    assert_eq!(fs::read_dir(home.dir.path()).unwrap().count(), 1, "it made something");

    let mut process = home.start(&[], address);
    good(&["in use by a running server"]);
    process.terminate();
    good(&["the existing one"]);

    // What serve would refuse, it refuses.
    // A start with another size goes on with the one that the cache has.
    let (code, said) = home.check(&["--disk", "128MiB"]);
    assert!(code == Some(0) && said.contains("would warn: disk is another size"), "{said}");
    for (more, words) in [
        (&["--disk", "1KiB", "--cache", "new"][..], ["too small", "4 MiB"]),
        (&["--disk", "1000000TiB", "--cache", "new"], ["too large", "free"]),
        // Found where --check took it: beside a name without a directory nothing was asked how much is free.
        (&["--disk", "900TB", "--cache", "fresh"], ["too large", "which are free there"]),
        // Found where these were taken and did nothing, or were called a cache that is too small.
        (&["--sets-in-memory", "30"], ["generational cannot limit", "choose hashcache-setmemlru"]),
        (&["--sets-in-memory", "30", "--cache", "other"], ["hashcache-log cannot limit", "choose hashcache-setmemlru"]),
        (&["--positions-in-memory", "4"], ["generational cannot limit", "choose hashcache-loglru"]),
        (
            &["--positions-in-memory", "2", "--engine", "hashcache-set", "--cache", "other"],
            ["hashcache-set cannot limit", "choose hashcache-loglru"],
        ),
        (
            &["--object-size", "0", "--cache", "other"],
            ["objects of 0 bytes on average", "choose an object size from 64"],
        ),
        (
            &["--object-size", "1GiB", "--engine", "hashcache-loglru", "--cache", "other"],
            ["objects of 1073741824 bytes", "from 64 bytes to 1048576"],
        ),
        (&["--cache", "tinaja.toml"], ["tinaja.toml", "directory"]),
        (&["--cache", "tinaja.toml/below"], ["tinaja.toml", "directory"]),
        (&["--access-log", "missing/access.log"], ["missing/access.log", "not a directory"]),
        (&["--access-log", "cache"], ["access log cache", "is a directory"]),
        (&["--listen", "127.0.0.1:1", "--listen", "0.0.0.0:1"], ["overlap", "127.0.0.1:1"]),
    ] {
        let (code, said) = home.check(more);
        assert_eq!(code, Some(1), "{more:?}: {said}");
        for word in words {
            assert!(said.contains(word), "{word:?} in {said}");
        }
        let Output { status, .. } = output(&mut home.command(more));
        assert_eq!(status.code(), Some(1), "serve takes {more:?}");
    }
    assert!(!home.path("new").exists() || fs::read_dir(home.path("new")).unwrap().count() == 0, "a cache was made");
}

/// A rule that folds a site into a host without a route is a 404 for all of it.
#[test]
fn a_fold_that_leads_nowhere_is_warned_of() {
    let port = free().port();
    for (host, warns) in [("www.a.test", true), ("b.test", false)] {
        let settings = "cache = \"HOME/cache\"\ndisk = \"64MiB\"\nmemory = \"8MiB\"\n";
        let home = Home::new(&format!(
            "{settings}[[key_rule]]\nhost = \"a.test\"\nfold_host = \"{host}\"\n[[listener]]\naddress = \"127.0.0.1:{port}\"\n\
             mode = \"reverse\"\n[[listener.route]]\nhost = \"a.test\"\norigin = \"http://127.0.0.1:9\"\n\
             [[listener.route]]\nhost = \"b.test\"\norigin = \"http://127.0.0.1:9\"\n"
        ));
        let what = "key rule 1 (line 4) folds hosts into www.a.test, and no route of the reverse proxy on 127.0.0.1:";
        let (code, said) = home.check(&[]);
        assert_eq!((code, said.contains(&format!("would warn: {what}"))), (Some(0), warns), "{said}");
        let mut process = home.start(&[], SocketAddr::from(([127, 0, 0, 1], port)));
        assert_eq!(process.output().contains(what), warns, "{}", process.output());
        process.terminate();
    }
}

/// A forward proxy on all addresses and without rules served whoever found it, and said nothing of that.
#[test]
fn an_open_proxy_is_warned_of() {
    let port = free().port();
    let ours =
        "[[listener.rule]]\naction = \"allow\"\nclient = \"127.0.0.0/8\"\n[[listener.rule]]\naction = \"deny\"\n";
    for (address, rules, warns) in
        [("0.0.0.0", "", true), ("0.0.0.0", ours, false), ("127.0.0.1", "", false), ("[::]", "", true)]
    {
        let settings = "cache = \"HOME/cache\"\ndisk = \"64MiB\"\nmemory = \"8MiB\"\n";
        let home = Home::new(&format!("{settings}[[listener]]\naddress = \"{address}:{port}\"\n{rules}"));
        let what = format!("the forward proxy on {address}:{port} serves anybody who can connect to it");
        let (code, said) = home.check(&[]);
        assert_eq!((code, said.contains(&format!("would warn: {what}"))), (Some(0), warns), "{said}");
        let mut process = home.start(&[], SocketAddr::from(([127, 0, 0, 1], port)));
        assert_eq!(process.output().contains(&what), warns, "{}", process.output());
        process.terminate();
    }
}

#[test]
fn a_file_that_makes_no_sense_starts_nothing() {
    for (text, words) in [
        ("cash = \"HOME/cache\"\n", &["tinaja.toml", "line 1", "cash", "cache"][..]),
        ("cache = \"HOME/cache\"\ndisk = \"lots\"\n", &["line 2", "4GiB"]),
        ("[[listener]]\naddress = \"127.0.0.1:1\"\n[[listener]]\naddress = \"127.0.0.1:1\"\n", &["line 4", "overlap"]),
    ] {
        let home = Home::new(text);
        for output in [output(&mut home.command(&[])), output(home.command(&[]).arg("--check"))] {
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{said}");
            assert!(words.iter().all(|word| said.contains(word)) && said.lines().count() <= 8, "{said}");
        }
        assert!(!home.path("cache").exists());
    }
    let home = Home::new("");
    fs::remove_file(home.path("tinaja.toml")).unwrap();
    let (code, said) = home.check(&[]);
    assert!(code == Some(1) && said.contains("tinaja.toml") && said.contains("No such file"), "{said}");
}
