//! How little a server can take that waits, reads and writes: a loop that understands nothing ([`Floor`]), beside ours and the best of the others.

use super::contest::{BODY_BYTES, CONNECTIONS, Contest, fresh, scattered};
use super::lines::{Line, Sample, median};
use super::warm::FEW;
use crate::error::LabError;
use crate::peers::field::{Connections, Floor, Pace, Product, Wanted};
use crate::report::{Cell, Table};

/// Of each kind of work, processor time of the loop for a request, in microseconds.
struct Least {
    hit: f64,
    miss: f64,
}

/// The same work as ours and the others had, and what it takes at least.
pub fn measure(contest: &Contest<'_>, hits: &Line, misses: &Line) -> Table {
    let columns = ["work", "CPU µs of the loop", "ours / it", "best other / it", "best other", "what kept it"];
    let mut table = Table::new("What a plain loop of reads and writes takes", &columns);
    let least = match least(contest) {
        Ok(least) => least,
        Err(why) => {
            table.row([
                "a loop of reads and writes".into(),
                Cell::Nothing,
                Cell::Nothing,
                Cell::Nothing,
                Cell::Nothing,
                why.to_string().into(),
            ]);
            return table.says("The loop was not measured.");
        }
    };
    let cpu: fn(&Sample) -> f64 = |sample| sample.cpu_us;
    let mut says = vec![
        "The loop waits, reads, looks up a path and writes, with one call each. Of HTTP it knows only where a request and an answer end. On a miss it asks \
         the origin, sends the answer on in one piece, and appends it to a file."
            .to_owned(),
    ];
    let works = [("memory hit", least.hit, hits), ("miss that is stored", least.miss, misses)];
    for (work, least, line) in works {
        let best = match work {
            "memory hit" => line.best_other(|_| true, cpu),
            _ => line.best_other(Product::keeps_on_disk, cpu),
        };
        let beside = |cpu_us: f64| Cell::number(cpu_us / least, 2);
        table.row([
            work.into(),
            Cell::number(least, 1),
            line.median(Product::Tinaja, cpu).map_or(Cell::Nothing, beside),
            best.map_or(Cell::Nothing, |(_, its)| beside(its)),
            best.map_or(Cell::Nothing, |(product, _)| product.name().into()),
            Cell::Nothing,
        ]);
        says.extend(best.filter(|(_, its)| least < *its).map(|(product, its)| {
            let (ratio, name) = (least / its, product.name());
            format!("A {work} takes it {least:.1} µs, {ratio:.2} of {name}: a server that makes one call for each step gets no lower.")
        }));
    }
    table.says(says.join(" "))
}

fn least(contest: &Contest<'_>) -> Result<Least, LabError> {
    let scratch = tempfile::Builder::new().prefix("tinaja-lab-floor-").tempdir_in(&contest.setup.scratch);
    let scratch = scratch.map_err(|why| LabError::failed("making a directory", why))?;
    let floor = Floor::begin(&contest.cores, contest.origin.address(), &scratch.path().join("file"))?;
    let few: Vec<Wanted> = fresh(FEW, BODY_BYTES).collect();
    let mut connections = Connections::open_by(floor.address(), CONNECTIONS, None)?;
    connections.run(few.iter().copied(), Pace::Closed)?;
    let (mut hits, mut misses) = (Vec::new(), Vec::new());
    let mut take = |wanted: Vec<Wanted>, of_hits: bool| -> Result<f64, LabError> {
        let (before, count) = (floor.cpu()?, wanted.len());
        let tally = connections.run(wanted, Pace::Closed)?;
        let times = if of_hits { tally.hit_times } else { tally.miss_times };
        if times.len() != count {
            return Err(LabError::failed(
                "asking a loop of reads and writes",
                format!("{} of {count} came so", times.len()),
            ));
        }
        Ok(floor.cpu()?.saturating_sub(before).as_secs_f64() * 1e6 / count as f64)
    };
    for _ in 0..contest.round_count() {
        hits.push(take(scattered(&few, contest.setup.choose(20_000, 3000)), true)?);
        misses.push(take(fresh(contest.setup.choose(5000, 600), BODY_BYTES).collect(), false)?);
    }
    let middle = |all: Vec<f64>| median(all.into_iter()).unwrap_or_default();
    Ok(Least { hit: middle(hits), miss: middle(misses) })
}
