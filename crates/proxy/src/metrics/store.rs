//! The store's own figures, as it counts them.

use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{IntCounter, IntGauge};
use tinaja_store::Stats;

/// A name, what it means, and where it is read.
type Figure = (&'static str, &'static str, fn(&Stats) -> u64);

/// What only grows.
const COUNTERS: [Figure; 24] = [
    ("tinaja_store_memory_hits_total", "Lookups answered from memory.", |stats| stats.hits_memory),
    ("tinaja_store_disk_hits_total", "Lookups answered from disk.", |stats| stats.hits_disk),
    ("tinaja_store_fill_hits_total", "Lookups answered from an unfinished write.", |stats| stats.hits_fill),
    ("tinaja_store_misses_total", "Lookups that found nothing.", |stats| stats.misses),
    ("tinaja_store_false_reads_total", "Records read that were another object's.", |stats| stats.false_reads),
    ("tinaja_store_timeouts_total", "Lookups given up at their deadline.", |stats| stats.timeouts),
    ("tinaja_store_stored_total", "Objects stored.", |stats| stats.stored),
    ("tinaja_store_stored_bytes_total", "Bytes of the objects stored, heads and bodies.", |stats| stats.stored_bytes),
    ("tinaja_store_not_stored_total", "Writes that ended without an object stored.", |stats| stats.not_stored),
    ("tinaja_store_lost_to_full_sets_total", "Objects dropped because their set was full.", |stats| {
        stats.lost_to_full_sets
    }),
    ("tinaja_store_corrupt_total", "Records that failed their checksum; each was a miss.", |stats| stats.corrupt),
    ("tinaja_store_reads_total", "Read requests to the disks.", |stats| stats.reads),
    ("tinaja_store_read_bytes_total", "Bytes read from the disks.", |stats| stats.read_bytes),
    ("tinaja_store_writes_total", "Write requests to the disks.", |stats| stats.writes),
    ("tinaja_store_write_bytes_total", "Bytes written to the disks.", |stats| stats.write_bytes),
    ("tinaja_store_seeks_total", "Requests that did not begin where the one before ended.", |stats| stats.seeks),
    ("tinaja_store_read_errors_total", "Reads that a disk failed.", |stats| stats.read_errors),
    ("tinaja_store_write_errors_total", "Writes that a disk failed.", |stats| stats.write_errors),
    ("tinaja_store_sync_errors_total", "Syncs that a disk failed.", |stats| stats.sync_errors),
    ("tinaja_store_ahead_bytes_total", "Bytes read since they are related to what was asked for.", |stats| {
        stats.ahead_bytes
    }),
    ("tinaja_store_ahead_used_bytes_total", "Bytes of those that were asked for then.", |stats| stats.ahead_used_bytes),
    ("tinaja_store_ahead_wasted_bytes_total", "Bytes of those that were let go unasked.", |stats| {
        stats.ahead_wasted_bytes
    }),
    ("tinaja_store_hot_taken_total", "Hot objects that the kernel took back.", |stats| stats.hot_taken),
    ("tinaja_store_laps_total", "Times the log has begun again at its start.", |stats| stats.lap),
];

/// What holds at this moment.
const GAUGES: [Figure; 9] = [
    ("tinaja_store_slots", "Index entries there is room for.", |stats| stats.slots),
    ("tinaja_store_live_objects", "Objects that the index knows.", |stats| stats.live_objects),
    ("tinaja_store_index_bytes", "Memory of the index.", |stats| stats.index_bytes),
    ("tinaja_store_hot_bytes", "Memory of hot objects in use.", |stats| stats.hot_bytes),
    ("tinaja_store_hot_budget_bytes", "Memory that hot objects may use.", |stats| stats.hot_budget_bytes),
    ("tinaja_store_gathered_bytes", "Stored objects that wait for their group, to be written with it.", |stats| {
        stats.gathered_bytes
    }),
    ("tinaja_store_capacity_bytes", "Disk that objects may fill.", |stats| stats.capacity_bytes),
    ("tinaja_store_frontier_bytes", "Log written in this lap.", |stats| stats.frontier_bytes),
    ("tinaja_store_disks_retired", "Disks that are written to no more, since they fail.", |stats| stats.disks_retired),
];

/// All of them.
///
/// Errors: a name that Prometheus does not take, which is a mistake of ours.
pub(super) fn families(stats: &Stats) -> prometheus::Result<Vec<MetricFamily>> {
    let mut families = Vec::with_capacity(COUNTERS.len() + GAUGES.len());
    for (name, help, figure) in COUNTERS {
        let counter = IntCounter::new(name, help)?;
        counter.inc_by(figure(stats));
        families.extend(counter.collect());
    }
    for (name, help, figure) in GAUGES {
        let gauge = IntGauge::new(name, help)?;
        gauge.set(i64::try_from(figure(stats)).unwrap_or(i64::MAX));
        families.extend(gauge.collect());
    }
    Ok(families)
}
