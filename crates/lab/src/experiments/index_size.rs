//! Figure 8 of the HashCache paper: the largest disk that 2 GB of memory can index.

use tinaja_store::{EngineName, Store, Tuning};

use super::table3::formula::bits_a_slot;
use crate::error::LabError;
use crate::experiment::{Experiment, Setup};
use crate::paper::hashcache::OTHERS_BITS;
use crate::report::{Cell, Plot, Report, Series, Table};
use crate::rig::{Rig, Spec};

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "hashcache-index",
    shows: "the largest disk that 2 GB of memory indexes, by bits as allocated",
    paper: "HashCache, Figure 8",
    needs_trace: false,
    needs_root: false,
    run,
};

const MEMORY_BYTES: f64 = 2e9;
const OBJECT_BYTES: f64 = 8192.0;
/// What other programs keep in memory for each object, in bits: the least and the most, by their documentation.
const OTHERS: [(&str, f64, f64); 2] = [("Traffic Server", 80.0, 80.0), ("nginx", 1024.0, 1024.0)];

fn run(setup: &Setup) -> Result<Report, LabError> {
    let columns = ["system", "bits an object", "formula", "largest disk, TB", "GB of memory for 1 TB"];
    let mut table = Table::new("Disks of objects of 8 KiB that 2 GB of memory index", &columns);
    let (mut names, mut heights) = (Vec::new(), Vec::new());
    for engine in EngineName::HASHCACHE {
        let stats = Rig::new(&Spec::new(engine, setup.choose(64 << 30, 4 << 30)))?.store.stats();
        let (bits, formula) = (stats.bits_per_slot(), bits_a_slot(engine, Tuning::default(), stats.slots));
        table.row(row(engine.as_str(), bits, Some(formula)));
        if bits > 0.0 {
            names.push(engine.as_str().trim_start_matches("hashcache-").to_owned());
            heights.push(terabytes(bits));
        }
    }
    for (name, least, most) in OTHERS_BITS.into_iter().chain(OTHERS) {
        for bits in if least < most { vec![least, most] } else { vec![least] } {
            table.row(row(name, bits, None));
        }
        names.push(name.to_owned());
        heights.push(terabytes(least));
    }
    let plot = Plot::Bars {
        title: "The largest disk that 2 GB of memory index".to_owned(),
        y: "TB, objects of 8 KiB".to_owned(),
        groups: names,
        series: vec![Series::bars("at the least bits", heights)],
    };
    let Experiment { name, shows, paper, .. } = EXPERIMENT;
    let (quick, seed, plots) = (setup.quick, setup.seed, vec![plot]);
    Ok(Report { name, shows, paper, quick, seed, tables: vec![table], plots, notes: notes() })
}

fn terabytes(bits: f64) -> f64 {
    MEMORY_BYTES * 8.0 / bits * OBJECT_BYTES / 1e12
}

fn row(name: &str, bits: f64, formula: Option<f64>) -> [Cell; 5] {
    let disk = if bits > 0.0 { Cell::number(terabytes(bits), 2) } else { "no limit".into() };
    let memory = 1e12 / OBJECT_BYTES * bits / 8.0 / 1e9;
    [name.into(), Cell::number(bits, 2), Cell::maybe(formula, 2), disk, Cell::number(memory, 2)]
}

fn notes() -> Vec<String> {
    [
        "Our bits are what was allocated, divided by the slots, at one slot for each 8 KiB. The paper gives no numbers for \
         its figure: Table 3 has the bits of Squid and of the commercial cache, the least and the most of them.",
        "Slots are not objects: with as many objects as slots 14 % are lost to full sets (hashcache-table3), for which a live \
         object costs 55 bits with Log and 13 with SetMem.",
        "Traffic Server and nginx are given by their own documentation: 10 bytes for each mean object, and 8000 keys in a \
         megabyte of nginx's zone, some 1000 bits.",
        "Basic and Set keep nothing for an object: the disk may be as large as numbers of 64 bits are.",
    ]
    .map(str::to_owned)
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Section 1 and Figure 8: a tenth of what high-performance caches take, and less.
    #[test]
    fn log_indexes_a_disk_of_almost_three_terabytes_and_setmem_four_times_that() {
        let report = run(&Setup::quick()).unwrap();
        let disk = |name: &str| {
            let row = report.tables[0].rows.iter().find(|row| row[0].to_string() == name).unwrap();
            row[3].value()
        };
        let near = |name, wanted: f64| assert!((disk(name).unwrap() / wanted - 1.0).abs() < 0.01, "{name} {wanted}");
        near("hashcache-log", 2.79);
        near("hashcache-setmem", 11.9);
        near("Squid", 0.2275);
        assert_eq!(disk("hashcache-set"), None);
    }
}
