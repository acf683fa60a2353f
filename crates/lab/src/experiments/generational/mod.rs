//! The engine `generational` at work: what clients notice of what it does by itself, and what it costs with many objects.

mod latency;
mod load;
mod many;
mod tables;
mod watch;
mod world;

use tinaja_store::engines;
use tinaja_store::layout::LogSection;

use crate::error::LabError;
use crate::report::Cell;
use crate::rig::Spec;

pub use latency::EXPERIMENT as LATENCY;
pub use many::EXPERIMENT as MANY;

/// A disk of the engine with so many bits of memory for each object that has room, or all of its index; and where its log begins.
fn cut(disk_bytes: u64, mean_object_bytes: u64, bits: Option<u64>) -> Result<(Spec, u64), LabError> {
    let mut spec = Spec { mean_object_bytes, ..Spec::new(engines::GENERATIONAL, disk_bytes) };
    if let Some(bits) = bits {
        spec.settings = spec.settings.with(&engines::INDEX_MEMORY, disk_bytes / mean_object_bytes * bits / 8);
    }
    let section = LogSection::decode(&spec.cut()?.section(), disk_bytes);
    let log_at = section.ok_or_else(|| LabError::failed("cutting the disk", "it has no log"))?.log.base;
    Ok((spec, log_at))
}

/// Bytes of one of the two areas of the index, which lie between the superblock and the log.
fn area_bytes(log_at: u64) -> u64 {
    (log_at - 4096) / 2
}

/// Where an index lies that has so many bits of memory for each object.
fn place(bits: Option<u64>) -> Cell {
    bits.map_or_else(|| "in memory".into(), |bits| Cell::from(format!("on disk, {bits} bits")))
}
