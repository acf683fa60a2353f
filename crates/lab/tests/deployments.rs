//! Section 7 of the HashCache paper: both deployments fit their memory. A process of its own, since all of it is measured.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use tinaja_lab::report::Plot;
use tinaja_lab::{Setup, experiments};

#[test]
fn both_fit_their_memory() {
    let report = (experiments::find("hashcache-deployments").unwrap().run)(&Setup::quick()).unwrap();
    let table = &report.tables[0];
    let numbers = |name: &str| table.column(name).into_iter().map(|cell| cell.value().unwrap()).collect::<Vec<_>>();
    println!("{table:?}");
    for (peak, limit) in numbers("process MB").iter().zip(numbers("limit MB")) {
        assert!(*peak < limit && *peak > 1.0, "{peak} MB of {limit}");
    }
    let index = numbers("index MB");
    assert!((41.0..43.5).contains(&index[1]) && index[0] == 0.0, "none, and 55 bits for each 8 KiB: {index:?}");
    let Plot::Bars { groups, series, .. } = &report.plots[0] else { panic!("memory against its limit") };
    let heights: Vec<f64> = series.iter().map(|bars| bars.points[1].1).collect();
    assert_eq!((groups.len(), series[0].name.as_str(), heights[0], heights[4]), (2, "limit", 300.0, index[1]));
    assert!(numbers("hits %").iter().all(|hits| *hits > 10.0));
}
