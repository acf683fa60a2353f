//! What a crash left of the log's last regions.
//!
//! A bin may last while the part of its object in the log does not, both unflushed. Whoever finds such an object must
//! know before its answer begins. Regions with a summary last as a whole; of the others the walk at opening says what
//! was there.

use std::collections::HashSet;

use crate::engine::Place;
use crate::layout::LogLayout;
use crate::layout::walk::Walked;

/// Memory: 8 bytes for each record in a region that had no summary, which are a few.
pub(super) struct Survivors {
    layout: LogLayout,
    /// From here on the log is written by this process.
    next: Place,
    regions: HashSet<Place>,
    records: HashSet<Place>,
}

impl Survivors {
    pub(super) fn of(layout: LogLayout, next: Place, unsealed: &[Walked]) -> Self {
        let regions = unsealed.iter().map(|walked| walked.region).collect();
        let records = unsealed.iter().flat_map(|walked| walked.records.iter().copied()).collect();
        Survivors { layout, next, regions, records }
    }

    /// Whether the record at a place was there when the log was opened, or is younger.
    pub(super) fn has(&self, place: Place) -> bool {
        place >= self.next || !self.regions.contains(&self.layout.region_of(place)) || self.records.contains(&place)
    }
}
