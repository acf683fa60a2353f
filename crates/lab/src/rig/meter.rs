//! What the counters and clocks of a rig say.

use std::time::Duration;

use tinaja_store::device::wrap::{Detail, KindCounters};
use tinaja_store::{Cache, Stats, Store};

use super::Spindle;

/// All counters and clocks at one moment, or what they gained between two.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// Reads of all disks.
    pub reads: KindCounters,
    /// Writes of all disks.
    pub writes: KindCounters,
    /// What the store says.
    pub stats: Stats,
    /// How long each disk was busy, by each model.
    busy: Vec<Vec<Duration>>,
}

impl Reading {
    pub(super) fn of(store: &Cache, spindles: &[Spindle]) -> Reading {
        let details: Vec<Detail> = spindles.iter().map(|spindle| spindle.counted.detail()).collect();
        let busy = |spindle: &Spindle| spindle.limited.iter().map(|limited| limited.busy()).collect();
        Reading {
            reads: sum(details.iter().map(|detail| detail.reads)),
            writes: sum(details.iter().map(|detail| detail.writes)),
            stats: store.stats(),
            busy: spindles.iter().map(busy).collect(),
        }
    }

    /// How long the disk that was busy longest was so, by the model of this number: no load can be carried faster.
    pub fn busy(&self, model: usize) -> Duration {
        self.busy.iter().filter_map(|disk| disk.get(model)).max().copied().unwrap_or_default()
    }

    /// What was gained since an earlier reading. Of the store's figures, counters of lookups, of false reads and of reading ahead are
    /// the gain, and all others what they are now.
    pub fn since(&self, before: &Reading) -> Reading {
        let disks = self.busy.iter().zip(&before.busy);
        let gained = |(now, before): (&Vec<Duration>, &Vec<Duration>)| {
            now.iter().zip(before).map(|(now, before)| now.saturating_sub(*before)).collect()
        };
        Reading {
            reads: less(&self.reads, &before.reads),
            writes: less(&self.writes, &before.writes),
            stats: Stats {
                hits_memory: self.stats.hits_memory - before.stats.hits_memory,
                hits_disk: self.stats.hits_disk - before.stats.hits_disk,
                hits_fill: self.stats.hits_fill - before.stats.hits_fill,
                misses: self.stats.misses - before.stats.misses,
                false_reads: self.stats.false_reads - before.stats.false_reads,
                ahead_bytes: self.stats.ahead_bytes - before.stats.ahead_bytes,
                ahead_used_bytes: self.stats.ahead_used_bytes - before.stats.ahead_used_bytes,
                ahead_wasted_bytes: self.stats.ahead_wasted_bytes - before.stats.ahead_wasted_bytes,
                lost_to_full_sets: self.stats.lost_to_full_sets - before.stats.lost_to_full_sets,
                ..self.stats
            },
            busy: disks.map(gained).collect(),
        }
    }
}

/// Requests to all disks, or what they gained. A seek is a request that did not begin where the one before ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Reads.
    pub reads: u64,
    /// Those of them that were seeks.
    pub read_seeks: u64,
    /// Writes.
    pub writes: u64,
    /// Those of them that were seeks.
    pub write_seeks: u64,
}

impl Requests {
    /// What was gained since.
    pub fn since(self, before: Requests) -> Requests {
        Requests {
            reads: self.reads - before.reads,
            read_seeks: self.read_seeks - before.read_seeks,
            writes: self.writes - before.writes,
            write_seeks: self.write_seeks - before.write_seeks,
        }
    }

    /// Both together.
    pub fn with(self, other: Requests) -> Requests {
        Requests {
            reads: self.reads + other.reads,
            read_seeks: self.read_seeks + other.read_seeks,
            writes: self.writes + other.writes,
            write_seeks: self.write_seeks + other.write_seeks,
        }
    }
}

fn sum(kinds: impl Iterator<Item = KindCounters>) -> KindCounters {
    kinds.fold(KindCounters::default(), |mut all, one| {
        all.requests += one.requests;
        all.bytes += one.bytes;
        all.failed += one.failed;
        all.seeks += one.seeks;
        all.way_bytes += one.way_bytes;
        all.sizes.iter_mut().zip(one.sizes).for_each(|(all, one)| *all += one);
        all
    })
}

fn less(now: &KindCounters, before: &KindCounters) -> KindCounters {
    let mut gained = *now;
    gained.requests -= before.requests;
    gained.bytes -= before.bytes;
    gained.failed -= before.failed;
    gained.seeks -= before.seeks;
    gained.way_bytes -= before.way_bytes;
    gained.sizes.iter_mut().zip(before.sizes).for_each(|(now, before)| *now -= before);
    gained
}
