//! `resize`, as an operator uses it: a cache becomes larger, smaller, another engine's, and moves to other disks, with what it holds;
//! what is purged stays so; and a start, `--check` and a reload say what waits for it.
//!
//! Two objects whose set of the index and fingerprint are the same cannot both be there: the later one displaces the other (one pair of
//! 200 objects in about 200 caches, by a number that each cache draws for itself). Asserting that every object is a hit failed
//! once, with two of 200 that displaced each other at each request. So two may be missing, and no more.

use std::fs;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::support::home::Home;
use crate::support::tinaja::binary;
use tinaja_testkit::body::body;
use tinaja_testkit::client::get;
use tinaja_testkit::origin::{Origin, reply};
use tinaja_testkit::process::{Process, kill_now};
use tinaja_testkit::tools::output;

/// The exit code, and what was printed on either.
fn run(home: &Home, args: &[&str]) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = output(binary(&home.dir).args(args));
    (status.code(), String::from_utf8([stdout, stderr].concat()).unwrap())
}

/// The configuration file with these directories and this size.
fn configure(home: &Home, dirs: &[&str], disk: &str, origin: &Origin) -> String {
    let cache: Vec<_> = dirs.iter().map(|dir| format!("{:?}", home.path(dir))).collect();
    let text = format!(
        "cache = [{}]\ndisk = \"{disk}\"\nmemory = \"16MiB\"\n[[listener]]\naddress = \"{}\"\nmode = \"reverse\"\n\
         origin = \"http://{}\"\n",
        cache.join(", "),
        home.listen,
        origin.address
    );
    let path = home.path("tinaja.toml");
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn start(home: &Home, config: &str) -> Process {
    let mut command = binary(&home.dir);
    let mut process = Process::start("tinaja", command.args(["serve", "--config", config]), &home.path("output"));
    process.wait_until_listening(home.listen);
    process
}

/// How many of these objects are hits, each right in every byte.
fn hits(home: &Home, numbers: std::ops::Range<usize>) -> usize {
    let is_hit = |n: &usize| {
        let path = format!("/{}/{n}", 500 + n * 977);
        let answer = get(home.listen, &format!("http://{}{path}", home.listen)).unwrap();
        assert!(answer.status == 200 && answer.body == body(&path, 500 + n * 977));
        answer.is_hit()
    };
    numbers.filter(is_hit).count()
}

/// All of these are hits, but for a pair that displace each other.
fn all_are_hits(home: &Home, count: usize) {
    let found = hits(home, 0..count);
    assert!(found + 2 >= count, "{found} of {count}");
}

/// As [`all_are_hits`], of what a resize says.
fn copied_all(said: &str, count: usize) -> bool {
    (count - 2..=count).any(|copied| said.contains(&format!("copied {copied} of {copied} objects")))
}

#[test]
fn a_cache_grows_shrinks_and_moves_with_what_it_holds() {
    let (home, origin) = (Home::new(), Origin::of_patterns());
    let config = configure(&home, &["a"], "16MiB", &origin);
    let (code, said) = run(&home, &["resize", "--config", &config]);
    assert!(code == Some(1) && said.contains("there is no cache in"), "{said}");
    let mut server = start(&home, &config);
    assert_eq!(hits(&home, 0..60), 0);
    let (code, said) = run(&home, &["resize", "--config", &config, "--disk", "64MiB"]);
    assert!(code == Some(1) && said.contains("in use by another process"), "{said}");

    // Another size in the file: a start goes on with the one that it has, and says so; so do a check and a reload.
    configure(&home, &["a"], "64MiB", &origin);
    let (code, said) = run(&home, &["reload", "--config", &config]);
    assert!(code == Some(0) && said.contains("disk (with `tinaja resize`)"), "{said}");
    let warns = "would warn: disk is another size than the cache has, and `tinaja resize` changes it";
    let (code, said) = run(&home, &["serve", "--check", "--config", &config]);
    assert!(code == Some(0) && said.contains(warns) && said.contains("in use by a running server"), "{said}");
    assert!(server.terminate().success());
    let mut server = start(&home, &config);
    assert!(server.output().contains("the cache keeps the size that it was created with"), "{}", server.output());
    all_are_hits(&home, 60);
    assert!(server.terminate().success());

    let (code, said) = run(&home, &["resize", "--config", &config]);
    let expected = ["now has room for 6", " MiB, with generational", "objects, with 1."];
    assert!(code == Some(0) && expected.iter().all(|word| said.contains(word)) && copied_all(&said, 60), "{said}");
    let (_, said) = run(&home, &["serve", "--check", "--config", &config]);
    assert!(!said.contains("would warn: disk"), "{said}");
    let mut server = start(&home, &config);
    let found = hits(&home, 0..100);
    assert!((58..=60).contains(&found), "{found}");
    assert!(server.terminate().success());

    // A second disk, and another engine.
    configure(&home, &["a", "b"], "16MiB", &origin);
    let (code, said) = run(&home, &["serve", "--config", &config]);
    assert!(code == Some(1) && said.contains("make it anew") && said.contains("tinaja resize"), "{said}");
    let (code, said) = run(&home, &["resize", "--config", &config, "--engine", "hashcache-log"]);
    assert!(code == Some(0) && copied_all(&said, 100), "{said}");
    let mut server = start(&home, &config);
    all_are_hits(&home, 100);
    // Killed: what is on the disks is as good.
    server.kill();
    server.wait();
    let mut server = start(&home, &config);
    all_are_hits(&home, 100);
    assert!(server.terminate().success());

    // The first disk is to go, and can still be read.
    configure(&home, &["b"], "32MiB", &origin);
    let (code, said) = run(&home, &["resize", "--config", &config, "--from", &home.path("a").display().to_string()]);
    assert!(code == Some(0) && copied_all(&said, 100), "{said}");
    fs::remove_dir_all(home.path("a")).unwrap();
    let mut server = start(&home, &config);
    all_are_hits(&home, 100);
    assert!(server.terminate().success());
}

/// What was purged by tag is on the disk still, and a list in the first directory says that it is not to be used. A cache that moved
/// away from that directory must not bring it back.
#[test]
fn what_was_purged_stays_so_on_other_disks() {
    let version = Arc::new(AtomicU64::new(1));
    let of_origin = version.clone();
    let origin = Origin::start(move |request, stream| {
        let fields = "Cache-Control: max-age=3600\r\nSurrogate-Key: all\r\n";
        reply(stream, request, 200, fields, of_origin.load(Ordering::SeqCst).to_string().as_bytes())
    });
    let home = Home::new();
    let config = configure(&home, &["a", "b"], "16MiB", &origin);
    let mut server = start(&home, &config);
    let ask = |n: usize| get(home.listen, &format!("http://{}/{n}", home.listen)).unwrap();
    (0..20).for_each(|n| assert_eq!(ask(n).text(), "1"));
    version.store(2, Ordering::SeqCst);
    let (code, said) = run(&home, &["purge", "--tag", "all", "--config", &config]);
    assert!(code == Some(0), "{said}");
    assert_eq!(ask(0).text(), "2");
    assert!(server.terminate().success());

    configure(&home, &["c"], "16MiB", &origin);
    let from = ["a", "b"].map(|dir| home.path(dir).display().to_string());
    let (code, said) = run(&home, &["resize", "--config", &config, "--from", &from[0], "--from", &from[1]]);
    assert!(code == Some(0) && said.contains("copied 20 of 2"), "{said}");
    let mut server = start(&home, &config);
    assert!(ask(0).is_hit());
    (0..20).for_each(|n| assert_eq!(ask(n).text(), "2", "{n}"));
    assert!(server.terminate().success());
}

/// Ended by the kernel at some moment: the next start has the cache as it was, or the new one, and all of it.
#[test]
fn killed_in_the_middle_it_loses_nothing() {
    let (home, origin) = (Home::new(), Origin::of_patterns());
    let config = configure(&home, &["a"], "64MiB", &origin);
    let mut server = start(&home, &config);
    assert_eq!(hits(&home, 0..200), 0);
    assert!(server.terminate().success());
    let mut was_whole = [0, 0];
    for wait in [0, 5, 10, 20, 40, 80, 160] {
        let disk = if was_whole[1] % 2 == 0 { "96MiB" } else { "64MiB" };
        let mut command = binary(&home.dir);
        let args = ["resize", "--config", &config, "--disk", disk];
        let mut resize = Process::start("tinaja", command.args(args), &home.path("resize"));
        std::thread::sleep(Duration::from_millis(wait));
        kill_now(resize.pid());
        let ended = resize.wait();
        was_whole[usize::from(ended.success())] += 1;
        let mut server = start(&home, &config);
        let found = hits(&home, 0..200);
        assert!(found >= 198, "{found} of 200, after {wait} ms");
        assert!(!home.path("a/remade").exists());
        assert!(server.terminate().success());
    }
    assert!(was_whole[0] > 0, "none was cut short");
}
