//! Killed under load, twenty times: what was stored before is a hit at once, and no byte is wrong.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::tinaja::{Setup, Tinaja};
use tinaja_testkit::body::body;
use tinaja_testkit::client::{Response, get};
use tinaja_testkit::origin::Origin;

const KILLS: usize = 20;
const CLIENTS: usize = 4;
const LENGTHS: [usize; 6] = [0, 300, 8_000, 65_536, 200_001, 1_000_000];

fn path(number: usize) -> String {
    format!("/{}/{number}", LENGTHS[number % LENGTHS.len()])
}

fn assert_right(path: &str, response: &Response) {
    let len = path.split('/').nth(1).unwrap().parse().unwrap();
    assert_eq!(response.status, 200, "{path}");
    assert!(response.body == body(path, len), "wrong bytes for {path}: {} of them", response.body.len());
}

/// Old and new objects, until the proxy is gone. Answers break off when it dies; whole ones must be right.
fn load(proxy: &Tinaja, origin: &Origin, kept: &[String], round: usize, killed: &AtomicBool, answered: &AtomicUsize) {
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            scope.spawn(move || {
                for number in 0.. {
                    if killed.load(Ordering::SeqCst) {
                        return;
                    }
                    let path = match number % 3 {
                        0 => kept[(number * 7 + client) % kept.len()].clone(),
                        _ => path(1_000_000 * (round + 1) + 10_000 * client + number),
                    };
                    if let Ok(response) = get(proxy.address(), &origin.url(&path)) {
                        assert_right(&path, &response);
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
}

#[test]
fn killed_twenty_times_under_load() {
    let origin = Origin::of_patterns();
    // Large enough that nothing kept is evicted by what comes later.
    let flags = ["--disk", "4GiB", "--memory", "8MiB", "--allow-destination", "127.0.0.0/8"];
    let setup = Setup::bare().flags(&flags);
    let kept: Vec<_> = (0..60).map(path).collect();
    let answered = AtomicUsize::new(0);
    let mut proxy = setup.start();
    for path in &kept {
        assert_right(path, &proxy.get(&origin.url(path)).unwrap());
    }
    // What is stored is in the file after half a second.
    std::thread::sleep(Duration::from_secs(1));

    for round in 0..KILLS {
        let killed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (process, running) = (proxy.process.pid(), &proxy);
            let (origin, kept, killed, answered) = (&origin, &kept, &killed, &answered);
            scope.spawn(move || load(running, origin, kept, round, killed, answered));
            std::thread::sleep(Duration::from_millis(100 + 37 * (round as u64 % 7)));
            tinaja_testkit::process::kill_now(process);
            killed.store(true, Ordering::SeqCst);
        });
        proxy.process.wait();
        proxy = setup.start();
        for path in &kept {
            let response = proxy.get(&origin.url(path)).unwrap();
            assert_right(path, &response);
            assert!(response.is_hit(), "{path} after kill {round}: {:?}", response.head);
        }
    }
    println!("{} whole answers under load", answered.load(Ordering::Relaxed));
    assert!(answered.load(Ordering::Relaxed) > KILLS * CLIENTS, "hardly any load");
}
