//! What sections 5 and 6 say of layouts, beside what was counted.

use super::measured::Measured;
use crate::paper::maltzahn as paper;
use crate::peers::DiskCount;
use crate::report::{Cell, Table};

/// One load's measurements, by the names of layouts.
pub struct Counted<'a> {
    pub title: &'a str,
    pub layouts: Vec<(&'static str, Measured)>,
}

impl Counted<'_> {
    fn of(&self, name: &str) -> Option<Measured> {
        self.layouts.iter().find(|(layout, _)| *layout == name).map(|(_, measured)| *measured)
    }

    /// One layout's transactions, in percent of another's.
    fn share(&self, name: &str, of: &str) -> Option<f64> {
        Some(self.of(name)?.transactions() as f64 / self.of(of)?.transactions() as f64 * 100.0)
    }

    fn reads(&self, name: &str) -> Option<f64> {
        let measured = self.of(name)?;
        Some((measured.files.reads + measured.mapped.reads) as f64 / measured.transactions() as f64 * 100.0)
    }

    fn kilobytes(&self, name: &str, disk: fn(&Measured) -> DiskCount) -> Option<f64> {
        let disk = disk(&self.of(name)?);
        let transactions = disk.reads + disk.writes;
        (transactions > 0).then(|| (disk.read_bytes + disk.write_bytes) as f64 / 1000.0 / transactions as f64)
    }

    /// Reads of the disk for each hit.
    fn reads_a_hit(&self, name: &str) -> Option<f64> {
        let measured = self.of(name)?;
        Some((measured.files.reads + measured.mapped.reads) as f64 / measured.hits as f64)
    }
}

/// A claim, the paper's figure, and ours of a load.
type Claim = (&'static str, Option<f64>, usize, fn(&Counted<'_>) -> Option<f64>);

/// A row for each claim, a column for each load.
pub fn table(loads: &[Counted<'_>]) -> Table {
    let [by_host, small, both] = paper::TRANSACTIONS_PERCENT;
    let [mapped, squid, squidl] = paper::MEAN_TRANSFER_KB;
    let claims: [Claim; 17] = [
        ("hits, %", Some(paper::INFINITE_PERCENT), 1, |load| {
            let squid = load.of("squid")?;
            Some(squid.hits as f64 / squid.requests as f64 * 100.0)
        }),
        ("CERN's transactions, % of SQUID's", Some(paper::CERN_PERCENT), 0, |load| load.share("cern", "squid")),
        ("those of the engine cern, % of SQUID's", None, 0, |load| load.share("cern, the engine", "squid")),
        ("SQUIDL's, % of SQUID's", Some(by_host), 0, |load| load.share("squidl", "squid")),
        ("SQUIDM's, % of SQUID's", Some(small), 0, |load| load.share("squidm", "squid")),
        ("SQUIDML's, % of SQUID's", Some(both), 0, |load| load.share("squidml", "squid")),
        ("aligned (SQUIDMLA) or not (SQUIDML), %", Some(100.0), 0, |load| load.share("squidmla", "squidml")),
        ("reads, % of SQUID's transactions", Some(paper::READS_PERCENT), 0, |load| load.reads("squid")),
        ("reads, % of CERN's", Some(paper::READS_PERCENT), 0, |load| load.reads("cern")),
        ("KB a transaction of the mapped file, SQUIDM", Some(mapped), 1, |load| {
            load.kilobytes("squidm", |measured| measured.mapped)
        }),
        ("KB a transaction of files, SQUID", Some(squid), 1, |load| load.kilobytes("squid", |measured| measured.files)),
        ("KB a transaction of files, SQUIDL", Some(squidl), 1, |load| {
            load.kilobytes("squidl", |measured| measured.files)
        }),
        ("reads of the disk a hit, SQUID", None, 2, |load| load.reads_a_hit("squid")),
        ("the same, SQUIDL", None, 2, |load| load.reads_a_hit("squidl")),
        ("the same, SQUIDM", None, 2, |load| load.reads_a_hit("squidm")),
        ("the same, SQUIDMLA", None, 2, |load| load.reads_a_hit("squidmla")),
        ("the same, CERN", None, 2, |load| load.reads_a_hit("cern")),
    ];
    let columns: Vec<&str> = ["claim", "paper"].into_iter().chain(loads.iter().map(|load| load.title)).collect();
    let mut table = Table::new("The paper's claims beside ours", &columns);
    for (claim, paper, digits, ours) in claims {
        let ours = loads.iter().map(|load| Cell::maybe(ours(load), digits));
        table.row([claim.into(), Cell::maybe(paper, 0)].into_iter().chain(ours));
    }
    table
}
