//! What CCWR's gain over BCC depends on, on the most proxies: every trace as it is, and the largest objects, of which memory holds the fewest, once more with something
//! else than it is.

use tinaja_cluster::scheme::Scheme;

use super::super::reads::Costs;
use super::claims::{MISS_COSTS, Modelled};
use super::model::Free;
use super::shown::trace;
use super::spent::{On, Throughput};
use super::{Otherwise, model};
use crate::error::LabError;
use crate::experiment::Setup;
use crate::progress::Progress;
use crate::report::{Cell, Table};

/// What is modelled as it is.
pub const AS_IT_IS: &str = "as it is";
/// What is modelled otherwise, each in its turn.
const OTHERWISE: [(&str, Otherwise); 3] = [
    ("messages cost nothing", Otherwise { free: Free { messages: true, others: false }, memory: 1 }),
    ("what others send costs nothing", Otherwise { free: Free { messages: false, others: true }, memory: 1 }),
    ("each node has twice the memory", Otherwise { free: Free { messages: false, others: false }, memory: 2 }),
];
/// Clusters that are modelled for it.
pub const COUNT: usize = 2 * OTHERWISE.len();

/// Both schemes on the same trace.
pub struct Pair {
    pub what: &'static str,
    pub bcc: Modelled,
    pub ccwr: Modelled,
}

impl Pair {
    /// Both where misses cost the most.
    pub fn last(&self) -> Option<(Throughput, Throughput)> {
        Some((*self.bcc.by_cost.last()?, *self.ccwr.by_cost.last()?))
    }

    /// By how many percent CCWR has more throughput.
    fn over(&self, cost: usize) -> Option<f64> {
        let (bcc, ccwr) = (self.bcc.by_cost.get(cost)?, self.ccwr.by_cost.get(cost)?);
        Some(100.0 * (ccwr.per_second / bcc.per_second - 1.0))
    }

    /// How many answers a miss must cost so that both have the same throughput: what CCWR does more is then as much as what its hits save.
    pub fn level_at(&self) -> Option<f64> {
        let (bcc, ccwr) = self.last()?;
        let answer_us = ccwr.on(On::Answers) / ccwr.found_percent;
        let saves = answer_us * (ccwr.found_percent - bcc.found_percent);
        (saves > 0.0).then(|| 1.0 + (ccwr.own_us() - bcc.own_us()) / saves)
    }
}

/// The pairs as they are, and otherwise.
pub fn tried(
    setup: &Setup,
    modelled: &[Modelled],
    costs: &Costs,
    progress: &mut Progress,
) -> Result<Vec<Pair>, LabError> {
    let proxies = modelled.iter().map(|one| one.proxies).max().unwrap_or_default();
    let of = |scheme| modelled.iter().filter(move |one| one.proxies == proxies && one.scheme == scheme);
    let as_they_are = of("BCC").zip(of("CCWR"));
    let mut pairs: Vec<Pair> =
        as_they_are.map(|(bcc, ccwr)| Pair { what: AS_IT_IS, bcc: bcc.clone(), ccwr: ccwr.clone() }).collect();
    let Some(bytes) = pairs.last().map(|pair| pair.bcc.bytes) else { return Ok(pairs) };
    for (what, otherwise) in OTHERWISE {
        let mut one = |name, scheme| {
            let one = model(setup, name, scheme, bytes, proxies, costs, &otherwise);
            progress.step();
            one
        };
        pairs.push(Pair { what, bcc: one("BCC", Scheme::Bcc)?, ccwr: one("CCWR", Scheme::Ccwr)? });
    }
    Ok(pairs)
}

pub fn table(pairs: &[Pair]) -> Table {
    let mut columns = ["trace", "model", "CCWR's swaps %", "found %, BCC", "CCWR", "own us a request, BCC", "CCWR "]
        .map(str::to_owned)
        .to_vec();
    columns.extend(MISS_COSTS.map(|cost| format!("over BCC, a miss costs {cost} answers, %")));
    columns.push("level where a miss costs so many answers".to_owned());
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let proxies = pairs.first().map_or(0, |pair| pair.bcc.proxies);
    let mut table = Table::new(format!("What CCWR over BCC depends on, {proxies} proxies"), &columns);
    for pair in pairs {
        let last = pair.last();
        let of = |of: fn((Throughput, Throughput)) -> f64, digits| Cell::maybe(last.map(of), digits);
        let cells = [
            trace(pair.bcc.bytes).into(),
            pair.what.into(),
            of(|(_, ccwr)| ccwr.swapped_percent, 1),
            of(|(bcc, _)| bcc.found_percent, 1),
            of(|(_, ccwr)| ccwr.found_percent, 1),
            of(|(bcc, _)| bcc.own_us(), 1),
            of(|(_, ccwr)| ccwr.own_us(), 1),
        ];
        let over = (0..MISS_COSTS.len()).map(|cost| Cell::maybe(pair.over(cost), 1));
        table.row(cells.into_iter().chain(over).chain([Cell::maybe(pair.level_at(), 1)]));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modelled(own_us: f64, found_percent: f64) -> Modelled {
        let us = [34.0 * found_percent / 100.0, 0.0, own_us, 0.0, 0.0];
        let at = Throughput {
            per_second: 1.0,
            us,
            messages_us: 0.0,
            reads_us: 0.0,
            busy_percent: 100.0,
            found_percent,
            swapped_percent: 0.0,
        };
        Modelled { scheme: "", bytes: 0, proxies: 8, by_cost: vec![at] }
    }

    #[test]
    fn schemes_are_level_where_hits_save_what_they_cost() {
        let pair = |bcc, ccwr| Pair { what: "", bcc, ccwr };
        // A quarter of the requests more, each of which saves 34 us for each answer that a miss costs beyond the first.
        let level = pair(modelled(40.0, 50.0), modelled(57.0, 75.0)).level_at().unwrap();
        assert!((level - 3.0).abs() < 1e-9, "{level}");
        assert_eq!(pair(modelled(40.0, 50.0), modelled(57.0, 50.0)).level_at(), None, "nothing is found more");
    }
}
