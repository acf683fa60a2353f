//! Rates of the HashCache paper's policies: their order, and that they follow from the requests that were counted.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use tinaja_lab::report::Table;
use tinaja_lab::{Setup, experiments};

fn numbers(table: &Table, column: &str) -> Vec<f64> {
    table.column(column).into_iter().map(|cell| cell.value().unwrap_or(f64::NAN)).collect()
}

fn row(table: &Table, name: &str) -> usize {
    table.column("policy").iter().position(|policy| policy.to_string() == name).unwrap()
}

#[test]
fn rates_follow_from_requests_and_are_in_the_papers_order() {
    let report = (experiments::find("hashcache-throughput").unwrap().run)(&Setup::quick()).unwrap();
    for table in &report.tables[..2] {
        let (measured, counted) = (numbers(table, "measured"), numbers(table, "t / requests"));
        for (measured, counted) in measured.iter().zip(counted) {
            assert!((0.9..1.8).contains(&(measured / counted)), "{measured} and {counted}: shorter seeks, no more");
        }
        // What is counted of each kind of request is all that is charged: the page can be recomputed from its columns.
        let columns = ["t", "CHR %", "CBR %", "reads a hit", "reads a miss", "reads a store", "writes a store"];
        let columns = columns.map(|name| numbers(table, name));
        for (line, counted) in numbers(table, "t / requests").into_iter().enumerate() {
            let [t, chr, cbr, hit, miss, read, written] = columns.each_ref().map(|column| column[line]);
            let (chr, cbr) = (chr / 100.0, cbr / 100.0);
            let again = t / (chr * hit + (1.0 - chr) * (miss + cbr * (read + written)));
            assert!((again / counted - 1.0).abs() < 0.01, "line {line}: {again} from the columns, {counted}");
        }
        // Batches that go out ten times a second are more than the full ones of a run in virtual time.
        let paced = numbers(table, "at real pace");
        for (name, (paced, measured)) in table.column("policy").iter().zip(paced.iter().zip(&measured)) {
            assert!((0.6..1.001).contains(&(paced / measured)), "{name}: {paced} of {measured}");
            assert!(name.to_string() != "hashcache-logn" || *paced < measured * 0.97, "{paced} of {measured}");
        }
        let rate = |name: &str| measured[row(table, name)];
        for suffix in ["", " + prefetch"] {
            let rate = |name: &str| rate(&format!("{name}{suffix}"));
            // Figure 3 and Table 7: those that ask the disk for misses, then SetMem, then the logs.
            let (set_mem, some) = (rate("hashcache-setmem"), rate("hashcache-setmemlru 40 %"));
            assert!(some > rate("hashcache-basic") && some > rate("hashcache-set") && set_mem > some * 1.05);
            assert!(rate("hashcache-log") > set_mem * 1.5 && rate("hashcache-loglru") > set_mem * 1.5, "{table:?}");
        }
        assert!(rate("hashcache-log + prefetch") > rate("hashcache-logn") * 1.2, "related objects in one read");
        let hits = numbers(table, "CHR %");
        let basic = hits[row(table, "hashcache-basic")];
        assert!(hits.iter().all(|ratio| (40.0..60.0).contains(ratio)), "{hits:?}");
        assert!(basic + 3.0 < hits[row(table, "hashcache-set")], "Basic loses objects that collide");
        for (name, range) in [("hashcache-set", 0.99), ("hashcache-setmemlru 40 %", 0.3), ("hashcache-log", 0.0)] {
            let misses = numbers(table, "reads a miss")[row(table, name)];
            assert!((range..range + 0.5).contains(&misses), "{name}: {misses}");
        }
    }
    let two = &report.tables[3];
    for (name, gain) in two.column("policy").iter().zip(numbers(two, "gain")) {
        // Related objects are spread over both disks, so that a page is a request to each.
        let least = if name.to_string().contains("log") && name.to_string().ends_with("prefetch") { 1.2 } else { 1.7 };
        assert!((least..2.3).contains(&gain), "{name}: {gain}");
    }
    let eight = &report.tables[4];
    let [log, _, _, ours] = &numbers(eight, "requests/s")[..] else { panic!("{eight:?}") };
    assert!(ours > &(log * 0.5) && numbers(eight, "miss ms")[3] >= 2500.0, "{eight:?}");
    assert!(numbers(eight, "busy %")[3] < 100.0, "four fifths of the peak are carried: {eight:?}");
    let large = report.tables.last().unwrap();
    let of_two = large.rows.iter().filter(|row| row[1].to_string() == "2").count();
    // LogLRU has a row more, with its positions on a disk of their own; the paper has numbers for one disk.
    assert_eq!((large.rows.len() - of_two, of_two), (7, 4));
    for column in ["hit ms", "miss ms"] {
        assert!(numbers(large, column).iter().all(|time| *time > 1.0), "{column}");
    }
}
