//! What each cache found of each load, as tables and a picture.

use super::super::loads::Load;
use crate::policies::Outcome;
use crate::report::{Cell, Plot, Series, Table};

/// The row of Tinaja over HTTP.
const OURS: &str = "Tinaja";
/// A server that took more, as a part of its limit, is not named as the best and not drawn. Squid took 1.1: its files fill blocks.
const MOST_TAKEN: f64 = 1.25;

/// What a cache found of a load.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// The share of the requests.
    pub objects: f64,
    /// The share of the bytes asked for.
    pub bytes: f64,
    /// The most of its disk that a server has taken, as a part of its limit, where that can be told.
    pub taken: Option<f64>,
    /// Requests without an answer.
    pub failed: u64,
}

impl Found {
    pub fn of(outcome: &Outcome) -> Found {
        Found { objects: outcome.hit_ratio(), bytes: outcome.byte_hit_ratio(), taken: None, failed: 0 }
    }
}

/// What a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A published policy, simulated.
    Simulated,
    /// An engine of ours, called by the laboratory.
    Engine,
    /// A program, asked over HTTP.
    Server,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Simulated => "simulated",
            Kind::Engine => "engine",
            Kind::Server => "server",
        }
    }
}

/// A cache, with what it found of each load, or why it could not be asked for it.
pub struct Row {
    pub kind: Kind,
    pub name: &'static str,
    pub found: Vec<Result<Found, String>>,
}

impl Row {
    /// A figure of each load.
    fn each(&self, of: impl Fn(&Found) -> f64) -> impl Iterator<Item = Option<f64>> {
        self.found.iter().map(move |found| found.as_ref().ok().map(&of))
    }

    /// Whether it is a server other than ours that has been within the limit of its disk, as far as that can be told: what more it finds with
    /// more disk than the others says nothing.
    fn is_other_within_limit(&self) -> bool {
        let taken = self.found.iter().flatten().filter_map(|found| found.taken);
        self.kind == Kind::Server && self.name != OURS && taken.fold(0.0, f64::max) <= MOST_TAKEN
    }

    /// The mean, where there is a figure of each load.
    fn mean(&self, of: impl Fn(&Found) -> f64) -> Option<f64> {
        let all: Option<Vec<_>> = self.each(of).collect();
        all.filter(|all| !all.is_empty()).map(|all| all.iter().sum::<f64>() / all.len() as f64)
    }
}

/// All tables, that of the loads first.
pub fn tables(loads: &[Load], disks: &[u64], rows: &[Row]) -> Vec<Table> {
    let mut all = vec![
        of_loads(loads, disks),
        shares("Objects found, % of requests", loads, rows, |found| found.objects),
        shares("Bytes found, % of bytes asked for", loads, rows, |found| found.bytes),
        taken(loads, rows),
    ];
    all.extend(missing(loads, rows));
    all
}

fn of_loads(loads: &[Load], disks: &[u64]) -> Table {
    let mut table = Table::new("Loads", &["load", "requests", "objects", "of MB", "disk MiB"]);
    for (load, disk_bytes) in loads.iter().zip(disks) {
        let (requests, objects) = (load.sequence.asked.len() as f64, load.sequence.objects as f64);
        table.row([
            load.title().into(),
            Cell::number(requests, 0),
            Cell::number(objects, 0),
            Cell::number(load.sequence.bytes as f64 / 1e6, 0),
            Cell::number((disk_bytes >> 20) as f64, 0),
        ]);
    }
    table
}

fn shares(title: &str, loads: &[Load], rows: &[Row], of: fn(&Found) -> f64) -> Table {
    let titles: Vec<_> = loads.iter().map(Load::title).collect();
    let mut columns = vec!["cache", "what it is"];
    columns.extend(titles.iter().map(String::as_str));
    columns.extend(["mean", "Tinaja is above by"]);
    let mut table = Table::new(title, &columns);
    let ours = rows.iter().find(|row| row.name == OURS).and_then(|row| row.mean(of));
    for row in rows {
        let mean = row.mean(of);
        let mut cells = vec![row.name.into(), row.kind.name().into()];
        cells.extend(row.each(of).chain([mean]).map(|share| Cell::maybe(share.map(|share| share * 100.0), 1)));
        let above = ours.zip(mean).filter(|_| row.name != OURS).map(|(ours, other)| (ours - other) * 100.0);
        cells.push(Cell::maybe(above, 1));
        table.row(cells);
    }
    let others = rows.iter().filter(|row| row.is_other_within_limit());
    let others = others.filter_map(|row| Some((row.name, row.mean(of)?)));
    match (ours, others.max_by(|one, other| one.1.total_cmp(&other.1))) {
        (Some(ours), Some((name, best))) => table.says(format!(
            "In the mean of the loads Tinaja found {:.1} %, and of the other servers that kept to their limit {name} the most: {:.1} %.",
            ours * 100.0,
            best * 100.0
        )),
        _ => table,
    }
}

fn taken(loads: &[Load], rows: &[Row]) -> Table {
    let titles: Vec<_> = loads.iter().map(Load::title).collect();
    let mut columns = vec!["server"];
    columns.extend(titles.iter().map(String::as_str));
    columns.push("requests without an answer");
    let mut table = Table::new("The most that was taken of the disk, as a part of its limit", &columns);
    for row in rows.iter().filter(|row| row.kind == Kind::Server) {
        let of_each = row.found.iter().map(|found| found.as_ref().ok().and_then(|found| found.taken));
        let mut cells = vec![row.name.into()];
        cells.extend(of_each.map(|part| Cell::maybe(part, 2)));
        let failed: u64 = row.found.iter().flatten().map(|found| found.failed).sum();
        cells.push(Cell::number(failed as f64, 0));
        table.row(cells);
    }
    table
}

/// Who could not be asked, and why.
fn missing(loads: &[Load], rows: &[Row]) -> Option<Table> {
    let mut table = Table::new("What could not be asked", &["cache", "load", "why"]);
    for row in rows {
        for (load, found) in loads.iter().zip(&row.found) {
            if let Err(why) = found {
                table.row([row.name.into(), load.title().into(), why.as_str().into()]);
            }
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

/// Objects found by each server that kept to its limit, a group for each load.
pub fn plot(loads: &[Load], rows: &[Row]) -> Plot {
    let is_drawn =
        |row: &&Row| row.found.iter().any(Result::is_ok) && (row.name == OURS || row.is_other_within_limit());
    let servers = rows.iter().filter(is_drawn);
    let heights =
        |row: &Row| row.each(|found| found.objects * 100.0).map(Option::unwrap_or_default).collect::<Vec<_>>();
    Plot::Bars {
        title: "Objects found over HTTP, a disk of a tenth of what all objects take".to_owned(),
        y: "% of requests".to_owned(),
        groups: loads.iter().map(Load::title).collect(),
        series: servers.map(|row| Series::bars(row.name, heights(row))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Setup;

    /// A server that is missing has empty cells and a reason, no mean, and nobody is compared with it.
    #[test]
    fn who_could_not_be_asked_has_no_mean() {
        let loads = Load::storable(&Setup::quick(), 200).unwrap();
        let found = |objects| Ok(Found { objects, bytes: objects / 2.0, taken: Some(1.01), failed: 0 });
        let all = |kind, name, objects| Row { kind, name, found: loads.iter().map(|_| found(objects)).collect() };
        let mut rows =
            vec![all(Kind::Simulated, "GDSF", 0.5), all(Kind::Server, "Tinaja", 0.4), all(Kind::Server, "nginx", 0.3)];
        let disks = vec![1 << 20; loads.len()];
        let whole = tables(&loads, &disks, &rows);
        assert_eq!(whole.len(), 4);
        let above = |tables: &[Table]| -> Vec<_> {
            tables[1].column("Tinaja is above by").into_iter().map(|cell| cell.value()).collect()
        };
        assert_eq!(above(&whole)[1], None);
        assert!((above(&whole)[0].unwrap() + 10.0).abs() < 1e-6 && (above(&whole)[2].unwrap() - 10.0).abs() < 1e-6);
        assert!(whole[1].sentence.contains("40.0 %") && whole[1].sentence.contains("nginx the most: 30.0 %"));
        // Who had more disk than it was given is not drawn, and is not called the best.
        let mut greedy = all(Kind::Server, "nginx", 0.9);
        greedy.found[1] = Ok(Found { objects: 0.9, bytes: 0.9, taken: Some(6.0), failed: 0 });
        rows.push(greedy);
        assert!(tables(&loads, &disks, &rows)[1].sentence.contains("nginx the most: 30.0 %"));
        let Plot::Bars { series, .. } = plot(&loads, &rows) else { panic!("bars") };
        assert_eq!(series.iter().map(|series| series.name.as_str()).collect::<Vec<_>>(), ["Tinaja", "nginx"]);
        rows.pop();
        rows[2].found[0] = Err("it ended".to_owned());
        let part = tables(&loads, &disks, &rows);
        assert_eq!((part.len(), above(&part)[2], part[4].rows.len()), (5, None, 1));
        assert!(part[1].sentence.is_empty());
    }
}
