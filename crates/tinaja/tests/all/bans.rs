//! `purge` by more than a URL, as an operator uses it: of a running server and a stopped cache, over kills and hand-overs, and what it says
//! when it cannot.

use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::small_disk::SmallDisk;
use crate::support::tinaja::{Setup, Tinaja};
use tinaja_testkit::client::get;
use tinaja_testkit::origin::{Origin, reply};
use tinaja_testkit::process::kill_now;
use tinaja_testkit::tools::output;
use tinaja_testkit::wait::wait_for;

/// The exit code, and what was printed on either.
fn run(setup: &Setup, args: &[&str]) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } =
        output(setup.binary().args(args).arg("--cache").arg(setup.cache_dir()).env("TINAJA_LOG", "error"));
    (status.code(), String::from_utf8([stdout, stderr].concat()).unwrap())
}

/// An origin whose answers say which version they are of, and whose tags are the parts of their path.
fn deployed(version: &Arc<AtomicU64>) -> Origin {
    let version = version.clone();
    Origin::start(move |request, stream| {
        let now = version.load(Ordering::SeqCst);
        let fields =
            format!("Cache-Control: max-age=3600\r\nSurrogate-Key: all {}\r\n", request.path.replace('/', " "));
        reply(stream, request, 200, &fields, now.to_string().as_bytes())
    })
}

fn text(proxy: &Tinaja, path: &str) -> String {
    get(proxy.address(), path).unwrap().text()
}

#[test]
fn each_way_to_name_objects() {
    let version = Arc::new(AtomicU64::new(1));
    let origin = deployed(&version);
    let setup = Setup::reverse(origin.address);
    let mut proxy = setup.start();
    let host = format!("http://{}", setup.address());
    let paths = ["/shop/1", "/shop/2.css", "/blog/1", "/blog/2.css"];
    let hits = |proxy: &Tinaja| paths.map(|path| get(proxy.address(), path).unwrap().is_hit());
    hits(&proxy);
    let prefix = format!("{host}/shop/");
    let regex = "/[a-z]+/1$";
    for (args, said, kept) in [
        (vec!["--tag", "shop"], "tag shop: purged\n".to_owned(), [false, false, true, true]),
        (vec!["--prefix", &prefix], format!("prefix {prefix}: purged\n"), [false, false, true, true]),
        (vec!["--suffix", ".css"], "suffix .css: purged\n".into(), [true, false, true, false]),
        (vec!["--regex", regex], format!("regex {regex}: purged\n"), [false, true, false, true]),
        (vec!["--host", "127.0.0.1"], "host 127.0.0.1: purged\n".into(), [false; 4]),
        (vec!["--all"], "everything: purged\n".into(), [false; 4]),
        (vec!["--tag", "all", "--host", "other.example"], "tag all at other.example: purged\n".into(), [true; 4]),
        (vec!["--tag", "all", "--host", "127.0.0.1"], "tag all at 127.0.0.1: purged\n".into(), [false; 4]),
        (
            vec!["--tag", "1", "--tag", "2.css", "--soft"],
            "tag 1: purged softly\ntag 2.css: purged softly\n".into(),
            [false; 4],
        ),
        (vec!["--soft", &host], format!("{host}: purged softly\n"), [true; 4]),
    ] {
        assert_eq!(hits(&proxy), [true; 4], "before {args:?}");
        assert_eq!(run(&setup, &[&["purge"], &args[..]].concat()), (Some(0), said));
        assert_eq!(hits(&proxy), kept, "{args:?}");
    }
    let explained = run(&setup, &["explain", &format!("{host}/shop/1")]);
    assert!(explained.1.contains("a hit"), "{explained:?}");
    run(&setup, &["purge", "--tag", "shop"]);
    let explained = run(&setup, &["explain", &format!("{host}/shop/1")]);
    assert!(explained.1.contains("a miss: what is stored was purged by a tag"), "{explained:?}");
    // What makes no sense is said, and nothing is purged.
    hits(&proxy);
    for (args, why) in [
        (&["purge"][..], "required"),
        (&["purge", "--prefix", "/x"], "is no URL"),
        (&["purge", "--tag", "a b"], "is no tag"),
        (&["purge", "--all", "--regex", "("], "unclosed group"),
        (&["purge", "--all", "--regex", "((a{100}){100}){100}"], "256 KiB"),
        (&["purge", "--all", "--host", "a.example:80"], "without a port"),
        (&["purge", "--tag", "x", "--host", "a", "--host", "b"], "give one host"),
    ] {
        let (code, said) = run(&setup, args);
        assert!(code != Some(0) && said.contains(why), "{args:?}: {said}");
    }
    assert_eq!(hits(&proxy), [true; 4]);
    // A stopped cache learns of it too.
    proxy.process.terminate();
    assert_eq!(run(&setup, &["purge", "--tag", "shop"]), (Some(0), "tag shop: purged\n".into()));
    let proxy = setup.start();
    assert_eq!(hits(&proxy), [false, false, true, true]);
}

/// A site is deployed and purged by one tag, ten times under load from real clients; each time the server is killed at once, and started
/// again. No answer that was asked for after the purge returned has bytes of before.
#[test]
fn deploys_purged_by_a_tag_under_load_with_kills_between() {
    const ROUNDS: u64 = 10;
    const CLIENTS: u64 = 4;
    let version = Arc::new(AtomicU64::new(1));
    let origin = deployed(&version);
    let setup = Setup::reverse(origin.address);
    let mut proxy = setup.start();
    // The oldest version that may still be served; the load writes down nothing that began before it was known.
    let (oldest, ended) = (AtomicU64::new(1), AtomicBool::new(false));
    let (answered, hits) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        let (oldest, ended, answered, hits, address) = (&oldest, &ended, &answered, &hits, setup.address());
        for client in 0..CLIENTS {
            scope.spawn(move || {
                for number in client.. {
                    if ended.load(Ordering::SeqCst) {
                        return;
                    }
                    let least = oldest.load(Ordering::SeqCst);
                    let Ok(answer) = get(address, &format!("/page/{}", number % 50)) else {
                        thread::sleep(Duration::from_millis(1));
                        continue;
                    };
                    // What was cut off by the kill is no answer.
                    let Ok(got) = answer.text().parse::<u64>() else { continue };
                    assert!(
                        answer.status == 200 && got >= least,
                        "version {got} after {least} was purged: {}",
                        answer.cache_status()
                    );
                    answered.fetch_add(1, Ordering::SeqCst);
                    hits.fetch_add(u64::from(answer.is_hit()), Ordering::SeqCst);
                }
            });
        }
        let some_more = |count: u64| {
            let goal = answered.load(Ordering::SeqCst) + count;
            wait_for("answers", Duration::from_secs(60), || (answered.load(Ordering::SeqCst) >= goal).then_some(()));
        };
        for round in 0..ROUNDS {
            some_more(200);
            let next = version.fetch_add(1, Ordering::SeqCst) + 1;
            let tag = if round % 2 == 0 { "all" } else { "page" };
            assert_eq!(run(&setup, &["purge", "--tag", tag]), (Some(0), format!("tag {tag}: purged\n")));
            oldest.store(next, Ordering::SeqCst);
            if round % 3 != 2 {
                kill_now(proxy.process.pid());
                proxy.process.wait();
                proxy = setup.start();
            }
            some_more(200);
        }
        ended.store(true, Ordering::SeqCst);
    });
    let (answered, hits) = (answered.load(Ordering::SeqCst), hits.load(Ordering::SeqCst));
    println!("{answered} answers, {hits} of them hits; with old bytes after a purge: 0");
    assert!(hits > answered / 4, "{hits} hits of {answered}");
}

/// Whichever of two processes takes a purge, both go by it.
#[test]
fn purges_before_and_after_a_hand_over() {
    let version = Arc::new(AtomicU64::new(1));
    let origin = deployed(&version);
    let setup = Setup::reverse(origin.address);
    let mut old = setup.start();
    for path in ["/a/1", "/b/1"] {
        assert!(text(&old, path) == "1" && get(old.address(), path).unwrap().is_hit());
    }
    version.store(2, Ordering::SeqCst);
    assert_eq!(run(&setup, &["purge", "--tag", "a"]).0, Some(0));
    let new = setup.successor("output-new", &[]);
    wait_for("it to take over", Duration::from_secs(60), || new.output().contains("took over").then_some(()));
    let new = Tinaja::of(new, setup.address());
    assert_eq!((text(&new, "/a/1"), text(&new, "/b/1")), ("2".into(), "1".into()));
    assert_eq!(run(&setup, &["purge", "--tag", "b"]).0, Some(0));
    assert_eq!(text(&new, "/b/1"), "2");
    assert!(old.process.wait().success());
    // And while one begins that never gets so far as to take the cache.
    let failed = setup.successor("output-failed", &["--metrics-is-no-flag"]);
    wait_for("it to fail", Duration::from_secs(60), || failed.output().contains("error").then_some(()));
    version.store(3, Ordering::SeqCst);
    assert_eq!(run(&setup, &["purge", "--all"]).0, Some(0));
    assert_eq!((text(&new, "/a/1"), text(&new, "/b/1")), ("3".into(), "3".into()));
}

#[test]
fn a_disk_that_is_full() {
    let Some(disk) = SmallDisk::mount(64 << 20) else { return };
    let version = Arc::new(AtomicU64::new(1));
    let origin = deployed(&version);
    let setup = Setup::bare().cache(&disk.path().join("cache")).flags(&[
        "--disk",
        "32MiB",
        "--memory",
        "8MiB",
        "--origin",
        &format!("http://{}", origin.address),
    ]);
    let proxy = setup.start();
    assert!(text(&proxy, "/a/1") == "1" && get(proxy.address(), "/a/1").unwrap().is_hit());
    assert_eq!(run(&setup, &["purge", "--tag", "other"]).0, Some(0));
    let filled = disk.path().join("filled");
    let fill =
        Command::new("dd").args(["if=/dev/zero", "bs=1M"]).arg(format!("of={}", filled.display())).output().unwrap();
    assert!(!fill.status.success(), "it is not full");
    // The file grows by whole pages: at some point there is no room.
    let mut refused = None;
    for n in 0..200 {
        let (code, said) = run(&setup, &["purge", "--prefix", &format!("http://x.example/{}", "y".repeat(4000 - n))]);
        if code != Some(0) {
            refused = Some(said);
            break;
        }
    }
    let said = refused.expect("all were written to a full disk");
    assert!(
        said.contains("No space left") && said.contains("tinaja.bans") && said.contains("nothing was purged"),
        "{said}"
    );
    let (code, said) = run(&setup, &["purge", "--prefix", &format!("http://{}/{}", setup.address(), "a/")]);
    if code != Some(0) {
        assert!(said.contains("nothing was purged"), "{said}");
        assert!(get(proxy.address(), "/a/1").unwrap().is_hit(), "half done");
    }
    std::fs::remove_file(&filled).unwrap();
    assert_eq!(run(&setup, &["purge", "--tag", "a"]), (Some(0), "tag a: purged\n".into()));
    assert!(!get(proxy.address(), "/a/1").unwrap().is_hit());
}
