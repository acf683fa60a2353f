//! The experiments, one a file.

mod index_size;
mod table3;

use crate::experiment::Experiment;

/// In the order in which they are listed.
pub const ALL: &[Experiment] = &[table3::EXPERIMENT, index_size::EXPERIMENT];
