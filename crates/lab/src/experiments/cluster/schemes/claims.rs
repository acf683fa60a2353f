//! The paper's claims beside the model's figures.

use super::model::Throughput;
use crate::report::{Cell, Table};

/// What misses cost, as multiples of an answer from memory.
pub const MISS_COSTS: [f64; 3] = [1.5, 3.0, 6.0];

/// One scheme on one trace and so many proxies, by what misses cost.
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
        Some(100.0 * (ccwr.own_us - bcc.own_us) / ccwr.cpu_us)
    }

    /// By how many percent a scheme has less throughput than the best one, where it is furthest behind; 0 or less.
    fn is_best(&self, scheme: &str, cost: usize) -> Option<f64> {
        let cases = self.0.iter().filter(|one| one.scheme == scheme);
        let behind = cases.filter_map(|one| {
            let all = self.0.iter().filter(|other| (other.bytes, other.proxies) == (one.bytes, one.proxies));
            let best = all.filter_map(|other| Some(other.by_cost.get(cost)?.per_second)).reduce(f64::max)?;
            Some(100.0 * (one.by_cost.get(cost)?.per_second / best - 1.0))
        });
        behind.reduce(f64::min)
    }
}

const SMALL_AS_BCC: &str = "HYBCC, small as BCC";
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
