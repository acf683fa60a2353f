//! The store's own figures, as it counts them.

use prometheus::proto::MetricFamily;
use tinaja_store::{FigureKind, Stats, Times};

use super::family::{counter, gauge, times};

/// A name, what it means, and where it is read.
type Figure = (&'static str, &'static str, fn(&Stats) -> u64);

/// The same of times.
type Taken = (&'static str, &'static str, fn(&Stats) -> &Times);

/// What only grows.
const COUNTERS: [Figure; 24] = [
    ("tinaja_store_memory_hits_total", "Lookups answered from memory.", |stats| stats.hits_memory),
    ("tinaja_store_disk_hits_total", "Lookups answered from disk.", |stats| stats.hits_disk),
    ("tinaja_store_fill_hits_total", "Lookups answered from an unfinished write.", |stats| stats.hits_fill),
    ("tinaja_store_misses_total", "Lookups that found nothing.", |stats| stats.misses),
    ("tinaja_store_false_reads_total", "Records read that were another object's.", |stats| stats.false_reads),
    ("tinaja_store_timeouts_total", "Lookups given up at their deadline.", |stats| stats.timeouts),
    ("tinaja_store_stored_objects_total", "Objects stored.", |stats| stats.stored),
    ("tinaja_store_stored_bytes_total", "Bytes of the objects stored, heads and bodies.", |stats| stats.stored_bytes),
    ("tinaja_store_unstored_writes_total", "Writes that ended without an object stored.", |stats| stats.not_stored),
    ("tinaja_store_lost_objects_total", "Objects dropped because their set was full.", |stats| stats.lost_to_full_sets),
    ("tinaja_store_corrupt_records_total", "Records that failed their checksum; each was a miss.", |stats| {
        stats.corrupt
    }),
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
    ("tinaja_store_taken_objects_total", "Hot objects that the kernel took back.", |stats| stats.hot_taken),
    ("tinaja_store_laps_total", "Times the log has begun again at its start.", |stats| stats.lap),
];

/// What holds at this moment.
const GAUGES: [Figure; 12] = [
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
    ("tinaja_store_waiting_requests", "Requests to the disks that have not ended, queued or under way.", |stats| {
        stats.disk_waiting
    }),
    ("tinaja_store_waiting_lookups", "Lookups and readers that wait for a turn at a disk.", |stats| {
        stats.turns_waiting
    }),
    ("tinaja_store_stopped_engines", "Engines found broken: their disks are left alone until a restart.", |stats| {
        stats.engines_stopped
    }),
    ("tinaja_store_retired_disks", "Disks that are written to no more, since they fail.", |stats| stats.disks_retired),
];

/// How long requests to the disks took, the time in their queues included.
const TIMES: [Taken; 3] = [
    ("tinaja_store_read_duration_seconds", "Time that reads from the disks took.", |stats| &stats.read_times),
    ("tinaja_store_write_duration_seconds", "Time that writes to the disks took.", |stats| &stats.write_times),
    ("tinaja_store_sync_duration_seconds", "Time that syncs of the disks took.", |stats| &stats.sync_times),
];

/// All of them.
pub(super) fn families(stats: &Stats) -> Vec<MetricFamily> {
    let counters = COUNTERS.iter().map(|(name, help, figure)| counter(name, help, figure(stats)));
    let gauges = GAUGES.iter().map(|(name, help, figure)| gauge(name, help, figure(stats) as f64));
    let bits = [
        gauge(
            "tinaja_store_index_slot_bits",
            "Memory of the index for each entry it has room for.",
            stats.bits_per_slot(),
        ),
        gauge(
            "tinaja_store_index_object_bits",
            "Memory of the index for each object that it knows; 0 where it knows none.",
            stats.bits_per_live_object(),
        ),
    ];
    let of_engine = stats.of_engine.iter().map(|(figure, value)| match figure.kind {
        FigureKind::Counter => counter(&format!("tinaja_engine_{}_total", figure.name), figure.help, value),
        FigureKind::Cut => gauge(&format!("tinaja_engine_{}", figure.name), figure.help, value as f64),
    });
    let times = TIMES.iter().map(|(name, help, figure)| times(name, help, figure(stats)));
    counters.chain(gauges).chain(bits).chain(of_engine).chain(times).collect()
}
