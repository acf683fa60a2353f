//! A machine without a battery starts in the past: what it has stored keeps its age, and the log, the metrics and the health say what is
//! wrong. Before, everything in the cache came from the future and was fetched anew, and what was stored then seemed fresh for years once
//! the network had set the clock.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use tinaja_testkit::body::body;
use tinaja_testkit::client::get;
use tinaja_testkit::origin::Origin;
use tinaja_testkit::port::free_port;

use crate::support::tinaja::{FAKETIME, Setup};

const SAID: &str = "the system's clock says";

fn seconds_behind(metrics: SocketAddr) -> f64 {
    let text = get(metrics, "/metrics").unwrap().text();
    text.lines().find_map(|line| line.strip_prefix("tinaja_clock_behind_seconds ")).unwrap().parse().unwrap()
}

#[test]
fn a_clock_that_starts_in_the_past_goes_on_where_the_cache_was_written_to() {
    if !Path::new(FAKETIME).exists() {
        eprintln!("SKIPPED: {FAKETIME} is not there; the package faketime has it");
        return;
    }
    let origin = Origin::of_patterns();
    let metrics = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let config = tempfile::NamedTempFile::new().unwrap();
    fs::write(config.path(), format!("metrics = \"{metrics}\"\n")).unwrap();
    let mut setup = Setup::forward().flags(&["--config", config.path().to_str().unwrap()]);
    let url = origin.url("/3000/x");
    let mut proxy = setup.start();
    assert!(!proxy.get(&url).unwrap().is_hit());
    assert_eq!((seconds_behind(metrics), get(metrics, "/healthz").unwrap().text().as_str()), (0.0, "ok\n"));
    assert_eq!(proxy.process.terminate().code(), Some(0), "{}", setup.output());
    for (run, (clock, its_year)) in [("-7d", ""), ("@1970-01-02 00:00:00", "1970"), ("-3h", "")].into_iter().enumerate()
    {
        setup = setup.with_clock(clock);
        let mut proxy = setup.start();
        let answer = proxy.get(&url).unwrap();
        assert!(answer.is_hit() && answer.body == body("/3000/x", 3000), "{clock}: {answer:?}");
        let age: u64 = answer.header("age").unwrap().parse().unwrap();
        assert!(age < 3600, "{clock}: {age} s");
        assert!(seconds_behind(metrics) > 3.0 * 3600.0 - 600.0, "{clock}");
        let health = get(metrics, "/healthz").unwrap().text();
        assert!(health.starts_with("degraded: the system's clock is "), "{health}");
        // A stop keeps what is known, and does not take the clock's word for it.
        assert_eq!(proxy.process.terminate().code(), Some(0), "{}", setup.output());
        let output = setup.output();
        let lines: Vec<_> = output.lines().filter(|line| line.contains(SAID)).collect();
        assert_eq!(lines.len(), run + 1, "once at each start: {output}");
        let says = lines[run];
        let year = if its_year.is_empty() { "GMT" } else { its_year };
        assert!(says.contains(year) && says.contains("tinaja.clock") && says.matches(" GMT").count() == 3, "{says}");
    }
    assert_eq!(origin.count(), 1);
    // The clock is right again: nothing more is said.
    setup = setup.with_clock("");
    let mut proxy = setup.start();
    assert!(proxy.get(&url).unwrap().is_hit());
    assert_eq!((seconds_behind(metrics), get(metrics, "/healthz").unwrap().text().as_str()), (0.0, "ok\n"));
    proxy.process.kill();
    assert_eq!(setup.output().matches(SAID).count(), 3);
    // Without what was written down, nobody knows: what is stored is from the future, and counts as stale.
    fs::remove_file(setup.cache_dir().join("tinaja.clock")).unwrap();
    setup = setup.with_clock("-7d");
    let mut proxy = setup.start();
    assert!(!proxy.get(&url).unwrap().is_hit());
    assert_eq!((origin.count(), setup.output().matches(SAID).count()), (2, 3));
    // A process that is killed leaves files of its clock, and the library ends the next one of its number.
    assert_eq!(proxy.process.terminate().code(), Some(0), "{}", setup.output());
}
