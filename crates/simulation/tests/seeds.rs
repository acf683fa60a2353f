//! Simulations by their seeds.
//!
//! ```text
//! cargo test --release -p tinaja-simulation                                                     a thousand seeds, as in CI
//! SEEDS=100000 cargo test --release -p tinaja-simulation --test seeds seeds_hold -- --nocapture   as many as are asked for
//! HOURS=8 FIRST=1000 cargo test --release -p tinaja-simulation --test seeds seeds_hold -- --nocapture   for so long
//! SEED=17 ALOUD=1 cargo test -p tinaja-simulation --test seeds seeds_hold -- --nocapture          one again, with all that happens
//! ```

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tinaja_simulation::{Canary, Plan, Report, run};

/// As many seeds as CI runs.
const SEEDS: u64 = 1000;
/// Within so many seeds each planted bug must be found.
const CANARY_SEEDS: u64 = 60;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}

/// The line that runs a seed again.
fn again(seed: u64) -> String {
    format!("SEED={seed} ALOUD=1 cargo test -p tinaja-simulation --test seeds seeds_hold -- --nocapture")
}

#[derive(Default)]
struct All {
    seeds: u64,
    simulated: Duration,
    requests: u64,
    failed: u64,
    hits: u64,
    over_http2: u64,
    asked: u64,
    events: u64,
    found: Vec<String>,
}

impl All {
    fn add(&mut self, seed: u64, report: &Report) {
        self.seeds += 1;
        self.simulated += report.simulated;
        self.requests += report.requests;
        self.failed += report.failed;
        self.hits += report.hits;
        self.over_http2 += report.over_http2;
        self.asked += report.asked as u64;
        self.events += report.events;
        // One leads to others.
        for fault in report.faults.iter().take(2) {
            let fault: String = fault.chars().take(900).collect();
            let found = format!("seed {seed}: {fault}\n  {}", again(seed));
            println!("{found}");
            self.found.push(found);
        }
    }
}

#[test]
fn seeds_hold() {
    let one = number("SEED");
    let first = one.or(number("FIRST")).unwrap_or(0);
    let count = if one.is_some() { 1 } else { number("SEEDS").unwrap_or(SEEDS) };
    let lasts = number("HOURS").map(|hours| Duration::from_secs(3600 * hours));
    let (began, next, all) = (Instant::now(), AtomicU64::new(first), Mutex::new(All::default()));
    let threads = number("THREADS").unwrap_or(2);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Relaxed);
                    let is_over = match lasts {
                        Some(lasts) => began.elapsed() >= lasts,
                        None => seed >= first + count,
                    };
                    if is_over {
                        return;
                    }
                    let report = run(&Plan::of(seed), one.is_some() && number("ALOUD").is_some());
                    all.lock().unwrap().add(seed, &report);
                }
            });
        }
    });
    let all = all.into_inner().unwrap();
    let (took, hours) = (began.elapsed().as_secs_f64(), all.simulated.as_secs_f64() / 3600.0);
    println!(
        "{} seeds: {hours:.1} simulated hours in {took:.1} s with {threads} threads, {:.2} a second; {} requests, {} of them answered \
         whole over HTTP/2, {} hits, {} without a whole answer; {} heads of the origin; {} events",
        all.seeds,
        hours / took,
        all.requests,
        all.over_http2,
        all.hits,
        all.failed,
        all.asked,
        all.events
    );
    assert!(all.over_http2 > 0 || all.seeds < 20, "nobody was answered over HTTP/2");
    assert!(all.found.is_empty(), "{} faults:\n{}", all.found.len(), all.found.join("\n"));
}

/// Everything is decided by the seed, or a failing seed would be worth nothing.
#[test]
fn the_same_seed_gives_the_same_events() {
    let mut hashes = std::collections::BTreeSet::new();
    for seed in 0..40 {
        let [once, again] = [(), ()].map(|()| run(&Plan::of(seed), false));
        assert_eq!((once.hash, once.events), (again.hash, again.events), "seed {seed}");
        assert!(hashes.insert(once.hash), "seed {seed} is like another");
    }
}

/// What finds nothing proves nothing: each of these bugs is planted, and must be found.
#[test]
fn planted_bugs_are_found() {
    for canary in Canary::ALL {
        let found = (0..CANARY_SEEDS).find_map(|seed| {
            let report = run(&Plan::with_canary(seed, canary), false);
            report.faults.first().map(|fault| (seed, fault.chars().take(300).collect::<String>()))
        });
        let Some((seed, fault)) = found else { panic!("{canary:?} was not found in {CANARY_SEEDS} seeds") };
        // And it is the bug that was found: the same world without it holds.
        assert_eq!(
            run(&Plan::without_canary(seed, canary), false).faults,
            Vec::<String>::new(),
            "seed {seed} without a bug"
        );
        println!("{canary:?} was found by seed {seed}: {fault}");
    }
}
