//! The experiments, one a file.

mod deployments;
mod hits;
mod index_size;
mod peers;
mod prefetch;
mod segmented;
mod table3;
mod throughput;

use crate::experiment::Experiment;

/// In the order in which they are listed.
pub const ALL: &[Experiment] = &[
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
];
