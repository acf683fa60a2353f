//! The loads: a mix, two that drift, and logs; each with bodies cut off and with whole ones.

use crate::error::LabError;
use crate::experiment::Setup;
use crate::load::{Days, DaysOptions, Embedded, PolyMix, PolyMixOptions, Request, Sites, SitesOptions, read_trace};
use crate::policies::Sequence;

/// Bodies are cut off here, where they are.
const CUT_AT: u64 = 64 << 10;
/// Requests of the generated loads.
const REQUESTS: (usize, usize) = (200_000, 20_000);
/// Pages and single objects that the mix repeats.
const WORKING_SET: (u64, u64) = (20_000, 2000);

/// One load, ready to be replayed.
pub struct Load {
    name: String,
    /// Whether bodies are cut off at 64 KiB.
    pub is_cut: bool,
    /// Whether it was made to drift.
    pub drifts: bool,
    pub sequence: Sequence,
}

impl Load {
    /// All of them.
    pub fn all(setup: &Setup) -> Result<Vec<Load>, LabError> {
        let loads = requests(setup, setup.choose(REQUESTS.0, REQUESTS.1))?;
        let both = loads.iter().flat_map(|load| [true, false].map(|is_cut| (load, is_cut)));
        Ok(both.map(|((name, drifts, requests), is_cut)| Load::new(name, *drifts, requests, is_cut)).collect())
    }

    /// What may be stored of each, so many requests of the generated ones. Logs have their bodies cut off: whole, one of some MB that is asked
    /// for again and again has terabytes pass.
    pub fn storable(setup: &Setup, count: usize) -> Result<Vec<Load>, LabError> {
        let mut loads = requests(setup, count)?;
        loads.iter_mut().for_each(|(_, _, requests)| requests.retain(|request| request.cachable));
        let is_log = |name: &str| name.starts_with("Log");
        Ok(loads.iter().map(|(name, drifts, requests)| Load::new(name, *drifts, requests, is_log(name))).collect())
    }

    fn new(name: &str, drifts: bool, requests: &[Request], is_cut: bool) -> Load {
        let most = if is_cut { CUT_AT } else { u64::MAX };
        let sequence = Sequence::new(requests.iter().copied(), most, Sequence::BESIDE_BODY);
        Load { name: name.to_owned(), is_cut, drifts, sequence }
    }

    /// What tables call it.
    pub fn title(&self) -> String {
        format!("{}, {}", self.name, if self.is_cut { "cut" } else { "whole" })
    }
}

/// The requests of each, with its name and whether it was made to drift; so many of the generated ones.
fn requests(setup: &Setup, count: usize) -> Result<Vec<(String, bool, Vec<Request>)>, LabError> {
    let mix = PolyMixOptions::new(Embedded::Zipf13, 100.0, setup.choose(WORKING_SET.0, WORKING_SET.1));
    let seed = setup.seed;
    let mut loads = vec![
        ("The mix".to_owned(), false, PolyMix::new(mix, seed).take(count).collect::<Vec<_>>()),
        ("Sites".to_owned(), true, Sites::new(SitesOptions::new(), seed).take(count).collect()),
        ("Days".to_owned(), true, Days::new(DaysOptions::new(), seed).take(count).collect()),
    ];
    for (number, path) in (1..).zip(&setup.traces) {
        let requests = read_trace(path)?.requests.into_iter().take(setup.choose(usize::MAX, count));
        loads.push((format!("Log {number}"), false, requests.collect()));
    }
    Ok(loads)
}
