//! Counters that every store keeps, exact since it was opened.

use super::{Counters, EngineFigures, Larger, Times};

/// What a store holds and what it has done since it was opened. Sizes are bytes; counters only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// The engine's name, empty for a store without one.
    pub engine: &'static str,
    /// Index entries there is room for.
    pub slots: u64,
    /// The mean object size by which a new cache's slots were counted.
    pub mean_object_bytes: u64,
    /// What only its engine counts.
    pub of_engine: EngineFigures,
    /// Objects that a lookup would look for, but for those that wait for their group; 0 for an engine without an index of all of them in memory.
    pub live_objects: u64,
    /// Objects dropped because their set had no free slot: those that the disk held when it was opened and that found
    /// none, and those since.
    pub lost_to_full_sets: u64,
    /// Bytes of the disk that objects may fill.
    pub capacity_bytes: u64,
    /// Bytes of the log written in this lap.
    pub frontier_bytes: u64,
    /// Times the log has wrapped since it was formatted.
    pub lap: u64,
    /// Memory allocated for the index, locks and padding included.
    pub index_bytes: u64,
    /// Bytes of hot objects held in memory, and how many may be held.
    pub hot_bytes: u64,
    /// The budget for hot objects.
    pub hot_budget_bytes: u64,
    /// Lookups answered with an object: from memory, from disk, from an unfinished write.
    pub hits_memory: u64,
    /// See [`Stats::hits_memory`].
    pub hits_disk: u64,
    /// See [`Stats::hits_memory`].
    pub hits_fill: u64,
    /// Lookups that found nothing.
    pub misses: u64,
    /// Records read for a lookup that turned out to be another object's.
    pub false_reads: u64,
    /// Requests to the device, and their bytes.
    pub reads: u64,
    /// Bytes read from the device.
    pub read_bytes: u64,
    /// Write requests to the device.
    pub writes: u64,
    /// Bytes written to the device.
    pub write_bytes: u64,
    /// Requests that did not start where the one before ended.
    pub seeks: u64,
    /// Requests to the devices that have not ended: those in their queues and those under way. It grows and falls.
    pub disk_waiting: u64,
    /// Lookups and readers that wait for a turn at a device. It grows and falls.
    pub turns_waiting: u64,
    /// How long reads from the devices took, the time in their queues included.
    pub read_times: Times,
    /// How long writes to the devices took.
    pub write_times: Times,
    /// How long their syncs took.
    pub sync_times: Times,
    /// Objects stored.
    pub stored: u64,
    /// Writes that ended otherwise: aborted by their writer, or refused by the store.
    pub not_stored: u64,
    /// Bytes of heads and bodies of the objects stored.
    pub stored_bytes: u64,
    /// Records that failed their checksum. Each was a miss.
    pub corrupt: u64,
    /// Snapshots, summaries, and records of regions without a summary, that did not verify when the store was opened:
    /// damaged since, or being written when the process or the power went.
    pub damaged_at_open: u64,
    /// Reads that the device failed. Each was a miss or an error to one reader.
    pub read_errors: u64,
    /// Writes that the device failed. Each poisoned its region, but for those of summaries.
    pub write_errors: u64,
    /// Syncs that the device failed. Each poisoned what had been written since the last good one.
    pub sync_errors: u64,
    /// Disks given up: [`crate::limits::MAX_WRITE_FAILURES`] writes or syncs in a row have failed. They are read on, but
    /// for one that has nothing but positions: what memory does not have of these is forgotten.
    pub disks_retired: u64,
    /// Engines that found one of their invariants broken: their disks are left alone until a restart.
    pub engines_stopped: u64,
    /// Lookups given up at their deadline.
    pub timeouts: u64,
    /// Bytes of records that were read because they are related to one that was asked for.
    pub ahead_bytes: u64,
    /// Those of them that were asked for then.
    pub ahead_used_bytes: u64,
    /// Those that were let go of and had not been asked for; the others are in memory still.
    pub ahead_wasted_bytes: u64,
    /// Hot objects that the kernel took back, as far as they were asked for since.
    pub hot_taken: u64,
    /// Bytes of stored objects that wait in memory for the rest of their group, to be written with it.
    pub gathered_bytes: u64,
    /// What a larger cache would find.
    pub larger: Larger,
}

impl Stats {
    /// What a device did.
    pub(crate) fn of_device(device: Counters) -> Stats {
        Stats {
            reads: device.reads,
            read_bytes: device.read_bytes,
            writes: device.writes,
            write_bytes: device.write_bytes,
            seeks: device.seeks,
            disk_waiting: device.waiting,
            read_times: device.read_times,
            write_times: device.write_times,
            sync_times: device.sync_times,
            ..Stats::default()
        }
    }

    /// Both together: counts and sizes add up, of two laps, means or cuts the larger counts.
    pub fn with(self, other: Stats) -> Stats {
        Stats {
            engine: if self.engine.is_empty() { other.engine } else { self.engine },
            lap: self.lap.max(other.lap),
            mean_object_bytes: self.mean_object_bytes.max(other.mean_object_bytes),
            of_engine: self.of_engine.and(other.of_engine),
            slots: self.slots + other.slots,
            live_objects: self.live_objects + other.live_objects,
            lost_to_full_sets: self.lost_to_full_sets + other.lost_to_full_sets,
            capacity_bytes: self.capacity_bytes + other.capacity_bytes,
            frontier_bytes: self.frontier_bytes + other.frontier_bytes,
            index_bytes: self.index_bytes + other.index_bytes,
            hot_bytes: self.hot_bytes + other.hot_bytes,
            hot_budget_bytes: self.hot_budget_bytes + other.hot_budget_bytes,
            hits_memory: self.hits_memory + other.hits_memory,
            hits_disk: self.hits_disk + other.hits_disk,
            hits_fill: self.hits_fill + other.hits_fill,
            misses: self.misses + other.misses,
            false_reads: self.false_reads + other.false_reads,
            reads: self.reads + other.reads,
            read_bytes: self.read_bytes + other.read_bytes,
            writes: self.writes + other.writes,
            write_bytes: self.write_bytes + other.write_bytes,
            seeks: self.seeks + other.seeks,
            disk_waiting: self.disk_waiting + other.disk_waiting,
            turns_waiting: self.turns_waiting + other.turns_waiting,
            read_times: self.read_times.with(other.read_times),
            write_times: self.write_times.with(other.write_times),
            sync_times: self.sync_times.with(other.sync_times),
            stored: self.stored + other.stored,
            not_stored: self.not_stored + other.not_stored,
            stored_bytes: self.stored_bytes + other.stored_bytes,
            corrupt: self.corrupt + other.corrupt,
            damaged_at_open: self.damaged_at_open + other.damaged_at_open,
            read_errors: self.read_errors + other.read_errors,
            write_errors: self.write_errors + other.write_errors,
            sync_errors: self.sync_errors + other.sync_errors,
            disks_retired: self.disks_retired + other.disks_retired,
            engines_stopped: self.engines_stopped + other.engines_stopped,
            timeouts: self.timeouts + other.timeouts,
            ahead_bytes: self.ahead_bytes + other.ahead_bytes,
            ahead_used_bytes: self.ahead_used_bytes + other.ahead_used_bytes,
            ahead_wasted_bytes: self.ahead_wasted_bytes + other.ahead_wasted_bytes,
            hot_taken: self.hot_taken + other.hot_taken,
            gathered_bytes: self.gathered_bytes + other.gathered_bytes,
            larger: self.larger.with(other.larger),
        }
    }

    /// Index memory per slot, in bits.
    pub fn bits_per_slot(&self) -> f64 {
        ratio(self.index_bytes * 8, self.slots)
    }

    /// Index memory per live object, in bits.
    pub fn bits_per_live_object(&self) -> f64 {
        ratio(self.index_bytes * 8, self.live_objects)
    }

    /// The share of slots in use, 0 to 1.
    pub fn fill(&self) -> f64 {
        ratio(self.live_objects, self.slots)
    }
}

pub(super) fn ratio(of: u64, to: u64) -> f64 {
    if to == 0 { 0.0 } else { of as f64 / to as f64 }
}
