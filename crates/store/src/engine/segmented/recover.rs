//! Opening the log-structured cache: the index is made anew from the segments' summaries, and from the records of those
//! that have none.

use std::sync::Arc;

use super::index::Index;
use super::options::SegmentedOptions;
use crate::device::Device;
use crate::engine::{Kind, Place};
use crate::layout::Frontier;
use crate::layout::opening::{OpenedLog, open_log};

/// What was found: an index ready for use, and the frontier it goes on at.
pub struct Opened {
    pub index: Index,
    pub frontier: Arc<Frontier>,
    /// Parts of the disk that did not verify.
    pub damaged: u64,
}

/// Open what is on the device. Errors: the device's, as text.
pub fn open(device: &Arc<dyn Device>, options: &SegmentedOptions) -> Result<Opened, String> {
    let SegmentedOptions { layout, stamp, read_only, flush_every, .. } = *options;
    let entries = Some(options.entries());
    let OpenedLog { frontier, found, damaged } =
        open_log(device, layout, stamp, read_only, flush_every, Place(0), entries)?;
    let segments = frontier.segments().cloned().ok_or("the log has no segments")?;
    let index = Index::over(Index::room(options.slots), segments, layout);
    // In the order in which they were written: later versions replace earlier ones, and removals remove them.
    for entry in &found.entries {
        match entry.kind {
            Kind::Whole | Kind::Large => index.insert_low(entry.id_low, entry.place),
            Kind::Tombstone => index.remove_low(entry.id_low),
            Kind::Extent => {}
        }
    }
    Ok(Opened { index, frontier, damaged })
}
