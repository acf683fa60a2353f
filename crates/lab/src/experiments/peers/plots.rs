//! What was measured, as pictures.

use super::runs::{LIMIT, Ran};
use super::tables::paper;
use crate::load::Embedded;
use crate::peers::{Peer, percentile};
use crate::report::{Plot, Series};

/// Three pictures of each load that was run.
pub fn all(ran: &[Ran]) -> Vec<Plot> {
    let mut plots = Vec::new();
    for embedded in [Embedded::Zipf13, Embedded::TenToTwenty] {
        let of_it: Vec<_> = ran.iter().filter(|ran| ran.embedded == embedded).collect();
        if !of_it.is_empty() {
            plots.extend([figure_3(&of_it), figure_5(&of_it), hit_times(&of_it)]);
        }
    }
    plots
}

/// Bars of runs of one load, which the title names.
fn bars(title: &str, y: &str, ran: &[&Ran], series: Vec<Series>) -> Plot {
    let groups = ran.iter().map(|ran| short(ran.peer)).collect();
    let a_page = ran.first().map_or("", |ran| ran.embedded.a_page());
    Plot::Bars { title: format!("{title}, {a_page} objects a page"), y: y.into(), groups, series }
}

/// Names that have room below bars.
fn short(peer: Peer) -> String {
    peer.name()
        .replace("hashcache-", "")
        .replace(" + prefetch", "+p")
        .replace("Traffic Server", "TS")
        .replace("Squid, ", "Squid ")
        .replace(", new file", " new")
}

fn series(name: &str, ran: &[&Ran], height: impl Fn(&Ran) -> f64) -> Series {
    Series::bars(name, ran.iter().map(|ran| height(ran)))
}

fn figure_3(ran: &[&Ran]) -> Plot {
    let measured = series("measured", ran, |ran| ran.peak.tally.rate());
    let shared = series("if reads and writes share the limit", ran, |ran| ran.peak.rate_of_one_arm(LIMIT));
    let paper = series("paper's Figure 3", ran, |ran| paper(ran.peer).unwrap_or_default());
    bars("Peak requests a second on one limited disk", "requests/s", ran, vec![measured, shared, paper])
}

fn figure_5(ran: &[&Ran]) -> Plot {
    let seconds = |ran: &Ran| ran.peak.tally.span.as_secs_f64().max(1e-9);
    let user = series("user CPU, % of a core", ran, |ran| ran.peak.processes.user_s * 100.0 / seconds(ran));
    let system = series("system CPU, % of a core", ran, |ran| ran.peak.processes.system_s * 100.0 / seconds(ran));
    let memory = series("peak memory, MB", ran, |ran| ran.timed.processes.peak_bytes as f64 / 1e6);
    let disk = series("disk, % of its limit", ran, |ran| ran.peak.disk_busy(LIMIT) * 100.0);
    bars("What it takes at the peak", "% or MB", ran, vec![user, system, memory, disk])
}

fn hit_times(ran: &[&Ran]) -> Plot {
    let at = |percent: f64| move |ran: &Ran| percentile(&ran.timed.tally.hit_times, percent).unwrap_or_default();
    let all = vec![series("median", ran, at(50.0)), series("95 %", ran, at(95.0))];
    bars("Times of hits at four fifths of the peak", "ms", ran, all)
}
