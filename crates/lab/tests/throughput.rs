//! Rates of the HashCache paper's policies: their order, and that they follow from the requests that were counted.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use tinaja_lab::report::Table;
use tinaja_lab::{Setup, experiment};

fn numbers(table: &Table, column: &str) -> Vec<f64> {
    table.column(column).into_iter().map(|cell| cell.value().unwrap_or(f64::NAN)).collect()
}

#[test]
fn rates_follow_from_requests_and_are_in_the_papers_order() {
    let report = (experiment::find("hashcache-throughput").unwrap().run)(&Setup::quick()).unwrap();
    for table in &report.tables[..2] {
        let (measured, counted) = (numbers(table, "measured"), numbers(table, "t / requests"));
        for (measured, counted) in measured.iter().zip(counted) {
            assert!((0.95..1.7).contains(&(measured / counted)), "{measured} and {counted}: shorter seeks, no more");
        }
        let [basic, set, set_mem, set_mem_lru, log_lru, log_n, log] = measured.try_into().unwrap();
        // Figure 3 and Table 7: those that ask the disk for misses, then SetMem, then the logs.
        for without in [basic, set] {
            assert!(set_mem_lru > without && set_mem > set_mem_lru * 1.05, "{table:?}");
        }
        assert!(log_n > set_mem * 1.5 && log > set_mem * 1.5 && log_lru > set_mem * 1.5);
        let hits = numbers(table, "CHR %");
        assert!(hits[1..].iter().all(|ratio| (50.0..60.0).contains(ratio)), "all offered hits: {hits:?}");
        assert!(hits[0] < hits[1], "Basic loses objects that collide");
        for (misses, range) in numbers(table, "reads a miss").iter().zip([0.99, 0.99, 0.0, 0.3, 0.0, 0.0, 0.0]) {
            assert!((range..range + 0.5).contains(misses));
        }
    }
    let two = &report.tables[3];
    assert!(numbers(two, "gain").iter().all(|gain| (1.6..2.15).contains(gain)), "{two:?}");
    let large = report.tables.last().unwrap();
    let of_two = large.rows.iter().filter(|row| row[1].to_string() == "2").count();
    assert_eq!((large.rows.len() - of_two, of_two), (6, 3));
    for column in ["hit ms", "miss ms"] {
        assert!(numbers(large, column).iter().all(|time| *time > 1.0), "{column}");
    }
}
