//! A server whose link is down, as it is run: what was fetched before is served, nobody is asked, and a reload ends it.

use std::process::Output;
use std::thread::sleep;
use std::time::Duration;

use crate::support::home::Home;
use crate::support::tinaja::binary;
use tinaja_testkit::client::get;
use tinaja_testkit::origin::{Origin, reply};
use tinaja_testkit::process::Process;
use tinaja_testkit::tools::{output, run};
use tinaja_testkit::wait::eventually;

const FORWARD: &str = "allow_destination = \"127.0.0.0/8\"";

/// An answer's status, and what it says of the cache.
fn asked(home: &Home, url: &str) -> (u16, String) {
    let answer = get(home.listen, url).unwrap();
    (answer.status, answer.cache_status().to_owned())
}

fn said(home: &Home, words: &[&str]) -> String {
    let Output { stdout, stderr, .. } = output(binary(&home.dir).args(words).arg("--cache").arg(home.path("cache")));
    String::from_utf8([stdout, stderr].concat()).unwrap()
}

#[test]
fn fetched_before_it_is_served_and_a_reload_brings_the_origin_back() {
    let origin = Origin::start(|request, stream| {
        let fields = match request.path.as_str() {
            "/strict" => "Cache-Control: max-age=1, must-revalidate\r\n",
            _ => "Cache-Control: max-age=1\r\n",
        };
        reply(stream, request, 200, fields, b"body")
    });
    let [page, strict, new, later] = ["/page", "/strict", "/new", "/later"].map(|path| origin.url(path));
    let mut home = Home::new();
    let mut online = home.start(FORWARD);
    for url in [&page, &strict] {
        assert_eq!(asked(&home, url).1, "Tinaja; fwd=uri-miss; fwd-status=200; stored");
    }
    assert!(online.terminate().success());
    sleep(Duration::from_millis(2100));

    // By the flag: stale is served, what is strict or absent is not, and it is said everywhere.
    let mut command = home.command(FORWARD);
    let checked = run(home.command(FORWARD).args(["--offline", "--check"]));
    assert!(checked.contains("  is offline: it asks no origin"), "{checked}");
    let mut flagged = Process::start("tinaja", command.arg("--offline"), &home.path("output"));
    flagged.wait_until_listening(home.listen);
    // It listens before it says what it does.
    eventually("it says so", || flagged.output().contains("  offline    no origin is asked"));
    let (status, told) = asked(&home, &page);
    assert!(status == 200 && told.starts_with("Tinaja; hit; ttl=-") && told.ends_with("; detail=OFFLINE"), "{told}");
    assert_eq!([&strict, &new].map(|url| asked(&home, url).0), [504, 504]);
    for (url, why) in [
        (&page, "a hit: offline, it is stale, and may be served so"),
        (&strict, "refused: offline, it is stale, and must be validated before it is used"),
        (&new, "refused: offline, nothing is stored under this name"),
    ] {
        let explained = said(&home, &["explain", url]);
        assert!(explained.contains(why), "{why} in {explained}");
    }
    // The flag counts before the file, whatever is read again.
    assert!(said(&home, &["reload"]).contains("the new settings are in use"));
    assert_eq!(asked(&home, &new).0, 504);
    assert!(flagged.terminate().success());
    assert_eq!(origin.count(), 2, "the origin was asked: {:?}", origin.paths());

    // By the file: a reload ends it, and another begins it.
    home.top = "offline = true\n".into();
    let filed = home.start(FORWARD);
    assert_eq!([&page, &new].map(|url| asked(&home, url).0), [200, 504]);
    assert_eq!(origin.count(), 2);
    home.top.clear();
    let _ = home.command(FORWARD);
    assert!(said(&home, &["reload"]).contains("the new settings are in use"));
    assert_eq!(asked(&home, &new), (200, "Tinaja; fwd=uri-miss; fwd-status=200; stored".to_owned()));
    assert_eq!(asked(&home, &strict).0, 200);
    assert_eq!(origin.count(), 4);
    home.top = "offline = true\n".into();
    let _ = home.command(FORWARD);
    assert!(said(&home, &["reload"]).contains("the new settings are in use"));
    assert_eq!([&new, &later].map(|url| asked(&home, url).0), [200, 504]);
    assert_eq!(origin.count(), 4);
    let log = filed.output();
    assert!(log.contains("online: origins are asked again") && log.contains("offline: no origin is asked"), "{log}");
}
