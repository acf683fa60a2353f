//! Steady load while settings are read again and new processes take over: no request fails, and what was stored is found.
//!
//! In the short form that runs with all tests, one reload and two hand-overs; `scripts/hand-over` runs the long one: a minute,
//! 64 connections, five of each.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::support::home::{Home, reverse};
use crate::support::tinaja::binary;
use tinaja_testkit::load::{Load, Plan};
use tinaja_testkit::origin::Origin;
use tinaja_testkit::port::free_port;
use tinaja_testkit::process::Process;
use tinaja_testkit::tools::run;
use tinaja_testkit::wait::wait_for;

/// What takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A number from the environment, for the long form.
fn number(name: &str, short: u64) -> u64 {
    std::env::var(name).map_or(short, |value| value.parse().unwrap())
}

/// Starts another process that takes over, and waits until it has.
fn take_over(home: &Home, mode: &str, run: usize) -> Process {
    let mut command = home.command(mode);
    let new = Process::start("tinaja", command.arg("--take-over"), &home.path(&format!("output-{run}")));
    wait_for("a process to take over", PATIENCE, || new.output().contains("took over").then_some(()));
    new
}

/// Has every object stored: from then on the origin is asked only where requests pass by.
fn fill(plan: &Plan) {
    let one = Plan { http1: 1, http2: 0, pause: Duration::ZERO, ..plan.clone() };
    wait_for("all objects to be stored", PATIENCE, || {
        let load = Load::start(&one);
        load.more(one.paths.len() as u64);
        let tally = load.end();
        (tally.others.load(Ordering::SeqCst) == 0).then_some(())
    });
}

#[test]
fn no_request_fails_and_no_object_is_lost() {
    let (reloads, hand_overs) = (number("TINAJA_RELOADS", 1), number("TINAJA_HAND_OVERS", 2));
    let connections = number("TINAJA_CONNECTIONS", 16) as usize;
    let seconds = number("TINAJA_SECONDS", 0);
    let origin = Origin::of_patterns();
    let mut home = Home::new();
    let www = home.certificate("www", "DNS:www.test");
    let metrics = SocketAddr::from(([127, 0, 0, 1], free_port()));
    home.top = format!("metrics = \"{metrics}\"\n");
    let mode = reverse(&origin);
    let mut tinaja = home.start(&mode);
    // From hundreds of bytes to more than one piece: 200 objects of 8 MB together, in memory and on disk.
    let paths: Vec<String> = (0..200).map(|number| format!("/{}/object-{number}", 300 + number * 400)).collect();
    let plan = Plan {
        server: home.listen,
        name: "www.test".into(),
        authority: www.authority.clone(),
        http1: connections / 2,
        http2: connections - connections / 2,
        paths,
        pause: Duration::from_millis(number("TINAJA_PAUSE_MS", 5)),
    };
    fill(&plan);
    let asked = origin.paths().len();
    let load = Load::start(&plan);
    let began = Instant::now();
    let part = Duration::from_secs(seconds) / (reloads + hand_overs + 1) as u32;
    for step in 0..(reloads + hand_overs) as usize {
        load.more(connections as u64 * 5);
        std::thread::sleep((part * (step as u32 + 1)).saturating_sub(began.elapsed()));
        if step % 2 == 0 && step / 2 < reloads as usize || step >= 2 * hand_overs as usize {
            run(binary(&home.dir).args(["reload", "--cache"]).arg(home.path("cache")));
            continue;
        }
        let passed = load.tally().bypassed.load(Ordering::SeqCst);
        let new = take_over(&home, &mode, step);
        let mut old = std::mem::replace(&mut tinaja, new);
        assert!(old.wait().success(), "{}", old.output());
        load.more(connections as u64 * 5);
        let said = tinaja.output();
        let line = said.lines().find(|line| line.contains("took over")).unwrap_or_default().to_owned();
        let passed = load.tally().bypassed.load(Ordering::SeqCst) - passed;
        println!("{passed} requests passed by: {line}");
    }
    load.more(connections as u64 * 5);
    std::thread::sleep(Duration::from_secs(seconds).saturating_sub(began.elapsed()));
    let tally = load.end();
    tally.check();
    println!("{:.1} s, {connections} connections: {}", began.elapsed().as_secs_f64(), tally.figures());
    // Every answer was a hit or passed by, and each that passed by was asked of the origin once: nothing was lost.
    assert_eq!(tally.others.load(Ordering::SeqCst), 0, "{}", tally.figures());
    let passed = tally.bypassed.load(Ordering::SeqCst);
    assert_eq!((origin.paths().len() - asked) as u64, passed, "{}", tally.figures());
    assert!(tally.hits.load(Ordering::SeqCst) > 0);
    assert!(tinaja.terminate().success(), "{}", tinaja.output());
}
