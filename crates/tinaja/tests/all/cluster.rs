//! Several servers as one cache: real processes, an origin that counts, a node that is killed, purges, upgrades.

use std::fs;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::TempDir;
use tinaja_lab::peers::Places;
use tinaja_testkit::body::body;
use tinaja_testkit::client::{Response, get};
use tinaja_testkit::nginx::make_certificates;
use tinaja_testkit::origin::Origin;
use tinaja_testkit::port::free_port;
use tinaja_testkit::process::Process;
use tinaja_testkit::tools::{env_of, output};
use tinaja_testkit::wait::{eventually, wait_for};

use crate::metrics::scrape;
use crate::support::tinaja::binary;

/// What clients ask for, whichever node they reach.
pub const SITE: &str = "http://cluster.test";

/// Servers that are nodes of one cluster before one origin.
pub struct Together {
    /// Dropped first: those of a test that failed print what they have written to the home directory.
    pub nodes: Vec<Node>,
    pub home: TempDir,
    origin: String,
    /// Where they are, if not on loopback.
    places: Option<Arc<Places>>,
}

pub struct Node {
    pub listen: SocketAddr,
    /// Where the other nodes reach it.
    pub address: SocketAddr,
    /// Where it counts.
    pub metrics: SocketAddr,
    pub process: Process,
    pub dir: PathBuf,
}

fn local() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

impl Together {
    fn start(count: usize, origin: &Origin) -> Together {
        Together::start_with(count, origin, "")
    }

    /// With further settings of the cluster.
    pub fn start_with(count: usize, origin: &Origin, more: &str) -> Together {
        let addresses = (0..count).map(|_| (local(), local())).collect();
        Together::start_at(None, addresses, origin, more)
    }

    /// The same, each on a machine of its own.
    pub fn start_in(places: &Arc<Places>, count: u8, origin: &Origin, more: &str) -> Together {
        let at = |n, port| SocketAddr::new(IpAddr::V4(places.of(n)), port);
        let addresses = (0..count).map(|n| (at(n, 8080), at(n, 7946))).collect();
        Together::start_at(Some(places.clone()), addresses, origin, more)
    }

    fn start_at(
        places: Option<Arc<Places>>,
        addresses: Vec<(SocketAddr, SocketAddr)>,
        origin: &Origin,
        more: &str,
    ) -> Together {
        let home = TempDir::new().unwrap();
        make_certificates(home.path());
        let count = addresses.len();
        let mut together = Together { home, origin: origin.url(""), nodes: Vec::new(), places };
        for (n, (listen, address)) in addresses.iter().enumerate() {
            let seeds: Vec<String> = addresses.iter().map(|(_, seed)| format!("\"{seed}\"")).collect();
            let dir = together.home.path().join(format!("box-{n}"));
            let metrics = if together.places.is_some() { SocketAddr::new(listen.ip(), 9090) } else { local() };
            fs::create_dir(&dir).unwrap();
            let own = dir.display();
            let certificates = together.home.path().display();
            let origin = &together.origin;
            let patience = if more.contains("patience") { "" } else { "patience = \"300ms\"\n" };
            let text = format!(
                "metrics = \"{metrics}\"\ncache = \"{own}/cache\"\ndisk = \"64MiB\"\nengine = \"hashcache-log\"\nmemory = \"0\"\nlog_file = \"{own}/log\"\n\
                 [cluster]\nname = \"test\"\nnode = \"box-{n}\"\nlisten = \"{address}\"\nseeds = [{}]\n\
                 ca = \"{certificates}/ca.pem\"\ncertificate = \"{certificates}/server.pem\"\nkey = \"{certificates}/server.key\"\n\
                 memory = \"8MiB\"\n{patience}{more}\n\
                 [[listener]]\naddress = \"{listen}\"\nmode = \"reverse\"\norigin = \"{origin}\"\n\
                 [[listener.rule]]\naction = \"allow\"\nmethod = \"PURGE\"\n",
                seeds.join(", ")
            );
            fs::write(dir.join("tinaja.toml"), text).unwrap();
            let process = together.run(&dir, *listen, &[]);
            together.nodes.push(Node { listen: *listen, address: *address, metrics, process, dir });
        }
        together.know(&(0..count).collect::<Vec<_>>(), count - 1);
        together
    }

    pub fn run(&self, dir: &Path, listen: SocketAddr, flags: &[&str]) -> Process {
        let mut command = match (&self.places, listen.ip()) {
            (Some(places), IpAddr::V4(address)) => {
                let mut command = places.command(address.octets()[3] - 1, Path::new(env!("CARGO_BIN_EXE_tinaja")));
                env_of(&mut command, self.home.path());
                command
            }
            _ => binary(&self.home),
        };
        command.arg("serve").arg("--config").arg(dir.join("tinaja.toml")).args(flags);
        // For origins with TLS, which have the certificate of the nodes.
        command.env("SSL_CERT_FILE", self.home.path().join("ca.pem"));
        let mut process = Process::start("tinaja", &mut command, &dir.join("output"));
        process.wait_until_listening(listen);
        process
    }

    pub fn restart(&mut self, n: usize) {
        let process = self.run(&self.nodes[n].dir, self.nodes[n].listen, &[]);
        self.nodes[n].process = process;
    }

    pub fn get(&self, n: usize, path: &str) -> Response {
        get(self.nodes[n].listen, &format!("{SITE}{path}")).unwrap()
    }

    pub fn tinaja(&self, n: usize, args: &[&str]) -> (Option<i32>, String) {
        let mut command = binary(&self.home);
        command.args(args).arg("--config").arg(self.nodes[n].dir.join("tinaja.toml")).env("TINAJA_LOG", "error");
        let Output { status, stdout, stderr } = output(&mut command);
        (status.code(), String::from_utf8([stdout, stderr].concat()).unwrap())
    }

    pub fn status(&self, n: usize) -> serde_json::Value {
        let (code, said) = self.tinaja(n, &["cluster", "status", "--json"]);
        assert_eq!(code, Some(0), "{said}");
        serde_json::from_str(&said).unwrap()
    }

    /// Wait until each of these nodes knows so many others.
    pub fn know(&self, nodes: &[usize], others: usize) {
        eventually("the nodes to know each other", || {
            nodes
                .iter()
                .map(|n| self.status(*n))
                .all(|status| status["peers"].as_array().unwrap().len() == others && status["known_by"] == others)
        });
    }
}

/// Clients that ask all the time, each its own node.
pub struct Load {
    stop: AtomicBool,
    answered: AtomicU64,
    longest_ms: AtomicU64,
}

impl Load {
    /// Wait until so many more requests were answered.
    pub fn goes_on(&self, more: u64) {
        let then = self.answered.load(Relaxed);
        let enough = || (self.answered.load(Relaxed) > then + more).then_some(());
        wait_for("more load", Duration::from_secs(60), enough);
    }
}

/// Do something while clients ask these servers for these paths. Each request is answered, with the right bytes, and in bounded time, which is printed.
pub fn under_load(what: &str, servers: &[SocketAddr], paths: &[String], work: impl FnOnce(&Load)) {
    let load = Load { stop: AtomicBool::new(false), answered: AtomicU64::new(0), longest_ms: AtomicU64::new(0) };
    /// The clients end, whatever becomes of the work: a scope waits for them.
    struct Ending<'a>(&'a Load);
    impl Drop for Ending<'_> {
        fn drop(&mut self) {
            self.0.stop.store(true, Relaxed);
        }
    }
    std::thread::scope(|scope| {
        for (client, server) in servers.iter().enumerate() {
            let load = &load;
            scope.spawn(move || {
                let mut n = client;
                while !load.stop.load(Relaxed) {
                    n += 7;
                    let (path, began) = (&paths[n % paths.len()], Instant::now());
                    check(path, &get(*server, &format!("{SITE}{path}")).unwrap());
                    load.longest_ms.fetch_max(began.elapsed().as_millis() as u64, Relaxed);
                    load.answered.fetch_add(1, Relaxed);
                }
            });
        }
        let _ending = Ending(&load);
        load.goes_on(100);
        work(&load);
        load.goes_on(100);
    });
    let longest = load.longest_ms.load(Relaxed);
    println!("{what}: {} answers, the longest took {longest} ms", load.answered.load(Relaxed));
    // Two reads in vain, each with its deadline, and whatever a busy machine adds.
    assert!(longest < 20_000, "{what}");
}

/// An answer of [`Origin::of_patterns`], byte by byte.
pub fn check(path: &str, answer: &Response) {
    let bytes: usize = path.split('/').nth(1).unwrap().parse().unwrap();
    assert_eq!((answer.status, answer.body.len()), (200, bytes), "{path}: {}", answer.cache_status());
    assert!(answer.body == body(path, bytes), "{path}: other bytes");
}

/// How often the origin was asked.
pub fn asked(origin: &Origin) -> usize {
    origin.requests().len()
}

#[test]
fn what_one_has_all_have_and_what_is_purged_at_one_is_gone_from_all() {
    let origin = Origin::of_patterns();
    let together = Together::start(3, &origin);
    for n in 0..12 {
        let path = format!("/5000/object-{n}");
        let first = together.get(n % 3, &path);
        assert!(!first.is_hit(), "{path}");
        for other in 0..3 {
            // Until the object's home has heard of it.
            eventually("another node to find it", || together.get(other, &path).is_hit());
            assert_eq!(together.get(other, &path).body, first.body);
        }
    }
    let (code, table) = together.tinaja(0, &["cluster", "status"]);
    assert_eq!(code, Some(0), "{table}");
    for line in [
        "cluster               test",
        "other nodes           2, of which 2 know this one",
        "  box-1",
        "HTTP/2 over mutual TLS, no one-sided reads",
    ] {
        assert!(table.contains(line), "{line:?} in {table}");
    }
    let remote: u64 = (0..3).map(|n| together.status(n)["counts"]["remote"].as_u64().unwrap()).sum();
    assert!(remote > 0, "all was found elsewhere than in other nodes' memory");
    for n in 0..12 {
        let path = format!("/5000/object-{n}");
        let before = asked(&origin);
        let url = format!("{SITE}{path}");
        let (code, said) = together.tinaja(n % 3, &["purge", &url]);
        assert_eq!((code, said), (Some(0), format!("{url}: purged\n")));
        // Of whichever node it is asked now: the origin is asked.
        assert!(!together.get((n + 1) % 3, &path).is_hit());
        assert_eq!(asked(&origin), before + 1, "{path}");
    }
}

/// What other nodes would not hear of is refused: a node that does not run tells nobody.
#[test]
fn a_stopped_node_takes_no_purge_by_more_than_a_url() {
    let origin = Origin::of_patterns();
    let mut together = Together::start(1, &origin);
    let url = format!("{SITE}/5000/object");
    let ways =
        [&["purge", "--all"][..], &["purge", "--tag", "a"], &["purge", "--soft", &url], &["purge", "--prefix", SITE]];
    for args in ways {
        let (code, said) = together.tinaja(0, args);
        assert_eq!(code, Some(0), "a node that nobody is with: {said}");
    }
    together.nodes[0].process.terminate();
    for args in ways {
        let (code, said) = together.tinaja(0, args);
        assert!(code == Some(1) && said.contains("purge at a node that runs"), "{said}");
    }
}

/// One node of three is killed while clients ask the two others: each request is answered, with the right bytes, and none waits much longer than a peer may take.
/// The node comes back, and validates what its disk has before it serves it: it has missed purges.
#[test]
fn a_node_is_killed_under_load_and_comes_back() {
    is_killed_and_comes_back("");
}

/// The same where nodes read each other's memory without help: that of a dead process can be read for as long as others have it open.
#[test]
fn a_node_whose_memory_others_read_is_killed_and_comes_back() {
    is_killed_and_comes_back("one_sided = [\"memory\"]");
}

fn is_killed_and_comes_back(more: &str) {
    let origin = Origin::of_patterns();
    let mut together = Together::start_with(3, &origin, more);
    for n in 0..100 {
        together.get(n % 3, &format!("/3000/object-{n}"));
    }
    eventually("the third to have its share on its disk", || {
        let (_, said) = together.tinaja(2, &["inspect", "--json"]);
        serde_json::from_str::<serde_json::Value>(&said).is_ok_and(|said| said["live_objects"].as_u64() >= Some(30))
    });
    // What is not yet written when a process is killed is lost; a second is ample.
    std::thread::sleep(Duration::from_secs(2));
    let servers = [0, 1, 0, 1].map(|n: usize| together.nodes[n].listen);
    let paths: Vec<String> = (0..100).map(|n| format!("/3000/object-{n}")).collect();
    under_load("killed", &servers, &paths, |load| {
        together.nodes[2].process.signal(Signal::KILL);
        together.know(&[0, 1], 1);
        load.goes_on(200);
    });

    // Purged while it was away.
    let url = format!("{SITE}/3000/object-2");
    assert_eq!(together.tinaja(0, &["purge", &url]), (Some(0), format!("{url}: purged\n")));
    std::thread::sleep(Duration::from_millis(1100));
    together.restart(2);
    together.know(&[0, 1, 2], 2);
    let before = asked(&origin);
    let answer = together.get(2, "/3000/object-2");
    assert!(!answer.is_hit(), "purged while it was away, and on its disk still: {}", answer.cache_status());
    assert_eq!(asked(&origin), before + 1);
}

/// Of several URLs that are purged, one that fails keeps nobody from purging the others: while a node hangs, a purge says that it may be there still. It stopped at the
/// first, and the others stayed everywhere.
#[test]
fn a_purge_that_fails_does_not_stop_the_others() {
    let origin = Origin::of_patterns();
    let together = Together::start(2, &origin);
    let paths = ["first", "second"].map(|name| format!("/3000/{name}"));
    let urls = paths.each_ref().map(|path| format!("{SITE}{path}"));
    for path in &paths {
        together.get(0, path);
        eventually("it to be stored", || together.get(0, path).is_hit());
    }
    together.nodes[1].process.signal(Signal::STOP);
    let (code, said) = together.tinaja(0, &["purge", &urls[0], &urls[1]]);
    together.nodes[1].process.signal(Signal::CONT);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&format!("{}: failed: it is forgotten here, and may not be", urls[0])), "{said}");
    // By then the others may know that the node is gone.
    assert!(said.contains(&format!("\n{}: ", urls[1])) && said.contains("of 2 URLs were not purged"), "{said}");
    assert!(!together.get(0, &paths[1]).is_hit(), "{said}");
}

/// A second process takes over from a node: the cluster loses it and has it again, and no request fails.
#[test]
fn a_node_is_upgraded() {
    let origin = Origin::of_patterns();
    let mut together = Together::start(2, &origin);
    together.get(0, "/2000/a");
    let new = together.run(&together.nodes[0].dir, together.nodes[0].listen, &["--take-over"]);
    for n in 0..50 {
        assert_eq!(together.get(0, &format!("/2000/{n}")).status, 200);
    }
    together.nodes[0].process.wait();
    together.nodes[0].process = new;
    together.know(&[0, 1], 1);
    let log = fs::read_to_string(together.nodes[0].dir.join("log")).unwrap();
    assert!(!log.contains("serving without the cluster"), "{log}");
}

#[test]
fn what_is_wrong_is_said_before_it_serves() {
    let origin = Origin::of_patterns();
    let together = Together::start(1, &origin);
    let (node, home) = (&together.nodes[0], together.home.path().display().to_string());
    let good = fs::read_to_string(node.dir.join("tinaja.toml")).unwrap();
    for (from, to, why) in [
        ("scheme", "", ""),
        ("node = \"box-0\"", "", "missing field `node`"),
        ("memory = \"8MiB\"", "memory = \"1kB\"", "make memory larger or object_size smaller"),
        ("memory = \"8MiB\"", "scheme = \"best\"", "use \"bcc\", \"ccwr\", \"mtacc\" or \"hybcc\""),
        ("memory = \"8MiB\"", "small_objects = \"1kB\"", "small_objects is for scheme = \"hybcc\" alone"),
        ("memory = \"8MiB\"", "small_scheme = \"ccwr\"", "small_scheme is for scheme = \"hybcc\" alone"),
        ("memory = \"8MiB\"", "scheme = \"hybcc\"\nsmall_scheme = \"ac\"", "use \"bcc\" or \"ccwr\""),
        ("memory = \"8MiB\"", "scheme = \"hybcc\"\nsmall_objects = \"4KiB\"\nsmall_scheme = \"ccwr\"", ""),
        ("seeds = [", "seeds = [\"box-1\", ", "write HOST:PORT"),
        ("memory = \"8MiB\"", "disk = \"all\"", "use \"own\" or \"home\""),
        ("memory = \"8MiB\"", "one_sided = [\"no-such\"]", "one_sided = no-such: this machine has no interface"),
        ("memory = \"8MiB\"", "one_sided = [\"a, b\"]", "is no way to read memory"),
        ("memory = \"8MiB\"", "copies = 2", "set disk = \"home\""),
        ("memory = \"8MiB\"", "disk = \"home\"\ncopies = 9", "use a number from 1 to 8"),
        (&format!("{home}/ca.pem"), "/nowhere.pem", "/nowhere.pem holds no certificate in PEM"),
        (&format!("{home}/server.key"), &format!("{home}/ca.key"), "does not go with the key"),
    ] {
        fs::write(node.dir.join("wrong.toml"), good.replace(from, to)).unwrap();
        let mut command = binary(&together.home);
        let Output { status, stderr, stdout } =
            output(command.args(["serve", "--check", "--config"]).arg(node.dir.join("wrong.toml")));
        let said = String::from_utf8([stdout, stderr].concat()).unwrap();
        assert!(said.contains(why) && status.success() == why.is_empty(), "{why:?}: {said}");
    }
    // A server without a cluster.
    let alone = crate::support::tinaja::Setup::forward();
    let _running = alone.start();
    let mut command = alone.binary();
    let told = output(command.args(["cluster", "status", "--cache"]).arg(alone.cache_dir()));
    assert!(String::from_utf8_lossy(&told.stderr).contains("no [cluster]"), "{told:?}");
}

/// Seeds of which nobody listens at one, nobody answers at another, and a node of another authority at the third: the node serves alone, says of each what is
/// wrong, and finds the other node when there is one.
#[test]
fn seeds_that_do_not_answer_are_named() {
    let origin = Origin::of_patterns();
    let stranger = Together::start(1, &origin);
    let mut together = Together::start(2, &origin);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let wrong = [local(), silent.local_addr().unwrap(), stranger.nodes[0].address];
    let (second, first) = (together.nodes.pop().unwrap(), &mut together.nodes[0]);
    let path = first.dir.join("tinaja.toml");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once("seeds = [").unwrap();
    let (_, after) = rest.split_once(']').unwrap();
    let seeds = wrong.map(|seed| format!("\"{seed}\"")).join(", ");
    fs::write(&path, format!("{before}seeds = [{seeds}]{after}")).unwrap();
    let Node { listen, address, metrics, process: mut of_second, dir } = second;
    let log = first.dir.join("log");
    of_second.terminate();
    first.process.terminate();
    fs::remove_file(&log).unwrap();
    together.restart(0);
    for _ in 0..2 {
        check("/3000/object-1", &together.get(0, "/3000/object-1"));
    }
    for (seed, why) in wrong.iter().zip(["Connection refused", "it took too long", "not of the same authority"]) {
        eventually("the log to name the seed", || {
            let log = fs::read_to_string(&log).unwrap();
            let is_named = |line: &str| {
                line.contains("cannot be reached") && line.contains(&seed.to_string()) && line.contains(why)
            };
            log.lines().any(is_named)
        });
    }
    assert_eq!(together.status(0)["peers"].as_array().unwrap().len(), 0);
    assert_eq!(stranger.status(0)["peers"].as_array().unwrap().len(), 0);
    // Its own seeds name the first.
    let process = together.run(&dir, listen, &[]);
    together.nodes.push(Node { listen, address, metrics, process, dir });
    together.know(&[0, 1], 1);
    eventually("the figures to say so", || {
        let figures = scrape(metrics);
        let of = |name: &str| figures.get(&format!("tinaja_cluster_{name}nodes")).copied();
        ["", "connected_", "one_sided_", "refused_"].map(of) == [1.0, 1.0, 0.0, 0.0].map(Some)
    });
}
