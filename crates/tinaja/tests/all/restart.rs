//! What was stored is there after a stop and after a crash: hits from disk, the right bytes, with the origin gone.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::tinaja::{Setup, Tinaja};
use tinaja_testkit::body::body;
use tinaja_testkit::origin::Origin;

/// Paths of a few hundred objects, from nothing to some megabytes, 35 MB in all.
fn objects() -> Vec<String> {
    const SIZES: [(usize, usize); 9] = [
        (0, 10),
        (1, 10),
        (300, 100),
        (4096, 50),
        (8_000, 100),
        (65_536, 50),
        (200_001, 20),
        (1_000_000, 10),
        (5_000_000, 3),
    ];
    SIZES.iter().flat_map(|(len, count)| (0..*count).map(move |n| format!("/{len}/{n}"))).collect()
}

fn expected(path: &str) -> Vec<u8> {
    body(path, path.split('/').nth(1).unwrap().parse().unwrap())
}

/// Ask for every object; panics unless each is right. Returns how many were hits.
fn ask_for_all(proxy: &Tinaja, origin: &Origin, objects: &[String]) -> usize {
    let hits = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for share in objects.chunks(objects.len().div_ceil(8)) {
            let hits = &hits;
            scope.spawn(move || {
                for path in share {
                    let response = proxy.get(&origin.url(path)).unwrap();
                    assert_eq!(response.status, 200, "{path}");
                    assert!(response.body == expected(path), "wrong bytes for {path}: {} of them", response.body.len());
                    hits.fetch_add(usize::from(response.is_hit()), Ordering::Relaxed);
                }
            });
        }
    });
    hits.into_inner()
}

#[test]
fn a_stop_keeps_everything() {
    let mut origin = Origin::of_patterns();
    let setup = Setup::forward();
    let objects = objects();
    let mut proxy = setup.start();
    assert_eq!(ask_for_all(&proxy, &origin, &objects), 0);
    assert_eq!(proxy.process.terminate().code(), Some(0), "{}", setup.output());

    origin.stop();
    let mut proxy = setup.start();
    assert_eq!(ask_for_all(&proxy, &origin, &objects), objects.len());
    assert_eq!(proxy.process.terminate().code(), Some(0), "{}", setup.output());
}

#[test]
fn a_crash_keeps_what_was_flushed() {
    let mut origin = Origin::of_patterns();
    let setup = Setup::forward();
    let objects = objects();
    let mut proxy = setup.start();
    ask_for_all(&proxy, &origin, &objects);
    // What is stored is in the file after half a second.
    std::thread::sleep(Duration::from_secs(1));
    proxy.process.kill();

    origin.stop();
    let proxy = setup.start();
    assert_eq!(ask_for_all(&proxy, &origin, &objects), objects.len());
}

#[test]
fn a_crash_in_the_middle_of_writing_leaves_no_wrong_byte() {
    let origin = Origin::of_patterns();
    let setup = Setup::forward();
    let objects = objects();
    for round in 0..5 {
        let mut proxy = setup.start();
        std::thread::scope(|scope| {
            let (address, origin) = (proxy.address(), &origin);
            // Requests break off when the proxy dies: only whole answers count, and they must be right.
            for share in objects.chunks(objects.len().div_ceil(4)) {
                scope.spawn(move || {
                    for path in share {
                        let Ok(response) = tinaja_testkit::client::get(address, &origin.url(path)) else {
                            continue;
                        };
                        assert!(response.status != 200 || response.body == expected(path), "wrong bytes for {path}");
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(150 + 200 * round));
            proxy.process.kill();
        });
    }
    let proxy = setup.start();
    ask_for_all(&proxy, &origin, &objects);
    assert_eq!(ask_for_all(&proxy, &origin, &objects), objects.len());
}

#[test]
fn a_cache_on_two_disks_is_found_again() {
    let mut origin = Origin::of_patterns();
    let more = tempfile::TempDir::new().unwrap();
    let setup = Setup::forward().flags(&["--cache", more.path().to_str().unwrap()]);
    let objects: Vec<_> = (0..40).map(|n| format!("/5000/{n}")).collect();
    let mut proxy = setup.start();
    assert_eq!(ask_for_all(&proxy, &origin, &objects), 0);
    assert_eq!(proxy.process.terminate().code(), Some(0), "{}", setup.output());
    origin.stop();
    for dir in [setup.cache_dir(), more.path()] {
        assert!(dir.join("tinaja.cache").exists(), "{}", dir.display());
    }
    let proxy = setup.start();
    assert_eq!(ask_for_all(&proxy, &origin, &objects), objects.len());
}
