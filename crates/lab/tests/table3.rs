//! Table 3 of the HashCache paper, as the experiment finds it: bits a slot by the formula, and seeks as the paper has them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use tinaja_lab::report::{Report, Table};
use tinaja_lab::{Setup, experiments};

fn table<'a>(report: &'a Report, start: &str) -> &'a Table {
    report.tables.iter().find(|table| table.title.starts_with(start)).unwrap()
}

fn numbers(table: &Table, column: &str) -> Vec<f64> {
    table.column(column).into_iter().map(|cell| cell.value().unwrap_or(f64::NAN)).collect()
}

fn row(table: &Table, engine: &str, columns: &[&str]) -> Vec<f64> {
    let names = table.column("policy");
    let at = names.iter().position(|name| name.to_string() == engine).unwrap();
    columns.iter().map(|column| numbers(table, column)[at]).collect()
}

#[test]
fn bits_losses_and_seeks_are_table_3s() {
    let report = (experiments::find("hashcache-table3").unwrap().run)(&Setup::quick()).unwrap();
    // Bits as allocated, within half a bit of the formula: of the table itself and of both sweeps.
    for start in ["Bits a slot", "SetMemLRU:", "LogLRU:"] {
        let table = table(&report, start);
        for (bits, formula) in [("bits a slot", "formula"), ("bits + prefetch", "formula + prefetch")] {
            let (bits, formula) = (numbers(table, bits), numbers(table, formula));
            for (bits, formula) in bits.iter().zip(&formula) {
                assert!((bits - formula).abs() <= 0.5, "{start} {bits} bits, {formula} by the formula");
            }
            assert!(bits.len() > 1 || start == "Bits a slot");
        }
    }
    let losses = table(&report, "Objects lost");
    for (lost, predicted) in numbers(losses, "lost, %").iter().zip(numbers(losses, "predicted, %")) {
        assert!((lost - predicted).abs() < 2.5, "{lost} % lost, {predicted} % predicted");
    }
    let one_block = table(&report, "Requests for objects of one block");
    let cost = |engine: &str| {
        let columns = ["seeks a hit", "seeks a store", "seeks a miss"];
        row(one_block, engine, &columns).try_into().unwrap()
    };
    let near = |found: [f64; 3], paper: [f64; 3]| {
        for (found, paper) in found.iter().zip(paper) {
            // Two requests in a row lie next to each other now and then; fingerprints of misses agree now and then.
            assert!((found - paper).abs() < 0.06, "{found} seeks, {paper} in the paper");
        }
    };
    // What does not fit its bin begins there all the same (section 3.1).
    let sizes = table(&report, "Requests for objects of Table 5's sizes");
    for engine in ["hashcache-basic", "hashcache-set", "hashcache-setmem", "hashcache-setmemlru 40 %"] {
        let [beginning, whole] = row(sizes, engine, &["reads of a beginning", "reads a hit"])[..] else { panic!() };
        assert!((0.99..1.01).contains(&beginning) && whole > 1.1, "{engine}: {beginning}, {whole} for all of it");
    }
    near(cost("hashcache-basic"), [1.0, 1.0, 1.0]);
    near(cost("hashcache-set"), [1.0, 1.0, 1.0]);
    near(cost("hashcache-setmem"), [1.0, 1.0, 0.0]);
    near(cost("hashcache-logn"), [1.0, 0.0, 0.0]);
    near(cost("hashcache-log"), [1.0, 0.0, 0.0]);
    let [hit, store, miss] = cost("hashcache-setmemlru 40 %");
    assert!(hit < 1.01 && store <= 1.02 && (0.4..0.8).contains(&miss), "{hit} {store} {miss}");
    // "< 1 / ~0 / 0": five related objects in one read, and a second one for each position that is on disk.
    for (engine, most) in [("hashcache-log", 0.3), ("hashcache-loglru", 1.0)] {
        let [hit, store, miss] = cost(&format!("{engine} + prefetch"));
        assert!((0.19..most).contains(&hit) && store < 0.2 && miss < 0.06, "{engine}: {hit} {store} {miss}");
    }
    for engine in ["hashcache-basic", "hashcache-set", "hashcache-setmem"] {
        let [alone, together] = [engine.to_owned(), format!("{engine} + prefetch")].map(|name| cost(&name)[0]);
        assert!((alone - together).abs() < 0.06, "{engine}: a bin for each object, {alone} {together}");
    }
    let [hit, store, miss] = cost("hashcache-loglru");
    assert!((1.0..1.6).contains(&hit) && store < 0.2 && miss < 0.05, "{hit} {store} {miss}");
}
