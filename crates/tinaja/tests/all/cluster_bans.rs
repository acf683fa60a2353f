//! Purges by more than a URL in a cluster: each holds on all nodes once it is answered, under load, over kills, stops and a network that parts.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tinaja_lab::peers::{Places, needs_root};
use tinaja_testkit::client::{Client, get};
use tinaja_testkit::origin::{Origin, Request, reply};
use tinaja_testkit::wait::{eventually, wait_for};

use crate::cluster::{SITE, Together, asked};
use crate::metrics::scrape;

const WAYS: [&str; 2] = ["", "disk = \"home\"\ncopies = 2"];

/// Answers say which version they are of, have the parts of their path for tags, and are confirmed as long as the version is the same. What nodes alone say is
/// not believed: by that nothing would ever be purged.
fn deployed(version: &Arc<AtomicU64>) -> impl Fn(&Request, &mut std::net::TcpStream) -> bool + Send + Sync + use<> {
    let version = version.clone();
    move |request, stream| {
        let now = version.load(SeqCst);
        let tag = format!("\"{now}\"");
        let fields = format!(
            "Cache-Control: max-age=3600\r\nETag: {tag}\r\nTinaja-Asked-At: {}\r\nSurrogate-Key: all {}\r\n",
            "f".repeat(16),
            request.path.replace('/', " ")
        );
        match request.field("if-none-match") == Some(tag) {
            true => reply(stream, request, 304, &fields, b""),
            false => reply(stream, request, 200, &fields, now.to_string().as_bytes()),
        }
    }
}

fn origin(version: &Arc<AtomicU64>) -> Origin {
    Origin::start(deployed(version))
}

fn version_at(server: SocketAddr, path: &str) -> u64 {
    let answer = get(server, &format!("{SITE}{path}")).unwrap();
    assert_eq!(answer.field("tinaja-asked-at"), "", "{}", answer.head);
    answer.text().parse().unwrap()
}

/// What each node says a path is.
fn everywhere(together: &Together, path: &str) -> Vec<u64> {
    together.nodes.iter().map(|node| version_at(node.listen, path)).collect()
}

/// What is no hit on some node, and what that says.
fn misses(together: &Together, paths: &[impl AsRef<str>]) -> Vec<String> {
    let all = paths.iter().flat_map(|path| (0..together.nodes.len()).map(move |n| (n, path.as_ref())));
    let answers = all.map(|(n, path)| (n, path, together.get(n, path)));
    let misses = answers.filter(|(.., answer)| !answer.is_hit());
    misses.map(|(n, path, answer)| format!("{path} on node {n}: {}", answer.cache_status())).collect()
}

/// Wait until all is a hit on all nodes.
fn are_hits(together: &Together, paths: &[impl AsRef<str>]) {
    let began = Instant::now();
    loop {
        let misses = misses(together, paths);
        if misses.is_empty() {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "after a minute: {misses:#?}");
    }
}

/// A purge at one node, while these others do not answer: each is named as not having confirmed it, unless it is no node any more.
fn are_named_or_gone(together: &Together, at: usize, silent: &[usize], (code, said): &(Option<i32>, String)) {
    let status = together.status(at);
    let is_there = |name: &String| status["peers"].as_array().unwrap().iter().any(|peer| peer["name"] == **name);
    let names: Vec<_> = silent.iter().map(|n| format!("box-{n}")).collect();
    let is_named = |name: &String| said.contains(&format!("{name}, as it"));
    assert!(names.iter().all(|name| is_named(name) || !is_there(name)), "{said}; {status}");
    match names.iter().any(is_named) {
        true => assert!(*code == Some(1) && said.contains("it is purged here"), "{said}"),
        false => assert_eq!(*code, Some(0), "{said}"),
    }
}

/// What is named at one node is gone from all once that is answered, whatever named it; what is not named stays a hit on all.
#[test]
fn each_way_to_name_objects_holds_on_all_nodes() {
    for way in WAYS {
        let version = Arc::new(AtomicU64::new(1));
        let origin = origin(&version);
        let together = Together::start_with(3, &origin, way);
        let (shop, blog) = ("/shop/1.css", "/blog/2");
        let prefix = format!("{SITE}/shop/");
        let url = format!("{SITE}{shop}");
        let both = [&["--all"][..], &["--host", "cluster.test"], &["--tag", "all"], &["--regex", "^http://cluster"]];
        let shops = [
            &["--tag", "shop"][..],
            &["--prefix", &prefix],
            &["--suffix", ".css"],
            &["--regex", "/[0-9]\\.css$"],
            &["--soft", &url],
            &["--tag", "shop", "--host", "cluster.test", "--soft"],
        ];
        let all = shops.into_iter().map(|args| (args, false)).chain(both.map(|args| (args, true)));
        for (round, (args, is_both)) in all.enumerate() {
            let now = version.load(SeqCst);
            are_hits(&together, &[shop, blog]);
            let blog_before = everywhere(&together, blog);
            version.store(now + 1, SeqCst);
            let (code, said) = together.tinaja(round % 3, &[&["purge"], args].concat());
            assert_eq!(code, Some(0), "{args:?}: {said}");
            assert_eq!(everywhere(&together, shop), [now + 1; 3], "{way:?} {args:?}");
            if is_both {
                assert_eq!(everywhere(&together, blog), [now + 1; 3], "{way:?} {args:?}");
            } else {
                assert_eq!(everywhere(&together, blog), blog_before, "{way:?} {args:?}");
                assert_eq!(misses(&together, &[blog]), Vec::<String>::new(), "{way:?} {args:?}");
            }
        }
        // And by PURGE, at a node that has fetched nothing of it since.
        for fields in ["Surrogate-Key: blog\r\n", "Tinaja-Purge: prefix\r\n", "Tinaja-Purge: host soft\r\n"] {
            are_hits(&together, &[blog]);
            let now = version.fetch_add(1, SeqCst) + 1;
            let mut client = Client::connect(together.nodes[1].listen);
            let answer = client.request("PURGE", &format!("{SITE}/blog/"), fields);
            assert_eq!(answer.status, 200, "{}", answer.text());
            assert_eq!(everywhere(&together, blog), [now; 3], "{way:?} {fields:?}");
        }
        // Whoever has it still says why it is of no use.
        let explained = [0, 1, 2].map(|n| together.tinaja(n, &["explain", &url]).1);
        assert!(explained.iter().any(|said| said.contains("purged softly by its host")), "{explained:?}");
    }
}

/// A site is deployed ten times and purged by a tag or a prefix, each time at another node, under load on all nodes; three times one of them was killed
/// before the purge and comes back after it. No answer that was asked for after the purge was answered is of before, whichever node gives it.
#[test]
fn deploys_purged_at_any_node_under_load_with_kills_between() {
    for way in WAYS {
        let version = Arc::new(AtomicU64::new(1));
        let origin = origin(&version);
        let mut together = Together::start_with(3, &origin, way);
        let servers: Vec<_> = together.nodes.iter().map(|node| node.listen).collect();
        let load = Load::default();
        thread::scope(|scope| {
            load.begin(scope, &servers);
            for round in 0..10_usize {
                load.some_more(300);
                let (at, dies) = (round % 3, (round + 1) % 3);
                let is_kill = round % 3 == 1;
                if is_kill {
                    together.nodes[dies].process.signal(Signal::KILL);
                    together.nodes[dies].process.wait();
                }
                let next = version.fetch_add(1, SeqCst) + 1;
                let prefix = format!("{SITE}/page/");
                let args = [["--tag", "page"], ["--prefix", &prefix]][round % 2];
                let (code, said) = together.tinaja(at, &["purge", args[0], args[1]]);
                // The one that is dead may be a node still.
                let names_the_dead = is_kill && code == Some(1) && said.contains(&format!("box-{dies}, as it"));
                assert!(code == Some(0) || names_the_dead, "{said}");
                load.oldest.store(next, SeqCst);
                load.some_more(300);
                if is_kill {
                    together.restart(dies);
                    load.some_more(300);
                    together.know(&[0, 1, 2], 2);
                }
            }
            load.ended.store(true, SeqCst);
        });
        let (answered, hits) = (load.answered.load(SeqCst), load.hits.load(SeqCst));
        println!("{way:?}: {answered} answers, {hits} of them hits; with old bytes after a purge: 0");
        assert!(hits > answered / 4, "{hits} hits of {answered}");
    }
}

/// Clients that ask all the time; none of them takes an answer that is older than what was purged before it asked.
#[derive(Default)]
struct Load {
    oldest: AtomicU64,
    ended: AtomicBool,
    answered: AtomicU64,
    hits: AtomicU64,
}

impl Load {
    fn begin<'scope>(&'scope self, scope: &'scope thread::Scope<'scope, '_>, servers: &[SocketAddr]) {
        for (client, server) in servers.iter().chain(servers).copied().enumerate() {
            scope.spawn(move || {
                for number in client.. {
                    if self.ended.load(SeqCst) {
                        return;
                    }
                    let least = self.oldest.load(SeqCst);
                    let path = format!("/page/{}", number % 40);
                    let Ok(answer) = get(server, &format!("{SITE}{path}")) else {
                        thread::sleep(Duration::from_millis(1));
                        continue;
                    };
                    // What was cut off by the kill is no answer.
                    let Ok(got) = answer.text().parse::<u64>() else { continue };
                    if answer.status != 200 || got < least {
                        self.ended.store(true, SeqCst);
                        panic!("{path} at {server}: {got} after {least} was purged: {}", answer.cache_status());
                    }
                    self.answered.fetch_add(1, SeqCst);
                    self.hits.fetch_add(u64::from(answer.is_hit()), SeqCst);
                }
            });
        }
    }

    fn some_more(&self, count: u64) {
        let goal = self.answered.load(SeqCst) + count;
        let enough = || (self.ended.load(SeqCst) || self.answered.load(SeqCst) >= goal).then_some(());
        wait_for("answers", Duration::from_secs(60), enough);
        assert!(!self.ended.load(SeqCst), "a client has found something old");
    }
}

/// A node that hangs: whoever purges is told which one it is, in bounded time; the others have it; and once it goes on, its first answer is not of before, neither for
/// the purge that it did not confirm nor for one that was asked for when it was no node any more.
#[test]
fn a_node_that_hangs_is_named_and_serves_nothing_old_afterwards() {
    for way in WAYS {
        let version = Arc::new(AtomicU64::new(1));
        let origin = origin(&version);
        let together = Together::start_with(3, &origin, way);
        let paths: Vec<String> = (0..30).map(|n| format!("/page/{n}")).collect();
        are_hits(&together, &paths);
        together.nodes[2].process.signal(Signal::STOP);
        for (round, args) in [["--tag", "page"], ["--prefix", &format!("{SITE}/page/")]].into_iter().enumerate() {
            let now = version.fetch_add(1, SeqCst) + 1;
            let began = Instant::now();
            let purged = together.tinaja(round, &["purge", args[0], args[1]]);
            let took = began.elapsed();
            println!("{way:?}: purge {round} with a node that hangs took {took:?}: {}", purged.1);
            match round {
                0 => are_named_or_gone(&together, round, &[2], &purged),
                _ => assert_eq!(purged.0, Some(0), "{}", purged.1),
            }
            assert!(took < Duration::from_secs(20), "{took:?}");
            for path in &paths {
                for node in &together.nodes[..2] {
                    assert_eq!(version_at(node.listen, path), now, "{path}");
                }
            }
            // The next purge is of those that are nodes then.
            together.know(&[0, 1], 1);
        }
        together.nodes[2].process.signal(Signal::CONT);
        let now = version.load(SeqCst);
        for path in &paths {
            assert_eq!(version_at(together.nodes[2].listen, path), now, "{way:?} {path}");
        }
        // And then it takes part again.
        together.know(&[0, 1, 2], 2);
        are_hits(&together, &paths);
        version.fetch_add(1, SeqCst);
        let (code, said) = together.tinaja(2, &["purge", "--all"]);
        assert_eq!(code, Some(0), "{said}");
        assert_eq!(everywhere(&together, &paths[0]), [now + 1; 3]);
    }
}

/// The network parts: whoever purges is told whom it did not reach, as long as those are nodes; once they are together again, nobody serves what was purged.
#[test]
fn the_network_parts_and_nothing_old_is_served_once_it_is_whole() {
    if let Err(why) = needs_root() {
        eprintln!("SKIPPED: {why}");
        return;
    }
    // Dropped last: the origins' addresses go with them.
    let places = Arc::new(Places::make(3).unwrap());
    for way in WAYS {
        let version = Arc::new(AtomicU64::new(1));
        let origin = Origin::on(TcpListener::bind((places.here(), 0)).unwrap(), deployed(&version));
        let together = Together::start_in(&places, 3, &origin, way);
        let paths: Vec<String> = (0..30).map(|n| format!("/page/{n}")).collect();
        are_hits(&together, &paths);
        places.part(true).unwrap();
        version.fetch_add(1, SeqCst);
        let began = Instant::now();
        let purged = together.tinaja(0, &["purge", "--tag", "page"]);
        let took = began.elapsed();
        println!("{way:?}: the purge took {took:?}: {}", purged.1);
        are_named_or_gone(&together, 0, &[1, 2], &purged);
        assert!(took < Duration::from_secs(30), "{took:?}");
        together.know(&[0, 1, 2], 0);
        let now = version.fetch_add(1, SeqCst) + 1;
        let (code, said) = together.tinaja(1, &["purge", "--prefix", &format!("{SITE}/page/")]);
        assert_eq!(code, Some(0), "it is the only node that it knows of: {said}");
        places.part(false).unwrap();
        together.know(&[0, 1, 2], 2);
        for path in &paths {
            assert_eq!(everywhere(&together, path), [now; 3], "{way:?} {path}");
        }
        // Each is told within the minute what was purged before it was known; one that hears of it later fetches anew what it had by then.
        let has_heard = |n: usize, kind| {
            scrape(together.nodes[n].metrics)[&format!("tinaja_purges_total{{kind=\"{kind}\"}}")] >= 1.0
        };
        eventually("each to have heard of both purges", || {
            (0..3).all(|n| has_heard(n, "tag") && has_heard(n, "prefix"))
        });
        are_hits(&together, &paths);
        let before = asked(&origin);
        assert!(paths.iter().all(|path| everywhere(&together, path) == [now; 3]));
        assert_eq!(asked(&origin), before);
    }
}
