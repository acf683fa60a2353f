//! `purge` and `inspect`, of a cache that is being served from, of one that is stopped, and of one whose server was killed.

use std::os::unix::net::UnixListener;
use std::process::Output;

use crate::support::tinaja::Setup;
use tinaja_testkit::origin::Origin;
use tinaja_testkit::tools::output;

/// The exit code, and what was printed on either.
fn run(setup: &Setup, args: &[&str]) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } =
        output(setup.binary().args(args).arg("--cache").arg(setup.cache_dir()).env("TINAJA_LOG", "error"));
    (status.code(), String::from_utf8([stdout, stderr].concat()).unwrap())
}

fn inspect(setup: &Setup) -> serde_json::Value {
    let (code, said) = run(setup, &["inspect", "--json"]);
    assert_eq!(code, Some(0), "{said}");
    serde_json::from_str(&said).unwrap()
}

/// The host with the most objects, and how many.
fn first_host(report: &serde_json::Value) -> (String, u64) {
    let host = &report["top"]["by_objects"][0];
    (host["host"].as_str().unwrap().to_owned(), host["objects"].as_u64().unwrap())
}

#[test]
fn a_running_server_is_asked_and_a_stopped_cache_is_opened() {
    let (origin, other) = (Origin::of_patterns(), Origin::of_patterns());
    let setup = Setup::forward();
    let mut proxy = setup.start();
    let urls: Vec<String> = (0..5).map(|n| origin.url(&format!("/1000/{n}"))).collect();
    for url in urls.iter().chain([&other.url("/50000/big")]) {
        proxy.get(url).unwrap();
        assert!(proxy.get(url).unwrap().is_hit());
    }

    let running = inspect(&setup);
    assert_eq!((running["running"].as_bool(), running["live_objects"].as_u64()), (Some(true), Some(6)));
    assert_eq!(first_host(&running), (origin.address.to_string(), 5));
    assert_eq!(running["top"]["by_bytes"][0]["host"].as_str(), Some(other.address.to_string().as_str()));
    let (code, table) = run(&setup, &["inspect", "--top", "1"]);
    assert_eq!(code, Some(0), "{table}");
    for line in ["server                running", "objects read          6 of", "most objects                   5"] {
        assert!(table.contains(line), "{line:?} in {table}");
    }

    assert_eq!(
        run(&setup, &["purge", &urls[0], "http://never.example/"]),
        (Some(0), format!("{}: purged\nhttp://never.example/: was not in the cache\n", urls[0]))
    );
    assert!(!proxy.get(&urls[0]).unwrap().is_hit() && proxy.get(&urls[1]).unwrap().is_hit());
    let (code, said) = run(&setup, &["purge", "www.example.org"]);
    assert!(code == Some(1) && said.contains("http://www.example.org/a.png"), "{said}");

    proxy.process.terminate();
    let stopped = inspect(&setup);
    assert_eq!((stopped["running"].as_bool(), first_host(&stopped)), (Some(false), first_host(&running)));
    assert_eq!(
        run(&setup, &["purge", &urls[1], &urls[2], &urls[1]]),
        (Some(0), format!("{0}: purged\n{1}: purged\n{0}: was not in the cache\n", urls[1], urls[2]))
    );
    let again = setup.start();
    for (url, hit) in urls.iter().zip([true, false, false, true, true]) {
        assert_eq!(again.get(url).unwrap().is_hit(), hit, "{url}");
    }
}

#[test]
fn what_a_killed_server_left_is_in_nobodys_way() {
    let origin = Origin::of_patterns();
    let setup = Setup::forward();
    let mut proxy = setup.start();
    let url = origin.url("/1000/x");
    proxy.get(&url).unwrap();
    // What is not yet written when a process is killed is lost; a second is ample.
    std::thread::sleep(std::time::Duration::from_secs(1));
    proxy.process.kill();
    let socket = setup.cache_dir().join("tinaja.sock");
    assert!(socket.exists(), "nothing is left to be tested with");
    assert_eq!(inspect(&setup)["running"].as_bool(), Some(false));
    let proxy = setup.start();
    assert_eq!(inspect(&setup)["running"].as_bool(), Some(true));
    assert_eq!(run(&setup, &["purge", &url]), (Some(0), format!("{url}: purged\n")));
    assert!(!proxy.get(&url).unwrap().is_hit());
}

#[test]
fn a_server_that_does_not_answer_is_said_to() {
    let setup = Setup::forward();
    let (code, said) = run(&setup, &["purge", "http://a/"]);
    assert!(code == Some(1) && said.contains("there is no cache in"), "{said}");
    // At once: whoever listens can be asked to stop.
    assert_eq!(setup.start().process.terminate().code(), Some(0));
    // Something else listens there, and hangs up.
    let listener = UnixListener::bind(setup.cache_dir().join("tinaja.sock")).unwrap();
    let thread = std::thread::spawn(move || {
        for _ in 0..2 {
            drop(listener.accept().unwrap());
        }
    });
    for args in [&["purge", "http://a/"][..], &["inspect"]] {
        let (code, said) = run(&setup, args);
        assert!(code == Some(1) && said.contains("tinaja.sock"), "{said}");
    }
    thread.join().unwrap();
}
