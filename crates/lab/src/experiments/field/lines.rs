//! What was measured of all servers at one kind of work, by round, and as a table with a sentence.

use crate::peers::field::Product;
use crate::report::{Cell, Table};

/// What one round took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// Processor time of a request, in microseconds.
    pub cpu_us: f64,
    /// Requests a second.
    pub rate: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    /// The share that were hits.
    pub hits: f64,
    pub failed: u64,
    /// Reads of the disk, and KiB of them, a request.
    pub reads: f64,
    pub read_kib: f64,
    /// Processors that anything else kept busy meanwhile.
    pub others: f64,
}

/// See the module.
pub struct Line {
    rows: Vec<Row>,
}

struct Row {
    product: Product,
    samples: Vec<Sample>,
    why: Option<String>,
}

/// Which columns a table has beside those that all have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Columns {
    /// No others.
    Plain,
    /// Reads of the disk.
    Disk,
}

impl Line {
    pub fn of(products: impl Iterator<Item = Product>) -> Line {
        Line { rows: products.map(|product| Row { product, samples: Vec::new(), why: None }).collect() }
    }

    /// Whether this server has failed.
    pub fn is_out(&self, at: usize) -> bool {
        self.rows.get(at).is_none_or(|row| row.why.is_some())
    }

    /// Why it has.
    pub fn why(&self, at: usize) -> Option<&str> {
        self.rows.get(at)?.why.as_deref()
    }

    pub fn add(&mut self, at: usize, sample: Result<Sample, String>) {
        let Some(row) = self.rows.get_mut(at) else { return };
        match sample {
            Ok(sample) => row.samples.push(sample),
            Err(why) => row.why = Some(why),
        }
    }

    /// The median of all rounds of a server.
    pub fn median(&self, product: Product, of: fn(&Sample) -> f64) -> Option<f64> {
        let row = self.rows.iter().find(|row| row.product == product)?;
        median(row.samples.iter().map(of))
    }

    /// Ours over this one's.
    fn ratio(&self, product: Product, of: fn(&Sample) -> f64) -> Option<f64> {
        (product != Product::Tinaja).then_some(())?;
        let its = self.median(product, of).filter(|its| *its > 0.0)?;
        Some(self.median(Product::Tinaja, of)? / its)
    }

    /// The other server of these that has the least of something.
    pub fn best_other(&self, among: fn(Product) -> bool, of: fn(&Sample) -> f64) -> Option<(Product, f64)> {
        let others = self.rows.iter().map(|row| row.product).filter(|product| *product != Product::Tinaja);
        let all =
            others.filter(|product| among(*product)).filter_map(|product| Some((product, self.median(product, of)?)));
        all.min_by(|(_, one), (_, other)| one.total_cmp(other))
    }

    /// Ours beside the best of the others, in words: `what` costs so much.
    pub fn sentence(&self, what: &str) -> String {
        self.sentence_among(what, "the others", |_| true)
    }

    /// The same beside the best of those that keep objects on a disk, as ours does.
    pub fn sentence_of_disks(&self, what: &str) -> String {
        self.sentence_among(what, "the others that keep objects on a disk", Product::keeps_on_disk)
    }

    fn sentence_among(&self, what: &str, whom: &str, among: fn(Product) -> bool) -> String {
        let cpu: fn(&Sample) -> f64 = |sample| sample.cpu_us;
        let p99: fn(&Sample) -> f64 = |sample| sample.p99_ms;
        let Some(ours) = self.median(Product::Tinaja, cpu) else {
            return format!("{what} was not measured of Tinaja.");
        };
        let Some((best, its)) = self.best_other(among, cpu) else {
            return format!("{what} takes Tinaja {ours:.1} µs of processor time; there was no other server.");
        };
        let times = self.median(Product::Tinaja, p99).zip(self.median(best, p99));
        let times = times.map_or(String::new(), |(own, other)| format!("; p99 {own:.2} ms beside {other:.2}"));
        let (ratio, name) = (ours / its.max(1e-9), best.name());
        format!(
            "{what} takes Tinaja {ours:.1} µs of processor time, and {name} {its:.1}, the least of {whom}: {ratio:.2}{times}."
        )
    }
}

pub fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<_> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// A table of lines, each with what tells it from the others if there are several; ratios come first.
pub fn table(title: &str, told_by: Option<&str>, lines: &[(String, &Line)], columns: Columns) -> Table {
    let mut names = vec!["server"];
    names.extend(told_by);
    names.extend([
        "CPU, ours / its",
        "p99, ours / its",
        "CPU µs",
        "spread",
        "requests/s",
        "p50 ms",
        "p99 ms",
        "hits %",
    ]);
    if columns == Columns::Disk {
        names.extend(["reads a request", "KiB read a request"]);
    }
    names.extend(["others' cores", "what kept it"]);
    let mut table = Table::new(title, &names);
    for (told, line) in lines {
        for Row { product, samples, why } in &line.rows {
            let of = |of: fn(&Sample) -> f64| line.median(*product, of);
            let cpus = || samples.iter().map(|sample| sample.cpu_us);
            let spread = (samples.len() > 1).then(|| cpus().fold(0.0, f64::max) / cpus().fold(f64::MAX, f64::min));
            let mut row: Vec<Cell> = vec![product.name().into()];
            row.extend(told_by.map(|_| Cell::from(told.clone())));
            row.extend([
                Cell::maybe(line.ratio(*product, |sample| sample.cpu_us), 2),
                Cell::maybe(line.ratio(*product, |sample| sample.p99_ms), 2),
                Cell::maybe(of(|sample| sample.cpu_us), 1),
                Cell::maybe(spread, 2),
                Cell::maybe(of(|sample| sample.rate), 0),
                Cell::maybe(of(|sample| sample.p50_ms), 2),
                Cell::maybe(of(|sample| sample.p99_ms), 2),
                of(|sample| sample.hits).map_or(Cell::Nothing, Cell::percent),
            ]);
            if columns == Columns::Disk {
                row.extend([Cell::maybe(of(|sample| sample.reads), 2), Cell::maybe(of(|sample| sample.read_kib), 1)]);
            }
            let failed: u64 = samples.iter().map(|sample| sample.failed).sum();
            let kept = why.clone().or_else(|| (failed > 0).then(|| format!("{failed} requests without an answer")));
            row.extend([Cell::maybe(of(|sample| sample.others), 2), kept.map_or(Cell::Nothing, Cell::from)]);
            table.row(row);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(cpu_us: f64) -> Sample {
        Sample { cpu_us, p99_ms: cpu_us / 10.0, hits: 1.0, ..Sample::default() }
    }

    #[test]
    fn ratios_are_of_medians_and_who_failed_says_why() {
        let products = [Product::Tinaja, Product::Nginx, Product::Squid, Product::Apache];
        let mut line = Line::of(products.into_iter());
        for cpu_us in [10.0, 30.0, 11.0] {
            line.add(0, Ok(sample(cpu_us)));
            line.add(1, Ok(sample(cpu_us * 2.0)));
            line.add(2, Ok(sample(cpu_us * 4.0)));
        }
        line.add(3, Err("it fell over".to_owned()));
        assert!(line.is_out(3) && !line.is_out(0) && line.is_out(9));
        let table = table("t", Some("body"), &[("8 KiB".to_owned(), &line)], Columns::Plain);
        assert_eq!(table.column("CPU, ours / its")[1..3], [&Cell::Number(0.5, 2), &Cell::Number(0.25, 2)]);
        assert_eq!(table.column("CPU, ours / its")[0], &Cell::Nothing);
        assert_eq!(
            (table.column("CPU µs")[0], table.column("spread")[0]),
            (&Cell::Number(11.0, 1), &Cell::Number(3.0, 2))
        );
        assert_eq!(table.column("what kept it")[3], &Cell::from("it fell over"));
        let says = line.sentence("A hit");
        assert!(
            says.starts_with("A hit takes Tinaja 11.0 µs") && says.contains("0.50") && says.contains("nginx"),
            "{says}"
        );
        let line = Line::of(products.into_iter());
        assert_eq!(line.sentence("A hit"), "A hit was not measured of Tinaja.");
        let mut line = Line::of([Product::Tinaja, Product::HaProxy].into_iter());
        line.add(0, Ok(sample(10.0)));
        line.add(1, Ok(sample(5.0)));
        assert!(
            line.sentence("A hit").contains("HAProxy")
                && line.sentence_of_disks("A miss").ends_with("no other server.")
        );
    }
}
