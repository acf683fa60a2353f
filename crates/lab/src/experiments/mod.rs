//! The experiments, one a file, and the list of them.

mod cluster;
mod damelo;
mod deployments;
mod field;
mod generational;
mod hits;
mod index_size;
mod maltzahn;
mod own_log;
mod peers;
mod policies;
mod prefetch;
mod segmented;
mod table3;
mod throughput;

use crate::experiment::Experiment;

/// In the order in which they are listed. A constant might lie at several places, and an experiment is told by its place.
static ALL: &[Experiment] = &[
    table3::EXPERIMENT,
    index_size::EXPERIMENT,
    throughput::EXPERIMENT,
    hits::EXPERIMENT,
    prefetch::EXPERIMENT,
    deployments::EXPERIMENT,
    peers::EXPERIMENT,
    segmented::LATENCY,
    segmented::HITS,
    segmented::BREAK_EVEN,
    maltzahn::LOCALITY,
    maltzahn::LAYOUTS,
    maltzahn::REPLACEMENT,
    maltzahn::BESIDE_SQUID,
    damelo::MICRO,
    damelo::PROXY,
    cluster::READS,
    cluster::RACE,
    cluster::SCHEMES,
    cluster::PEERS,
    field::EXPERIMENT,
    policies::EXPERIMENT,
    policies::changes::EXPERIMENT,
    policies::memory::EXPERIMENT,
    policies::peers::EXPERIMENT,
    generational::LATENCY,
    generational::MANY,
    own_log::EXPERIMENT,
];

/// Every experiment, in the order in which they are listed.
pub fn all() -> &'static [Experiment] {
    ALL
}

/// The experiment of this name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    all().iter().find(|experiment| experiment.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_found_by_its_own_name() {
        for experiment in all() {
            assert!(std::ptr::eq(find(experiment.name).unwrap(), experiment), "{} is there twice", experiment.name);
            assert!(experiment.shows.len() < 110 && !experiment.shows.ends_with('.'));
        }
        assert!(find("no-such").is_none());
    }
}
