//! The paper's claims beside the model's figures.

use super::spent::Throughput;
use crate::report::{Cell, Table};

/// What misses cost, as multiples of an answer from memory.
pub const MISS_COSTS: [f64; 3] = [1.5, 3.0, 6.0];

/// One scheme on one trace and so many proxies, by what misses cost.
#[derive(Clone)]
pub struct Modelled {
    pub scheme: &'static str,
    pub bytes: u32,
    pub proxies: u64,
    pub by_cost: Vec<Throughput>,
}

/// All that was modelled.
pub struct All<'a>(pub &'a [Modelled]);

impl All<'_> {
    fn of(&self, scheme: &str, kib: u32, proxies: u64, cost: usize) -> Option<Throughput> {
        let one = self.0.iter().find(|one| one.scheme == scheme && one.bytes == kib << 10 && one.proxies == proxies)?;
        one.by_cost.get(cost).copied()
    }

    /// By how many percent one scheme has more throughput than another.
    fn over(&self, scheme: &str, other: &str, kib: u32, proxies: u64, cost: usize) -> Option<f64> {
        let (scheme, other) = (self.of(scheme, kib, proxies, cost)?, self.of(other, kib, proxies, cost)?);
        Some(100.0 * (scheme.per_second / other.per_second - 1.0))
    }

    /// The most of that over traces and numbers of proxies.
    fn most_over(&self, schemes: &[&str], other: &str, kibs: &[u32], cost: usize) -> Option<f64> {
        let all = schemes.iter().flat_map(|scheme| kibs.iter().map(move |kib| (*scheme, *kib)));
        let over = all.flat_map(|(scheme, kib)| [2, 4, 8].map(|proxies| self.over(scheme, other, kib, proxies, cost)));
        over.flatten().reduce(f64::max)
    }

    /// What CCWR's node, reads and messages take of a processor beyond BCC's, of all that a request takes.
    fn bookkeeping(&self, kib: u32, proxies: u64, cost: usize) -> Option<f64> {
        let (ccwr, bcc) = (self.of("CCWR", kib, proxies, cost)?, self.of("BCC", kib, proxies, cost)?);
        Some(100.0 * (ccwr.own_us() - bcc.own_us()) / ccwr.cpu_us())
    }

    /// Where a scheme is furthest behind the best one, and that one.
    pub fn furthest_behind(&self, scheme: &str, cost: usize) -> Option<(&Modelled, &Modelled)> {
        let rate = |one: &Modelled| one.by_cost.get(cost).map_or(0.0, |at| at.per_second);
        let cases = self.0.iter().filter(|one| one.scheme == scheme);
        let behind = cases.filter_map(|one| {
            let all = self.0.iter().filter(|other| (other.bytes, other.proxies) == (one.bytes, one.proxies));
            Some((one, all.max_by(|a, b| rate(a).total_cmp(&rate(b)))?))
        });
        behind.min_by(|(a, best_a), (b, best_b)| (rate(a) / rate(best_a)).total_cmp(&(rate(b) / rate(best_b))))
    }

    /// By how many percent it has less throughput there; 0 or less.
    fn is_best(&self, scheme: &str, cost: usize) -> Option<f64> {
        let (one, best) = self.furthest_behind(scheme, cost)?;
        Some(100.0 * (one.by_cost.get(cost)?.per_second / best.by_cost.get(cost)?.per_second - 1.0))
    }
}

pub const SMALL_AS_BCC: &str = "HYBCC, small as BCC";
const SMALL_AS_CCWR: &str = "HYBCC, small as CCWR";
const LARGE: [u32; 3] = [16, 32, 64];
const TRACES: [u32; 4] = [8, 16, 32, 64];

/// A claim, the paper's figure, ours by what misses cost.
type Claim<'a> = (&'static str, &'static str, Box<dyn Fn(usize) -> Option<f64> + 'a>);

/// A table of them.
pub fn table(all: &All<'_>) -> Table {
    let claims: Vec<Claim<'_>> = vec![
        ("BCC over AC, 8k, 2 proxies", "about +100 %", Box::new(|cost| all.over("BCC", "AC", 8, 2, cost))),
        (
            "the best scheme over AC, at most",
            "+180 %",
            Box::new(|cost| all.most_over(&["BCC", "CCWR", "MTACC", SMALL_AS_BCC], "AC", &TRACES, cost)),
        ),
        ("HYBCC over BCC, at most", "+35 %", Box::new(|cost| all.most_over(&[SMALL_AS_BCC], "BCC", &TRACES, cost))),
        ("CCWR over BCC, 16k to 64k, at most", "+32 %", Box::new(|cost| all.most_over(&["CCWR"], "BCC", &LARGE, cost))),
        ("CCWR over BCC, 16k, 8 proxies", "grows with size", Box::new(|cost| all.over("CCWR", "BCC", 16, 8, cost))),
        ("CCWR over BCC, 32k, 8 proxies", "grows with size", Box::new(|cost| all.over("CCWR", "BCC", 32, 8, cost))),
        ("CCWR over BCC, 64k, 8 proxies", "grows with size", Box::new(|cost| all.over("CCWR", "BCC", 64, 8, cost))),
        ("CCWR over BCC, 8k, 8 proxies", "about -5 %", Box::new(|cost| all.over("CCWR", "BCC", 8, 8, cost))),
        (
            "CCWR beyond BCC in all but HTTP and misses, of a request's processor time, 8k, 8 proxies",
            "5 to 10 % for lookups",
            Box::new(|cost| all.bookkeeping(8, 8, cost)),
        ),
        ("MTACC over BCC, 64k, 8 proxies", "+20.5 %", Box::new(|cost| all.over("MTACC", "BCC", 64, 8, cost))),
        ("MTACC over CCWR, 8k, 8 proxies", "less than 0", Box::new(|cost| all.over("MTACC", "CCWR", 8, 8, cost))),
        ("MTACC over CCWR, 64k, 2 proxies", "more than 0", Box::new(|cost| all.over("MTACC", "CCWR", 64, 2, cost))),
        (
            "HYBCC (small as BCC) behind the best, at worst",
            "\"matches the best possible\"",
            Box::new(|cost| all.is_best(SMALL_AS_BCC, cost)),
        ),
        (
            "HYBCC, small as CCWR over small as BCC, 8k, 8 proxies",
            "3.4 and 4.1 differ",
            Box::new(|cost| all.over(SMALL_AS_CCWR, SMALL_AS_BCC, 8, 8, cost)),
        ),
    ];
    let costs = MISS_COSTS.map(|cost| format!("ours, a miss costs {cost} answers, %"));
    let columns: Vec<&str> = ["claim", "paper"].into_iter().chain(costs.iter().map(String::as_str)).collect();
    let mut table = Table::new("The paper's claims beside the model's", &columns);
    for (claim, paper, ours) in claims {
        let ours = (0..MISS_COSTS.len()).map(|cost| Cell::maybe(ours(cost), 1));
        table.row([claim.into(), paper.into()].into_iter().chain(ours));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_is_compared_with_the_best_of_the_same_case() {
        let one = |scheme, bytes, per_second| {
            let at = Throughput {
                per_second,
                us: [0.0; 5],
                messages_us: 0.0,
                reads_us: 0.0,
                busy_percent: 0.0,
                found_percent: 0.0,
                swapped_percent: 0.0,
            };
            Modelled { scheme, bytes, proxies: 2, by_cost: vec![at] }
        };
        let all = [one("A", 1, 90.0), one("B", 1, 100.0), one("A", 2, 50.0), one("B", 2, 40.0), one("C", 3, 999.0)];
        let all = All(&all);
        let (behind, best) = all.furthest_behind("A", 0).unwrap();
        assert_eq!((behind.bytes, best.scheme, best.per_second(0)), (1, "B", 100.0));
        assert!((all.is_best("A", 0).unwrap() + 10.0).abs() < 1e-9);
        assert!(all.furthest_behind("none", 0).is_none());
    }

    impl Modelled {
        fn per_second(&self, cost: usize) -> f64 {
            self.by_cost[cost].per_second
        }
    }
}
