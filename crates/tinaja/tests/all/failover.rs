//! Three origins behind a route, one of which is killed and revived under load; figures, and a list that is reloaded.

use std::fs;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::home::Home;
use tinaja_testkit::body::body;
use tinaja_testkit::client::get;
use tinaja_testkit::nginx::Nginx;
use tinaja_testkit::port::free_port;
use tinaja_testkit::wait::eventually;

const CLIENTS: usize = 8;
/// Requests of each part of the load, at least.
const PART: usize = 300;
const LEN: usize = 5_000;

fn nginx() -> Nginx {
    Nginx::start(|root| fs::write(root.join("file"), body("file", LEN)).unwrap())
}

fn reverse(origins: &[&Nginx], more: &str) -> String {
    let list: Vec<String> = origins.iter().map(|origin| format!("\"{}\"", origin.url(""))).collect();
    format!("mode = \"reverse\"\norigins = [{}]\n[listener.upstream]\n{more}\n", list.join(", "))
}

/// One figure of an origin.
fn figure(metrics: SocketAddr, name: &str, origin: &Nginx, label: &str) -> f64 {
    let answer = get(metrics, "/metrics").unwrap();
    let text = String::from_utf8(answer.body).unwrap();
    let url = format!("origin=\"{}\"", origin.url(""));
    let fits = |line: &&str| line.starts_with(&format!("{name}{{")) && line.contains(&url) && line.contains(label);
    let line = text.lines().find(fits).unwrap_or_else(|| panic!("{name} of {url} in {text}"));
    line.rsplit_once(' ').unwrap().1.parse().unwrap()
}

#[test]
fn one_of_three_is_killed_and_revived_under_load() {
    let (one, mut two, three) = (nginx(), nginx(), nginx());
    let mut home = Home::new();
    let metrics = SocketAddr::from(([127, 0, 0, 1], free_port()));
    home.top = format!("metrics = \"{metrics}\"\n");
    let mut tinaja = home.start(&reverse(&[&one, &two, &three], "balance = \"round-robin\"\nrest = \"300ms\""));
    let (done, failed, stop) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                while !stop.load(Ordering::SeqCst) {
                    // Each is asked for once, so that every request goes to an origin.
                    let number = done.fetch_add(1, Ordering::SeqCst);
                    let answer = get(home.listen, &format!("/file?{number}"));
                    let good = answer.is_ok_and(|answer| answer.status == 200 && answer.body == body("file", LEN));
                    failed.fetch_add(usize::from(!good), Ordering::SeqCst);
                }
            });
        }
        let part = || {
            let until = done.load(Ordering::SeqCst) + PART;
            let began = Instant::now();
            while done.load(Ordering::SeqCst) < until {
                assert!(began.elapsed() < Duration::from_secs(120), "{PART} requests take too long");
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        part();
        two.kill();
        part();
        let dead = (failed.load(Ordering::SeqCst), figure(metrics, "tinaja_origin_up", &two, ""));
        two.revive();
        eventually("the killed origin is asked again", || figure(metrics, "tinaja_origin_up", &two, "") == 1.0);
        part();
        stop.store(true, Ordering::SeqCst);
        assert_eq!(dead.1, 0.0, "requests still go to a dead origin");
    });
    let (done, failed) = (done.into_inner(), failed.into_inner());
    let retries = figure(metrics, "tinaja_origin_retries_total", &two, "");
    let answered =
        [&one, &two, &three].map(|origin| figure(metrics, "tinaja_origin_attempts_total", origin, "\"answered\""));
    println!("{done} requests of {CLIENTS} clients, one of three origins killed and revived: {failed} failed");
    println!("sent on after a failure: {retries}; answered by each: {answered:?}");
    // An answer that had begun when it was killed cannot be asked for again: one for each client at most.
    assert!(failed <= CLIENTS, "{failed}");
    assert!(retries >= 1.0 && answered.iter().all(|count| *count >= 50.0), "{retries} {answered:?}");
    assert!(tinaja.output().contains("origin is down") && tinaja.output().contains("origin is up again"));
    assert!(tinaja.terminate().success());
}

#[test]
fn a_reload_changes_the_list_and_keeps_what_is_known() {
    let (mut one, two, three) = (nginx(), nginx(), nginx());
    let mut home = Home::new();
    let metrics = SocketAddr::from(([127, 0, 0, 1], free_port()));
    home.top = format!("metrics = \"{metrics}\"\n");
    let settings = "fails = 1\nrest = \"1h\"";
    let tinaja = home.start(&reverse(&[&one, &two], settings));
    let asked = |origin: &Nginx| origin.log().len();
    one.kill();
    assert_eq!(get(home.listen, "/file?1").unwrap().status, 200);
    assert_eq!(asked(&two), 1);
    one.revive();
    let _ = home.command(&reverse(&[&three, &one], settings));
    tinaja.signal(Signal::HUP);
    eventually("it is logged", || tinaja.output().contains("reloaded the settings"));
    assert_eq!(get(home.listen, "/file?2").unwrap().status, 200);
    assert_eq!(asked(&three), 1);
    // What was out is out still, for an hour.
    assert_eq!(figure(metrics, "tinaja_origin_up", &one, ""), 0.0);
    let _ = home.command(&reverse(&[&one, &three], settings));
    tinaja.signal(Signal::HUP);
    eventually("it is logged", || tinaja.output().matches("reloaded the settings").count() == 2);
    assert_eq!(get(home.listen, "/file?3").unwrap().status, 200);
    assert_eq!((asked(&one), asked(&three)), (0, 2));
}
